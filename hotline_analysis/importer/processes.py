"""Several trace files, imported by as many processes as there are processors, unless they are small.

A process is this module run as a program: unlike `multiprocessing`, that asks nothing of the caller's main module. It
imports file after file, since to start one takes as long as to import a small trace. It is told each, and answers, in a
line of JSON.
"""

from __future__ import annotations

import json
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from pathlib import Path
from typing import Any

from hotline_analysis.atomic import begin, end
from hotline_analysis.database import processors
from hotline_analysis.errors import EmptyTraceError, HotlineError, MachineError, ModelMismatchError, TraceFormatError
from hotline_analysis.importer.one_file import import_file
from hotline_analysis.importer.options import Options, Progress
from hotline_analysis.text.formats import some_of

# Looks for modules where this process does, and not in the working directory, where anything may lie beside the traces.
_CHILD = (
    "import sys; sys.path[:] = sys.argv.pop(1).split(chr(10));"
    " from hotline_analysis.importer.processes import _main; _main()"
)


_KINDS: tuple[type[HotlineError], ...] = (TraceFormatError, EmptyTraceError, ModelMismatchError, MachineError)

# To start a process takes as long as to import a megabyte of JSON.
_WORTH_PROCESSES_BYTES = 1 << 20
_MOST_PROCESSES = 16  # each takes up to 0.8 GB of memory


def import_all(
    files: Sequence[Path],
    partial: Path,
    options: Options,
    on_progress: Progress | None,
    *,
    skip_bad: bool,
    allow_missing: bool,
) -> tuple[list[dict[str, Any]], list[str]]:
    """Import each file to a folder of its own; return what is known of each, and warnings about the skipped ones.

    With `skip_bad`, a file that is no trace is left out; with `allow_missing`, also one that this machine failed to
    import. Any other error is raised as soon as it is known.
    """

    def is_fatal(error: HotlineError) -> bool:
        if isinstance(error, MachineError):
            return not allow_missing
        return not (skip_bad or allow_missing) or isinstance(error, ModelMismatchError)

    folders = [partial / f"part-{number}" for number in range(len(files))]
    for folder in folders:
        folder.mkdir()
    results: Iterable[dict[str, Any] | HotlineError]
    if len(files) == 1 or sum(file.stat().st_size for file in files) < _WORTH_PROCESSES_BYTES:
        results = _in_this_process(files, folders, options, on_progress or (lambda what, share: None))
    else:
        results = _in_processes(files, folders, options, on_progress, is_fatal)
    parts: list[dict[str, Any]] = []
    failed: list[HotlineError] = []
    for result in results:
        if isinstance(result, HotlineError):
            if is_fatal(result):
                raise result
            failed.append(result)
        else:
            parts.append(result)
    if not parts:
        raise failed[0]
    return parts, some_of([f"skipped: {error.message}" for error in failed], "files were skipped")


def _in_this_process(
    files: Sequence[Path], folders: Sequence[Path], options: Options, on_progress: Progress
) -> Iterator[dict[str, Any] | HotlineError]:
    for number, (file, folder) in enumerate(zip(files, folders, strict=True)):

        def report(what: str, share: float, done: int = number) -> None:
            on_progress(what, (done + share) / len(files))

        try:
            yield import_file(file, folder, processors(), report, options)
        except HotlineError as error:
            yield error


