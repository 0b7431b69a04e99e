"""The steps of `dependency_edges`, one by one; times are in microseconds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl

from hotline_analysis import Trace
from tests.answer.steps import step_frame
from tests.trace_builder import TraceBuilder

US = 1000


def rows(trace: Trace, step: str, *columns: str, start: int = 0, end: int = 100, until: str = "work") -> list[Any]:
    """Some columns of a step, sorted, with times in microseconds."""
    frame = step_frame(trace, "dependency_edges", step, rank=0, start_ns=start * US, end_ns=end * US, until=until)
    times = [name for name in columns if name.endswith("_ns")]
    return sorted(frame.with_columns(pl.col(times) // US).select(columns).rows(), key=str)


def two_kernels() -> TraceBuilder:
    """Two kernels on one stream, of which the second is launched while the first runs, and a call that waits."""
    trace = TraceBuilder(rank=0).step(0, 0, 100)
    trace.op("aten::mul", 10, 20).launches("first", 18, 40, at=12, until=14)
    trace.op("aten::add", 20, 30).launches("second", 42, 72, at=24, until=26)
    return trace.runtime("cudaDeviceSynchronize", 35, 75, correlation=90)


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
