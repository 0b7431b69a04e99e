"""What the profiler itself does in a step is no time of the program; a full queue is the GPU's.

The time by which a step is longer is the table `step_profiler`.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import hotline_analysis as ha
from hotline_analysis import Trace
from hotline_analysis.answers.limits import step_loop
from hotline_analysis.answers.rules import find_advice
from tests.trace_builder import TraceBuilder

CASES = Path(os.environ.get("HOTLINE_TRACES", "no traces")).parent / "cases"


def case(name: str) -> Path:
    if not (CASES / name).exists():
        pytest.skip("HOTLINE_TRACES has no cases beside it")
    return CASES / name


def recorded(
    folder: Path, *, calls: int = 20, name: str = "Activity Buffer Request", own_us: int = 400, every: int = 5
) -> Trace:
    """Steps in which an op launches a kernel each 20 us, waits at the end, and python has 100 us.

    In every so many calls of a step, an overhead takes `own_us` from 3 us after the start of the call.
    """
    trace = TraceBuilder(rank=0)
    at = 0
    for number in range(4):
        start = at
        for call in range(calls):
            own = own_us if call % every == 0 else 0
            trace.op("aten::mm", at, at + 16 + own)
            trace.launches("gemm", at + 9 + own, at + 14 + own, at=at + 2, until=at + 12 + own)
            if own:
                trace.event(ph="X", cat="overhead", name=name, pid=-1, tid=0, ts=at + 3, dur=own)
            at += 20 + own
        trace.runtime("cudaDeviceSynchronize", at, at + 4, correlation=trace.new_correlation())
        at += 104
        trace.step(number, start, at)
    return trace.load(folder)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Activity Buffer Request", "Buffer Flush", "Instrumentation", "Resource"])
@pytest.mark.parametrize(("calls", "own_us", "every"), [(20, 400, 5), (60, 900, 20), (12, 90, 1)])
@pytest.mark.sampled
def test_steps_are_as_long_as_without_the_profiler(
    tmp_path: Path, name: str, calls: int, own_us: int, every: int
) -> None:
    """Without it, a step is as long as its calls, 20 us each, and 104 us behind them."""
    trace = recorded(tmp_path, calls=calls, name=name, own_us=own_us, every=every)
    length = 20 * calls + 104
    loop = step_loop(trace)
    assert loop is not None
    assert loop.mean_ns == pytest.approx(1000 * length, abs=2000)
    assert loop.profiler_ns == 4 * len(range(0, calls, every)) * own_us * 1000
    assert ha.step_limits(trace)["path_ns"].sum() == loop.mean_ns
    shares = dict(ha.step_limits(trace).select("limit", "path_pct").rows())
    assert "profiler" not in shares
    # ops have 16 of each 20 us, or the last kernel ends the step
    assert shares["launching"] == pytest.approx(100 * 16 * calls / length, abs=6)
    report = ha.report(trace)
    assert "without the profiler's own" in report.facts["steps"]
    assert any("the profiler itself works" in text for text in report.caveats)
    assert all(each.gain_pct <= 100 for each in find_advice(trace))


@pytest.mark.slow
def test_predictions_leave_the_profilers_work_out(tmp_path: Path) -> None:
    """Steps of 504 us, in which it has four times 400 us more. An op or call takes 2.5 us less without recording."""
    trace = recorded(tmp_path)
    found = ha.whatif(trace, "no_profiler")
    assert found.baseline_ns == pytest.approx(504_000, abs=2000)
    assert found.predicted_ns == pytest.approx(504_000 - 41 * 2500, rel=0.02)
    assert any("1.60 ms of each recorded step" in text for text in found.assumptions)
    assert ha.whatif(trace, "cuda_graph").baseline_ns == found.baseline_ns
    (tmp_path / "clean").mkdir()
    clean = recorded(tmp_path / "clean", own_us=0)
    assert found.baseline_ns == pytest.approx(ha.whatif(clean, "no_profiler").baseline_ns, abs=2000)


@pytest.mark.parametrize(
    "name", ["Lazy Function Loading", "Runtime Triggered Module Loading", "Driver Compiler", "Unknown"]
)
def test_other_overhead_is_the_programs(tmp_path: Path, name: str) -> None:
    """Code is loaded without a profiler, too."""
    loop = step_loop(recorded(tmp_path, name=name))
    assert loop is not None
    assert loop.profiler_ns == 0
    assert loop.mean_ns == pytest.approx(1000 * (20 * 20 + 4 * 400 + 104), abs=2000)


def test_idle_time_of_the_gpu_is_the_profilers(tmp_path: Path) -> None:
    """4 x 400 us in each of 4 steps, in which the GPU has no work."""
    use = ha.device_use(recorded(tmp_path)).filter(scope="run").row(0, named=True)
    assert use["profiler_ns"] == pytest.approx(4 * 4 * 400_000, rel=0.01)
    assert use["idle_cause"] == "profiler"


def behind(folder: Path, *, own_us: int, kernel_us: int = 300, first_us: int = 0, count: int = 12) -> Trace:
    """Steps of 10 ops of 40 us that each launch a kernel; the CPU runs ahead, and the profiler works in every third.

    Nothing waits for the GPU, so that its queue grows. Kernels of the first step take `first_us` longer.
    """
    folder.mkdir(exist_ok=True)
    trace, at, free = TraceBuilder(rank=0), 0, 0
    for number in range(count):
        start = at
        for call in range(10):
            own = own_us if call == 1 and number % 3 == 1 else 0
            trace.op("aten::mm", at, at + 40 + own)
            if own:
                trace.event(ph="X", cat="overhead", name="Buffer Flush", pid=-1, tid=0, ts=at + 2, dur=own)
            begins = max(at + 5 + own, free)
            free = begins + kernel_us + (0 if number else first_us)
            trace.launches("gemm", begins, free, at=at + 1, until=at + 6 + own)
            at += 40 + own
        trace.step(number + 1, start, at)
    return trace.annotation("the end", at, max(at + 1, free)).load(folder)


@pytest.mark.parametrize("own_us", [0, 900])
def test_work_of_the_profiler_that_the_queue_hides_makes_no_step_longer(tmp_path: Path, own_us: int) -> None:
    """Each step is 10 kernels of 300 us, as long as the GPU has work, whatever the CPU does."""
    trace = behind(tmp_path, own_us=own_us)
    loop = step_loop(trace)
    assert loop is not None
    # the first step begins with the CPU, 5 us before the first kernel; the profiler is never on the path
    assert loop.loop_ns == pytest.approx(12 * 10 * 300_000, abs=10_000)
    assert loop.profiler_ns == 0
    assert ha.step_kinds(trace)["name"].to_list() == ["usual"]
    assert ha.throughput(trace, samples=8)["samples_per_s"][0] == pytest.approx(8 / 0.003, rel=0.001)
    shares = dict(ha.step_limits(trace).select("limit", "path_pct").rows())
    assert shares["computing"] > 99


@pytest.mark.parametrize(("kernel_us", "first_us", "own_us"), [(36, 70, 900), (30, 200, 2500), (45, 100, 1500)])
def test_a_queue_hides_the_profilers_work_until_the_gpu_has_caught_up(
    tmp_path: Path, kernel_us: int, first_us: int, own_us: int
) -> None:
    """The GPU is behind at first, and catches up over several steps. The loop is as long as the loop without."""
    own, none = (behind(tmp_path / str(us), own_us=us, kernel_us=kernel_us, first_us=first_us) for us in (own_us, 0))
    loops = [step_loop(trace) for trace in (own, none)]
    assert loops[0] is not None
    assert loops[1] is not None
    assert loops[0].loop_ns == pytest.approx(loops[1].loop_ns, abs=5_000)
    assert 0 < loops[0].profiler_ns < 4 * own_us * 1000
    lengths = [
        {step: length - profiler for step, length, profiler in rows}
        for rows in (ha.step_lengths(trace).select("step", "length_ns", "profiler_ns").rows() for trace in (own, none))
    ]
    assert lengths[0] == pytest.approx(lengths[1], abs=5_000)


def test_kinds_throughput_and_gate_are_without_the_profilers_own_work(tmp_path: Path) -> None:
    """The profiler works for 200 us in every second of 20 calls of a step: 2 ms of each step are not the program's."""
    folders = [tmp_path / name for name in ("own", "none")]
    for folder in folders:
        folder.mkdir()
    own, none = recorded(folders[0], own_us=200, every=2), recorded(folders[1], own_us=0)
    assert ha.step_kinds(own)["mean_ns"].to_list() == pytest.approx(ha.step_kinds(none)["mean_ns"].to_list(), rel=0.01)
    assert ha.step_kinds(own)["loop_pct"].sum() == pytest.approx(100)
    rates = [ha.throughput(trace, samples=8)["samples_per_s"][0] for trace in (own, none)]
    assert rates[0] == pytest.approx(rates[1], rel=0.01)
    assert ha.gate(none, own).answer == "pass"
    assert ha.step_lengths(own)["profiler_ns"].to_list() == [10 * 200_000] * 4


