"""The steps of `dependency_edges`, one by one; times are in microseconds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl

from hotline_analysis import Trace
from tests.answer.short_paths import two_kernels, two_streams
from tests.answer.steps import step_frame
from tests.trace_builder import TraceBuilder

US = 1000


def rows(trace: Trace, step: str, *columns: str, start: int = 0, end: int = 100, until: str = "work") -> list[Any]:
    """Some columns of a step, sorted, with times in microseconds."""
    frame = step_frame(trace, "dependency_edges", step, rank=0, start_ns=start * US, end_ns=end * US, until=until)
    times = [name for name in columns if name.endswith("_ns")]
    return sorted(frame.with_columns(pl.col(times) // US).select(columns).rows(), key=str)


def test_a_thread_has_a_point_wherever_an_event_starts_or_ends(tmp_path: Path) -> None:
    built = two_kernels()
    names = dict(enumerate(event["name"] for event in built.events))
    found = rows(built.load(tmp_path), "thread_point", "at_ns", "event_id", "next_ns")
    assert sorted((at, names.get(event), until) for at, event, until in found) == [
        (0, "ProfilerStep#0", 10),
        (10, "aten::mul", 12),
        (12, "cudaLaunchKernel", 14),
        (14, "aten::mul", 20),
        (20, "aten::add", 24),
        (24, "cudaLaunchKernel", 26),
        (26, "aten::add", 30),
        (30, "ProfilerStep#0", 35),
        (35, "cudaDeviceSynchronize", 75),
        (75, "ProfilerStep#0", 100),
        (100, None, None),
    ]


def test_work_waits_for_its_launch_or_for_its_stream(tmp_path: Path) -> None:
    """`first` starts on a free stream; the launch of `second` is over at 26, and the stream is busy until 40."""
    columns = ("place", "start_ns", "call_ns", "queue_place", "queue_ns", "cause")
    assert rows(two_kernels().load(tmp_path), "work_start", *columns) == [
        (1, 18, 12, None, None, "launch"),
        (2, 42, 24, 1, 40, "queue"),
    ]


def test_a_synchronise_waits_for_the_work_launched_last_before_it(tmp_path: Path) -> None:
    built = two_kernels()
    [second], [call] = built.ids("second"), built.ids("cudaDeviceSynchronize")
    trace = built.load(tmp_path)
    assert rows(trace, "told_wait", "event_id", "work_id", "end_ns") == [(call, second, 72)]
    assert rows(trace, "call_wait", "event_id", "at_ns", "place", "returns_early", "since_ns") == [
        (call, 75, 2, False, 72)
    ]


def test_a_call_that_only_blocks_waits_for_what_ended_last_during_it(tmp_path: Path) -> None:
    """No record and no name tells what cudaStreamSynchronize waits for: here `second` ends in it, and then no other."""
    trace = TraceBuilder(rank=0).step(0, 0, 100).op("aten::mul", 10, 30)
    trace.launches("first", 14, 34, at=12, until=13).launches("second", 40, 60, at=16, until=17)
    built = trace.runtime("cudaStreamSynchronize", 50, 65, correlation=90)
    opened = built.load(tmp_path)
    assert rows(opened, "told_wait", "event_id") == []
    assert rows(opened, "call_wait", "at_ns", "place", "since_ns") == [(65, 2, 60)]


def test_the_window_moves_to_when_the_work_is_done(tmp_path: Path) -> None:
    """At 20, `first` runs until 40; at 35, `second` waits and is done at 72."""
    trace = two_kernels().load(tmp_path)
    columns = ("start_ns", "end_ns", "call_dur_ns")
    assert rows(trace, "path_window", *columns, start=20, end=35) == [(40, 72, 2)]
    assert rows(trace, "path_window", *columns, start=20, end=35, until="host") == [(20, 35, 2)]
    assert rows(trace, "path_window", *columns, start=20, end=35, until="launched") == [(20, 72, 2)]


def test_earlier_work_has_a_stand_in_in_the_window(tmp_path: Path) -> None:
    """With `launched` from 20 on, `first` is earlier: `second`, the last work of the stream here, stands for it."""
    trace = two_kernels().load(tmp_path)
    assert rows(trace, "window_work", "place", "is_earlier", "from_last", start=20, until="launched") == [
        (1, True, 1),
        (2, False, 1),
    ]
    [to_id] = {
        row[0] for row in rows(trace, "path_edge", "from_id", "kind", start=20, until="launched") if row[1] == "work"
    }
    columns = ("from_id", "kind", "start_ns", "since_ns", "end_ns", "weight_ns", "previous_count", "previous_ns")
    found = rows(trace, "path_edge", *columns, "previous_id", start=20, until="launched")
    # Until 40 `first` runs, and `second` starts 2 us later. The previous node is the end of `second`.
    assert [row for row in found if row[1] == "queue"] == [(0, "queue", 20, 40, 42, 22, 1, 2, to_id + 1)]


def test_what_is_launched_is_ordered_on_its_stream(tmp_path: Path) -> None:
    """`second` waits for `first` on stream 7; nothing ran before `first`."""
    built = two_kernels()
    [first], [second] = built.ids("first"), built.ids("second")
    trace = built.load(tmp_path)
    columns = ("event_id", "start_ns", "end_ns", "call_ns", "call_end_ns", "launched_ns", "is_awaited")
    assert rows(trace, "rank_work", *columns) == [
        (first, 18, 40, 12, 14, 12, False),
        (second, 42, 72, 24, 26, 24, False),
    ]
    assert rows(trace, "launch_batch", "launched_ns", "first_id", "last_id", "start_ns", "end_ns") == [
        (12, first, first, 18, 40),
        (24, second, second, 42, 72),
    ]
    assert rows(trace, "stream_order", "place", "queue_place", "queue_ns", "begun_place") == [
        (1, None, None, None),
        (2, 1, 40, 1),
    ]
    assert rows(trace, "device_ending", "end_ns", "event_id", "launched_ns") == [(40, first, 12), (72, second, 24)]


def test_a_call_that_launches_two_works_on_a_stream_has_one_place_in_its_queue(tmp_path: Path) -> None:
    trace = TraceBuilder(rank=0).step(0, 0, 100)
    number = trace.new_correlation()
    trace.runtime("cudaGraphLaunch", 10, 14, correlation=number)
    trace.kernel("a", 20, 30, correlation=number).kernel("b", 31, 45, correlation=number)
    [a], [b] = trace.ids("a"), trace.ids("b")
    found = rows(trace.load(tmp_path), "launch_batch", "launched_ns", "first_id", "last_id", "start_ns", "end_ns")
    assert found == [(10, a, b, 20, 45)]


def test_threads_go_on_and_wait_for_what_their_calls_wait_for(tmp_path: Path) -> None:
    """The synchronise from 35 waits until 72 for `second`, and takes 3 us more; all else is the thread's own time."""
    trace = two_kernels().load(tmp_path)
    assert rows(trace, "path_thread", "is_main") == [(True,)]
    found = rows(trace, "thread_edge", "kind", "binds", "start_ns", "end_ns", "weight_ns", "from_place", "from_end")
    host = [(start, end, weight) for kind, binds, start, end, weight, *_ in found if kind == "host" and binds]
    assert sorted(host) == [
        (0, 10, 10),
        (10, 12, 2),
        (12, 14, 2),
        (14, 20, 6),
        (20, 24, 4),
        (24, 26, 2),
        (26, 30, 4),
        (30, 35, 5),
        (75, 100, 25),
    ]
    assert [row for row in found if not row[1]] == [("host", False, 35, 75, 3, None, None)]
    assert [row for row in found if row[0] == "return"] == [("return", True, 72, 75, 3, 2, True)]


