"""Loops that neither the GPU nor the CPU bounds, and loops in which only the second largest part gains."""

from __future__ import annotations

from pathlib import Path

import pytest

import hotline_analysis as ha
from tests.trace_builder import TraceBuilder


def loop(kernel_us: int, op_us: int, steps: int = 6) -> TraceBuilder:
    """Steps of ten ops that follow each other; each launches a kernel. A step ends after its kernels."""
    trace = TraceBuilder()
    begin = 0
    for step in range(steps):
        free = begin
        for number in range(10):
            at = begin + number * op_us
            trace.op("aten::mm", at, at + op_us)
            free = max(free, at + 1)
            trace.launches("gemm", free, free + kernel_us, at=at)
            free += kernel_us
        called = begin + 10 * op_us
        end = max(called, free) + 1
        trace.runtime("cudaDeviceSynchronize", called, end, correlation=10_000 + step)
        trace.step(step, begin, end)
        begin = end
    return trace


@pytest.mark.parametrize(
    ("kernel_us", "op_us", "answer"),
    [
        (96, 100, "balanced"),  # without ops 4 % shorter, without kernels as long
        (100, 96, "balanced"),
        (100, 100, "balanced"),
        (91, 100, "balanced"),
        (100, 80, "gpu-bound"),  # 20 % shorter without kernels
        (80, 100, "launch-bound"),
        (100, 20, "gpu-bound"),
        (20, 100, "launch-bound"),
    ],
)
def test_a_side_bounds_the_loop_if_a_step_gains_a_tenth_without_it(
    kernel_us: int, op_us: int, answer: str, tmp_path: Path
) -> None:
    with loop(kernel_us, op_us).load(tmp_path) as trace:
        found = ha.gpu_or_cpu_bound(trace)
        longest = max(kernel_us, op_us)
        assert found.answer == answer
        if answer == "balanced":
            gains = (found.numbers["without_gpu_gain_pct"], found.numbers["without_cpu_gain_pct"])
            # Without the kernels, ops are left, and without the ops, kernels are left.
            assert gains == pytest.approx((100 - 100 * op_us / longest, 100 - 100 * kernel_us / longest), abs=1.0)
            assert "Neither bounds the loop" in found.statement
            assert ha.report(trace).headline.startswith("The GPU and the CPU take about as long")


def test_the_least_gain_is_a_parameter(tmp_path: Path) -> None:
    with loop(88, 100).load(tmp_path) as trace:
        assert ha.gpu_or_cpu_bound(trace).answer == "launch-bound"
        assert ha.gpu_or_cpu_bound(trace, balanced_pct=15).answer == "balanced"
        assert ha.gpu_or_cpu_bound(trace, balanced_pct=0).answer == "launch-bound"


def test_two_large_parts_and_only_the_second_gains(tmp_path: Path) -> None:
    """The first half of a step waits for kernels of two streams that take as long; the second half for ops."""
    trace = TraceBuilder()
    for step in range(6):
        begin = 1000 * step
        trace.step(step, begin, begin + 1000)
        trace.op("aten::mm", begin, begin + 10)
        trace.launches("gemm", begin + 5, begin + 520, at=begin)
        trace.op("aten::all_reduce", begin + 10, begin + 20)
        trace.launches("ncclDevKernel_AllReduce", begin + 12, begin + 520, at=begin + 10, stream=20)
        trace.runtime("cudaDeviceSynchronize", begin + 21, begin + 520, correlation=10_000 + step)
        for number in range(6):
            trace.op("aten::add_", begin + 521 + 79 * number, begin + 600 + 79 * number)
    with trace.load(tmp_path) as opened:
        found = ha.gpu_or_cpu_bound(opened)
        shares = dict(found.evidence.select("limit", "path_pct").rows())
        assert found.answer in ("cpu-tensor-bound", "launch-bound"), shares
