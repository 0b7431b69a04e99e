"""Trace files that several tests read are imported once, by whichever process of the test session needs them first."""

from __future__ import annotations

import fcntl
import hashlib
import os
from pathlib import Path

import hotline_analysis as ha

# Names the folder that the processes of one test session have in common; see conftest.py.
SESSION = "HOTLINE_TEST_SESSION"


def is_as_another(path: Path) -> bool:
    """Whether a real trace is of the same program as another one, with another size or number of workers."""
    return path.parent.name == "loader_pairs" and path.name != "1_workers0.json.gz"


def opened(path: Path) -> ha.Trace:
    """What `ha.load` gives, but of a run that stays, and that others use as well: nobody may change it.

    A file of the same name and content is the same trace, and so is a folder of such files. One with something to warn
    of is imported each time.
    """
    if SESSION not in os.environ:
        return ha.load(path)
    content = hashlib.sha256()
    for file in sorted(path.iterdir()) if path.is_dir() else [path]:
        content.update(b"%s\0%d\0" % (os.fsencode(file.name), file.stat().st_size) + file.read_bytes())
    folder = Path(os.environ[SESSION]) / content.hexdigest()
    folder.mkdir(exist_ok=True)
    run = folder / "run.hotline"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not run.exists():
            ha.import_traces(path, run)
    trace = ha.load(run)
    if trace.manifest["warnings"]:
        trace.close()
        return ha.load(path)
    return trace
