"""Ctrl-C at any moment: a command ends soon, with the exit status of shells for it, and leaves nothing behind."""

import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

import hotline_analysis as ha
from hotline_analysis.atomic import begin, begun, end, remove, replace_folder, temporary_folder, undo_all
from hotline_analysis.run.connections import Connections
from tests.trace_builder import TraceBuilder

pytestmark = pytest.mark.skipif(os.name != "posix", reason="sends signals")
SOON_S = 2.0


def wait_for(condition: Callable[[], object], seconds: float = 60) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "waited too long"
        time.sleep(0.01)


def start(command: list[str], tmp: Path) -> subprocess.Popen[str]:
    """Start a command in a process group of its own, as a terminal does."""
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "TMPDIR": str(tmp)},
    )


def interrupt(process: subprocess.Popen[str]) -> float:
    """Press Ctrl-C, and return how long the command takes to end."""
    begun = time.monotonic()
    os.killpg(process.pid, signal.SIGINT)
    process.communicate(timeout=30)
    return time.monotonic() - begun


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trace that takes a second or more to import and to report on."""
    trace = TraceBuilder(rank=0)
    for step in range(20):
        at = 10_000 * step
        trace.step(step, at, at + 9_900).module("Net", 0, at + 1, at + 9_000)
        for number in range(200):
            begin = at + 10 + 40 * number
            trace.op(f"op {number % 50}", begin, begin + 30)
            trace.launches(f"kernel {number % 70}", begin + 20, begin + 55, at=begin + 2, until=begin + 9)
    return trace.write(tmp_path_factory.mktemp("trace") / "trace.json")


@pytest.fixture(scope="module")
def run(file: Path) -> Path:
    return ha.import_traces(file, file.with_name("run.hotline"))


COMMANDS = {
    "import": ("r.hotline",),
    "report": ("r.html",),
    "timeline": ("t.svg",),
    "export": ("tables",),
    "export --format perfetto": ("p.json.gz",),
}


@pytest.mark.parametrize("after_s", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.sampled
def test_a_command_ends_and_leaves_nothing(tmp_path: Path, file: Path, run: Path, command: str, after_s: float) -> None:
    tmp, out = tmp_path / "tmp", tmp_path / "out"
    tmp.mkdir()
    out.mkdir()
    target = out / COMMANDS[command][0]
    source = file if command == "import" else run
    line = [sys.executable, "-m", "hotline_analysis", *command.split(), str(source), "-o", str(target)]
    with start(line, tmp) as process:
        # From here on there is something that could be left behind.
        wait_for(lambda: any(tmp.glob("hotline-*")) or any(out.iterdir()) or process.poll() is not None)
        time.sleep(after_s)
        took = interrupt(process) if process.poll() is None else 0.0
    assert process.returncode in (130, 0)
    assert took < SOON_S
    assert list(tmp.iterdir()) == []
    if process.returncode == 130:
        assert [each for each in out.iterdir() if each != target] == []
    else:
        assert list(out.iterdir()) == [target]


def test_before_anything_is_loaded(tmp_path: Path) -> None:
    """While the libraries of a command are loaded there is nothing to say, such as where that was."""
    code = (
        "import os, signal, sys, types; import hotline_analysis.__main__ as it;"
        # In place of the slow part.
        "fake = types.ModuleType('hotline_analysis.cli');"
        "fake.__getattr__ = lambda name: os.kill(os.getpid(), signal.SIGINT);"
        "sys.modules['hotline_analysis.cli'] = fake; it.main(); print('went on')"
    )
    process = start([sys.executable, "-c", code], tmp_path)
    assert process.communicate(timeout=30) == ("", "")
    assert process.returncode == 130


def test_while_python_runs_a_string(tmp_path: Path) -> None:
    """As it does to make a dataclass: `python -m` remembers that and ends with the signal, whoever caught it."""
    (tmp_path / "case.py").write_text(
        "from hotline_analysis import cli\n"
        "cli.app = lambda prog_name: exec('import os, signal; os.kill(os.getpid(), signal.SIGINT)')\n"
        "cli.main()\n"
    )
    done = subprocess.run([sys.executable, "-m", "case"], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_where_a_library_makes_an_error_of_its_own_of_it(tmp_path: Path) -> None:
    """As Polars does where it comes while native code looks at an argument."""
    (tmp_path / "case.py").write_text(
        "import os, signal\n"
        "from hotline_analysis import cli\n"
        "@cli.app.command()\n"
        "def fail():\n"
        "    try:\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "    except KeyboardInterrupt:\n"
        "        raise TypeError('no data type') from None\n"
        "cli.main()\n"
    )
    done = subprocess.run([sys.executable, "-m", "case", "fail"], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


# In a library that does not look for signals, Ctrl-C is as if nobody handled it.
DEAF = """
import signal, sys, time
from contextlib import suppress
from pathlib import Path
from hotline_analysis.cli import interrupt
from hotline_analysis.atomic import replace_folder

