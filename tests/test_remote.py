"""Traces in a store: found and read as those of a folder, from a server of S3 and one of the web that run here."""

from __future__ import annotations

import gzip
import json
import shutil
import sys
import tempfile
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from obstore.store import S3Store
from typer.testing import CliRunner

import hotline_analysis as ha
from hotline_analysis import HotlineError, HotlineWarning
from hotline_analysis.cli import app
from hotline_analysis.errors import ExportExistsError, MachineError, RunFormatError, TraceFormatError
from hotline_analysis.importer import remote, store_lock
from hotline_analysis.importer.cluster import import_part
from hotline_analysis.importer.files import find_traces
from hotline_analysis.importer.options import Options
from hotline_analysis.importer.parts import key_of
from hotline_analysis.importer.remote_parts import PartsInStore
from hotline_analysis.importer.runs import find_runs
from hotline_analysis.importer.tasks import Task, order_of
from hotline_analysis.schema import FORMAT_VERSION, TABLES
from tests.rank_files import rank_file
from tests.trace_builder import TraceBuilder

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
    from moto.server import ThreadedMotoServer  # a second, which only this needs

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
        (f"{BUCKET}/old.hotline", "is a run, with traces already imported"),
        ("s3:///x.json", "has no bucket"),
        ("https://host/x*.json", "a web server cannot list files"),
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
@pytest.mark.parametrize(
    "where", [[], pytest.param(["--cluster=local:1"], marks=pytest.mark.long)], ids=["here", "cluster"]
)
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
    assert "rank1_again.json.gz is a copy of rank1.json.gz and is left out" in said
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
    with pytest.raises(MachineError, match=r"has 3 bytes, but .* has only 2 bytes left"), remote.copied(found):
        pass
    assert copies() == []


def test_a_store_that_does_not_answer_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(remote._RETRY, "max_retries", 0)
    with pytest.raises(MachineError, match=r"x\.json cannot be used") as raised:
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


def stored(store: S3Store, name: str) -> set[str]:
    return {each["path"].removeprefix(f"{name}/") for some in store.list(prefix=f"{name}/") for each in some}


