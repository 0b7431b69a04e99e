"""The ranks of a job: what is missing, doubled or failed is told; a question about one rank reads that one alone."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from typer.testing import CliRunner

import hotline_analysis as ha
from hotline_analysis import ExportExistsError, HotlineWarning, Trace, catalog
from hotline_analysis.atomic import replace_folder
from hotline_analysis.cli import app
from hotline_analysis.errors import MachineError, RunFormatError
from hotline_analysis.importer import processes
from tests.rank_files import rank_file


def job(folder: Path, *ranks: int) -> list[Path]:
    return [rank_file(folder, rank) for rank in ranks]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("job")
    return ha.import_traces(job(folder, 0, 1, 2, 3), folder / "run.hotline")


def copies(run: Path, target: Path, count: int) -> Path:
    """A run of so many ranks, of the four in turn, whose files are the same on the disk."""
    manifest = json.loads((run / "manifest.json").read_text())
    parts = [{**manifest["parts"][rank % 4], "rank": rank, "world_size": count} for rank in range(count)]
    for table in [item for item in run.iterdir() if item.is_dir()]:
        for rank in range(count):
            place = target / table.name / f"rank={rank}"
            place.mkdir(parents=True)
            (place / "data.parquet").hardlink_to(table / f"rank={rank % 4}" / "data.parquet")
    (target / "manifest.json").write_text(json.dumps({**manifest, "parts": parts, "warnings": []}))
    return target


# --- missing and doubled ----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_missing_ranks_are_named_whenever_the_run_is_opened(tmp_path: Path) -> None:
    with pytest.warns(HotlineWarning, match=r"^2 of 4 ranks are missing: 1, 3$"):
        found = ha.import_traces(job(tmp_path, 0, 2), tmp_path / "run.hotline")
    with pytest.warns(HotlineWarning, match=r"^2 of 4 ranks are missing: 1, 3$"), ha.load(found) as trace:
        assert any("2 of 4 ranks are missing: 1, 3" in text for text in ha.report(trace).warnings)


def test_one_rank_alone_is_not_called_incomplete(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ha.load(ha.import_traces(job(tmp_path, 2), tmp_path / "run.hotline")).close()


def test_the_command_ends_with_1_unless_ranks_may_be_missing(tmp_path: Path) -> None:
    files = [str(file) for file in job(tmp_path, 0, 2)]
    target = tmp_path / "run.hotline"
    done = CliRunner().invoke(app, ["import", *files, "-o", str(target)])
    assert done.exit_code == 1
    assert "2 of 4 ranks are missing: 1, 3" in done.stderr
    assert "--allow-missing" in done.stderr
    assert Trace(target).ranks == [0, 2]
    done = CliRunner().invoke(app, ["import", *files, "-o", str(target), "--overwrite", "--allow-missing"])
    assert done.exit_code == 0


def test_a_copy_of_a_file_is_left_out(tmp_path: Path) -> None:
    files = job(tmp_path, 0, 1, 2, 3)
    copied = shutil.copy(files[1], tmp_path / "rank1 (copy).json")
    with pytest.warns(HotlineWarning, match=r"rank1 \(copy\)\.json is a copy of rank1\.json and is left out"):
        run = ha.import_traces([*files, copied], tmp_path / "run.hotline")
    with ha.load(run) as trace:
        assert trace.ranks == [0, 1, 2, 3]


def test_another_file_of_a_rank_gets_a_number_that_no_rank_of_the_job_has(tmp_path: Path) -> None:
    files = job(tmp_path, 0, 1)
    (tmp_path / "other").mkdir()
    other = rank_file(tmp_path / "other", 1, kernels=2)
    with pytest.warns(HotlineWarning) as told:
        run = ha.import_traces([*files, other], tmp_path / "run.hotline")
    assert "rank1.json and rank1.json both claim rank 1; rank1.json is imported as rank 4" in str(told[0].message)
    assert Trace(run).ranks == [0, 1, 4]


# --- failures of the machine -----------------------------------------------------------------------------------------


def dies(monkeypatch: pytest.MonkeyPatch, when: str) -> None:
    """Let each process that imports end as if it were killed where a condition in Python holds."""
    killed = f"import os, pathlib, signal\nif {when}: os.kill(os.getpid(), signal.SIGKILL)\n"
    monkeypatch.setattr(processes, "_CHILD", killed + processes._CHILD)


@pytest.mark.usefixtures("in_processes")
def test_a_process_that_was_killed_once_is_no_loss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = job(tmp_path, 0, 1, 2, 3)
    marks = tmp_path / "marks"
    marks.mkdir()
    # The first process dies, and leaves a mark, by which the others know.
    dies(monkeypatch, f"not (lambda mark: (mark.exists(), mark.touch())[0])(pathlib.Path({str(marks / 'dead')!r}))")
    with ha.load(files) as trace:
        assert trace.ranks == [0, 1, 2, 3]
        assert trace.sql("select count(*) from gpu_event where name like 'gemm%'").item() == 4
    assert (marks / "dead").exists()


@pytest.mark.usefixtures("in_processes")
def test_a_process_that_is_killed_again_is_an_error_also_in_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that silently lacks a rank would be worse."""
    (tmp_path / "traces").mkdir()
    job(tmp_path / "traces", 0, 1)
    dies(monkeypatch, "True")
    with pytest.raises(MachineError, match=r"rank[01]\.json failed \(exit status -9\)"):
        ha.import_traces(tmp_path / "traces", tmp_path / "run.hotline")
    assert [item.name for item in tmp_path.iterdir()] == ["traces"]


