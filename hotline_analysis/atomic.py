"""Files and folders that appear whole or not at all: written under another name and renamed when complete."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from hotline_analysis.errors import ExportExistsError, HotlineError

MANIFEST = "manifest.json"  # in every run
_BESIDE = ("schema.json", "report.html")  # in exports, beside the tables

_FORGOTTEN_S = 7 * 24 * 3600

_undo: list[Callable[[], object]] = []
_TRIES = 20

# The part of a name of `_partial_name` that makes it unique.
_OWN_PART = re.compile(r"(?<=\.)[0-9a-f]{8}(?=(?:\.old)?\.partial$)")

Form = TypeVar("Form", bound=str)

# A scheme has two letters or more, as one is a drive of Windows. A password in front of the host is not repeated.
_URL = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]+):/+(?:[^/@:]*:[^/@]*@)?(?=[^/])")


def form_of(target: Path, forms: Mapping[str, Form], *, default: Form | None = None) -> Form:
    """Return the form that the ending of a name stands for.

    A name without an ending, a pipe or a device has the default form, if there is one. Raises `HotlineError` for any
    other ending.
    """
    found = next((form for ending, form in forms.items() if target.name.lower().endswith(ending)), None)
    if found is None and default is not None and (not target.suffix or _is_stream(target)):
        found = default
    if found is None:
        raise HotlineError(
            f"cannot write {target}: its name ends in no format known here", hint=f"Use {', '.join(forms)}."
        )
    return found


def check_file(target: Path, *, overwrite: bool) -> None:
    """Raise `ExportExistsError` if the target is a folder, or a file that would be replaced unasked.

    A pipe or a device is written to, not replaced.
    """
    if target.is_dir():
        raise ExportExistsError(f"{target} is a folder", hint="Give the name of a file.")
    if target.exists() and not _is_stream(target) and not overwrite:
        raise ExportExistsError(f"{target} exists already", hint="Choose another name, or overwrite it (--overwrite).")


def _is_stream(target: Path) -> bool:
    return target.exists() and not target.is_file() and not target.is_dir()


def path_of(name: str | os.PathLike[str]) -> Path:
    """The path that a user means, who may write `~` for a home as in a shell.

    Raises `HotlineError` for a URL such as `s3://bucket/trace.json`, of which a path would make a local folder.
    """
    found = _URL.match(os.fspath(name))
    # A path has lost the second slash. A folder that is called so is no scheme.
    if found and not os.path.exists(f"{found['scheme']}:"):
        rest = os.fspath(name)[found.end() :]
        if found["scheme"].lower() == "file":
            raise HotlineError(f"file:///{rest} is a URL, and a path is needed", hint=f"Write /{rest}")
        raise HotlineError(
            f"{found['scheme']}://{rest} is not on this machine: everything is written to local folders, but a run"
            " that `hotline import` writes, and only traces and runs are read from elsewhere (s3, gs, az, https)",
            hint="Copy it here first, or mount the store; copy what is written here to it.",
        )
    return Path(os.path.expanduser(name))


def begin(undo: Callable[[], object]) -> Callable[[], object]:
    """Remember how to undo what is begun here, until `end` is called with the same."""
    _undo.append(undo)
    return undo


def end(undo: Callable[[], object]) -> None:
    """Forget what `begin` was told: it is complete, or undone."""
    with suppress(ValueError):
        _undo.remove(undo)


def finish(undo: Callable[[], object]) -> None:
    """Undo what is begun, and forget it.

    Ctrl-C may come in the middle: a library that it stops returns before Python raises `KeyboardInterrupt`. Then it is
    undone once more; and if that is stopped as well, it stays remembered.
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
    """What is done in the block leaves something behind, which is undone when the block or the process ends."""
    begin(undo)
    try:
        yield
    finally:
        finish(undo)


def begin_folder(parent: Path | None = None, prefix: str = "hotline-") -> tuple[Path, Callable[[], object]]:
    """Make a temporary folder that only this user can read; return it, and how to remove it, which `end` must be told.

    Its name is chosen first: Ctrl-C that comes as soon as the folder is there finds that it is to be removed.
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
    """A folder that only this user can read, until the block or the process ends."""
    folder, undo = begin_folder()
    try:
        yield folder
    finally:
        finish(undo)


def undo_all() -> None:
    """Undo what is not complete, the last first, as the process is about to end without another chance."""
    for undo in reversed(list(_undo)):
        with suppress(Exception):
            undo()


def remove(path: Path) -> None:
    """Remove a file or folder, if it is there, also while another thread is still writing to it.

    What is not complete gets another name first, where nobody writes to it any more. That name follows from the first,
    so that what is interrupted can be done once more.
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


