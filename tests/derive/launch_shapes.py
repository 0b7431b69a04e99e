"""Kernels with a launch shape, and the GPU that runs them."""

from __future__ import annotations

from typing import Any

# As a trace lists an A100: 108 multiprocessors of 2,048 threads, 65,536 registers and 164 KiB of shared memory.
A100: dict[str, object] = {
    "id": 0,
    "name": "NVIDIA A100-SXM4-40GB",
    "computeMajor": 8,
    "computeMinor": 0,
    "maxThreadsPerMultiprocessor": 2048,
    "regsPerMultiprocessor": 65536,
    "sharedMemPerMultiprocessor": 164 * 1024,
    "warpSize": 32,
    "numSms": 108,
}


def launched(
    grid: list[int], block: list[int], registers: int | None, shared: int | None, **more: object
) -> dict[str, Any]:
    """The arguments of a kernel as the profiler writes them."""
    given = {"grid": grid, "block": block, "registers per thread": registers, "shared memory": shared}
    return {key: value for key, value in given.items() if value is not None} | more
