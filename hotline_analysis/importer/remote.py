"""Find trace files in a store (S3, Google Cloud Storage, Azure) or on a web server, and copy them for the reader.

A file is copied completely before reading, because the reader may seek backwards. A broken connection is then reported
as a network error and not as a truncated file. Each process keeps only one copied file at a time.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from fnmatch import fnmatchcase
from glob import has_magic
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from hotline_analysis.atomic import MANIFEST, begin_folder, finish
from hotline_analysis.errors import HotlineError, MachineError, TraceFormatError

if TYPE_CHECKING:
    from obstore.store import ObjectStore

SCHEMES = ("s3", "gs", "az", "https", "http")
_URL = re.compile(rf"({'|'.join(SCHEMES)})://(?:[^/@]*@)?(.*)", re.DOTALL)
# Size of one request. A broken connection loses at most this part of a file.
_PART_BYTES = 1 << 26
_RETRY: Any = {"max_retries": 3, "retry_timeout": timedelta(seconds=60)}
_CLIENT: Any = {"timeout": "120s", "connect_timeout": "10s"}
_CLOUDS = ("AWS", "GOOGLE", "AZURE")
ASKED_AT_ONCE = 16
_HINT = "Credentials, region and endpoint come from the environment (AWS_ACCESS_KEY_ID, AWS_REGION, AWS_ENDPOINT_URL)."


@dataclass(frozen=True)
class Remote:
    """A file in a store."""

    url: str
    size: int
    version: str
    """Changes when the file's content changes."""

    @property
    def name(self) -> str:
        """The file name without folders."""
        return self.url.rpartition("/")[2]

    def __str__(self) -> str:
        return shown(self.url)


def is_remote(name: object) -> bool:
    """Return whether a name is the URL of a supported store. A `Path` never is, even if it looks like a URL."""
    return isinstance(name, str) and _URL.fullmatch(name) is not None


def shown(url: str) -> str:
    """Return a URL without user and password."""
    return re.sub(r"://[^/@]*@", "://", url)


def find_remote(url: str, suffixes: Sequence[str]) -> tuple[list[Remote], bool]:
    """Return the files of a URL, and whether they were found by a search (pattern or folder)."""
    store, key = opened(url)
    root = url[: len(url) - len(key)] if key else f"{url.rstrip('/')}/"

    def made(found: Sequence[Any]) -> list[Remote]:
        return sorted((file_of(f"{root}{entry['path']}", entry) for entry in found), key=lambda file: file.url)

    with errors_of(url):
        if has_magic(key):
            if url.startswith("http"):
                raise TraceFormatError(f"{shown(url)}: a web server cannot list files", hint="Name each file.")
            files = made([entry for entry in _listed(store, key) if _matches(entry["path"], key)])
            if not files:
                raise TraceFormatError(f"no file matches {shown(url)}", hint="Quote the pattern, and check the folder.")
            return files, True
        if not key.endswith("/") and key:
            try:
                return [head(url)], False
            except TraceFormatError:
                if url.startswith("http"):
                    raise
        folder = f"{key.rstrip('/')}/" if key else ""
        found = [entry for batch in store.list(prefix=folder or None) for entry in batch]
        if any(entry["path"] == f"{folder}{MANIFEST}" for entry in found):
            raise TraceFormatError(
                f"{shown(url)} is a run, with traces already imported",
                hint=f"Use the run directly, as in `hotline report {shown(url)}`, or copy the run to import again.",
            )
        traces = [entry for entry in found if entry["path"].lower().endswith(tuple(suffixes))]
        direct = [entry for entry in traces if "/" not in entry["path"][len(folder) :]]
        if not traces:
            predicate = "holds no trace files" if found else "does not exist"
            raise TraceFormatError(
                f"{shown(url)} {predicate}", hint=f"Looked for files ending in {', '.join(suffixes)}."
            )
        return made(direct or traces), True


def heads(urls: Sequence[str]) -> list[Remote]:
    """Return the file of each URL; see `head`."""
    with ThreadPoolExecutor(ASKED_AT_ONCE) as pool:
        return list(pool.map(head, urls))


def head(url: str) -> Remote:
    """Return the file of a URL. Raises `TraceFormatError` if the file does not exist, and `MachineError` if unknown."""
    store, key = opened(url)
    with errors_of(url):
        return file_of(url, store.head(key))


@contextmanager
def copied(file: Remote) -> Iterator[tuple[Path, str]]:
    """Give a copy of a file, and the SHA-256 of its content, until the block ends.

    A `HotlineError` about the copy is changed to name the URL. Raises `MachineError` if the file has changed since it
    was found, or cannot be copied.
    """
    store, key = opened(file.url)
    folder, undo = begin_folder(prefix="hotline-copy-")
    copy = folder / os.path.basename(key)
    try:
        digest = copy_of(store, key, file, copy)
        yield copy, digest
    except HotlineError as error:
        error.message = error.message.replace(str(copy), str(file))
        error.args = (error.message,)
        raise
    finally:
        finish(undo)


