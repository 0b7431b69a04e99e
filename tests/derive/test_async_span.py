"""Asynchronous events, `b` and `e`, are spans in a file that has no others. The truth is a plain loop with a stack."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

import hotline_analysis as ha
from hotline_analysis import Trace

Event = dict[str, Any]


def pair(name: str, start_us: int, end_us: int, **more: Any) -> list[Event]:
    """The begin and the end of a span."""
    shared = {"name": name, "cat": "request", "pid": 1, "tid": 1, **more}
    return [{"ph": "b", "ts": start_us, **shared}, {"ph": "e", "ts": end_us, **shared}]


def load(folder: Path, events: list[Event]) -> Trace:
    file = folder / "trace.json"
    file.write_text(json.dumps({"traceEvents": events}))
    return ha.load(file)


def truth(events: list[Event]) -> dict[int, int]:
    """The duration of each begin that has an end: an end closes the last open begin of its category, process and id."""
    open_begins: dict[tuple[object, ...], list[int]] = {}
    found = {}
    in_order = sorted((n for n, event in enumerate(events) if event["ph"] in "be"), key=lambda n: (events[n]["ts"], n))
    for number in in_order:
        event = events[number]
        stack = open_begins.setdefault((event["cat"], event["pid"], str(event.get("id", event.get("id2")))), [])
        if event["ph"] == "b":
            stack.append(number)
        elif stack:
            begin = stack.pop()
            found[begin] = 1000 * (event["ts"] - events[begin]["ts"])
    return found


ONE_BY_ONE = [event for n in range(1000) for event in pair("infer", 1000 * n, 1000 * n + 800, id=n)]
TOGETHER = [event for n in range(50) for event in pair(f"r{n % 3}", 10 * n, 10 * n + 300, id=f"0x{n:x}")]
ONE_ID = [event for n in range(20) for event in pair("again", 100 * n, 100 * n + 60, id=7)]
INSIDE = [*pair("outer", 0, 100, id=1), *pair("inner", 20, 50, id=1), *pair("next", 60, 70, id=1)]
LOCAL = [event for n in range(9) for event in pair("local", 5 * n, 5 * n + 20, id2={"local": f"0x{n}"})]
PROCESSES = [event for n in range(8) for event in pair("p", 50 * n, 50 * n + 10 + n, id=0, pid=n)]
THREADS = [
    event
    for n in range(8)
    for event in (
        {"ph": "b", "name": "moves", "cat": "io", "pid": 1, "tid": 1, "ts": 9 * n, "id": n},
        {"ph": "e", "name": "moves", "cat": "io", "pid": 1, "tid": 2, "ts": 9 * n + 30, "id": n},
    )
]
UNENDED = [*pair("whole", 5, 9, id=1), *pair("cut", 10, 20, id=2)[:1], *pair("late", 30, 40, id=3)[1:]]


@pytest.mark.parametrize(
    "events",
    [ONE_BY_ONE, TOGETHER, ONE_ID, INSIDE, LOCAL, PROCESSES, THREADS, UNENDED],
    ids=["one by one", "together", "one id", "inside", "local ids", "processes", "threads", "unended"],
)
@pytest.mark.parametrize("seed", [None, 5])
def test_pairs_are_spans(tmp_path: Path, events: list[Event], seed: int | None) -> None:
    given = list(events)
    if seed is not None:
        random.Random(seed).shuffle(given)
    expected = truth(given)
    with load(tmp_path, given) as trace:
        found = trace.sql("select event_id, dur_ns from event where dur_ns is not null order by event_id").rows()
        assert dict(found) == expected
        by_name = trace.query("unknown_spans", limit=100)
        assert int(by_name["count"].sum()) == len(expected)
        assert int(by_name["time_ns"].sum()) == sum(expected.values())
        report = ha.report(trace, source_lines=False)
        assert report.facts["events"].startswith(f"{len(given):,} in ")
        assert "CPU only" not in report.to_text()
        assert report.advice == []
        assert report.recapture == []


def test_a_thousand_requests(tmp_path: Path) -> None:
    with load(tmp_path, ONE_BY_ONE) as trace:
        row = trace.query("unknown_spans").row(0, named=True)
        assert (row["category"], row["name"], row["count"]) == ("request", "infer", 1000)
        assert (row["time_ns"], row["mean_ns"], row["min_ns"], row["max_ns"]) == (800_000_000, *[800_000] * 3)
        text = ha.report(trace, source_lines=False).to_text()
    assert "800 ms in 1,000 events of category `request`" in text.replace("\n", " ").replace("  ", " ")


def test_beside_spans_of_threads_they_take_no_time(tmp_path: Path) -> None:
    """They often repeat what the spans show."""
    op = {"ph": "X", "name": "aten::mm", "cat": "cpu_op", "pid": 1, "tid": 1, "ts": 0, "dur": 5}
    with load(tmp_path, [op, *TOGETHER]) as trace:
        assert trace.sql("select count(*) from event where dur_ns is not null").item() == 1
        assert trace.query("unknown_tracks").is_empty()


@pytest.mark.parametrize("count", [1, 40, 300])
def test_begins_and_ends_of_threads_are_spans(tmp_path: Path, count: int) -> None:
    """`B` and `E` count as spans, and asynchronous events beside them do not."""
    events: list[Event] = []
    for number in range(count):
        for ph, at in (("B", 10 * number), ("E", 10 * number + 7)):
            events.append({"ph": ph, "name": "work", "cat": "mine", "pid": 1, "tid": 1, "ts": at})
    with load(tmp_path, [*events, *TOGETHER]) as trace:
        row = trace.query("unknown_spans").row(0, named=True)
        assert (row["name"], row["count"], row["time_ns"]) == ("work", count, 7000 * count)
