"""Nsight Systems recordings as the source of an import: each process with GPU work is a rank."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from hotline_analysis.errors import HotlineError, MachineError, TraceFormatError
from hotline_analysis.importer.sources import ExportedProcess, TraceFile
from hotline_analysis.nsight.database import is_export
from hotline_analysis.nsight.processes import gpu_processes

REPORT_SUFFIXES = (".nsys-rep", ".qdrep")
EXPORT_SUFFIX = ".sqlite"


@contextmanager
def exported_processes(
    files: Sequence[TraceFile], *, skip_bad: bool, is_elsewhere: bool
) -> Iterator[Sequence[TraceFile]]:
    """Give the files, with each Nsight Systems export or report replaced by its processes with GPU work.

    Reports are exported to a temporary folder, which workers on other machines (`is_elsewhere`) do not see.
    """
    with ExitStack() as at_end:
        sources: list[TraceFile] = []
        for file in files:
            if isinstance(file, Path) and file.name.lower().endswith(REPORT_SUFFIXES) and not file.is_dir():
                if is_elsewhere:
                    raise HotlineError(
                        f"{file} is a report of Nsight Systems, which workers of a cluster do not read",
                        hint=f"Export the report: `{_command(file)}`.",
                    )
                try:
                    export = _exported(file, Path(at_end.enter_context(_temporary())))
                except TraceFormatError:
                    if not skip_bad:
                        raise
                    sources.append(file)  # reported by the import, like other bad files
                    continue
                sources += _processes(export, file)
            elif isinstance(file, Path) and is_export(file):
                sources += _processes(file, file)
            else:
                sources.append(file)
        yield sources


def _temporary() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="hotline-nsight-")


def _processes(export: Path, file: Path) -> Sequence[Path | ExportedProcess]:
    """Return the processes of an export. If unreadable, return the file itself: its import reports the reason."""
    try:
        keys = gpu_processes(export)
    except TraceFormatError:
        keys = []
    if not keys:
        return [export]
    return [ExportedProcess(export, file.name, key, number, len(keys)) for number, key in enumerate(keys)]


def the_only_process(copy: Path, called: str) -> Path | ExportedProcess:
    """Return the single process of an export copied from elsewhere; any other file unchanged.

    Raises `TraceFormatError` if the export has several processes, because a remote file is always one rank.
    """
    ranks = _processes(copy, copy) if is_export(copy) else [copy]
    if len(ranks) > 1:
        raise TraceFormatError(
            f"{called} has {len(ranks)} processes with GPU work, but of a remote export only one process is read",
            hint="Copy the export to this machine first: each process becomes a rank.",
        )
    return ranks[0]


def unexported(file: Path) -> TraceFormatError:
    """Return the error for a report that cannot be exported here."""
    return TraceFormatError(
        f"{file} is a report of Nsight Systems, and the program `nsys`, needed for the export, is not on this machine",
        hint=f"Run `{_command(file)}` on a machine with nsys, and pass the export.",
    )


_WITH_PAYLOADS = "--include-json=true"
"""Option of `nsys export` that keeps the sizes of NCCL's messages."""


def _command(file: Path) -> str:
    return f"nsys export --type sqlite {_WITH_PAYLOADS} {file.name}"


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", errors="replace", check=False
        )
    except OSError as error:
        raise MachineError(f"{command[0]} cannot be run: {error.strerror or error}") from error


def _exported(file: Path, folder: Path) -> Path:
    """Export a report into a folder and return the export."""
    program = shutil.which("nsys")
    if program is None:
        raise unexported(file)
    export = folder / f"{file.stem}{EXPORT_SUFFIX}"
    command = [program, "export", "--type", "sqlite", "--output", str(export)]
    result = _run([*command, _WITH_PAYLOADS, str(file.absolute())])
    if result.returncode and not export.exists():
        result = _run([*command, str(file.absolute())])  # a version without the option
    if result.returncode or not export.exists():
        lines = (result.stderr or result.stdout).strip().splitlines()
        raise TraceFormatError(
            f"{file} cannot be exported by nsys: {lines[-1] if lines else 'no message'}",
            hint="Is the report complete, and this nsys at least as new as the recording nsys?",
        )
    return export
