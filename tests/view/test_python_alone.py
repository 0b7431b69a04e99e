"""Python where no op runs: which calls stand alone, which are one row, and which say less than what is in them."""

from pathlib import Path

import pytest

from hotline_analysis import Trace
from tests.trace_builder import TraceBuilder


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    """`main` has ops in it; `load` only calls `decode`, which resizes three times, writes a log, and sums up."""
    made = TraceBuilder(rank=0).step(0, 0, 200).frame("train.py(1): main", 1, 199)
    made.frame("train.py(9): load", 2, 100).frame("data.py(3): decode", 4, 98)
    for begin in (10, 30, 50):
        made.frame("data.py(7): resize", begin, begin + 15).frame("<built-in method zoom>", begin + 1, begin + 14)
    made.frame("log.py(2): write", 70, 71).frame("data.py(8): total", 72, 97)
    made.op("aten::mm", 110, 120).frame("train.py(20): loss", 125, 135).op("aten::sum", 130, 131)
    made.frame("<built-in method run_backward of object>", 140, 190)
    return made.load(tmp_path_factory.mktemp("alone"))


def rows(trace: Trace, **limits: float) -> list[tuple[object, ...]]:
    found = trace.query("python_alone", **limits)
    names = dict(found.select("event_id", "name").iter_rows())
    return [
        (row["name"], row["start_ns"], row["time_ns"], row["call_count"], names.get(row["around_id"]))
        for row in found.iter_rows(named=True)
    ]


def test_calls_without_ops_and_neighbours_as_one(trace: Trace) -> None:
    """`load` (98 us) is almost only `decode` (94), so that one stands for it; what is in a group is left out."""
    assert rows(trace) == [
        ("data.py(3): decode", 4_000, 94_000, 1, None),
        ("data.py(7): resize", 10_000, 45_000, 3, "data.py(3): decode"),
        ("log.py(2): write", 70_000, 1_000, 1, "data.py(3): decode"),
        ("data.py(8): total", 72_000, 25_000, 1, "data.py(3): decode"),
    ]


def test_short_ones_can_be_left_out(trace: Trace) -> None:
    """Three calls of 15 us are one row of 45."""
    assert [row[0] for row in rows(trace, least_ns=26_000)] == ["data.py(3): decode", "data.py(7): resize"]


def test_a_lower_limit_replaces_more(trace: Trace) -> None:
    """`resize` takes 48 % of `decode`, which is 96 % of `load`."""
    assert rows(trace, dominant_pct=40)[0][0] == "data.py(7): resize"
    assert [row[0] for row in rows(trace, dominant_pct=97)][:2] == ["train.py(9): load", "data.py(3): decode"]


def test_ops_of_other_threads_do_not_count(tmp_path: Path) -> None:
    made = TraceBuilder(rank=0).step(0, 0, 100).frame("a.py(1): wait", 10, 90)
    with made.on(2).op("aten::mm", 20, 30).load(tmp_path) as opened:
        assert [row[0] for row in rows(opened)] == ["a.py(1): wait"]
