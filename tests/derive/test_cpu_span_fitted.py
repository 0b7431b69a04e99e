from pathlib import Path

from tests.derive.tables import named
from tests.trace_builder import TraceBuilder


def test_an_annotation_is_fitted_between_the_frames_that_enter_and_leave_it(tmp_path: Path) -> None:
    trace = TraceBuilder().frame("train", 0, 100)
    trace.frame("__enter__", 5, 12).frame("_record_function_enter", 7, 11).op("profiler::enter", 8, 9)
    trace.annotation("## forward ##", 8, 55)
    trace.frame("model", 15, 45).op("mm", 20, 30)
    trace.frame("__exit__", 50, 60)
    assert named(trace.load(tmp_path), "nesting", ("parent_id", "start_ns", "end_ns", "self_ns", "overhangs")) == {
        "train": (None, 0, 100, 45, False),
        "__enter__": ("train", 5, 12, 3, False),
        "_record_function_enter": ("__enter__", 7, 11, 3, False),
        "profiler::enter": ("_record_function_enter", 8, 9, 1, False),
        "## forward ##": ("train", 12, 50, 8, False),
        "model": ("## forward ##", 15, 45, 20, False),
        "mm": ("model", 20, 30, 10, False),
        "__exit__": ("train", 50, 60, 10, False),
    }


def test_one_border_that_crosses_is_moved_alone(tmp_path: Path) -> None:
    trace = TraceBuilder().frame("train", 0, 100).frame("__enter__", 5, 12).annotation("note", 8, 50).op("mm", 20, 30)
    assert named(trace.load(tmp_path), "nesting", ("parent_id", "start_ns", "end_ns")) == {
        "train": (None, 0, 100),
        "__enter__": ("train", 5, 12),
        "note": ("train", 12, 50),
        "mm": ("note", 20, 30),
    }


def test_an_annotation_that_fits_is_left_alone(tmp_path: Path) -> None:
    trace = TraceBuilder().frame("train", 0, 100).annotation("note", 8, 50).frame("inside", 8, 50)
    trace.frame("crossed", 60, 80).annotation("other note", 70, 90)
    assert named(trace.load(tmp_path), "nesting", ("parent_id", "start_ns", "end_ns")) == {
        "train": (None, 0, 100),
        "note": ("train", 8, 50),
        "inside": ("note", 8, 50),
        "crossed": ("train", 60, 80),
        "other note": ("train", 80, 90),
    }


def test_the_event_keeps_the_times_of_the_file(tmp_path: Path) -> None:
    trace = TraceBuilder().frame("train", 0, 100).frame("__enter__", 5, 12).annotation("note", 8, 50)
    opened = trace.load(tmp_path)
    assert opened.sql("select start_ns, end_ns from event where name = 'note'").row(0) == (8_000, 50_000)