def replace_file(target: Path, write: Callable[[Path], object]) -> Path:
    """Let `write` fill a new file beside the target and rename it when it is complete; an existing one is replaced.

    Whatever happens on the way, the target either does not exist, is the old one, or is complete. What an earlier
    process left unfinished there is removed. A pipe or device is written as it is. Raises `HotlineError` if it cannot
    be written.
    """
    import duckdb

    try:
        # A link stays, and what it leads to is replaced.
        final = Path(os.path.realpath(target))
        if _is_stream(final):
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
    """Let `write` fill a new folder beside the target and rename it when it is complete.

    Whatever happens on the way, the target either does not exist, is the old one, or is complete. What an earlier
    process left unfinished there is removed. Raises `ExportExistsError`, or `HotlineError` if it cannot be written.
    """
    import duckdb

    if target.exists() and not target.is_dir():
        raise ExportExistsError(f"{target} is no folder", hint="Give a name that is free.")
    if target.exists() and not overwrite:
        raise ExportExistsError(f"{target} exists already", hint="Choose another name, or overwrite it (--overwrite).")
    check_replaceable(target)
    check_name(target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _clear(target)
        partial = _partial_name(target)
        old = partial.with_suffix(".old.partial")
        with begun(lambda: _undo_folder(target, partial, old)):
            partial.mkdir()  # with the rights that the target would be given
            write(partial)
            if target.exists() and overwrite:
                target.rename(old)
            if target.exists():  # another process was faster
                raise ExportExistsError(f"{target} exists by now", hint="Choose another name, or overwrite it.")
            partial.rename(target)
    except (OSError, duckdb.IOException) as error:
        raise _cannot_write(target, error) from error
    return target


def _undo_folder(target: Path, partial: Path, old: Path) -> None:
    """Remove what is half done, and give the old folder its name back if there is no new one."""
    if old.exists() and not target.exists():
        old.rename(target)
    remove(partial)
    remove(old)


def check_name(folder: Path) -> None:
    """Raise `HotlineError` for a folder that the database could not open: its path has bytes that are no text."""
    try:
        str(folder.resolve()).encode()
    except UnicodeEncodeError:
        raise HotlineError(f"the path {str(folder)!r} is not UTF-8", hint="Choose another place.") from None


def check_replaceable(target: Path) -> None:
    """Raise `ExportExistsError` if the target is something that this package did not write."""
    if target.exists() and not (target / MANIFEST).exists() and (not target.is_dir() or any(_foreign(target))):
        raise ExportExistsError(
            f"{target} was not written by this tool and is not replaced", hint="Choose another name."
        )


def _foreign(folder: Path) -> list[Path]:
    """What lies in a folder that no export writes."""
    return [path for path in folder.iterdir() if path.suffix != ".parquet" and path.name not in _BESIDE]


def _cannot_write(target: Path, error: Exception) -> HotlineError:
    said = error.strerror if isinstance(error, OSError) else None
    if isinstance(error, (FileExistsError, NotADirectoryError)):
        why = "There is a file where this path has a folder."
    elif isinstance(error, PermissionError):
        why = "You may not write there."
    else:
        why = "Is the disk full?"
    return HotlineError(f"cannot write {target}: {said or error}", hint=f"{why} Choose another place with -o.")


def _partial_name(target: Path) -> Path:
    return target.with_name(f".{target.name}.{_machine()}.{os.getpid()}.{secrets.token_hex(4)}.partial")


def _machine() -> str:
    """Where the number of a process counts: this machine, or the container on it."""
    import platform

    try:
        numbers = os.readlink("/proc/self/ns/pid")
    except OSError:
        numbers = ""
    return f"{zlib.crc32(f'{platform.node()} {numbers}'.encode()):08x}"


def _make_file(name: Path, *, like: Path) -> None:
    """Make a new file with the rights that another one has or would be given."""
    os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    if like.exists():
        shutil.copymode(like, name)


def _clear(target: Path) -> None:
    """Remove what processes that are gone left unfinished beside the target."""
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
        # Whether a process of another machine lives cannot be seen. No import takes so long.
        return time.time() - path.stat().st_mtime > _FORGOTTEN_S
    try:
        os.kill(int(match[2]), 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False
    return False
