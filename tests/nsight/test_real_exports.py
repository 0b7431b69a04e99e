"""Real exports of Nsight Systems against plain SQL over the same files. `HOTLINE_TRACES` is their folder."""

from __future__ import annotations

import functools
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import hotline_analysis as ha
from tests import runs
from tests.intervals import union
from tests.real_traces import TRACES

pytestmark = pytest.mark.traces

EXPORT = TRACES / "nsys" / "h100_2gpu_1s.sqlite"
MOCK = TRACES / "nsys" / "mock.sqlite"
PIDS = (111, 112)
"""The processes of the export, which are its ranks 0 and 1."""
# From the MANIFEST beside the traces, and memsets by `select count(*)`.
COUNTS = {
    "kernel": 3442,
    "gpu_memcpy": 904,
    "gpu_memset": 22,
    "cuda_runtime": 5796,
    "cuda_sync": 244,
    "overhead": 198,
}
NVTX = 16_782
WORK = ("KERNEL", "MEMCPY", "MEMSET")


@functools.cache
def opened(path: Path = EXPORT) -> ha.Trace:
    return runs.opened(path)


@functools.cache
def plain(statement: str, path: Path = EXPORT) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as connection:
        return connection.execute(statement).fetchall()


def of_all_work(columns: str) -> list[tuple[int, ...]]:
    """Columns of all GPU work, behind the process."""
    return [
        row
        for kind in WORK
        for row in plain(f"select (globalPid >> 24) & 16777215, {columns} from CUPTI_ACTIVITY_KIND_{kind}")
    ]


@pytest.mark.slow
def test_as_many_events_as_the_manifest_says() -> None:
    annotations = plain("select count(*) from NVTX_EVENTS where text like 'FSDP::%'")[0][0]
    found = dict(opened().sql("select category, count(*) from event where ph = 'X' group by all").rows())
    assert found == {**COUNTS, "cpu_op": NVTX - annotations, "user_annotation": annotations}


def test_each_process_is_a_rank_with_its_gpu() -> None:
    found = opened().sql("select distinct rank, device from gpu_op order by all").rows()
    assert found == [(0, 0), (1, 1)]
    told = plain("select distinct (globalPid >> 24) & 16777215, deviceId from CUPTI_ACTIVITY_KIND_KERNEL order by 1")
    assert [(PIDS[rank], device) for rank, device in found] == told


def test_gpu_time_of_each_kernel() -> None:
    """Whatever their names are here: of each name of the export, how often it ran and how long, to the nanosecond."""
    found = opened().sql(
        "select rank, count(*), sum(dur_ns)::bigint from event where category = 'kernel' group by rank, name"
    )
    told = plain(
        "select (globalPid >> 24) & 16777215, count(*), sum(end - start) from CUPTI_ACTIVITY_KIND_KERNEL"
        " group by globalPid, demangledName"
    )
    assert sorted((PIDS[rank], *rest) for rank, *rest in found.rows()) == sorted(told)


@pytest.mark.parametrize("rank", [0, 1])
def test_busy_time_and_overlap_of_each_gpu(rank: int) -> None:
    spans = [(start, end) for pid, start, end in of_all_work("start, end") if pid == PIDS[rank]]
    busy = union(spans)
    trace = opened()
    assert trace.sql("select sum(end_ns - start_ns)::bigint from gpu_busy where rank = $rank", rank=rank).item() == busy
    work = "from launch inner join event using (rank, event_id) where rank = $rank"
    assert trace.sql(f"select sum(busy_ns)::bigint {work}", rank=rank).item() == busy
    overlap = sum(end - start for start, end in spans) - busy
    assert trace.sql(f"select sum(dur_ns - busy_ns)::bigint {work}", rank=rank).item() == overlap


