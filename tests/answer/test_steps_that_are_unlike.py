"""Loops in which not every step has all: the whole of the loop counts, in answers and in comparisons."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

import hotline_analysis as ha
from hotline_analysis import Trace
from hotline_analysis.answers.limits import step_loop
from hotline_analysis.answers.periods import period
from tests.trace_builder import TraceBuilder

CASES = Path(os.environ.get("HOTLINE_TRACES", "no traces")).parent / "cases"


def case(name: str) -> Path:
    if not (CASES / name).exists():
        pytest.skip("HOTLINE_TRACES has no cases beside it")
    return CASES / name


def share(trace: Trace, limit: str) -> float:
    return float(ha.step_limits(trace).filter(limit=limit)["path_pct"].sum())


@pytest.mark.slow
def test_a_loader_that_is_late_in_every_fourth_step() -> None:
    """12 steps in 2,082 ms, of which 3 wait 300 ms for data: 173.5 ms a step, 43.4 % loading, the GPU busy for 56.5."""
    with ha.load(case("40_loader_every_4th.json")) as trace:
        loop = step_loop(trace)
        assert loop is not None
        assert loop.count == 12
        assert loop.loop_ns == pytest.approx(2082e6, rel=0.001)
        assert share(trace, "load_data") == pytest.approx(43.4, abs=0.1)
        assert ha.device_use(trace).filter(scope="run")["gpu_busy_pct"][0] == pytest.approx(56.5, abs=0.5)
        report = ha.report(trace)
        assert report.advice[0].rule == "loader_too_few_workers"
        assert report.advice[0].gain_pct == pytest.approx(43.4, abs=0.5)
        assert "43.4 %" in report.headline
        assert report.lead.startswith(
            "Every 4th step waits 300 ms longer for data; the GPU is idle for 4"  # 100 - 56.5 in whole per cents
        )
        assert report.cards[0].answer == "The CPU: it loads data"
        samples = ha.throughput(trace, samples=64)["samples_per_s"][0]
        assert samples == pytest.approx(64 * 12 / 2.082, rel=0.001)
        kinds = ha.step_kinds(trace).select("name", "step_count", "every").rows()
        assert kinds == [("usual", 9, None), ("waits for data", 3, 4)]


def test_steps_that_repeat_are_no_noise_of_a_prediction() -> None:
    """Blocks of four steps take 694 ms each, so another run takes as long but for the noise of the CPU and the GPU."""
    with ha.load(case("40_loader_every_4th.json")) as trace:
        found = ha.whatif(trace, "loader")
        assert found.baseline_ns == pytest.approx(2082e6 / 12, rel=0.01)
        assert found.high_ns - found.low_ns < 0.25 * found.baseline_ns


def test_a_run_that_waits_for_data_in_some_steps_is_slower() -> None:
    """98.6 and 173.5 ms a step: 76 % more."""
    with ha.load(case("40g_ok_16.json")) as base, ha.load(case("40g_bad_16.json")) as new:
        assert str(ha.gate(base, new)).startswith("FAIL: step 98.6 ms → 174 ms")
        assert str(ha.gate(base, base)).startswith("PASS")
        (step,) = ha.diff(base, new, by="step").rows(named=True)
        assert step["change"] == "slower"
        assert step["delta_ns"] == pytest.approx(74.9e6, rel=0.01)
        parts = ha.diff(base, new, by="part").filter(change="slower")
        assert parts["part"][0] == "idle: load_data"
        assert "loads data +74.9" in " ".join(str(ha.diff_report(base, new)).split())


def test_accumulation_over_four_steps() -> None:
    """Optimizer and all-reduce have 120 of 829.6 ms each."""
    with ha.load(case("41_accumulation.json")) as trace:
        loop = step_loop(trace)
        assert loop is not None
        assert loop.loop_ns == pytest.approx(829.6e6, rel=0.001)
        assert share(trace, "communication") == pytest.approx(14.5, abs=0.1)
        found = ha.optimizer_bottleneck(trace)
        assert found.numbers["optimizer_pct"] == pytest.approx(14.5, abs=0.1)
        assert "with communication and optimizer" in ha.step_kinds(trace)["name"].to_list()


@pytest.mark.parametrize(
    ("kinds", "length"),
    [
        ([0, 0, 0, 1] * 3, 4),
        ([0, 1] * 2, 2),
        ([0, 0, 1, 0, 0, 1, 0], 3),
        ([0, 0, 0, 1, 0, 0, 0], 4),
        ([0] * 6, 1),
        ([0, 0, 0, 1, 0], 1),
        ([0, 1, 0, 0, 1, 0, 1, 1], 1),
        ([], 1),
    ],
)
def test_period(kinds: list[int], length: int) -> None:
    """[0, 0, 0, 1, 0, 0, 0] is not repeated twice as a whole of four."""
    assert period(kinds) == (1 if len(kinds) < 2 * length else length)


def loop(folder: Path, *, extra_us: int, every: int, jitter_us: int = 0, count: int = 24, seed: int = 0) -> Trace:
    """Steps of 1,000 us, of which every so many wait `extra_us` longer for a batch."""
    rng = random.Random(seed)
    folder.mkdir()
    trace, at = TraceBuilder(rank=0), 0
    for number in range(count):
        wait = 20 + (extra_us if number % every == every - 1 else 0)
        length = 980 + (rng.randint(-jitter_us, jitter_us) if jitter_us else 0)
        trace.step(number, at, at + wait + length)
        trace.annotation("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", at, at + wait)
        trace.op("aten::linear", at + wait, at + wait + length)
        at += wait + length
    return trace.load(folder)


@pytest.mark.parametrize(("extra_us", "every"), [(400, 4), (2000, 6), (600, 2), (900, 8)])
@pytest.mark.sampled
def test_waits_in_every_kth_step_are_no_noise(tmp_path: Path, extra_us: int, every: int) -> None:
    base = loop(tmp_path / "base", extra_us=0, every=every, jitter_us=5)
    new = loop(tmp_path / "new", extra_us=extra_us, every=every, jitter_us=5, seed=1)
    (step,) = ha.diff(base, new, by="step").rows(named=True)
    assert step["change"] == "slower"
    assert step["delta_ns"] == pytest.approx(1000 * extra_us / every, abs=6000)
    assert ha.diff(base, new, by="phase").filter(phase="load_data")["change"].to_list() == ["slower"]
    again = loop(tmp_path / "again", extra_us=extra_us, every=every, jitter_us=5, seed=2)
    assert ha.diff(new, again, by="step")["change"].to_list() in (["noise"], ["same"])


@pytest.mark.parametrize(("count", "every"), [(13, 2), (19, 4)])
def test_where_a_period_begins_is_no_change(tmp_path: Path, count: int, every: int) -> None:
    """13 steps of which every second one waits: six or seven do, and the program is the same."""
    base = loop(tmp_path / "base", extra_us=3000, every=every)
    new = loop(tmp_path / "new", extra_us=3000, every=every, count=count)
    assert ha.diff(base, new, by="step")["change"].to_list() == ["noise"]
    assert ha.gate(base, new).answer == "pass"
    assert "wait for data" not in ha.diff_report(base, new).headline


def test_diff_says_which_kinds_of_steps_changed(tmp_path: Path) -> None:
    """Every fourth of 24 steps takes 1,400 instead of 1,000 us, as it waits for data."""
    base, new = loop(tmp_path / "base", extra_us=0, every=4), loop(tmp_path / "new", extra_us=400, every=4)
    report = ha.diff_report(base, new)
    assert report.headline.endswith("6 of 24 steps of B wait for data, +400 µs each; none of A do.")
    section = next(section for section in report.sections if section.name == "step_kinds")
    assert section.rows.select("name", "steps", "mean_ns", "steps_b", "mean_ns_b", "delta_ns").rows() == [
        ("waits for data", "0 of 24", None, "6 of 24", 1_400_000, 350_000),
        ("usual", "24 of 24", 1_000_000, "18 of 24", 1_000_000, -250_000),
    ]
    back = ha.diff_report(new, base).headline
    assert back.endswith("None of 24 steps of B wait for data; 6 of 24 of A do, +400 µs each.")
    longer = loop(tmp_path / "longer", extra_us=800, every=4)
    both = ha.diff_report(new, longer).headline
    assert both.endswith("6 of 24 steps of B wait for data, +800 µs each; 6 of 24 of A do, +400 µs each.")
    assert all(section.name != "step_kinds" for section in ha.diff_report(base, base).sections)


def test_slow_steps_of_unlike_causes_are_unlike_kinds(tmp_path: Path) -> None:
    """One of 12 steps of 1,000 us waits 2,000 us for data, another one computes for 3,000 us more: 17,000 us.

    All steps load data for 20 us besides: 240 us.
    """
    trace, at = TraceBuilder(rank=0), 0
    for number in range(12):
        wait, length = 20 + 2000 * (number == 4), 980 + 3000 * (number == 9)
        trace.step(number, at, at + wait + length)
        trace.annotation("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", at, at + wait)
        trace.annotation("## forward ##", at + wait, at + wait + length)
        trace.op("aten::linear", at + wait, at + wait + length)
        at += wait + length
    opened = trace.load(tmp_path)
    kinds = ha.step_kinds(opened).sort("kind").select("name", "step_count", "mean_ns").rows()
    assert kinds == [
        ("usual", 10, 1_000_000),
        ("waits for data", 1, 3_000_000),
        ("longer forward", 1, 4_000_000),
    ]
    assert share(opened, "load_data") == pytest.approx(100 * 2240 / 17000, abs=0.1)


def test_steps_with_an_evaluation_are_a_kind(tmp_path: Path) -> None:
    """Of 8 steps, 2 run the model again after the optimizer: 4,000 us longer, so 8,000 of 8 * 1,000 + 8,000 us."""
    trace = TraceBuilder(rank=0)
    start = 0
    for number in range(8):
        has_evaluation = number % 4 == 3
        end = start + (5000 if has_evaluation else 1000)
        trace.step(number + 1, start, end)
        trace.op("aten::linear", start, start + 300, seq=10 * number + 1)
        trace.op("autograd::engine::evaluate_function: AddmmBackward0", start + 300, start + 700, seq=10 * number + 1)
        trace.annotation("Optimizer.step#SGD.step", start + 700, start + 1000)
        trace.op("aten::add_", start + 700, start + 1000)
        if has_evaluation:
            trace.op("aten::linear", start + 1000, start + 5000)
        start = end
    loaded = trace.load(tmp_path)
    kinds = ha.step_kinds(loaded).select("name", "step_count", "every", "cause", "cause_ns").rows()
    assert kinds == [("usual", 6, None, None, None), ("with evaluation", 2, None, "evaluation", 4_000_000)]
    assert ha.report(loaded).lead.startswith("Evaluation takes 50 % of the time, in 2 of 8 steps.")
