"""A training that sends gradients in buckets."""

from __future__ import annotations

from typing import Any

from tests.trace_builder import TraceBuilder

ACCUMULATES = "torch::autograd::AccumulateGrad"
NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)"
SENT: dict[str, Any] = {"Collective name": "allreduce", "dtype": "Float", "Group size": 2}


def accumulate(trace: TraceBuilder, at: int, elements: int | None = None) -> None:
    """Add what autograd does to add a gradient: its node has a number that no op of forward has."""
    args = {} if elements is None else {"Input Dims": [[elements]], "Input type": ["float"]}
    trace.op(f"autograd::engine::evaluate_function: {ACCUMULATES}", at, at + 9, seq=2**62, forward_thread=1)
    trace.op(ACCUMULATES, at, at + 8, seq=2**62, forward_thread=1, **args)


def training(*, shapes: bool = True, sends: bool = False) -> TraceBuilder:
    """Two layers. On the GPU, the gradients of the second are ready at 400 us, 1 MiB and 4,096 bytes; one at 600 us.

    If it `sends`, the first two make a bucket that is reduced from 405 to 500 us, and the other one from 610 to 650.
    Before the first of them, the backward of a layer reduces something of its own.
    """
    trace = TraceBuilder(rank=0).step(0, 0, 1000).annotation("## forward ##", 0, 100).module("Net", 0, 5, 95)
    trace.module("Linear", 0, 10, 30).op("aten::linear", 12, 28, seq=0).launches("forward", 20, 40)
    trace.module("Linear", 1, 40, 60).op("aten::linear", 42, 58, seq=1).launches("forward", 60, 80)
    trace.on(2)

    def gradient(at: int, elements: int) -> None:
        accumulate(trace, at, elements if shapes else None)

    def reduce(start: int, end: int, elements: int, at: int) -> None:
        sent = {**SENT, "In msg nelems": elements}
        trace.launches(NCCL, start, end, at=at, until=at + 1, stream=9, **sent)

    trace.backward("AddmmBackward0", 200, 220, seq=1).launches("grad1", 300, 400, at=202)
    if sends:
        reduce(300, 310, 7, 210)
    gradient(225, 262144)
    gradient(240, 1024)
    if sends:
        reduce(405, 500, 263168, 245)
    trace.backward("AddmmBackward0", 250, 270, seq=0).launches("grad0", 400, 600, at=252)
    gradient(275, 1000)
    if sends:
        reduce(610, 650, 1000, 280)
    return trace.on(1)
