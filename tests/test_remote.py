"""Traces in a store: found and read as those of a folder, from a server of S3 and one of the web that run here."""

from __future__ import annotations

import gzip
import shutil
import sys
import tempfile
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from moto.server import ThreadedMotoServer
from obstore.store import S3Store
from typer.testing import CliRunner

import hotline_analysis as ha
from hotline_analysis import HotlineError, HotlineWarning
from hotline_analysis.cli import app
from hotline_analysis.errors import MachineError, TraceFormatError
from hotline_analysis.importer import remote
from hotline_analysis.importer.files import find_runs, find_traces
from hotline_analysis.schema import TABLES
from tests.test_ranks_of_a_job import rank_file

BUCKET = "s3://bucket"
STORED = [table for table in TABLES.values() if table.kind != "view"]


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that the bucket has as well."""
    folder = tmp_path_factory.mktemp("traces")
    for rank in range(3):
        written = rank_file(folder, rank, kernels=40)
        (folder / f"rank{rank}.json.gz").write_bytes(gzip.compress(written.read_bytes(), mtime=0))
        written.unlink()
    return folder


@pytest.fixture(scope="module")
def store(traces: Path) -> Iterator[S3Store]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        patch.setenv("AWS_ALLOW_HTTP", "true")
        patch.setenv("AWS_ACCESS_KEY_ID", "anybody")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "anything")
        patch.setenv("AWS_REGION", "us-east-1")
        _make_bucket(f"http://{host}:{port}/bucket")
        made = S3Store("bucket")
        for file in traces.iterdir():
            made.put(f"job/{file.name}", file)
        made.put("job/notes.txt", b"no trace")
        made.put("other/deep/er/rank7.json", b"{}")
        made.put("old.hotline/manifest.json", b"{}")
        yield made
    server.stop()


def _make_bucket(url: str) -> None:
    import urllib.request

    urllib.request.urlopen(urllib.request.Request(url, method="PUT")).close()


def names(source: str | list[str]) -> list[str]:
    return [str(file) for file in find_traces(source)[0]]


def copies() -> list[Path]:
    return list(Path(tempfile.gettempdir()).glob("hotline-copy-*"))


# --- found -----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("store")
def test_files_of_a_bucket_are_found_as_those_of_a_folder() -> None:
    job = [f"{BUCKET}/job/rank{rank}.json.gz" for rank in range(3)]
    assert names(f"{BUCKET}/job") == names(f"{BUCKET}/job/") == names(f"{BUCKET}/job/*.json.gz") == job
    assert names(f"{BUCKET}/job/rank[02]*") == names(f"{BUCKET}/*/rank[02]*") == [job[0], job[2]]
    assert names(f"{BUCKET}/**/rank*.json") == names(f"{BUCKET}/other") == [f"{BUCKET}/other/deep/er/rank7.json"]
    assert names(job[1]) == [job[1]]
    assert names([job[2], job[0]]) == [job[2], job[0]]
    assert [find_traces(each)[1] for each in (f"{BUCKET}/job", f"{BUCKET}/job/*", job[1], job)] == [
        *(True, True, False, False)
    ]
    assert find_runs(f"{BUCKET}/old.hotline") == find_runs([f"{BUCKET}/job"]) == []


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize(
    ("source", "error"),
    [
        (f"{BUCKET}/job/rank9.json.gz", "rank9.json.gz does not exist"),
        ([f"{BUCKET}/job/rank9.json.gz"], "rank9.json.gz does not exist"),
        (f"{BUCKET}/job/rank9*", r"no file matches .*rank9\*"),
        (f"{BUCKET}/none/", "none/ does not exist"),
        ("s3://nobody/x.json", "nobody/x.json does not exist"),
        (f"{BUCKET}/old.hotline", "is a run, and runs are opened from this machine only"),
        ("s3:///x.json", "names no bucket"),
        ("https://host/x*.json", "a web server lists no files"),
        ("https://host/x.json?X-Amz-Signature=secret", r"x\.json\?… has a query or signature"),
    ],
)
def test_what_is_not_there_is_told(source: str, error: str) -> None:
    with pytest.raises(TraceFormatError, match=error) as raised:
        find_traces(source)
    assert "secret" not in str(raised.value)


def test_a_pattern_means_names_as_in_a_folder() -> None:
    assert remote._matches("a/b.json", "*/b.json")
    assert not remote._matches("a/c/b.json", "*/b.json")
    assert remote._matches("b.json", "**/b.json")
    assert remote._matches("a/c/b.json", "**/*.json")
    assert not remote._matches("a/b.json", "a")
    assert not remote._matches("a", "a/b.json")


# --- read ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def alone(traces: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ha.Trace]:
    """The run of the files here."""
    with pytest.warns(HotlineWarning, match="1 of 4 ranks"):
        run = ha.import_traces(traces, tmp_path_factory.mktemp("alone") / "run.hotline")
    with ha.Trace(run) as trace:
        yield trace


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize("where", [[], ["--cluster=local:1"]], ids=["here", "cluster"])
def test_the_run_is_that_of_the_same_files_here(alone: ha.Trace, tmp_path: Path, where: list[str]) -> None:
    target = tmp_path / "run.hotline"
    done = CliRunner().invoke(app, ["import", f"{BUCKET}/job/rank*", "-o", str(target), *where, "--allow-missing"])
    assert done.exit_code == 0, done.stderr
    assert ": 3 ranks, " in done.stdout
    with ha.Trace(target) as found:
        assert found.manifest == alone.manifest
        for table in STORED:
            query = f"from {table.name} order by all"
            assert found.sql(query).equals(alone.sql(query)), table.name
    assert copies() == []
    assert [item.name for item in tmp_path.iterdir()] == ["run.hotline"]


def test_files_that_are_cut_copied_or_no_traces_are_told(store: S3Store, traces: Path) -> None:
    whole = (traces / "rank0.json.gz").read_bytes()
    store.put("odd/cut_rank0.json.gz", whole[: len(whole) * 2 // 3])
    store.put("odd/rank1.json.gz", traces / "rank1.json.gz")
    store.put("odd/rank1_again.json.gz", traces / "rank1.json.gz")
    store.put("odd/empty.json", b"")
    with pytest.warns(HotlineWarning) as told:
        trace = ha.load(f"{BUCKET}/odd")
    with trace:
        assert trace.ranks == [0, 1]
        assert 0 < trace.sql("select count(*) from gpu_event where rank = 0").item() < 41
    said = [str(warning.message) for warning in told]
    assert any(text.startswith("cut_rank0.json.gz: the compressed data ends too early") for text in said)
    assert "rank1_again.json.gz is a copy of rank1.json.gz, and is left out" in said
    assert f"skipped: {BUCKET}/odd/empty.json is empty" in said
    assert copies() == []


def test_a_file_of_several_parts(store: S3Store, traces: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "_PART_BYTES", 100)
    found = remote.head(f"{BUCKET}/job/rank1.json.gz")
    assert found.size > 300
    with remote.copied(found) as (copy, digest):
        assert copy.name == "rank1.json.gz"
        assert copy.read_bytes() == (traces / "rank1.json.gz").read_bytes()
    assert len(digest) == 64
    assert copies() == []


def test_a_file_that_changes_or_has_no_room_is_a_fault_of_the_machine(
    store: S3Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put("changing.json", b"one")
    found = remote.head(f"{BUCKET}/changing.json")
    store.put("changing.json", b"two")
    with pytest.raises(MachineError, match="changed since it was found"), remote.copied(found):
        pass
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(9, 9, 2))
    with pytest.raises(MachineError, match=r"has 3 bytes, and .* has 2 left"), remote.copied(found):
        pass
    assert copies() == []


def test_a_store_that_does_not_answer_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(remote._RETRY, "max_retries", 0)
    with pytest.raises(MachineError, match=r"x\.json cannot be read") as raised:
        find_traces("http://me:hunter2@127.0.0.1:9/x.json")
    assert "hunter2" not in str(raised.value)
    assert "\n" not in str(raised.value)


def test_files_of_a_web_server(traces: Path) -> None:
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(traces)))
    threading.Thread(target=server.serve_forever).start()
    try:
        url = f"http://127.0.0.1:{server.server_port}/rank1.json.gz"
        with ha.load(url) as trace:
            assert trace.ranks == [1]
        with pytest.raises(TraceFormatError, match=r"nothing\.json does not exist"):
            ha.load(url.replace("rank1.json.gz", "nothing.json"))
    finally:
        server.shutdown()
        server.server_close()


# --- written ---------------------------------------------------------------------------------------------------------


def test_a_run_is_not_written_to_a_store(traces: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["import", str(traces), "-o", f"{BUCKET}/run.hotline"])
    assert done.exit_code == 1
    assert "everything is written to local folders" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_without_obstore_it_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("obstore", "obstore.exceptions", "obstore.store"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(HotlineError, match=r"needs obstore.*hotline-analysis\[remote\]"):
        find_traces(f"{BUCKET}/x.json")
