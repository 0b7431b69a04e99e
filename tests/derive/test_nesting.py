import random
from collections import defaultdict
from importlib import import_module
from pathlib import Path

import duckdb
import polars as pl
import pytest

from hotline_analysis import Trace
from hotline_analysis.annotation.pipeline import Work, derive_tree
from hotline_analysis.database import install_macros
from tests.derive.tables import named
from tests.trace_builder import TraceBuilder

TREE = ("parent_id", "depth", "self_ns", "op_id")


def tree(trace: Trace) -> dict[str, tuple[object, ...]]:
    """By name: parent, depth, self time in us, innermost op."""
    return named(trace, "nesting", TREE)


def test_parents_depths_self_times_and_innermost_ops(tmp_path: Path) -> None:
    trace = TraceBuilder().frame("main", 0, 100).op("linear", 10, 60).op("addmm", 20, 50)
    trace.runtime("cudaLaunchKernel", 30, 35).annotation("note", 70, 90).op("relu", 75, 80)
    assert tree(trace.load(tmp_path)) == {
        "main": (None, 0, 30, None),
        "linear": ("main", 1, 20, "linear"),
        "addmm": ("linear", 2, 25, "addmm"),
        "cudaLaunchKernel": ("addmm", 3, 5, "addmm"),
        "note": ("main", 1, 15, None),
        "relu": ("note", 2, 5, "relu"),
    }


@pytest.mark.parametrize("long_first", [True, False])
def test_of_two_that_start_together_the_longer_is_outside(tmp_path: Path, *, long_first: bool) -> None:
    events = [("long", 0, 20), ("short", 0, 10)]
    trace = TraceBuilder()
    for event in events if long_first else events[::-1]:
        trace.op(*event)
    assert tree(trace.load(tmp_path)) == {"long": (None, 0, 10, "long"), "short": ("long", 1, 10, "short")}


def test_of_equal_intervals_the_kind_and_then_the_file_decide(tmp_path: Path) -> None:
    trace = TraceBuilder().runtime("call", 5, 9).op("first op", 5, 9).op("second op", 5, 9).annotation("note", 5, 9)
    assert tree(trace.load(tmp_path)) == {
        "note": (None, 0, 0, None),
        "first op": ("note", 1, 0, "first op"),
        "second op": ("first op", 2, 0, "second op"),
        "call": ("second op", 3, 4, "second op"),
    }


def test_an_instant_is_inside_what_runs_and_contains_nothing(tmp_path: Path) -> None:
    trace = TraceBuilder().op("a", 1, 11).op("b", 11, 21)
    trace.op("at a's start", 1, 1).op("between", 11, 11).op("at b's end", 21, 21).op("also at b's end", 21, 21)
    trace.op("c", 30, 40).op("inside c", 35, 35).op("also inside c", 35, 38)
    assert tree(trace.load(tmp_path)) == {
        "a": (None, 0, 10, "a"),
        "at a's start": ("a", 1, 0, "at a's start"),
        "b": (None, 0, 10, "b"),
        "between": ("b", 1, 0, "between"),
        "at b's end": (None, 0, 0, "at b's end"),
        "also at b's end": (None, 0, 0, "also at b's end"),
        "c": (None, 0, 7, "c"),
        "also inside c": ("c", 1, 3, "also inside c"),
        # An instant starts after all that starts with it and lasts longer.
        "inside c": ("also inside c", 2, 0, "inside c"),
    }


def test_nanoseconds_decide(tmp_path: Path) -> None:
    epoch = 1_700_000_000_000_000  # a double has steps of 250 ns here
    trace = TraceBuilder().op("a", f"{epoch}.100", f"{epoch}.500").op("b", f"{epoch}.499", f"{epoch}.500")
    trace.op("c", f"{epoch}.500", f"{epoch}.501")
    assert tree(trace.load(tmp_path)) == {
        "a": (None, 0, 0.399, "a"),
        "b": ("a", 1, 0.001, "b"),
        "c": (None, 0, 0.001, "c"),
    }


