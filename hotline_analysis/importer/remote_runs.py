"""Runs in a store (S3, Google Cloud Storage, Azure): a run is written here and then put there, and copied to be opened.

Objects of a store appear whole, but one by one. The manifest comes last, and goes first where a run is replaced, so
what lies there is complete or no run.
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

# What a run's files are called: no name leads out of its folder.
_NAME = re.compile(r"([A-Za-z0-9_=-][A-Za-z0-9_=.-]*/)*[A-Za-z0-9_=-][A-Za-z0-9_=.-]*")


def is_remote_run(source: object) -> bool:
    """Whether this is the URL of a run in a store. A web server, which lists nothing, has none."""
    if not isinstance(source, str) or not is_remote(source) or source.startswith("http"):
        return False
    place = folder_of(source)
    if has_magic(place.folder):
        return False
    with errors_of(source):
        try:
            place.store.head(f"{place.folder}{MANIFEST}")
        except (FileNotFoundError, PermissionError):  # who may not list a bucket is not told what is missing
            return False
    return True


@contextmanager
def written_here(output: str, *, overwrite: bool) -> Iterator[Path]:
    """Where on this machine to write a run that is wanted at a path or a URL.

    If it is a URL, the run is put there at the end of the block, and stays here only if that fails. Raises
    `ExportExistsError` or `MachineError` before the block if nothing could be put there.
    """
    if not is_remote(output):
        yield path_of(output)
        return
    place = writable_folder(output)
    with locked(place):
        place.check_free(overwrite=overwrite)
        place.check_writable()
    folder, undo = begin_folder()
    run = folder / place.name
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
    """Put a run into a store, and return its URL: `s3://bucket/run.hotline`, `gs://…` or `az://…`.

    Until all of it is there, there is no run at that place; of one that is replaced with `overwrite`, nothing is left
    from the moment at which the first file comes. Raises `RunFormatError` if `run` is none, `ExportExistsError` if the
    place is taken, `HotlineError` if another process writes there, and `MachineError` if the store does not take it.
    """
    run = path_of(run)
    read_manifest(run)
    place = writable_folder(url)
    with locked(place) as renew:
        place.check_free(overwrite=overwrite)
        _put(run, place, lambda share: renew())
    return shown(url)


def _put(run: Path, place: StoreFolder, tell: Callable[[float], object]) -> None:
    """Put the files of a run in the place of those that are there, and tell of each."""
    before = place.files()
    files = {path.relative_to(run).as_posix(): path for path in run.rglob("*") if path.is_file()}

    def undone() -> None:
        with suppress(HotlineError):  # of a store that does not answer any more; without its manifest it is no run
            place.delete(sorted(place.files()))

    if before:
        place.delete([MANIFEST])
    undo = begin(undone)
    try:
        for_each(lambda name: place.put(name, files[name]), sorted(files.keys() - {MANIFEST}), tell)
        place.delete(sorted(before.keys() - files.keys()))
        place.put(MANIFEST, files[MANIFEST])
    except BaseException:
        finish(undo)
        raise
    end(undo)


def copied_run(url: str, on_progress: Progress | None = None) -> Path:
    """Copy a run to a temporary folder of this machine, and return its path there, which ends as the URL does.

    Raises `RunFormatError` for files with odd names, and `MachineError` if it cannot be copied.
    """
    place = folder_of(url)
    found = place.files()
    odd = next((name for name in found if not _NAME.fullmatch(name)), None)
    if odd is not None:
        raise RunFormatError(f"{shown(url)} is no run: it holds a file that is called {odd!r}", hint="Import it again.")
    folder, undo = begin_folder()
    run = folder / place.name

    def copy(name: str) -> None:
        file = file_of(f"{url.rstrip('/')}/{name}", found[name])
        copy_of(place.store, f"{place.folder}{name}", file, run / name)

    def tell(share: float) -> None:
        if on_progress:
            on_progress(f"copying {place.name}", share)

    try:
        size, free = sum(each["size"] for each in found.values()), shutil.disk_usage(folder).free
        if free < size:
            raise MachineError(
                f"{shown(url)} has {size:,} bytes, and {folder.parent} has {free:,} left for its copy",
                hint="Name another folder in TMPDIR.",
            )
        for name in found:
            (run / name).parent.mkdir(parents=True, exist_ok=True)
        for_each(copy, list(found), tell)
    except BaseException:
        finish(undo)
        raise
    end(undo)
    return run
