"""What may happen on a worker of a cluster: the name of a trace says it, and a log beside the trace names each try."""

from __future__ import annotations

import errno
import os
import signal
import time
from pathlib import Path
from typing import Any

from distributed import WorkerPlugin

from hotline_analysis.importer import one_file, tasks

LOG = "tries.log"


def tries(folder: Path) -> list[str]:
    """The files of a folder that a worker began to import, sorted."""
    log = folder / LOG
    return sorted(log.read_text().split()) if log.exists() else []


def import_file(file: Path, folder: Path, *given: Any) -> dict[str, Any]:
    with (file.parent / LOG).open("a") as log:
        log.write(f"{file.name}\n")
    mark = file.with_suffix(".mark")
    if ("deadly" in file.name or "fragile" in file.name) and not mark.exists():
        if "fragile" in file.name:
            mark.touch()
        (folder / "event.parquet").write_bytes(b"half of a")
        os.kill(os.getpid(), signal.SIGKILL)
    if "full" in file.name:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    while "waiting" in file.name and not mark.exists():
        time.sleep(0.02)
    return one_file.import_file(file, folder, *given)


class Faults(WorkerPlugin):
    """Lets a worker fail as the names of files say."""

    def setup(self, worker: object) -> None:
        setattr(tasks, "import_file", import_file)  # noqa: B010 - of another type
