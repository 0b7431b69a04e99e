"""Which files a source names: a file, a folder, a pattern, or a list."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Sequence
from glob import glob, has_magic
from pathlib import Path

from hotline_analysis.atomic import MANIFEST, path_of
from hotline_analysis.errors import TraceFormatError
from hotline_analysis.importer.remote import Remote, find_remote, heads, is_remote
from hotline_analysis.importer.stored_rank import StoredRank, ranks_of
from hotline_analysis.run.stored import RUN_SUFFIX

Source = str | os.PathLike[str]
TraceFile = Path | Remote | StoredRank
SUFFIXES = (".json", ".json.gz", ".json.zst")


def find_traces(source: Source | Sequence[Source]) -> tuple[Sequence[TraceFile], bool]:
    """Return the files that a source names, and whether they were searched for rather than named one by one.

    Of runs, these are their ranks.
    """
    if isinstance(source, str) and is_remote(source):
        return find_remote(source, SUFFIXES)
    if runs := find_runs(source):
        return ranks_of(runs), False
    if isinstance(source, str | os.PathLike):
        path = _named(source)
        if path.is_dir():
            found = _traces_in(path)
            if not found:
                has_runs = any(is_run(each) for each in path.iterdir())
                raise TraceFormatError(
                    f"{path} holds no trace files",
                    hint=f"Name the runs in it, as in `hotline report {path}/*{RUN_SUFFIX}`."
                    if has_runs
                    else f"Looked for files ending in {', '.join(SUFFIXES)}.",
                )
            return found, True
        if not path.exists() and has_magic(str(source)):
            found = sorted(Path(name) for name in glob(str(path), recursive=True) if Path(name).is_file())
            if not found:
                raise TraceFormatError(f"no file matches {source}", hint="Quote the pattern, and check the folder.")
            return found, True
        return [_existing(path)], False
    if not isinstance(source, Iterable):
        raise TypeError(f"traces are named by a path or a list of paths, not by {type(source).__name__}")
    names = list(source)
    if not names:
        raise TraceFormatError("the list of trace files is empty", hint="Pass at least one file.")
    here = {name: _existing(_named(name)) for name in names if not is_remote(name)}
    elsewhere = [name for name in names if isinstance(name, str) and is_remote(name)]
    there = dict(zip(elsewhere, heads(elsewhere), strict=True)) if elsewhere else {}
    return [there[name] if isinstance(name, str) and name in there else here[name] for name in names], False


def state_of(file: TraceFile) -> tuple[str, int, str]:
    """The whole name of a file, its size, and what changes when its content does."""
    if isinstance(file, Remote):
        return file.url, file.size, file.version
    if isinstance(file, StoredRank):
        return str(file), file.size, file.version
    found = file.stat()
    return os.path.abspath(file), found.st_size, str(found.st_mtime_ns)


def find_runs(source: Source | Iterable[Source]) -> list[Path]:
    """Return the run directories that a source names: one, a pattern or a list of several; none if it names traces.

    A pattern that finds files means these, as a run stands beside its trace. Raises `TraceFormatError` for a list that
    has both.
    """
    if is_remote(source):
        return []
    if isinstance(source, str | os.PathLike):
        path = _named(source)
        if is_run(source):
            return [path]
        if path.exists() or not has_magic(str(source)):
            return []
        found = sorted(Path(name) for name in glob(str(path), recursive=True))
        return [] if any(each.is_file() for each in found) else [each for each in found if is_run(each)]
    if not isinstance(source, Collection):
        return []  # what can be read only once is for `find_traces`, which also says what is wrong
    if any(is_remote(name) for name in source):
        return []
    named = [_named(name) for name in source]
    runs = [path for path in named if is_run(path)]
    if runs and len(runs) < len(named):
        other = next(path for path in named if path not in runs)
        raise TraceFormatError(
            f"{runs[0]} is a run, and {other} is none", hint="Name runs only, or the trace files of all ranks."
        )
    return list(dict.fromkeys(runs))


def is_run(source: Source) -> bool:
    """Whether this is the name of a run directory."""
    return os.fspath(source) != "" and (path_of(source) / MANIFEST).is_file()


def _named(name: object) -> Path:
    if not isinstance(name, str | os.PathLike):
        raise TypeError(f"a trace is named by a path, not by {type(name).__name__}")
    if not os.fspath(name):
        raise TraceFormatError("the name of the trace is empty", hint="Give a file, a folder or a pattern.")
    return path_of(name)


def _existing(path: Path) -> Path:
    if not path.exists():
        raise TraceFormatError(f"{path} does not exist", hint="Check the path.")
    if path.is_dir():
        raise TraceFormatError(f"{path} is a folder in a list of files", hint="Pass the folder alone.")
    return path


def _traces_in(folder: Path) -> list[Path]:
    """Trace files of a folder, or if it has none itself, of the folders below it that are no run directories."""
    direct = sorted(path for path in folder.iterdir() if path.is_file() and path.name.lower().endswith(SUFFIXES))
    if direct:
        return direct
    below = (path for path in folder.rglob("*") if path.is_file() and path.name.lower().endswith(SUFFIXES))
    return sorted(path for path in below if not any((parent / MANIFEST).exists() for parent in path.parents))
