"""Files imported by workers of a Dask cluster, each of which writes the part of a file beside the run, or to a store.

Dask gives the task of a worker that died to another one, some times; what a worker says of its machine (memory, disk)
is tried again here. Whatever a worker says of a file is final.
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
_NO_WORKER_S = 300  # without a single worker; a queue of jobs may take its time to start one
_VISIBLE_S = 60  # until a shared file system shows here the work of another machine
_TRIES = 3  # for what a worker's machine fails at
_PAUSE_S = 0.1
_LOOK_S = 2.0
_LOCAL = {
    # A worker has one file at a time: its limit of memory is that of one import, and no file waits behind a long one
    # while another worker is free.
    "distributed.scheduler.worker-saturation": 1.0,
    # Else a worker is given up for good if it happens to be dead so long after a death, though it is started again.
    "distributed.deploy.lost-worker-timeout": "1 day",
}
_HINT = "`dask scheduler` starts one, and `dask worker ADDRESS` a worker of it."


@contextmanager
def connected(cluster: Cluster) -> Iterator[Client]:
    """A client of a cluster: `local:N` starts one of N processes here, and an address names one that is there.

    A client that is given stays open. Raises `HotlineError` if there is no such cluster, or no Dask.
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
            raise HotlineError("an asynchronous client cannot be waited for", hint="Pass Client(address).")
        yield cluster
        return
    cluster = str(cluster)
    kind, _, rest = cluster.partition(":")
    with ExitStack() as opened:
        started: LocalCluster | None = None
        if kind == "local":
            if not rest.isascii() or not rest.isdigit() or not 0 < int(rest) < 10_000:
                raise HotlineError(f"{cluster!r} names no number of workers", hint="Write local:4, for example.")
            try:
                opened.enter_context(dask.config.set(_LOCAL))
                started = opened.enter_context(
                    LocalCluster(
                        n_workers=int(rest),
                        threads_per_worker=1,
                        processes=True,
                        # By Dask itself, all together could take several times what the machine has.
                        memory_limit=max(memory_bytes() // int(rest), PROCESS_BYTES),
                        dashboard_address="127.0.0.1:0",
                        silence_logs=logging.CRITICAL,
                    )
                )
            except (RuntimeError, OSError, TimeoutError) as error:
                raise HotlineError(
                    f"the workers of {rest} processes could not be started: {error}",
                    hint="A script must do it under `if __name__ == '__main__':`, as its workers read it, too.",
                ) from error
        is_file = cluster.endswith(".json")
        if not rest and not is_file:
            raise HotlineError(f"{cluster!r} is no address of a scheduler", hint="Write tcp://HOST:8786 or local:4.")
        if is_file and not Path(cluster).exists():  # Dask would wait for it
            raise HotlineError(f"{cluster} does not exist", hint=f"A scheduler writes it. {_HINT}")
        given = {"scheduler_file": cluster} if is_file else {"address": started or cluster}
        try:
            client = opened.enter_context(Client(**given, timeout=_CONNECT_S, set_as_default=False))
        except (OSError, TimeoutError, ValueError, TypeError) as error:
            raise HotlineError(
                f"no Dask scheduler answers at {cluster} within {_CONNECT_S} s", hint=f"Is it running? {_HINT}"
            ) from error
        yield client


class OnCluster:
    """Imports files by the workers of a cluster; parts that are kept are not made again."""

    def __init__(self, client: Client, store: PartsInStore | None = None) -> None:
        self._client = client
        self._store = store

    def run(self, tasks: Sequence[Task], options: Options) -> Answers:
        """Carry out all tasks, those of large files first, so that none is left over to the end."""
        from distributed import as_completed

        left = []
        for number, known in _found(tasks) if self._store is None else _copied(tasks, self._store):
            if known is None:
                left.append(number)
            else:
                yield number, known
        left.sort(key=lambda number: tasks[number].bytes, reverse=True)
        numbers: dict[Future[Any], int] = {}  # of the tasks that workers have
        suspects: list[int] = []
        tried = dict.fromkeys(left, 0)
        common = {"format": str(FORMAT_VERSION)} | _of_store(self._store, options)

        def submit(wanted: Sequence[int]) -> list[Future[Any]]:
            orders = [order_of(tasks[number], options) | common for number in wanted]
            futures = self._client.map(import_part, orders, pure=False, retries=0)
            numbers.update(zip(futures, wanted, strict=True))
            return list(futures)

        ended = as_completed(submit(left), loop=self._client.loop, with_results=True, raise_errors=False)
        patience = _Patience(self._client)
        try:
            while tried:
                if not numbers:
                    ended.update(submit([suspects.pop()]))
                if not ended.has_ready():
                    patience.look()
                    time.sleep(_PAUSE_S)
                for future, result in ended.next_batch(block=False):
                    number = numbers.pop(future)
                    tried[number] += 1
                    if _is_killed(result) and tried[number] == 1:
                        # Dask also suspects one that only waited there. Alone, it is told from what killed them.
                        suspects.append(number)
                        continue
                    answer = _answer(result, tasks[number], self._store)
                    if isinstance(answer, MachineError) and _is_told(result) and tried[number] < _TRIES:
                        ended.update(submit([number]))
                        continue
                    del tried[number]
                    yield number, answer
        finally:
            if numbers and self._client.status == "running":
                self._client.cancel(list(numbers))


def _found(tasks: Sequence[Task]) -> Iterator[tuple[int, dict[str, Any] | None]]:
    """What is known of each task whose part is kept, and None for the others.

    Nothing is looked for by name that is not there: a shared file system would remember that it is not.
    """
    there: dict[Path, set[str]] = {}
    for number, task in enumerate(tasks):
        folder = task.folder.parent
        if folder not in there:
            there[folder] = {item.name for item in folder.iterdir()}
        yield number, kept(task.folder) if task.folder.name in there[folder] else None


def _copied(tasks: Sequence[Task], store: PartsInStore) -> Iterator[tuple[int, dict[str, Any] | None]]:
    """The same of parts in a store; those that are there are copied to this machine."""
    there = store.complete()
    for number, task in enumerate(tasks):
        known = None
        if task.folder.name in there:
            with suppress(MachineError):  # not whole, so it is made again
                known = store.copy(task)
        yield number, known


def _of_store(store: PartsInStore | None, options: Options) -> dict[str, str]:
    """What an order has more if workers share no folder with this machine: the store, and the text of the model."""
    if store is None:
        return {}
    model = {} if options.model is None else {"model": options.model.read_text(encoding="utf-8")}
    return {"store": store.url, **model}


def import_part(order: dict[str, str]) -> dict[str, Any]:
    """Import the file of an order on a worker."""
    part = Path(order["folder"])
    if order["format"] != str(FORMAT_VERSION):
        return {
            "error": "MachineError",
            "message": f"a worker writes runs of format {FORMAT_VERSION}, and {order['format']} is asked for",
            "hint": "Install the same version of hotline_analysis on all workers.",
        }
    if "store" in order:
        return _import_to_store(order)
    if (known := kept(part)) is not None:  # by one that died before it could say so, or was cancelled
        return known
    try:
        attempt = begin_part(part)
    except OSError as error:
        return {
            "error": "MachineError",
            "message": f"a worker cannot write to {part.parent}: {error.strerror or error}",
            "hint": "The run must lie on a file system that all workers and this machine share.",
        }
    try:
        known = carry_out({**order, "folder": str(attempt)}, threads=1)
        if "error" not in known:
            known["folder"] = str(part)
            keep(attempt, part, known)
        return known
    except OSError as error:
        return _no_disk(order, error)
    finally:
        remove(attempt)


def _import_to_store(order: dict[str, str]) -> dict[str, Any]:
    """Import the file of an order in a temporary folder, and put its part into a store."""
    store = PartsInStore(order["store"])
    name = Path(order["folder"]).name
    folder, undo = begin_folder()
    try:
        if (known := store.known(name)) is not None:
            return known
        options = Options.from_json(order["options"])
        copy = folder / "model.json"
        if "model" in order:
            copy.write_text(order["model"], encoding="utf-8")
        model = options.model and copy
        made = folder / "part"
        made.mkdir()
        known = carry_out({**order, "folder": str(made), "options": replace(options, model=model).to_json()}, threads=1)
        # What is said of the copy of the model is said of its file.
        for told in ("message", "notes"):
            if told in known:
                known[told] = json.loads(json.dumps(known[told]).replace(str(copy), str(options.model)))
        if "error" not in known:
            del known["folder"]
            store.put(made, name, known)
        return known
    except HotlineError as error:
        return {"error": "MachineError", "message": error.message, "hint": error.hint}
    except OSError as error:
        return _no_disk(order, error)
    finally:
        finish(undo)


def _no_disk(order: dict[str, str], error: OSError) -> dict[str, Any]:
    what = f"{order['file']} cannot be imported: {error.strerror or error}"
    return {"error": "MachineError", "message": what, "hint": "Is there enough disk?"}


def _is_told(result: object) -> bool:
    """Whether a worker has told of an error."""
    return isinstance(result, dict) and "error" in result


def _is_killed(result: object) -> bool:
    """Whether Dask has given a task up, since so many workers died that had it."""
    from distributed import KilledWorker

    return isinstance(result, tuple) and isinstance(result[1], KilledWorker)


def _answer(result: object, task: Task, store: PartsInStore | None) -> Answer:
    """What became of a task: an answer, or an exception and its type and traceback. A part must also be seen here."""
    if isinstance(result, dict):
        answer = answer_of(result)
        if isinstance(answer, HotlineError):
            return answer
        if store is not None:
            try:
                return store.copy(task)
            except MachineError as missing:
                return missing
        until = time.monotonic() + _VISIBLE_S
        while not task.folder.is_dir():
            if time.monotonic() > until:
                return MachineError(
                    f"a worker has imported {task.file}, and its tables are not in {task.folder.parent}",
                    hint="The run must lie on a file system that all workers and this machine share.",
                )
            time.sleep(_PAUSE_S)
        return answer
    if not isinstance(result, tuple):
        raise MachineError("the scheduler was lost, or restarted", hint="Import again.")
    if _is_killed(result):
        return MachineError(
            f"importing {task.file} failed: each worker that tried it died, as one does that uses too much memory",
            hint="An import takes up to 1 GB: give workers more memory, or leave the file out (--allow-missing).",
        )
    error = result[1]
    said = str(error).partition("\n")[0]
    return MachineError(
        f"a worker failed at {task.file}: {type(error).__name__}: {said}",
        hint="Do the workers have the same version of Python, Dask and hotline_analysis as this machine?",
    )


class _Patience:
    """Waits for a cluster, and ends it with an error if there is no more to wait for."""

    def __init__(self, client: Client, store: PartsInStore | None = None) -> None:
        self._client = client
        self._store = store
        self._looked = self._seen = time.monotonic()

    def look(self) -> None:
        """Raise `MachineError` if the scheduler is gone, or has had no worker for long."""
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
