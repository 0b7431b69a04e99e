"""Views of what the GPU does: its state, its work, gaps without work, and the queues of its streams."""

import copy
from pathlib import Path

from tests.derive.tables import rows
from tests.trace_builder import TraceBuilder


def test_a_device_has_one_state_at_a_time(tmp_path: Path) -> None:
    """`gpu_state`: two kernels count once, and nothing is left out between the first and the last work."""
    trace = TraceBuilder().kernel("gemm", 0, 10).kernel("relu", 5, 20, stream=8).copy(15, 25, stream=9)
    trace.kernel("ncclDevKernel_AllReduce", 40, 50, stream=10)
    with trace.load(tmp_path) as opened:
        sql = "select start_ns // 1000, end_ns // 1000, computation, communication, memory from gpu_state order by 1"
        assert rows(opened, sql) == [
            (0, 5, True, False, False),
            (5, 10, True, False, False),
            (10, 15, True, False, False),
            (15, 20, True, False, True),
            (20, 25, False, False, True),
            (25, 40, False, False, False),
            (40, 50, False, True, False),
        ]


def test_work_has_the_labels_of_its_launch(tmp_path: Path) -> None:
    """`gpu_event`: the kernel runs after its step, and another one has no launch in the trace."""
    trace = TraceBuilder().step(3, 0, 50).module("Linear", 0, 5, 30)
    trace.op("aten::addmm", 10, 20).launches("gemm", 100, 140, at=12, until=15, stream=7).kernel("lost", 60, 70)
    with trace.load(tmp_path) as opened:
        columns = "name, class, stream, dur_ns, busy_ns, queue_ns, step, module_path, op, is_compiled"
        assert rows(opened, f"select {columns} from gpu_event order by start_ns") == [
            ("lost", "computation", 7, 10_000, 10_000, None, None, None, None, None),
            ("gemm", "computation", 7, 40_000, 40_000, 85_000, 3, "Linear_0", "aten::addmm", False),
        ]


def test_a_gap_of_a_stream_is_split_by_the_launch_that_ends_it(tmp_path: Path) -> None:
    """`idle_gap`: from 10 to 30 nothing was launched, then the call takes effect; the other stream works meanwhile."""
    trace = TraceBuilder().step(0, 0, 100).op("aten::mm", 0, 5).launches("first", 2, 10)
    trace.op("aten::mm", 29, 40).launches("second", 36, 50, at=30, until=32).kernel("other", 8, 45, stream=8)
    with trace.load(tmp_path) as opened:
        columns = "stream, start_ns // 1000, end_ns // 1000, cause, host_ns, launch_ns, sync_ns, queued_ns, unknown_ns"
        assert rows(opened, f"select {columns} from idle_gap where scope = 'stream'") == [
            (7, 10, 36, "host", 26_000, 6_000, 0, 0, 0)
        ]
        device = "select start_ns // 1000, end_ns // 1000 from idle_gap where scope = 'device' order by start_ns"
        assert rows(opened, device) == [(0, 2), (50, 100)]


def test_launched_work_that_waits_for_nothing_is_unobserved_on_a_stream_too(tmp_path: Path) -> None:
    """`idle_gap`: launched at 3, `late` starts 240 us after its stream's last work, 160 after that of all streams."""
    launched = TraceBuilder().step(0, 0, 400).op("aten::mm", 0, 10).launches("first", 2, 10, at=1, until=2)
    launched.launches("late", 250, 260, at=3, until=4)

    def waits(until: int, device: int) -> list[tuple[object, ...]]:
        trace = copy.deepcopy(launched).kernel("other", 20, until, stream=8, device=device, correlation=99)
        with trace.load(tmp_path, f"{until}-{device}.json") as opened:
            late = "end_ns = (select start_ns from event where name = 'late')"
            columns = "scope, cause, queued_ns, unobserved_ns"
            return rows(opened, f"select {columns} from idle_gap where {late} and device = 0 order by scope")

    # The other stream ends 160 us before: nothing explains why the work waits. The device idles from there on.
    assert waits(90, 0) == [("device", "unobserved", 0, 160_000), ("stream", "unobserved", 0, 240_000)]
    # It ends 20 us before: the work waited for it, and the device's gap is one as between any two kernels.
    assert waits(230, 0) == [("device", "kernel", 20_000, 0), ("stream", "kernel", 240_000, 0)]
    # The same on another device: for this one, nothing of its own ended.
    assert waits(230, 1) == [("device", "other", 240_000, 0), ("stream", "other", 240_000, 0)]


def test_a_launch_is_in_the_queue_until_its_work_starts(tmp_path: Path) -> None:
    """`queue_change`: the second call comes while the first still waits."""
    trace = TraceBuilder().op("aten::mm", 0, 20).launches("first", 8, 12, at=1, until=3)
    trace.launches("second", 12, 15, at=5, until=6)
    with trace.load(tmp_path) as opened:
        columns = "start_ns // 1000, end_ns // 1000, change, queue_length, launch_count, call_ns"
        assert rows(opened, f"select {columns} from queue_change order by start_ns") == [
            (1, 5, 1, 1, 1, 2_000),
            (5, 8, 1, 2, 1, 1_000),
            (8, 12, -1, 1, 0, 0),
            (12, 12, -1, 0, 0, 0),
        ]
