"""Find the files of a source: a file, a folder, a pattern, or a list."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from glob import glob, has_magic
from pathlib import Path

from hotline_analysis.atomic import MANIFEST
from hotline_analysis.errors import TraceFormatError
from hotline_analysis.importer.exports import EXPORT_SUFFIX, REPORT_SUFFIXES
from hotline_analysis.importer.remote import Remote, find_remote, heads, is_remote
from hotline_analysis.importer.runs import find_runs, is_run, named_path
from hotline_analysis.importer.sources import ExportedProcess, Source, StoredRank, TraceFile
from hotline_analysis.importer.stored_rank import ranks_of
from hotline_analysis.run.stored import RUN_SUFFIX

SUFFIXES = (".json", ".json.gz", ".json.zst", EXPORT_SUFFIX, *REPORT_SUFFIXES)


def find_traces(source: Source | Sequence[Source]) -> tuple[Sequence[TraceFile], bool]:
    """Return the files of a source, and whether they were found by a search (folder or pattern).

    For runs, return their ranks.
    """
    if isinstance(source, str) and is_remote(source):
        return find_remote(source, SUFFIXES)
    if runs := find_runs(source):
        return ranks_of(runs), False
    if isinstance(source, str | os.PathLike):
        path = named_path(source)
        if path.is_dir():
            paths = _traces_in(path)
            if not paths:
                has_runs = any(is_run(entry) for entry in path.iterdir())
                raise TraceFormatError(
                    f"{path} holds no trace files",
                    hint=f"Name the runs in it, as in `hotline report {path}/*{RUN_SUFFIX}`."
                    if has_runs
                    else f"Looked for files ending in {', '.join(SUFFIXES)}.",
                )
            return paths, True
        if not path.exists() and has_magic(str(source)):
            paths = sorted(Path(name) for name in glob(str(path), recursive=True) if Path(name).is_file())
            if not paths:
                raise TraceFormatError(f"no file matches {source}", hint="Quote the pattern, and check the folder.")
            return paths, True
        return [_existing(path)], False
    if not isinstance(source, Iterable):
        raise TypeError(f"traces must be a path or a list of paths, not {type(source).__name__}")
    names = list(source)
    if not names:
        raise TraceFormatError("the list of trace files is empty", hint="Pass at least one file.")
    local_files = {name: _existing(named_path(name)) for name in names if not is_remote(name)}
    urls = [name for name in names if isinstance(name, str) and is_remote(name)]
    remote_files = dict(zip(urls, heads(urls), strict=True)) if urls else {}
    return [
        remote_files[name] if isinstance(name, str) and name in remote_files else local_files[name] for name in names
    ], False


def state_of(file: TraceFile) -> tuple[str, int, str]:
    """Return a file's full name, its size, and a version that changes with the content."""
    if isinstance(file, Remote):
        return file.url, file.size, file.version
    if isinstance(file, StoredRank):
        return str(file), file.size, file.version
    if isinstance(file, ExportedProcess):
        name, size, version = state_of(file.file)
        return f"{name}#{file.process}", size // file.count, version
    status = file.stat()
    return os.path.abspath(file), status.st_size, str(status.st_mtime_ns)


def _existing(path: Path) -> Path:
    if not path.exists():
        raise TraceFormatError(f"{path} does not exist", hint="Check the path.")
    if path.is_dir():
        raise TraceFormatError(f"{path} is a folder in a list of files", hint="Pass the folder alone.")
    return path


def _traces_in(folder: Path) -> list[Path]:
    """Return the trace files of a folder. If there are none, return the trace files of its subfolders, except runs."""
    direct = _without_reports(path for path in folder.iterdir() if path.is_file())
    if direct:
        return direct
    below = _without_reports(path for path in folder.rglob("*") if path.is_file())
    return [path for path in below if not any((parent / MANIFEST).exists() for parent in path.parents)]


def _without_reports(files: Iterable[Path]) -> list[Path]:
    """Return the trace files, without Nsight Systems reports that have an export next to them."""
    traces = sorted(path for path in files if path.name.lower().endswith(SUFFIXES))
    exports = {path.with_suffix("") for path in traces if path.suffix.lower() == EXPORT_SUFFIX}
    return [
        path for path in traces if not (path.name.lower().endswith(REPORT_SUFFIXES) and path.with_suffix("") in exports)
    ]
