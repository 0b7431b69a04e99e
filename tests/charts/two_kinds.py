"""A loop with two kinds of steps: every fourth waits longer for its batch."""

from __future__ import annotations

from tests.trace_builder import TraceBuilder


def loop(small_ops: int = 20) -> TraceBuilder:
    """Eight steps of 100 us, each with a kernel of 40 us; every fourth waits 300 us longer for its batch."""
    made = TraceBuilder(rank=0)
    at = 0
    for number in range(1, 9):
        wait = 320 if number % 4 == 2 else 20
        made.step(number, at, at + wait + 80)
        made.annotation("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", at, at + wait)
        begin = at + wait
        made.module("Net", 0, begin + 1, begin + 30).op("aten::mm", begin + 2, begin + 28)
        made.launches("gemm", begin + 10, begin + 50, at=begin + 4, until=begin + 6)
        for small in range(small_ops):
            made.op("aten::add", begin + 31 + small, begin + 32 + small)
        made.runtime("cudaDeviceSynchronize", begin + 55, begin + 79)
        at = begin + 80
    return made
