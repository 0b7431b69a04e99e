from pathlib import Path

import hotline_analysis as ha
from hotline_analysis import Trace
from tests.trace_builder import TraceBuilder


def lengths(trace: Trace) -> list[tuple[int, float, str]]:
    """Step, its time from work to work in us, and its role."""
    return [
        (step, ns / 1000, role) for step, ns, role in ha.step_lengths(trace).select("step", "length_ns", "role").rows()
    ]


def loop(*durations: int, first: int = 3) -> TraceBuilder:
    """Steps of so many microseconds, each with one kernel that is done before the next begins."""
    trace, at = TraceBuilder(), 0
    for number, duration in enumerate(durations, start=first):
        trace.step(number, at, at + duration).op("op", at, at + 5).launches("k", at + 4, at + 6, at=at)
        at += duration
    return trace


def test_the_median_stands_for_the_run(tmp_path: Path) -> None:
    found = lengths(loop(100, 120, 90, 110).load(tmp_path))
    assert found == [(3, 100, "typical"), (4, 120, "usual"), (5, 90, "usual"), (6, 110, "usual")]


def test_what_takes_over_half_as_long_again_is_an_outlier(tmp_path: Path) -> None:
    found = lengths(loop(100, 150, 100, 151).load(tmp_path))
    assert [role for *_, role in found] == ["usual", "usual", "typical", "outlier"]


def test_without_a_schedule_the_first_step_is_warm_up(tmp_path: Path) -> None:
    assert [role for *_, role in lengths(loop(900, 100, 110, first=0).load(tmp_path))] == [
        "warm_up",
        "typical",
        "usual",
    ]
    (tmp_path / "two").mkdir()
    # of two steps, none can be told apart
    assert "warm_up" not in [role for *_, role in lengths(loop(900, 100, first=0).load(tmp_path / "two"))]


def test_empty_steps_at_the_end_do_not_count(tmp_path: Path) -> None:
    trace = loop(100, 110, 120).step(6, 330, 331).step(7, 331, 332)
    assert [role for *_, role in lengths(trace.load(tmp_path))] == ["usual", "typical", "usual", "empty", "empty"]


def test_an_empty_step_in_the_middle_is_a_step(tmp_path: Path) -> None:
    trace = TraceBuilder().step(3, 0, 100).op("a", 0, 5).launches("k", 4, 6).step(4, 100, 200).annotation("x", 100, 200)
    trace.step(5, 200, 300).op("b", 200, 205).launches("k", 204, 206)
    assert "empty" not in [role for *_, role in lengths(trace.load(tmp_path))]


def test_a_step_is_as_long_as_from_work_to_work(tmp_path: Path) -> None:
    """The CPU is ahead: it marks 10 and 10 us, while the work of the steps is done at 100 and 180."""
    trace = TraceBuilder().step(3, 0, 10).op("a", 0, 5).launches("k", 2, 100, at=1)
    trace.step(4, 10, 20).op("b", 10, 15).launches("k", 100, 180, at=11).annotation("end", 20, 21)
    assert lengths(trace.load(tmp_path)) == [(3, 100, "usual"), (4, 80, "typical")]


def test_a_trace_of_the_cpu_alone(tmp_path: Path) -> None:
    trace = TraceBuilder().step(3, 0, 100).op("a", 0, 5).step(4, 100, 190).op("b", 100, 105).step(5, 190, 191)
    assert [role for *_, role in lengths(trace.load(tmp_path))] == ["usual", "typical", "empty"]
