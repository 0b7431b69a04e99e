"""Runs as the source of an import: those of earlier formats, several that become one, or ones with other rules."""

from __future__ import annotations

import json
import shutil
import warnings
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import polars.selectors as cs
import pyarrow.parquet as pq
import pytest

import hotline_analysis as ha
from hotline_analysis import HotlineError, HotlineWarning, ModelMismatchError, Trace, catalog
from hotline_analysis.errors import RunFormatError
from hotline_analysis.importer import job
from hotline_analysis.importer.options import Options
from hotline_analysis.importer.stored_rank import ranks_of
from hotline_analysis.importer.tasks import Task, answer_of, carry_out, order_of
from hotline_analysis.run.stored import annotated_by
from hotline_analysis.schema import FORMAT_VERSION, OLDEST_FORMAT, TABLES
from tests.trace_builder import TraceBuilder

DATA = Path(__file__).parent / "data"
STORED = [table for table in TABLES.values() if table.kind != "view"]


def trace_of(rank: int, **options: Any) -> TraceBuilder:
    """A trace with an op for each number up to the rank, and one more."""
    built = TraceBuilder(rank=rank, **options)
    for number in range(rank + 1):
        built.op(f"op {number}", 10 * number, 10 * number + 5).launches("kernel", 10 * number + 6, 10 * number + 8)
    return built


def frames(run: Path) -> dict[Path, pl.DataFrame]:
    """Every table of a run, file by file, in a total order."""
    found = {file.relative_to(run): pl.read_parquet(file, hive_partitioning=False) for file in run.rglob("*.parquet")}
    return {name: frame.sort(frame.columns) for name, frame in found.items()}


def assert_equal(one: Path, other: Path) -> None:
    """Both runs have the same manifest, and files with the same rows."""
    first, second = (json.loads((run / "manifest.json").read_text()) for run in (one, other))
    assert first == second
    expected, found = frames(one), frames(other)
    assert found.keys() == expected.keys()
    assert {table.name for table in STORED} <= {name.parts[0] for name in found}
    for name, frame in found.items():
        assert frame.equals(expected[name]), name


def of_format(run: Path, version: object) -> Path:
    """Make the run one of another format, of which it has what came from the file, and little else of use."""
    manifest = json.loads((run / "manifest.json").read_text())
    (run / "manifest.json").write_text(json.dumps({**manifest, "format_version": version}))
    for table in STORED:
        if table.kind == "derived":
            for file in (run / table.name).rglob("*.parquet"):
                found = pl.read_parquet(file, hive_partitioning=False)
                if found.height:
                    found.select(cs.by_name("rank", "evidence", require_all=False)).write_parquet(file)
    return run


# --- earlier formats --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def run_of_format_7(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What this package wrote when runs had format 7, of `dlrm.json.gz`."""
    folder = tmp_path_factory.mktemp("old")
    with zipfile.ZipFile(DATA / "run_of_format_7.zip") as packed:
        packed.extractall(folder)
    return folder / "run_of_format_7.hotline"


def test_a_run_of_format_7_becomes_one_of_now(run_of_format_7: Path, tmp_path: Path) -> None:
    assert json.loads((run_of_format_7 / "manifest.json").read_text())["format_version"] == OLDEST_FORMAT == 7
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fresh = ha.import_traces(DATA / "dlrm.json.gz", tmp_path / "fresh.hotline")
        again = ha.import_traces(run_of_format_7, tmp_path / "again.hotline")
    assert_equal(fresh, again)


def test_a_run_of_an_earlier_format_is_opened(run_of_format_7: Path) -> None:
    with pytest.raises(RunFormatError, match=r"format version 7, .* Hint: `hotline import .* makes a new run from the"):
        Trace(run_of_format_7)
    told = r"run_of_format_7\.hotline was imported by an earlier version of this package, so the events are annotated"
    with pytest.warns(HotlineWarning, match=told) as warned:
        run = ha.load(run_of_format_7)
    assert len(warned) == 1
    with run, ha.load(DATA / "dlrm.json.gz") as fresh:
        assert run.path.name == run_of_format_7.name
        assert ha.report(run).to_text() == ha.report(fresh).to_text()
        temporary = run.path
        assert temporary.exists()
    assert not temporary.exists()


