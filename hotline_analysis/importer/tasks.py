"""The import of several files as tasks, one a file, which an executor carries out: this process, others, or a cluster.

An executor is told tasks, and yields the answer of each as it ends. What a task and its answer are does not depend on
who carries it out: a few texts, so that they can go to another process or machine.
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
from hotline_analysis.importer.files import TraceFile
from hotline_analysis.importer.one_file import import_file
from hotline_analysis.importer.options import Options, Progress
from hotline_analysis.importer.remote import Remote, copied
from hotline_analysis.importer.stored_rank import StoredRank, import_rank
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
    """A file to import, and the folder that gets its tables."""

    file: TraceFile
    folder: Path
    bytes: int
    """Size of the file."""


Answer = dict[str, Any] | HotlineError
"""What is known of a file that was imported, or why it was not."""

Answers = Generator[tuple[int, Answer], None, None]
"""The number of a task and its answer, in any order. Closing it ends what is still at work."""


class Executor(Protocol):
    """Who carries out tasks. A fault of the machine is tried again, so often as it likes; one of a file is not."""

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
    """Import each file to its folder; return what is known of each, and warnings about the skipped ones.

    With `skip_bad`, a file that is no trace is left out; with `allow_missing`, also one that a machine failed to
    import. Any other error is raised as soon as it is known.
    """

    def is_fatal(error: HotlineError) -> bool:
        if isinstance(error, MachineError):
            return not allow_missing
        return not (skip_bad or allow_missing) or isinstance(error, ModelMismatchError)

    found: dict[int, dict[str, Any]] = {}
    failed: dict[int, HotlineError] = {}
    read = 0
    with closing(executor.run(tasks, options)) as answers:
        for number, answer in answers:
            if isinstance(answer, HotlineError):
                if is_fatal(answer):
                    raise answer
                failed[number] = answer
            else:
                found[number] = {**answer, "bytes": tasks[number].bytes}
            read += tasks[number].bytes
            if on_progress and len(tasks) > 1:
                done = len(found) + len(failed)
                said = f"{done:,} of {len(tasks):,} ranks, {size(read)}"
                on_progress(said + (f", {len(failed):,} failed" if failed else ""), done / len(tasks))
    errors = [failed[number] for number in sorted(failed)]
    if not found:
        raise errors[0]
    warned = some_of([f"skipped: {error.message}" for error in errors], "files were skipped")
    return [found[number] for number in sorted(found)], warned


@dataclass(frozen=True)
class InThisProcess:
    """Imports one file after the other, here."""

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
    """Import a file, which is copied to this machine for that time if it is elsewhere; see `import_file`."""
    if isinstance(file, StoredRank):
        return import_rank(file, folder, threads, on_progress, options)
    if isinstance(file, Path):
        return import_file(file, folder, threads, on_progress, options)
    with copied(file) as (copy, digest):
        known = import_file(copy, folder, threads, on_progress, options)
    return {**known, "path": str(file), "digest": digest}


def order_of(task: Task, options: Options) -> dict[str, str]:
    """A task as texts, for another process or machine."""
    order = {"file": str(task.file), "folder": str(task.folder), "options": options.to_json()}
    if isinstance(task.file, Remote):
        order |= {"url": task.file.url, "size": str(task.file.size), "version": task.file.version}
    elif isinstance(task.file, StoredRank):
        order |= {"run": str(task.file.run), "rank": str(task.file.rank)}
    return order


def carry_out(order: Mapping[str, str], threads: int) -> dict[str, Any]:
    """Import the file of an order. Return an answer that `answer_of` understands, whatever goes wrong with it."""
    file: TraceFile = Path(order["file"])
    if "url" in order:
        file = Remote(order["url"], int(order["size"]), order["version"])
    elif "run" in order:
        file = StoredRank(Path(order["run"]), int(order["rank"]))
    try:
        given = Options.from_json(order["options"])
        return import_one(file, Path(order["folder"]), threads, lambda what, share: None, given)
    except HotlineError as error:
        return {"error": type(error).__name__, "message": error.message, "hint": error.hint}
    except (OSError, MemoryError) as error:
        what = getattr(error, "strerror", None) or "not enough memory"
        message = f"{order['file']} cannot be imported: {what}"
        return {"error": "MachineError", "message": message, "hint": "Is there enough memory and disk?"}


def answer_of(told: Mapping[str, Any]) -> Answer:
    """What `carry_out` returned, in this process."""
    if "error" not in told:
        return dict(told)
    kinds = {kind.__name__: kind for kind in _KINDS}
    return kinds.get(told["error"], HotlineError)(told["message"], hint=told["hint"])