def test_calls_that_wait_and_what_they_are(tmp_path: Path) -> None:
    trace = two_kernels().runtime("cudaStreamWaitEvent", 80, 81, correlation=91)
    trace.runtime("cudaMemcpy", 82, 84, correlation=92)
    [device], [copy] = trace.ids("cudaDeviceSynchronize"), trace.ids("cudaMemcpy")
    columns = ("event_id", "start_ns", "end_ns", "is_waiting", "is_for_all", "is_copying")
    assert rows(trace.load(tmp_path), "sync_call", *columns) == [
        (device, 35, 75, True, True, False),
        (copy, 82, 84, True, False, True),
    ]


def test_a_stream_waits_for_another_as_a_record_tells(tmp_path: Path) -> None:
    """The record is of the call at 21, and names that at 20, which recorded the CUDA event."""
    built = two_streams(recorded=True)
    [wait] = built.ids("cudaStreamWaitEvent")
    trace = built.load(tmp_path)
    columns = ("kind", "stream", "wait_on_stream", "wait_on_correlation", "correlation", "start_ns")
    assert rows(trace, "sync_mark", *columns) == [("Stream Wait Event", 20, 7, 50, 51, 21)]
    assert rows(trace, "sync_record", "kind", "awaited_stream", "at_ns", "recorded_ns", "call_id") == [
        ("Stream Wait Event", None, 21, 20, wait)
    ]
    assert rows(trace, "called_wait", "event_id") == []
    assert rows(trace, "stream_wait", "to_place", "from_place", "end_ns", "kind") == [(2, 1, 60, "event")]


