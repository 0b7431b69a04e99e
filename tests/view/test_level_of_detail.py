"""The tree that people look at: what is a node, whose child it is, what it takes, and what is grouped."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import hotline_analysis as ha
from hotline_analysis import QueryParameterError, Trace
from hotline_analysis.answers import detail
from tests.trace_builder import TraceBuilder

Row = tuple[Any, ...]


def outline(frame: pl.DataFrame) -> list[str]:
    """The tree as indented text: kind, name, CPU and GPU time in us."""
    nodes = detail.tree_nodes(frame)
    children: dict[int | None, list[dict[str, Any]]] = {}
    for row in nodes.rows(named=True):
        children.setdefault(row["parent_id"], []).append(row)

    def lines(row: dict[str, Any], depth: int) -> list[str]:
        cpu = "-" if row["cpu_ns"] is None else row["cpu_ns"] // 1000
        text = f"{'  ' * depth}{row['kind']} {row['name']} {cpu} {row['gpu_ns'] // 1000}"
        return [text, *(line for child in children.get(row["node_id"], []) for line in lines(child, depth + 1))]

    return [line for row in children.get(None, []) for line in lines(row, 0)]


def training() -> TraceBuilder:
    trace = TraceBuilder(rank=0).step(0, 0, 1000).frame("train.py(1): main", 1, 999)
    trace.module("Net", 0, 100, 400).module("Linear", 0, 110, 300)
    trace.op("aten::linear", 120, 290, seq=1).op("aten::addmm", 122, 288, seq=1)
    trace.launches("gemm", 200, 400, at=140, until=150)
    trace.module("ReLU", 0, 310, 390).op("aten::relu", 320, 380, seq=2)
    trace.launches("relu", 400, 420, at=330, until=340)
    trace.op("aten::item", 410, 450).runtime("cudaStreamSynchronize", 412, 448)
    trace.on(2).backward("ReluBackward0", 500, 520, seq=2).launches("relu_grad", 520, 530, at=505, until=510)
    trace.backward("AddmmBackward0", 520, 600, seq=1).launches("gemm_grad", 600, 700, at=530, until=535)
    trace.launches("gemm_grad", 700, 800, at=540, until=545)
    trace.on(1).annotation("Optimizer.step#SGD.step", 700, 900).op("aten::_foreach_add_", 710, 890)
    return trace.launches("sgd", 900, 950, at=800, until=810)


def test_a_training_step(tmp_path: Path) -> None:
    """Net replaces nothing of its phase, which has `item` too; aten::linear is nothing but aten::addmm."""
    assert outline(ha.level_of_detail(training().load(tmp_path), tiny_pct=0)) == [
        "step step 0 1000 480",
        "  phase load_data 100 0",
        "  phase forward 300 220",
        "    module Linear_0 190 200",
        "      op aten::addmm 166 200",
        "        kernel gemm 10 200",
        "    module ReLU_0 80 20",
        "      op aten::relu 60 20",
        "        kernel relu 10 20",
        "  phase loss 100 0",
        "    op aten::item 40 0",
        "      call cudaStreamSynchronize 36 0",
        "  phase backward 100 210",
        "    module ReLU_0 20 10",
        "      op ReluBackward0 20 10",
        "        kernel relu_grad 5 10",
        "    module Linear_0 80 200",
        "      op AddmmBackward0 80 200",
        "        kernel gemm_grad 5 100",
        "        kernel gemm_grad 5 100",
        "  phase other 100 0",
        "  phase optimizer 200 50",
        "    op aten::_foreach_add_ 180 50",
        "      kernel sgd 10 50",
        "  phase other 100 0",
    ]


def optimizer(*lengths: int, names: str = "") -> TraceBuilder:
    """One step that is an optimizer, with an op of each length; the names are letters, or repeat every three ops."""
    trace = TraceBuilder(rank=0)
    at = 0
    ops = []
    for number, length in enumerate(lengths):
        ops.append((f"aten::{names[number] if names else f'op{number % 3}'}", at, at + length))
        at += length
    trace.step(0, 0, at).annotation("Optimizer.step#SGD.step", 0, at)
    for name, start, end in ops:
        trace.op(name, start, end)
    return trace


def groups(frame: pl.DataFrame) -> list[Row]:
    chosen = frame.filter(pl.col("kind") == "group")
    return chosen.select(
        "depth", "short_name", "member_count", "name_count", pl.col("name_pct").round(), "time_ns"
    ).rows()


def test_tiny_neighbours_make_a_group(tmp_path: Path) -> None:
    """Of 1000 us, three ops of 400, 300 and 250 us; the five between the first two are under 5 %, op1 24 of 50 us."""
    frame = ha.level_of_detail(optimizer(400, 12, 10, 10, 12, 6, 300, 250).load(tmp_path))
    assert groups(frame) == [(2, "op1", 5, 3, 48.0, 50_000)]
    shown = frame.filter(pl.col("depth") == 2).select("kind", "time_ns").rows()
    assert shown == [("op", 400_000), ("group", 50_000), ("op", 300_000), ("op", 250_000)]
    members = frame.filter(pl.col("depth") == 3)
    assert members["time_ns"].to_list() == [12_000, 10_000, 10_000, 12_000, 6_000]
    assert ha.level_of_detail(optimizer(400, 10, 10, 300).load(tmp_path), tiny_pct=0).filter(kind="group").is_empty()


def test_a_group_has_the_first_name_of_those_that_take_about_as_much(tmp_path: Path) -> None:
    """Of 21 us beside an op of 400, `a` has 10 and `b` 11; of 25 us `a` has 10 and `b` 15, of which 80 % are 12."""
    near = ha.level_of_detail(optimizer(400, 10, 11, names="cab").load(tmp_path, name="near.json"))
    assert groups(near) == [(2, "a", 2, 2, 48.0, 21_000)]
    far = ha.level_of_detail(optimizer(400, 10, 15, names="cab").load(tmp_path, name="far.json"))
    assert groups(far) == [(2, "b", 2, 2, 60.0, 25_000)]


def test_neighbours_of_one_name_make_a_group(tmp_path: Path) -> None:
    trace = TraceBuilder(rank=0).step(0, 0, 1000).annotation("Optimizer.step#SGD.step", 0, 1000)
    for name, start in (
        ("aten::mul", 0),
        ("aten::mul", 200),
        ("aten::mul", 400),
        ("aten::add", 600),
        ("aten::mul", 800),
    ):
        trace.op(name, start, start + 200)
    assert groups(ha.level_of_detail(trace.load(tmp_path))) == [(2, "mul", 3, 1, 100.0, 600_000)]


def test_a_group_of_all_there_is_is_none(tmp_path: Path) -> None:
    """Behind one more click there would be the same picture; beside another op, ten tiny ones are a group."""
    frame = ha.level_of_detail(optimizer(*[77] * 13).load(tmp_path), tiny_pct=10)
    assert groups(frame) == []
    assert frame.filter(pl.col("depth") == 2).height == 13
    alike = ha.level_of_detail(optimizer(*[77] * 4, names="aaaa").load(tmp_path))
    assert groups(alike) == []
    frame = ha.level_of_detail(optimizer(*[77] * 10, 230).load(tmp_path), tiny_pct=10)
    assert [row[:4] for row in groups(frame)] == [(2, "op0", 10, 3)]


def test_what_takes_most_of_its_parent_is_in_no_group(tmp_path: Path) -> None:
    """An op that is tiny in all steps but one is seen in that: it takes 80 % of its parent there."""
    trace = TraceBuilder(rank=0)
    at = 0
    for step, slow in enumerate([10, 10, 3600, 10, 10]):
        lengths = [14, slow, 10, 400, 480]
        trace.step(step, at, at + sum(lengths)).annotation("Optimizer.step#SGD.step", at, at + sum(lengths))
        for name, length in zip("abcde", lengths, strict=True):
            trace.op(f"aten::{name}", at, at + length)
            at += length
    frame = ha.level_of_detail(trace.load(tmp_path)).filter(pl.col("depth") == 2)
    assert [rows["short_name"].to_list() for rows in frame.partition_by("step")] == [
        ["a", "b", "c", "d", "e"] if step == 2 else ["a", "d", "e"] for step in range(5)
    ]


def test_neighbours_of_one_name_in_a_long_group_are_one_of_their_own(tmp_path: Path) -> None:
    """In the group of 62 there are two names and 60 more of one: three children, not 62 or bundles of them."""
    lengths = [5000, 3, *[1] * 60, 3, 5000]
    frame = ha.level_of_detail(optimizer(*lengths, names="x" + "a" + "b" * 60 + "c" + "y").load(tmp_path))
    assert [row[:4] for row in groups(frame)][:2] == [(2, "b", 62, 3), (3, "b", 60, 1)]
    outer = frame.filter(kind="group", depth=2)["node_id"].item()
    assert frame.filter(parent_id=outer)["short_name"].to_list() == ["a", "b", "c"]


def test_modules_are_in_no_group_of_many_names(tmp_path: Path) -> None:
    trace = TraceBuilder(rank=0).step(0, 0, 1000).frame("train.py(1): main", 1, 999).module("Net", 0, 0, 900)
    trace.op("aten::a", 0, 5, seq=1).op("aten::b", 5, 10, seq=2)
    trace.module("ReLU", 0, 10, 20).op("aten::relu", 11, 19, seq=3)
    trace.module("Dropout", 0, 20, 30).op("aten::dropout", 21, 29, seq=4)
    trace.module("Linear", 0, 30, 890).op("aten::linear", 35, 880, seq=5)
    frame = ha.level_of_detail(trace.load(tmp_path))
    parent = frame.filter(name="ReLU_0")["parent_id"].item()
    shown = frame.filter(parent_id=parent)
    assert shown.select("kind", "short_name").rows() == [
        ("group", "b"),
        ("module", "ReLU_0"),
        ("module", "Dropout_0"),
        ("module", "Linear_0"),
    ]


def test_an_only_child_is_replaced(tmp_path: Path) -> None:
    """However long it is; one beside another that can be opened stays, however long; 100 % keeps all."""
    trace = TraceBuilder(rank=0).step(0, 0, 1000).annotation("Optimizer.step#SGD.step", 0, 1000)
    trace.op("aten::outer", 0, 300).op("aten::only", 10, 110).op("aten::x", 20, 50).op("aten::y", 60, 90)
    trace.op("aten::wide", 300, 900).op("aten::long", 310, 800).op("aten::x", 320, 500).op("aten::y", 500, 700)
    trace.op("aten::short", 800, 880).op("aten::y", 810, 870)
    trace.op("aten::end", 900, 990)
    opened = trace.load(tmp_path)
    names = ha.level_of_detail(opened, tiny_pct=0).filter(kind="op")["short_name"].to_list()
    assert sorted(names) == sorted(["outer", "x", "y", "wide", "long", "x", "y", "short", "y", "end"])
    kept = ha.level_of_detail(opened, tiny_pct=0, dominant_pct=100).filter(kind="op")["short_name"].to_list()
    assert sorted(kept) == sorted([*names, "only"])


def test_too_many_children_are_bundled_evenly(tmp_path: Path) -> None:
    frame = ha.level_of_detail(optimizer(*[10] * 500).load(tmp_path))
    assert [row[:3] for row in groups(frame)] == [(2, f"op{25 * n % 3}", 25) for n in range(20)]
    assert frame.group_by("parent_id").len()["len"].max() == 25
    for most in (8, 4):
        deep = ha.level_of_detail(optimizer(*[10] * 500).load(tmp_path), max_children=most)
        assert max(deep.group_by("parent_id").len()["len"]) <= most
        assert sorted(deep.filter(kind="op")["event_id"]) == list(range(2, 502))


def test_the_smallest_nodes_are_left_out_with_their_time_kept(tmp_path: Path) -> None:
    trace = optimizer(*range(1, 31)).load(tmp_path)
    frame = ha.level_of_detail(trace, tiny_pct=0, max_nodes=12)
    assert sorted(frame.filter(kind="op")["time_ns"]) == [1000 * us for us in range(21, 31)]
    assert frame.filter(kind="phase")["time_ns"].to_list() == [465_000]


def test_depth_is_bounded(tmp_path: Path) -> None:
    frame = ha.level_of_detail(training().load(tmp_path), tiny_pct=0, max_depth=2)
    assert frame["depth"].max() == 2
    assert frame.filter(device="gpu", depth=0)["time_ns"].to_list() == [480_000]


def test_one_row_per_thread_and_stream(tmp_path: Path) -> None:
    """The step runs on two threads and two streams; work that overlaps keeps the device busy once."""
    trace = TraceBuilder(rank=0).step(0, 0, 100).op("aten::mm", 10, 30).launches("gemm", 20, 60)
    trace.launches("copy", 40, 80, stream=9).on(2).op("aten::add", 50, 90)
    frame = ha.level_of_detail(trace.load(tmp_path)).filter(kind="step")
    start = int(frame["start_ns"].min())  # type: ignore[arg-type]
    assert frame.select(
        "device", pl.col("start_ns") - start, pl.col("end_ns") - start, "time_ns", "busy_ns"
    ).rows() == [
        ("cpu", 0, 100_000, 100_000, 0),
        ("cpu", 50_000, 90_000, 40_000, 0),
        ("gpu", 20_000, 60_000, 40_000, 40_000),
        ("gpu", 40_000, 80_000, 40_000, 20_000),
    ]


def test_a_call_that_launches_many_has_them_as_children(tmp_path: Path) -> None:
    trace = TraceBuilder(rank=0).step(0, 0, 100).annotation("## forward ##", 0, 100).op("aten::mul", 0, 50)
    trace.runtime("cudaGraphLaunch", 10, 20, correlation=7)
    trace.kernel("a", 30, 40, correlation=7).kernel("b", 40, 80, correlation=7)
    assert outline(ha.level_of_detail(trace.load(tmp_path), tiny_pct=0))[-3:] == [
        "      call cudaGraphLaunch 10 50",
        "        kernel a - 10",
        "        kernel b - 40",
    ]


def test_gpu_work_without_a_launch_is_outside_the_steps(tmp_path: Path) -> None:
    trace = TraceBuilder(rank=0).step(0, 100, 200).op("aten::mm", 110, 150).launches("gemm", 150, 190)
    trace.kernel("early", 50, 90, correlation=999)
    frame = ha.level_of_detail(trace.load(tmp_path))
    outside = frame.filter(pl.col("step").is_null())
    assert outside.select("kind", "name", "phase", "time_ns").rows() == [
        ("step", "outside steps", None, 40_000),
        ("phase", "pre_window", "pre_window", 40_000),
        ("kernel", "early", "pre_window", 40_000),
    ]
    assert frame.filter(kind="kernel").select("device", "gpu_event_id").rows() == [("gpu", 4), ("cpu", 3), ("gpu", 3)]


def test_noise_does_not_change_the_tree(tmp_path: Path) -> None:
    """Shares of 3 and 7 % are on either side of the limit, whatever 15 % of noise does to the times."""
    lengths = [3000, 3000, 30000, 3000, 3000, 7000, 30000, 7000, 3000, 7000]
    trees = []
    for seed in range(4):
        noise = random.Random(seed)
        noisy = [round(length * noise.uniform(0.85, 1.15)) if seed else length for length in lengths]
        frame = ha.level_of_detail(optimizer(*noisy, names="abeabcedac").load(tmp_path))
        trees.append(frame.select("node_id", "parent_id", "kind", "member_count", "event_id").rows())
    assert all(tree == trees[0] for tree in trees)
    assert [row[3] for row in trees[0] if row[2] == "group"] == [2, 2]


def test_all_steps_have_the_same_tree(tmp_path: Path) -> None:
    """Nine steps in which an op takes up to twice as long as in another: a step by itself has another tree."""
    noise = random.Random(1)
    trace = TraceBuilder(rank=0)
    at = 0
    for step in range(9):
        lengths = [
            round(length * noise.uniform(0.7, 1.4)) for length in [330, 340, 3000, 340, 320, 700, 3000, 330, 320]
        ]
        trace.step(step, at, at + sum(lengths)).annotation("Optimizer.step#SGD.step", at, at + sum(lengths))
        for number, length in enumerate(lengths):
            trace.op(f"aten::op{number % 3}", at, at + length)
            at += length
    opened = trace.load(tmp_path)

    def shapes(**arguments: float) -> list[list[tuple[str, str, int]]]:
        frame = ha.level_of_detail(opened, **arguments).filter(pl.col("depth") > 1)  # type: ignore[arg-type]
        return [rows.select("kind", "short_name", "member_count").rows() for rows in frame.partition_by("step")]

    trees = shapes()
    assert len(trees) == 9
    assert all(tree == trees[0] for tree in trees)
    assert any(kind == "group" for kind, *_ in trees[0])
    assert [shapes(step=step)[0] for step in (0, 1, 8)] == trees[:3]


def test_without_anything_to_show(tmp_path: Path) -> None:
    trace = TraceBuilder(rank=0).memory(10, 5, total=10).load(tmp_path)
    assert ha.level_of_detail(trace).is_empty()
    assert detail.longest_chain(detail.tree_nodes(ha.level_of_detail(trace))) == []
    with pytest.raises(QueryParameterError, match="the trace has no step 5 Hint: Available: none"):
        ha.level_of_detail(trace, step=5)


def test_the_way_to_the_bottleneck(tmp_path: Path) -> None:
    """The GPU waits for most of the step, so the way follows the CPU: forward, its longest module, its op."""
    nodes = detail.tree_nodes(ha.level_of_detail(training().load(tmp_path), tiny_pct=0))
    names = nodes.select("node_id", "name")
    way = [names.filter(node_id=number)["name"][0] for number in detail.longest_chain(nodes)]
    assert way == ["step 0", "forward", "Linear_0", "aten::addmm", "gemm"]


def test_how_much_there_is_to_look_at(tmp_path: Path) -> None:
    """7 phases, 2 modules in forward, an op in one and its kernel are on the screen; the tree has 25 nodes."""
    size = ha.detail_size(training().load(tmp_path))
    assert size.rows() == [(0, 0, len(training().events), 25, 11, 7)]


def test_limits_are_checked(tmp_path: Path) -> None:
    trace = training().load(tmp_path)
    for wrong in ({"tiny_pct": -1}, {"max_children": 3}, {"max_depth": -1}):
        with pytest.raises(ha.QueryParameterError, match=r"must be [04] or more"):
            ha.level_of_detail(trace, **wrong)


@pytest.fixture(scope="module")
def demo() -> Trace:
    return ha.load(ha.demo_trace())


def test_every_event_of_the_demo_is_somewhere(demo: Trace) -> None:
    """With room for all, each op and annotation of a step is a node, or was replaced by what is inside it."""
    frame = ha.level_of_detail(demo, dominant_pct=100)
    ops = demo.sql(
        "select event_id from annotated_event where category = 'cpu_op' and step is not null order by event_id"
    )
    assert sorted(frame.filter(kind="op", device="cpu")["event_id"]) == ops["event_id"].to_list()


def test_slices_nested_without_end(tmp_path: Path) -> None:
    """Of 300 ops in one another, each but the last 1 us longer on both sides, the innermost launches a kernel of 70 us.

    The kernel belongs to the last one that is shown, and the time to all around it; the others' time is in it, too.
    """
    trace = TraceBuilder(rank=0).step(0, 0, 1000).annotation("Optimizer.step#SGD.step", 0, 1000)
    for level in range(300):
        trace.op(f"aten::op{level}", 100 + level, 900 - level)
    trace.launches("kernel", 950, 1020)
    frame = ha.level_of_detail(trace.load(tmp_path), dominant_pct=100, max_depth=1000)
    on_cpu = frame.filter(device="cpu", kind="op")
    assert on_cpu["short_name"].to_list() == [f"op{level}" for level in range(101)]
    assert on_cpu["time_ns"].to_list() == [1000 * (800 - 2 * level) for level in range(101)]
    on_gpu = frame.filter(device="gpu")
    assert set(on_gpu["time_ns"]) == {70_000}
    assert on_gpu["short_name"].to_list()[-2:] == ["op100", "kernel"]
