"""Cleanup of unfinished work when a block or the process ends, and temporary folders."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_undo: list[Callable[[], object]] = []
_TRIES = 20

# The unique part of a temporary name of `replacing`.
_OWN_PART = re.compile(r"(?<=\.)[0-9a-f]{8}(?=(?:\.old)?\.partial$)")


def begin(undo: Callable[[], object]) -> Callable[[], object]:
    """Register a cleanup function to run on interruption, until `end` is called with the same function."""
    _undo.append(undo)
    return undo


def end(undo: Callable[[], object]) -> None:
    """Unregister a cleanup function: the work is complete, or already undone."""
    with suppress(ValueError):
        _undo.remove(undo)


def finish(undo: Callable[[], object]) -> None:
    """Run a cleanup function and unregister it.

    Ctrl-C may arrive in the middle: a library stopped by the signal returns before Python raises `KeyboardInterrupt`.
    The cleanup then runs a second time. If the second run is interrupted too, the cleanup stays registered.
    """
    try:
        undo()
    except KeyboardInterrupt:
        undo()
        end(undo)
        raise
    end(undo)


@contextmanager
def begun(undo: Callable[[], object]) -> Iterator[None]:
    """Run the cleanup function when the block or the process ends."""
    begin(undo)
    try:
        yield
    finally:
        finish(undo)


def begin_folder(parent: Path | None = None, prefix: str = "hotline-") -> tuple[Path, Callable[[], object]]:
    """Make a temporary folder readable only by this user. Return the folder and its registered cleanup (see `end`).

    The cleanup is registered before `mkdir`, so Ctrl-C right after it leaves no folder.
    """
    folder = Path(parent or tempfile.gettempdir()) / f"{prefix}{secrets.token_hex(8)}"
    undo = begin(lambda: remove(folder))
    try:
        folder.mkdir(mode=0o700)
    except OSError:
        end(undo)
        raise
    return folder, undo


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Give a temporary folder readable only by this user. The folder is removed when the block or the process ends."""
    folder, undo = begin_folder()
    try:
        yield folder
    finally:
        finish(undo)


def undo_all() -> None:
    """Run all registered cleanups, most recent first, just before the process exits."""
    for undo in reversed(list(_undo)):
        with suppress(Exception):
            undo()


def remove(path: Path) -> None:
    """Remove a file or folder if it exists, even while another thread is still writing to it.

    The path is renamed first, so writers that use the original name no longer reach it. The new name is derived from
    the old name, so an interrupted removal can be repeated.
    """
    aside = path.with_name(_OWN_PART.sub(lambda found: found[0][::-1], path.name))
    for _ in range(_TRIES):
        with suppress(OSError):
            path.rename(aside)
        if aside.is_dir() and not aside.is_symlink():
            shutil.rmtree(aside, ignore_errors=True)
        else:
            with suppress(OSError):
                aside.unlink(missing_ok=True)
        if not os.path.lexists(path) and not os.path.lexists(aside):
            return
