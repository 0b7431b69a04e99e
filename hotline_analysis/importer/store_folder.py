"""Folders in a store (S3, Google Cloud Storage, Azure), with files written, listed and deleted one by one."""

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
    """A run, or the parts of a run, in a store: a key prefix ending with a slash.

    The prefix is empty for a whole bucket.
    """

    url: str
    store: ObjectStore
    folder: str

    @property
    def name(self) -> str:
        """The name of the run on this machine."""
        name = self.folder.rstrip("/").rpartition("/")[2]
        return "run" if name in ("", ".", "..") else name

    def files(self) -> dict[str, Any]:
        """Return the store's metadata of each file, by the file's name in the folder."""
        with errors_of(self.url):
            entries = [entry for batch in self.store.list(prefix=self.folder or None) for entry in batch]
        return {entry["path"].removeprefix(self.folder): entry for entry in entries}

    def put(self, name: str, content: Path | bytes) -> None:
        """Write a file."""
        with errors_of(self.url):
            self.store.put(f"{self.folder}{name}", content)

    def delete(self, names: Iterable[str]) -> None:
        """Delete files one by one."""
        with errors_of(self.url):
            for name in names:
                self.store.delete(f"{self.folder}{name}")

    def check_free(self, *, overwrite: bool) -> None:
        """Raise `ExportExistsError` if the folder has files other than a run, or a run and `overwrite` is false."""
        files = self.files()
        if files and MANIFEST not in files:
            raise ExportExistsError(
                f"{shown(self.url)} was not written by this tool and is not replaced", hint="Choose another name."
            )
        if files and not overwrite:
            raise ExportExistsError(
                f"{shown(self.url)} exists already", hint="Choose another name, or overwrite (--overwrite)."
            )

    def check_writable(self) -> None:
        """Raise `MachineError` early, before a long import, if the store does not allow writing."""
        probe = f".hotline-{secrets.token_hex(8)}"
        self.put(probe, b"")
        self.delete([probe])


def writable_folder(url: str) -> StoreFolder:
    """Return the folder of a URL for writing. Raises `HotlineError` for a web server or a whole bucket."""
    if url.startswith("http"):
        raise HotlineError(
            f"{shown(url)}: cannot write to a web server", hint="Use the URL of a store (s3://, gs://, az://)."
        )
    folder = folder_of(url)
    if not folder.folder:
        raise HotlineError(
            f"{shown(url)} is a whole bucket", hint=f"Add a name, such as {shown(url).rstrip('/')}/run.hotline"
        )
    return folder


def folder_of(url: str) -> StoreFolder:
    """Return the folder of a URL."""
    store, key = opened(url)
    return StoreFolder(url, store, f"{key.strip('/')}/" if key.strip("/") else "")


def for_each(work: Callable[[str], object], names: Sequence[str], tell: Callable[[float], object] = float) -> None:
    """Run `work` for each file, several at a time. The first error ends the loop.

    `tell(share)` reports progress.
    """
    pool = ThreadPoolExecutor(ASKED_AT_ONCE)
    try:
        for count, future in enumerate(as_completed([pool.submit(work, name) for name in names]), 1):
            future.result()
            tell(count / len(names))
    finally:
        pool.shutdown(cancel_futures=True)
