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
        samples = ha.throughput(trace, samples=64)["samples_per_s"][0]
        assert samples == pytest.approx(64 * 12 / 2.082, rel=0.001)
        kinds = ha.step_kinds(trace).select("name", "step_count", "every").rows()
        assert kinds == [("usual", 9, None), ("waits for data", 3, 4)]


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
def test_waits_in_every_kth_step_are_no_noise(tmp_path: Path, extra_us: int, every: int) -> None:
    base = loop(tmp_path / "base", extra_us=0, every=every, jitter_us=5)
    new = loop(tmp_path / "new", extra_us=extra_us, every=every, jitter_us=5, seed=1)
    (step,) = ha.diff(base, new, by="step").rows(named=True)
    assert step["change"] == "slower"
    assert step["delta_ns"] == pytest.approx(1000 * extra_us / every, abs=6000)
    assert ha.diff(base, new, by="phase").filter(phase="load_data")["change"].to_list() == ["slower"]
    again = loop(tmp_path / "again", extra_us=extra_us, every=every, jitter_us=5, seed=2)
    assert ha.diff(new, again, by="step")["change"].to_list() in (["noise"], ["same"])
