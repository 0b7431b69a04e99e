"""Imports on a Dask cluster of two processes: the same run as on one machine, and each fault ends well or is told."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import dask
import pytest
from distributed import Client, LocalCluster
from typer.testing import CliRunner

import hotline_analysis as ha
from hotline_analysis import ExportExistsError, HotlineError, HotlineWarning
from hotline_analysis.cli import app
from hotline_analysis.errors import MachineError, TraceFormatError
from hotline_analysis.importer import cluster as on_cluster
from hotline_analysis.importer import parts
from hotline_analysis.importer.options import Options
from hotline_analysis.schema import FORMAT_VERSION, TABLES
from tests.cluster_faults import Faults, tries
from tests.rank_files import rank_file

STORED = [table for table in TABLES.values() if table.kind != "view"]
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="kills processes")


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    # Dask gives a task up with the first worker that dies of it, as each death takes seconds.
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0, "distributed.scheduler.worker-saturation": 1.0}),
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0", silence_logs=50) as started,
        Client(started, set_as_default=False) as opened,
    ):
        opened.register_plugin(Faults())
        yield opened


def job(folder: Path, *names: str) -> Path:
    """A folder with the traces of a job: rank 0, 1, and so on, in files of these names."""
    folder.mkdir(exist_ok=True)
    for rank, name in enumerate(names):
        rank_file(folder, rank, world_size=len(names), kernels=1 + rank).rename(folder / f"{name}.json")
    return folder


def assert_same(run: Path, other: Path) -> None:
    """Each cell of each table is equal, and so is the manifest."""
    assert json.loads((run / "manifest.json").read_text()) == json.loads((other / "manifest.json").read_text())
    with ha.load(run) as one, ha.load(other) as another:
        for table in STORED:
            query = f"from {table.name} order by all"
            assert one.sql(query).equals(another.sql(query)), table.name


def address_of(client: Client) -> str:
    return str(client.scheduler_info(n_workers=0)["address"])


def left_in(folder: Path) -> list[str]:
    return sorted(item.name for item in folder.iterdir())


def wait_for(happens: Callable[[], object]) -> None:
    until = time.monotonic() + 60
    while not happens():
        assert time.monotonic() < until
        time.sleep(0.01)


# --- the run ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_run_is_that_of_one_machine(client: Client, tmp_path: Path) -> None:
    traces = job(tmp_path / "job", "a", "b")
    said: list[tuple[str, float]] = []
    run = ha.import_traces(
        traces, tmp_path / "run.hotline", cluster=client, on_progress=lambda what, share: said.append((what, share))
    )
    assert_same(run, ha.import_traces(traces, tmp_path / "alone.hotline"))
    with ha.load(run) as trace:
        assert trace.sql("select rank, count(*) from gpu_event group by all order by rank").rows() == [
            (0, 2),
            (1, 3),
        ]
    assert [share for _, share in said] == [0.5, 1.0]
    assert said[-1][0].startswith("2 of 2 ranks, ")
    assert left_in(tmp_path) == ["alone.hotline", "job", "run.hotline"]
    assert client.status == "running"


# --- faults of files --------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_files_that_are_bad_doubled_or_missing_are_told_as_on_one_machine(client: Client, tmp_path: Path) -> None:
    traces = job(tmp_path / "job", "a", "b", "cut", "missing")
    (traces / "missing.json").unlink()
    shutil.copy(traces / "b.json", traces / "copied.json")
    (traces / "empty.json").touch()
    (traces / "corrupt.json").write_bytes(bytes(range(256)))
    whole = (traces / "cut.json").read_bytes()
    (traces / "cut.json").write_bytes(whole[: len(whole) * 3 // 4])
    target = tmp_path / "run.hotline"
    address = address_of(client)
    done = CliRunner().invoke(app, ["import", str(traces), "-o", str(target), "--cluster", address])
    assert done.exit_code == 1
    assert "1 of 4 ranks is missing: 3" in done.stderr
    assert tries(traces) == sorted(f"{name}.json" for name in ("a", "b", "copied", "corrupt", "cut", "empty"))
    with pytest.warns(HotlineWarning) as told:
        alone = ha.import_traces(traces, tmp_path / "alone.hotline")
    for words in ("empty.json is empty", "corrupt.json", "copied.json is a copy of b.json", "is missing"):
        assert any(words in str(warning.message) for warning in told), words
    assert_same(target, alone)


def test_the_fault_of_a_file_that_is_named_ends_the_import(client: Client, tmp_path: Path) -> None:
    traces = job(tmp_path / "job", "a", "b")
    (traces / "b.json").write_text("nothing")
    files = [traces / "a.json", traces / "b.json"]
    with pytest.raises(TraceFormatError, match=r"b\.json is not a PyTorch profiler trace"):
        ha.import_traces(files, tmp_path / "run.hotline", cluster=client)
    assert tries(traces).count("b.json") == 1
    assert not (tmp_path / "run.hotline").exists()


# --- faults of machines -----------------------------------------------------------------------------------------------


@pytest.mark.long
def test_the_file_of_a_worker_that_was_killed_is_imported_by_another(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hotline_analysis.importer.job.MOST_OWN_FILES", 1)  # so that their tables are joined
    traces = job(tmp_path / "job", "a", "fragile")
    run = ha.import_traces(traces, tmp_path / "run.hotline", cluster=client)
    assert tries(traces).count("fragile.json") == 2
    (traces / "fragile.mark").unlink()
    assert_same(run, ha.import_traces(traces, tmp_path / "alone.hotline"))
    assert json.loads((run / "manifest.json").read_text())["joined"]["event"] == [0]
    assert left_in(tmp_path) == ["alone.hotline", "job", "run.hotline"]


@pytest.mark.long
def test_a_file_that_kills_each_worker_is_told_and_the_others_are_kept(client: Client, tmp_path: Path) -> None:
    traces = job(tmp_path / "job", "a", "deadly")
    target = tmp_path / "run.hotline"
    with pytest.raises(MachineError, match=r"deadly\.json failed: every worker died") as raised:
        ha.import_traces(traces, target, cluster=client)
    assert raised.value.hint is not None
    assert "Imported files (1 of 2) are kept in" in raised.value.hint
    assert left_in(tmp_path) == [".run.hotline.parts", "job"]
    (traces / "deadly.mark").touch()  # it would be imported now
    ha.import_traces(traces, target, cluster=client)
    assert tries(traces) == ["a.json", *["deadly.json"] * 3]
    with ha.load(target) as trace:
        assert trace.ranks == [0, 1]
    assert left_in(tmp_path) == ["job", "run.hotline"]


def test_a_full_disk_is_tried_again_and_told(client: Client, tmp_path: Path) -> None:
    traces = job(tmp_path / "job", "a", "full")
    with pytest.raises(MachineError, match=r"full\.json cannot be imported: No space left"):
        ha.import_traces(traces, tmp_path / "run.hotline", cluster=client)
    assert tries(traces).count("full.json") == 3
    with pytest.warns(HotlineWarning, match=r"full\.json cannot be imported"):
        ha.import_traces(traces, tmp_path / "run.hotline", cluster=client, allow_missing=True)
    assert left_in(tmp_path) == ["job", "run.hotline"]


@pytest.mark.long
def test_a_client_that_was_killed_and_started_again_goes_on(client: Client, tmp_path: Path) -> None:
    traces = job(tmp_path / "job", "a", "b", "waiting")
    target = tmp_path / "run.hotline"
    kept = tmp_path / ".run.hotline.parts"
    address = address_of(client)
    command = [sys.executable, "-m", "hotline_analysis", "import", str(traces), "-o", str(target), "--cluster", address]
    killed = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    wait_for(lambda: killed.poll() is not None or len(list(kept.glob("*/part.json"))) == 2)
    killed.send_signal(signal.SIGKILL)
    assert killed.wait() == -signal.SIGKILL
    assert not target.exists()
    (traces / "waiting.mark").touch()
    ha.import_traces(traces, target, cluster=client)
    # Whether the worker that was at it is faster than the second try is open.
    assert tries(traces)[:3] == ["a.json", "b.json", "waiting.json"]
    assert set(tries(traces)[3:]) <= {"waiting.json"}
    assert_same(target, ha.import_traces(traces, tmp_path / "alone.hotline"))
    assert left_in(tmp_path) == ["alone.hotline", "job", "run.hotline"]


def test_of_two_imports_to_one_place_the_second_is_refused(client: Client, tmp_path: Path) -> None:
    traces = job(tmp_path / "job", "a", "waiting")
    target = tmp_path / "run.hotline"
    first = threading.Thread(target=ha.import_traces, args=[traces, target], kwargs={"cluster": client})
    first.start()
    try:
        wait_for(lambda: "waiting.json" in tries(traces))
        with pytest.raises(HotlineError, match=r"another import is writing .*run\.hotline"):
            ha.import_traces(traces, target, cluster=client)
    finally:
        (traces / "waiting.mark").touch()
        first.join()
    with ha.load(target) as trace:
        assert trace.ranks == [0, 1]
    with pytest.raises(ExportExistsError):
        ha.import_traces(traces, target, cluster=client)
    assert left_in(tmp_path) == ["job", "run.hotline"]


def test_a_scheduler_that_does_not_answer_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_cluster, "_CONNECT_S", 0.3)
    traces = job(tmp_path / "job", "a")
    done = CliRunner().invoke(
        app, ["import", str(traces), "-o", str(tmp_path / "run.hotline"), "--cluster", "tcp://127.0.0.1:9"]
    )
    assert done.exit_code == 1
    assert done.stderr.count("\n") < 4
    assert "no Dask scheduler answers at tcp://127.0.0.1:9 within 0.3 s" in done.stderr
    assert left_in(tmp_path) == ["job"]


def test_a_cluster_without_workers_and_one_that_ends_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_cluster, "_NO_WORKER_S", 0.0)
    monkeypatch.setattr(on_cluster, "_LOOK_S", 0.1)
    traces = job(tmp_path / "job", "a")
    with LocalCluster(n_workers=0, processes=False, dashboard_address="127.0.0.1:0", silence_logs=50) as none:
        with pytest.raises(MachineError, match="has had no worker for"):
            ha.import_traces(traces, tmp_path / "run.hotline", cluster=none.scheduler_address)
        monkeypatch.setattr(on_cluster, "_NO_WORKER_S", 60.0)
        threading.Timer(0.5, none.close).start()
        with pytest.raises(MachineError, match="the scheduler was lost"):
            ha.import_traces(traces, tmp_path / "run.hotline", cluster=none.scheduler_address)
    assert left_in(tmp_path) == ["job"]


@pytest.mark.parametrize(("machine_gb", "each_gb"), [(5.0, 2.5), (1.2, 1.0)])
def test_workers_of_this_machine_share_its_memory(
    monkeypatch: pytest.MonkeyPatch, machine_gb: float, each_gb: float
) -> None:
    """Each may take its part of it, or at least what an import may need."""
    monkeypatch.setattr(on_cluster, "memory_bytes", lambda: int(machine_gb * 1e9))
    with on_cluster.connected("local:2") as opened:
        workers = opened.scheduler_info()["workers"].values()
        assert [worker["memory_limit"] for worker in workers] == [each_gb * 1e9] * 2


# --- what is asked for ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cluster", "error"),
    [
        ("local:0", "has no number of workers"),
        ("local:many", "has no number of workers"),
        ("somewhere", "is not a address of a scheduler"),
        ("", "is not a address of a scheduler"),
        ("tcp://:x", "no Dask scheduler answers"),
        ("nothing://host:1", "no Dask scheduler answers"),
        ("missing.json", "missing.json does not exist"),
    ],
)
def test_what_names_no_cluster_is_told(
    tmp_path: Path, cluster: str, error: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(on_cluster, "_CONNECT_S", 0.3)
    with pytest.raises(HotlineError, match=error), on_cluster.connected(cluster):
        pass


def test_workers_are_of_this_machine_or_of_a_cluster(tmp_path: Path) -> None:
    traces = job(tmp_path / "job", "a")
    for given in ({"workers": 0}, {"workers": 2, "cluster": "local:2"}):
        with pytest.raises(HotlineError):
            ha.import_traces(traces, tmp_path / "run.hotline", **given)


def test_a_worker_of_another_version_writes_nothing(tmp_path: Path) -> None:
    order = {"file": "", "options": "", "folder": str(tmp_path / "part"), "format": "0"}
    assert "and 0 is asked for" in on_cluster.import_part(order)["message"]
    assert left_in(tmp_path) == []


def test_a_worker_that_does_not_see_the_output_says_so(tmp_path: Path) -> None:
    order = {"file": "", "options": "", "folder": "/nowhere/part", "format": str(FORMAT_VERSION)}
    told = on_cluster.import_part(order)
    assert told["message"] == "a worker cannot write to /nowhere: No such file or directory"
    assert "share" in told["hint"]


def test_dask_and_stores_are_loaded_only_when_asked_for(tmp_path: Path) -> None:
    traces = job(tmp_path / "job", "a")
    code = (
        "import sys, hotline_analysis as ha; ha.load(sys.argv[1]).close();"
        "print(sorted({'dask', 'distributed', 'obstore'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code, str(traces)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# --- parts ------------------------------------------------------------------------------------------------------------


def test_a_part_is_of_one_state_of_a_file_and_of_what_is_asked(tmp_path: Path) -> None:
    (tmp_path / "model.json").write_text("[]")
    of_model = Options(model=tmp_path / "model.json")
    given = [
        ("a", 1, "1", Options()),
        ("b", 1, "1", Options()),
        ("a", 2, "1", Options()),
        ("a", 1, "2", Options()),
        ("a", 1, "1", Options(keep_secrets=True)),
        ("a", 1, "1", of_model),
    ]
    keys = [parts.key_of(*each) for each in given]
    (tmp_path / "model.json").write_text("[ ]")
    assert len({*keys, parts.key_of("a", 1, "1", of_model)}) == len(given) + 1
    assert keys == [parts.key_of(*each) for each in given[:-1]] + [keys[-1]]


def test_a_part_that_lacks_a_file_is_none_and_is_replaced(tmp_path: Path) -> None:
    for content in (b"1", b"2"):
        attempt = parts.begin_part(tmp_path / "part")
        (attempt / "event.parquet").write_bytes(content)
        parts.keep(attempt, tmp_path / "part", {"rank": 3})
    # Two that were made at once are equal: the first one stays.
    assert (tmp_path / "part" / "event.parquet").read_bytes() == b"1"
    assert parts.kept(tmp_path / "part") == {"rank": 3, "folder": str(tmp_path / "part")}
    (tmp_path / "part" / "event.parquet").unlink()
    assert not parts.is_part(tmp_path / "part")
    attempt = parts.begin_part(tmp_path / "part")
    parts.keep(attempt, tmp_path / "part", {"rank": 4})
    assert parts.kept(tmp_path / "part") == {"rank": 4, "folder": str(tmp_path / "part")}
    assert left_in(tmp_path) == ["part"]


def test_parts_of_somebody_else_are_not_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / ".run.hotline.parts").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(HotlineError, match="the content is not trusted"), parts.parts_beside(tmp_path / "run.hotline"):
        pass
    (tmp_path / ".run.hotline.parts").unlink()
    (tmp_path / ".run.hotline.parts").mkdir()
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(HotlineError, match="the content is not trusted"), parts.parts_beside(tmp_path / "run.hotline"):
        pass
