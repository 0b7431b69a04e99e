"""What the reader of exports makes of ranges, numbers, metrics, calls of the operating system, and of what is wrong."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import hotline_analysis as ha
from hotline_analysis.errors import EmptyTraceError, HotlineError, TraceFormatError
from hotline_analysis.nsight import database
from tests.derive.tables import every_table
from tests.nsight_export import SCHEMAS, both_know, global_id, write_export
from tests.trace_builder import PID, TraceBuilder

Rows = Mapping[str, Sequence[Sequence[object]]]
MAIN = global_id(PID, 1)


def loop() -> TraceBuilder:
    """A loop of three steps with a kernel each."""
    trace = TraceBuilder()
    for step in range(3):
        at = 1000 * step
        trace.step(step, at, at + 900).op("aten::mm", at + 10, at + 30).launches("gemm", at + 40, at + 140)
    return trace


def export(folder: Path, more: Rows | None = None, schema: str = "2026.2", trace: TraceBuilder | None = None) -> Path:
    events = both_know((trace or loop()).events, {}, schema)
    return write_export(folder / "report.sqlite", events, {}, schema, more, pid=PID)


def range_row(text: str, start: int, end: int | None, **more: Any) -> list[object]:
    """A row of `NVTX_EVENTS` in the schema of 2026.2."""
    row = {"start": start, "end": end, "eventType": 59, "text": text, "globalTid": MAIN, "domainId": 0, **more}
    names = (
        *("start", "end", "eventType", "rangeId", "category", "color", "text", "globalTid", "endGlobalTid", "textId"),
        *("domainId", "uint64Value", "int64Value", "doubleValue", "uint32Value", "int32Value", "floatValue"),
        *("jsonTextId", "jsonText", "binaryData"),
    )
    return [row.get(name) for name in names]


@pytest.mark.parametrize(
    ("text", "category", "name", "number", "shapes"),
    [
        ("aten::mm", "cpu_op", "aten::mm", None, None),
        ("aten::mm, op_id = 7", "cpu_op", "aten::mm", None, None),
        ("aten::mm, seq = 12, op_id = 7", "cpu_op", "aten::mm", 12, None),
        ("aten::mm, op_id = 7, seq = 12", "cpu_op", "aten::mm", 12, None),
        ("aten::mm, op_id = 7, seq = 12, sizes = [[4, 5], [5, 6]]", "cpu_op", "aten::mm", 12, "[[4,5],[5,6]]"),
        (
            "aten::cat, seq = 3, op_id = 9, sizes = [[], [2]], input_op_ids = [(3,0), (4,1)]",
            *("cpu_op", "aten::cat", 3, "[[],[2]]"),
        ),
        ("MyFunction, seq = 0, op_id = 9", "cpu_op", "MyFunction", 0, None),
        ("autograd::engine::evaluate_function: MmBackward0, seq = 5, op_id = 8", "cpu_op", None, 5, None),
        ("Optimizer.step#SGD.step, op_id = 10", "user_annotation", "Optimizer.step#SGD.step", None, None),
        ("FSDP::pre_forward (block.1), op_id = 11", "user_annotation", "FSDP::pre_forward (block.1)", None, None),
        ("step 3", "user_annotation", "step 3", None, None),
        ("lr = 3", "user_annotation", "lr = 3", None, None),
        ("eval, lr = 3", "user_annotation", "eval, lr = 3", None, None),
        ("two\nlines, op_id = 3", "user_annotation", "two\nlines", None, None),
    ],
)
def test_a_range_is_an_op_or_an_annotation(
    text: str, category: str, name: str | None, number: int | None, shapes: str | None, tmp_path: Path
) -> None:
    trace = ha.load(export(tmp_path, {"NVTX_EVENTS": [range_row(text, 5_000_000, 5_001_000)]}))
    found = trace.sql(
        "select event.category, event.name, op.sequence_number, op.input_dims from event"
        " left join op using (rank, event_id) where event.start_ns = 5000000"
    )
    assert found.rows() == [(category, name or text.partition(",")[0], number, shapes)]


def test_a_node_of_backward_finds_its_op_by_the_number(tmp_path: Path) -> None:
    """Without the thread that Kineto tells: the last op with the number, unless two threads have it."""
    trace = TraceBuilder().on(1).op("aten::mm", 10, 20, seq=4).op("aten::relu", 25, 30, seq=5)
    trace.op("aten::mm", 40, 50, seq=4).op("aten::add", 52, 54, seq=9).on(3).op("aten::mul", 52, 54, seq=9)
    trace.on(2).op("MmBackward0", 60, 70, seq=4).op("ReluBackward0", 80, 90, seq=5).op("AddBackward0", 95, 99, seq=9)
    nodes = every_table(ha.load(export(tmp_path, trace=trace))).execute(
        "select event.name, forward.name, forward.start_ns, node.evidence from node"
        " inner join event on node.event_id = event.event_id"
        " left join event as forward on node.forward_id = forward.event_id order by event.start_ns"
    )
    assert nodes.fetchall() == [
        ("MmBackward0", "aten::mm", 40_000, "sequence_number"),
        ("ReluBackward0", "aten::relu", 25_000, "sequence_number"),
        ("AddBackward0", None, None, None),
    ]


def test_ranges_of_all_kinds(tmp_path: Path) -> None:
    other = global_id(PID, 2)
    rows = [
        range_row("open", 10_000, None),
        range_row("here", 20_000, 30_000, eventType=60, endGlobalTid=MAIN),
        range_row("across", 20_000, 30_000, eventType=60, endGlobalTid=other),
        range_row("a mark", 25_000, None, eventType=34),
        range_row("Mine", 0, None, eventType=75, domainId=3),
        range_row("NCCL", 0, None, eventType=75, domainId=4),
        range_row("mine", 26_000, 27_000, domainId=3, int64Value=42),
        range_row("ncclAllReduce", 26_500, 26_900, domainId=4),
    ]
    trace = ha.load(export(tmp_path, {"NVTX_EVENTS": rows}))
    found = trace.sql(
        "select name, ph, category, dur_ns, track_id is null as nowhere, args from event"
        " left join event_args using (rank, event_id) where name in ('open', 'here', 'across', 'a mark', 'mine',"
        " 'ncclAllReduce', 'Mine', 'NCCL') order by event.event_id"
    ).rows()
    last = 2_900_000  # the last step ends, and all that is open
    assert found == [
        ("open", "X", "user_annotation", last - 10_000, False, '{"open":true}'),
        ("here", "X", "user_annotation", 10_000, False, None),
        ("across", "X", "user_annotation", 10_000, True, None),
        ("a mark", "i", "user_annotation", None, False, None),
        ("mine", "X", "user_annotation", 1_000, False, '{"domain":"Mine","payload":"42"}'),
        ("ncclAllReduce", "X", "library_range", 400, False, '{"domain":"NCCL"}'),
    ]


def test_calls_of_the_operating_system_and_metrics(tmp_path: Path) -> None:
    rows: Rows = {
        "StringIds": [(900, "fsync")],
        "OSRT_API": [(50_000, 60_000, 27, MAIN, None, 900, 0, 0, None)],
        "TARGET_INFO_GPU_METRICS": [(7, 1, "GPU metrics", 1, "SM Active"), (7, 1, "GPU metrics", 2, "Tensor Active")],
        "GPU_METRICS": [(0, 1000, 7, 1, 80), (0, 1000, 7, 2, 30), (0, 2000, 7, 1, 81), (0, 2000, 7, 2, 31)],
    }
    trace = ha.load(export(tmp_path, rows))
    assert trace.sql("select name, dur_ns from event where category = 'os_call'").rows() == [("fsync", 10_000)]
    samples = trace.sql("select start_ns, series, value from counter join event using (rank, event_id) order by all")
    assert samples.rows() == [
        (1000, "SM Active", 80.0),
        (1000, "Tensor Active", 30.0),
        (2000, "SM Active", 81.0),
        (2000, "Tensor Active", 31.0),
    ]


def test_a_call_of_the_operating_system_is_named_where_the_gpu_idles(tmp_path: Path) -> None:
    """In each step, 600 of 760 us in which the CPU does nothing for the GPU are in `fsync`."""
    calls = [(200_000 + at, 800_000 + at, 27, MAIN, None, 900, 0, 0, None) for at in (0, 1_000_000, 2_000_000)]
    trace = ha.load(export(tmp_path, {"StringIds": [(900, "fsync")], "OSRT_API": calls}))
    found = trace.query("idle_events").filter(name="fsync")
    assert found["idle_ns"].sum() == 3 * 600_000


def test_a_whole_graph_is_gpu_work_of_its_launch(tmp_path: Path) -> None:
    trace = loop().runtime("cudaGraphLaunch", 2050, 2060, correlation=77)
    path = export(tmp_path, trace=trace)
    with closing(sqlite3.connect(path)) as connection:
        columns = "start, end, deviceId, contextId, streamId, correlationId, globalPid, graphId, graphExecId"
        connection.execute(f"create table CUPTI_ACTIVITY_KIND_GRAPH_TRACE ({columns})")
        connection.execute(
            "insert into CUPTI_ACTIVITY_KIND_GRAPH_TRACE values (2200000, 2500000, 0, 1, 7, 77, ?, 3, 4)",
            [global_id(PID)],
        )
        connection.commit()
    found = ha.load(path).sql(
        "select event.name, event.dur_ns, launch.queue_ns from launch inner join event using (rank, event_id)"
        " where event.correlation = 77"
    )
    assert found.rows() == [("CUDA graph 3", 300_000, 140_000)]


@pytest.mark.parametrize("schema", SCHEMAS)
def test_secrets_stay_only_where_they_are_asked_for(schema: str, tmp_path: Path) -> None:
    path = export(tmp_path, schema=schema)
    kept = ha.load(path).sql("select metadata from rank_info").item()
    assert "train.py" not in kept
    assert "wJalrX" not in kept
    asked = ha.load(path, keep_secrets=True).sql("select metadata from rank_info").item()
    assert "train.py" in asked
    assert "wJalrX" in asked


def test_each_process_with_gpu_work_is_a_rank(tmp_path: Path) -> None:
    """In the order of their devices; events of the others are of no rank."""
    work = [5_000, 6_000, 1, 2, None, 7, 1, global_id(50)]
    kernel = [*work, *[None] * (20 + 3)]
    call = [1_000, 2_000, 0, global_id(50, 50), 1, None, 0, None]
    rows: Rows = {
        "CUPTI_ACTIVITY_KIND_KERNEL": [kernel],
        "CUPTI_ACTIVITY_KIND_RUNTIME": [call],
        "NVTX_EVENTS": [range_row("a worker", 1_000, 2_000, globalTid=global_id(60, 60))],
    }
    trace = ha.load(export(tmp_path, rows))
    assert trace.ranks == [0, 1]
    found = trace.sql("select rank, launch_start_ns, queue_ns from launch where rank = 1")
    assert found.rows() == [(1, 1_000, 3_000)]
    assert trace.sql("select count(*) from event where name = 'a worker'").item() == 0
    assert trace.sql("select distinct device from gpu_op where rank = 0").item() == 0


def test_missing_tables_and_columns_are_no_error(tmp_path: Path) -> None:
    path = tmp_path / "least.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("create table StringIds (id, value)")
        connection.execute("create table CUPTI_ACTIVITY_KIND_KERNEL (start, end)")
        connection.execute("insert into CUPTI_ACTIVITY_KIND_KERNEL values (10, 30)")
        connection.commit()
    assert ha.load(path).sql("select category, start_ns, dur_ns from event where ph = 'X'").rows() == [
        ("kernel", 10, 20)
    ]


# --- what is wrong --------------------------------------------------------------------------------------------------


def cut(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 3])


def overwritten(path: Path) -> None:
    data = bytearray(path.read_bytes())
    for place in range(4096, len(data), 512):
        data[place : place + 64] = b"\xff" * 64
    path.write_bytes(bytes(data))


def foreign(path: Path) -> None:
    path.unlink()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("create table moz_places (id, url)")
        connection.commit()


def without_events(path: Path) -> None:
    path.unlink()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("create table StringIds (id, value)")
        connection.execute("create table NVTX_EVENTS (start, end, text)")
        connection.commit()


def without_tables(path: Path) -> None:
    path.write_bytes(b"")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("create table a (b)")
        connection.execute("drop table a")
        connection.execute("vacuum")


def only_magic(path: Path) -> None:
    path.write_bytes(b"SQLite format 3\0")


def views_that_never_end(path: Path) -> None:
    path.unlink()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("create table StringIds (id, value)")
        connection.execute(
            "create view CUPTI_ACTIVITY_KIND_KERNEL as with recursive n(start) as (select 1 union all select start + 1"
            " from n) select start, start as end from n"
        )
        connection.commit()


def a_trigger(path: Path) -> None:
    """A file with nothing but a trigger, which would run at an insert."""
    without_tables(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("create table a (b)")
        connection.execute("create trigger t after insert on a begin insert into a values (1); end")
        connection.commit()


def no_database(path: Path) -> None:
    path.write_text("This is no database.\n" * 100)


def empty(path: Path) -> None:
    path.write_bytes(b"")


def still_written(path: Path) -> None:
    """Everything is still in the log of another connection, as in a program that was killed."""
    path.unlink()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("pragma journal_mode = wal")
        connection.execute("create table StringIds (id, value)")
        connection.commit()
        log = path.with_name(f"{path.name}-wal")
        log_bytes, bytes_now = log.read_bytes(), path.read_bytes()
    path.write_bytes(bytes_now)
    log.write_bytes(log_bytes)


@pytest.mark.parametrize(
    ("spoil", "kind", "sentence"),
    [
        (a_trigger, TraceFormatError, "not an export of Nsight Systems"),
        (no_database, TraceFormatError, "report.sqlite"),
        (empty, HotlineError, "report.sqlite"),
        (still_written, TraceFormatError, "report.sqlite-wal"),
        (cut, TraceFormatError, "damaged"),
        (overwritten, TraceFormatError, "damaged"),
        (foreign, TraceFormatError, "is an SQLite database, but not an export of Nsight Systems"),
        (without_events, EmptyTraceError, "has no events"),
        (without_tables, TraceFormatError, "there are no tables"),
        (only_magic, TraceFormatError, "damaged"),
        (views_that_never_end, TraceFormatError, "not an export of Nsight Systems"),
    ],
)
def test_a_bad_file_gets_one_sentence(
    spoil: Callable[[Path], None], kind: type[HotlineError], sentence: str, tmp_path: Path
) -> None:
    path = export(tmp_path)
    spoil(path)
    with pytest.raises(kind) as raised:
        ha.load(path)
    assert sentence in raised.value.message
    assert "\n" not in raised.value.message
    assert raised.value.hint


def test_changes_next_to_the_database_are_told(tmp_path: Path) -> None:
    """The database itself is whole; the log has one kernel more, which is not read."""
    path = export(tmp_path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("pragma journal_mode = wal")
        connection.execute("insert into CUPTI_ACTIVITY_KIND_KERNEL (start, end) values (1, 2)")
        connection.commit()
        with pytest.warns(ha.HotlineWarning, match=r"report\.sqlite-wal has changes"):
            trace = ha.load(path)
    assert trace.sql("select count(*) from event where category = 'kernel'").item() == 3


def test_a_locked_export_is_read(tmp_path: Path) -> None:
    path = export(tmp_path)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("begin exclusive")
        assert ha.load(path).sql("select count(*) from event where category = 'kernel'").item() == 3
        connection.execute("rollback")


def test_what_is_readable_of_a_damaged_export_is_read(tmp_path: Path) -> None:
    """Values that are no numbers, times that run backwards, and texts in other bytes than UTF-8."""
    kernel: list[object] = [None] * (8 + 20 + 3)
    odd: list[list[object]] = [
        [*("x", 5_000), *kernel[2:]],
        [*(9_000_000, 8_000_000), *kernel[2:]],
        [*(b"\xff", None), *kernel[2:]],
    ]
    path = export(tmp_path, {"CUPTI_ACTIVITY_KIND_KERNEL": odd})
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("update NVTX_EVENTS set text = cast(x'ff61' as text) where text like 'aten::mm%'")
        connection.commit()
    with pytest.warns(ha.HotlineWarning, match="other than numbers"):
        trace = ha.load(path)
    assert trace.sql("select count(*) from event where category = 'kernel' and dur_ns is not null").item() == 3
    assert trace.sql("select count(*) from event where name = '\ufffda'").item() == 3


def test_a_report_names_the_command_that_exports_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    report = tmp_path / "run.nsys-rep"
    report.write_bytes(b"\0" * 100)
    with pytest.raises(TraceFormatError, match="is not on this machine") as raised:
        ha.load(report)
    assert raised.value.hint is not None
    assert "nsys export --type sqlite --include-json=true run.nsys-rep" in raised.value.hint


def test_a_report_is_exported_where_nsys_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = export(tmp_path)
    program = tmp_path / "bin" / "nsys"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\n[ "$1 $2 $3 $4" = "export --type sqlite --output" ] && cp {made} "$5"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    report = tmp_path / "run.nsys-rep"
    report.write_bytes(b"\0" * 100)
    trace = ha.load(report)
    assert trace.sql("select file from rank_info").item() == "run.nsys-rep"
    assert trace.sql("select count(*) from event where category = 'kernel'").item() == 3


def test_a_folder_has_each_report_once(tmp_path: Path) -> None:
    """The export stands beside the report that it was made of."""
    export(tmp_path)
    (tmp_path / "report.nsys-rep").write_bytes(b"\0" * 100)
    trace = ha.load(tmp_path)
    assert trace.ranks == [0]
    assert trace.manifest["warnings"] == []


# --- how columns are read -------------------------------------------------------------------------------------------


def odd_table(path: Path, more: str = ")") -> None:
    """A table whose rows are numbered with gaps, or have no numbers."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"create table t (n integer, x real, s text{more}")
        rows = [(number, number / 4, f'"{number}", \\ [null]\n') for number in range(1_000)]
        connection.executemany("insert into t values (?, ?, ?)", [*rows, (2**63 - 1, None, "é"), (-(2**63), 0.5, "")])
        connection.execute("delete from t where n % 7 = 3")
        connection.execute("update t set s = null where n % 5 = 1")
        connection.commit()


COLUMNS = {"n": "BIGINT", "x": "DOUBLE", "s": "VARCHAR", "missing": "BIGINT"}


@pytest.mark.parametrize("size", [1, 100, 10_000])
@pytest.mark.parametrize("more", [")", ", primary key (n)) without rowid"])
def test_columns_are_read_as_sqlite_gives_rows(
    size: int, more: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "_ROWS", size)
    path = tmp_path / "odd.sqlite"
    odd_table(path, more)
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("select n, x, s, null from t").fetchall()
    with database.ExportFile(path) as file:
        parts = list(file.read("t", COLUMNS))
        found = [tuple(row.values()) for part in parts for row in part.to_pylist()]
        assert file.damage.notes == []
    assert found == rows
    assert max(part.num_rows for part in parts) <= size or "without rowid" in more


def test_rows_before_damage_are_read_where_columns_are_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A value that fits into no JSON: the rows are read one by one, from the last good ones on."""
    monkeypatch.setattr(database, "_ROWS", 100)
    path = tmp_path / "odd.sqlite"
    odd_table(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("update t set s = x'ff00' where n = 501")
        connection.commit()
        count = connection.execute("select count(*) from t").fetchone()[0]
    with database.ExportFile(path) as file:
        found = [row for part in file.read("t", COLUMNS) for row in part.to_pylist()]
    assert len(found) == count == len({row["n"] for row in found})
    assert next(row["s"] for row in found if row["n"] == 501) == "\ufffd\0"


def test_a_value_that_is_too_long_ends_its_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "_LONGEST_VALUE", 100_000)
    path = export(tmp_path, {"NVTX_EVENTS": [range_row("x" * 1_000_000, 5_000, 6_000)]})
    # of the six rows before it, Python's own module loses the last one, as it reads ahead
    with pytest.warns(ha.HotlineWarning, match="NVTX_EVENTS is damaged after 5 rows"):
        trace = ha.load(path)
    ranges = "select count(*) from event where category in ('cpu_op', 'user_annotation')"
    assert trace.sql(ranges).item() == 5
    assert trace.sql("select count(*) from event where category = 'kernel'").item() == 3
    assert trace.sql("select truncated from rank_info").item()


def test_a_long_text_is_cut(tmp_path: Path) -> None:
    path = export(tmp_path, {"NVTX_EVENTS": [range_row("x" * 1_000_000, 5_000, 6_000)]})
    assert ha.load(path).sql("select max(length(name)) from event").item() == database.LONGEST_TEXT


def test_the_report_names_the_recorder(tmp_path: Path) -> None:
    text = ha.report(ha.load(export(tmp_path))).to_text()
    assert "recorder  Nsight Systems 2026.2.1.1" in text
    assert "Nsight Systems recorded this" in text
    assert "hotline_analysis.nvtx(model)" in text
    assert "prof.step()" not in text
    assert "ProfilerActivity" not in text
