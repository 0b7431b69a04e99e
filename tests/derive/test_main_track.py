"""Which thread runs the training loop: `main_track`, and what follows from it."""

from pathlib import Path

from hotline_analysis import step_limits
from tests.derive.tables import derived
from tests.trace_builder import TraceBuilder


def without_ops() -> TraceBuilder:
    """A trace of GPU work alone: the loop launches 2 kernels, and autograd's thread 5. Then the loop waits for them.

    Kernels take 30 us each, one after the other, from 3 to 213.
    """
    trace = TraceBuilder()
    at = 3
    for number, (thread, start) in enumerate([(1, 0), (1, 3), (2, 8), (2, 10), (2, 12), (2, 14), (2, 16)]):
        trace.on(thread).runtime("cudaLaunchKernel", start, start + 1, correlation=number + 1)
        trace.kernel("gemm", at, at + 30, correlation=number + 1)
        at += 30
    return trace.on(1).runtime("cudaDeviceSynchronize", 20, 214, correlation=100)


def main_thread(trace: TraceBuilder, folder: Path) -> int:
    [(thread,)] = derived(
        trace, folder, "select tid::bigint from main_track inner join track on main_track.track_id = track.track_id"
    )
    return int(thread)


def test_without_ops_it_is_the_thread_that_is_active_for_longest(tmp_path: Path) -> None:
    assert main_thread(without_ops(), tmp_path) == 1


def test_with_ops_it_is_the_thread_with_most_events(tmp_path: Path) -> None:
    trace = without_ops().on(2).op("aten::mm", 5, 6)
    assert main_thread(trace, tmp_path) == 2


def test_what_waits_for_the_gpu_is_bound_by_it(tmp_path: Path) -> None:
    """Of 214 us, 3 pass until the first kernel starts, 210 in kernels, and 1 until the waiting call returns."""
    with without_ops().load(tmp_path) as trace:
        limits = step_limits(trace)
    assert limits.filter(limit="computing")["path_ns"].to_list() == [210_000]
    assert limits["path_ns"].sum() == 214_000
