"""The files that an import can read: local and remote files, processes of an export, and ranks of a run."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from hotline_analysis.importer.remote import Remote
from hotline_analysis.nsight.processes import pid_of

Source = str | os.PathLike[str]


@dataclass(frozen=True)
class ExportedProcess:
    """A process with GPU work in an Nsight Systems export."""

    file: Path
    called: str
    """Name of the user's file: the export, or the report from which the export was made."""
    process: int
    """Global id of the process, without the thread."""
    position: int
    """Index among the export's processes with GPU work, from 0."""
    count: int
    """Number of processes with GPU work in the export."""

    @property
    def name(self) -> str:
        """The name used in messages."""
        return f"{self.called} (process {pid_of(self.process)})" if self.count > 1 else self.called

    def __str__(self) -> str:
        return f"process {pid_of(self.process)} of {self.file}" if self.count > 1 else str(self.file)


@dataclass(frozen=True)
class StoredRank:
    """A rank of a run."""

    run: Path
    rank: int
    name: str = ""
    """Name of the rank's trace file."""
    size: int = 0
    """Bytes of the run divided by the number of ranks."""
    version: str = ""
    """Changes when the run is written again."""

    def __str__(self) -> str:
        return f"rank {self.rank} of {self.run}"


TraceFile = Path | Remote | StoredRank | ExportedProcess
