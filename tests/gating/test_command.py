"""`hotline gate` and `hotline baseline` on real traces, and the example for GitHub Actions."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
import xml.etree.ElementTree as ET
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

import hotline_analysis as ha
from hotline_analysis.cli import app
from hotline_analysis.gating import baseline
from tests.runs import opened
from tests.trace_builder import TraceBuilder

ROOT = Path(__file__).parents[2]
TRACE = ROOT / "tests/data/cnn.json.gz"


@pytest.fixture(scope="module")
def measured() -> ha.Measured:
    with opened(TRACE) as trace:
        return ha.measure(trace, "cnn")


def slower(run: ha.Measured, factor: float) -> ha.Measured:
    times = {
        name: [factor * value for value in values] for name, values in run.values.items() if run.unit(name) == "ns"
    }
    return ha.Measured(run.name, run.identity, {**run.values, **times})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, measured: ha.Measured) -> Path:
    place = tmp_path_factory.mktemp("gate")
    shutil.copy(TRACE, place / "trace.json.gz")
    with opened(TRACE) as trace:
        shutil.copytree(trace.path, place / "runs/run.hotline")
    ha.write_baseline([measured] * 3, place / "same.json")
    ha.write_baseline([slower(measured, 0.5)] * 3, place / "fast.json")
    ha.write_baseline([slower(measured, factor) for factor in (0.5, 1, 2)], place / "noisy.json")
    return place


def hotline(folder: Path, *arguments: str) -> tuple[int, str]:
    here = Path.cwd()
    os.chdir(folder)
    try:
        done = CliRunner().invoke(app, arguments, prog_name="hotline")
    finally:
        os.chdir(here)
    return done.exit_code, done.output


# --- what is measured ------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_run_on_the_cpu_is_measured_as_the_answers_say(measured: ha.Measured) -> None:
    with opened(TRACE) as trace:
        steps, modules = ha.steps(trace), ha.modules(trace)
        allocated = trace.sql("select max(allocated_bytes) as most from memory_change where step is not null")
    assert list(measured.values["step"]) == steps["dur_ns"].to_list()
    phases = [values for metric, values in measured.values.items() if metric.startswith("phase:")]
    assert [sum(each) for each in zip(*phases, strict=True)] == list(measured.values["step"])
    # Modules by another query: their CPU time in all passes, with those in them.
    total = dict(modules.group_by("path").agg(pl.col("cpu_total_ns").sum()).iter_rows())
    assert len(total) > 3
    for path, time in total.items():
        assert sum(measured.values[f"module:{path}"]) == pytest.approx(time, rel=0.02)
    if allocated["most"][0] is not None:
        assert max(measured.values["memory_peak"]) == allocated["most"][0]


@pytest.mark.slow
def test_a_run_on_the_gpu_is_measured_as_the_answers_say(tmp_path: Path) -> None:
    """Two ranks of two steps; the second one works twice as long, and a step has the mean of both."""
    for rank, length in ((0, 20), (1, 40)):
        trace = TraceBuilder(rank=rank, deviceProperties=[{"id": 0, "name": "NVIDIA A100-SXM4-40GB", "numSms": 108}])
        for step in (5, 6):
            at = 200 * step
            trace.step(step, at, at + 200)
            trace.op("aten::mm", at + 10, at + 20)
            trace.launches("sgemm", at + 30, at + 30 + length, at=at + 12)
            trace.op("aten::add", at + 50, at + 60)
            trace.launches("add", at + 100, at + 110, at=at + 52)
            trace.runtime("cudaDeviceSynchronize", at + 150, at + 190, correlation=10 * step)
        trace.write(tmp_path / f"rank{rank}.json")
    with ha.load(tmp_path) as opened_trace:
        run, steps = ha.measure(opened_trace), ha.steps(opened_trace)
    assert list(run.values["step"]) == [200_000, 200_000]
    assert list(run.values["gpu_busy"]) == [(30_000 + 50_000) / 2] * 2
    assert list(run.values["kernel:sgemm"]) == [(20_000 + 40_000) / 2] * 2
    assert list(run.values["class:computation"]) == list(run.values["gpu_busy"])
    # Idle time counts to the work that ends it: 30 us before the first kernel and 50 or 30 between the two; in the next
    # step also the 90 since the last one, and at its end as many.
    assert list(run.values["gpu_idle"]) == [30_000 + 40_000, 90_000 + 30_000 + 40_000 + 90_000]
    assert sum(run.values["gpu_idle"]) == steps["gpu_idle_ns"].sum() / 2
    idle = [values for metric, values in run.values.items() if metric.startswith("idle:")]
    assert [sum(each) for each in zip(*idle, strict=True)] == list(run.values["gpu_idle"])
    assert (run.identity["device"], run.identity["ranks"]) == ("A100 SXM4 40GB", "2")


# --- the command -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("base", "status", "word"), [("same", 0, "PASS"), ("fast", 1, "FAIL"), ("noisy", 3, "CANNOT")])
def test_the_exit_status_is_the_verdict(folder: Path, base: str, status: int, word: str) -> None:
    done, said = hotline(folder, "gate", f"{base}.json", "runs/run.hotline")
    assert (done, said.splitlines()[0].startswith(word)) == (status, True)


def test_sentences_are_folded_at_the_width(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    _, piped = hotline(folder, "gate", "fast.json", "runs/run.hotline")
    assert all(len(line) <= 80 for line in piped.splitlines())
    monkeypatch.setenv("COLUMNS", "400")
    _, whole = hotline(folder, "gate", "fast.json", "runs/run.hotline")
    monkeypatch.setenv("COLUMNS", "40")
    _, said = hotline(folder, "gate", "fast.json", "runs/run.hotline")
    verdict = said.partition("\n\n")[0]
    assert len(whole.partition("\n\n")[0].splitlines()) == 1
    assert all(len(line) <= 40 for line in verdict.splitlines())
    assert verdict.replace("\n", " ") == whole.partition("\n\n")[0]


def test_an_error_is_no_failure(folder: Path) -> None:
    for arguments in (("none.json", "trace.json.gz"), ("same.json", "none.hotline")):
        done, said = hotline(folder, "gate", *arguments)
        assert (done, said.startswith("error: ")) == (3, True)
    for wrong in (["same.json"], ["same.json", "runs", "--fail-if", "step"], ["a", "b", "--json", "--markdown"]):
        assert hotline(folder, "gate", *wrong)[0] == 2


def test_all_forms_at_once(folder: Path, tmp_path: Path) -> None:
    files = [tmp_path / f"gate.{ending}" for ending in ("txt", "md", "xml", "json")]
    options = [word for file in files for word in ("-o", str(file))]
    done, said = hotline(folder, "gate", "fast.json", "-n", "runs", "-n", "runs/run.hotline", "--markdown", *options)
    assert (done, said) == (1, files[1].read_text(encoding="utf-8"))
    assert files[0].read_text(encoding="utf-8").startswith("FAIL: ")
    assert ET.parse(files[2]).getroot()[0].get("failures") == "1"
    assert json.loads(files[3].read_text(encoding="utf-8"))["gate"]["answer"] == "fail"
    assert hotline(folder, "gate", "fast.json", "runs", "-o", str(files[0]))[0] == 3  # it exists


def test_a_baseline_is_continued(folder: Path, tmp_path: Path) -> None:
    file = str(tmp_path / "base.json")
    for keep, count in ((9, 1), (9, 2), (2, 2)):
        before = [file] if Path(file).exists() else []
        assert hotline(folder, "baseline", *before, "runs", "--keep", str(keep), "-o", file, "--overwrite")[0] == 0
        assert len(ha.read_baseline(file)) == count
    assert hotline(folder, "gate", file, "runs/run.hotline")[0] == 0


# --- the example for GitHub Actions ----------------------------------------------------------------------------------


def shell_of(step: str) -> str:
    text = (ROOT / "docs/examples/gate.yml").read_text(encoding="utf-8")
    found = re.search(rf"- name: {step}\n(?: {{8}}if: .*\n)? {{8}}run: \|\n((?: {{10}}.*\n|\n)+)", text)
    assert found is not None
    return textwrap.dedent(found[1])


@pytest.mark.long
def test_the_shell_of_the_example_works(tmp_path: Path) -> None:
    trace = TraceBuilder()
    for step in (5, 6, 7):
        at = 1000 * step
        trace.step(step, at, at + 200 + step)
        trace.op("aten::mm", at + 10, at + 20).memory(512, at + 12, total=4096)
    # A run directory under the name of a trace, as to import it each time takes long.
    ha.import_traces(trace.write(tmp_path / "trace.json"), tmp_path / "run.hotline")
    (tmp_path / "train.py").write_text("import shutil, sys\nshutil.copytree('run.hotline', sys.argv[1])\n")
    summary = tmp_path / "summary.md"
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "GITHUB_STEP_SUMMARY": str(summary)}

    def shell(step: str) -> subprocess.CompletedProcess[str]:
        # as GitHub runs it
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", shell_of(step)]
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)

    assert shell("Capture").returncode == 0
    assert shell("Baseline").returncode == 0
    same = ha.read_baseline(tmp_path / "baseline.json")
    assert [list(run.values["step"]) for run in same] == [[205_000, 206_000, 207_000]] * 3
    for factors, status, word in (((0.5, 0.5), 1, "fail"), ((0.5, 2), 0, "cannot tell")):
        runs = [slower(run, factor) for run, factor in zip(same, factors, strict=False)]
        ha.write_baseline(runs, tmp_path / "baseline.json", overwrite=True)
        done = shell("Gate")
        assert (done.returncode, "::warning::" in done.stdout) == (status, word == "cannot tell"), done.stdout
        assert f"Performance: {word}" in summary.read_text(encoding="utf-8")
        assert (tmp_path / "gate.xml").exists()


def test_what_few_steps_have_is_kept_for_those(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step with an op of its own: as many values as steps, and not their square."""
    built = TraceBuilder(rank=0)
    for step in range(4):
        built.step(step, 100 * step, 100 * step + 100).op(f"own{step}", 100 * step + 10, 100 * step + 30 + step)
        built.op("shared", 100 * step + 50, 100 * step + 60)
    with built.load(tmp_path) as trace:
        found = ha.measure(trace)
    assert found.values["op:own2"] == [0, 0, 22_000, 0]
    assert found.values["op:shared"] == [10_000] * 4
    assert len(found.values._places) < 4 * 9  # type: ignore[attr-defined]
    assert {"step", "op:own0", "op:own3", "op:shared"} <= set(found.values)
    assert "op:own4" not in found.values
    with pytest.raises(KeyError):
        found.values["op:own4"]
    monkeypatch.setattr(baseline, "_MOST_VALUES", 4 * len(found.values) - 1)
    with pytest.raises(ha.HotlineError, match=f"would have {4 * len(found.values)} values"):
        ha.write_baseline([found], tmp_path / "base.json")
    monkeypatch.setattr(baseline, "_MOST_VALUES", 4 * len(found.values))
    ha.write_baseline([found], tmp_path / "base.json")
    (read,) = ha.read_baseline(tmp_path / "base.json")
    assert dict(read.values) == dict(found.values)
