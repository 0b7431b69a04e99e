"""A job of gloo on CPUs, whose ranks load a batch, do an op, reduce gradients on another thread, and update."""

from __future__ import annotations

from pathlib import Path

import hotline_analysis as ha
from hotline_analysis import Trace
from tests.trace_builder import TraceBuilder

LOADER = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
STEPS = 3


def job(rank: int, start: int, end: int = 800, *, buckets: int = 1) -> TraceBuilder:
    """Steps of 1,000 us on a CPU: a batch until 100, one op, all-reduces from `start` to `end`, the optimizer at last.

    Between the batch and the op, the trace shows nothing.
    """
    built = TraceBuilder(rank=rank, world_size=2)
    for number in range(1, STEPS + 1):
        at = 1000 * number
        built.on(1).step(number, at, at + 1000).annotation(LOADER, at, at + 100)
        built.annotation("## forward ##", at + start - 30, at + start - 20).op(
            "aten::linear", at + start - 30, at + start - 20
        )
        built.op("c10d::allreduce_", at + start - 10, at + start - 2)
        built.annotation("Optimizer.step#SGD.step", at + 820, at + 990).op("aten::add_", at + 825, at + 985)
        for bucket in range(buckets):
            built.on(5 + bucket).annotation("gloo:all_reduce", at + start + bucket, at + end)
    return built


def together(folder: Path, *starts: int, buckets: int = 1) -> Trace:
    for rank, start in enumerate(starts):
        job(rank, start, buckets=buckets).write(folder / f"rank{rank}.json")
    return ha.load(folder)