def _in_processes(
    files: Sequence[Path],
    folders: Sequence[Path],
    options: Options,
    on_progress: Progress | None,
    is_fatal: Callable[[HotlineError], bool],
) -> list[dict[str, Any] | HotlineError]:
    """The result of each file, or of those until the first fatal error."""
    workers = min(len(files), processors(), _MOST_PROCESSES)
    threads = max(1, processors() // workers)
    started = [_Worker(threads) for _ in range(workers)]
    idle: queue.SimpleQueue[_Worker] = queue.SimpleQueue()
    for worker in started:
        idle.put(worker)
    done = 0

    def ask(number: int) -> dict[str, Any] | HotlineError:
        """Import a file in the next process that is free; another takes the place of one that dies of it."""
        worker = idle.get()
        answer = worker.import_file(files[number], folders[number], options)
        if not worker.alive:
            worker = _Worker(threads)
            started.append(worker)
        idle.put(worker)
        return answer

    def run(number: int) -> dict[str, Any] | HotlineError:
        nonlocal done
        answer = ask(number)
        if isinstance(answer, MachineError):  # perhaps others took the memory; what is wrong with the file stays so
            shutil.rmtree(folders[number])
            folders[number].mkdir()
            answer = ask(number)
        done += 1
        if on_progress:
            on_progress(f"imported {files[number].name}", done / len(files))
        return answer

    pool = ThreadPoolExecutor(workers)
    try:
        futures = [pool.submit(run, number) for number in range(len(files))]
        waiting: set[Future[dict[str, Any] | HotlineError]] = set(futures)
        while waiting:
            # Wakes up to be interrupted, even if another thread receives the signal.
            ready, waiting = wait(waiting, timeout=0.2, return_when="FIRST_COMPLETED")
            for future in ready:
                if isinstance(answer := future.result(), HotlineError) and is_fatal(answer):
                    return [answer]
        return [future.result() for future in futures]
    finally:  # when interrupted, do not wait for what is still running
        pool.shutdown(wait=False, cancel_futures=True)
        for worker in list(started):
            worker.stop()
        pool.shutdown()
        for worker in started:
            worker.stop()  # one that took the place of another in the meantime


class _Worker:
    """A process that imports one file after the other."""

    def __init__(self, threads: int) -> None:
        self.alive = True
        self._undo = begin(self._kill)
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - stays open; a pipe would have to be read all the time
        self._process = subprocess.Popen(
            [sys.executable, "-c", _CHILD, "\n".join(sys.path), str(threads), str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            encoding="utf-8",
        )

    def import_file(self, file: Path, folder: Path, options: Options) -> dict[str, Any] | HotlineError:
        """Import a file. If the process dies, it was perhaps killed for the memory that it took."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        task = {"file": str(file), "folder": str(folder), "options": options.to_json()}
        try:
            self._process.stdin.write(json.dumps(task) + "\n")
            self._process.stdin.flush()
            answer = json.loads(self._process.stdout.readline())
        except (OSError, ValueError):
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(5)
            reason = self._last_words()
            self.stop()
            return MachineError(
                f"importing {file} failed (exit status {self._process.returncode}): {reason}",
                hint="Is there enough memory? Import again, or leave the file out (--allow-missing).",
            )
        if "error" in answer:
            kinds = {kind.__name__: kind for kind in _KINDS}
            return kinds.get(answer["error"], HotlineError)(answer["message"], hint=answer["hint"])
        return dict(answer)

    def stop(self) -> None:
        """End the process, whatever it is doing."""
        self.alive = False
        self._kill()
        end(self._undo)
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            if stream is not None:
                with suppress(OSError):  # of a task that it did not live to read
                    stream.close()

    def _kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def _last_words(self) -> str:
        self._errors.seek(0)
        lines = self._errors.read().decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else "no message"


def _main() -> None:
    """Import the files that another process names, until it names no more."""
    threads, parent = sys.argv[1:]
    threading.Thread(target=_exit_after, args=[int(parent)], daemon=True).start()
    # What a library may print is no answer.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    for line in sys.stdin:
        task = json.loads(line)
        try:
            given = Options.from_json(task["options"])
            answer = import_file(
                Path(task["file"]), Path(task["folder"]), int(threads), lambda what, share: None, given
            )
        except HotlineError as error:
            answer = {"error": type(error).__name__, "message": error.message, "hint": error.hint}
        except (OSError, MemoryError) as error:
            what = getattr(error, "strerror", None) or "not enough memory"
            message = f"{task['file']} cannot be imported: {what}"
            answer = {"error": "MachineError", "message": message, "hint": "Is there enough memory and disk?"}
        print(json.dumps(answer), file=answers, flush=True)


def _exit_after(parent: int) -> None:
    """End this process when its parent is gone."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)
