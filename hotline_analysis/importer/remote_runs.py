"""Runs in a store (S3, Google Cloud Storage, Azure): a run is written here and then put there, and copied to be opened.

Objects of a store appear whole, but one by one. The manifest comes last, and goes first where a run is replaced, so
what lies there is complete or no run.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from glob import has_magic
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hotline_analysis.atomic import MANIFEST, begin, begin_folder, end, finish, path_of
from hotline_analysis.errors import ExportExistsError, HotlineError, MachineError, RunFormatError
from hotline_analysis.importer.options import Progress
from hotline_analysis.importer.remote import (
    ASKED_AT_ONCE,
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

# What a run's files are called: no name leads out of its folder.
_NAME = re.compile(r"([A-Za-z0-9_=-][A-Za-z0-9_=.-]*/)*[A-Za-z0-9_=-][A-Za-z0-9_=.-]*")


@dataclass(frozen=True)
class _Place:
    """The place of a run in a store: a folder, so to say, whose name ends with a slash; empty for a whole bucket."""

    url: str
    store: ObjectStore
    folder: str

    @property
    def name(self) -> str:
        """What the run is called on this machine."""
        name = self.folder.rstrip("/").rpartition("/")[2]
        return "run" if name in ("", ".", "..") else name

    def files(self) -> dict[str, Any]:
        """What the store says of each file, by its name in the run."""
        with errors_of(self.url):
            found = [each for some in self.store.list(prefix=self.folder or None) for each in some]
        return {each["path"].removeprefix(self.folder): each for each in found}

    def put(self, name: str, content: Path | bytes) -> None:
        """Write a file."""
        with errors_of(self.url):
            self.store.put(f"{self.folder}{name}", content)

    def delete(self, names: Iterable[str]) -> None:
        """Delete files, one after another."""
        with errors_of(self.url):
            for name in names:
                self.store.delete(f"{self.folder}{name}")

    def check_free(self, *, overwrite: bool) -> None:
        """Raise `ExportExistsError` if something is here already: no run, or one that is not to be replaced."""
        found = self.files()
        if found and MANIFEST not in found:
            raise ExportExistsError(
                f"{shown(self.url)} was not written by this tool and is not replaced", hint="Choose another name."
            )
        if found and not overwrite:
            raise ExportExistsError(
                f"{shown(self.url)} exists already", hint="Choose another name, or overwrite it (--overwrite)."
            )

    def check_writable(self) -> None:
        """Raise `MachineError` now, and not after a long import, if the store takes nothing from us."""
        probe = f".hotline-{secrets.token_hex(8)}"
        self.put(probe, b"")
        self.delete([probe])


def is_remote_run(source: object) -> bool:
    """Whether this is the URL of a run in a store. A web server, which lists nothing, has none."""
    if not isinstance(source, str) or not is_remote(source) or source.startswith("http"):
        return False
    place = _place(source)
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
    place = _writable_place(output)
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
    place is taken, and `MachineError` if the store does not take it.
    """
    run = path_of(run)
    read_manifest(run)
    place = _writable_place(url)
    place.check_free(overwrite=overwrite)
    before = place.files()
    files = {path.relative_to(run).as_posix(): path for path in run.rglob("*") if path.is_file()}

    def undone() -> None:
        with suppress(HotlineError):  # of a store that does not answer any more; without its manifest it is no run
            place.delete(sorted(place.files()))

    if before:
        place.delete([MANIFEST])
    undo = begin(undone)
    try:
        _each(lambda name: place.put(name, files[name]), sorted(files.keys() - {MANIFEST}))
        place.delete(sorted(before.keys() - files.keys()))
        place.put(MANIFEST, files[MANIFEST])
    except BaseException:
        finish(undo)
        raise
    end(undo)
    return shown(url)


def copied_run(url: str, on_progress: Progress | None = None) -> Path:
    """Copy a run to a temporary folder of this machine, and return its path there, which ends as the URL does.

    Raises `RunFormatError` for files with odd names, and `MachineError` if it cannot be copied.
    """
    place = _place(url)
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
        _each(copy, list(found), tell)
    except BaseException:
        finish(undo)
        raise
    end(undo)
    return run


def _writable_place(url: str) -> _Place:
    if url.startswith("http"):
        raise HotlineError(
            f"{shown(url)}: a web server takes no runs", hint="Use the URL of a store (s3://, gs://, az://)."
        )
    place = _place(url)
    if not place.folder:
        raise HotlineError(
            f"{shown(url)} is a whole bucket", hint=f"Add the name of the run: {shown(url).rstrip('/')}/run.hotline"
        )
    return place


def _place(url: str) -> _Place:
    store, key = opened(url)
    return _Place(url, store, f"{key.strip('/')}/" if key.strip("/") else "")


def _each(work: Callable[[str], object], names: Sequence[str], tell: Callable[[float], object] = float) -> None:
    """Do the work for each file, several at a time, and tell which share is done. The first error ends it."""
    pool = ThreadPoolExecutor(ASKED_AT_ONCE)
    try:
        for done, future in enumerate(as_completed([pool.submit(work, name) for name in names]), 1):
            future.result()
            tell(done / len(names))
    finally:
        pool.shutdown(cancel_futures=True)
