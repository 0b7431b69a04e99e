"""From trace files to a run directory: which files, which rank, and that the directory holds what the files hold."""

import gzip
import json
import os
import shutil
import subprocess
import sys
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest

import hotline_analysis as ha
from hotline_analysis import HotlineError, HotlineWarning, Trace, TraceFormatError, database
from hotline_analysis.annotation.pipeline import _with_memory
from hotline_analysis.annotation.pipeline import annotate as annotate_rank
from hotline_analysis.database import make_table
from hotline_analysis.importer import annotating, find_traces, processes, tasks
from hotline_analysis.importer.job import _assign_ranks
from hotline_analysis.run.stored import annotated_by
from hotline_analysis.schema import TABLES
from tests.runs import opened
from tests.trace_builder import TraceBuilder

DEMO = Path(ha.__file__).parent / "data" / "demo.json.gz"
STORED = [table.name for table in TABLES.values() if table.kind != "view"]


def trace(events: int = 3, **options: Any) -> TraceBuilder:
    """A trace of `3 * events` events."""
    built = TraceBuilder(**options)
    for number in range(events):
        built.op(f"op {number}", 10 * number, 10 * number + 5).launches("kernel", 10 * number + 6, 10 * number + 8)
    return built


def frames(run: Trace, rank: int) -> dict[str, pl.DataFrame]:
    """Every stored table of one rank, without the rank itself, in a total order."""
    return {name: run.sql(f"select * exclude (rank) from {name} where rank = {rank} order by all") for name in STORED}


# --- the rank ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "info", "rank", "source"),
    [
        ("t.json", {"rank": 5, "world_size": 8}, 5, "distributedInfo"),
        ("rank3.json", {"rank": 5}, 5, "distributedInfo"),
        ("t.json", {"rank": "6"}, 6, "distributedInfo"),
        ("t.json", {"rank": 0}, 0, "distributedInfo"),
        ("rank3.json", {}, 3, "file_name"),
        ("rank-12.json", None, 12, "file_name"),
        ("trace_rank_7_step_100.json", None, 7, "file_name"),
        ("Rank.4.json", None, 4, "file_name"),
        ("node2 rank 1.pt.trace.json", None, 1, "file_name"),
        ("rank3.json", {"rank": -1}, 3, "file_name"),
        ("rank3.json", {"rank": "x"}, 3, "file_name"),
        ("frank12.json", None, 0, "default"),
        ("ranking.json", None, 0, "default"),
        ("rank99999999999999999999.json", None, 0, "default"),
        ("t.json", None, 0, "default"),
    ],
)
@pytest.mark.sampled
def test_rank(tmp_path: Path, name: str, info: dict[str, Any] | None, rank: int, source: str) -> None:
    top = {} if info is None else {"distributedInfo": info}
    with trace(1, **top).load(tmp_path, name) as run:
        assert run.ranks == [rank]
        row = run.table("rank_info").row(0, named=True)
        world_size = (info or {}).get("world_size")
        assert (row["rank"], row["rank_source"], row["world_size"], row["file"]) == (rank, source, world_size, name)


def test_two_files_of_the_same_rank(tmp_path: Path) -> None:
    files = [trace(n, rank=2).write(tmp_path / f"{n}.json") for n in (1, 2)]
    files.append(trace(3, rank=5).write(tmp_path / "3.json"))
    with pytest.warns(HotlineWarning, match=r"2\.json and 1\.json both claim rank 2; 2\.json is imported as rank 6"):
        run = ha.load(files)
    with run:
        counts = run.sql("select rank, file, event_count from rank_info order by rank").rows()
        assert counts == [(2, "1.json", 3), (5, "3.json", 9), (6, "2.json", 6)]
        assert len(run.manifest["warnings"]) == 1


# --- which files --------------------------------------------------------------------------------------------------


def test_a_tilde_is_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a shell, which a notebook is not."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    TraceBuilder(rank=0).op("add", 0, 9).write(tmp_path / "a.json")
    assert ha.import_traces("~/*.json", "~/run.hotline") == tmp_path / "run.hotline"
    for source in ("~/run.hotline", "~/a.json", ["~/a.json"], Path("~/a.json")):
        trace = ha.load(source)
        assert trace.table("event").height == 1
    assert trace.export("~/tables") == tmp_path / "tables"
    assert ha.export_perfetto(trace, "~/b.json") == tmp_path / "b.json"
    assert {path.name for path in tmp_path.iterdir()} == {"a.json", "run.hotline", "tables", "b.json"}