@pytest.fixture
def left_over(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """In the end, nothing lies in the temporary folder, which is one that no other test uses."""
    folder = tmp_path_factory.mktemp("tmp")
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield
    assert list(folder.iterdir()) == []


@pytest.mark.usefixtures("left_over")
def test_a_run_goes_into_a_store_and_is_opened_from_there(store: S3Store, alone: ha.Trace) -> None:
    url = f"{BUCKET}/made/run.hotline"
    done = CliRunner().invoke(app, ["import", f"{BUCKET}/job/rank*", "-o", url, "--allow-missing"])
    assert done.exit_code == 0, done.stderr
    assert done.stdout.startswith(f"{url}: 3 ranks, ")
    here = {path.relative_to(alone.path).as_posix() for path in alone.path.rglob("*") if path.is_file()}
    assert stored(store, "made/run.hotline") == here
    with pytest.warns(HotlineWarning, match="1 of 4 ranks"):
        found = ha.load(f"{url}/")
    with found:
        assert found.path.name == "run.hotline"
        assert found.manifest == alone.manifest
        for table in STORED:
            query = f"from {table.name} order by all"
            assert found.sql(query).equals(alone.sql(query)), table.name
        folder = found.path.parent
        assert folder.exists()
    assert not folder.exists()
    asked = CliRunner().invoke(app, ["query", "steps", url, "--json"])
    assert json.loads(asked.stdout)["runs"][0]["name"] == "run.hotline"


@pytest.mark.usefixtures("left_over")
def test_a_run_of_an_earlier_format_in_a_store_is_opened(alone: ha.Trace, tmp_path: Path) -> None:
    old = shutil.copytree(alone.path, tmp_path / "old")
    manifest = json.loads((old / "manifest.json").read_text())
    url = ha.store_run(old, f"{BUCKET}/earlier.hotline")
    (old / "manifest.json").write_text(json.dumps({**manifest, "format_version": FORMAT_VERSION - 1}))
    S3Store("bucket").put("earlier.hotline/manifest.json", old / "manifest.json")
    with pytest.warns(HotlineWarning, match=r"with a local copy, `hotline import COPY -o NEW\.hotline` stores"):
        trace = ha.load(url)
    with trace:
        assert trace.path.name == "earlier.hotline"
        assert trace.query("kernel_launches").equals(alone.query("kernel_launches"))


@pytest.mark.usefixtures("left_over")
def test_a_place_that_is_taken_is_told_before_the_import(store: S3Store, traces: Path) -> None:
    file = str(traces / "rank0.json.gz")
    for url, said in [
        (f"{BUCKET}/job", "was not written by this tool"),
        (f"{BUCKET}/old.hotline", "exists already"),
        (BUCKET, "is a whole bucket"),
        ("s3://nobody/run.hotline", "nobody/run.hotline does not exist"),
        ("https://host/run.hotline", "cannot write to a web server"),
    ]:
        done = CliRunner().invoke(app, ["import", file, "-o", url])
        assert (done.exit_code, done.stdout) == (1, ""), url
        assert said in done.stderr, url
    assert stored(store, "job") >= {"notes.txt", "rank0.json.gz"}


@pytest.mark.usefixtures("left_over")
def test_a_run_in_a_store_is_replaced_as_a_whole(store: S3Store, alone: ha.Trace, tmp_path: Path) -> None:
    url = f"{BUCKET}/again.hotline"
    assert ha.store_run(alone.path, url) == url
    with pytest.raises(ExportExistsError, match="exists already"):
        ha.store_run(alone.path, url)
    small = ha.import_traces(TraceBuilder().step(1, 0, 100).write(tmp_path / "small.json"), tmp_path / "small.hotline")
    ha.store_run(small, url, overwrite=True)
    assert stored(store, "again.hotline") == {
        path.relative_to(small).as_posix() for path in small.rglob("*") if path.is_file()
    }
    with pytest.raises(RunFormatError, match="not a run directory"):
        ha.store_run(tmp_path, f"{BUCKET}/never.hotline")


def test_a_run_that_does_not_arrive_stays_here_and_is_none_there(
    store: S3Store, traces: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    put = S3Store.put

    def broken(self: S3Store, path: str, *args: Any, **named: Any) -> Any:
        if path.endswith("manifest.json"):
            raise PermissionError("no more")
        return put(self, path, *args, **named)

    monkeypatch.setattr(S3Store, "put", broken)
    done = CliRunner().invoke(app, ["import", str(traces / "rank0.json.gz"), "-o", f"{BUCKET}/half.hotline"])
    assert done.exit_code == 1
    assert "half.hotline cannot be used: no more" in done.stderr
    said = " ".join(done.stderr.split())
    assert "The run is complete, and stays here:" in said
    assert stored(store, "half.hotline") == set()
    (kept,) = tmp_path.glob("hotline-*/half.hotline")
    assert str(kept) in said.replace(" ", "")
    with ha.load(kept) as trace:
        assert trace.ranks == [0]


@pytest.mark.usefixtures("left_over")
def test_two_that_write_one_run_do_not_mix(
    store: S3Store, alone: ha.Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second one fails while the first one writes, and so do readers find no lock among the files of a run."""
    url, said = f"{BUCKET}/both.hotline", []
    put = S3Store.put

    def interrupted(self: S3Store, path: str, *args: Any, **named: Any) -> Any:
        if path == "both.hotline/step/rank=0/data.parquet":
            with pytest.raises(HotlineError, match=r"another process is writing .*both\.hotline"):
                ha.store_run(alone.path, url, overwrite=True)
            said.append(path)
        return put(self, path, *args, **named)

    monkeypatch.setattr(S3Store, "put", interrupted)
    ha.store_run(alone.path, url)
    assert said
    monkeypatch.undo()
    assert "both.hotline.lock" not in {each["path"] for some in store.list() for each in some}
    assert stored(store, "both.hotline") == {
        path.relative_to(alone.path).as_posix() for path in alone.path.rglob("*") if path.is_file()
    }
    ha.store_run(alone.path, url, overwrite=True)


@pytest.mark.usefixtures("left_over")
def test_a_lock_that_a_killed_process_has_left_counts_no_more_after_a_while(
    store: S3Store, alone: ha.Trace, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"{BUCKET}/left.hotline"
    store.put("left.hotline.lock", b"somebody")
    with pytest.raises(HotlineError, match=r"another process is writing .* expires after 15 minutes"):
        ha.store_run(alone.path, url)
    assert stored(store, "left.hotline") == set()
    monkeypatch.setattr(store_lock, "_LEFT_S", -2)  # times of this store are whole seconds
    taken = bytes(store.get("left.hotline.lock").bytes())
    ha.store_run(alone.path, url)
    assert taken == b"somebody"
    assert "manifest.json" in stored(store, "left.hotline")


def test_a_lock_is_renewed_while_files_are_written(
    store: S3Store, alone: ha.Trace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_lock, "_RENEW_S", 0)
    put, renewed = S3Store.put, []

    def counted(self: S3Store, path: str, *args: Any, **named: Any) -> Any:
        if path.endswith(".lock") and "mode" not in named:
            renewed.append(path)
        return put(self, path, *args, **named)

    monkeypatch.setattr(S3Store, "put", counted)
    ha.store_run(alone.path, f"{BUCKET}/renewed.hotline")
    assert len(renewed) == len(list(alone.path.rglob("*.parquet")))


@pytest.mark.usefixtures("left_over")
def test_a_run_of_a_stranger_writes_nowhere_else(store: S3Store) -> None:
    for name in ("../evil", ".hidden", "a b", "a/../../evil"):
        store.put("strange.hotline/manifest.json", b"{}")
        paths = [f"strange.hotline/{each}" for each in ("manifest.json", name)]
        found = [[{"path": path, "size": 1, "e_tag": "x"} for path in paths]]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(S3Store, "list", lambda *args, found=found, **named: iter(found))
            with pytest.raises(RunFormatError, match="contains a file named"):
                ha.load(f"{BUCKET}/strange.hotline")
    with pytest.raises(RunFormatError, match="imported by another version"):
        ha.load(f"{BUCKET}/old.hotline")


# --- by workers that share no folder with this machine ----------------------------------------------------------------


def order(url: str, parts: str, **more: str) -> dict[str, str]:
    """What a worker is told to do with a file, whose part has the name that an import of it would give."""
    file = remote.head(url)
    name = key_of(file.url, file.size, file.version, Options())
    task = Task(file, Path("/nowhere") / name, file.size)
    return {**order_of(task, Options()), "format": str(FORMAT_VERSION), "store": parts, **more}


def test_a_cluster_imports_from_a_store_to_a_store(
    store: S3Store, alone: ha.Trace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # of the worker
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    url = f"{BUCKET}/by/cluster.hotline"
    parts = f"{url}.parts"
    # Of an import that was interrupted, one part is there, and one that is not whole.
    made = [order(f"{BUCKET}/job/rank{rank}.json.gz", parts) for rank in (0, 1)]
    known, damaged = (import_part(each) for each in made)
    assert (known["rank"], damaged["rank"]) == (0, 1)
    names = [Path(each["folder"]).name for each in made]
    assert PartsInStore(parts).complete() == set(names)
    store.put(f"by/cluster.hotline.parts/{names[1]}/event.parquet", b"half")
    record = f"by/cluster.hotline.parts/{names[0]}/part.json"
    kept = json.loads(bytes(store.get(record).bytes()))
    kept["known"]["notes"] = ["this part was there before"]
    store.put(record, json.dumps(kept).encode())
    store.put("by/cluster.hotline.parts/of_somebody_else.txt", b"precious")

    command = ["import", f"{BUCKET}/job/rank*", "-o", url, "--cluster", "local:1", "--allow-missing"]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.stderr
    assert "this part was there before" in done.stderr
    assert stored(store, "by/cluster.hotline.parts") == {"of_somebody_else.txt"}
    with pytest.warns(HotlineWarning, match="1 of 4 ranks"):
        found = ha.load(url)
    with found:
        assert found.manifest["parts"] == alone.manifest["parts"]
        for table in STORED:
            query = f"from {table.name} order by all"
            assert found.sql(query).equals(alone.sql(query)), table.name
    assert list(tmp_path.glob("hotline-*")) == []


@pytest.mark.usefixtures("left_over")
def test_a_worker_without_a_shared_folder_tells_what_fails(store: S3Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.put("bad/rank0.json", b"no trace")
    parts = f"{BUCKET}/bad.parts"
    told = import_part(order(f"{BUCKET}/bad/rank0.json", parts))
    assert told["error"] == "TraceFormatError"
    assert told["message"].startswith(f"{BUCKET}/bad/rank0.json is ")
    model = Options(model=Path("/elsewhere/model.json")).to_json()
    told = import_part(order(f"{BUCKET}/job/rank0.json.gz", parts, options=model, model="[]"))
    assert told["error"] == "ModelMismatchError"
    assert "/elsewhere/model.json" in told["message"]
    assert PartsInStore(parts).complete() == set()

    whole = order(f"{BUCKET}/job/rank0.json.gz", parts)
    with monkeypatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
        patch.setattr(remote, "_RETRY", {"max_retries": 0})
        assert import_part(whole)["error"] == "MachineError"
    known = import_part(whole)
    assert known["rank"] == 0
    assert import_part(whole) == known


@pytest.mark.long
def test_after_an_error_the_hint_says_where_the_parts_are(
    store: S3Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    store.put("half/none.json", b"no trace")  # smaller than the other, so it comes last
    files = [f"{BUCKET}/job/rank0.json.gz", f"{BUCKET}/half/none.json"]
    with pytest.raises(TraceFormatError, match=r"half/none\.json is not a PyTorch profiler trace") as raised:
        ha.import_traces(files, tmp_path / "run.hotline", cluster="local:1", parts=f"{BUCKET}/half.parts")
    said = f"Imported files (1 of 2) are kept in {BUCKET}/half.parts: the same import continues from there."
    assert raised.value.hint is not None
    assert raised.value.hint.endswith(said)
    assert len(PartsInStore(f"{BUCKET}/half.parts").complete()) == 1


@pytest.mark.usefixtures("store")
def test_a_part_that_another_import_has_removed_is_told(tmp_path: Path) -> None:
    parts = PartsInStore(f"{BUCKET}/gone.parts")
    file = remote.head(f"{BUCKET}/job/rank0.json.gz")
    with pytest.raises(
        MachineError,
        match=r"data of s3://bucket/job/rank0\.json\.gz is missing or incomplete in s3://bucket/gone\.parts",
    ):
        parts.copy(Task(file, tmp_path / ("0" * 32), file.size))


@pytest.mark.usefixtures("store")
def test_a_place_for_parts_must_be_of_use(traces: Path, tmp_path: Path) -> None:
    there, here, parts = f"{BUCKET}/job/rank0.json.gz", traces / "rank0.json.gz", f"{BUCKET}/any.parts"
    cases: list[tuple[str | Path, str, str | None, str]] = [
        (there, parts, None, "only workers of a cluster"),
        (there, str(tmp_path), "local:1", "is not a URL of a store"),
        (there, "s3://nobody/parts", "local:1", "nobody/parts does not exist"),
        (there, "https://host/parts", "local:1", "cannot write to a web server"),
        (here, parts, "local:1", r"rank0\.json\.gz is on this machine"),
    ]
    for file, place, cluster, said in cases:
        with pytest.raises(HotlineError, match=said):
            ha.import_traces(file, tmp_path / "run.hotline", cluster=cluster, parts=place)
    assert list(tmp_path.iterdir()) == []


def test_without_obstore_it_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("obstore", "obstore.exceptions", "obstore.store"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(HotlineError, match=r"needs obstore.*hotline-analysis\[remote\]"):
        find_traces(f"{BUCKET}/x.json")
