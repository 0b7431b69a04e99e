"""Names of files and folders to write: their format, and whether they may be written."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from hotline_analysis.errors import ExportExistsError, HotlineError

MANIFEST = "manifest.json"  # file in every run
_BESIDE = ("schema.json", "report.html")  # files that exports write next to the tables

Form = TypeVar("Form", bound=str)

# A scheme has at least two letters, because a single letter is a Windows drive. A user and password before the host
# are left out of messages.
_URL = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]+):/+(?:[^/@:]*:[^/@]*@)?(?=[^/])")


def form_of(target: Path, forms: Mapping[str, Form], *, default: Form | None = None) -> Form:
    """Return the output format for the file name's ending.

    A name without an ending, a pipe or a device gets the default format, if there is a default. Raises `HotlineError`
    for any other ending.
    """
    output_form = next((form for ending, form in forms.items() if target.name.lower().endswith(ending)), None)
    if output_form is None and default is not None and (not target.suffix or is_stream(target)):
        output_form = default
    if output_form is None:
        raise HotlineError(f"cannot write {target}: the file name's ending is unknown", hint=f"Use {', '.join(forms)}.")
    return output_form


def check_file(target: Path, *, overwrite: bool) -> None:
    """Raise `ExportExistsError` if the target is a folder, or an existing file and `overwrite` is false.

    A pipe or a device is written to, not replaced.
    """
    if target.is_dir():
        raise ExportExistsError(f"{target} is a folder", hint="Give the name of a file.")
    if target.exists() and not is_stream(target) and not overwrite:
        raise ExportExistsError(f"{target} exists already", hint="Choose another name, or overwrite (--overwrite).")


def is_stream(target: Path) -> bool:
    """Whether the target is a pipe or a device, which is written to and not replaced."""
    return target.exists() and not target.is_file() and not target.is_dir()


def path_of(name: str | os.PathLike[str]) -> Path:
    """Return the name as a path, with `~` expanded as in a shell.

    Raises `HotlineError` for a URL such as `s3://bucket/trace.json`, which would become a local folder.
    """
    match = _URL.match(os.fspath(name))
    # A `Path` has already lost the second slash. A local folder named like `s3:` is not a scheme.
    if match and not os.path.exists(f"{match['scheme']}:"):
        rest = os.fspath(name)[match.end() :]
        if match["scheme"].lower() == "file":
            raise HotlineError(f"file:///{rest} is a URL, but a path is needed", hint=f"Write /{rest}")
        raise HotlineError(
            f"{match['scheme']}://{rest} is not on this machine: only traces and runs can be remote (s3, gs, az,"
            " https), and only `hotline import` can write to a store",
            hint="Copy inputs to this machine first and outputs to the store afterwards, or mount the store.",
        )
    return Path(os.path.expanduser(name))


def check_name(folder: Path) -> None:
    """Raise `HotlineError` if the folder's path is not valid UTF-8: DuckDB could not open the path."""
    try:
        str(folder.resolve()).encode()
    except UnicodeEncodeError:
        raise HotlineError(f"the path {str(folder)!r} is not UTF-8", hint="Choose another place.") from None


def check_replaceable(target: Path) -> None:
    """Raise `ExportExistsError` if the target exists and was not written by this package."""
    if target.exists() and not (target / MANIFEST).exists() and (not target.is_dir() or any(_foreign(target))):
        raise ExportExistsError(
            f"{target} was not written by this tool and is not replaced", hint="Choose another name."
        )


def _foreign(folder: Path) -> list[Path]:
    """Return the entries of a folder that no export writes."""
    return [path for path in folder.iterdir() if path.suffix != ".parquet" and path.name not in _BESIDE]