def test_folder_glob_and_list(tmp_path: Path) -> None:
    folder = tmp_path / "profile"
    folder.mkdir()
    files = [trace(1).write(folder / f"rank{n}.json{suffix}") for n, suffix in enumerate(("", ".gz", ".zst"))]
    (folder / "notes.txt").write_text("no trace")
    for source in (folder, str(folder), f"{folder}/rank*", files, [str(file) for file in files]):
        assert find_traces(source)[0] == files
    assert find_traces(f"{folder}/*.gz")[0] == [files[1]]
    with ha.load(folder) as run:
        assert run.ranks == [0, 1, 2]
    with ha.load(f"{tmp_path}/**/*.zst") as run:
        assert run.ranks == [2]


def test_a_folder_of_folders(tmp_path: Path) -> None:
    for rank in range(2):
        (tmp_path / f"host{rank}").mkdir()
        trace(1, rank=rank).write(tmp_path / f"host{rank}" / "t.pt.trace.json")
    run = ha.import_traces(tmp_path, tmp_path / "run.hotline")
    assert Trace(run).ranks == [0, 1]
    (run / "more.json").touch()
    files, is_search = find_traces(tmp_path)  # what lies in the run directory is no trace
    assert is_search
    assert files == [tmp_path / f"host{rank}" / "t.pt.trace.json" for rank in range(2)]


def test_a_run_directory_is_opened_as_it_is(tmp_path: Path) -> None:
    path = ha.import_traces(trace(1).write(tmp_path / "t.json"), tmp_path / "deep" / "er" / "run.hotline")
    before = {file: file.stat().st_mtime_ns for file in path.rglob("*")}
    with ha.load(path) as run:
        assert run.path == path
    assert {file: file.stat().st_mtime_ns for file in path.rglob("*")} == before


@pytest.fixture
def runs_of_two_ranks(tmp_path: Path) -> list[Path]:
    """What the processes of one training write beside each other, in a folder that looks like a pattern."""
    folder = tmp_path / "out [1]'"
    folder.mkdir()
    files = [trace(2 + rank, rank=rank).write(folder / f"t.rank{rank}.json") for rank in (0, 3)]
    return [ha.import_traces(file, file.with_suffix(".hotline")) for file in files]


def test_runs_of_several_ranks_are_one(runs_of_two_ranks: list[Path], tmp_path: Path) -> None:
    first, second = runs_of_two_ranks
    together = ha.import_traces([run.with_suffix(".json") for run in runs_of_two_ranks], tmp_path / "together.hotline")
    pattern = f"{tmp_path}/out */*.hotline"
    with ha.load(together) as expected:
        for source in ([first, second], [str(second), str(first)], pattern, [first, second, first]):
            with ha.load(source) as both:
                assert both.ranks == [0, 3]
                assert both.manifest == expected.manifest
                for rank in (0, 3):
                    known = frames(expected, rank)
                    assert all(frame.equals(known[name]) for name, frame in frames(both, rank).items())
                assert both.query("kernel_launches").equals(expected.query("kernel_launches"))
        with ha.load([second, first]) as both:
            assert repr(both) == f"<Trace t.rank3.hotline and 1 more: 2 ranks, {(2 + 5) * 3} events>"
            said = [ha.report(each).to_text().replace("together", "t.rank3") for each in (both, expected)]
            assert said[0] == said[1]
            with pytest.raises(HotlineError, match="failed"):
                both.sql(f"from read_text('{tmp_path}/together.hotline/manifest.json')")


def test_runs_that_hold_the_same_rank(runs_of_two_ranks: list[Path], tmp_path: Path) -> None:
    again = tmp_path / "again.hotline"
    shutil.copytree(runs_of_two_ranks[1], again)
    with pytest.raises(HotlineError, match=r"t\.rank3\.hotline and .*again\.hotline both have rank 3, so the runs"):
        ha.load([*runs_of_two_ranks, again])


