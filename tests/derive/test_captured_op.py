"""Arguments that a capture has stored with a model: where they count, and that damage among them is no error."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import hotline_analysis as ha
from hotline_analysis.annotation.model_file import parse_model
from hotline_analysis.annotation.model_shapes import parse_shapes
from hotline_analysis.run.trace import Trace
from tests.derive.tables import every_table
from tests.trace_builder import TraceBuilder

LINEAR = [[[4, 16], [8, 16]], ["float", "float"], [[16, 1], [16, 1]], ["", ""]]
MM = [[[4, 16], [16, 8]], ["float", "float"], [[16, 1], [1, 16]], ["", ""]]
GRADIENT = [[[4, 8], [8, 16]], ["float", "float"], [[8, 1], [16, 1]], ["", ""]]
MODEL: dict[str, Any] = {
    "order": "execution",
    "modules": [{"name": "net", "type": "Linear", "path": "net"}],
    "ops": [{"name": "aten::linear", "module_id": 0, "call": 0}],
    "shapes": {
        "names": ["aten::linear", "aten::mm", "autograd::engine::evaluate_function: MmBackward0", "MmBackward0"],
        "arguments": [LINEAR, MM, GRADIENT],
        "trees": [[0, 0, 1, 1], [2, -1, 3, -1, 1, 2]],
        "ops": [0],
        "nodes": [[0, 1, 1]],
    },
}


def loaded(folder: Path, shapes: object, inner: str = "aten::mm") -> Trace:
    """Two passes of a linear layer; what runs in the second one's may be another op."""
    trace = TraceBuilder(rank=0).step(0, 0, 1000)
    trace.top["hotline_model"] = MODEL | {"shapes": shapes}
    for at, name, seq in ((100, "aten::mm", 1), (500, inner, 2)):
        trace.on(1).op("aten::linear", at, at + 50, seq=seq).op(name, at + 10, at + 40, seq=seq)
        trace.on(2).backward("MmBackward0", at + 100, at + 190, seq=seq).op("aten::mm", at + 120, at + 170)
    return trace.load(folder)


def work(trace: Trace) -> list[tuple[Any, ...]]:
    return trace.sql(
        "select event.name, event.start_ns, matrix_flop, bytes, evidence, is_outermost from op_work"
        " inner join event using (rank, event_id) order by event.start_ns"
    ).rows()


# 2 x 4 x 8 x 16 FLOP each; three matrices of 4 bytes: 4x16, 16x8, 4x8.
FLOP, BYTES = 1024, 4 * (64 + 128 + 32)


def test_ops_and_nodes_that_ran_as_they_were_learned_have_their_arguments(tmp_path: Path) -> None:
    found = work(loaded(tmp_path, MODEL["shapes"]))
    assert found == [("aten::mm", 1000 * at, FLOP, BYTES, "captured", True) for at in (110, 220, 510, 620)]


def test_an_op_with_other_ops_in_it_has_none_and_neither_has_its_node(tmp_path: Path) -> None:
    found = work(loaded(tmp_path, MODEL["shapes"], inner="aten::bmm"))
    assert [(name, start) for name, start, *_ in found] == [("aten::mm", 110_000), ("aten::mm", 220_000)]


def test_answers_have_these_shapes_and_the_finding_says_whose_they_are(tmp_path: Path) -> None:
    trace = TraceBuilder(rank=0, deviceProperties=[{"id": 0, "name": "NVIDIA H100 80GB HBM3", "numSms": 132}])
    trace.step(0, 0, 1000).op("aten::linear", 100, 150, seq=1).op("aten::mm", 110, 140, seq=1)
    trace.launches("ampere_sgemm_32x32_sliced1x4_tn", 200, 210)
    trace.top["hotline_model"] = MODEL
    loaded = trace.load(tmp_path)
    row = ha.roofline(loaded, by="shape").row(0, named=True)
    assert (row["name"], row["shape"]) == ("aten::mm", "[4,16],[16,8]")
    assert row["tflop_per_s"] == pytest.approx(FLOP / 10_000 / 1000)
    assert "pass before the recording" in ha.gpu_efficiency(loaded).statement
    trace.top["hotline_model"] = MODEL | {"shapes": None}
    assert "capture with analyze(model)" in ha.gpu_efficiency(trace.load(tmp_path, "without.json")).statement


def learned(folder: Path, sql: str, inner: str = "aten::mm") -> list[tuple[Any, ...]]:
    """The rows of a statement over the tables that only serve `captured_op`."""
    model = parse_model(MODEL, "here", stored=True)
    with loaded(folder, MODEL["shapes"], inner) as trace, every_table(trace, model) as connection:
        return connection.sql(sql).fetchall()


