"""Run directories from strangers: a clear error, nothing read outside them, and no more than a trace can hold."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hotline_analysis as ha
from hotline_analysis import HotlineError, RunFormatError, Trace
from hotline_analysis.schema import TABLES
from tests.trace_builder import TraceBuilder

STORED = [table for table in TABLES.values() if table.kind != "view"]


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two ranks that nobody changes."""
    folder = tmp_path_factory.mktemp("good")
    for rank in range(2):
        made = TraceBuilder(rank=rank).step(0, 0, 100).module("Net", 0, 1, 60).op("aten::mm", 2, 50)
        made.launches("gemm", 10, 90, at=5, until=8).write(folder / f"rank{rank}.json")
    return ha.import_traces(folder, folder / "run.hotline")


@pytest.fixture
def run(good: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(good, tmp_path / "run.hotline"))


def file_of(run: Path, table: str, rank: int = 0) -> Path:
    return run / table / f"rank={rank}" / "data.parquet"


# --- the manifest ----------------------------------------------------------------------------------------------------


def changed(manifest: dict[str, Any], place: str, value: object) -> None:
    """Set `parts.0.rank` and the like; drop it if the value is `...`."""
    *way, last = place.split(".")
    holder: Any = manifest
    for name in way:
        holder = holder[int(name) if isinstance(holder, list) else name]
    if value is ...:
        del holder[last]
    else:
        holder[int(last) if isinstance(holder, list) else last] = value


ODD: list[object] = [None, True, 0, -1, 2.5, 10**30, float("nan"), "", "x", "../../etc", "/etc", [], [[]], {}, [1], ...]
FIELDS: dict[str, tuple[object, ...]] = {
    "parts": (),
    "parts.0": (),
    "parts.0.rank": (),
    "parts.0.file": ("", "x", "../../etc", "/etc"),  # it is only shown
    "parts.0.rank_source": ("", "x", "../../etc", "/etc"),
    "parts.0.event_count": (0,),
    "parts.0.lost_event_count": (0,),
    "parts.0.lost_bytes": (0,),
    "parts.0.damage": (None, "", "x", "../../etc", "/etc"),
    "parts.0.truncated": (True,),
    "parts.0.start_ns": (None, 0, -1, ...),
    "parts.0.end_ns": (None, 0, -1, ...),
    "warnings": ([],),
    "format_version": (),
}


def same(a: object, b: object) -> bool:
    return type(a) is type(b) and a == b


@pytest.mark.parametrize("place", FIELDS)
def test_every_field_of_a_manifest_is_checked(run: Path, place: str) -> None:
    text = (run / "manifest.json").read_text()
    for value in ODD:
        if place.count(".") == 1 and value is ...:
            continue  # of a list
        manifest = json.loads(text)
        if place == "parts.0.rank" and same(value, 0):
            continue  # as it is
        changed(manifest, place, value)
        (run / "manifest.json").write_text(json.dumps(manifest))
        if any(same(value, each) for each in FIELDS[place]):
            with ha.load(run) as trace:
                assert ha.steps(trace).height == 2
            continue
        with pytest.raises(RunFormatError) as raised:
            ha.load(run)
        assert str(run) in raised.value.message, value
        assert raised.value.hint


@pytest.mark.parametrize("value", [[1], [{}], [None], ["fine", ["x"]], "one", {"a": "b"}])
def test_warnings_are_texts(run: Path, value: object) -> None:
    manifest = json.loads((run / "manifest.json").read_text())
    (run / "manifest.json").write_text(json.dumps({**manifest, "warnings": value}))
    with pytest.raises(RunFormatError, match="warnings"):
        ha.load(run)


def test_a_rank_is_named_once(run: Path) -> None:
    manifest = json.loads((run / "manifest.json").read_text())
    manifest["parts"].append(manifest["parts"][0])
    (run / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(RunFormatError, match="has a duplicate rank"):
        ha.load(run)


def test_a_manifest_that_is_no_plain_text(run: Path, tmp_path: Path) -> None:
    file = run / "manifest.json"
    text = file.read_text()
    for content in ("[" * 200_000, '{"parts":' * 200_000, '{"format_version": 1' + "0" * 5000 + "}", "\0", "1"):
        file.write_text(content)
        with pytest.raises(RunFormatError) as raised:
            Trace(run)
        assert len(raised.value.message) < 1000
    file.unlink()
    (tmp_path / "outside.json").write_text(text)
    for target in (tmp_path / "outside.json", Path("/dev/zero"), tmp_path / "pipe", file, tmp_path / "absent", run):
        if target.name == "pipe":
            os.mkfifo(target)
        file.symlink_to(target)
        with pytest.raises(RunFormatError):
            Trace(run)
        file.unlink()
    os.mkfifo(file)
    with pytest.raises(RunFormatError, match="not a plain file"):
        Trace(run)
    file.unlink()
    with file.open("wb") as made:
        made.truncate(1 << 34)  # takes no place on the disk
    with pytest.raises(RunFormatError, match="too large"):
        Trace(run)


def test_a_command_says_it_in_one_line(run: Path) -> None:
    manifest = json.loads((run / "manifest.json").read_text())
    (run / "manifest.json").write_text(json.dumps({**manifest, "warnings": 5}))
    done = subprocess.run([sys.executable, "-m", "hotline_analysis", "report", run], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr == (
        f"error: {run}/manifest.json is damaged: warnings is not a list. Hint: Import the traces again.\n"
    )


# --- the files of tables ---------------------------------------------------------------------------------------------


def truncated(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-20])


def of_no_kind(file: Path) -> None:
    file.write_bytes(b"PAR1 no parquet PAR1")


def empty(file: Path) -> None:
    file.write_bytes(b"")


def a_device(file: Path) -> None:
    file.unlink()
    file.symlink_to("/dev/zero")


def a_pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def a_link(file: Path) -> None:
    outside = file.parents[3] / "outside.parquet"
    file.rename(outside)
    file.symlink_to(outside)


def a_link_above(file: Path) -> None:
    outside = file.parents[3] / "outside"
    file.parents[1].rename(outside)
    file.parents[1].symlink_to(outside)


def a_loop(file: Path) -> None:
    file.unlink()
    file.symlink_to(file)


def a_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


def with_other_columns(file: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), file)


