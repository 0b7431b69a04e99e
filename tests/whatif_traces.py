"""Small traces for the edits of predictions."""

from __future__ import annotations

from pathlib import Path

import hotline_analysis as ha
from tests.trace_builder import TraceBuilder


def two_kernels(host_us: int, *kernels_us: int, steps: int = 5) -> TraceBuilder:
    """Steps of `host_us` in the op `work`, at whose start kernels `k0`, `k1`, … are launched, 2 us apart.

    The first one is a millisecond longer, so it counts as warm-up.
    """
    trace = TraceBuilder(rank=0)
    at = free = 1000
    for number in range(steps):
        trace.step(number, at if number else 0, at + host_us).op("aten::work", at, at + host_us)
        for place, length in enumerate(kernels_us):
            call = at + 2 * place
            begins = max(call + 3, free)
            free = begins + length
            trace.launches(f"k{place}", begins, free, at=call, until=call + 1)
        at += host_us
    return trace.annotation("the end", at, max(at + 1, free))


def with_gradients(folder: Path, step_us: int = 160, sizes: tuple[int, int] = (262144, 1)) -> ha.Trace:
    """A gradient of 1 MiB is ready when backward's first kernel is done, one of 4 bytes with its second one.

    Step: kernels of 100 and 50 us in backward, one of 10 us in the optimizer: 160 us of the GPU. A step of the CPU
    takes `step_us`.
    """
    trace = TraceBuilder(rank=0)
    at = 0
    for number in range(5):
        trace.on(1).step(number, at, at + step_us)
        trace.annotation("## backward ##", at, at + 40)
        for place, length in enumerate((100, 50)):
            begin = at + 20 * place
            trace.op("aten::mm", begin, begin + 8).launches(
                f"grad{place}", at + 5 + 100 * place, at + 5 + 100 * place + length, at=begin + 1, until=begin + 3
            )
            args = {"Input Dims": [[sizes[place]]], "Input type": ["float"]}
            trace.complete("cpu_op", "torch::autograd::AccumulateGrad", begin + 10, begin + 12, args)
        trace.annotation("Optimizer.step#SGD.step", at + 50, at + 70)
        trace.op("aten::add_", at + 52, at + 60).launches("update", at + 155, at + 165, at=at + 54, until=at + 56)
        at += step_us
    return trace.annotation("the end", at, at + 10).load(folder)
