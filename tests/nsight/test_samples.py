"""CPU samples of an export: stacks, the places and idle time that they name, and calls of the operating system."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

import hotline_analysis as ha
from hotline_analysis.nsight import database
from tests.nsight_export import SCHEMAS, both_know, global_id, write_export
from tests.trace_builder import PID, TraceBuilder

MAIN = global_id(PID, 1)
Frame = tuple[str, str]
EVAL: Frame = ("_PyEval_EvalFrameDefault", "/usr/bin/python3.11")
LOOP: Frame = ("train", "/home/me/train.py:30")
SAVE: Frame = ("save_grid", "/home/me/train.py:12")
FSYNC: Frame = ("fsync", "/usr/lib/libc.so.6")
JSON = "/usr/lib/python3.11/json/__init__.py"
IN_LOOP = (EVAL, LOOP, EVAL)
IN_SAVE = (FSYNC, EVAL, SAVE, EVAL, LOOP, EVAL)


def loop(save_region: str | None = None) -> TraceBuilder:
    """Three steps of 1,000 us: forward, backward and optimizer take 100 each, then the GPU is idle for 700."""
    trace = TraceBuilder()
    for step in range(3):
        at = 1000 * step
        trace.step(step, at, at + 1000)
        for number, (phase, op) in enumerate(
            [("forward", "aten::mm"), ("backward", "aten::mm"), ("optimizer", "aten::add_")]
        ):
            start = at + 100 * number
            trace.annotation(phase, start, start + 100)
            trace.op(op, start + 10, start + 30).launches("kernel", start + 30, start + 100)
        if save_region is not None:
            trace.annotation(save_region, at + 300, at + 1000)
    return trace


def export(
    folder: Path, stacks: Sequence[tuple[int, Sequence[Frame]]] = (), schema: str = "2026.2", tid: int = MAIN
) -> Path:
    """An export of the loop with samples: of each, the time in nanoseconds and the stack, innermost first."""
    texts = sorted({text for _, stack in stacks for frame in stack for text in frame})
    ids = {text: 5_000 + number for number, text in enumerate(texts)}
    more: dict[str, Sequence[Sequence[object]]] = {
        "StringIds": [(number, text) for text, number in ids.items()],
        "COMPOSITE_EVENTS": [(number, at, 0, 1, tid, 1_000) for number, (at, _) in enumerate(stacks, 1)],
        "SAMPLING_CALLCHAINS": [
            (number, ids[symbol], ids[module], 0, 0, int(symbol.startswith("0x")), 0, 0, 0, depth)
            for number, (_, stack) in enumerate(stacks, 1)
            for depth, (symbol, module) in enumerate(stack)
        ],
    }
    return write_export(folder / "report.sqlite", both_know(loop().events, {}, schema), {}, schema, more, pid=PID)


def sampled(count: int = 20) -> list[tuple[int, Sequence[Frame]]]:
    """In each step, a sample every 50 us: 6 in phases, in the loop, and 14 after the optimizer, in `save_grid`."""
    return [
        (1_000_000 * step + 50_000 * number + 25_000, IN_LOOP if number < 6 else IN_SAVE)
        for step in range(3)
        for number in range(count)
    ]


@pytest.mark.parametrize("schema", SCHEMAS)
def test_samples_name_the_place_of_a_step(schema: str, tmp_path: Path) -> None:
    """700 of 1,000 us have no range. All of the 42 samples there are in `save_grid`."""
    trace = ha.load(export(tmp_path, sampled(), schema))
    first = ha.slowest_places(trace).row(0, named=True)
    assert (first["kind"], first["place"], first["source"]) == ("sampled", "save_grid", "/home/me/train.py:12")
    assert (first["path_ns"], first["sampled_pct"]) == (700_000, 100.0)
    assert "save_grid" in ha.report(trace).to_text()


def test_samples_name_what_the_cpu_does_in_idle_time(tmp_path: Path) -> None:
    """The GPU is idle in each step for 700 us after the optimizer, and 30 before the first kernel."""
    found = ha.load(export(tmp_path, sampled())).query("idle_samples", cause="python")
    rows = found.select("function", "source", "is_user", "inner_function", "sample_count", "sample_pct").rows()
    assert rows == [("save_grid", "/home/me/train.py:12", True, "fsync", 42, 100.0)]


def test_frames_of_marks_and_of_the_place_between(tmp_path: Path) -> None:
    rows = ha.load(export(tmp_path, sampled())).sql(
        "select after_mark, before_mark, inside_mark, function, sample_count, inclusive_count, gap_sample_count,"
        " is_loop from sampled_frame where is_user order by all"
    )
    assert rows.rows() == [
        ("backward", "forward", "optimizer", "train", 6, 6, 6, True),
        ("forward", "optimizer", "backward", "train", 6, 6, 6, True),
        ("optimizer", "backward", "forward", "train", 6, 6, 6, True),
        ("optimizer", "forward", None, "save_grid", 42, 42, 42, False),
        ("optimizer", "forward", None, "train", 0, 42, 42, True),
    ]


@pytest.mark.parametrize(
    ("stack", "function", "source", "is_user"),
    [
        # CPython's own symbols (`-X perf`)
        ((("py::save:/home/me/train.py", "/tmp/perf-7.map"), EVAL), "save", "/home/me/train.py", True),
        # python of a library: the user's caller counts
        (
            (EVAL, ("step", "/usr/lib/python3.11/site-packages/torch/optim/sgd.py:9"), LOOP),
            *("train", "/home/me/train.py:30", True),
        ),
        ((EVAL, ("dump", f"{JSON}:9")), "dump", f"{JSON}:9", False),
        # no python at all: the innermost function, and its library
        ((("jpeg_idct", "/usr/lib/libjpeg.so.8"), EVAL), "jpeg_idct", "/usr/lib/libjpeg.so.8", False),
        ((("0x7f12", "/usr/lib/libjpeg.so.8"), EVAL), "[libjpeg.so.8]", "/usr/lib/libjpeg.so.8", False),
    ],
)  # fmt: skip
def test_the_function_of_a_stack(
    stack: Sequence[Frame], function: str, source: str, is_user: bool, tmp_path: Path
) -> None:
    row = ha.load(export(tmp_path, [(500_000, stack)])).query("idle_samples").row(0, named=True)
    assert (row["function"], row["source"], row["is_user"]) == (function, source, is_user)


@pytest.mark.parametrize("rows", [1, 7, 100_000])
def test_a_stack_across_two_batches_is_whole(rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every frame of every sample, by a plain query over the export."""
    path = export(tmp_path, sampled())
    monkeypatch.setattr(database, "_ROWS", rows)
    found = ha.load(path).sql(
        "select start_ns, len(json_extract(args, '$.stack[*]')) from event inner join event_args using (rank, event_id)"
        " where category = 'cpu_sample' order by start_ns"
    )
    with closing(sqlite3.connect(path)) as connection:
        told = connection.execute(
            "select start, count(*) from COMPOSITE_EVENTS inner join SAMPLING_CALLCHAINS using (id) group by id"
            " order by start"
        ).fetchall()
    assert found.rows() == told


