"""Import several files as tasks, one per file, with an executor: this process, other processes, or a cluster.

An executor receives tasks and yields each answer when ready. Tasks and answers are independent of the executor and
convert to text, for other processes or machines.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from hotline_analysis.database import processors
from hotline_analysis.errors import (
    EmptyTraceError,
    HotlineError,
    MachineError,
    ModelMismatchError,
    RunFormatError,
    TraceFormatError,
)
from hotline_analysis.importer.exports import the_only_process
from hotline_analysis.importer.one_file import import_file
from hotline_analysis.importer.options import Options, Progress
from hotline_analysis.importer.remote import Remote, copied
from hotline_analysis.importer.sources import ExportedProcess, StoredRank, TraceFile
from hotline_analysis.importer.stored_rank import import_rank
from hotline_analysis.text.formats import size, some_of

_KINDS: tuple[type[HotlineError], ...] = (
    TraceFormatError,
    EmptyTraceError,
    RunFormatError,
    ModelMismatchError,
    MachineError,
)


@dataclass(frozen=True)
class Task:
    """A file to import, and the folder for its tables."""

    file: TraceFile
    folder: Path
    bytes: int
    """Size of the file."""


Answer = dict[str, Any] | HotlineError
"""The result for an imported file, or the error."""

Answers = Generator[tuple[int, Answer], None, None]
"""Task numbers with answers, in any order. Closing the generator stops running imports."""


class Executor(Protocol):
    """Interface of executors. An executor may retry errors of the machine, but not errors of a file."""

    def run(self, tasks: Sequence[Task], options: Options) -> Answers:
        """Carry out all tasks."""


def import_all(
    tasks: Sequence[Task],
    executor: Executor,
    options: Options,
    on_progress: Progress | None,
    *,
    skip_bad: bool,
    allow_missing: bool,
) -> tuple[list[dict[str, Any]], list[str]]:
    """Import each file to its folder. Return the results, and warnings about skipped files.

    With `skip_bad`, files that are not traces are skipped; with `allow_missing`, also files that failed because of the
    machine. Any other error is raised immediately.
    """

    def is_fatal(error: HotlineError) -> bool:
        if isinstance(error, MachineError):
            return not allow_missing
        return not (skip_bad or allow_missing) or isinstance(error, ModelMismatchError)

    entries: dict[int, dict[str, Any]] = {}
    failures: dict[int, HotlineError] = {}
    read_bytes = 0
    with closing(executor.run(tasks, options)) as answers:
        for number, answer in answers:
            if isinstance(answer, HotlineError):
                if is_fatal(answer):
                    raise answer
                failures[number] = answer
            else:
                entries[number] = {**answer, "bytes": tasks[number].bytes}
            read_bytes += tasks[number].bytes
            if on_progress and len(tasks) > 1:
                count = len(entries) + len(failures)
                sentence = f"{count:,} of {len(tasks):,} ranks, {size(read_bytes)}"
                on_progress(sentence + (f", {len(failures):,} failed" if failures else ""), count / len(tasks))
    errors = [failures[number] for number in sorted(failures)]
    if not entries:
        raise errors[0]
    messages = some_of([f"skipped: {error.message}" for error in errors], "files were skipped")
    return [entries[number] for number in sorted(entries)], messages


@dataclass(frozen=True)
class InThisProcess:
    """Imports one file after another in this process."""

    on_progress: Progress | None = None

    def run(self, tasks: Sequence[Task], options: Options) -> Answers:
        """Carry out all tasks."""
        for number, task in enumerate(tasks):

            def report(what: str, share: float, done: int = number) -> None:
                if self.on_progress:
                    self.on_progress(what, (done + share) / len(tasks))

            try:
                yield number, import_one(task.file, task.folder, processors(), report, options)
            except HotlineError as error:
                yield number, error


def import_one(file: TraceFile, folder: Path, threads: int, on_progress: Progress, options: Options) -> dict[str, Any]:
    """Import a file; see `import_file`. A remote file is copied to this machine during the import."""
    if isinstance(file, StoredRank):
        return import_rank(file, folder, threads, on_progress, options)
    if isinstance(file, Path | ExportedProcess):
        return import_file(file, folder, threads, on_progress, options)
    with copied(file) as (copy, digest):
        entry = import_file(the_only_process(copy, str(file)), folder, threads, on_progress, options)
    return {**entry, "path": str(file), "digest": digest}


def order_of(task: Task, options: Options) -> dict[str, str]:
    """Return a task as text fields, for another process or machine."""
    order = {"file": str(task.file), "folder": str(task.folder), "options": options.to_json()}
    if isinstance(task.file, Remote):
        order |= {"url": task.file.url, "size": str(task.file.size), "version": task.file.version}
    elif isinstance(task.file, ExportedProcess):
        order |= {name: str(value) for name, value in vars(task.file).items()}
    elif isinstance(task.file, StoredRank):
        order |= {"run": str(task.file.run), "rank": str(task.file.rank)}
    return order


def carry_out(order: Mapping[str, str], threads: int) -> dict[str, Any]:
    """Import the file of an order. Return an answer for `answer_of`, also after an error."""
    file: TraceFile = Path(order["file"])
    if "url" in order:
        file = Remote(order["url"], int(order["size"]), order["version"])
    elif "process" in order:
        numbers = (int(order[name]) for name in ("process", "position", "count"))
        file = ExportedProcess(Path(order["file"]), order["called"], *numbers)
    elif "run" in order:
        file = StoredRank(Path(order["run"]), int(order["rank"]))
    try:
        options = Options.from_json(order["options"])
        return import_one(file, Path(order["folder"]), threads, lambda what, share: None, options)
    except HotlineError as error:
        return {"error": type(error).__name__, "message": error.message, "hint": error.hint}
    except (OSError, MemoryError) as error:
        what = getattr(error, "strerror", None) or "not enough memory"
        message = f"{order['file']} cannot be imported: {what}"
        return {"error": "MachineError", "message": message, "hint": "Is there enough memory and disk?"}


def answer_of(told: Mapping[str, Any]) -> Answer:
    """Convert the return value of `carry_out` to an answer in this process."""
    if "error" not in told:
        return dict(told)
    kinds = {kind.__name__: kind for kind in _KINDS}
    return kinds.get(told["error"], HotlineError)(told["message"], hint=told["hint"])
