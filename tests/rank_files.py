"""Trace files of the ranks of one job."""

from __future__ import annotations

from pathlib import Path

from tests.trace_builder import TraceBuilder

NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)"


def rank_file(folder: Path, rank: int, *, world_size: int | None = 4, kernels: int = 1) -> Path:
    """A step with kernels, a collective, and a second op, other for each rank."""
    trace = TraceBuilder(rank=rank, world_size=world_size).step(0, 0, 1000).module("Net", 0, 5, 900)
    for number in range(kernels):
        at = 10 + 20 * number
        trace.op("aten::mm", at, at + 9).launches(f"gemm {rank}", at + 10, at + 14 + rank, at=at + 2, until=at + 4)
    trace.op("aten::add", 930, 939).launches(NCCL, 940 + 2 * rank, 960, at=932, until=934)
    return trace.write(folder / f"rank{rank}.json")