def test_samples_of_other_processes_and_threads_are_apart(tmp_path: Path) -> None:
    """A sample of another thread is no sample of the loop, and a sample of another process is of no rank."""
    other = ha.load(export(tmp_path, sampled(), tid=global_id(PID, 9)))
    assert other.sql("select count(*), count(distinct track_id) from cpu_sample").row(0) == (60, 1)
    assert other.sql("select count(*) from sampled_frame").item() == 0
    assert other.query("idle_samples").is_empty()
    (folder := tmp_path / "more").mkdir()
    foreign = ha.load(export(folder, sampled(), tid=global_id(PID + 5, 9)))
    assert foreign.sql("select count(*) from cpu_sample").item() == 0


def test_samples_without_stacks_are_left_out(tmp_path: Path) -> None:
    path = export(tmp_path, sampled())
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("delete from SAMPLING_CALLCHAINS where id > 10")
        connection.execute("insert into SAMPLING_CALLCHAINS (id, stackDepth) values (null, 0), ('x', 1), (999, 'x')")
        connection.commit()
    assert ha.load(path).sql("select count(*) from cpu_sample").item() == 10
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("drop table SAMPLING_CALLCHAINS")
        connection.commit()
    assert ha.load(path).sql("select count(*) from cpu_sample").item() == 0


def test_a_call_of_the_operating_system_names_the_rest_of_a_step(tmp_path: Path) -> None:
    """After the optimizer, 500 of 700 us are in `fsync`. The other 200 keep their name."""
    path = export(tmp_path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("create table OSRT_API (start, end, eventClass, globalTid, correlationId, nameId)")
        connection.execute("insert into StringIds values (900, 'fsync'), (901, 'write')")
        for step in range(3):
            at = 1_000_000 * step
            rows = [(at + 400_000, at + 900_000, 900), (at + 500_000, at + 600_000, 901)]
            connection.executemany(f"insert into OSRT_API values (?, ?, 27, {MAIN}, null, ?)", rows)
        connection.commit()
    trace = ha.load(path)
    # `write` is inside `fsync`
    inside = trace.query("os_calls", rank=0, start_ns=0, end_ns=1_000_000)
    assert inside.select("start_ns", "end_ns", "os_call").rows() == [(400_000, 900_000, "fsync")]
    found = ha.slowest_places(trace).filter(kind="rest").select("place", "path_ns").rows()
    assert found == [
        ("between Optimizer.step and the next forward, in fsync", 500_000),
        ("between Optimizer.step and the next forward", 200_000),
    ]


@pytest.mark.parametrize(
    ("call", "is_waiting"), [("pthread_cond_wait", True), ("poll", True), ("fsync", False), ("write", False)]
)
def test_the_loop_waits_in_a_call_of_the_operating_system(tmp_path: Path, call: str, is_waiting: bool) -> None:
    """Another thread runs a collective while the loop is in the call: a call that waits is the wait for other ranks."""
    trace = TraceBuilder().step(0, 0, 200).op("aten::mm", 0, 5)
    trace.op("c10d::allreduce_", 8, 10).op("aten::add", 52, 62).on(5).annotation("gloo:all_reduce", 12, 50)
    path = write_export(tmp_path / "report.sqlite", both_know(trace.events, {}, "2026.2"), {}, "2026.2", pid=PID)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("create table OSRT_API (start, end, eventClass, globalTid, correlationId, nameId)")
        connection.execute("insert into StringIds values (900, ?)", [call])
        connection.execute(f"insert into OSRT_API values (11000, 51000, 27, {MAIN}, null, 900)")
        connection.commit()
    waits = ha.load(path).sql("select start_ns, end_ns, kind from thread_wait").rows()
    assert waits == ([(12_000, 50_000, "other_ranks")] if is_waiting else [])