interrupt.watch()
signal.signal(signal.SIGINT, lambda number, frame: None)

def work(folder):
    print("ready", flush=True)
    until = time.monotonic() + 60
    while time.monotonic() < until:
        with suppress(OSError):  # the folder of the export may be gone by now, which no library makes again
            (folder / "part").mkdir(exist_ok=True)
            (folder / "part" / f"{time.monotonic_ns() % 50}").touch()

replace_folder(Path(sys.argv[1]), work, overwrite=True)
"""


def test_a_library_that_does_not_listen_is_ended(tmp_path: Path) -> None:
    target = tmp_path / "run"
    target.mkdir()
    process = start([sys.executable, "-c", DEAF, str(target)], tmp_path)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    assert len(list(tmp_path.iterdir())) == 2
    assert interrupt(process) < SOON_S
    assert process.returncode == 130
    assert [each.name for each in tmp_path.iterdir()] == ["run"]


def test_ctrl_c_while_a_folder_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has another name by then, which the second try knows."""
    left = [KeyboardInterrupt]
    remove_tree = shutil.rmtree

    def interrupted(path: Path, ignore_errors: bool = False) -> None:
        if left:
            raise left.pop()
        remove_tree(path, ignore_errors=ignore_errors)

    def fail(folder: Path) -> None:
        (folder / "part").mkdir()
        raise OSError("no space left")

    monkeypatch.setattr(shutil, "rmtree", interrupted)
    with pytest.raises(KeyboardInterrupt):
        replace_folder(tmp_path / "run", fail, overwrite=False)
    assert (left, list(tmp_path.iterdir())) == ([], [])


def test_what_is_told_to_ignore_it_goes_on() -> None:
    """As with nohup."""
    code = (
        "import os, signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); from hotline_analysis.cli import"
        " interrupt; interrupt.watch(); os.kill(os.getpid(), signal.SIGINT); time.sleep(1.2); print('done')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "done\n")


def test_the_last_is_undone_first() -> None:
    told: list[str] = []

    def fails() -> None:
        raise OSError

    first = begin(lambda: told.append("first"))
    with begun(lambda: told.append("block")):
        begin(fails)
        undo_all()
        assert told == ["block", "first"]
        end(fails)
    assert told == ["block", "first", "block"]
    end(first)
    end(first)
    undo_all()
    assert told == ["block", "first", "block"]


def test_ctrl_c_as_soon_as_a_folder_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes before anybody knows the folder."""

    def interrupted(folder: Path, mode: int) -> None:
        os.mkdir(folder, mode)
        raise KeyboardInterrupt

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with monkeypatch.context() as patch:
        patch.setattr(Path, "mkdir", interrupted)
        with pytest.raises(KeyboardInterrupt), temporary_folder():
            pass
    assert len(list(tmp_path.iterdir())) == 1
    undo_all()
    assert list(tmp_path.iterdir()) == []


def test_a_temporary_folder_is_for_this_user_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with temporary_folder() as folder:
        assert list(tmp_path.iterdir()) == [folder]
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert list(tmp_path.iterdir()) == []


def test_every_temporary_folder_is_known_before_it_is_there() -> None:
    """None is made in another way, where the command line could be interrupted in between."""
    package = Path(ha.__file__).parent
    users = {path for path in package.rglob("*.py") if "mkdtemp" in path.read_text(encoding="utf-8")}
    assert {path.relative_to(package).as_posix() for path in users} == {"capture/shapes.py"}


def test_ctrl_c_while_it_is_undone() -> None:
    """A library that Ctrl-C stops returns before Python raises `KeyboardInterrupt`, which then comes while undoing."""
    for interrupts in (1, 2):  # the second time, it is left to the end of the process
        told: list[str] = []

        def undo(interrupts: int = interrupts, told: list[str] = told) -> None:
            if len(told) < interrupts:
                told.append("interrupted")
                raise KeyboardInterrupt
            told.append("undone")

        with pytest.raises(KeyboardInterrupt), begun(undo):
            pass
        assert told == (["interrupted", "undone"] if interrupts == 1 else ["interrupted", "interrupted"])
        undo_all()
        assert told == ["interrupted"] * interrupts + ["undone"]
        end(undo)


def test_what_is_removed(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "kept")
    (tmp_path / "folder" / "in").mkdir(parents=True)
    (tmp_path / "folder" / "in" / "file").touch()
    for name in ("link", "folder", "absent"):
        remove(tmp_path / name)
    assert [str(each.relative_to(tmp_path)) for each in sorted(tmp_path.rglob("*"))] == ["kept", "kept/file"]


def test_a_closed_connection_is_not_interrupted() -> None:
    """After an error, the traceback still holds the connection of the statement."""
    first = Connections(duckdb.connect())
    other = first.apart()
    held = other.mine
    other.close_mine()
    first.interrupt()
    with pytest.raises(duckdb.ConnectionException):
        held.execute("select 1")
    first.close()
    first.interrupt()
