"""What an import on a cluster keeps until the run is complete: a folder for each file that is imported.

They lie in one folder beside the run, `.run.hotline.parts`, so that whoever imports again to the same place goes on
from there. A part has the name of what it was made of, gets that name when it is complete, and says in its record which
files it has. Only one import at a time works there.
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
except ImportError:  # Windows, where two imports to one place are not told from one
    fcntl = None  # type: ignore[assignment]

RECORD = "part.json"
_LOCK = "lock"


@contextmanager
def parts_beside(run: Path) -> Iterator[Path]:
    """The folder of the parts of a run, for this process alone. It stays as long as there are parts in it.

    Raises `HotlineError` if another import works there, or if it belongs to somebody else.
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
    """Make the folder and lock it; return what is to be closed in the end, which the end of a process does, too."""
    while True:
        with suppress(FileExistsError):
            folder.mkdir()
        found = folder.lstat()
        if not stat.S_ISDIR(found.st_mode) or (hasattr(os, "geteuid") and found.st_uid != os.geteuid()):
            raise HotlineError(
                f"{folder} is not a folder of this user, and nothing in it is trusted",
                hint="Remove it, or ask its owner.",
            )
        file = os.open(folder / _LOCK, os.O_CREAT | os.O_RDWR | getattr(os, "O_NOFOLLOW", 0), 0o600)
        try:
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with suppress(FileNotFoundError):  # who had it before has removed it, and the folder
                if os.path.samestat(os.fstat(file), (folder / _LOCK).stat()):
                    return file
        except BlockingIOError:
            os.close(file)
            raise HotlineError(
                f"another import writes {run} at this moment",
                hint="Wait until it ends, or choose another place with -o.",
            ) from None
        except OSError:  # a file system that has no locks
            return file
        os.close(file)


def key_of(file: str, size: int, version: str, options: Options) -> str:
    """The name of the part that is made of a file in this state."""
    model = None if options.model is None else hashlib.sha256(options.model.read_bytes()).hexdigest()
    whole = json.dumps([file, size, version, options.to_json(), model, FORMAT_VERSION])
    return hashlib.sha256(whole.encode("utf-8", "surrogateescape")).hexdigest()[:32]


def begin_part(part: Path) -> Path:
    """Make a folder in which to make a part."""
    attempt = part.with_name(f"{part.name}.{token_hex(8)}.partial")
    attempt.mkdir()
    return attempt


def keep(attempt: Path, part: Path, known: dict[str, Any]) -> None:
    """Make a part of a complete folder, unless somebody else has just made the same one."""
    (attempt / RECORD).write_text(record_of(attempt, known), encoding="utf-8")
    try:
        attempt.rename(part)
    except OSError:
        if kept(part) is None:  # one that was used up, or is damaged
            remove(part)
            attempt.rename(part)
        else:
            remove(attempt)


def record_of(folder: Path, known: dict[str, Any]) -> str:
    """The record of a part: what is known of its file, and the size of each of the files in its folder."""
    files = {item.name: item.stat().st_size for item in folder.iterdir() if item.is_file()}
    return json.dumps({"known": known, "files": files})


def kept(part: Path) -> dict[str, Any] | None:
    """What is known of the file of a part, if the part is complete."""
    try:
        record = json.loads((part / RECORD).read_text(encoding="utf-8"))
        if all((part / name).stat().st_size == size for name, size in record["files"].items()):
            return {**record["known"], "folder": str(part)}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        pass
    return None


def is_part(part: Path) -> bool:
    """Whether there is a complete part."""
    return kept(part) is not None
