from pathlib import Path

from hotline_analysis import Trace
from tests.derive.tables import named
from tests.trace_builder import PID, TraceBuilder

LINK = ("runtime_id", "op_id", "link", "launch_start_ns", "launch_dur_ns", "queue_ns", "kernel_count", "busy_ns")


def launches(trace: Trace) -> dict[str, tuple[object, ...]]:
    return named(trace, "launch", LINK)


def test_by_correlation_with_the_innermost_op(tmp_path: Path) -> None:
    trace = TraceBuilder().op("linear", 0, 50).op("addmm", 10, 40)
    trace.runtime("cudaLaunchKernel", 20, 25, correlation=7).kernel("gemm", 30, 45, correlation=7)
    assert launches(trace.load(tmp_path)) == {
        "gemm": ("cudaLaunchKernel", "addmm", "correlation", 20, 5, 5, 1, 15),
    }


def test_copies_memsets_and_driver_calls_too(tmp_path: Path) -> None:
    trace = TraceBuilder().op("op", 0, 50)
    trace.runtime("cudaMemcpyAsync", 1, 2, correlation=1).copy(5, 9, correlation=1)
    trace.runtime("cudaMemsetAsync", 3, 4, correlation=2).memset(9, 10, correlation=2)
    trace.runtime("cuLaunchKernelEx", 5, 6, correlation=3, category="cuda_driver").kernel("k", 10, 20, correlation=3)
    assert launches(trace.load(tmp_path)) == {
        "Memcpy HtoD (Pageable -> Device)": ("cudaMemcpyAsync", "op", "correlation", 1, 1, 3, 1, 4),
        "Memset (Device)": ("cudaMemsetAsync", "op", "correlation", 3, 1, 5, 1, 1),
        "k": ("cuLaunchKernelEx", "op", "correlation", 5, 1, 4, 1, 10),
    }


def test_a_call_outside_every_op_launches_without_an_op(tmp_path: Path) -> None:
    trace = TraceBuilder().runtime("cudaLaunchKernel", 0, 4, correlation=1).kernel("k", 2, 10, correlation=1)
    # The kernel starts before the call returns, so it did not wait in a queue.
    assert launches(trace.load(tmp_path)) == {"k": ("cudaLaunchKernel", None, "correlation", 0, 4, 0, 1, 8)}


def test_a_graph_launch_has_many_kernels_on_all_streams(tmp_path: Path) -> None:
    trace = TraceBuilder().op("replay", 0, 20).runtime("cudaGraphLaunch", 5, 15, correlation=9)
    for number in range(50):
        trace.kernel(f"k{number}", 20 + number, 21 + number, correlation=9, stream=7 + number % 3)
    found = launches(trace.load(tmp_path))
    assert found == {
        f"k{number}": ("cudaGraphLaunch", "replay", "correlation", 5, 10, 5 + number, 50, 1) for number in range(50)
    }


def test_by_flow_where_correlation_is_missing(tmp_path: Path) -> None:
    trace = TraceBuilder().op("outer", 10, 50).op("mm", 12, 40).runtime("hipLaunchKernel", 20, 25)
    trace.kernel("gemm", 60, 70).flow("ac2g", 3, (20, 1), (60, 7), target_pid=0)
    assert launches(trace.load(tmp_path)) == {"gemm": ("hipLaunchKernel", "mm", "flow", 20, 5, 35, 1, 10)}


def test_by_flow_of_old_traces(tmp_path: Path) -> None:
    trace = TraceBuilder().op("mm", 12, 40).runtime("cudaLaunchKernel", 20, 25)
    trace.kernel("gemm", 60, 70).flow("async_cpu_to_gpu", "3", (20, 1), (60, 7), target_pid=0)
    assert launches(trace.load(tmp_path))["gemm"][:3] == ("cudaLaunchKernel", "mm", "flow")


def test_a_flow_whose_number_is_used_again(tmp_path: Path) -> None:
    """The last arrow that starts before its end; the first one, if the clock of the GPU is behind, as for `early`."""
    trace = TraceBuilder().op("mm", 0, 50)
    for at in (10, 20, 30):
        trace.runtime("hipLaunchKernel", at, at + 5)
    for name, start in (("early", 9), ("one", 15), ("two", 25), ("three", 100)):
        trace.kernel(name, start, start + 1)
        trace.event(ph="f", id=3, pid=0, tid=7, ts=start, cat="ac2g", name="ac2g", bp="e")
    for at in (10, 20, 30):
        trace.event(ph="s", id=3, pid=PID, tid=1, ts=at, cat="ac2g", name="ac2g")
    started = {name: row[3] for name, row in launches(trace.load(tmp_path)).items()}
    assert started == {"early": 10, "one": 10, "two": 20, "three": 30}