@pytest.mark.long
@pytest.mark.usefixtures("in_processes")
@pytest.mark.skipif(sys.platform == "win32", reason="limits the size of files")
def test_a_full_disk_is_not_taken_for_a_bad_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "traces").mkdir()
    rank_file(tmp_path / "traces", 0)
    rank_file(tmp_path / "traces", 1, kernels=2000)
    limited = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))\n"
    monkeypatch.setattr(processes, "_CHILD", limited + processes._CHILD)
    with pytest.raises(MachineError, match=r"rank1\.json cannot be "):
        ha.import_traces(tmp_path / "traces", tmp_path / "run.hotline")
    assert [item.name for item in tmp_path.iterdir()] == ["traces"]
    with pytest.warns(HotlineWarning, match=r"^skipped: .*rank1\.json cannot be "):
        run = ha.import_traces(tmp_path / "traces", tmp_path / "run.hotline", allow_missing=True)
    assert Trace(run).ranks == [0]


def test_of_two_imports_to_one_place_the_second_does_not_replace_the_first(tmp_path: Path) -> None:
    target = tmp_path / "run.hotline"

    def write(partial: Path) -> None:
        (partial / "mine").touch()
        target.mkdir()
        (target / "theirs").touch()

    with pytest.raises(ExportExistsError, match="exists by now"):
        replace_folder(target, write, overwrite=False)
    assert [item.name for item in tmp_path.iterdir()] == ["run.hotline"]
    assert [item.name for item in target.iterdir()] == ["theirs"]


# --- one rank of many ------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_an_answer_about_one_rank_is_the_same_from_all_files_and_from_its_own(run: Path) -> None:
    asked = 0
    with ha.load(run) as trace:
        for query in catalog.queries("answers", "charts", "views"):
            required = [param.name for param in query.params if param.required and param.name != "rank"]
            if required or "rank" not in [param.name for param in query.params]:
                continue
            frame = trace.query(query.name, rank=2)
            bound = query.bind(rank=2)
            everywhere = trace._run.answer(query, bound)
            assert frame.equals(everywhere), query.name
            asked += 1
    assert asked > 30


def test_a_question_about_one_rank_opens_no_file_of_another(run: Path, tmp_path: Path) -> None:
    damaged = Path(shutil.copytree(run, tmp_path / "run.hotline"))
    for file in damaged.glob("*/rank=3/data.parquet"):
        file.write_bytes(b"no Parquet")
    with ha.load(damaged) as trace:
        for name in (
            "steps",
            "phases",
            "slowest_ops",
            "kernel_breakdown",
            "gpu_parts",
            "coverage",
            "temporal_breakdown",
        ):
            assert trace.query(name, rank=1).height > 0, name
        with pytest.raises(RunFormatError, match="rank=3"):
            trace.query("steps")
        with pytest.raises(RunFormatError, match="rank=3"):
            trace.query("steps", rank=3)


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_many_ranks_open_more_files_than_a_process_usually_may(run: Path, tmp_path: Path) -> None:
    """300 copies of a rank, and a limit of 256 files, which the process may raise to 4,096."""
    many = copies(run, tmp_path / "many.hotline", 300)
    code = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_NOFILE, (256, 4096));"
        "from hotline_analysis.database import SETTINGS; SETTINGS['threads'] = 64;"
        "import hotline_analysis as ha; trace = ha.load(sys.argv[1]);"
        "print(trace.query('stragglers').height, trace.query('steps').height)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(many)], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.stdout.split()[1] == "300"


def test_a_report_of_many_ranks_shows_those_that_differ(run: Path, tmp_path: Path) -> None:
    with ha.load(copies(run, tmp_path / "many.hotline", 40)) as trace:
        sections = {section.name: section for section in ha.report(trace, source_lines=False).sections}
    assert sections["ranks"].rows.height == 8
    assert sections["ranks"].note.startswith("40 ranks, with steps of 1.00 ms to 1.00 ms on average")
    assert sections["stragglers"].rows.height == 8
    assert "the 8 of 40 ranks" in sections["stragglers"].note
