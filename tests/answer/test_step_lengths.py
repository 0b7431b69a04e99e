from pathlib import Path

import hotline_analysis as ha
from hotline_analysis import Trace
from hotline_analysis.answers.limits import step_loop
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


def kinds(trace: Trace) -> list[int | None]:
    return ha.step_lengths(trace)["kind"].to_list()


def test_no_step_is_left_out_for_being_long(tmp_path: Path) -> None:
    trace = loop(100, 900, 100, 151).load(tmp_path)
    assert [role for *_, role in lengths(trace)] == ["typical", "usual", "usual", "usual"]
    # Over half as long again as the next shorter one: another kind. So few long steps are one kind.
    assert kinds(trace) == [0, 1, 0, 1]


def test_steps_that_are_as_long_as_others_are_of_their_kind(tmp_path: Path) -> None:
    assert kinds(loop(100, 150, 100, 149).load(tmp_path)) == [0] * 4


def test_a_clear_gap_parts_kinds_although_it_is_small(tmp_path: Path) -> None:
    """A tenth longer, and twice as far away as the shorter ones are apart."""
    assert kinds(loop(100, 102, 101, 114, 100, 102, 101, 115).load(tmp_path)) == [0, 0, 0, 1, 0, 0, 0, 1]
    (tmp_path / "wide").mkdir()
    assert kinds(loop(100, 108, 101, 120, 100, 102, 101, 120).load(tmp_path / "wide")) == [0] * 8


def test_a_phase_that_only_some_steps_have_makes_a_kind(tmp_path: Path) -> None:
    trace = TraceBuilder()
    for number in range(1, 7):
        at = 100 * number
        trace.step(number, at, at + 100).op("aten::mm", at + 1, at + 60)
        if number % 3 == 0:
            trace.annotation("Optimizer.step#SGD.step", at + 70, at + 90)
    opened = trace.load(tmp_path)
    assert kinds(opened) == [0, 0, 1, 0, 0, 1]
    assert ha.step_kinds(opened)["name"].to_list()[1] == "with optimizer"


def test_a_first_step_that_is_as_long_as_another_counts(tmp_path: Path) -> None:
    """Nothing shows that it is a warm-up: a loader that is slow now and then was slow in it."""
    found = loop(400, 100, 100, 400, 100, 100, first=0).load(tmp_path)
    assert lengths(found)[0][2] == "usual"


def test_first_calls_make_a_warm_up(tmp_path: Path) -> None:
    """The first launch of a kernel takes 2 ms, in a step of 5 ms; without it, the step would be like the others."""
    trace = TraceBuilder()
    for number, first in ((3, 2000), (4, 5), (5, 5)):
        at = 10_000 * number
        trace.step(number, at, at + 3000 + first).op("op", at, at + first + 20)
        trace.launches("k", at + first + 10, at + first + 2900, at=at, until=at + first)
    assert [role for *_, role in lengths(trace.load(tmp_path))] == ["warm_up", "typical", "usual"]


def test_a_last_step_without_work_is_cut_off(tmp_path: Path) -> None:
    trace = loop(100, 100, 100).step(6, 300, 400).op("op", 300, 305)
    assert [role for *_, role in lengths(trace.load(tmp_path))][-1] == "cut_off"
    # Where others have no work either, the last one is a step like them.
    (tmp_path / "rollouts").mkdir()
    every_second = loop(100, 100).step(5, 200, 300).op("op", 200, 205).step(6, 300, 400).op("op", 300, 305)
    every_second.launches("k", 304, 306, at=300).step(7, 400, 500).op("op", 400, 405)
    assert "cut_off" not in [role for *_, role in lengths(every_second.load(tmp_path / "rollouts"))]


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


def test_start_up_work_and_what_the_main_thread_does(tmp_path: Path) -> None:
    """The tables behind the roles and traits (`step_role`, `step_trait`) of `step_length`, by hand."""
    trace = TraceBuilder().step(3, 0, 5000).op("op", 0, 3000).launches("k", 2900, 2950, at=100, until=2100)
    trace.runtime("cudaMalloc", 2200, 2300).annotation("epoch 7", 3500, 4000)
    opened = trace.load(tmp_path)
    start_up = opened.sql("select kind, end_ns - start_ns as ns from start_up_call order by kind").rows()
    assert start_up == [("allocation", 100_000), ("first_call", 2_000_000)]
    phases = opened.sql("select sum(time_ns)::bigint from step_activity where region is null").item()
    assert phases == 5_000_000
    regions = opened.sql("select region, time_ns from step_activity where region is not null").rows()
    assert regions == [("epoch #", 500_000)]


def test_steps_within_the_work_of_before_are_not_judged(tmp_path: Path) -> None:
    """One kernel of 50 ms, launched before the first step, runs beyond the last: no step takes time of its own."""
    trace = TraceBuilder(rank=0)
    trace.op("aten::add", 0, 20)
    trace.launches("early", 10, 50_000, at=2, until=8)
    for number in range(3):
        begin = 1000 + 1000 * number
        trace.op("aten::mm", begin + 10, begin + 500)
        trace.step(number + 1, begin, begin + 900)
    found = trace.load(tmp_path)
    assert ha.step_lengths(found)["length_ns"].to_list() == [0, 0, 0]
    assert step_loop(found) is None
    report = ha.report(found)
    assert report.headline.startswith("No step can be judged:")
    assert "busy for 100" in report.headline
