"""Parts that an import on a cluster keeps until the run is complete: a folder for each imported file.

All parts are in one folder next to the run, `.run.hotline.parts`, so a repeated import to the same place continues from
there. A part is named after a hash of its inputs, gets this name when complete, and lists its files in a record. Only
one import at a time uses the folder.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import Any

from hotline_analysis.atomic import remove
from hotline_analysis.errors import HotlineError
from hotline_analysis.importer.options import Options
from hotline_analysis.schema import FORMAT_VERSION

try:
    import fcntl
except ImportError:  # on Windows, concurrent imports to one place are not detected
    fcntl = None  # type: ignore[assignment]

RECORD = "part.json"
_LOCK = "lock"


@contextmanager
def parts_beside(run: Path) -> Iterator[Path]:
    """Give the folder for the parts of a run, locked for this process. The folder stays as long as it has parts.

    Raises `HotlineError` if another import uses the folder, or if it belongs to another user.
    """
    folder = run.with_name(f".{run.name}.parts")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        lock = _lock(folder, run)
    except OSError as error:
        raise HotlineError(
            f"cannot write {folder}: {error.strerror or error}", hint="Choose another place with -o."
        ) from error
    try:
        yield folder
    finally:
        with suppress(OSError):
            if {item.name for item in folder.iterdir()} <= {_LOCK}:
                remove(folder)
        os.close(lock)


def _lock(folder: Path, run: Path) -> int:
    """Make the folder and lock it. Return the lock's file descriptor; closing it or exiting unlocks the folder."""
    while True:
        with suppress(FileExistsError):
            folder.mkdir()
        status = folder.lstat()
        if not stat.S_ISDIR(status.st_mode) or (hasattr(os, "geteuid") and status.st_uid != os.geteuid()):
            raise HotlineError(
                f"{folder} is not a folder owned by this user, so the content is not trusted",
                hint="Remove the folder, or ask the owner.",
            )
        file = os.open(folder / _LOCK, os.O_CREAT | os.O_RDWR | getattr(os, "O_NOFOLLOW", 0), 0o600)
        try:
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with suppress(FileNotFoundError):  # the previous owner removed the lock and the folder
                if os.path.samestat(os.fstat(file), (folder / _LOCK).stat()):
                    return file
        except BlockingIOError:
            os.close(file)
            raise HotlineError(
                f"another import is writing {run}",
                hint="Wait for the other import, or choose another place with -o.",
            ) from None
        except OSError:  # a file system without locks
            return file
        os.close(file)


def key_of(file: str, size: int, version: str, options: Options) -> str:
    """Return the name of the part for a file in this state with these options."""
    model = None if options.model is None else hashlib.sha256(options.model.read_bytes()).hexdigest()
    text = json.dumps([file, size, version, options.to_json(), model, FORMAT_VERSION])
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:32]


def begin_part(part: Path) -> Path:
    """Make a temporary folder for a new part."""
    attempt = part.with_name(f"{part.name}.{token_hex(8)}.partial")
    attempt.mkdir()
    return attempt


def keep(attempt: Path, part: Path, known: dict[str, Any]) -> None:
    """Turn a complete folder into a part, unless another process has just made the same part."""
    (attempt / RECORD).write_text(record_of(attempt, known), encoding="utf-8")
    try:
        attempt.rename(part)
    except OSError:
        if kept(part) is None:  # the existing part is already used up or damaged
            remove(part)
            attempt.rename(part)
        else:
            remove(attempt)


def record_of(folder: Path, known: dict[str, Any]) -> str:
    """Return the record of a part: the result for its file, and the size of each file in its folder."""
    files = {item.name: item.stat().st_size for item in folder.iterdir() if item.is_file()}
    return json.dumps({"known": known, "files": files})


def kept(part: Path) -> dict[str, Any] | None:
    """Return the result recorded in a part; None if the part is missing or incomplete."""
    try:
        record = json.loads((part / RECORD).read_text(encoding="utf-8"))
        if all((part / name).stat().st_size == size for name, size in record["files"].items()):
            return {**record["known"], "folder": str(part)}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        pass
    return None


def is_part(part: Path) -> bool:
    """Return whether a complete part exists."""
    return kept(part) is not None