def test_an_event_that_rounding_lets_stick_out_is_cut(tmp_path: Path) -> None:
    trace = (
        TraceBuilder().op("outer", 0, 30).op("left", 0, 10).op("child", 3, 11).op("right", 10, 20).op("leaf", 12, 15)
    )
    opened = trace.load(tmp_path)
    assert named(opened, "nesting", (*TREE, "end_ns", "overhangs")) == {
        "outer": (None, 0, 10, "outer", 30, False),
        "left": ("outer", 1, 3, "left", 10, False),
        "child": ("left", 2, 7, "child", 10, True),
        "right": ("outer", 1, 7, "right", 20, False),
        "leaf": ("right", 2, 3, "leaf", 15, False),
    }
    assert opened.sql("select dur_ns from event where name = 'child'").item() == 8_000  # the file's time stays


def test_what_an_overhanging_event_contains_is_cut_with_it(tmp_path: Path) -> None:
    trace = TraceBuilder().op("outer", 0, 30).op("left", 0, 10).op("child", 3, 12).op("grandchild", 4, 12)
    trace.op("right", 10, 20).runtime("call", 11, 12)
    assert named(trace.load(tmp_path), "nesting", (*TREE, "overhangs")) == {
        "outer": (None, 0, 10, "outer", False),
        "left": ("outer", 1, 3, "left", False),
        "child": ("left", 2, 1, "child", True),
        "grandchild": ("child", 3, 6, "grandchild", True),
        "right": ("outer", 1, 9, "right", False),
        "call": ("right", 2, 1, "right", False),
    }


def test_in_an_event_that_is_cut_another_may_stick_out(tmp_path: Path) -> None:
    trace = TraceBuilder().op("outer", 0, 100).op("left", 10, 120).op("child", 20, 60).op("grandchild", 30, 70)
    assert named(trace.load(tmp_path), "nesting", (*TREE, "end_ns")) == {
        "outer": (None, 0, 10, "outer", 100),
        "left": ("outer", 1, 50, "left", 100),
        "child": ("left", 2, 10, "child", 60),
        "grandchild": ("child", 3, 30, "grandchild", 60),
    }


def test_threads_do_not_see_each_other(tmp_path: Path) -> None:
    trace = (
        TraceBuilder().on(1).op("a", 0, 100).op("b", 10, 20).on(2).op("c", 5, 50).op("d", 12, 15).on(3).op("e", 10, 20)
    )
    assert tree(trace.load(tmp_path)) == {
        "a": (None, 0, 90, "a"),
        "b": ("a", 1, 10, "b"),
        "c": (None, 0, 42, "c"),
        "d": ("c", 1, 3, "d"),
        "e": (None, 0, 10, "e"),
    }


def test_only_cpu_work_is_in_the_tree(tmp_path: Path) -> None:
    trace = TraceBuilder().op("op", 0, 100)
    for category in ("gpu_user_annotation", "cuda_sync", "overhead", "Trace", "kernel", "gpu_memcpy"):
        trace.complete(category, category, 10, 20)
    trace.instant("mark", 15).counter("count", 16, value=1.0)
    assert set(tree(trace.load(tmp_path))) == {"op"}


def test_separate_begins_and_ends_are_in_the_tree(tmp_path: Path) -> None:
    trace = TraceBuilder().op("op", 12, 14)
    for ph, at in (("B", 10), ("E", 20)):
        trace.event(ph=ph, name="span", cat="user_annotation", pid=1000, tid=1, ts=at)
    opened = trace.load(tmp_path)
    names = dict(opened.sql("select event_id, name from event where ph = 'X' or ph = 'B'").rows())
    found = opened.sql("select event_id, parent_id, self_ns from nesting").rows()
    assert {(names[event], names.get(parent), self_ns) for event, parent, self_ns in found} == {
        ("span", None, 8_000),
        ("op", "span", 2_000),
    }


Span = tuple[int, int, str, int, int, int, bool, int]


