"""Views of code: compiled regions, functions of the user, named ranges, and slices of modules."""

from pathlib import Path

from tests.derive.tables import rows
from tests.trace_builder import TraceBuilder


def test_compiled_spans_are_one_for_all_that_touches(tmp_path: Path) -> None:
    """`compiled_span`: a graph in a region is a part of it."""
    trace = TraceBuilder().op("Torch-Compiled Region: 0/0", 10, 40).annotation("## Call CompiledFxGraph f ##", 20, 30)
    trace.op("CompiledFunctionBackward", 60, 70).op("aten::mm", 80, 90)
    with trace.load(tmp_path) as opened:
        found = rows(opened, "select start_ns // 1000, end_ns // 1000 from compiled_span order by 1")
    assert found == [(10, 40), (60, 70)]


def test_frames_of_libraries_are_not_the_users(tmp_path: Path) -> None:
    """`user_frame`: one row for each run of a function."""
    trace = TraceBuilder().frame("train.py(7): step", 0, 50).frame("torch/nn/functional.py(9): relu", 10, 20)
    trace.frame("train.py(30): log", 25, 30).frame("train.py(30): log", 35, 40)
    with trace.load(tmp_path) as opened:
        found = rows(opened, "select source, function, depth, start_ns // 1000 from user_frame order by start_ns")
    assert found == [("train.py:7", "step", 0, 0), ("train.py:30", "log", 1, 25), ("train.py:30", "log", 1, 35)]


def test_a_range_that_crosses_another_is_inside_if_most_of_it_is(tmp_path: Path) -> None:
    """`annotation_span`: `most` ends with `outer`; `first` ends where `behind` starts."""
    trace = TraceBuilder().annotation("outer", 0, 100).annotation("most", 50, 110).annotation("first", 200, 300)
    trace.annotation("behind", 290, 400)
    with trace.load(tmp_path) as opened:
        found = rows(
            opened,
            "select span.name, span.depth, around.name, span.start_ns // 1000, span.end_ns // 1000, span.dur_ns // 1000"
            " from annotation_span as span left join event as around on span.parent_id = around.event_id"
            " order by span.event_id",
        )
    assert found == [
        ("outer", 0, None, 0, 100, 100),
        ("most", 1, "outer", 50, 100, 60),
        ("first", 0, None, 200, 290, 100),
        ("behind", 0, None, 290, 400, 110),
    ]


def test_backward_of_a_module_around_others_is_one_slice(tmp_path: Path) -> None:
    """`module_slice`: frames are slices themselves; nodes of two modules of `Net` in a row are one slice of it."""
    trace = TraceBuilder().on(1).step(0, 0, 100).module("Net", 0, 0, 50)
    trace.module("Linear", 0, 5, 20).op("aten::addmm", 10, 15, seq=1).module("ReLU", 0, 25, 40)
    trace.op("aten::relu", 30, 35, seq=2).on(2)
    trace.backward("ReluBackward0", 60, 65, seq=2).backward("AddmmBackward0", 70, 80, seq=1)
    with trace.load(tmp_path) as opened:
        sql = "select name, depth, pass, start_ns // 1000, end_ns // 1000, event_id is not null from module_slice"
        found = rows(opened, f"{sql} order by start_ns, depth")
    assert found == [
        ("Net_0", 0, "forward", 0, 50, True),
        ("Linear_0", 1, "forward", 5, 20, True),
        ("ReLU_0", 1, "forward", 25, 40, True),
        ("Net_0", 0, "backward", 60, 80, False),
        ("ReLU_0", 1, "backward", 60, 65, False),
        ("Linear_0", 1, "backward", 70, 80, False),
    ]
