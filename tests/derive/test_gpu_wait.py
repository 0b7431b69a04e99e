from pathlib import Path

from hotline_analysis import Trace
from tests.derive.tables import rows
from tests.trace_builder import TraceBuilder


def waits(trace: Trace) -> list[tuple[str, str, float, float]]:
    """Name of the call, kind, its length and the time waited in us, in order."""
    return rows(
        trace,
        "select name, kind, (gpu_wait.end_ns - gpu_wait.start_ns) / 1000, waited_ns / 1000"
        " from gpu_wait inner join event using (rank, event_id) order by gpu_wait.start_ns",
    )


def test_a_synchronise_waits_while_a_device_is_busy(tmp_path: Path) -> None:
    """Busy from 10 to 40 and, on another device, from 35 to 60; the call is there from 30 to 70."""
    trace = TraceBuilder().step(0, 0, 100).op("a", 0, 10).launches("k", 10, 40, at=1)
    trace.launches("other", 35, 60, at=3, device=1).runtime("cudaDeviceSynchronize", 30, 70)
    assert waits(trace.load(tmp_path)) == [("cudaDeviceSynchronize", "sync", 40, 30)]


def test_a_copy_of_pageable_memory_waits_for_what_its_stream_has_to_do(tmp_path: Path) -> None:
    trace = TraceBuilder().step(0, 0, 200).op("a", 0, 10).launches("k", 10, 100, at=1)
    trace.op("aten::copy_", 20, 115).runtime("cudaMemcpyAsync", 22, 114, correlation=50)
    trace.copy(100, 115, kind="HtoD", correlation=50)
    trace.op("aten::copy_", 120, 130).runtime("cudaMemcpyAsync", 121, 123, correlation=51)
    trace.gpu("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", 122, 128, correlation=51)
    trace.op("aten::copy_", 140, 150).runtime("cudaMemcpyAsync", 141, 143, correlation=52)
    trace.gpu("gpu_memcpy", "Memcpy DtoD (Device -> Device)", 142, 148, correlation=52)
    opened = trace.load(tmp_path)
    assert waits(opened) == [("cudaMemcpyAsync", "copy", 92, 92)]
    copied = rows(opened, "select work.name from gpu_wait inner join event as work on work_id = work.event_id")
    assert copied == [("Memcpy HtoD (Pageable -> Device)",)]


def test_the_outer_one_of_two_calls_counts(tmp_path: Path) -> None:
    trace = TraceBuilder().step(0, 0, 100).op("a", 0, 10).launches("k", 10, 60, at=1)
    trace.runtime("cudaMemcpy", 20, 70, correlation=50).runtime("cudaStreamSynchronize", 30, 65)
    assert waits(trace.load(tmp_path)) == [("cudaMemcpy", "sync", 50, 40)]


def test_a_launch_into_a_full_queue_waits(tmp_path: Path) -> None:
    """The CPU takes 2 us for each kernel, the GPU 20. The queue is full if the first one starts late enough."""
    trace = TraceBuilder().step(0, 0, 3000).op("loop", 0, 2500)
    for number in range(1010):
        trace.launches("k", 10 + 20 * number, 30 + 20 * number, at=2 * number, until=2 * number + 1)
    found = waits(trace.load(tmp_path))
    # Launch n (from 0) is the (n + 1)th, at 2n; kernels 0 to (2n - 10) / 20 have started. More than 1,000 are pending
    # from the first n with n + 1 - (2n - 10) // 20 - 1 > 1000 on: never within 1,010 launches, as 100 have started.
    assert found == []
    trace = TraceBuilder().step(0, 0, 3000).op("loop", 0, 2500)
    for number in range(1010):
        trace.launches("k", 2200 + 20 * number, 2220 + 20 * number, at=2 * number, until=2 * number + 1)
    (tmp_path / "second").mkdir()
    found = waits(trace.load(tmp_path / "second"))
    # Nothing starts before 2,200: the launches after the first 1,000 find more than 1,000 pending, themselves included.
    assert found == [("cudaLaunchKernel", "full_queue", 1, 0)] * 10