def test_a_first_call_in_which_the_profiler_works_is_no_start_up(tmp_path: Path) -> None:
    """Its call takes 2 ms, of which the program has 8 us."""
    trace = recorded(tmp_path, own_us=2000, every=20)
    assert trace.sql("select count(*) from start_up_call").item() == 0
    other = recorded(tmp_path, own_us=2000, every=20, name="Unknown")
    assert other.sql("select count(*) from start_up_call").item() == 1


def full_queue(folder: Path, *, name: str = "Command Buffer Full", kernel_us: int = 1000, depth: int = 30) -> Trace:
    """Launches that each wait until a kernel of the queue starts, which is full with `depth` launches."""
    trace = TraceBuilder(rank=0)
    starts = [10 + kernel_us * number for number in range(60 + depth)]
    at = 0
    for number in range(60 + depth):
        until = max(at + 8, starts[number - depth]) if number >= depth else at + 8
        trace.op("aten::mm", at, until + 2)
        trace.launches("gemm", starts[number], starts[number] + kernel_us, at=at + 1, until=until)
        if until > at + 20:
            trace.event(ph="X", cat="overhead", name=name, pid=-1, tid=0, ts=at + 2, dur=until - at - 3)
        if number >= depth and (number - depth) % 10 == 9:
            trace.step((number - depth) // 10, starts[number - depth - 9] - 5, starts[number - depth + 1] - 5)
        at = until + 3
    return trace.load(folder)


@pytest.mark.parametrize(("kernel_us", "depth"), [(1000, 30), (200, 12), (3000, 64)])
@pytest.mark.sampled
def test_a_full_queue_is_the_gpus_time(tmp_path: Path, kernel_us: int, depth: int) -> None:
    """The launch calls take nearly all of the CPU's time, and wait for the GPU, which never idles."""
    trace = full_queue(tmp_path, kernel_us=kernel_us, depth=depth)
    found = ha.gpu_or_cpu_bound(trace)
    assert found.answer == "gpu-bound"
    assert found.evidence.filter(limit="computing")["path_pct"].sum() > 95
    other = full_queue(tmp_path, name="Unknown", kernel_us=kernel_us, depth=depth)
    assert ha.gpu_or_cpu_bound(other).evidence.filter(limit="computing")["path_pct"].sum() < 95


def test_buffers_of_the_profiler_in_a_case_from_a_user() -> None:
    """3 x 2.47 of 9.9 ms a step are the profiler's: 2.5 ms without."""
    with ha.load(case("01_overhead.json")) as trace:
        loop = step_loop(trace)
        assert loop is not None
        assert loop.mean_ns == pytest.approx(2.5e6, rel=0.03)
        report = ha.report(trace)
        assert "7.41 ms" in report.facts["steps"]
        assert "74" in next(text for text in report.caveats if "the profiler itself works" in text)
        assert all(each.gain_ns < 2.5e6 for each in report.advice)


def test_a_command_buffer_that_is_full_in_a_case_from_a_user() -> None:
    """The GPU is busy for 99.9 %."""
    with ha.load(case("18_command_buffer_full.json")) as trace:
        assert ha.gpu_or_cpu_bound(trace).answer == "gpu-bound"
        assert ha.report(trace).headline.startswith("Mostly computing on the GPU: 99.9 %")
