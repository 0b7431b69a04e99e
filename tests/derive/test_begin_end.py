from pathlib import Path

from hotline_analysis import Trace
from tests.trace_builder import TraceBuilder


def write(tmp_path: Path, *marks: tuple[str, str, int, int]) -> Trace:
    trace = TraceBuilder()
    for ph, name, at, tid in marks:
        trace.event(ph=ph, name=name, cat="user_annotation", pid=1000, tid=tid, ts=at)
    return trace.op("op", 1000, 1001).load(tmp_path)


def spans(trace: Trace) -> list[tuple[str, int, int]]:
    found: list[tuple[str, int, int]] = trace.sql(
        "select name, start_ns, end_ns from event where ph = 'B' and end_ns is not null order by event_id"
    ).rows()
    return [(name, start // 1000, end // 1000) for name, start, end in found]


def test_an_end_closes_the_innermost_begin_of_its_thread(tmp_path: Path) -> None:
    trace = write(
        tmp_path,
        ("B", "outer", 0, 1),
        ("B", "other thread", 5, 2),
        ("B", "inner", 10, 1),
        ("E", "inner", 20, 1),
        ("B", "next", 20, 1),
        ("E", "other thread", 25, 2),
        ("E", "next", 30, 1),
        ("E", "outer", 40, 1),
    )
    assert spans(trace) == [("outer", 0, 40), ("other thread", 5, 25), ("inner", 10, 20), ("next", 20, 30)]


def test_the_order_in_the_file_does_not_matter(tmp_path: Path) -> None:
    trace = write(tmp_path, ("E", "", 40, 1), ("B", "inner", 10, 1), ("E", "", 20, 1), ("B", "outer", 0, 1))
    assert sorted(spans(trace)) == [("inner", 10, 20), ("outer", 0, 40)]


def test_a_begin_without_an_end_has_no_duration(tmp_path: Path) -> None:
    trace = write(tmp_path, ("B", "open", 0, 1), ("B", "closed", 10, 1), ("E", "closed", 20, 1))
    assert spans(trace) == [("closed", 10, 20)]
    assert trace.sql("select count(*) from annotated_event where name = 'open'").item() == 0


def test_an_end_without_a_begin_is_no_duration(tmp_path: Path) -> None:
    trace = write(tmp_path, ("E", "stray", 5, 1), ("B", "span", 10, 1), ("E", "span", 20, 1))
    assert spans(trace) == [("span", 10, 20)]