def test_runs_and_traces_do_not_mix(runs_of_two_ranks: list[Path], tmp_path: Path) -> None:
    first, second = runs_of_two_ranks
    with pytest.raises(TraceFormatError, match=r"t\.rank0\.hotline is a run, but .*t\.rank3\.json is not"):
        ha.load([first, second.with_suffix(".json")])
    with pytest.raises(TraceFormatError, match=r"t\.rank0\.hotline is a run, but .*t\.rank3\.json is not"):
        ha.import_traces([first, second.with_suffix(".json")], tmp_path / "both.hotline")
    assert not (tmp_path / "both.hotline").exists()
    # A run stands beside its trace: a pattern that finds both means the traces, as a folder does.
    for source in (first.parent, f"{tmp_path}/out */t.rank*"):
        with ha.load(source) as run:
            assert run.ranks == [0, 3]
            assert run.path not in runs_of_two_ranks
    for each in runs_of_two_ranks:
        each.with_suffix(".json").unlink()
    with pytest.raises(TraceFormatError, match=r"holds no trace files Hint: Name the runs in it, .*/\*\.hotline"):
        ha.load(first.parent)


def test_an_empty_name_is_not_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ha.import_traces(trace(1).write(tmp_path / "t.json"), tmp_path / "run.hotline"))
    for source in ("", [""]):
        with pytest.raises(TraceFormatError, match="the name of the trace is empty"):
            ha.load(source)
    with ha.load(".") as run:
        assert run.ranks == [0]


@pytest.mark.parametrize("source", [None, 3, [None], b"t.json", [["t.json"]]])
def test_what_names_no_trace_is_an_error_of_the_caller(tmp_path: Path, source: Any) -> None:
    for read in (ha.load, lambda source: ha.import_traces(source, tmp_path / "run")):
        with pytest.raises(TypeError, match="must be a path"):
            read(source)


@pytest.mark.usefixtures("in_processes")
def test_bad_files_of_a_folder_are_skipped(tmp_path: Path) -> None:
    trace(2).write(tmp_path / "rank0.json")
    trace(2).write(tmp_path / "rank1.json")
    (tmp_path / "model.json").write_text('[{"name": "conv", "type": "Conv2d", "ops": []}]')
    (tmp_path / "empty.json").touch()
    with pytest.warns(HotlineWarning) as warned:
        run = ha.load(tmp_path)
    with run:
        assert run.ranks == [0, 1]
        assert run.manifest["warnings"] == [str(warning.message) for warning in warned]
    texts = sorted(str(warning.message) for warning in warned)
    assert [text.partition(str(tmp_path))[0] for text in texts] == ["skipped: ", "skipped: "]
    assert "empty.json is empty" in texts[0]
    assert "model.json is not a PyTorch profiler trace" in texts[1]


@pytest.mark.usefixtures("in_processes")
def test_bad_files_that_are_named_are_errors(tmp_path: Path) -> None:
    good = trace(2).write(tmp_path / "rank0.json")
    bad = tmp_path / "rank1.json"
    bad.write_text("no trace")
    with pytest.raises(TraceFormatError, match=r"rank1\.json is not a PyTorch profiler trace"):
        ha.import_traces([good, bad], tmp_path / "run.hotline")
    good.unlink()
    with pytest.raises(TraceFormatError, match=r"rank1\.json is not a PyTorch profiler trace"):
        ha.import_traces(tmp_path, tmp_path / "run.hotline")
    assert [item.name for item in tmp_path.iterdir()] == ["rank1.json"]


@pytest.mark.usefixtures("in_processes")
def test_a_process_that_dies_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "_CHILD", "import sys; sys.exit('Segmentation fault')")
    files = [trace(1).write(tmp_path / f"rank{n}.json") for n in range(2)]
    with pytest.raises(HotlineError, match=r"importing .*rank[01]\.json failed \(exit status 1\): Segmentation fault"):
        ha.load(files)


def test_two_threads_may_end_a_process_at_a_time() -> None:
    """The one that sees it die, and the one that ends the import: neither closes what the other is closing."""
    inside: list[int] = []

    class Slow:
        def close(self) -> None:
            inside.append(len(inside))
            time.sleep(0.05)
            assert len(inside) == 1
            inside.clear()

    worker = processes._Worker(1)
    assert worker._process.stdin is not None
    worker._process.stdin.close()
    worker._process.stdin = Slow()  # type: ignore[assignment]
    with ThreadPoolExecutor(2) as pool:
        for ended in [pool.submit(worker.stop) for _ in range(2)]:
            ended.result()
    assert inside == []


