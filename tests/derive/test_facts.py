"""The wide tables: one row for each event of a thread (`cpu_event`), of a GPU (`gpu_event`), and of neither.

They are made of `nesting_of_span`, `label_of_event`, `labelled_span` and `launch_of_work`, whose rows a run has as the
views `nesting`, `label` and `launch`.
"""

from pathlib import Path

from hotline_analysis import Trace
from tests.derive.tables import rows
from tests.trace_builder import TraceBuilder

CPU = "name, depth, start_ns // 1000, end_ns // 1000, self_ns // 1000, step, module_path, bucket"
LAUNCH = "name, op, api, call_track_id, call_start_ns // 1000, call_end_ns // 1000, link, kernel_count"


def launches(trace: Trace) -> dict[str, tuple[object, ...]]:
    return {name: tuple(found) for name, *found in rows(trace, f"select {LAUNCH} from gpu_event")}


def test_an_event_of_a_thread_has_its_place_and_its_labels(tmp_path: Path) -> None:
    trace = TraceBuilder().step(3, 0, 50).module("Linear", 0, 5, 30).op("aten::addmm", 10, 20)
    trace.runtime("cudaStreamSynchronize", 12, 15, correlation=4)
    with trace.load(tmp_path) as opened:
        assert rows(opened, f"select {CPU} from cpu_event order by depth") == [
            ("ProfilerStep#3", 0, 0, 50, 25, 3, None, "load_data"),
            ("nn.Module: Linear_0", 1, 5, 30, 15, 3, "Linear_0", "module"),
            ("aten::addmm", 2, 10, 20, 7, 3, "Linear_0", "module"),
            ("cudaStreamSynchronize", 3, 12, 15, 3, 3, "Linear_0", "module"),
        ]
        found = rows(opened, "select short_name, correlation from cpu_event where is_blocking")
        assert found == [("cudaStreamSynchronize", 4)]


def test_a_span_that_was_cut_keeps_the_times_of_the_file(tmp_path: Path) -> None:
    """`outer` ends at 20; `inner` does so at 21 in the file."""
    trace = TraceBuilder().op("outer", 0, 20).op("inner", 15, 21)
    times = "name, end_ns // 1000, dur_ns // 1000, given_start_ns, given_end_ns // 1000, overhangs"
    with trace.load(tmp_path) as opened:
        assert rows(opened, f"select {times} from cpu_event order by depth") == [
            ("outer", 20, 20, None, None, False),
            ("inner", 20, 5, None, 21, True),
        ]
        both = "select name, end_ns // 1000, dur_ns // 1000 from annotated_event order by start_ns"
        assert rows(opened, both) == [("outer", 20, 20), ("inner", 21, 6)]


def test_work_has_its_call_however_the_file_tells_it(tmp_path: Path) -> None:
    """By correlation, by flow, and by External id, which names an op and no call; `alone` has none of them."""
    trace = TraceBuilder().op("aten::mm", 0, 20, **{"External id": 4})
    trace.runtime("cudaLaunchKernel", 5, 8, correlation=7).kernel("by_correlation", 30, 35, correlation=7)
    trace.runtime("hipLaunchKernel", 10, 12).kernel("by_flow", 40, 50).flow("ac2g", 3, (10, 1), (40, 7), target_pid=0)
    trace.kernel("by_op", 60, 65, correlation=8, **{"External id": 4}).kernel("alone", 70, 75, correlation=9)
    with trace.load(tmp_path) as opened:
        thread = rows(opened, "select track_id from event where name = 'aten::mm'")[0][0]
        assert launches(opened) == {
            "by_correlation": ("aten::mm", "cudaLaunchKernel", thread, 5, 8, "correlation", 1),
            "by_flow": ("aten::mm", "hipLaunchKernel", thread, 10, 12, "flow", 1),
            "by_op": ("aten::mm", None, thread, 0, 20, "external_id", 1),
            "alone": (None, None, None, None, None, None, None),
        }
        totals = "select sum(dur_ns) // 1000, count(call_start_ns), count(launch_start_ns) from gpu_event"
        assert rows(opened, totals) == [(25, 3, 2)]


def test_a_flow_that_begins_in_an_op_names_no_call(tmp_path: Path) -> None:
    """Only a runtime or driver call launches. External id names the op of the other kernel."""
    trace = TraceBuilder().op("aten::mm", 0, 20, **{"External id": 4}).kernel("by_flow", 40, 50)
    trace.flow("ac2g", 3, (10, 1), (40, 7), target_pid=0).kernel("by_op", 60, 65, **{"External id": 4})
    with trace.load(tmp_path) as opened:
        found = rows(opened, "select name, op, runtime_id, link from gpu_event order by start_ns")
        assert found == [("by_flow", None, None, None), ("by_op", "aten::mm", None, "external_id")]


def test_a_graph_launch_and_a_kernel_without_time_count(tmp_path: Path) -> None:
    trace = TraceBuilder().op("replay", 0, 20).runtime("cudaGraphLaunch", 5, 15, correlation=9)
    trace.kernel("first", 20, 25, correlation=9).kernel("second", 25, 25, correlation=9)
    with trace.load(tmp_path) as opened:
        assert {name: found[-1] for name, found in launches(opened).items()} == {"first": 2, "second": 2}


def test_what_neither_a_thread_nor_a_gpu_works_on_is_apart(tmp_path: Path) -> None:
    """`lone_event`: a span of a stream. An event without a duration is in none of the three."""
    trace = TraceBuilder().op("aten::mm", 0, 20).kernel("gemm", 10, 15).instant("note", 5)
    trace.event(ph="X", cat="gpu_user_annotation", name="forward", pid=0, tid=7, ts=10, dur=9)
    with trace.load(tmp_path) as opened:
        assert rows(opened, "select name, dur_ns // 1000 from lone_event") == [("forward", 9)]
        names = "select name from annotated_event order by start_ns, dur_ns desc"
        assert rows(opened, names) == [("aten::mm",), ("forward",), ("gemm",)]
        assert rows(opened, "select count(*) from event where dur_ns is not null") == [(3,)]
