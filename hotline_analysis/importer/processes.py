"""Several trace files, imported by as many processes as there are processors, unless they are small.

A process is this module run as a program: unlike `multiprocessing`, that asks nothing of the caller's main module. It
imports file after file, since to start one takes as long as to import a small trace. It is told each, and answers, in a
line of JSON. When one is killed, only its file has to be imported again: pools such as those of `concurrent.futures`
and loky (3.7) give up every file that still waits.
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
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress

from hotline_analysis.atomic import begin, end
from hotline_analysis.database import memory_bytes, processors
from hotline_analysis.errors import MachineError
from hotline_analysis.importer.options import Options, Progress
from hotline_analysis.importer.tasks import (
    Answer,
    Answers,
    Executor,
    InThisProcess,
    Task,
    answer_of,
    carry_out,
    order_of,
)

# Looks for modules where this process does, and not in the working directory, where anything may lie beside the traces.
_CHILD = (
    "import sys; sys.path[:] = sys.argv.pop(1).split(chr(10));"
    " from hotline_analysis.importer.processes import _main; _main()"
)


# To start a process takes as long as to import a megabyte of JSON.
_WORTH_PROCESSES_BYTES = 1 << 20
_MOST_PROCESSES = 16
PROCESS_BYTES = 1_000_000_000  # of memory, which a process takes at most for a file of 5 GB


def chosen(tasks: Sequence[Task], workers: int | None, on_progress: Progress | None) -> Executor:
    """Who imports some files on this machine: so many processes, or by default as many as are worth it and fit."""
    is_small = workers is None and sum(task.bytes for task in tasks) < _WORTH_PROCESSES_BYTES
    if len(tasks) == 1 or is_small:
        return InThisProcess(on_progress)
    if workers is None:
        fit = max(1, memory_bytes() // PROCESS_BYTES)
        workers = min(processors(), _MOST_PROCESSES, fit)
    return Processes(min(len(tasks), workers))


class Processes:
    """Imports files by several processes of this machine."""

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._threads = max(1, processors() // workers)

    def run(self, tasks: Sequence[Task], options: Options) -> Answers:
        """Carry out all tasks."""
        started = [_Worker(self._threads) for _ in range(self._workers)]
        idle: queue.SimpleQueue[_Worker] = queue.SimpleQueue()
        for worker in started:
            idle.put(worker)

        def ask(task: Task) -> Answer:
            """Import a file in the next process that is free; another takes the place of one that dies of it."""
            worker = idle.get()
            answer = worker.import_file(task, options)
            if not worker.alive:
                worker = _Worker(self._threads)
                started.append(worker)
            idle.put(worker)
            return answer

        def run(task: Task) -> Answer:
            answer = ask(task)
            if isinstance(answer, MachineError):  # perhaps others took the memory; what is wrong with the file stays so
                shutil.rmtree(task.folder)
                task.folder.mkdir()
                answer = ask(task)
            return answer

        pool = ThreadPoolExecutor(self._workers)
        try:
            numbers: dict[Future[Answer], int] = {pool.submit(run, task): n for n, task in enumerate(tasks)}
            waiting = set(numbers)
            while waiting:
                # Wakes up to be interrupted, even if another thread receives the signal.
                ready, waiting = wait(waiting, timeout=0.2, return_when="FIRST_COMPLETED")
                for future in ready:
                    yield numbers[future], future.result()
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
        self._stopping = threading.Lock()  # two threads may find out that it is to end
        self._undo = begin(self._kill)
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - stays open; a pipe would have to be read all the time
        self._process = subprocess.Popen(
            [sys.executable, "-c", _CHILD, "\n".join(sys.path), str(threads), str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            encoding="utf-8",
        )

    def import_file(self, task: Task, options: Options) -> Answer:
        """Import a file. If the process dies, it was perhaps killed for the memory that it took."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(order_of(task, options)) + "\n")
            self._process.stdin.flush()
            answer = json.loads(self._process.stdout.readline())
        except (OSError, ValueError):
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(5)
            reason = self._last_words()
            self.stop()
            return MachineError(
                f"importing {task.file} failed (exit status {self._process.returncode}): {reason}",
                hint="Is there enough memory? Import again, or leave the file out (--allow-missing).",
            )
        return answer_of(answer)

    def stop(self) -> None:
        """End the process, whatever it is doing."""
        with self._stopping:
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
        answer = carry_out(json.loads(line), int(threads))
        print(json.dumps(answer), file=answers, flush=True)


def _exit_after(parent: int) -> None:
    """End this process when its parent is gone."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)