def at_random(seed: int, tracks: int, most: int, last: int) -> list[Span]:
    """Spans with random times on so many threads, two or more on each."""
    chance = random.Random(seed)
    kinds = {"cpu_op": 1, "user_annotation": 0, "cuda_runtime": 2}
    spans: list[Span] = []
    for track in range(tracks):
        for _ in range(chance.randint(2, most)):
            start = chance.randint(0, last)
            kind = chance.choice(list(kinds))
            spans.append(
                (len(spans), track, kind, start, chance.randint(start, last), 0, kind == "cpu_op", kinds[kind])
            )
    return spans


def derived(spans: list[Span]) -> list[tuple[int, ...]]:
    """Rows of `nesting`: event, thread, parent, start, end, self time. They nest, or this fails."""
    columns = ("event_id", "track_id", "category", "start_ns", "end_ns", "class_id", "is_op", "layer")
    with duckdb.connect() as connection:
        install_macros(connection)
        connection.register("given", pl.DataFrame(spans, columns, orient="row"))
        connection.execute("create table cpu_span as select *, false as is_cut from given")
        connection.execute("create table event (event_id bigint, name varchar)")
        derive_tree(Work(connection, None, print))
        rows = connection.sql(
            "select event_id, track_id, parent_id, start_ns, end_ns, self_ns from nesting order by track_id, start_ns"
        ).fetchall()
    assert sorted(row[0] for row in rows) == list(range(len(spans)))
    place = {row[0]: row[3:5] for row in rows}
    inside: dict[int | None, int] = defaultdict(int)
    reached: dict[tuple[int, int | None], int] = defaultdict(int)
    for _, track, parent, start, end, _ in rows:
        assert start <= end
        if parent is not None:
            assert place[parent][0] <= start
            assert end <= place[parent][1]
        assert reached[track, parent] <= start  # brothers follow each other
        reached[track, parent] = max(end, reached[track, parent])
        inside[parent] += end - start
    assert {row[0]: row[5] for row in rows} == {row[0]: row[4] - row[3] - inside[row[0]] for row in rows}
    return rows


def test_whatever_crosses_nests_in_the_end() -> None:
    """Spans at random on 400 threads: all nest, and what does not end after one that began before keeps its end."""
    spans = at_random(5, tracks=400, most=12, last=30)
    place = {row[0]: row[3:5] for row in derived(spans)}
    by_track = defaultdict(list)
    for span in spans:
        by_track[span[1]].append(span[3:5])
    sound = {
        number: (start, end)
        for number, track, _, start, end, *_ in spans
        if not any(begin < start < stop < end for begin, stop in by_track[track])
    }
    assert len(sound) > 1000
    assert {number: place[number] for number in sound} == sound


def test_what_cutting_does_not_settle_ends_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever span started last ends first, as with parentheses; here without any cut before."""
    monkeypatch.setattr(import_module("hotline_analysis.annotation.pipeline"), "_MOST_CUTS", 0)
    spans = [span for span in at_random(6, tracks=60, most=40, last=1000) if span[3] < span[4]]
    spans = [(number, *span[1:]) for number, span in enumerate(spans)]
    expected = {}
    for track in range(60):
        own = [span for span in spans if span[1] == track]
        opened: list[int] = []
        # Ends come first; of spans that start together the longer is outside, then the one of the outer layer.
        edges = [(span[3], 1, -span[4], span[7], span[0]) for span in own] + [(span[4], 0, 0, 0, 0) for span in own]
        for at, opens, _, _, number in sorted(edges):
            if opens:
                opened.append(number)
            else:
                expected[opened.pop()] = at
    rows = derived(spans)
    crossed = {row[1] for row in rows if row[4] != spans[row[0]][4]}
    assert len(crossed) > 50
    assert {row[0]: row[4] for row in rows if row[1] in crossed} == {
        number: end for number, end in expected.items() if spans[number][1] in crossed
    }


def test_a_long_chain_of_spans_that_cross_nests() -> None:
    """Each crosses the next four hundred: far more than cuts settle, one inside the other."""
    spans = [(number, 0, "cpu_op", number, number + 401, 0, True, 1) for number in range(800)]
    rows = derived(spans)
    assert {row[3] for row in rows} == set(range(800))
    assert sum(row[5] for row in rows) == max(row[4] for row in rows)  # something is open all the time