def test_a_stream_waits_for_another_as_a_call_tells(tmp_path: Path) -> None:
    """The next launch after the call is `reduce`; before it, `compute` was launched last, on another stream."""
    built = two_streams(recorded=False)
    [wait], [compute], [reduce] = (built.ids(name) for name in ("cudaStreamWaitEvent", "compute", "reduce"))
    trace = built.load(tmp_path)
    assert rows(trace, "called_wait", "event_id", "first_id", "last_id") == [(wait, reduce, compute)]
    assert rows(trace, "stream_wait", "to_place", "from_place", "end_ns", "kind") == [(2, 1, 60, "wait")]
    found = rows(trace, "gpu_edge", "to_place", "to_end", "kind", "binds", "start_ns", "end_ns", "weight_ns")
    assert found == [
        (1, False, "launch", True, 12, 14, 2),
        (1, True, "work", True, 14, 60, 46),
        (2, False, "launch", False, 23, 61, 2),  # as long as launches usually take here
        (2, False, "wait", True, 60, 61, 1),
        (2, True, "work", True, 61, 90, 29),
    ]


def test_a_wait_after_launches_on_the_same_stream_is_for_the_other_stream(tmp_path: Path) -> None:
    """Two launches on stream 20 come after `compute`: the call lets stream 20 wait for `compute` all the same."""
    trace = TraceBuilder(rank=0).step(0, 0, 100).op("aten::mm", 10, 40).launches("compute", 14, 20, at=12, until=14)
    trace.launches("a", 17, 18, at=15, until=16, stream=20).launches("b", 19, 21, at=16, until=17, stream=20)
    trace.runtime("cudaStreamWaitEvent", 18, 19, correlation=51)
    trace.launches("c", 23, 30, at=20, until=21, stream=20)
    [compute], [c] = trace.ids("compute"), trace.ids("c")
    assert rows(trace.load(tmp_path), "called_wait", "first_id", "last_id") == [(c, compute)]


def test_the_end_waits_for_the_thread_and_for_each_stream(tmp_path: Path) -> None:
    """The step's marks end at 100, when all work is done; with `launched` up to 30, it ends with `second`, at 72."""
    trace = two_kernels().load(tmp_path)
    columns = ("from_place", "binds", "start_ns", "end_ns", "weight_ns")
    assert rows(trace, "end_edge", *columns) == [(2, False, 72, 100, 0), (None, True, 100, 100, 0)]
    assert rows(trace, "end_edge", *columns, end=30, until="launched") == [
        (2, True, 72, 72, 0),
        (None, False, 30, 72, 0),
    ]


def test_autograds_thread_takes_over_from_the_main_thread(tmp_path: Path) -> None:
    """Backward runs from 40 to 80 on thread 2."""
    trace = TraceBuilder(rank=0).on(1).step(0, 0, 100)
    trace.op("aten::mul", 10, 30, seq=1).launches("mul", 14, 20, at=12, until=13)
    trace.on(2).backward("MulBackward0", 40, 80, seq=1).launches("mul_backward", 54, 70, at=50, until=52)
    found = rows(trace.load(tmp_path), "backward_handover", "start_ns", "end_ns")
    assert len(found) == 1
    [(start, end)] = found
    assert 30 <= start <= 40
    assert end == 80


def test_launches_are_pending_until_they_start(tmp_path: Path) -> None:
    """When `second` is launched, at 24, `first` has started; when `third` is, at 30, `second` has not."""
    built = two_kernels().op("aten::sub", 26, 34).launches("third", 80, 90, at=30, until=31)
    names = {number: event["name"] for number, event in enumerate(built.events)}
    trace = built.load(tmp_path)
    found = rows(trace, "pending_launch", "first_id", "pending")
    assert sorted((names[event], pending) for event, pending in found) == [("first", 0), ("second", 0), ("third", 1)]
