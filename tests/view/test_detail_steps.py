"""The steps of `level_of_detail`, one by one; times are in microseconds."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from hotline_analysis import Trace
from tests.answer.steps import step_frame
from tests.trace_builder import TraceBuilder

US = 1000
DETAIL = "level_of_detail"


def named_keys(trace: Trace) -> pl.DataFrame:
    """The name of each node by its key."""
    return step_frame(trace, DETAIL, "shown_node").select("key", node="short_name")


def loop() -> TraceBuilder:
    """A step whose optimizer runs nine ops: one that calls two others in turn, and three neighbours of one name."""
    trace = TraceBuilder(rank=0).step(0, 0, 1000).annotation("Optimizer.step#SGD.step", 100, 900)
    trace.op("aten::outer", 110, 200).op("aten::middle", 115, 195).op("aten::inner", 120, 190)
    trace.launches("sgd", 300, 380, at=130, until=140)
    for number in range(3):
        trace.op("aten::mul", 210 + 20 * number, 225 + 20 * number)
    trace.op("aten::big", 300, 800)
    for number, name in enumerate(("aten::a", "aten::b", "aten::c", "aten::d")):
        trace.op(name, 810 + 10 * number, 815 + 10 * number)
    return trace


def test_a_slice_has_its_place_in_what_is_around_it(tmp_path: Path) -> None:
    """The annotation is the phase, and is left out."""
    slices = step_frame(loop().load(tmp_path), DETAIL, "tree_slice").sort("slice_id")
    names = dict(slices.select("node_key", "short_name").rows())
    found = slices.head(4).select("short_name", "depth", pl.col("parent_key").replace_strict(names, default=None))
    assert found.rows() == [
        ("outer", 0, None),
        ("middle", 1, "outer"),
        ("inner", 2, "middle"),
        ("cudaLaunchKernel", 3, "inner"),
    ]


def test_a_call_and_its_only_work_are_one_node(tmp_path: Path) -> None:
    """A call with two kernels has a node for each."""
    trace = loop().op("aten::pair", 910, 950).runtime("cudaGraphLaunch", 920, 930, correlation=70)
    trace.kernel("left", 940, 950, correlation=70).kernel("right", 950, 970, correlation=70)
    work = step_frame(trace.load(tmp_path), DETAIL, "tree_work")
    assert sorted(work.select("short_name", "is_call", (pl.col("end_ns") - pl.col("start_ns")) // US).rows()) == [
        ("left", False, 10),
        ("right", False, 20),
        ("sgd", True, 80),
    ]


def test_what_runs_beside_the_loop_has_phases_of_its_own(tmp_path: Path) -> None:
    """Work that nothing launched is in no phase of the loop."""
    phases = step_frame(loop().kernel("stray", 500, 510).load(tmp_path), DETAIL, "tree_phase").sort("home_id")
    assert phases.select("step", "is_beside", pl.col("start_ns") // US).rows() == [
        (0, False, 0),
        (0, False, 100),
        (0, False, 900),
        (-1, True, None),
    ]
    assert phases["step_key"].n_unique() == 2


def test_gpu_time_is_handed_up(tmp_path: Path) -> None:
    """The kernel takes 80 us in its call, the three ops around that, its phase and its step."""
    trace = loop().load(tmp_path)
    sides = step_frame(trace, DETAIL, "gpu_side")
    assert sides.select("time_ns", "gpu_event_count").rows() == [(80 * US, 1)] * 6
    kinds = step_frame(trace, DETAIL, "raw_node").join(sides, on="key").sort("level")
    assert kinds["kind"].to_list() == ["step", "phase", "op", "op", "op", "kernel"]


def test_an_only_child_is_replaced_by_what_is_in_it(tmp_path: Path) -> None:
    """`middle` is all that `outer` has. So is `inner` of `middle`, but there is no op in it."""
    trace = loop().load(tmp_path)
    names = named_keys(trace)
    kept = step_frame(trace, DETAIL, "kept_node").join(names, on="key")
    around = kept.join(names.rename({"key": "container_key", "node": "around"}), on="container_key", how="left")
    found = dict(around.filter(kind="op").select("node", "around").rows())
    assert found == {"outer": "optimizer", "inner": "outer", **dict.fromkeys(["mul", "big", *"abcd"], "optimizer")}


def test_neighbours_of_one_name_are_a_unit_and_tiny_ones_a_run(tmp_path: Path) -> None:
    """Of 800 us of the phase, 5 % are 40 us: each `mul` has 15, which are 45 together, and the last four ops 5 each."""
    trace = loop().load(tmp_path)
    siblings = step_frame(trace, DETAIL, "sibling").join(named_keys(trace), on="key").sort("position")
    ops = siblings.filter(pl.col("kind") == "op").filter(pl.col("node") != "inner")
    sizes = ops.group_by("unit", maintain_order=True).agg(pl.first("node"), pl.len()).select("node", "len").rows()
    assert sizes == [("outer", 1), ("mul", 3), ("big", 1), ("a", 1), ("b", 1), ("c", 1), ("d", 1)]
    units = step_frame(trace, DETAIL, "sibling_unit")
    tiny = ops.join(units, on="unit").sort("position").select("node", pl.col("share_pct").round(3), "is_tiny")
    assert tiny.filter(node="mul").rows() == [("mul", 5.625, False)] * 3
    assert tiny.filter(node="d").rows() == [("d", 0.625, True)]
    grouped = step_frame(trace, DETAIL, "grouped_node").join(named_keys(trace), on="key").sort("position")
    assert grouped.filter(pl.col("run_key").is_not_null())["node"].to_list() == ["a", "b", "c", "d"]
    assert grouped.filter(pl.col("unit_key").is_not_null())["node"].to_list() == ["mul"] * 3


def test_what_holds_too_much_is_bundled_evenly(tmp_path: Path) -> None:
    """Ten ops, and room for four: in two bundles of five, which are too many still, so each is two of three and two."""
    trace = TraceBuilder(rank=0).step(0, 0, 1000)
    for number, name in enumerate("abcdefghij"):
        trace.op(f"aten::{name}", 10 + 90 * number, 90 + 90 * number)
    opened = trace.load(tmp_path)
    links = step_frame(opened, DETAIL, "group_link", max_children=4, tiny_pct=0)
    held = links.filter("is_in_group").group_by("parent_key").len()["len"].to_list()
    assert sorted(held) == [2, 2, 2, 2, 3, 3]
    members = step_frame(opened, DETAIL, "group_member", max_children=4, tiny_pct=0)
    assert sorted(members.group_by("group_key").len()["len"]) == [2, 2, 3, 3, 5, 5]


def test_five_typical_steps_are_looked_at_beside_the_one_asked_for(tmp_path: Path) -> None:
    """Of twenty, they are the ones a tenth, three, five, seven and nine tenths of the way."""
    trace = TraceBuilder(rank=0)
    for number in range(20):
        trace.step(number, 10 * number, 10 * number + 10)
    opened = trace.load(tmp_path)
    viewed = step_frame(opened, DETAIL, "viewed_step", step=3).sort("step").select("step", "is_typical")
    assert viewed.rows() == [(2, True), (3, False), (6, True), (10, True), (14, True), (18, True)]
    assert step_frame(opened, DETAIL, "viewed_step").height == 20
    assert step_frame(opened, DETAIL, "viewed_step", rank=1).is_empty()


def test_phases_of_the_loop_are_numbered_by_time(tmp_path: Path) -> None:
    trace = loop()
    phases = step_frame(trace.load(tmp_path), DETAIL, "loop_phase").sort("home_id")
    columns = ("home_id", "step", "phase", pl.col("start_ns") // US, pl.col("end_ns") // US, "event_id")
    assert phases.select(columns).rows() == [
        (1, 0, "other", 0, 100, None),
        (2, 0, "optimizer", 100, 900, trace.ids("Optimizer.step#SGD.step")[0]),
        (3, 0, "other", 900, 1000, None),
    ]


def test_a_slice_is_at_home_in_the_phase_around_it(tmp_path: Path) -> None:
    """What is the phase, and what lasts longer, are no slices; an op outside every step has no home."""
    trace = loop().annotation("region", 300, 850).annotation("long", 50, 950).op("aten::after", 1100, 1110)
    slices = step_frame(trace.load(tmp_path), DETAIL, "homed_slice").sort(
        "start_ns", "end_ns", descending=[False, True]
    )
    found = slices.select("short_name", "kind", "step", "phase", "home_id").rows()
    assert found[:4] == [
        ("outer", "op", 0, "optimizer", 2),
        ("middle", "op", 0, "optimizer", 2),
        ("inner", "op", 0, "optimizer", 2),
        ("cudaLaunchKernel", "call", 0, "optimizer", 2),
    ]
    assert ("region", "annotation", 0, "optimizer", 2) in found
    assert found[-1] == ("after", "op", -1, "outside_steps", None)
    assert {"long", "Optimizer.step#SGD.step", "ProfilerStep#0"}.isdisjoint(slices["name"])


def test_work_has_the_call_and_op_that_launched_it(tmp_path: Path) -> None:
    trace = loop().kernel("stray", 370, 390)
    work = step_frame(trace.load(tmp_path), DETAIL, "viewed_work").sort("event_id")
    columns = ("event_id", "step", "runtime_id", "op_id", "kernel_count", pl.col("busy_ns") // US)
    [call], [op] = trace.ids("cudaLaunchKernel"), trace.ids("aten::inner")
    # The stray one begins while the other runs, until 380.
    assert work.select(columns).rows() == [
        (trace.ids("sgd")[0], 0, call, op, 1, 80),
        (trace.ids("stray")[0], -1, None, None, None, 10),
    ]


def two_threads() -> TraceBuilder:
    """Backward on a thread of its own, for which the loop's thread waits."""
    trace = TraceBuilder(rank=0).step(0, 0, 200).annotation("forward", 0, 40).op("aten::mul", 10, 20, seq=1)
    return trace.annotation("backward", 40, 100).on(2).backward("MulBackward0", 50, 90, seq=1)


