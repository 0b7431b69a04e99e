"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import hotline_analysis as ha
from hotline_analysis import charts
from hotline_analysis.atomic import path_of, replace_file
from hotline_analysis.atomic.replacing import _machine
from hotline_analysis.cli import app
from hotline_analysis.importer.remote import is_remote
from tests.trace_builder import TraceBuilder

URLS = ("s3://bucket/x.html", "gs://bucket/x.html", "hdfs://host:9000/x.html", "https://host/x.html", "HTTP://h/x.html")


@pytest.mark.parametrize("url", [*URLS, "abfss://container@account.dfs.core.windows.net/x.html"])
@pytest.mark.sampled
def test_a_url_is_told_to_be_none_of_ours(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To read and to write, as text and as the path that has lost a slash; nothing is made here."""
    trace = TraceBuilder().step(1, 0, 100).op("aten::mm", 0, 60).load(tmp_path)
    run = str(trace.path)
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.chdir(empty)
    asked: list[Callable[[], object]] = [
        lambda: ha.load(Path(url)),
        lambda: ha.load(ha.demo_trace(), model=url),
        lambda: ha.load(ha.demo_trace(), kernel_classes=url),
        lambda: ha.import_traces(ha.demo_trace(), url),
        lambda: trace.export(url),
        lambda: ha.export_perfetto(trace, Path(url)),
        lambda: charts.save(charts.steps(ha.steps(trace)), url),
        lambda: charts.timeline(trace).save(url),
    ]
    is_read = is_remote(url)  # tests/test_remote.py
    if not is_read:
        asked += [lambda: ha.load(url), lambda: ha.load([url]), lambda: ha.load(f"{url}/*.json.gz")]
    for ask in asked:
        with pytest.raises(
            ha.HotlineError, match=f"^{url}\\S* is not on this machine: only traces and runs can be remote"
        ):
            ask()
    commands = [
        *([] if is_read else [["report", url], ["diff", run, url]]),
        *([] if is_read else [["import", str(ha.demo_trace()), "-o", url]]),  # tests/test_remote.py
        ["import", str(ha.demo_trace()), "-o", "x.hotline", "--kernel-classes", url],
        ["report", str(ha.demo_trace()), "--model", url],
        *([*command, run, "-o", url] for command in (["report"], ["timeline"], ["query", "steps"], ["chart", "steps"])),
        ["sql", "select 1", run, "-o", url],
        ["diff", run, run, "-o", url],
        ["export", run, "-o", url],
    ]
    for command in commands:
        done = CliRunner().invoke(app, command)
        assert done.exit_code == 1, command
        assert done.stderr.startswith(f"error: {url} is not on this machine"), command
    assert list(empty.iterdir()) == []


def test_a_password_in_a_url_is_not_repeated() -> None:
    with pytest.raises(ha.HotlineError, match=r"^ftp://host/x\.json is not on") as raised:
        ha.load("ftp://me:hunter2@host/x.json")
    assert "hunter2" not in str(raised.value)


def test_paths_that_look_like_urls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ha.HotlineError, match=r"Hint: Write /tmp/x\.json$"):
        path_of("file:///tmp/x.json")
    for name in ("C:/x.json", "a:b", "a::/b", "x/s3://b", "//server/share", "s3:"):
        assert path_of(name) == Path(name)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "day:").mkdir()
    assert path_of("day:/x.json") == Path("day:/x.json")


def test_a_file_is_replaced_when_the_new_one_is_complete(tmp_path: Path) -> None:
    target = tmp_path / "new" / "page.html"
    seen: list[object] = []

    def write(file: Path) -> None:
        file.write_text("begun")
        seen.append(target.read_text() if target.exists() else None)
        file.write_text("done")

    assert replace_file(target, write) == target
    target.write_text("old")
    target.chmod(0o640)
    replace_file(target, write)
    assert seen == [None, "old"]
    assert target.read_text() == "done"
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    assert [path.name for path in target.parent.iterdir()] == ["page.html"]


def test_a_failure_leaves_the_old_file(tmp_path: Path) -> None:
    target = tmp_path / "page.html"
    target.write_text("old")

    def fail(file: Path, error: BaseException) -> None:
        file.write_text("half")
        raise error

    with pytest.raises(ha.HotlineError, match=r"cannot write .*page.html: No space"):
        replace_file(target, lambda file: fail(file, OSError(28, "No space left")))
    with pytest.raises(KeyboardInterrupt):
        replace_file(target, lambda file: fail(file, KeyboardInterrupt()))
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_what_a_dead_process_left_is_removed(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    (tmp_path / f".page.html.{_machine()}.{process.pid}.0123abcd.partial").touch()
    kept = tmp_path / f".page.html.{_machine()}.{os.getpid()}.0123abcd.partial"
    kept.touch()
    replace_file(tmp_path / "page.html", lambda file: file.write_text("x"))
    assert sorted(tmp_path.iterdir()) == [kept, tmp_path / "page.html"]


def test_a_link_stays_and_its_file_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link.html").symlink_to(tmp_path / "folder" / "page.html")
    replace_file(tmp_path / "link.html", lambda file: file.write_text("x"))
    assert (tmp_path / "link.html").is_symlink()
    assert (tmp_path / "folder" / "page.html").read_text() == "x"


def test_a_pipe_is_written_as_it_is(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.html"
    os.mkfifo(pipe)
    got: list[str] = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_text()))
    reader.start()
    replace_file(pipe, lambda file: file.write_text("x"))
    reader.join()
    assert got == ["x"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


@pytest.mark.parametrize("kind", ["html", "svg", "png", "json"])
@pytest.mark.sampled
def test_charts_are_written_whole(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = TraceBuilder(rank=0).step(0, 0, 100).op("aten::mm", 10, 90).load(tmp_path)
    names: list[str] = []

    def no_space(source: Path, target: Any) -> Path:
        names.append(source.name)
        assert source.stat().st_size > 100
        raise OSError(28, "No space left")

    folder = tmp_path / "charts"
    charts.save(charts.draw("phases", trace), folder / f"whole.{kind}")
    monkeypatch.setattr(Path, "replace", no_space)
    with pytest.raises(ha.HotlineError, match="No space"):
        charts.save(charts.draw("phases", trace), folder / f"phases.{kind}")
    with pytest.raises(ha.HotlineError, match="No space"):
        charts.timeline(trace).save(folder / f"timeline.{kind}")
    assert [name.split(".")[1] for name in names] == ["phases", "timeline"]
    assert [path.name for path in folder.iterdir()] == [f"whole.{kind}"]
