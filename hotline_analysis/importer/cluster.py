"""Import files with the workers of a Dask cluster.

Each worker writes the part of a file next to the run, or to a store. Dask reassigns the task of a dead worker a few
times. This module retries errors of a worker's machine (memory, disk). Errors of a file are final.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hotline_analysis.atomic import begin_folder, finish, remove
from hotline_analysis.database import memory_bytes
from hotline_analysis.errors import HotlineError, MachineError
from hotline_analysis.importer.options import Options
from hotline_analysis.importer.parts import begin_part, keep, kept
from hotline_analysis.importer.processes import PROCESS_BYTES
from hotline_analysis.importer.remote_parts import PartsInStore
from hotline_analysis.importer.tasks import Answer, Answers, Task, answer_of, carry_out, order_of
from hotline_analysis.schema import FORMAT_VERSION

if TYPE_CHECKING:
    from distributed import Client, Future

    Cluster = str | Client

_CONNECT_S = 10  # for an answer of the scheduler
_NO_WORKER_S = 300  # without a single worker; a job queue may need time to start one
_VISIBLE_S = 60  # until a shared file system shows the work of another machine
_TRIES = 3  # for errors of a worker's machine
_PAUSE_S = 0.1
_LOOK_S = 2.0
_LOCAL = {
    # A worker has one file at a time: the memory limit is for one import, and no file waits while another worker is
    # free.
    "distributed.scheduler.worker-saturation": 1.0,
    # Otherwise a worker that is dead this long is given up for good, although it is restarted.
    "distributed.deploy.lost-worker-timeout": "1 day",
}
_HINT = "Start a scheduler with `dask scheduler`, and workers with `dask worker ADDRESS`."


@contextmanager
def connected(cluster: Cluster) -> Iterator[Client]:
    """Connect to a cluster: `local:N` starts N worker processes here, and an address names an existing cluster.

    A `Client` given by the caller stays open. Raises `HotlineError` if the cluster or Dask is missing.
    """
    try:
        import dask
        from distributed import Client, LocalCluster
    except ImportError as error:
        raise HotlineError(
            f"importing on a cluster needs Dask: {error}", hint="pip install 'hotline-analysis[cluster]'"
        ) from None
    if isinstance(cluster, Client):
        if cluster.asynchronous:
            raise HotlineError("the client must not be asynchronous", hint="Pass Client(address).")
        yield cluster
        return
    cluster = str(cluster)
    kind, _, rest = cluster.partition(":")
    with ExitStack() as stack:
        local_cluster: LocalCluster | None = None
        if kind == "local":
            if not rest.isascii() or not rest.isdigit() or not 0 < int(rest) < 10_000:
                raise HotlineError(f"{cluster!r} has no number of workers", hint="Write local:4, for example.")
            try:
                stack.enter_context(dask.config.set(_LOCAL))
                local_cluster = stack.enter_context(
                    LocalCluster(
                        n_workers=int(rest),
                        threads_per_worker=1,
                        processes=True,
                        # Dask's default could give all workers together several times the machine's memory.
                        memory_limit=max(memory_bytes() // int(rest), PROCESS_BYTES),
                        dashboard_address="127.0.0.1:0",
                        silence_logs=logging.CRITICAL,
                    )
                )
            except (RuntimeError, OSError, TimeoutError) as error:
                raise HotlineError(
                    f"cannot start {rest} worker processes: {error}",
                    hint="Start workers under `if __name__ == '__main__':`, because workers import the script.",
                ) from error
        is_file = cluster.endswith(".json")
        if not rest and not is_file:
            raise HotlineError(f"{cluster!r} is not a address of a scheduler", hint="Write tcp://HOST:8786 or local:4.")
        if is_file and not Path(cluster).exists():  # Dask would wait for it
            raise HotlineError(f"{cluster} does not exist", hint=f"A scheduler writes this file. {_HINT}")
        target = {"scheduler_file": cluster} if is_file else {"address": local_cluster or cluster}
        try:
            client = stack.enter_context(Client(**target, timeout=_CONNECT_S, set_as_default=False))
        except (OSError, TimeoutError, ValueError, TypeError) as error:
            raise HotlineError(
                f"no Dask scheduler answers at {cluster} within {_CONNECT_S} s",
                hint=f"Is the scheduler running? {_HINT}",
            ) from error
        yield client


class OnCluster:
    """Imports files with the workers of a cluster. Parts kept from an earlier attempt are reused."""

    def __init__(self, client: Client, store: PartsInStore | None = None) -> None:
        self._client = client
        self._store = store

    def run(self, tasks: Sequence[Task], options: Options) -> Answers:
        """Carry out all tasks, large files first, so that no large file is left at the end."""
        from distributed import as_completed

        open_numbers = []
        for number, record in _found(tasks) if self._store is None else _copied(tasks, self._store):
            if record is None:
                open_numbers.append(number)
            else:
                yield number, record
        open_numbers.sort(key=lambda number: tasks[number].bytes, reverse=True)
        numbers: dict[Future[Any], int] = {}  # of the submitted tasks
        suspects: list[int] = []
        attempts = dict.fromkeys(open_numbers, 0)
        common = {"format": str(FORMAT_VERSION)} | _of_store(self._store, options)

        def submit(wanted: Sequence[int]) -> list[Future[Any]]:
            orders = [order_of(tasks[number], options) | common for number in wanted]
            futures = self._client.map(import_part, orders, pure=False, retries=0)
            numbers.update(zip(futures, wanted, strict=True))
            return list(futures)

        results = as_completed(submit(open_numbers), loop=self._client.loop, with_results=True, raise_errors=False)
        patience = _Patience(self._client)
        try:
            while attempts:
                if not numbers:
                    results.update(submit([suspects.pop()]))
                if not results.has_ready():
                    patience.look()
                    time.sleep(_PAUSE_S)
                for future, result in results.next_batch(block=False):
                    number = numbers.pop(future)
                    attempts[number] += 1
                    if _is_killed(result) and attempts[number] == 1:
                        # Dask also blames tasks that only waited on a dead worker. Run alone, the culprit is
                        # identified.
                        suspects.append(number)
                        continue
                    answer = _answer(result, tasks[number], self._store)
                    if isinstance(answer, MachineError) and _is_told(result) and attempts[number] < _TRIES:
                        results.update(submit([number]))
                        continue
                    del attempts[number]
                    yield number, answer
        finally:
            if numbers and self._client.status == "running":
                self._client.cancel(list(numbers))


def _found(tasks: Sequence[Task]) -> Iterator[tuple[int, dict[str, Any] | None]]:
    """Return the record of each task with a kept part, and None for the other tasks.

    Folders are listed, because a shared file system would cache the absence of a name that was looked up.
    """
    names_in: dict[Path, set[str]] = {}
    for number, task in enumerate(tasks):
        folder = task.folder.parent
        if folder not in names_in:
            names_in[folder] = {item.name for item in folder.iterdir()}
        yield number, kept(task.folder) if task.folder.name in names_in[folder] else None


def _copied(tasks: Sequence[Task], store: PartsInStore) -> Iterator[tuple[int, dict[str, Any] | None]]:
    """Return the same for parts in a store. Existing parts are copied to this machine."""
    part_names = store.complete()
    for number, task in enumerate(tasks):
        record = None
        if task.folder.name in part_names:
            with suppress(MachineError):  # the part is incomplete and is made again
                record = store.copy(task)
        yield number, record


def _of_store(store: PartsInStore | None, options: Options) -> dict[str, str]:
    """Return the fields to add to an order for workers without a shared folder: the store's URL, and the model's text.

    Empty without a store.
    """
    if store is None:
        return {}
    model = {} if options.model is None else {"model": options.model.read_text(encoding="utf-8")}
    return {"store": store.url, **model}


def import_part(order: dict[str, str]) -> dict[str, Any]:
    """Import the trace file named in an order, on a worker. Return the record of the part, or of the error."""
    part = Path(order["folder"])
    if order["format"] != str(FORMAT_VERSION):
        return {
            "error": "MachineError",
            "message": f"a worker writes runs of format {FORMAT_VERSION}, and {order['format']} is asked for",
            "hint": "Install the same version of hotline_analysis on all workers.",
        }
    if "store" in order:
        return _import_to_store(order)
    if (record := kept(part)) is not None:  # made by a worker that died before reporting, or was cancelled
        return record
    try:
        attempt = begin_part(part)
    except OSError as error:
        return {
            "error": "MachineError",
            "message": f"a worker cannot write to {part.parent}: {error.strerror or error}",
            "hint": "The run must lie on a file system that all workers and this machine share.",
        }
    try:
        record = carry_out({**order, "folder": str(attempt)}, threads=1)
        if "error" not in record:
            record["folder"] = str(part)
            keep(attempt, part, record)
        return record
    except OSError as error:
        return _no_disk(order, error)
    finally:
        remove(attempt)


def _import_to_store(order: dict[str, str]) -> dict[str, Any]:
    """Import the file of an order in a temporary folder, and put the part into a store."""
    store = PartsInStore(order["store"])
    name = Path(order["folder"]).name
    folder, undo = begin_folder()
    try:
        if (record := store.known(name)) is not None:
            return record
        options = Options.from_json(order["options"])
        copy = folder / "model.json"
        if "model" in order:
            copy.write_text(order["model"], encoding="utf-8")
        model = options.model and copy
        part_folder = folder / "part"
        part_folder.mkdir()
        record = carry_out(
            {**order, "folder": str(part_folder), "options": replace(options, model=model).to_json()}, threads=1
        )
        # Messages about the copy of the model refer to the original file.
        for field in ("message", "notes"):
            if field in record:
                record[field] = json.loads(json.dumps(record[field]).replace(str(copy), str(options.model)))
        if "error" not in record:
            del record["folder"]
            store.put(part_folder, name, record)
        return record
    except HotlineError as error:
        return {"error": "MachineError", "message": error.message, "hint": error.hint}
    except OSError as error:
        return _no_disk(order, error)
    finally:
        finish(undo)


def _no_disk(order: dict[str, str], error: OSError) -> dict[str, Any]:
    message = f"{order['file']} cannot be imported: {error.strerror or error}"
    return {"error": "MachineError", "message": message, "hint": "Is there enough disk?"}


def _is_told(result: object) -> bool:
    """Return whether a worker reported an error."""
    return isinstance(result, dict) and "error" in result


def _is_killed(result: object) -> bool:
    """Return whether Dask gave up a task because too many of its workers died."""
    from distributed import KilledWorker

    return isinstance(result, tuple) and isinstance(result[1], KilledWorker)


def _answer(result: object, task: Task, store: PartsInStore | None) -> Answer:
    """Convert a result from Dask to an answer. The result is an answer, or an exception with type and traceback.

    A successful part must also be visible on this machine.
    """
    if isinstance(result, dict):
        answer = answer_of(result)
        if isinstance(answer, HotlineError):
            return answer
        if store is not None:
            try:
                return store.copy(task)
            except MachineError as failure:
                return failure
        deadline = time.monotonic() + _VISIBLE_S
        while not task.folder.is_dir():
            if time.monotonic() > deadline:
                return MachineError(
                    f"a worker has imported {task.file}, but the tables are not in {task.folder.parent}",
                    hint="The run must be on a file system shared by all workers and this machine.",
                )
            time.sleep(_PAUSE_S)
        return answer
    if not isinstance(result, tuple):
        raise MachineError("the scheduler was lost, or restarted", hint="Import again.")
    if _is_killed(result):
        return MachineError(
            f"importing {task.file} failed: every worker died, probably because of too little memory",
            hint="An import takes up to 1 GB: give workers more memory, or leave the file out (--allow-missing).",
        )
    error = result[1]
    message = str(error).partition("\n")[0]
    return MachineError(
        f"a worker failed at {task.file}: {type(error).__name__}: {message}",
        hint="Do the workers have the same version of Python, Dask and hotline_analysis as this machine?",
    )


class _Patience:
    """Raises an error if the cluster can no longer make progress."""

    def __init__(self, client: Client, store: PartsInStore | None = None) -> None:
        self._client = client
        self._store = store
        self._looked = self._seen = time.monotonic()

    def look(self) -> None:
        """Raise `MachineError` if the scheduler is gone, or has had no worker for a long time."""
        now = time.monotonic()
        if now - self._looked < _LOOK_S:
            return
        self._looked = now
        try:
            has_worker = bool(self._client.scheduler_info(n_workers=1)["workers"])
        except OSError as error:
            raise MachineError("the scheduler was lost", hint="Import again.") from error
        if has_worker:
            self._seen = now
        elif now - self._seen > _NO_WORKER_S:
            raise MachineError(f"the cluster has had no worker for {_NO_WORKER_S} s", hint=_HINT)