def test_a_phase_takes_time_on_each_thread_that_it_runs_on(tmp_path: Path) -> None:
    trace = two_threads().load(tmp_path)
    sides = step_frame(trace, DETAIL, "thread_side").join(named_keys(trace), on="key")
    times = (pl.col("start_ns") // US, pl.col("end_ns") // US, pl.col("time_ns") // US)
    assert sorted(sides.select("node", *times).rows()) == [
        ("backward", 40, 100, 60),
        ("backward", 50, 90, 40),
        ("forward", 0, 40, 40),
        ("other", 100, 200, 100),
        ("step 0", 0, 200, 200),
        ("step 0", 50, 90, 40),
    ]
    loop_thread = sides.filter(node="other")["track_id"].item()
    assert sides.filter(pl.col("time_ns") == 40 * US, pl.col("node") != "forward")["track_id"].unique().len() == 1
    assert loop_thread not in sides.filter(pl.col("time_ns") == 40 * US, pl.col("node") != "forward")["track_id"]


def test_a_side_of_a_group_is_the_sum_of_its_members(tmp_path: Path) -> None:
    """Three neighbours of 15 us from 210 on, each 5 us after the other, and four of 5 us from 810 on."""
    trace = loop().load(tmp_path)
    sides = step_frame(trace, DETAIL, "node_side").with_columns(pl.col("^.*_ns$") // US)
    columns = ("device", "start_ns", "end_ns", "time_ns", "gpu_event_count", "busy_ns", "idle_ns")
    groups = step_frame(trace, DETAIL, "group_node").select("key")
    assert sorted(sides.join(groups, on="key").select(columns).rows()) == [
        ("cpu", 210, 265, 45, 0, 0, 0),
        ("cpu", 810, 845, 20, 0, 0, 0),
    ]
    # The device has no work from the step's start on until 300.
    of_outer = sides.join(named_keys(trace).filter(node="outer"), on="key").select(columns)
    assert sorted(of_outer.rows()) == [("cpu", 110, 200, 90, 0, 0, 0), ("gpu", 300, 380, 80, 1, 80, 300)]


def test_a_node_is_weighed_by_its_longest_thread_and_by_its_work(tmp_path: Path) -> None:
    trace = loop().load(tmp_path)
    nodes = step_frame(trace, DETAIL, "weighed_node").join(named_keys(trace), on="key")
    columns = ("node", pl.col("cpu_ns") // US, pl.col("gpu_ns") // US, "namesake")
    found = nodes.filter(pl.col("node").is_in(["step 0", "optimizer", "outer", "mul"])).sort("level", "order_ns")
    assert found.select(columns).rows() == [
        ("step 0", 1000, 80, 0),
        ("optimizer", 800, 80, 0),
        ("outer", 90, 80, 0),
        ("mul", 15, 0, 0),
        ("mul", 15, 0, 1),
        ("mul", 15, 0, 2),
    ]


def test_a_group_has_the_name_that_takes_most_or_the_first_of_those(tmp_path: Path) -> None:
    """The four small ops take equally long, so their group has the name of the first, which is a quarter of it."""
    groups = step_frame(loop().load(tmp_path), DETAIL, "group_node").sort("order_ns")
    columns = ("short_name", "phase", "member_count", "name_count", "name_pct")
    assert groups.select(*columns, pl.col("long_ns") // US, pl.col("order_ns") // US).rows() == [
        ("mul", "optimizer", 3, 1, 100.0, 45, 210),
        ("a", "optimizer", 4, 4, 25.0, 20, 810),
    ]