def with_other_types(file: Path) -> None:
    table = pq.read_table(file)
    pq.write_table(pa.table({name: pa.array([b"x"]) for name in table.column_names}), file)


def with_lists(file: Path) -> None:
    table = pq.read_table(file)
    pq.write_table(pa.table({name: pa.array([[1]]) for name in table.column_names}), file)


DAMAGE: list[Callable[[Path], None]] = [
    Path.unlink,
    truncated,
    of_no_kind,
    empty,
    a_device,
    a_pipe,
    a_link,
    a_link_above,
    a_loop,
    a_folder,
    with_other_columns,
    with_other_types,
    with_lists,
]


@pytest.mark.parametrize("damage", DAMAGE, ids=lambda damage: damage.__name__)
def test_a_damaged_table_fails_only_what_reads_it(run: Path, damage: Callable[[Path], None]) -> None:
    damage(file_of(run, "memory_event"))
    with Trace(run) as trace:
        assert ha.steps(trace).height == 2
        for _ in range(2):
            with pytest.raises(RunFormatError, match="memory_event") as raised:
                trace.table("memory_event")
            assert str(run) in raised.value.message
            assert raised.value.hint
        with pytest.raises(RunFormatError):
            ha.memory_timeline(trace)
        assert ha.slowest_ops(trace).height


@pytest.mark.parametrize("table", STORED, ids=lambda table: table.name)
def test_every_table_is_looked_at(run: Path, table: Any) -> None:
    with_other_columns(file_of(run, table.name, rank=1))
    with Trace(run) as trace, pytest.raises(RunFormatError, match=r"the column \w+ is missing"):
        trace.table(table.name)


@pytest.mark.parametrize(("kind", "value"), [("timestamp[ns]", 1), ("uint64", 1), ("int32", 1), ("double", 0.5)])
def test_a_number_of_another_kind_is_another_type(run: Path, kind: str, value: Any) -> None:
    file = file_of(run, "step")
    table = pq.read_table(file)
    column = pa.array([value] * len(table)).cast(pa.type_for_alias(kind))
    pq.write_table(table.set_column(table.column_names.index("start_ns"), "start_ns", column), file)
    with Trace(run) as trace, pytest.raises(RunFormatError, match="the column start_ns is not BIGINT"):
        ha.steps(trace)


def test_damage_in_the_middle_is_no_mistake_in_the_question(run: Path, tmp_path: Path) -> None:
    """The footer is whole, so it shows when rows are read."""
    file = file_of(run, "event")
    data = bytearray(file.read_bytes())
    data[4:80] = b"\xff" * 76
    file.write_bytes(data)
    with Trace(run) as trace:
        with pytest.raises(RunFormatError, match="damaged"):
            trace.table("event")
        with pytest.raises(RunFormatError, match="damaged"):
            trace.export(tmp_path / "out")
        assert not (tmp_path / "out").exists()
        with pytest.raises(HotlineError, match="the SQL statement failed"):
            trace.sql("select nothing from step")


@pytest.mark.parametrize("seconds", [0.0, 0.3])
def test_a_question_that_would_take_for_ever_is_stopped(run: Path, seconds: float) -> None:
    """Also if its time is over before it begins, as on a busy machine."""
    with Trace(run) as trace:
        begun = time.monotonic()
        with pytest.raises(HotlineError, match="took too long"), trace.at_most(seconds):
            trace.sql(
                "select count(*) from range(10000000) as a, range(10000000) as b where (a.range * b.range) % 7 = 3"
            )
        assert time.monotonic() - begun < 10
        with trace.at_most(60):
            assert trace.sql("select 1 as one")["one"].to_list() == [1]


def test_text_that_is_no_text(run: Path) -> None:
    file = file_of(run, "step")
    table = pq.read_table(file)
    raw = pa.array([b"\xff\xfe"] * len(table), pa.binary())
    wrong = pa.StringArray.from_buffers(len(table), *raw.buffers()[1:])
    pq.write_table(table.set_column(table.column_names.index("name"), "name", wrong), file)
    with Trace(run) as trace, pytest.raises(RunFormatError, match="damaged"):
        ha.steps(trace)


