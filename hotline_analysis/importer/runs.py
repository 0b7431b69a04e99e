"""Find the runs of a source: a run directory, a pattern, or a list."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from glob import glob, has_magic
from pathlib import Path
from typing import TYPE_CHECKING

from hotline_analysis.atomic import MANIFEST, path_of
from hotline_analysis.errors import TraceFormatError
from hotline_analysis.importer.remote import is_remote

if TYPE_CHECKING:
    from hotline_analysis.importer.sources import Source


def find_runs(source: Source | Iterable[Source]) -> list[Path]:
    """Return the run directories of a source: a run, a pattern, or a list of runs; empty for traces.

    A pattern that matches files means the files, because a run lies next to its trace. Raises `TraceFormatError` for a
    list with both runs and traces.
    """
    if is_remote(source):
        return []
    if isinstance(source, str | os.PathLike):
        path = named_path(source)
        if is_run(source):
            return [path]
        if path.exists() or not has_magic(str(source)):
            return []
        paths = sorted(Path(name) for name in glob(str(path), recursive=True))
        return [] if any(entry.is_file() for entry in paths) else [entry for entry in paths if is_run(entry)]
    if not isinstance(source, Collection):
        return []  # iterators are left to `find_traces`, which also reports errors
    if any(is_remote(name) for name in source):
        return []
    named_paths = [named_path(name) for name in source]
    runs = [path for path in named_paths if is_run(path)]
    if runs and len(runs) < len(named_paths):
        other = next(path for path in named_paths if path not in runs)
        raise TraceFormatError(
            f"{runs[0]} is a run, but {other} is not", hint="Name runs only, or the trace files of all ranks."
        )
    return list(dict.fromkeys(runs))


def is_run(source: Source) -> bool:
    """Return whether this is the name of a run directory."""
    return os.fspath(source) != "" and (path_of(source) / MANIFEST).is_file()


def named_path(name: object) -> Path:
    """The path of a name. Raises `TraceFormatError` for an empty name, and `TypeError` for no name at all."""
    if not isinstance(name, str | os.PathLike):
        raise TypeError(f"a trace must be a path, not {type(name).__name__}")
    if not os.fspath(name):
        raise TraceFormatError("the name of the trace is empty", hint="Give a file, a folder or a pattern.")
    return path_of(name)