# --- several ranks ------------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.usefixtures("in_processes")
def test_ranks_imported_together_equal_ranks_imported_alone(tmp_path: Path) -> None:
    files = [trace(20 + 5 * rank, rank=rank, world_size=3).write(tmp_path / f"{rank}.json.gz") for rank in range(3)]
    done: list[float] = []
    with ha.load(files, on_progress=lambda what, share: done.append(share)) as together:
        assert together.ranks == [0, 1, 2]
        for rank, file in enumerate(files):
            with ha.load(file) as alone:
                expected, found = frames(alone, rank), frames(together, rank)
                assert [name for name in STORED if not found[name].equals(expected[name])] == []
    assert done == [pytest.approx((n + 1) / 3) for n in range(3)]


def test_small_files_are_imported_without_further_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "Processes", None)
    files = [trace(20, rank=rank).write(tmp_path / f"{rank}.json") for rank in range(2)]
    steps: list[tuple[str, float]] = []
    with ha.load(files, on_progress=lambda what, share: steps.append((what, share))) as run:
        assert run.sql("select rank, event_count from rank_info order by rank").rows() == [(0, 60), (1, 60)]
    shares = [share for _, share in steps]
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1)
    assert max(share for what, share in steps if what.endswith("0.json")) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("gigabytes", "workers", "expected"), [(0.5, None, 1), (3.9, None, 3), (99, None, 8), (3, 6, 6)]
)
def test_no_more_processes_than_fit_into_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gigabytes: float, workers: int | None, expected: int
) -> None:
    """Unless the user asks for more."""
    monkeypatch.setattr(processes, "processors", lambda: 8)
    monkeypatch.setattr(processes, "memory_bytes", lambda: int(gigabytes * 1e9))
    task = tasks.Task(tmp_path / "rank0.json", tmp_path, 1 << 20)
    executor = processes.chosen([task] * 20, workers, None)
    assert isinstance(executor, processes.Processes)
    assert executor._workers == expected


@pytest.mark.skipif(not hasattr(os, "sysconf"), reason="the size of memory has another name there")
def test_memory_is_four_fifths_of_what_there_is() -> None:
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert 0 < database.memory_bytes() <= 0.81 * whole


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="only Linux tells which processors are granted")
def test_only_the_processors_that_are_granted_are_used() -> None:
    code = (
        "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))});"
        "from hotline_analysis.database import SETTINGS, processors; print(processors(), SETTINGS['threads'])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["1", "1"]


def test_progress_of_one_file(tmp_path: Path) -> None:
    steps: list[tuple[str, float]] = []
    ha.load(trace(50).write(tmp_path / "t.json"), on_progress=lambda what, share: steps.append((what, share))).close()
    shares = [share for _, share in steps]
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1)
    assert {what for what, _ in steps} == {"reading t.json", "annotating t.json"}


# --- the run directory ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def run_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    files = [trace(2 + rank, rank=rank).write(folder / f"{rank}.json") for rank in (0, 3)]
    return ha.import_traces(files, folder / "run.hotline")


def test_manifest(run_directory: Path) -> None:
    manifest = json.loads((run_directory / "manifest.json").read_text())
    clean = {
        "rank_source": "distributedInfo",
        "world_size": None,
        "lost_event_count": 0,
        "lost_bytes": 0,
        "damage": None,
        "truncated": False,
    }
    times = {}
    for rank in (0, 3):
        events = json.loads((run_directory.parent / f"{rank}.json").read_text())["traceEvents"]
        spans = [(1000 * event["ts"], 1000 * (event["ts"] + event["dur"])) for event in events if "dur" in event]
        times[rank] = {"start_ns": min(spans)[0], "end_ns": max(end for _, end in spans)}
    assert manifest == {
        "format_version": 16,
        "annotated_by": annotated_by(),
        "parts": [
            {"rank": 0, "file": "0.json", "event_count": 6, **clean, **times[0]},
            {"rank": 3, "file": "3.json", "event_count": 15, **clean, **times[3]},
        ],
        "warnings": [],
        "joined": {},
    }


def test_the_directory_holds_tables_by_rank_and_nothing_else(run_directory: Path) -> None:
    files = {str(path.relative_to(run_directory)) for path in run_directory.rglob("*") if path.is_file()}
    assert files == {f"{name}/rank={rank}/data.parquet" for name in STORED for rank in (0, 3)} | {"manifest.json"}


