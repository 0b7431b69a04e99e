"""`user_annotations`, `annotation_kernels` and `op_delays`, with every number by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

import hotline_analysis as ha
from hotline_analysis import QueryParameterError
from tests.trace_builder import TraceBuilder


def annotated() -> TraceBuilder:
    """`outer` [0, 100) holds `inner` [10, 40) and `inner` [50, 70), which holds another `inner` [55, 60)."""
    trace = TraceBuilder().annotation("outer", 0, 100).annotation("inner", 10, 40)
    trace.op("aten::mm", 12, 30).launches("a", 200, 210)
    trace.annotation("inner", 50, 70).annotation("inner", 55, 60)
    trace.op("aten::mm", 56, 59).launches("b", 210, 230)
    trace.op("aten::mm", 80, 90).launches("c", 230, 260)
    trace.op("aten::mm", 110, 120).launches("d", 260, 300)
    return trace.on(2).op("aten::mm", 20, 30).launches("other_thread", 300, 301)


def test_inner_annotations_are_not_counted_twice(tmp_path: Path) -> None:
    builder = annotated()
    frame = ha.user_annotations(builder.load(tmp_path))
    columns = ("side", "name", "count", "total_ns", "self_ns", "gpu_total_ns", "gpu_self_ns")
    assert frame.select(columns).rows() == [
        ("cpu", "outer", 1, 100_000, 50_000, 60_000, 30_000),
        ("cpu", "inner", 3, 50_000, 50_000, 30_000, 30_000),
    ]
    inner = frame.row(1, named=True)
    assert (inner["min_ns"], inner["mean_ns"], inner["max_ns"]) == (5_000, 18_333, 30_000)
    assert inner["max_id"] == builder.ids("inner")[0]


def test_an_outer_annotation_that_is_not_asked_for_hides_no_inner_one(tmp_path: Path) -> None:
    """The outer one begins before the step, the inner one of 25 us in it."""
    trace = TraceBuilder().annotation("work", 0, 100).step(1, 50, 90).annotation("work", 55, 80).op("aten::mm", 60, 70)
    found = ha.user_annotations(trace.load(tmp_path), step=1).filter(name="work")
    assert found.select("count", "total_ns", "self_ns").rows() == [(1, 25_000, 25_000)]


def test_gpu_spans_are_on_their_streams(tmp_path: Path) -> None:
    """The step of a GPU span is that of the CPU annotation with its External id."""
    trace = TraceBuilder().step(0, 0, 50).annotation("work", 5, 20, **{"External id": 7})
    trace.op("aten::mm", 6, 10).launches("k", 100, 130).step(1, 50, 90)
    for name, number, start, end in (("work", 7, 100, 130), ("inside", 0, 110, 115), ("late", 0, 125, 140)):
        args = {"External id": number}
        trace.event(ph="X", cat="gpu_user_annotation", name=name, pid=0, tid=7, ts=start, dur=end - start, args=args)
    loaded = trace.load(tmp_path)
    frame = ha.user_annotations(loaded)
    rows = {row["name"]: row for row in frame.iter_rows(named=True) if row["side"] == "gpu"}
    assert {name: (row["total_ns"], row["self_ns"], row["gpu_total_ns"]) for name, row in rows.items()} == {
        "work": (30_000, 20_000, None),  # until `late` begins
        "inside": (5_000, 5_000, None),
        "late": (15_000, 15_000, None),  # most of it lies after `work`: it follows
    }
    assert ha.user_annotations(loaded, step=0, annotation="work")["side"].to_list() == ["cpu", "gpu"]
    assert ha.user_annotations(loaded, step=1)["name"].to_list() == ["ProfilerStep#1"]


def test_kernels_belong_to_the_annotation_around_their_launch(tmp_path: Path) -> None:
    builder = annotated()
    frame = ha.annotation_kernels(builder.load(tmp_path))
    first, _, third = builder.ids("inner")
    assert frame.select("name", "annotation", "annotation_id", "evidence").rows() == [
        ("a", "inner", first, "launch"),
        ("b", "inner", third, "launch"),
        ("c", "outer", builder.ids("outer")[0], "launch"),
        ("d", None, None, None),
        ("other_thread", None, None, None),
    ]


def test_without_a_launch_the_span_on_the_stream_tells(tmp_path: Path) -> None:
    trace = TraceBuilder()
    for name, start, end in (("outer", 0, 50), ("inner", 10, 20)):
        trace.event(ph="X", cat="gpu_user_annotation", name=name, pid=0, tid=7, ts=start, dur=end - start)
    for number, start in enumerate((0, 10, 15, 20, 50)):
        trace.kernel(f"k{number}", start, start + 1)
    trace.kernel("other_stream", 12, 13, stream=8)
    loaded = trace.load(tmp_path)
    found = dict(ha.annotation_kernels(loaded).select("name", "annotation").rows())
    assert found == {"k0": "outer", "k1": "inner", "k2": "inner", "k3": "outer", "k4": None, "other_stream": None}
    assert ha.annotation_kernels(loaded, annotation="inn")["name"].to_list() == ["k1", "k2"]
    assert set(ha.annotation_kernels(loaded)["evidence"]) == {"gpu_span", None}


def test_annotations_that_start_before_the_last_one_is_over_follow_it(tmp_path: Path) -> None:
    """The profiler rounds: `b` begins one nanosecond before `a` ends. It is not inside, nor is what lies in `b`."""
    trace = TraceBuilder().annotation("a", 0, 10).annotation("b", "9.999", 30).annotation("c", 15, 20)
    for at in (5, 12, 16):
        trace.op("aten::mm", at, at + 1).launches(f"k{at}", 100 + at, 101 + at)
    loaded = trace.load(tmp_path)
    times = ha.user_annotations(loaded).select("name", "total_ns", "self_ns").rows()
    assert times == [("b", 20_001, 15_001), ("a", 10_000, 9_999), ("c", 5_000, 5_000)]
    found = dict(ha.annotation_kernels(loaded).select("name", "annotation").rows())
    assert found == {"k5": "a", "k12": "b", "k16": "c"}


def test_annotations_that_cross_are_cut(tmp_path: Path) -> None:
    """`b` starts in `a` and ends after it, as rounding to microseconds does: its own time ends where `a` ends."""
    trace = TraceBuilder().annotation("a", 0, 10).annotation("b", 5, 15)
    for at in (2, 7, 12):
        trace.op("aten::mm", at, at + 1).launches(f"k{at}", 100 + at, 101 + at)
    loaded = trace.load(tmp_path)
    times = ha.user_annotations(loaded).select("name", "total_ns", "self_ns").rows()
    assert times == [("a", 10_000, 5_000), ("b", 10_000, 5_000)]
    found = dict(ha.annotation_kernels(loaded).select("name", "annotation").rows())
    assert found == {"k2": "a", "k7": "b", "k12": None}


def test_delays_of_ops_that_launch_the_same(tmp_path: Path) -> None:
    """Two calls launch `x -> y`, one launches `x`; what an inner op launches is not the outer op's."""
    trace = TraceBuilder().step(0, 0, 200)
    trace.op("aten::mm", 0, 20).launches("x", 30, 35, at=5).launches("y", 40, 41, at=8)
    trace.op("aten::mm", 50, 80).launches("x", 62, 67, at=53).launches("y", 70, 71, at=60)
    trace.op("aten::mm", 100, 120).launches("x", 105, 110, at=107)
    trace.op("aten::outer", 130, 160).op("aten::inner", 131, 150).launches("z", 141, 142, at=140)
    builder = trace
    loaded = trace.load(tmp_path)
    frame = ha.op_delays(loaded)
    rows = {(row["op"], row["kernel_sequence"]): row for row in frame.iter_rows(named=True)}
    assert set(rows) == {("aten::mm", "x -> y"), ("aten::mm", "x"), ("aten::inner", "z")}
    both = rows["aten::mm", "x -> y"]
    assert (both["call_count"], both["kernel_count"], both["gpu_time_ns"]) == (2, 2, 12_000)
    assert (both["op_to_launch_ns"], both["mean_op_to_launch_ns"], both["max_op_to_launch_ns"]) == (8000, 4000, 5000)
    assert (both["launch_to_start_ns"], both["max_launch_to_start_ns"]) == (25_000 + 9_000, 25_000)
    assert both["slowest_id"] == builder.ids("aten::mm")[0]
    assert rows["aten::mm", "x"]["launch_to_start_ns"] == 0  # it seems to start before its launch
    assert (rows["aten::inner", "z"]["op_to_launch_ns"], rows["aten::inner", "z"]["launch_to_start_ns"]) == (9000, 1000)
    assert ha.op_delays(loaded, op="aten::inner").height == 1
    with pytest.raises(QueryParameterError, match="no step 1 Hint: Available: 0"):
        ha.op_delays(loaded, step=1)


def test_delays_in_a_module(tmp_path: Path) -> None:
    trace = TraceBuilder().module("Net", 0, 0, 100).module("Linear", 0, 10, 50)
    trace.op("aten::mm", 20, 40).launches("in", 60, 70).op("aten::add", 60, 80).launches("out", 90, 95)
    loaded = trace.load(tmp_path)
    assert ha.op_delays(loaded, module="Net_0.Linear_0")["op"].to_list() == ["aten::mm"]
    assert set(ha.op_delays(loaded, module="Net_0")["op"]) == {"aten::mm", "aten::add"}
    with pytest.raises(QueryParameterError, match="no module 'Lin' Hint: The answer `modules` lists all modules"):
        ha.op_delays(loaded, module="Lin")
    with pytest.raises(QueryParameterError, match=r"no module 'Linear_0' Hint: Did you mean Net_0\.Linear_0"):
        ha.op_delays(loaded, module="Linear_0")
