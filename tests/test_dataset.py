"""Tables for dashboards, datasets of runs, and the dashboard; read back by the programs that people read them with."""

import json
import os
import re
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import hotline_analysis as ha
from hotline_analysis.cli import app
from hotline_analysis.errors import ExportExistsError, HotlineError
from hotline_analysis.export.changes import change_points
from hotline_analysis.export.parquet import append_run
from hotline_analysis.export.tables import ANSWERS
from hotline_analysis.schema import TABLES
from tests.browser import CHROMIUM, Browser
from tests.trace_builder import TraceBuilder

# Two starts of 2026, a second apart; a trace of today says what to add to its times.
BASE_NS = 1_767_225_600_000_000_000


def training(step_us: int = 100, base_ns: int | None = BASE_NS, **top: Any) -> TraceBuilder:
    """Two steps, in each a kernel of a tenth of the step."""
    if base_ns is not None:
        top["baseTimeNanoseconds"] = base_ns
    builder = TraceBuilder(**top)
    for number in (1, 2):
        start = 1000 + number * step_us
        builder.step(number, start, start + step_us)
        builder.annotation("## forward ##", start, start + step_us // 2)
        builder.op("aten::mm", start + 5, start + 30).launches("gemm", start + 20, start + 20 + step_us // 10)
    return builder


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Fourteen runs a day apart; from the ninth on, a step takes 20 % longer. Their figures are written by hand."""
    folder = tmp_path_factory.mktemp("dataset") / "runs"
    with training().imported(tmp_path_factory.mktemp("first")) as trace:
        first = append_run(
            trace,
            folder,
            tables=["steps", "phases"],
            name="run 0",
            commit="c0",
            started=datetime(2026, 1, 1, tzinfo=UTC),
        )
    noise = np.random.default_rng(3).normal(0, 300, 14)
    run, measure = pl.read_parquet(first / "run.parquet"), pl.read_parquet(first / "measure.parquet")
    for number in range(1, 14):
        other = folder / f"run={number:016x}"
        shutil.copytree(first, other)
        value = (120_000 if number >= 8 else 100_000) + noise[number]
        when = datetime(2026, 1, 1 + number, tzinfo=UTC)
        is_step = pl.col("metric") == "step"
        run.with_columns(
            run_id=pl.lit(f"{number:016x}"),
            name=pl.lit(f"run {number}"),
            commit=pl.lit(f"c{number}"),
            started_utc=pl.lit(when).cast(pl.Datetime("us", "UTC")),
            step_ns=pl.lit(value),
        ).write_parquet(other / "run.parquet")
        measure.with_columns(
            run_id=pl.lit(f"{number:016x}"), median=pl.when(is_step).then(pl.lit(value)).otherwise("median")
        ).write_parquet(other / "measure.parquet")
    return folder


@pytest.mark.slow
def test_a_folder_has_every_table_and_says_what_it_is(tmp_path: Path) -> None:
    with training().imported(tmp_path) as trace:
        folder = ha.export_tables(trace, tmp_path / "out", name="nightly", commit="4f2a91c")
        expected = trace.table("annotated_event")
        phases = ha.phases(trace)
    names = {file.stem for file in folder.glob("*.parquet")}
    assert names == {*TABLES, *ANSWERS, "run", "measure", "verdict"}
    told = json.loads((folder / "schema.json").read_text(encoding="utf-8"))
    assert {table["name"] for table in told["tables"]} == names
    for table in told["tables"]:
        schema = pq.read_schema(folder / table["file"])
        assert schema.names == [column["name"] for column in table["columns"]], table["name"]
        assert json.loads(schema.metadata[b"hotline"])["columns"] == table["columns"]
        assert all(column["meaning"] for column in table["columns"])
    field = pq.read_schema(folder / "phases.parquet").field("cpu_ns")
    assert field.metadata == {b"unit": b"ns", b"meaning": b"time of the main thread in the phase"}
    events = pl.read_parquet(folder / "annotated_event.parquet")
    assert events.drop("run_id", "since_start_ns", "start_utc").equals(expected)
    assert pl.read_parquet(folder / "phases.parquet").drop("run_id").equals(phases)
    assert events["run_id"].n_unique() == 1


def test_times_are_what_other_programs_can_hold(tmp_path: Path) -> None:
    with training().imported(tmp_path) as trace:
        folder = ha.export_tables(trace, tmp_path / "out", tables=["step"])
    steps = pl.read_parquet(folder / "step.parquet").sort("step")
    # The first step is the first event, at 1,100 us of the file's clock.
    assert steps["since_start_ns"].to_list() == [0, 100_000]
    assert steps["start_utc"].to_list() == [datetime(2026, 1, 1, 0, 0, 0, micros, UTC) for micros in (1100, 1200)]
    run = pl.read_parquet(folder / "run.parquet").row(0, named=True)
    assert run["started_text"] == str(BASE_NS + 1_100_000)
    assert run["started_utc"] == datetime(2026, 1, 1, 0, 0, 0, 1100, UTC)
    assert {file.stem for file in folder.glob("*.parquet")} == {"step", "run", "measure", "verdict"}


def test_a_file_that_does_not_say_when_it_was_recorded(tmp_path: Path) -> None:
    with training(base_ns=None).imported(tmp_path) as trace:
        folder = ha.export_tables(trace, tmp_path / "out", tables=["step"])
    steps = pl.read_parquet(folder / "step.parquet").sort("step")
    assert steps["since_start_ns"].to_list() == [0, 100_000]
    assert steps["start_utc"].to_list() == [None, None]
    assert pl.read_parquet(folder / "run.parquet")["started_text"].to_list() == [None]


def test_the_run_and_its_measures_by_hand(tmp_path: Path) -> None:
    said = {"batch_size": 8, "commit": "abc", "model": "Net", "api_key": "sk-12345678901234567890"}
    with training(hotline_metadata=said, cuda_runtime_version=12040).imported(tmp_path) as trace:
        folder = append_run(trace, tmp_path / "out", tables=["steps"], with_report=False)
    run = pl.read_parquet(folder / "run.parquet").row(0, named=True)
    assert folder.name == f"run={run['run_id']}"
    assert (run["name"], run["commit"], run["model"], run["batch"]) == ("run", "abc", "Net", 8)
    assert json.loads(run["versions"]) == {"cuda runtime version": "12040"}
    # The GPU works for 10 of 100 us.
    assert (run["step_ns"], run["gpu_busy_ns"], run["gpu_idle_ns"]) == (100_000, 10_000, 90_000)
    assert run["samples_per_s"] == pytest.approx(8 / 100e-6)
    assert "sk-" not in run["metadata"]
    measures = pl.read_parquet(folder / "measure.parquet").rows_by_key("metric", named=True, unique=True)
    assert measures["gpu_busy"]["median"] == 10_000
    assert measures["gpu_busy"]["unit"] == "ns"
    assert not (folder / "report.html").exists()
    verdicts = pl.read_parquet(folder / "verdict.parquet")
    assert verdicts["query"].to_list()[:2] == ["gpu_or_cpu_bound", "optimizer_bottleneck"]


def test_a_run_appears_once_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with training().imported(tmp_path) as a, training(step_us=200).imported(tmp_path, "b.json") as b:
        first = append_run(a, tmp_path / "runs", tables=["steps"], with_report=False)
        with pytest.raises(ExportExistsError, match="already has this run"):
            append_run(a, tmp_path / "runs", tables=["steps"], with_report=False)
        again = append_run(a, tmp_path / "runs", tables=["steps"], name="again", with_report=False, overwrite=True)
        assert again == first
        assert pl.read_parquet(first / "run.parquet")["name"].to_list() == ["again"]

        def broken(*given: object, **more: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("hotline_analysis.export.parquet.with_meanings", broken)
        with pytest.raises(HotlineError, match="No space left"):
            append_run(b, tmp_path / "runs", tables=["steps"], with_report=False)
        assert [each.name for each in (tmp_path / "runs").iterdir()] == [first.name]
        monkeypatch.undo()
        append_run(b, tmp_path / "runs", tables=["steps"], with_report=False)
        with pytest.raises(ExportExistsError, match="not a dataset"):
            append_run(a, ha.export_tables(a, tmp_path / "tables", tables=["steps"]))
        with pytest.raises(ExportExistsError, match="not a dataset"):
            append_run(a, a.path)
        with pytest.raises(ExportExistsError):
            ha.export_tables(a, tmp_path / "runs", overwrite=True)
    assert len(list((tmp_path / "runs").iterdir())) == 2


def test_what_is_no_table_is_told(tmp_path: Path) -> None:
    complaints = {
        "slowest_op": "Did you mean slowest_ops",
        "event_place": "needs rank, event",
        "diff": "compares two runs",
        "gpu_or_cpu_bound": "`verdict` has its answer",
        "../evil": "not a table or answer",
    }
    with training().imported(tmp_path) as trace:
        for name, complaint in complaints.items():
            with pytest.raises(HotlineError) as told:
                ha.export_tables(trace, tmp_path / "out", tables=[name])
            assert complaint in f"{told.value.message} {told.value.hint}"
            assert not (tmp_path / "out").exists()


# --- the programs that read it ---------------------------------------------------------------------------------------


def test_readers_see_one_table_over_all_runs(dataset: Path) -> None:
    pattern = f"{dataset}/run=*/run.parquet"
    with duckdb.connect() as connection:
        found = connection.execute(
            "select run, name, started_utc at time zone 'UTC' from read_parquet($pattern, hive_partitioning = true)"
            " order by started_utc",
            {"pattern": pattern},
        ).fetchall()
        assert [name for _, name, _ in found] == [f"run {number}" for number in range(14)]
        assert found[3][0] == f"{3:016x}"
        assert found[3][2] == datetime(2026, 1, 4)
        said = connection.execute(
            "select decode(value) from parquet_kv_metadata($file) where decode(key) = 'hotline'",
            {"file": str(dataset / "run=0000000000000001/phases.parquet")},
        ).fetchall()[0][0]
    assert {"name": "cpu_ns", "type": "BIGINT", "unit": "ns"}.items() <= json.loads(said)["columns"][3].items()
    lazy = pl.scan_parquet(pattern, hive_partitioning=True).filter(pl.col("run") == f"{3:016x}").collect()
    assert lazy["name"].to_list() == ["run 3"]


def test_pandas_reads_it(dataset: Path) -> None:
    files = sorted(dataset.glob("run=*/run.parquet"))
    frame = pd.concat([pd.read_parquet(file) for file in files])
    assert len(frame) == 14
    assert str(frame["started_utc"].dt.tz) == "UTC"
    steps = pd.read_parquet(dataset / "run=0000000000000001/steps.parquet")
    assert steps["dur_ns"].tolist() == [100_000, 100_000]


# --- change points ---------------------------------------------------------------------------------------------------


def test_changes_are_found_where_they_are() -> None:
    noise = np.random.default_rng(5).normal(0, 1, 30)
    series = 100 + noise + np.where(np.arange(30) >= 12, 8, 0) - np.where(np.arange(30) >= 22, 5, 0)
    found = change_points(series.tolist())
    assert [change.at for change in found] == [12, 22]
    assert found[0].before == pytest.approx(series[:12].mean())
    assert found[0].pct == pytest.approx(100 * (series[12:22].mean() / series[:12].mean() - 1))
    assert change_points([5.0] * 40) == []
    assert change_points([1.0, 2.0, 1.0]) == []
    assert [change.at for change in change_points([1e15] * 10 + [1.02e15] * 10)] == [10]
    assert change_points([1e15] * 10 + [1.005e15] * 10) == []  # half a per cent is not worth a line


def test_equal_runs_seldom_have_changes() -> None:
    """One in a hundred is meant; four or more of a hundred would come up less than twice in a hundred tries."""
    random = np.random.default_rng(11)
    alarms = sum(bool(change_points((100 + random.normal(0, 2, 20)).tolist())) for _ in range(100))
    assert alarms < 4
    found = sum(
        any(abs(change.at - 10) <= 1 for change in change_points((100 + random.normal(0, 2, 20) + shift).tolist()))
        for shift in [np.where(np.arange(20) >= 10, 8, 0)] * 50
    )
    assert found >= 48


# --- the dashboard ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("needs Chromium")
    made = Browser()
    yield made
    made.close()


@pytest.fixture(scope="module")
def page(dataset: Path) -> Path:
    return ha.dashboard(dataset)


def test_the_dashboard_says_since_when_a_step_is_slower(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    said = re.search(r"Since run 8, a step of .* is (\d+\.\d) % slower\.", text)
    assert said
    assert float(said[1]) == pytest.approx(20, abs=1)
    assert text.count("report.html") == 14
    assert re.search(r"Time of a step: \+\d+\.\d % since run 8", text)


def test_the_dashboard_is_drawn_and_leads_to_reports(page: Path, browser: Browser) -> None:
    browser.open(page)
    assert browser.complaints == []
    assert browser.run("document.querySelectorAll('figure svg').length") == 3  # step, GPU busy and idle
    assert browser.run("document.querySelectorAll('figure svg .mark-symbol path').length") >= 14
    assert browser.run("document.documentElement.scrollWidth") <= 1280
    assert browser.run("document.querySelector('#runs tbody tr th').textContent") == "run 13"
    target = browser.run("document.querySelector('#runs tbody a').href")
    assert Path(target.removeprefix("file://").replace("%3D", "=")).is_file()
    assert [each for each in browser.requests if not each.startswith(("file:", "data:"))] == []


@pytest.fixture
def hostile(dataset: Path, tmp_path: Path) -> Path:
    """A dataset with one run whose texts are code, and others that are none of ours."""
    folder = tmp_path / "runs"
    shutil.copytree(dataset / "run=0000000000000001", folder / "run=1")
    evil = "<img src=x onerror=alert(1)></script><script>document.title='evil'</script>"
    run = pl.read_parquet(folder / "run=1/run.parquet")
    run.with_columns(pl.lit(evil).alias(name) for name in ("name", "commit", "model", "bound_by")).write_parquet(
        folder / "run=1/run.parquet"
    )
    (folder / "run=2").mkdir()
    (folder / "run=2/run.parquet").write_bytes(b"PAR1 no parquet")
    (folder / "run=3").mkdir()
    os.symlink("/etc/passwd", folder / "run=3/run.parquet")
    (folder / "run=4").mkdir()
    pl.DataFrame({"run_id": ["x"]}).write_parquet(folder / "run=4/run.parquet")
    os.symlink(dataset / "run=0000000000000002", folder / "run=5")
    (folder / "run=6").mkdir()
    run.select(pl.all().repeat_by(200_000).explode()).write_parquet(folder / "run=6/run.parquet")
    return folder


def test_a_hostile_dataset_is_text_and_nothing_else(hostile: Path, tmp_path: Path) -> None:
    text = ha.dashboard(hostile, tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<h1>1 run</h1>" in text
    for left_out in ("run=2", "run=3", "run=4", "run=6"):
        assert f"{left_out} is left out" in text
    assert "run=5" not in text
    assert "<img src=x" not in text
    assert "<script>document" not in text


def test_names_of_a_hostile_dataset_run_nothing(hostile: Path, tmp_path: Path, browser: Browser) -> None:
    browser.complaints.clear()
    browser.open(ha.dashboard(hostile, tmp_path / "page.html"))
    assert browser.complaints == []
    assert browser.run("document.title") == "Runs"


def test_the_commands(tmp_path: Path) -> None:
    def hotline(*words: object) -> Any:
        return CliRunner().invoke(app, list(map(str, words)), prog_name="hotline")

    with training().imported(tmp_path) as trace:
        run = trace.path
    runs = tmp_path / "runs"
    done = hotline(
        *("export", run, "-o", runs, "--append", "--name", "nightly", "--no-report"),
        *("--table", "steps", "--started", "2026-11-25T21:04:00+01:00"),
    )
    assert done.exit_code == 0, done.stderr
    row = pl.read_parquet(runs / "run=*/run.parquet").row(0, named=True)
    assert (row["name"], row["started_utc"]) == ("nightly", datetime(2026, 11, 25, 20, 4, tzinfo=UTC))
    assert hotline("dashboard", runs).exit_code == 0
    assert hotline("dashboard", runs).exit_code == 0  # written again as runs are added
    text = (runs / "dashboard.html").read_text(encoding="utf-8")
    assert "1 run" in text
    assert "One run: from the second on" in text
    # A single moment is a label, as an axis of time from it to itself has only ticks of milliseconds.
    assert '"type": "ordinal"' in text or '"type":"ordinal"' in text
    assert "has no runs" in hotline("dashboard", tmp_path).stderr
    assert "cannot be read" in hotline("dashboard", tmp_path / "nowhere").stderr
    assert "is not a time such as" in hotline("export", run, "-o", runs, "--started", "today").stderr
    assert "need --format parquet" in hotline("export", run, "-o", "x", "--format", "perfetto", "--append").stderr
