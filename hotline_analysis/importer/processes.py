"""Import several trace files with one process per processor, unless the files are small.

A process runs this module as a program: unlike `multiprocessing`, this requires nothing of the caller's main module. A
process imports file after file, because starting one takes as long as importing a small trace. Orders and answers are
lines of JSON. If a process is killed, only its file has to be imported again; pools such as `concurrent.futures` and
loky (3.7) would give up all waiting files.
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

# Searches the same modules as this process, and not the working directory, which may contain anything next to traces.
_CHILD = (
    "import sys; sys.path[:] = sys.argv.pop(1).split(chr(10));"
    " from hotline_analysis.importer.processes import _main; _main()"
)


# Starting a process takes as long as importing a megabyte of JSON.
_WORTH_PROCESSES_BYTES = 1 << 20
_MOST_PROCESSES = 16
PROCESS_BYTES = 1_000_000_000  # maximum memory of a process, for a file of 5 GB


def chosen(tasks: Sequence[Task], workers: int | None, on_progress: Progress | None) -> Executor:
    """Return the executor on this machine: `workers` processes, or by default as many as pay off and fit in memory."""
    is_small = workers is None and sum(task.bytes for task in tasks) < _WORTH_PROCESSES_BYTES
    if len(tasks) == 1 or is_small:
        return InThisProcess(on_progress)
    if workers is None:
        fit = max(1, memory_bytes() // PROCESS_BYTES)
        workers = min(processors(), _MOST_PROCESSES, fit)
    return Processes(min(len(tasks), workers))


class Processes:
    """Imports files with several processes of this machine."""

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._threads = max(1, processors() // workers)

    def run(self, tasks: Sequence[Task], options: Options) -> Answers:
        """Carry out all tasks."""
        workers = [_Worker(self._threads) for _ in range(self._workers)]
        idle: queue.SimpleQueue[_Worker] = queue.SimpleQueue()
        for worker in workers:
            idle.put(worker)

        def ask(task: Task) -> Answer:
            """Import a file with the next idle process. A process that dies is replaced."""
            worker = idle.get()
            answer = worker.import_file(task, options)
            if not worker.alive:
                worker = _Worker(self._threads)
                workers.append(worker)
            idle.put(worker)
            return answer

        def run(task: Task) -> Answer:
            answer = ask(task)
            # perhaps other processes took the memory; errors of the file itself are permanent
            if isinstance(answer, MachineError):
                shutil.rmtree(task.folder)
                task.folder.mkdir()
                answer = ask(task)
            return answer

        pool = ThreadPoolExecutor(self._workers)
        try:
            numbers: dict[Future[Answer], int] = {pool.submit(run, task): n for n, task in enumerate(tasks)}
            waiting = set(numbers)
            while waiting:
                # Wakes up regularly to handle interrupts, even if another thread receives the signal.
                ready, waiting = wait(waiting, timeout=0.2, return_when="FIRST_COMPLETED")
                for future in ready:
                    yield numbers[future], future.result()
        finally:  # when interrupted, do not wait for running imports
            pool.shutdown(wait=False, cancel_futures=True)
            for worker in list(workers):
                worker.stop()
            pool.shutdown()
            for worker in workers:
                worker.stop()  # a replacement started in the meantime


class _Worker:
    """A process that imports one file after another."""

    def __init__(self, threads: int) -> None:
        self.alive = True
        self._stopping = threading.Lock()  # two threads may try to stop it at once
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
        """Import a file. If the process dies, it was perhaps killed for its memory use."""
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
                    with suppress(OSError):  # unread input of a process that died
                        stream.close()

    def _kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def _last_words(self) -> str:
        self._errors.seek(0)
        lines = self._errors.read().decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else "no message"


def _main() -> None:
    """Import the files named on standard input until it ends."""
    threads, parent = sys.argv[1:]
    threading.Thread(target=_exit_after, args=[int(parent)], daemon=True).start()
    # Output printed by libraries goes to stderr, not into the answers.
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
