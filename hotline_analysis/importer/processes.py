"""Several trace files, imported by as many processes as there are processors, unless they are small.

A process is this module run as a program: unlike `multiprocessing`, that asks nothing of the caller's main module.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

from hotline_analysis.errors import EmptyTraceError, HotlineError, ModelMismatchError, TraceFormatError
from hotline_analysis.importer.one_file import import_file
from hotline_analysis.importer.options import Options, Progress

# Looks for modules where this process does, and not in the working directory, where anything may lie beside the traces.
_CHILD = (
    "import sys; sys.path[:] = sys.argv.pop(1).split(chr(10));"
    " from hotline_analysis.importer.processes import _main; _main()"
)


# To start a process takes as long as to import a megabyte of JSON.
_WORTH_PROCESSES_BYTES = 1 << 20


def import_all(
    files: Sequence[Path], partial: Path, options: Options, on_progress: Progress | None, *, skip_bad: bool
) -> tuple[list[dict[str, Any]], list[str]]:
    """Import each file to a folder of its own; return what is known of each, and warnings about the skipped ones."""
    folders = [partial / f"part-{number}" for number in range(len(files))]
    for folder in folders:
        folder.mkdir()
    results: Iterable[dict[str, Any] | HotlineError]
    if len(files) == 1 or sum(file.stat().st_size for file in files) < _WORTH_PROCESSES_BYTES:
        results = _in_this_process(files, folders, options, on_progress or (lambda what, share: None))
    else:
        results = _in_processes(files, folders, options, on_progress)
    parts: list[dict[str, Any]] = []
    warned = []
    failed: list[HotlineError] = []
    for result in results:
        if isinstance(result, HotlineError):
            failed.append(result)
            warned.append(f"skipped: {result.message}")
        else:
            parts.append(result)
    for error in failed:
        if not parts or not skip_bad or isinstance(error, ModelMismatchError):
            raise error
    return parts, warned


def _in_this_process(
    files: Sequence[Path], folders: Sequence[Path], options: Options, on_progress: Progress
) -> Iterator[dict[str, Any] | HotlineError]:
    for number, (file, folder) in enumerate(zip(files, folders, strict=True)):

        def report(what: str, share: float, done: int = number) -> None:
            on_progress(what, (done + share) / len(files))

        try:
            yield import_file(file, folder, os.cpu_count() or 1, report, options)
        except HotlineError as error:
            yield error


def _in_processes(
    files: Sequence[Path], folders: Sequence[Path], options: Options, on_progress: Progress | None
) -> list[dict[str, Any] | HotlineError]:
    processors = os.cpu_count() or 1
    workers = min(len(files), processors)
    threads = max(1, processors // workers)
    running: set[subprocess.Popen[str]] = set()
    done = 0

    def run(number: int) -> dict[str, Any] | HotlineError:
        nonlocal done
        arguments = ["\n".join(sys.path), str(files[number]), str(folders[number]), str(threads), str(os.getpid())]
        arguments.append(options.to_json())
        process = subprocess.Popen(
            [sys.executable, "-c", _CHILD, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
        )
        running.add(process)
        out, err = process.communicate()
        running.remove(process)
        done += 1
        if on_progress:
            on_progress(f"imported {files[number].name}", done / len(files))
        return _parse_result(out, err, process.returncode, files[number])

    pool = ThreadPoolExecutor(workers)
    try:
        futures = [pool.submit(run, number) for number in range(len(files))]
        while wait(futures, timeout=0.2).not_done:
            pass  # wakes up to be interrupted, even if another thread receives the signal
        return [future.result() for future in futures]
    finally:  # when interrupted, do not wait for what is still running
        pool.shutdown(wait=False, cancel_futures=True)
        for process in list(running):
            process.kill()
        pool.shutdown()


def _parse_result(out: str, err: str, status: int, file: Path) -> dict[str, Any] | HotlineError:
    try:
        result: dict[str, Any] = json.loads(out.splitlines()[-1])
    except (ValueError, IndexError):
        reason = (err.strip().splitlines() or ["no message"])[-1]
        return HotlineError(f"importing {file} failed (exit status {status}): {reason}")
    if "error" in result:
        kinds = {kind.__name__: kind for kind in (TraceFormatError, EmptyTraceError, ModelMismatchError)}
        return kinds.get(result["error"], HotlineError)(result["message"], hint=result["hint"])
    return result


def _main() -> None:
    """Import one file on behalf of another process and print the result as a line of JSON."""
    file, folder, threads, parent, options = sys.argv[1:]
    threading.Thread(target=_exit_after, args=[int(parent)], daemon=True).start()
    try:
        given = Options.from_json(options)
        result = import_file(Path(file), Path(folder), int(threads), lambda what, share: None, given)
    except HotlineError as error:
        result = {"error": type(error).__name__, "message": error.message, "hint": error.hint}
    print(json.dumps(result))


def _exit_after(parent: int) -> None:
    """End this process when its parent is gone."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)
