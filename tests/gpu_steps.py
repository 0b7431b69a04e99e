"""Steps of kernels on an A100, with shapes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import hotline_analysis as ha
from tests.trace_builder import TraceBuilder

POINTWISE = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>(int)"
HALF_GEMM = "sm80_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64"
A100 = {
    "id": 0,
    "name": "NVIDIA A100-SXM4-40GB",
    "computeMajor": 8,
    "computeMinor": 0,
    "maxThreadsPerMultiprocessor": 2048,
    "regsPerMultiprocessor": 65536,
    "sharedMemPerMultiprocessor": 164 * 1024,
    "warpSize": 32,
    "numSms": 108,
    "totalGlobalMem": 40 << 30,
}


def shaped(blocks: int) -> dict[str, Any]:
    """The arguments of a kernel of which a multiprocessor holds eight blocks at a time."""
    return {"grid": [blocks, 1, 1], "block": [256, 1, 1], "registers per thread": 32, "shared memory": 0}


def steps(
    folder: Path, kernel: str, length: int, *, device: dict[str, Any] | None = None, dims: Any = None,
    dtype: str = "float", op: str = "aten::add", allocated: int | None = None, **args: Any,
) -> ha.Trace:  # fmt: skip
    """Five steps of 40 us of the CPU, in each of which an op launches a kernel that takes `length` us.

    The first one is a millisecond longer, so it counts as warm-up.
    """
    folder.mkdir(exist_ok=True)
    trace = TraceBuilder(rank=0, deviceProperties=[device or A100])
    at = free = 1000
    shapes = {"Input Dims": dims, "Input type": [dtype] * len(dims)} if dims else {}
    for number in range(5):
        trace.step(number, at if number else 0, at + 40).op(op, at, at + 10, **shapes)
        begins = max(at + 5, free)
        free = begins + length
        trace.launches(kernel, begins, free, at=at + 1, until=at + 2, **args)
        if allocated is not None:
            trace.memory(allocated, at + 3, total=allocated, device=0, address=number + 1)
            trace.memory(-allocated, at + 4, total=0, device=0, address=number + 1)
        at += 40
    return trace.annotation("the end", at, max(at + 1, free)).load(folder)