def test_arrows_that_share_a_place(tmp_path: Path) -> None:
    """The innermost of all calls that arrows lead from launched whatever starts there."""
    trace = TraceBuilder().op("mm", 0, 50).op("inner", 10, 40)
    trace.runtime("first", 20, 25).runtime("shallow", 45, 48)
    for name in ("a", "b", "c"):
        trace.kernel(name, 60, 70)
    for number, at in ((1, 20), (2, 45), (3, 45), (2, 20)):
        trace.flow("ac2g", number, (at, 1), (60, 7), target_pid=0)
    # Arrow 2 starts at 20 and at 45, of which the last before its end counts; arrow 1 leads from the deeper call.
    assert {name: row[0] for name, row in launches(trace.load(tmp_path)).items()} == dict.fromkeys("abc", "first")


def test_correlation_counts_more_than_a_flow(tmp_path: Path) -> None:
    trace = TraceBuilder().op("right", 0, 10).runtime("cudaLaunchKernel", 1, 2, correlation=4)
    trace.op("wrong", 20, 30).runtime("cudaEventRecord", 21, 22)
    trace.kernel("k", 40, 50, correlation=4).flow("ac2g", 1, (21, 1), (40, 7), target_pid=0)
    assert launches(trace.load(tmp_path))["k"][:3] == ("cudaLaunchKernel", "right", "correlation")


def test_by_external_id_the_op_is_known_but_not_the_call(tmp_path: Path) -> None:
    trace = TraceBuilder().op("other", 0, 5, **{"External id": 11}).op("mm", 5, 10, **{"External id": 12})
    trace.kernel("gemm", 20, 30, **{"External id": 12})
    assert launches(trace.load(tmp_path)) == {"gemm": (None, "mm", "external_id", None, None, None, 1, 10)}


def test_nothing_links_a_kernel_of_an_unknown_call(tmp_path: Path) -> None:
    trace = TraceBuilder().op("mm", 0, 10, **{"External id": 12}).runtime("cudaLaunchKernel", 1, 2, correlation=1)
    trace.kernel("of no call", 20, 30, correlation=99, **{"External id": 98}).kernel("without ids", 40, 50)
    # 0 is what the profiler writes where there is no id.
    trace.runtime("cudaDeviceSynchronize", 5, 6, correlation=0).op("zero", 10, 11, **{"External id": 0})
    trace.kernel("zero ids", 60, 70, correlation=0, **{"External id": 0})
    unlinked = (None, None, None, None, None, None, None, 10)
    assert launches(trace.load(tmp_path)) == {
        "of no call": unlinked,
        "without ids": unlinked,
        "zero ids": unlinked,
    }


def test_work_belongs_to_the_step_that_launched_it_however_late_it_runs(tmp_path: Path) -> None:
    trace = TraceBuilder()
    for number in range(3):
        at = 100 * number
        trace.step(number, at, at + 100).op(f"mm{number}", at + 10, at + 20)
        trace.launches(f"gemm{number}", 250 + at, 340 + at)
    opened = trace.load(tmp_path)
    found = named(opened, "annotated_event where category = 'kernel'", ("step", "start_ns"))
    assert found == {"gemm0": (0, 250), "gemm1": (1, 350), "gemm2": (2, 450)}
    assert {name: row[5] for name, row in launches(opened).items()} == {"gemm0": 239, "gemm1": 239, "gemm2": 239}


def test_overlapping_work_shares_out_the_busy_time(tmp_path: Path) -> None:
    trace = TraceBuilder()
    for name, start, end, stream, device in [
        ("first", 0, 20, 7, 0),
        ("inside first", 5, 15, 8, 0),
        ("over its end", 10, 30, 9, 0),
        ("together a", 40, 50, 7, 0),
        ("together b", 40, 60, 8, 0),
        ("other device", 0, 20, 7, 1),
        ("no time", 45, 45, 7, 0),
    ]:
        trace.kernel(name, start, end, stream=stream, device=device)
    assert {name: row[7] for name, row in launches(trace.load(tmp_path)).items()} == {
        "first": 20,
        "inside first": 0,
        "over its end": 10,
        "together a": 10,
        "together b": 10,
        "other device": 20,
        "no time": 0,
    }