def copy_of(store: ObjectStore, key: str, file: Remote, copy: Path) -> str:
    """Copy a file to a path and return the SHA-256 of its content; see `copied`."""
    digest = hashlib.sha256()
    if (free := shutil.disk_usage(copy.parent).free) < file.size:
        raise MachineError(
            f"{file} has {file.size:,} bytes, but {copy.parent.parent} has only {free:,} bytes left",
            hint="Name another folder in TMPDIR.",
        )
    with errors_of(file.url), copy.open("wb") as stream:
        for begin in range(0, file.size, _PART_BYTES):
            stop = min(begin + _PART_BYTES, file.size)
            # Request a file of one part without a range, because some web servers do not support ranges.
            is_whole = stop - begin == file.size
            response = store.get(key, options={} if is_whole else {"range": (begin, stop)})
            if file_of(file.url, response.meta).version != file.version:
                raise MachineError(f"{file} has changed since it was found", hint="Import again.")
            data = response.bytes()
            if len(data) != stop - begin:
                raise MachineError(f"{file} ended after {begin + len(data):,} bytes", hint="Import again.")
            digest.update(data)
            stream.write(data)
    return digest.hexdigest()


def opened(url: str) -> tuple[ObjectStore, str]:
    """Return the store of a URL, and the object's key in the store."""
    try:
        from obstore.exceptions import BaseError
        from obstore.store import HTTPStore, from_url
    except ImportError as error:
        raise HotlineError(
            f"reading {shown(url)} needs obstore: {error}", hint="pip install 'hotline-analysis[remote]'"
        ) from None
    scheme, _, rest = url.partition("://")
    host, _, key = rest.partition("/")
    if not host:
        raise TraceFormatError(f"{shown(url)} has no bucket or server", hint=f"Write {scheme}://NAME/…")
    if scheme.startswith("http") and re.search(r"[?#]", key):
        raise TraceFormatError(
            f"{shown(url).partition('?')[0]}?… has a query or signature, which is not supported",
            hint="Use the URL of the store (s3://, gs://, az://), with credentials.",
        )
    # Explicit client options replace the options from the environment, so this one is read here.
    is_plain = scheme == "http" or any(os.environ.get(f"{name}_ALLOW_HTTP", "").lower() == "true" for name in _CLOUDS)
    client: Any = {**_CLIENT, "allow_http": is_plain}
    try:
        if scheme.startswith("http"):
            return HTTPStore.from_url(f"{scheme}://{host}", client_options=client, retry_config=_RETRY), unquote(key)
        return from_url(f"{scheme}://{host}", client_options=client, retry_config=_RETRY), key
    except (BaseError, ValueError) as error:
        raise HotlineError(f"{shown(url)} cannot be opened: {_first_line(error)}", hint=_HINT) from error


@contextmanager
def errors_of(url: str) -> Iterator[None]:
    """Convert errors of a store in the block to this package's errors.

    A missing object is a `TraceFormatError`, any other error a `MachineError`.
    """
    from obstore.exceptions import BaseError

    try:
        yield
    except (BaseError, FileNotFoundError, PermissionError) as error:
        # Listing a missing bucket gives a different error.
        if isinstance(error, FileNotFoundError) or " 404 Not Found" in _first_line(error):
            raise TraceFormatError(
                f"{shown(url)} does not exist", hint="Check the name, the bucket and the region."
            ) from error
        raise MachineError(f"{shown(url)} cannot be used: {_first_line(error)}", hint=_HINT) from error


def _first_line(error: BaseException) -> str:
    return shown(str(error).partition("\n")[0])


def file_of(url: str, meta: Any) -> Remote:
    """Return the file described by a store's metadata."""
    version = meta["e_tag"] or meta["last_modified"].isoformat()
    return Remote(url, meta["size"], f"{meta['size']} {version}")


def _listed(store: ObjectStore, pattern: str) -> list[Any]:
    """Return the files that may match a pattern: files of one folder, or of all folders below it."""
    magic = next(n for n, name in enumerate(pattern.split("/")) if has_magic(name))
    names = pattern.split("/")
    folder = "".join(f"{name}/" for name in names[:magic])
    if magic == len(names) - 1 and names[magic] != "**":
        return list(store.list_with_delimiter(prefix=folder or None)["objects"])
    return [entry for batch in store.list(prefix=folder or None) for entry in batch]


def _matches(name: str, pattern: str) -> bool:
    """Return whether a name matches a pattern. `*` matches part of a name, `**` any number of folders."""

    def rest(names: Sequence[str], patterns: Sequence[str]) -> bool:
        if not patterns:
            return not names
        if patterns[0] == "**" and len(patterns) > 1:
            return rest(names, patterns[1:]) or (bool(names) and rest(names[1:], patterns))
        return bool(names) and fnmatchcase(names[0], patterns[0]) and rest(names[1:], patterns[1:])

    return rest(name.split("/"), pattern.split("/"))
