"""Work in processes of their own, forked from this one so that nobody waits for imports, with limits."""

from __future__ import annotations

import os
import pickle
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MOST_SECONDS = 60
"""Of processor time, which does not depend on what else the machine does."""
_MOST_WAITED = 600  # one that waits for nothing uses no processor
MOST_BYTES = 1_500_000_000


@dataclass
class Result:
    """What came of a child: its value, or how it ended without one. `seconds` are those of the processor."""

    value: Any = None
    problem: str | None = None
    seconds: float = 0.0
    peak_bytes: int = 0


@dataclass
class Child:
    """A running child. Its working and temporary folder is `folder`."""

    folder: Path
    pid: int
    started: float
    limited: bool
    peak_bytes: int = 0
    result: Result | None = field(default=None)

    def poll(self) -> Result | None:
        """The result, once there is one. A child over its limits is killed."""
        pid, status, usage = os.wait4(self.pid, os.WNOHANG)
        if pid:
            self._kill()  # what it has started
            peak = max(self.peak_bytes, usage.ru_maxrss * 1024)
            result = Result(seconds=usage.ru_utime + usage.ru_stime, peak_bytes=peak)
            try:
                result.value = pickle.loads((self.folder / "result").read_bytes())
            except (OSError, EOFError, pickle.UnpicklingError):
                code = os.waitstatus_to_exitcode(status)
                result.problem = f"crash: the process ended with status {code} at {_stage(self.folder)}: {self._said()}"
            if self.limited and result.seconds > MOST_SECONDS:
                result.problem = f"hang: it took {result.seconds:.0f} s"
            if self.limited and peak > MOST_BYTES:
                result.problem = f"memory: {peak / 1e6:,.0f} MB at the peak"
            return result
        self.peak_bytes = max(self.peak_bytes, _peak_of(self.pid))
        seconds = _seconds_of(self.pid)
        waited = time.monotonic() - self.started
        problem = None
        if seconds > (MOST_SECONDS if self.limited else 4 * MOST_SECONDS) or waited > _MOST_WAITED:
            problem = f"hang: not done after {seconds:.0f} s of {waited:.0f} s, at {_stage(self.folder)}"
        elif self.limited and self.peak_bytes > MOST_BYTES:
            problem = f"memory: {self.peak_bytes / 1e6:,.0f} MB at {_stage(self.folder)}"
        if problem is None:
            return None
        self._kill()
        os.waitpid(self.pid, 0)
        return Result(problem=problem, seconds=seconds, peak_bytes=self.peak_bytes)

    def _kill(self) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)

    def _said(self) -> str:
        try:
            return (self.folder / "output").read_text(encoding="utf-8", errors="replace")[-300:]
        except OSError:
            return "nothing"


def start(work: Callable[[Path], Any], *, folder: Path, limited: bool = True) -> Child:
    """Let a child do some work in a folder."""
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        with suppress(PermissionError, ProcessLookupError):
            os.setpgid(pid, pid)
        return Child(folder, pid, time.monotonic(), limited)
    status = 1
    try:
        os.setpgid(0, 0)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        output = os.open(folder / "output", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.chdir(folder)
        tempfile.tempdir = str(folder)
        value = work(folder)
        (folder / "result.partial").write_bytes(pickle.dumps(value))
        (folder / "result.partial").rename(folder / "result")
        status = 0
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(status)


def at_stage(folder: Path, name: str) -> None:
    """Note where a child is, for the message about one that is stopped."""
    (folder / "stage").write_text(name, encoding="utf-8")


def _stage(folder: Path) -> str:
    try:
        return (folder / "stage").read_text(encoding="utf-8")
    except OSError:
        return "the start"


def _peak_of(pid: int) -> int:
    """The most memory that a process has had so far."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM")), 0)


def _seconds_of(pid: int) -> float:
    """The processor time that a process has used so far."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def remove(folder: Path) -> None:
    """Delete what a child has left."""
    shutil.rmtree(folder, ignore_errors=True)
