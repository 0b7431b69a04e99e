import random
from pathlib import Path

import duckdb

from hotline_analysis import catalog
from hotline_analysis.database import install_macros
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
    trace.frame("first", 8, 20).frame("last", 40, 50)
    trace.frame("crossed", 60, 80).annotation("other note", 70, 90)
    assert named(trace.load(tmp_path), "nesting", ("parent_id", "start_ns", "end_ns")) == {
        "train": (None, 0, 100),
        "note": ("train", 8, 50),
        "inside": ("note", 8, 50),
        "first": ("inside", 8, 20),
        "last": ("inside", 40, 50),
        "crossed": ("train", 60, 80),
        "other note": ("train", 80, 90),
    }


def test_the_event_keeps_the_times_of_the_file(tmp_path: Path) -> None:
    trace = TraceBuilder().frame("train", 0, 100).frame("__enter__", 5, 12).annotation("note", 8, 50)
    opened = trace.load(tmp_path)
    assert opened.sql("select start_ns, end_ns from event where name = 'note'").row(0) == (8_000, 50_000)


def test_frames_of_any_length_are_found_at_a_border() -> None:
    """Borders as a comparison of each annotation with each frame gives them, from nanoseconds to hours, around 0."""
    chance = random.Random(7)

    def span(longest: int) -> tuple[int, int]:
        start = chance.randint(-longest, longest)
        return start, start + chance.randint(1, longest)

    frames = [(track, *span(10 ** chance.randint(1, 13))) for track in (1, 2) for _ in range(400)]
    notes = [(track, *span(10 ** chance.randint(1, 13))) for track in (1, 2, 3) for _ in range(300)]
    rows = [("python_function", *frame) for frame in frames] + [("user_annotation", *note) for note in notes]
    moved = 0
    with duckdb.connect() as connection:
        install_macros(connection)
        connection.execute(
            "create table cpu_span (event_id bigint, category varchar, track_id bigint, start_ns bigint, end_ns bigint,"
            " class_id bigint default 0, is_op boolean default false, layer integer default 0,"
            " is_cut boolean default false)"
        )
        connection.executemany(
            "insert into cpu_span (event_id, category, track_id, start_ns, end_ns) values (?, ?, ?, ?, ?)",
            [(number, *row) for number, row in enumerate(rows)],
        )
        connection.execute(f"create table crossing as {catalog.get('crossing_annotation').sql}")
        found = connection.sql(catalog.get("cpu_span_fitted").sql).pl().sort("event_id")
    for (category, track, start, end), fitted in zip(rows, found.iter_rows(named=True), strict=True):
        expected = start, end
        if category == "user_annotation":
            own = [(begin, stop) for on, begin, stop in frames if on == track]
            begins = max((stop for begin, stop in own if begin < start < stop < end), default=start)
            ends = min((begin for begin, stop in own if start < begin < end < stop), default=end)
            expected = (begins, ends) if begins < ends else (start, end)
            moved += expected != (start, end)
        assert (fitted["start_ns"], fitted["end_ns"]) == expected
    assert moved > 50
