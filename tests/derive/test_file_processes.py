"""Processes of one file: `process_track`, `file_process`, `event_process` and `event_document`."""

from __future__ import annotations

import random

import duckdb
import pytest

from hotline_analysis import catalog
from hotline_analysis.database import install_macros

Event = tuple[str, str, str, str, int | None, int]
"""Process id, thread id, category, name, correlation, start."""


OP_OF_11: Event = ("11", "1", "cpu_op", "aten::mm", None, 0)
OP_OF_12: Event = ("12", "2", "cpu_op", "aten::mm", None, 0)


def database(events: list[Event]) -> duckdb.DuckDBPyConnection:
    """Tables as the importer has them, and `process_track`."""
    connection = duckdb.connect()
    install_macros(connection)
    tracks = list(dict.fromkeys((pid, tid) for pid, tid, *_ in events))
    connection.execute("create table track (track_id bigint, pid varchar, tid varchar)")
    connection.executemany("insert into track values (?, ?, ?)", [(n, *track) for n, track in enumerate(tracks)])
    connection.execute(
        "create table event"
        " (event_id bigint, track_id bigint, category varchar, name varchar, correlation bigint, start_ns bigint)"
    )
    connection.executemany(
        "insert into event values (?, ?, ?, ?, ?, ?)",
        [(n, tracks.index(each[:2]), *each[2:]) for n, each in enumerate(events)],
    )
    connection.execute(f"create table process_track as {catalog.get('process_track').sql}")
    return connection


def launches(
    pid: str, gpu: str, *, start: int = 0, count: int = 4, delay: int = 5, tid: str = "1", stream: str = "7"
) -> list[Event]:
    """A process that launches a kernel every 100 ns; correlation ids count from 1."""
    found: list[Event] = []
    for number in range(count):
        at = start + 100 * number
        found.append((pid, tid, "cuda_runtime", "cudaLaunchKernel", number + 1, at))
        found.append((gpu, stream, "kernel", f"gemm{number}", number + 1, at + delay))
    return found


def processes(connection: duckdb.DuckDBPyConnection) -> dict[str, bool]:
    rows = connection.execute(catalog.get("file_process").sql).fetchall()
    return {process: is_working for process, _, is_working in rows}


def owners(connection: duckdb.DuckDBPyConnection) -> list[str]:
    return [process for _, process in connection.execute(catalog.get("event_process").sql).fetchall()]


def test_process_track_counts_what_is_on_a_track() -> None:
    events: list[Event] = [
        ("[TP01] 9", "9", "cpu_op", "aten::mm", None, 0),
        ("[TP01] 9", "9", "cuda_runtime", "cudaLaunchKernel", 1, 1),
        ("[TP01] 9", "9", "user_annotation", "ProfilerStep#3", None, 0),
        ("[TP01] 0", "7", "kernel", "gemm", 1, 4),
        ("5", "5", "python_function", "serve", None, 0),
        ("0", "7", "kernel", "gemm", 1, 4),
    ]
    with database(events) as connection:
        rows = connection.execute(
            "select pid, process, is_labelled, host_count, launch_count, gpu_count, training_count, event_count"
            " from process_track order by track_id"
        ).fetchall()
    assert rows == [
        ("[TP01] 9", "TP01", True, 3, 1, 0, 1, 3),
        ("[TP01] 0", "TP01", True, 0, 0, 1, 0, 1),
        ("5", "5", False, 1, 0, 0, 0, 1),
        ("0", None, False, 0, 0, 1, 0, 1),
    ]


@pytest.mark.parametrize(
    ("events", "working"),
    [
        (launches("11", "0") + launches("12", "1", tid="2"), {"11": True, "12": True}),
        # one thread number, and the same correlation ids
        (launches("11", "0") + launches("12", "1"), {"11": True, "12": True}),
        # one thread number, and each correlation id once: a damaged process id
        ([(("x" if n % 2 else "1"), *event[1:]) for n, event in enumerate(launches("1", "0")[::2])], {"1": 0, "x": 0}),
        # the runtime's calls have a process id of their own
        (
            [
                *launches("9", "0"),
                ("8", "8", "cpu_op", "aten::mm", None, 0),
                ("8", "8", "user_annotation", "ProfilerStep#1", None, 0),
            ],
            {"9": False, "8": True},
        ),
        # a process with less than a hundredth of the events of another one
        (
            [OP_OF_11, *launches("11", "0", count=200), OP_OF_12, *launches("12", "1", count=1, tid="2")],
            {"11": True, "12": False},
        ),
        ([*(("3", "3", "python_function", "serve", None, n) for n in range(5)), OP_OF_11], {"3": False, "11": False}),
        ([OP_OF_11, *launches("11", "0"), ("3", "3", "cpu_op", "aten::add", None, 0)], {"11": True, "3": False}),
    ],
)
def test_file_process_says_who_works(events: list[Event], working: dict[str, bool]) -> None:
    with database(events) as connection:
        assert processes(connection) == working


def test_event_process_by_the_parts_of_the_file() -> None:
    """Both processes call their GPU 0; what follows the first event of a process is of it."""
    with database(launches("11", "0", count=3) + launches("12", "0", count=5)) as connection:
        assert owners(connection) == ["11"] * 6 + ["12"] * 10


@pytest.mark.parametrize("seed", range(6))
def test_event_process_by_launches(seed: int) -> None:
    """Processes start at different times and launch in turns; GPUs and processes have the same order."""
    draw = random.Random(seed)
    count = draw.randint(2, 5)
    gpus = sorted(draw.sample(range(8), count))
    of_event = []
    for place in range(count):
        made = launches(
            str(100 + place),
            str(gpus[place]),
            start=draw.randint(0, 90),
            count=20,
            delay=draw.randint(1, 60),
            tid=str(100 + place),
        )
        of_event += [(event, str(100 + place)) for event in made]
    of_event.sort(key=lambda each: each[0][5])
    with database([event for event, _ in of_event]) as connection:
        assert owners(connection) == [process for _, process in of_event]


def test_event_process_of_a_shared_gpu() -> None:
    """Each kernel is of the last launch of its correlation id before it."""
    events = launches("11", "0", start=0, delay=5) + launches("12", "0", start=50, delay=5, tid="2")
    named = [(*event[:3], "gemm", *event[4:]) if event[2] == "kernel" else event for event in events]
    in_order = sorted(enumerate(named), key=lambda each: each[1][5])
    with database([event for _, event in in_order]) as connection:
        assert owners(connection) == ["11" if number < 8 else "12" for number, _ in in_order]


def test_event_document_numbers_the_documents() -> None:
    with database(launches("1", "0", count=3)) as connection:
        connection.execute(
            "create table document as select * from (values (0, -1), (1, 2), (2, 5)) as t(number, first_id)"
        )
        rows = connection.execute(catalog.get("event_document").sql).fetchall()
    assert [process for _, process in rows] == ["0", "0", "1", "1", "1", "2"]