def test_launches_and_queue_times() -> None:
    """The call with the same correlation in the same process launched the work; it waits from the call's end on."""
    told = [
        row
        for kind in WORK
        for row in plain(
            "select (work.globalPid >> 24) & 16777215, work.start, call.start, call.end - call.start,"
            f" max(0, work.start - call.end) from CUPTI_ACTIVITY_KIND_{kind} as work"
            " left join CUPTI_ACTIVITY_KIND_RUNTIME as call on work.correlationId = call.correlationId"
            " and work.globalPid >> 24 = call.globalTid >> 24"
        )
    ]
    found = opened().sql(
        "select launch.rank, event.start_ns, launch.launch_start_ns, launch.launch_dur_ns, launch.queue_ns"
        " from launch inner join event using (rank, event_id)"
    )
    rows = [(PIDS[rank], *rest) for rank, *rest in found.rows()]
    # SQLite's max() of a NULL is NULL, too.
    assert sorted(rows, key=str) == sorted(told, key=str)
    assert sum(row[2] is not None for row in rows) > 1_000
    assert sum(row[2] is None for row in rows) > 1_000


@pytest.mark.parametrize("rank", [0, 1])
def test_ranges_nest_as_they_were_pushed(rank: int) -> None:
    """Ranges and calls of a thread by a stack: what is open when one begins is around it."""
    spans = [
        span
        for table in ("NVTX_EVENTS", "CUPTI_ACTIVITY_KIND_RUNTIME")
        for span in plain(f"select start, end from {table} where (globalTid >> 24) & 16777215 = {PIDS[rank]}")
    ]
    assert len(set(spans)) == len(spans), "the order of equal spans would be a matter of taste"
    depths = dict(_depths(spans))
    found = opened().sql(
        "select nesting.start_ns, nesting.end_ns, nesting.depth from nesting where rank = $rank", rank=rank
    )
    assert {(start, end): depth for start, end, depth in found.rows()} == depths
    assert max(depths.values()) > 3


def _depths(spans: list[tuple[int, ...]]) -> Iterator[tuple[tuple[int, int], int]]:
    around: list[int] = []
    for start, end in sorted(spans, key=lambda span: (span[0], -span[1])):
        while around and around[-1] <= start:
            around.pop()
        yield (start, end), len(around)
        around.append(end)


def test_ops_have_the_numbers_of_their_texts() -> None:
    found = opened().sql(
        "select event.name || ', op_id = ' || op.record_function_id from event inner join op using (rank, event_id)"
    )
    assert sorted(found.to_series()) == sorted(text for (text,) in plain("select text from NVTX_EVENTS"))


def test_a_full_queue_is_told() -> None:
    """The export says for how long a launch waits for room in the queue."""
    told = plain("select sum(end - start) from CUPTI_ACTIVITY_KIND_OVERHEAD where overheadType = 8")[0][0]
    found = opened().sql("select sum(dur_ns)::bigint from event where is_full_queue(name) and category = 'overhead'")
    assert found.item() == told


def test_nothing_of_the_machine_or_its_user_is_kept() -> None:
    trace = opened()
    kept = " ".join(trace.sql("select metadata from rank_info").to_series())
    for name, value in plain("select name, value from META_DATA_EXPORT"):
        if name in ("EXPORT_USER", "EXPORT_HOST", "EXPORT_PARAM_INPUT_PATH_ABS"):
            assert value not in kept
    assert "FastVideo" not in kept
    assert plain("select count(*) from META_DATA_CAPTURE where value like '%FastVideo%'")[0][0] > 0


def test_the_device_is_named_where_the_export_names_it() -> None:
    trace = ha.load(MOCK)
    (row,) = trace.sql("select name, sm_count, memory_bytes from device").rows()
    assert row == plain("select name, smCount, totalMemory from TARGET_INFO_GPU", MOCK)[0]
    kernels = trace.sql("select name from event where category = 'kernel'")
    assert kernels.height == 2
    assert not kernels["name"].str.contains(r"\(int\)").any()


def test_the_profilers_own_time_is_that_of_the_mock() -> None:
    trace = ha.load(MOCK)
    own = "select count(*), sum(dur_ns)::bigint from event where category = 'overhead' and is_work_of_profiler(name)"
    assert trace.sql(own).row(0) == plain("select count(*), sum(end - start) from PROFILER_OVERHEAD", MOCK)[0]


@pytest.mark.parametrize("path", [EXPORT, MOCK])
def test_everything_behind_the_reader_answers(path: Path) -> None:
    trace = opened(path)
    assert len(ha.report(trace).to_text()) > 1_000
    assert isinstance(ha.steps(trace), pl.DataFrame)