def test_runs_of_an_earlier_format_that_hold_the_same_rank_are_not_one(run_of_format_7: Path, tmp_path: Path) -> None:
    other = shutil.copytree(run_of_format_7, tmp_path / "other.hotline")
    with pytest.raises(HotlineError, match="both have rank 0, so the runs cannot be opened"):
        ha.load([run_of_format_7, other])


@pytest.mark.parametrize("version", [OLDEST_FORMAT - 1, FORMAT_VERSION + 1, "7", None])
def test_other_formats_are_refused(version: object, tmp_path: Path) -> None:
    run = of_format(ha.import_traces(trace_of(0).write(tmp_path / "t.json"), tmp_path / "t.hotline"), version)
    for use in (ha.load, lambda run: ha.import_traces(run, tmp_path / "again.hotline")):
        with pytest.raises(RunFormatError, match="has format version") as raised:
            use(run)
        assert raised.value.hint == "Import the traces again."
    assert not (tmp_path / "again.hotline").exists()


def test_a_job_of_an_earlier_format(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its ranks share files, it lacks one rank, and one of its files was damaged."""
    monkeypatch.setattr(job, "MOST_OWN_FILES", 3)
    for rank in range(4):
        trace_of(rank, world_size=5).write(tmp_path / f"rank{rank}.json")
    whole = (tmp_path / "rank3.json").read_text()
    (tmp_path / "rank3.json").write_text(whole.replace('"ph"', "ph", 1))
    (tmp_path / "rank99.json").write_text("no trace")
    with pytest.warns(HotlineWarning) as warned:
        run = ha.import_traces(tmp_path / "rank*.json", tmp_path / "run.hotline")
    said = [str(each.message) for each in warned]
    assert len(said) == 3, said
    expected = shutil.copytree(run, tmp_path / "expected.hotline")
    old = of_format(run, FORMAT_VERSION - 1)
    manifest = (old / "manifest.json").read_text()
    (old / "manifest.json").write_text(manifest.replace("1 of 5 ranks is missing", "1 of 5 ranks are missing"))
    with pytest.warns(HotlineWarning) as warned:
        ha.import_traces(old, run, overwrite=True)
    assert [str(each.message) for each in warned] == said
    assert_equal(expected, run)
    assert not (run / "event" / "rank=0").exists()
    counted = (
        f"select rank, count(*) from '{run}/event/*/*.parquet' where category = 'cpu_op' group by rank order by rank"
    )
    with duckdb.connect() as connection:
        counts = connection.sql(counted).fetchall()
    assert counts == [(rank, rank + (rank != 3)) for rank in range(4)]


# --- other runs -------------------------------------------------------------------------------------------------


def test_several_runs_become_one(tmp_path: Path) -> None:
    files = [trace_of(rank).write(tmp_path / f"rank{rank}.json") for rank in (0, 3)]
    runs = [ha.import_traces(file, file.with_suffix(".hotline")) for file in files]
    together = ha.import_traces(files, tmp_path / "together")
    sources: list[Any] = [runs, [runs[1], runs[0]], together, f"{tmp_path}/*.hotline"]
    for number, source in enumerate(sources):
        assert_equal(together, ha.import_traces(source, tmp_path / f"again {number}"))
    with pytest.warns(HotlineWarning, match=r"rank3\.json and rank3\.json both claim rank 3; .* imported as rank 4"):
        twice = ha.import_traces([together, shutil.copytree(runs[1], tmp_path / "copy")], tmp_path / "twice")
    with Trace(twice) as run:
        assert run.ranks == [0, 3, 4]


def test_rules_that_are_given_count_and_others_stay(tmp_path: Path) -> None:
    file = trace_of(1).write(tmp_path / "t.json")
    gpu = "H100 SXM5 80GB"
    run = ha.import_traces(file, tmp_path / "run", kernel_classes={"kernel": "memory"}, gpu=gpu)
    assert_equal(run, ha.import_traces(run, tmp_path / "again"))
    classes = {"kernel": "communication"}
    expected = ha.import_traces(file, tmp_path / "expected", kernel_classes=classes, gpu=gpu)
    assert_equal(expected, ha.import_traces(run, tmp_path / "other", kernel_classes=classes))


def test_a_model_must_be_given_again(tmp_path: Path) -> None:
    model = tmp_path / "model.json"
    model.write_text(json.dumps([{"name": "a", "type": "Linear"}]))
    file = TraceBuilder().op("aten::linear", 0, 10).write(tmp_path / "t.json")
    run = ha.import_traces(file, tmp_path / "run", model=model)
    with pytest.raises(HotlineError, match=r"run was imported with a model Hint: Give the model again \(--model\)"):
        ha.import_traces(run, tmp_path / "again")
    assert_equal(run, ha.import_traces(run, tmp_path / "again", model=model))
    model.write_text(json.dumps([{"name": "a", "type": "Conv2d"}]))
    with pytest.raises(ModelMismatchError):
        ha.import_traces(run, tmp_path / "other", model=model)


def test_a_query_for_ops_must_be_given_again(tmp_path: Path) -> None:
    query = tmp_path / "own.sql"
    query.write_text("select shape_id, 7 as bytes from op_shape")
    shapes: dict[str, Any] = {"Input Dims": [[8, 4], [4, 2]], "Input type": ["float", "float"]}
    run = ha.import_traces(
        TraceBuilder().op("aten::mm", 0, 10, **shapes).write(tmp_path / "t.json"), tmp_path / "run", op_work=query
    )
    with pytest.raises(HotlineError, match=r"run was imported with a query for ops Hint: Give the query again"):
        ha.import_traces(run, tmp_path / "again")
    assert_equal(run, ha.import_traces(run, tmp_path / "again", op_work=query))


def test_secrets_that_a_run_was_to_keep_are_hidden_unless_they_are_to_be_kept_again(tmp_path: Path) -> None:
    key = "AKIA" + "IOSFODNN7EXAMPLE"
    token = "hf" + "_" + "Ab" * 17
    trace = trace_of(0, deviceProperties=[{"id": 0, "name": "GPU", "note": token}], env={"AWS_ACCESS_KEY_ID": key})
    file = trace.op("load", 100, 110, password="tell nobody").write(tmp_path / "t.json")
    kept = ha.import_traces(file, tmp_path / "kept", keep_secrets=True)
    hidden = ha.import_traces(file, tmp_path / "hidden")
    assert_equal(kept, ha.import_traces(kept, tmp_path / "again", keep_secrets=True))
    assert_equal(hidden, ha.import_traces(kept, tmp_path / "other"))
    assert_equal(hidden, ha.import_traces(hidden, tmp_path / "more", keep_secrets=True))  # what is gone is gone
    columns = [("rank_info", "metadata"), ("device", "properties"), ("event_args", "args")]
    for secret, (table, column) in zip((key, token, "tell nobody"), columns, strict=True):
        found = [
            pl.read_parquet(run / table / "rank=0" / "data.parquet")[column].str.contains(secret)
            for run in (kept, hidden)
        ]
        assert [each.any() for each in found] == [True, False], table


# --- damage -----------------------------------------------------------------------------------------------------


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:50])


def overwritten(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[4:80] = b"\xff" * 76
    file.write_bytes(data)


def twice(file: Path) -> None:
    table = pq.read_table(file)
    pq.write_table(table.take([0] * 60), file)


def without_rows(file: Path) -> None:
    pq.write_table(pq.read_table(file).slice(0, 0), file)


@pytest.fixture(scope="module")
def run_of_two_ranks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("two ranks")
    for rank in (0, 1):
        trace_of(rank).write(folder / f"rank{rank}.json")
    return ha.import_traces(f"{folder}/rank*.json", folder / "run")


@pytest.mark.parametrize(
    ("damage", "table"),
    [
        (Path.unlink, "event"),
        (cut, "event"),
        (overwritten, "event"),
        (twice, "event"),
        (without_rows, "rank_info"),
        (overwritten, "rank_info"),
        (cut, "op_work"),
    ],
    ids=lambda each: each if isinstance(each, str) else each.__name__,
)
def test_a_damaged_run_gives_none(
    damage: Callable[[Path], None], table: str, run_of_two_ranks: Path, tmp_path: Path
) -> None:
    run = shutil.copytree(run_of_two_ranks, tmp_path / "run")
    damage(run / table / "rank=1" / "data.parquet")
    with pytest.raises(RunFormatError, match="is damaged"):
        ha.import_traces(run, tmp_path / "again")
    assert not (tmp_path / "again").exists()
    with pytest.warns(HotlineWarning, match="skipped: .* is damaged"):
        ha.import_traces(run, tmp_path / "again", allow_missing=True)
    with Trace(tmp_path / "again") as rest:
        assert rest.ranks == [0]


@pytest.mark.parametrize("metadata", ["[1]", "no json", None, "[" * 100_000])
def test_metadata_of_another_kind(metadata: str | None, tmp_path: Path) -> None:
    run = ha.import_traces(trace_of(0).write(tmp_path / "t.json"), tmp_path / "run")
    file = run / "rank_info" / "rank=0" / "data.parquet"
    found = pl.read_parquet(file, hive_partitioning=False)
    found.with_columns(pl.lit(metadata, pl.String).alias("metadata")).write_parquet(file)
    with pytest.raises(RunFormatError, match="is damaged: rank_info"):
        ha.import_traces(run, tmp_path / "again")


def test_nothing_outside_a_run_is_read(tmp_path: Path) -> None:
    run = ha.import_traces(trace_of(0).write(tmp_path / "t.json"), tmp_path / "run")
    file = run / "op" / "rank=0" / "data.parquet"
    file.rename(tmp_path / "secret.parquet")
    file.symlink_to(tmp_path / "secret.parquet")
    with pytest.raises(RunFormatError, match="is a link"):
        ha.import_traces(run, tmp_path / "again")


def test_ranks_by_other_processes(tmp_path: Path) -> None:
    files = [trace_of(rank).write(tmp_path / f"rank{rank}.json") for rank in range(3)]
    run = ha.import_traces(files, tmp_path / "run")
    assert_equal(run, ha.import_traces(run, tmp_path / "again", workers=2))
    ranks = ranks_of([run])
    assert [(each.rank, each.name) for each in ranks] == [(0, "rank0.json"), (1, "rank1.json"), (2, "rank2.json")]
    order = order_of(Task(ranks[1], tmp_path / "part", ranks[1].size), Options())
    (tmp_path / "part").mkdir()
    assert carry_out(json.loads(json.dumps(order)), 1)["file"] == "rank1.json"
    shutil.rmtree(run / "event")
    assert isinstance(answer_of(carry_out(order, 1)), RunFormatError)


def test_a_run_annotated_by_other_rules_says_so_and_is_made_anew(tmp_path: Path) -> None:
    run = ha.import_traces(trace_of(0).write(tmp_path / "0.json"), tmp_path / "run.hotline")
    before = json.loads((run / "manifest.json").read_text())
    ha.load(run).close()  # a warning would be an error
    (run / "manifest.json").write_text(json.dumps({**before, "annotated_by": "other rules"}))
    said = r"run\.hotline was annotated by other rules .*`hotline import .*run\.hotline -o NEW\.hotline`"
    with pytest.warns(HotlineWarning, match=said):
        ha.load(run).close()
    again = ha.import_traces(run, tmp_path / "again.hotline")
    assert json.loads((again / "manifest.json").read_text())["annotated_by"] == before["annotated_by"]
    ha.load(again).close()


@pytest.mark.parametrize(("change", "is_other"), [("", False), ("-- more words\n", False), ("select 1;", True)])
def test_only_comments_do_not_make_other_rules(change: str, is_other: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    queries = catalog.queries("annotate")
    changed = [replace(queries[0], sql=f"{change}{queries[0].sql}"), *queries[1:]]
    monkeypatch.setattr(catalog, "queries", lambda kind: changed)
    assert (annotated_by.__wrapped__() != annotated_by()) is is_other
