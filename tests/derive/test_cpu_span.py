"""Spans that cross: which they are, and how each query that makes `cpu_span` again lets them nest."""

from pathlib import Path

import duckdb

from hotline_analysis import catalog
from hotline_analysis.database import install_macros
from tests.derive.tables import derived
from tests.trace_builder import TraceBuilder

SPANS = (
    "select event.name, cpu_span.start_ns // 1000, cpu_span.end_ns // 1000, is_cut from cpu_span"
    " inner join event using (event_id) order by event_id"
)


def crossing() -> TraceBuilder:
    """`second` sticks out of `first`, with `third` in it; `fourth` comes after `first`."""
    trace = TraceBuilder().op("first", 0, 10).op("second", 5, 15).op("third", 8, 13)
    return trace.op("fourth", 11, 12).frame("a.py(1): f", 20, 30)


def test_a_mark_of_a_step_ends_where_an_annotation_crosses_its_end(tmp_path: Path) -> None:
    """`crossing_step`, `cpu_span_shrunk`: what is over by a microsecond is rounded, and is cut itself."""
    trace = TraceBuilder().step(0, 0, 100).annotation("closure", 60, 150)
    trace.step(1, 200, 300).annotation("rounded", 290, 301)
    marks = "select event.name, crossing.end_ns // 1000 from crossing inner join event using (event_id)"
    assert derived(trace, tmp_path, marks) == [("ProfilerStep#0", 60)]
    assert derived(trace, tmp_path, SPANS) == [
        ("ProfilerStep#0", 0, 60, False),
        ("closure", 60, 150, False),
        ("ProfilerStep#1", 200, 300, False),
        ("rounded", 290, 300, True),
    ]


def test_what_sticks_out_is_cut_with_all_that_is_in_it(tmp_path: Path) -> None:
    """`cpu_span_cut`: `fourth` starts after the cut, and keeps its time."""
    assert derived(crossing(), tmp_path, SPANS) == [
        ("first", 0, 10, False),
        ("second", 5, 10, True),
        ("third", 8, 10, True),
        ("fourth", 11, 12, False),
        ("a.py(1): f", 20, 30, False),
    ]


def test_what_cutting_does_not_settle_gets_its_ends_anew(tmp_path: Path) -> None:
    """`cpu_span_matched`: the ends 10, 12, 13 and 15 go to whichever span started last."""
    sql = f"select name, start_ns // 1000, end_ns // 1000, is_cut from ({catalog.get('cpu_span_matched').sql})"
    named = f"{sql} inner join (select event_id, name from event) using (event_id) order by event_id"
    assert derived(crossing(), tmp_path, named, "cpu_span", "nesting") == [
        ("first", 0, 15, True),
        ("second", 5, 13, True),
        ("third", 8, 10, True),
        ("fourth", 11, 12, False),
        ("a.py(1): f", 20, 30, False),
    ]


def test_a_span_crosses_if_it_sticks_out_or_another_sticks_out_of_it(tmp_path: Path) -> None:
    """`crossing_span`: no python frame does, as the others are fitted between the frames."""
    trace = TraceBuilder().op("first", 0, 10).op("second", 5, 15).frame("a.py(1): f", 20, 30)
    trace.op("third", 25, 40).op("fourth", 50, 60)
    sql = f"select name from ({catalog.get('crossing_span').sql}) inner join (select event_id, name from event)"
    found = derived(trace, tmp_path, f"{sql} using (event_id) order by event_id", "cpu_span", "nesting")
    assert found == [("first",), ("second",), ("third",)]


def test_times_far_from_all_others_are_damaged() -> None:
    """`unlikely_time`: eleven days off, or as long; the clock of the GPU is another."""
    day = 86_400_000_000_000
    times = [("cpu_op", 0, 1), ("cpu_op", 5, 1), ("cpu_op", 9, 1), ("cpu_op", 11 * day, 2), ("cpu_op", 8, 11 * day)]
    with duckdb.connect() as connection:
        install_macros(connection)
        connection.execute(
            "create table event (event_id bigint, category varchar, start_ns bigint, dur_ns bigint,"
            " track_id bigint, correlation bigint)"
        )
        for number, time in enumerate([*times, ("kernel", 40 * day, 1), ("kernel", 40 * day, None)]):
            connection.execute("insert into event values (?, ?, ?, ?, 1, null)", [number, *time])
        found = connection.sql(catalog.get("unlikely_time").sql).fetchall()
        assert [(number, rule, given) for number, rule, _, _, given in found] == [
            (3, "far_time", 2),
            (4, "far_time", 11 * day),
        ]
