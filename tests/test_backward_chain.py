"""The chain of gradients in backward: by hand, and against the graphs of autograd of the example models."""

# mypy: disallow-subclassing-any=False, warn-return-any=False, warn-unused-ignores=False, disallow-untyped-calls=False

from __future__ import annotations

import importlib.util
import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import hotline_analysis as ha
from hotline_analysis.prediction.studies.backward import _shapes
from tests.trace_builder import TraceBuilder

US = 1000
ROOT = Path(__file__).parents[1]
EXACT = {"cnn", "resnet50", "transformer", "dlrm", "gnn", "unet", "mlp", "colours"}
"""Recurrent cells that are written out in single ops have many results of one shape, so their chain seems longer."""


def shaped(*dims: list[int]) -> dict[str, Any]:
    return {"Input Dims": list(dims), "Input type": ["float"] * len(dims)}


def training(length: int, width: int, shapes: bool = True) -> TraceBuilder:
    """Steps of 100 us of forward and of one op after another in backward, each of which launches 20 us of work.

    The last op of forward reads the result before it and that of the first op.
    """
    trace = TraceBuilder(rank=0)
    step_us = 100 + 20 * length
    for number in range(4):
        at = number * step_us
        trace.on(1).step(number, at, at + step_us)
        trace.annotation("## forward ##", at, at + 90)
        for place in range(length):
            dims = shaped([8, width]) if place < length - 1 else shaped([8, width], [8, width])
            trace.op(
                "aten::tanh",
                at + 2 * place,
                at + 2 * place + 1,
                seq=length * number + place,
                **(dims if shapes else {}),
            )
        trace.on(2)
        for place in range(length):
            begin = at + 100 + 20 * place
            seq = length * number + length - 1 - place
            trace.op("autograd::engine::evaluate_function: TanhBackward0", begin, begin + 18, seq=seq, forward_thread=1)
            made = shaped([8, width]) if shapes else {}
            trace.op("TanhBackward0", begin, begin + 18, seq=seq, forward_thread=1, **made)
            trace.launches("tanh_backward", begin + 2, begin + 22, at=begin + 1, until=begin + 2)
    return trace


def chain(folder: Path, length: int, width: int, *, shapes: bool = True, **asked: int) -> dict[str, Any]:
    trace = training(length, width, shapes).load(folder)
    return ha.backward_chain(trace, **asked).row(0, named=True)


def test_a_chain_by_hand(tmp_path: Path) -> None:
    """32 nodes of 20 us in steps of 740 us: a scan of 32 workers takes 1 + 2 · 5 steps, one of four 8 + 2 · 2."""
    found = chain(tmp_path, 32, 2)
    assert (found["node_count"], found["length"], found["evidence"]) == (32, 32, "shapes")
    assert (found["backward_ns"], found["weighty_count"], found["workers"]) == (640 * US, 32, 32)
    assert found["chain_gain"] == pytest.approx(32 / 11)
    share = 640 * US / found["step_ns"]
    assert found["step_gain"] == pytest.approx(1 / (1 - share + share * 11 / 32))
    assert found["dense_gain"] == pytest.approx(32 / 11 / 2)
    assert found["reason"] is None
    (tmp_path / "b").mkdir()
    few = chain(tmp_path / "b", 32, 2, workers=4)
    assert few["chain_gain"] == pytest.approx(32 / 12)


def test_wide_layers_make_it_pointless(tmp_path: Path) -> None:
    found = chain(tmp_path, 16, 512)
    assert found["width"] == 512
    assert found["dense_gain"] == pytest.approx(16 / (1 + 2 * math.log2(16)) / 512)
    assert "512 times as long" in found["reason"]


def test_a_scan_is_never_slower_than_a_chain(tmp_path: Path) -> None:
    """Three workers of three nodes: 1 + 2 · log₂ 3 is more than three steps, so one after the other is better."""
    found = chain(tmp_path, 3, 2)
    assert found["chain_gain"] == 1
    assert "its chain has 3 nodes" in found["reason"]


def test_without_shapes_all_nodes_count(tmp_path: Path) -> None:
    found = chain(tmp_path, 16, 2, shapes=False)
    assert (found["length"], found["evidence"], found["width"], found["dense_gain"]) == (16, "order", None, None)


def test_all_steps_are_asked_about_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A trace can have thousands of steps."""
    asked: list[str] = []
    query = ha.Trace.query

    def counted(trace: ha.Trace, name: str, **parameters: object) -> pl.DataFrame:
        asked.append(name)
        return query(trace, name, **parameters)

    with training(4, 8).load(tmp_path) as trace:
        monkeypatch.setattr(ha.Trace, "query", counted)
        found = ha.backward_chain(trace)
        assert asked.count("backward_node") == 1
        assert found.height > 1
        alone = [ha.backward_chain(trace, step=step) for step in found["step"]]
    assert found.equals(pl.concat(alone))


def test_what_cannot_be_told(tmp_path: Path) -> None:
    trace = (
        TraceBuilder(rank=0).step(0, 0, 10).op("aten::mm", 1, 5).step(1, 10, 20).op("aten::mm", 11, 15).load(tmp_path)
    )
    with pytest.raises(ha.HotlineError, match="no backward pass"):
        ha.backward_chain(trace)
    with pytest.raises(ha.QueryParameterError, match="whole number from 1 on"):
        ha.backward_chain(trace, workers=0)


@pytest.mark.long
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch")
def test_the_chain_is_the_longest_path_of_autograd(tmp_path: Path) -> None:
    """Of ten models: nodes are those of the graph, and the length is that of its longest path in eight of them."""
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.autograd_truth", str(tmp_path)],
        cwd=ROOT, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-2000:]
    truth = json.loads((tmp_path / "truth.json").read_text())
    assert set(truth) > EXACT
    for name, (longest, count) in truth.items():
        with ha.load(tmp_path / f"{name}.json") as trace:
            found = ha.backward_chain(trace).row(0, named=True)
        assert found["node_count"] == count, name
        if name in EXACT:
            assert found["length"] == longest, name
        else:
            assert longest < found["length"] < count, name


@pytest.mark.parametrize(
    ("text", "types", "shapes"),
    [
        ("[[2, 3], [], [4]]", None, [(2, 3), (), (4,)]),
        ("[[2, 3], [], [4]]", '["float", "Scalar", "float"]', [(2, 3), (4,)]),
        ("[[[2, 3], [4]], [5]]", '["TensorList", "float"]', [(2, 3), (4,), (5,)]),
        ('[[1, "x"], [2, 3], [[4], [[5]]], 7, null]', "3", [(2, 3), (4,)]),
        ('{"a": 1}', None, []),
        ("[[2, 3", None, []),  # cut
        ("[" * 100_000, None, []),
    ],
)
def test_what_is_no_shape_is_left_out(text: str, types: str | None, shapes: list[tuple[int, ...]]) -> None:
    assert _shapes(text, types) == shapes
