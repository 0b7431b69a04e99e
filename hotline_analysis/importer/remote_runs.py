"""Runs in a store (S3, Google Cloud Storage, Azure): write a run here and upload it, or copy a run to open it.

Objects in a store appear atomically, but one by one. The manifest is uploaded last, and deleted first when a run is
replaced. So a folder in the store is either a complete run or no run.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from glob import has_magic
from pathlib import Path

from hotline_analysis.atomic import MANIFEST, begin, begin_folder, end, finish, path_of
from hotline_analysis.errors import HotlineError, MachineError, RunFormatError
from hotline_analysis.importer.options import Progress
from hotline_analysis.importer.remote import copy_of, errors_of, file_of, is_remote, shown
from hotline_analysis.importer.store_folder import StoreFolder, folder_of, for_each, writable_folder
from hotline_analysis.importer.store_lock import locked
from hotline_analysis.run.stored import read_manifest

# Allowed names of a run's files: no name leads out of the run's folder.
_NAME = re.compile(r"([A-Za-z0-9_=-][A-Za-z0-9_=.-]*/)*[A-Za-z0-9_=-][A-Za-z0-9_=.-]*")


def is_remote_run(source: object) -> bool:
    """Return whether this is the URL of a run in a store. A web server cannot list files, so it has no runs."""
    if not isinstance(source, str) or not is_remote(source) or source.startswith("http"):
        return False
    store_folder = folder_of(source)
    if has_magic(store_folder.folder):
        return False
    with errors_of(source):
        try:
            store_folder.store.head(f"{store_folder.folder}{MANIFEST}")
        # without list permission, a store reports a missing object like this
        except (FileNotFoundError, PermissionError):
            return False
    return True


@contextmanager
def written_here(output: str, *, overwrite: bool) -> Iterator[Path]:
    """Give the local path at which to write a run for a path or URL.

    For a URL, the run is uploaded at the end of the block, and kept here only if the upload fails. Raises
    `ExportExistsError` or `MachineError` before the block if nothing can be uploaded.
    """
    if not is_remote(output):
        yield path_of(output)
        return
    store_folder = writable_folder(output)
    with locked(store_folder):
        store_folder.check_free(overwrite=overwrite)
        store_folder.check_writable()
    folder, undo = begin_folder()
    run = folder / store_folder.name
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


def store_run(run: str | os.PathLike[str], url: str, *, overwrite: bool = False) -> str:
    """Upload a run to a store, and return its URL: `s3://bucket/run.hotline`, `gs://…` or `az://…`.

    The run does not exist there until the upload is complete. With `overwrite`, the replaced run is gone as soon as the
    upload starts. Raises `RunFormatError` if `run` is not a run, `ExportExistsError` if the place is taken,
    `HotlineError` if another process is writing there, and `MachineError` if the upload fails.
    """
    run = path_of(run)
    read_manifest(run)
    store_folder = writable_folder(url)
    with locked(store_folder) as renew:
        store_folder.check_free(overwrite=overwrite)
        _put(run, store_folder, lambda share: renew())
    return shown(url)


def _put(run: Path, place: StoreFolder, tell: Callable[[float], object]) -> None:
    """Upload the files of a run over the existing files, and report progress after each file."""
    old_files = place.files()
    files = {path.relative_to(run).as_posix(): path for path in run.rglob("*") if path.is_file()}

    def undone() -> None:
        with suppress(HotlineError):  # the store no longer answers; without a manifest, the rest is not a run
            place.delete(sorted(place.files()))

    if old_files:
        place.delete([MANIFEST])
    undo = begin(undone)
    try:
        for_each(lambda name: place.put(name, files[name]), sorted(files.keys() - {MANIFEST}), tell)
        place.delete(sorted(old_files.keys() - files.keys()))
        place.put(MANIFEST, files[MANIFEST])
    except BaseException:
        finish(undo)
        raise
    end(undo)


def copied_run(url: str, on_progress: Progress | None = None) -> Path:
    """Copy a run to a temporary folder on this machine. Return its path, with the same name as in the URL.

    Raises `RunFormatError` for invalid file names, and `MachineError` if the run cannot be copied.
    """
    store_folder = folder_of(url)
    files = store_folder.files()
    bad_name = next((name for name in files if not _NAME.fullmatch(name)), None)
    if bad_name is not None:
        raise RunFormatError(
            f"{shown(url)} is no run: the directory contains a file named {bad_name!r}", hint="Import the traces again."
        )
    folder, undo = begin_folder()
    run = folder / store_folder.name

    def copy(name: str) -> None:
        file = file_of(f"{url.rstrip('/')}/{name}", files[name])
        copy_of(store_folder.store, f"{store_folder.folder}{name}", file, run / name)

    def tell(share: float) -> None:
        if on_progress:
            on_progress(f"copying {store_folder.name}", share)

    try:
        size, free = sum(entry["size"] for entry in files.values()), shutil.disk_usage(folder).free
        if free < size:
            raise MachineError(
                f"{shown(url)} has {size:,} bytes, but {folder.parent} has only {free:,} bytes left",
                hint="Name another folder in TMPDIR.",
            )
        for name in files:
            (run / name).parent.mkdir(parents=True, exist_ok=True)
        for_each(copy, list(files), tell)
    except BaseException:
        finish(undo)
        raise
    end(undo)
    return run