@pytest.mark.parametrize("name", STORED)
def test_any_engine_reads_the_directory(run_directory: Path, name: str) -> None:
    columns = [column.name for column in TABLES[name].columns]
    schema = TABLES[name].arrow
    for rank in (0, 3):
        own = pl.read_parquet(run_directory / name / f"rank={rank}" / "data.parquet", hive_partitioning=False)
        assert own.columns == columns
        empty = pl.DataFrame(schema.empty_table())
        assert own.schema == empty.schema
    with Trace(run_directory) as run:
        expected = run.sql(f"from {name} order by all")
    by_polars = pl.read_parquet(run_directory / name, hive_partitioning=True)
    assert sorted(by_polars.columns) == sorted([*columns, "rank"])
    assert (
        by_polars.select(["rank", *columns])
        .sort(pl.all(), nulls_last=True)
        .equals(expected.sort(pl.all(), nulls_last=True))
    )
    with duckdb.connect() as connection:
        connection.execute(f"create view stored as from '{run_directory}/{name}/*/*.parquet'")
        by_duckdb = connection.sql(f"select rank, {', '.join(columns)} from stored order by all").pl()
    assert by_duckdb.equals(expected)


def test_the_view_has_the_columns_it_says(run_directory: Path) -> None:
    with Trace(run_directory) as run:
        view = run.sql("describe annotated_event")
    columns = [(column.name, column.type) for column in TABLES["annotated_event"].columns]
    assert view.select("column_name", "column_type").rows() == [("rank", "BIGINT"), *columns]


# --- GPU time -----------------------------------------------------------------------------------------------------

REAL = Path(os.environ.get("HOTLINE_TRACES", "no traces"))
OWN = sorted((Path(__file__).parent / "data").glob("*.json.gz"))  # test_real_traces.py compares the real ones
GPU = {"kernel": "kernel", "gpu_memcpy": "gpu_memcpy", "gpu_memset": "gpu_memset"}
GPU |= {"Kernel": "kernel", "Memcpy": "gpu_memcpy", "Memset": "gpu_memset"}


def gpu_time(path: Path) -> dict[str, Decimal]:
    """Nanoseconds of GPU work by category, added up from the JSON, exactly."""
    document = json.loads(gzip.decompress(path.read_bytes()).decode("utf-8", "replace"), parse_float=str, strict=False)
    total: dict[str, Decimal] = {}
    for event in document["traceEvents"]:
        if event.get("ph") == "X" and event.get("cat") in GPU and "dur" in event:
            category = GPU[event["cat"]]
            total[category] = total.get(category, Decimal(0)) + Decimal(event["dur"]) * 1000
    return total


@pytest.mark.parametrize("path", OWN, ids=lambda path: path.name)
@pytest.mark.sampled
def test_gpu_time_is_that_of_the_file(path: Path) -> None:
    expected = gpu_time(path)
    query = """
        select category, sum(dur_ns)::bigint as ns from {table}
        where category in ('kernel', 'gpu_memcpy', 'gpu_memset') group by all
    """
    with opened(path) as run:
        assert run.manifest["warnings"] == []
        for table in (
            "event",
            "annotated_event",
            "event join gpu_op using (rank, event_id)",
            "event join launch using (rank, event_id)",
        ):
            found = dict(run.sql(query.format(table=table)).rows())
            assert found == expected, table


@pytest.mark.traces
def test_the_gpu_time_of_the_real_traces_is_not_all_zero() -> None:
    assert gpu_time(REAL / "training" / "ddp_a100_annotated.json.gz")["kernel"] > 0


# --- memory -----------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_trace_that_does_not_fit_the_memory_gives_the_same_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = opened(DEMO)
    monkeypatch.setattr(annotating, "_MEMORY_LIMITS", ("20MB", "20MB"))
    with ha.load(ha.import_traces(DEMO, tmp_path / "small.hotline")) as small:
        for name, table in frames(small, 0).items():
            assert table.equals(frames(expected, 0)[name]), name


def test_a_query_that_needs_more_memory_has_it_alone() -> None:
    limit = "select current_setting('memory_limit')"
    with duckdb.connect(config={"memory_limit": "20MB", "threads": 1, "temp_directory": ""}) as connection:
        before = connection.sql(limit).fetchall()
        many = "select i, count(*) as n from range(500000) as r(i) group by i"
        with pytest.raises(duckdb.OutOfMemoryException):
            make_table(connection, "t", many)
        _with_memory(connection, partial(make_table, connection, "t", many))
        assert connection.sql("select count(*) from t").fetchall() == [(500_000,)]
        assert connection.sql(limit).fetchall() == before