def test_rows_out_of_nothing_are_refused(run: Path) -> None:
    """Three million rows that are all the same take a few kilobytes; fifty billion would take a megabyte."""
    file = file_of(run, "step")
    rows = 3_000_000
    nothing = pa.table([pa.nulls(rows, kind) for kind in kinds("step")[1]], TABLES["step"].arrow)
    pq.write_table(nothing, file, compression="zstd", row_group_size=rows, max_rows_per_page=rows)
    assert file.stat().st_size < 20_000
    with Trace(run) as trace, pytest.raises(RunFormatError, match="3,000,000 rows are too many"):
        ha.steps(trace)


def test_text_out_of_nothing_is_refused(run: Path) -> None:
    """Twenty gigabytes, as one name of a megabyte that stands in every row: the file has less than a kilobyte of it."""
    file = file_of(run, "phase_span")
    rows = 20_000
    columns: dict[str, Any] = {name: pa.nulls(rows, kind) for name, kind in zip(*kinds("phase_span"), strict=True)}
    columns["phase"] = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array(["x" * 1_000_000]))
    pq.write_table(pa.table(columns), file, compression="zstd", store_schema=False)
    assert file.stat().st_size < 20_000
    with Trace(run) as trace, pytest.raises(RunFormatError, match="the texts of phase_span would unpack to 20,000,"):
        trace.table("phase_span")


def test_much_of_the_same_is_no_table_in_memory(run: Path) -> None:
    """What a small file may hold is read when it is asked for, and not kept."""
    file = file_of(run, "step")
    rows = 400_000
    numbered = [pa.array(range(rows)), *(pa.nulls(rows, kind) for kind in kinds("step")[1][1:])]
    pq.write_table(pa.table(numbered, TABLES["step"].arrow), file)
    with Trace(run) as trace:
        assert trace.sql("select count(*) from step").item() == rows + 1
        views = trace.sql("select table_type from information_schema.tables where table_name = 'step'")
        assert views.item() == "VIEW"


# Rows that a join would multiply: with eight of each, a question needed 10 GB.
ONCE = {table.name: ["event_id"] for table in STORED if table.columns[0].name == "event_id"}
ONCE |= {"track": ["track_id"], "model_op": ["module_id"], "step": ["step"]}
ONCE |= {name: ["device", "start_ns"] for name in ("gpu_busy", "gpu_gap")}
del ONCE["counter"], ONCE["shared_kernel"]


@pytest.mark.parametrize("table", ONCE)
def test_rows_that_are_there_twice_are_refused(run: Path, table: str) -> None:
    file = file_of(run, table, rank=1)
    rows = pq.read_table(file)
    rows = pa.concat_tables([rows] * 50) if len(rows) else pa.table({name: [1] * 50 for name in ONCE[table]})
    missing = {field.name: pa.nulls(len(rows), field.type) for field in TABLES[table].arrow}
    whole = [rows[name] if name in rows.column_names else column for name, column in missing.items()]
    pq.write_table(pa.table(whole, schema=TABLES[table].arrow), file)
    with Trace(run) as trace, pytest.raises(RunFormatError, match=f"the same {' and '.join(ONCE[table])}"):
        trace.table(table)


def test_names_that_are_there_twice_are_refused(run: Path) -> None:
    file = file_of(run, "name_info", rank=1)
    rows = pq.read_table(file)
    pq.write_table(pa.concat_tables([rows, rows]), file)
    with Trace(run) as trace:
        with pytest.raises(RunFormatError, match="two rows of name_info have the same category and name"):
            trace.table("name_info")
        assert ha.steps(trace).height == 2


def test_a_question_that_takes_too_much_is_an_error(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a run from elsewhere makes of a question does not fill memory and disk."""
    monkeypatch.setattr("hotline_analysis.run.opened._MEMORY_LIMIT", "60MB")
    monkeypatch.setattr("hotline_analysis.run.opened._SPILL_SHARE", 1 << 40)
    with Trace(run) as trace:
        with pytest.raises(HotlineError, match="needs more memory") as raised:
            trace.sql("select array_agg(a.range order by hash(a.range)) as x from range(20000000) as a")
        assert "SQL" not in raised.value.message
        assert ha.steps(trace).height == 2


def kinds(table: str) -> tuple[list[str], list[pa.DataType]]:
    schema = TABLES[table].arrow
    return schema.names, schema.types


def test_a_trace_of_equal_events_is_no_bomb(tmp_path: Path) -> None:
    """What repeats most among traces stays far below what is refused."""
    made = TraceBuilder(rank=0).step(0, 0, 100)
    for _ in range(20_000):
        made.op("aten::mm", 5, 10)
    with made.load(tmp_path) as trace:
        trace.export(tmp_path / "out")
    for file in (tmp_path / "out").glob("*.parquet"):
        assert pq.read_metadata(file).num_rows < 1_000_000 + 20 * file.stat().st_size
