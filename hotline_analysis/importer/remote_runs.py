"""Runs in a store (S3, Google Cloud Storage, Azure): a run is written here and then put there, and copied to be opened.

Objects of a store appear whole, but one by one. The manifest comes last, and goes first where a run is replaced, so
what lies there is complete or no run.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from glob import has_magic
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from hotline_analysis.atomic import MANIFEST, begin, end, finish, path_of, remove
from hotline_analysis.errors import ExportExistsError, HotlineError, MachineError, RunFormatError
from hotline_analysis.importer.options import Progress
from hotline_analysis.importer.remote import (
    ASKED_AT_ONCE,
    Remote,
    copy_of,
    errors_of,
    file_of,
    is_remote,
    opened,
    shown,
)
from hotline_analysis.run.stored import read_manifest

if TYPE_CHECKING:
    from obstore.store import ObjectStore

Item = TypeVar("Item")

# What a run's files are called: no name leads out of its folder.
_NAME = re.compile(r"([A-Za-z0-9_=-][A-Za-z0-9_=.-]*/)*[A-Za-z0-9_=-][A-Za-z0-9_=.-]*")


def is_remote_run(source: object) -> bool:
    """Whether this is the URL of a run in a store. A web server, which lists nothing, has none."""
    if not isinstance(source, str) or not is_remote(source) or source.startswith("http"):
        return False
    store, key = opened(source)
    if has_magic(key):
        return False
    with errors_of(source):
        try:
            store.head(f"{_folder(key)}{MANIFEST}")
        except (FileNotFoundError, PermissionError):  # who may not list a bucket is not told what is missing
            return False
    return True


def check_free(url: str, *, overwrite: bool) -> None:
    """Raise `ExportExistsError` if something is at the URL already: no run, or one that is not to be replaced."""
    if url.startswith("http"):
        raise HotlineError(
            f"{shown(url)}: a web server takes no runs", hint="Use the URL of a store (s3://, gs://, az://)."
        )
    store, key = opened(url)
    if not _folder(key):
        raise HotlineError(
            f"{shown(url)} is a whole bucket", hint=f"Add the name of the run: {shown(url).rstrip('/')}/run.hotline"
        )
    found = _names(store, key, url)
    if found and MANIFEST not in found:
        raise ExportExistsError(
            f"{shown(url)} was not written by this tool and is not replaced", hint="Choose another name."
        )
    if found and not overwrite:
        raise ExportExistsError(
            f"{shown(url)} exists already", hint="Choose another name, or overwrite it (--overwrite)."
        )


@contextmanager
def written_here(output: str, *, overwrite: bool) -> Iterator[Path]:
    """Where on this machine to write a run that is wanted at a path or a URL.

    If it is a URL, the run is put there at the end of the block, and stays here only if that fails. Raises
    `ExportExistsError` or `MachineError` before the block if nothing could be put there.
    """
    if not is_remote(output):
        yield path_of(output)
        return
    check_free(output, overwrite=overwrite)
    _check_writable(output)
    folder = Path(tempfile.mkdtemp(prefix="hotline-"))
    run = folder / output.rstrip("/").rpartition("/")[2]
    undo = begin(lambda: remove(folder))
    is_kept = False
    try:
        yield run
        try:
            store_run(run, output, overwrite=overwrite)
        except HotlineError as error:
            is_kept = True
            error.hint = f"The run is complete, and stays here: {run}"
            raise
    finally:
        if is_kept:
            end(undo)
        else:
            finish(undo)


def _check_writable(url: str) -> None:
    """Raise `MachineError` now, and not after a long import, if the store takes nothing from us."""
    store, key = opened(url)
    probe = f"{_folder(key)}.hotline-{secrets.token_hex(8)}"
    with errors_of(url):
        store.put(probe, b"")
        store.delete(probe)


def store_run(run: str | os.PathLike[str], url: str, *, overwrite: bool = False) -> str:
    """Put a run into a store, and return its URL: `s3://bucket/run.hotline`, `gs://…` or `az://…`.

    Until all of it is there, there is no run at that place; of one that is replaced with `overwrite`, nothing is left
    from the moment at which the first file comes. Raises `RunFormatError` if `run` is none, `ExportExistsError` if the
    place is taken, and `MachineError` if the store does not take it.
    """
    folder = path_of(run)
    read_manifest(folder)
    check_free(url, overwrite=overwrite)
    store, key = opened(url)
    before = _names(store, key, url)
    files = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())

    def put(name: str) -> None:
        with errors_of(url):
            store.put(f"{_folder(key)}{name}", folder / name)

    def delete(names: Sequence[str]) -> None:
        with errors_of(url):
            for name in names:
                store.delete(f"{_folder(key)}{name}")

    if MANIFEST in before:
        delete([MANIFEST])

    def undone() -> None:
        with suppress(HotlineError):  # of a store that does not answer any more; without its manifest it is no run
            delete(sorted(_names(store, key, url)))

    undo = begin(undone)
    try:
        _each(put, [name for name in files if name != MANIFEST])
        delete(sorted(before - set(files)))
        put(MANIFEST)
    except BaseException:
        finish(undo)
        raise
    end(undo)
    return shown(url)


def copied_run(url: str, on_progress: Progress | None = None) -> Path:
    """Copy a run to a temporary folder of this machine, and return its path there, which ends as the URL does.

    Raises `RunFormatError` for files with odd names, and `MachineError` if it cannot be copied.
    """
    store, key = opened(url)
    with errors_of(url):
        listed = [each for some in store.list(prefix=_folder(key)) for each in some]
    found = {each["path"].removeprefix(_folder(key)): each for each in listed}
    odd = next((name for name in found if not _NAME.fullmatch(name)), None)
    if odd is not None:
        raise RunFormatError(f"{shown(url)} is no run: it holds a file that is called {odd!r}", hint="Import it again.")
    folder = Path(tempfile.mkdtemp(prefix="hotline-"))
    undo = begin(lambda: remove(folder))
    try:
        run = folder / (_folder(key).rstrip("/").rpartition("/")[2] or "run")
        size, free = sum(each["size"] for each in listed), shutil.disk_usage(folder).free
        if free < size:
            raise MachineError(
                f"{shown(url)} has {size:,} bytes, and {folder.parent} has {free:,} left for its copy",
                hint="Name another folder in TMPDIR.",
            )
        files: list[Remote] = []
        for name, each in found.items():
            (run / name).parent.mkdir(parents=True, exist_ok=True)
            files.append(file_of(f"{url.rstrip('/')}/{name}", each))
        names = dict(zip(files, found, strict=True))

        def copy(file: Remote) -> None:
            copy_of(store, f"{_folder(key)}{names[file]}", file, run / names[file])

        _each(copy, files, lambda share: on_progress(f"copying {run.name}", share) if on_progress else None)
    except BaseException:
        finish(undo)
        raise
    end(undo)
    return run


def _each(work: Callable[[Item], object], items: Sequence[Item], told: Callable[[float], object] = float) -> None:
    """Do the work for each item, several at a time. The first error ends it."""
    pool = ThreadPoolExecutor(ASKED_AT_ONCE)
    try:
        for done, future in enumerate(as_completed([pool.submit(work, item) for item in items]), 1):
            future.result()
            told(done / len(items))
    finally:
        pool.shutdown(cancel_futures=True)


def _names(store: ObjectStore, key: str, url: str) -> set[str]:
    """The files below a URL, by their names there."""
    with errors_of(url):
        found = [each["path"] for some in store.list(prefix=_folder(key) or None) for each in some]
    return {name.removeprefix(_folder(key)) for name in found}


def _folder(key: str) -> str:
    return f"{key.strip('/')}/" if key.strip("/") else ""
