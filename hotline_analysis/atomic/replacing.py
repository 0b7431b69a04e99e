"""Write files and folders under a temporary name, and rename them when complete."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import time
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from hotline_analysis.atomic.cleanup import begun, remove
from hotline_analysis.atomic.names import check_name, check_replaceable, is_stream
from hotline_analysis.errors import ExportExistsError, HotlineError

_FORGOTTEN_S = 7 * 24 * 3600


def replace_file(target: Path, write: Callable[[Path], object]) -> Path:
    """Let `write` fill a temporary file next to the target, then rename it over the target.

    At any moment the target is missing, the old file, or the complete new file. Unfinished files of earlier processes
    for the same target are removed. A pipe or device is written directly. Raises `HotlineError` if the target cannot be
    written.
    """
    import duckdb

    try:
        # Keep a symbolic link and replace the file it points to.
        final = Path(os.path.realpath(target))
        if is_stream(final):
            write(target)
            return target
        final.parent.mkdir(parents=True, exist_ok=True)
        _clear(final)
        partial = _partial_name(final)
        with begun(lambda: remove(partial)):
            _make_file(partial, like=final)
            write(partial)
            partial.replace(final)
    except (OSError, duckdb.IOException) as error:
        raise _cannot_write(target, error) from error
    return target


def replace_folder(target: Path, write: Callable[[Path], None], *, overwrite: bool) -> Path:
    """Let `write` fill a temporary folder next to the target, then rename it to the target.

    At any moment the target is missing, the old folder, or the complete new folder. Unfinished folders of earlier
    processes for the same target are removed. Raises `ExportExistsError` if the target exists and may not be replaced,
    and `HotlineError` if the target cannot be written.
    """
    import duckdb

    if target.exists() and not target.is_dir():
        raise ExportExistsError(f"{target} is not a folder", hint="Choose another name.")
    if target.exists() and not overwrite:
        raise ExportExistsError(f"{target} exists already", hint="Choose another name, or overwrite (--overwrite).")
    check_replaceable(target)
    check_name(target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _clear(target)
        partial = _partial_name(target)
        old_folder = partial.with_suffix(".old.partial")
        with begun(lambda: _undo_folder(target, partial, old_folder)):
            partial.mkdir()  # with the default permissions, as for the target
            write(partial)
            if target.exists() and overwrite:
                target.rename(old_folder)
            if target.exists():  # another process was faster
                raise ExportExistsError(f"{target} exists by now", hint="Choose another name, or overwrite.")
            partial.rename(target)
    except (OSError, duckdb.IOException) as error:
        raise _cannot_write(target, error) from error
    return target


def _undo_folder(target: Path, partial: Path, old: Path) -> None:
    """Remove the partial folder. Restore the old folder if the new one is not in place."""
    if old.exists() and not target.exists():
        old.rename(target)
    remove(partial)
    remove(old)


def _cannot_write(target: Path, error: Exception) -> HotlineError:
    message = error.strerror if isinstance(error, OSError) else None
    if isinstance(error, (FileExistsError, NotADirectoryError)):
        advice = "There is a file where this path has a folder."
    elif isinstance(error, PermissionError):
        advice = "You may not write there."
    else:
        advice = "Is the disk full?"
    return HotlineError(f"cannot write {target}: {message or error}", hint=f"{advice} Choose another place with -o.")


def _partial_name(target: Path) -> Path:
    return target.with_name(f".{target.name}.{_machine()}.{os.getpid()}.{secrets.token_hex(4)}.partial")


def _machine() -> str:
    """Return a hash of the namespace in which process ids are unique: this machine, or a container on it."""
    import platform

    try:
        numbers = os.readlink("/proc/self/ns/pid")
    except OSError:
        numbers = ""
    return f"{zlib.crc32(f'{platform.node()} {numbers}'.encode()):08x}"


def _make_file(name: Path, *, like: Path) -> None:
    """Create a new file with the permissions of `like`, or the default permissions if `like` does not exist."""
    os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    if like.exists():
        shutil.copymode(like, name)


def _clear(target: Path) -> None:
    """Remove unfinished files next to the target whose processes are gone."""
    with suppress(OSError):
        for path in target.parent.iterdir():
            if not _is_left_over(path, target.name):
                continue
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)


def _is_left_over(path: Path, target: str) -> bool:
    match = re.fullmatch(rf"\.{re.escape(target)}\.([0-9a-f]{{8}})\.(\d+)\.[0-9a-f]{{8}}(\.old)?\.partial", path.name)
    if match is None:
        return False
    if match[1] != _machine():
        # A process on another machine cannot be checked. No import runs longer than this limit.
        return time.time() - path.stat().st_mtime > _FORGOTTEN_S
    try:
        os.kill(int(match[2]), 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False
    return False
