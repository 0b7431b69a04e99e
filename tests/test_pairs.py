"""The model-op table that the capture learned, against what the module frames of the same trace say."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

import hotline_analysis as ha
from hotline_analysis import ModelMismatchError

PAIRS = Path(__file__).parent / "data" / "pairs"
NAMES = sorted(path.name.removesuffix("_frames.json.gz") for path in PAIRS.glob("*_frames.json.gz"))

Event = dict[str, Any]


def content(name: str) -> dict[str, Any]:
    with gzip.open(PAIRS / name, "rt", encoding="utf-8") as stream:
        trace: dict[str, Any] = json.load(stream)
    return trace


def end(event: Event) -> float:
    return float(event["ts"]) + float(event["dur"])


def inside(events: list[Event], outer: Event) -> list[Event]:
    """Events of the same thread within another, outer before inner."""
    found = [
        event
        for event in events
        if event["tid"] == outer["tid"] and event["ts"] >= outer["ts"] and end(event) <= end(outer)
    ]
    return sorted(found, key=lambda event: (event["ts"], -event["dur"]))


def forward_passes(trace: dict[str, Any]) -> list[list[tuple[str, str]]]:
    """For each call of the root module: the ops that no op contains, with the type of the module that calls them."""
    events = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    ops = [event for event in events if event["cat"] == "cpu_op"]
    frames = [event for event in events if event["name"].startswith("nn.Module: ")]
    root = f"nn.Module: {trace['hotline_model']['modules'][0]['type']}_"
    passes = []
    for call in (frame for frame in frames if frame["name"].startswith(root)):
        called, reached = [], 0.0
        modules = inside(frames, call)
        for op in inside(ops, call):
            if op["ts"] >= reached:
                reached = end(op)
                around = [frame for frame in modules if frame["ts"] <= op["ts"] and end(frame) >= end(op)]
                called.append((op["name"], around[-1]["name"].split()[1].rpartition("_")[0]))
        passes.append(called)
    return passes


@pytest.mark.parametrize("name", NAMES)
def test_learned_ops_are_those_of_the_measured_steps(name: str) -> None:
    trace = content(f"{name}_frames.json.gz")
    table = trace["hotline_model"]
    types = [module["type"] for module in table["modules"]]
    learned = [(op["name"], types[op["module_id"]]) for op in table["ops"]]
    passes = forward_passes(trace)
    assert len(passes) == (4 if "accumulate" in name else 2)
    assert all(called == learned for called in passes)


@pytest.mark.parametrize("name", NAMES)
def test_both_traces_of_a_pair_hold_the_same_table(name: str) -> None:
    frames, plain = content(f"{name}_frames.json.gz"), content(f"{name}_plain.json.gz")
    assert frames["hotline_model"] == plain["hotline_model"]
    assert not any(event.get("cat") == "python_function" for event in plain["traceEvents"])


@pytest.mark.parametrize("name", NAMES)
def test_the_table_is_whole(name: str) -> None:
    table = content(f"{name}_plain.json.gz")["hotline_model"]
    modules = table["modules"]
    assert (table["version"], table["order"], table["notes"]) == (1, "execution", [])
    assert [module["module_id"] for module in modules] == list(range(len(modules)))
    assert [module["module_id"] for module in modules if module["parent_id"] is None] == [0]
    assert all(module["parent_id"] < module["module_id"] for module in modules[1:])
    assert sum(parameter["numel"] for parameter in table["parameters"]) == modules[0]["param_count"]
    assert all(modules[op["module_id"]]["calls"] > op["call"] for op in table["ops"])
    assert all(modules[parameter["module_id"]]["calls"] for parameter in table["parameters"])


OTHERS = {
    "one layer": [("fc", "Linear")],
    "one norm": [("norm", "LayerNorm")],
    "two layers": [(f"layers.{number}", "Linear") for number in range(2)],
    "convolutions": [("conv1", "Conv2d"), ("relu", "ReLU"), ("conv2", "Conv2d"), ("fc", "Linear")],
}


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("name", ["gnn", "seq2seq", "transformer"])
@pytest.mark.sampled
def test_a_small_model_is_not_found_in_a_larger_one(name: str, other: str, tmp_path: Path) -> None:
    """Its layers do not run again and again: each op has parameters of its own, which only shows in backward."""
    model = tmp_path / "model.json"
    model.write_text(json.dumps([{"name": path, "type": kind} for path, kind in OTHERS[other]]))
    with pytest.raises(ModelMismatchError, match="does not fit the trace"):
        ha.load(PAIRS / f"{name}_plain.json.gz", model=model)


@pytest.mark.parametrize(("name", "other"), [("transformer", "resnet50"), ("seq2seq", "dlrm"), ("resnet50", "unet")])
def test_the_table_of_another_model_does_not_fit(name: str, other: str, tmp_path: Path) -> None:
    model = tmp_path / "model.json"
    model.write_text(json.dumps(content(f"{other}_plain.json.gz")["hotline_model"]))
    with pytest.raises(ModelMismatchError, match="does not fit the trace"):
        ha.load(PAIRS / f"{name}_plain.json.gz", model=model)
