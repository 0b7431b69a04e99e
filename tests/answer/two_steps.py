"""A trace of two steps with compute, a copy and a collective."""

from __future__ import annotations

from tests.trace_builder import TraceBuilder

NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def two_steps() -> TraceBuilder:
    """Two steps of 100 µs on streams 7 (work) and 9 (communication); times in µs, calls last 1 µs."""
    trace = TraceBuilder(rank=0).step(0, 0, 100)
    trace.op("aten::mm", 0, 30)
    trace.launches("gemm", 10, 30, at=2).launches(NCCL, 20, 50, at=5, stream=9)
    trace.launches("copy", 45, 60, at=7, category="gpu_memcpy")
    trace.frame("train.py(7): step", 61, 91).op("aten::relu", 62, 90).launches("relu", 80, 90, at=70)
    trace.annotation("enumerate(DataLoader)#_Iter.__next__", 92, 98)
    trace.step(1, 100, 200).op("aten::add", 100, 110)
    # The device computes until 120, the collective on stream 9 ends at 160, and `add` was launched at 103.
    trace.launches("mul", 110, 120, at=101).launches(NCCL, 115, 160, at=102, stream=9).launches("add", 162, 170, at=103)
    trace.op("aten::item", 165, 185).runtime("cudaStreamSynchronize", 166, 180).launches("exp", 186, 190, at=182)
    return trace