def test_placed_root_is_an_op_whose_call_ran_as_it_was_learned(tmp_path: Path) -> None:
    sql = "select start_ns // 1000, end_ns // 1000, op_number, tree_id from placed_root order by start_ns"
    assert learned(tmp_path, sql) == [(100, 150, 0, 0), (500, 550, 0, 0)]


CALLS = (
    "select event.name, event.start_ns // 1000, argument_id from {} inner join event using (event_id)"
    " order by event.start_ns"
)


@pytest.mark.parametrize(("inner", "starts"), [("aten::mm", (100, 500)), ("aten::bmm", (100,))])
def test_placed_call_and_node_call_have_what_was_learned_of_each(
    tmp_path: Path, inner: str, starts: tuple[int, ...]
) -> None:
    """Where the op holds another one than when it was learned, neither it nor its node is known."""
    assert learned(tmp_path, CALLS.format("placed_call"), inner) == [
        row for at in starts for row in (("aten::linear", at, 0), ("aten::mm", at + 10, 1))
    ]
    nodes = learned(tmp_path, CALLS.format("node_call"), inner)
    assert [row for row in nodes if row[2] >= 0] == [("aten::mm", at + 120, 2) for at in starts]
    assert {name for name, _, argument in nodes if argument < 0} == {
        *("MmBackward0", "autograd::engine::evaluate_function: MmBackward0")
    }


def changed(*path: Any, to: Any) -> Any:
    """The stored shapes with one value changed."""
    shapes = copy.deepcopy(MODEL["shapes"])
    at = shapes
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = to
    return shapes


REFUSED = {
    "no object": [],
    "no lists": dict.fromkeys(MODEL["shapes"], 3),
    "a name that is none": changed("names", 0, to=7),
    "a tree beyond": changed("ops", 0, to=9),
    "a tree below": changed("ops", 0, to=-1),
    "a tree that is odd": changed("trees", 0, to=[0]),
    "a tree of booleans": changed("trees", 0, to=[False, True]),
    "an empty tree": changed("trees", 1, to=[]),
    "a name beyond": changed("trees", 0, 0, to=99),
    "a huge number": changed("trees", 0, 1, to=10**30),
    "too many ops": changed("ops", to=[0, 0]),
    "a short node": changed("nodes", 0, to=[0]),
}
DEEP = json.loads("[" * 99 + "]" * 99)
LEFT_OUT = {
    "negative sizes": changed("arguments", 0, 0, to=[[-4, 16], [8, 16]]),
    "larger sizes": changed("arguments", 0, 0, to=[[2**70, 16], [8, 16]]),
    "sizes that are text": changed("arguments", 0, 0, to=["x", {"y": 1}]),
    "no number": changed("arguments", 0, 0, to=[[float("nan"), 16], [8, 16]]),
    "deep sizes": changed("arguments", 0, 0, to=[DEEP, [8, 16]]),
    "types that are none": changed("arguments", 0, 1, to=[None, 4]),
    "a type that is no text": changed("arguments", 0, 1, to=["\ud800", "float"]),
    "lists of other lengths": changed("arguments", 0, 2, to=[[16, 1]]),
    "three lists": changed("arguments", 0, to=LINEAR[:3]),
}
LOADED = {
    "no object": [],
    "a name that is no text": changed("names", 0, to="\ud800"),
    "an argument beyond": changed("trees", 0, 1, to=2**62),
    "a node of no op": changed("nodes", 0, to=[77, 1, 1]),
    "nodes that are one": changed("nodes", to=[[0, 1, 1], [0, 1, 1]]),
    "huge sizes": changed("arguments", 0, 0, to=[[2**62, 2**62], [8, 2**62]]),
    "deep sizes": changed("arguments", 0, 0, to=[DEEP, [8, 16]]),
}
OPS = [("aten::linear", 0, 0)]


@pytest.mark.parametrize("shapes", REFUSED.values(), ids=REFUSED.keys())
def test_what_no_capture_writes_is_left_out_as_a_whole(shapes: object) -> None:
    assert parse_shapes(shapes, OPS) is None


@pytest.mark.parametrize("shapes", LEFT_OUT.values(), ids=LEFT_OUT.keys())
def test_arguments_that_are_damaged_are_left_out_alone(shapes: object) -> None:
    parsed = parse_shapes(shapes, OPS)
    assert parsed is not None
    assert parsed["given_argument"]["argument_id"].to_pylist() == [1, 2]


@pytest.mark.parametrize("shapes", LOADED.values(), ids=LOADED.keys())
def test_damage_is_no_error_and_gives_no_other_figures(shapes: object, tmp_path: Path) -> None:
    trace = loaded(tmp_path, shapes)
    assert trace.sql("select count(*) from module_span").item() > 0  # the model counts all the same
    assert all(row[:1] + row[2:] == ("aten::mm", FLOP, BYTES, "captured", True) for row in work(trace))
    assert isinstance(trace.sql("from captured_op"), pl.DataFrame)
