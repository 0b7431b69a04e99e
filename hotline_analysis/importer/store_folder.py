"""Folders in a store (S3, Google Cloud Storage, Azure), whose files are written, listed and deleted one by one."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hotline_analysis.atomic import MANIFEST
from hotline_analysis.errors import ExportExistsError, HotlineError
from hotline_analysis.importer.remote import ASKED_AT_ONCE, errors_of, opened, shown

if TYPE_CHECKING:
    from obstore.store import ObjectStore


@dataclass(frozen=True)
class StoreFolder:
    """The place of a run in a store, or of its parts: a folder, so to say, whose name ends with a slash.

    The name is empty for a whole bucket.
    """

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


def writable_folder(url: str) -> StoreFolder:
    """The folder of a URL to write to. Raises `HotlineError` for a web server, and for a whole bucket."""
    if url.startswith("http"):
        raise HotlineError(
            f"{shown(url)}: a web server takes no files", hint="Use the URL of a store (s3://, gs://, az://)."
        )
    place = folder_of(url)
    if not place.folder:
        raise HotlineError(
            f"{shown(url)} is a whole bucket", hint=f"Add a name to it, such as {shown(url).rstrip('/')}/run.hotline"
        )
    return place


def folder_of(url: str) -> StoreFolder:
    """The folder of a URL."""
    store, key = opened(url)
    return StoreFolder(url, store, f"{key.strip('/')}/" if key.strip("/") else "")


def for_each(work: Callable[[str], object], names: Sequence[str], tell: Callable[[float], object] = float) -> None:
    """Do the work for each file, several at a time, and tell which share is done. The first error ends it."""
    pool = ThreadPoolExecutor(ASKED_AT_ONCE)
    try:
        for done, future in enumerate(as_completed([pool.submit(work, name) for name in names]), 1):
            future.result()
            tell(done / len(names))
    finally:
        pool.shutdown(cancel_futures=True)
