"""A loop of reinforcement learning: every second step begins with a rollout, which has 84 % of the time.

A rollout generates 84 tokens, each in 4 ms: an op of 2.5 ms launches a kernel of 1 ms, and python has 1.5 ms. The CPU
waits for no kernel. Training launches four ops of 1 ms, whose kernels take 32 ms with the launch of the first one and
the return of the synchronise at the end, 5 us each. So two steps take 336 + 32 + 32 = 400 ms, a step 200 ms on average.

Of these 400 ms, the loop waits for ops of the rollout for 84 x 2.5 = 210 ms (52.5 %), for python for 84 x 1.5 = 126 ms
(31.5 %), and for kernels of training for 2 x 31.99 ms (16.0 %), of which the optimizer has 2 x 7.99 (4.0 %). The GPU is
busy for 84 x 1 + 2 x 31.99 = 148 ms (37.0 %), of which kernels of the rollout are 84 ms (56.8 %).
"""

from __future__ import annotations

from pathlib import Path

import pytest

import hotline_analysis as ha
from hotline_analysis import Trace
from hotline_analysis.answers.limits import step_loop
from tests.trace_builder import TraceBuilder

TOKENS = 84


def training(
    folder: Path, *, steps: int = 16, first: int = 0, every: int = 2, op_us: int = 2500, python_us: int = 1500
) -> Trace:
    """The loop; the step at place `first` and each `every`-th after it has a rollout."""
    folder.mkdir()
    trace, at = TraceBuilder(rank=0), 0
    for number in range(steps):
        start = at
        if (number - first) % every == 0:
            for _ in range(TOKENS):
                trace.op("aten::baddbmm", at, at + op_us)
                trace.launches("attention", at + 5, at + 1005, at=at, until=at + 10)
                at += op_us + python_us
            trace.annotation("rollout", start, at)
        begin = at
        for place, (phase, op, kernel) in enumerate(
            [
                ("## forward ##", "aten::linear", "gemm_forward"),
                ("## backward ##", "aten::mm", "gemm_input"),
                ("## backward ##", "aten::mm", "gemm_weight"),
                ("Optimizer.step#AdamW.step", "aten::_foreach_add_", "foreach_add"),
            ]
        ):
            trace.annotation(phase, at, at + 1000)
            trace.op(op, at, at + 1000)
            runs = begin + 5 + 8000 * place
            trace.launches(kernel, runs, runs + (7990 if place == 3 else 8000), at=at, until=at + 10)
            at += 1000
        trace.runtime("cudaDeviceSynchronize", at, begin + 32_000, correlation=trace.new_correlation())
        at = begin + 32_000
        trace.step(number + 1, start, at)
    return trace.load(folder)


@pytest.mark.slow
def test_the_loop_and_its_kinds(tmp_path: Path) -> None:
    trace = training(tmp_path / "run")
    loop = step_loop(trace)
    assert loop is not None
    assert (loop.count, loop.loop_ns, loop.mean_ns) == (16, 3_200_000_000, 200_000_000)
    kinds = ha.step_kinds(trace)
    assert kinds.select("name", "step_count", "every", "mean_ns", "longer_ns", "cause").rows() == [
        ("usual", 8, None, 32_000_000, 0, None),
        ("with rollout", 8, 2, 368_000_000, 336_000_000, "rollout"),
    ]
    assert kinds["loop_pct"].to_list() == pytest.approx([8.0, 92.0])


@pytest.mark.slow
def test_the_headline_and_the_three_answers(tmp_path: Path) -> None:
    trace = training(tmp_path / "run")
    shares = dict(ha.step_limits(trace).select("limit", "path_pct").rows())
    expected = {"launching": 52.5, "python": 31.5, "computing": 16.0}
    assert {limit: shares[limit] for limit in expected} == pytest.approx(expected, abs=0.1)
    assert sum(shares.values()) == pytest.approx(100)
    report = ha.report(trace)
    assert report.headline.startswith("Mostly ops and launch calls on the CPU: 52.5 % of the step")
    bound = ha.gpu_or_cpu_bound(trace)
    assert bound.answer == "launch-bound"
    assert bound.statement.startswith("The CPU, for 84.0 % of the step")
    assert "The GPU is busy for 37.0 % of the time" in bound.statement
    optimizer = ha.optimizer_bottleneck(trace)
    assert optimizer.answer == "no"
    assert optimizer.numbers["optimizer_pct"] == pytest.approx(4.0, abs=0.1)
    # its share of 32 and of 368 ms
    assert [optimizer.numbers[name] for name in ("least_pct", "most_pct")] == pytest.approx([2.2, 25.0], abs=0.1)
    assert report.findings[2].statement.startswith("aten::baddbmm: 672 ms of GPU time in 672 calls, 56.8 %")


@pytest.mark.slow
def test_the_first_advice_is_about_the_rollout(tmp_path: Path) -> None:
    """If kernels of the rollout follow each other, a token takes 1 instead of 4 ms: 84 x 3 of 400 ms (63.0 %)."""
    first = ha.report(training(tmp_path / "run")).advice[0]
    assert 'the region "rollout"' in first.what
    assert first.gain_pct == pytest.approx(63.0, abs=0.1)


def test_throughput(tmp_path: Path) -> None:
    """32 samples in 200 ms on average, in 32 ms without a rollout, and in 368 with one."""
    trace = training(tmp_path / "run")
    assert ha.throughput(trace, samples=32)["samples_per_s"].to_list() == pytest.approx([160.0])
    kinds = ha.throughput(trace, samples=32, by="kind").sort("kind")
    assert kinds["samples_per_s"].to_list() == pytest.approx([32 / 0.032, 32 / 0.368])


def test_gate_and_diff(tmp_path: Path) -> None:
    base = training(tmp_path / "base")
    again = training(tmp_path / "again", steps=13)
    assert ha.gate(base, again).answer == "pass"
    assert ha.diff(base, again, by="step")["change"].to_list() == ["noise"]
    # tokens that take 5 ms: 84 ms in every second step, 21 %
    slower = training(tmp_path / "slower", python_us=2500)
    assert str(ha.gate(base, slower)).startswith("FAIL: step 200 ms → 242 ms, +21.00 %")
    assert ha.gate(slower, base).answer == "pass"
    (step,) = ha.diff(base, slower, by="step").rows(named=True)
    assert (step["change"], step["delta_ns"]) == ("slower", 42_000_000)
    assert ha.diff(base, slower, by="part")["part"][0] == "idle: python"
    headline = ha.diff_report(base, slower).headline
    assert headline.endswith("8 of 16 steps of B have rollout, +420 ms each; 8 of 16 of A do, +336 ms each.")
    # a rollout in every fourth step: 84 ms less on average
    fewer = training(tmp_path / "fewer", every=4)
    assert str(ha.gate(base, fewer)).startswith("PASS: step 200 ms → 116 ms, −42.00 %")
    headline = ha.diff_report(base, fewer).headline
    assert headline.endswith("4 of 16 steps of B have rollout, +336 ms each; 8 of 16 of A do, +336 ms each.")
