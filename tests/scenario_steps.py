"""Steps of kernels for predictions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import hotline_analysis as ha
from tests.trace_builder import TraceBuilder

GEMM = "volta_sgemm_128x64_nn"
POINTWISE = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>(int)"
Work = tuple[str, str, int, dict[str, Any]]


def kernel(name: str, length: int, phase: str = "forward", **args: Any) -> Work:
    return name, phase, length, args


def steps(
    folder: Path, *works: Work, host_us: int = 40, count: int = 5, major: int | None = 7, gpu: str = "a GPU"
) -> ha.Trace:
    """Steps in which a thread launches works back to back; each launch is an op of 4 us, then the thread is idle.

    The first one is a millisecond longer, so it counts as warm-up.
    """
    devices = [{"id": 0, "name": gpu, "computeMajor": major}] if major is not None else []
    trace = TraceBuilder(rank=0, deviceProperties=devices)
    at = free = 1000
    for number in range(count):
        trace.step(number, at if number else 0, at + host_us)
        for place, (name, phase, length, args) in enumerate(works):
            call = at + 4 * place
            mark = "Optimizer.step#SGD.step" if phase == "optimizer" else f"## {phase} ##"
            trace.annotation(mark, call, call + 4)
            begins = max(call + 3, free)
            free = begins + length
            op = args.get("op", "aten::op")
            given = {key: value for key, value in args.items() if key not in ("op", "blocks", "dims")}
            dims = args.get("dims")
            shapes = {"Input Dims": dims, "Input type": ["float"] * len(dims)} if dims else {}
            trace.op(op, call, call + 4, **shapes)
            trace.launches(name, begins, free, at=call + 1, until=call + 2, **given)
        at += host_us
    return trace.annotation("the end", at, max(at + 1, free)).load(folder)