def test_where_the_database_has_a_defect_annotating_is_tried_again_with_more_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = []

    def annotate(connection: duckdb.DuckDBPyConnection, *args: Any, **options: Any) -> None:
        limits.append(str(connection.execute("select current_setting('memory_limit')").fetchall()[0][0]))
        options["on_note"]("a note")
        if len(limits) == 1:
            raise duckdb.InternalException("INTERNAL Error: a join went wrong\n\nStack Trace:\n\n_duckdb.so(+0x1)")
        annotate_rank(connection, *args, **options)

    monkeypatch.setattr(annotating, "annotate", annotate)
    trace().write(tmp_path / "t.json")
    with pytest.warns(HotlineWarning) as warned, ha.load(tmp_path / "t.json") as run:
        assert run.sql("select count(*) as n from label")["n"].to_list() == [9]
    assert [str(warning.message) for warning in warned] == ["t.json: a note"]
    assert limits[0] == "476.8 MiB"
    assert limits[1] != limits[0]


@pytest.mark.parametrize(("event_count", "threads"), [(9, 1), (8, 2)])
def test_a_small_run_has_one_thread_and_a_larger_one_all(
    event_count: int, threads: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_import = []

    def annotate(connection: duckdb.DuckDBPyConnection, *args: Any, **options: Any) -> None:
        in_import.append(connection.execute("select current_setting('threads')").fetchall()[0][0])
        annotate_rank(connection, *args, **options)

    monkeypatch.setattr(annotating, "annotate", annotate)
    monkeypatch.setattr(tasks, "processors", lambda: 2)
    monkeypatch.setattr(database, "processors", lambda: 2)
    monkeypatch.setattr(database, "_EVENTS_OF_ONE_THREAD", event_count)
    trace().write(tmp_path / "t.json")  # of nine events
    with ha.load(tmp_path / "t.json") as run:
        assert run.sql("select current_setting('threads') as threads")["threads"].to_list() == in_import == [threads]


def test_a_defect_of_the_database_that_stays_is_told_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def annotate(*args: Any, **options: Any) -> None:
        raise duckdb.InternalException("INTERNAL Error: a join went wrong\n\nStack Trace:\n\n_duckdb.so(+0x1)")

    monkeypatch.setattr(annotating, "annotate", annotate)
    trace().write(tmp_path / "t.json")
    with pytest.raises(HotlineError) as raised:
        ha.import_traces(tmp_path / "t.json", tmp_path / "t.hotline")
    assert raised.value.message == f"{tmp_path / 't.json'} cannot be annotated: INTERNAL Error: a join went wrong"
    assert raised.value.hint == "This is a defect of DuckDB; please report it."
    assert not (tmp_path / "t.hotline").exists()


def test_ten_thousand_files_that_claim_one_rank() -> None:
    """Each gets a rank, in time that grows with their number, and a few messages say so."""
    entry = {"rank": 0, "notes": [], "damage": None, "event_count": 1, "lost_event_count": 0, "truncated": False}
    entry["world_size"] = None
    parts = [{**entry, "file": f"{number}.json", "notes": []} for number in range(10_000)]
    parts[5]["rank"] = 7
    begun = time.process_time()
    ranked, warned = _assign_ranks(parts)
    assert time.process_time() - begun < 1
    assert sorted(part["rank"] for part in ranked) == [0, 7, *range(8, 8 + 9_998)]
    assert [part["rank"] for part in ranked] == sorted(part["rank"] for part in ranked)
    assert warned[0] == "1.json and 0.json both claim rank 0; 1.json is imported as rank 8"
    assert len(warned) == 11
    assert warned[-1] == "9,988 more files claim the rank of another file and are imported as the next free ranks"


def test_many_files_that_are_no_traces_are_told_in_a_few_lines(tmp_path: Path) -> None:
    for number in range(30):
        (tmp_path / f"{number:02}.json").write_text("{}")
    TraceBuilder(rank=0).op("a", 0, 1).write(tmp_path / "trace.json")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with ha.load(tmp_path) as trace:
            assert trace.ranks == [0]
    texts = [str(each.message) for each in told]
    assert len(texts) == 11
    assert texts[-1] == "20 more files were skipped"
