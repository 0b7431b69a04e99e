"""The smallest traces with a critical path over two kernels."""

from __future__ import annotations

from tests.trace_builder import TraceBuilder


def two_kernels() -> TraceBuilder:
    """Two kernels on one stream, of which the second is launched while the first runs, and a call that waits."""
    trace = TraceBuilder(rank=0).step(0, 0, 100)
    trace.op("aten::mul", 10, 20).launches("first", 18, 40, at=12, until=14)
    trace.op("aten::add", 20, 30).launches("second", 42, 72, at=24, until=26)
    return trace.runtime("cudaDeviceSynchronize", 35, 75, correlation=90)


def two_streams(*, recorded: bool) -> TraceBuilder:
    """`reduce` on stream 20 waits for `compute` on stream 7, as a call tells, and a record where there is one."""
    trace = TraceBuilder(rank=0).step(0, 0, 100)
    trace.op("aten::mm", 10, 20).launches("compute", 14, 60, at=12, until=14)
    trace.runtime("cudaEventRecord", 20, 21, correlation=50).runtime("cudaStreamWaitEvent", 21, 22, correlation=51)
    trace.op("c10d::allreduce_", 22, 30).launches("reduce", 61, 90, at=23, until=24, stream=20)
    if recorded:
        args = {"stream": 20, "correlation": 51, "device": 0, "cuda_sync_kind": "Stream Wait Event"}
        args |= {"wait_on_stream": 7, "wait_on_cuda_event_record_corr_id": 50, "wait_on_cuda_event_id": 3}
        trace._complete("cuda_sync", "Stream Wait Event", 21, 22, args, 0, 20)
    return trace
