"""What all tests share."""

from __future__ import annotations

import gc
import os
import shutil
import tempfile

import pytest

from hotline_analysis.importer import processes
from tests import long_cases
from tests.runs import SESSION

LONG_CASES = long_cases.listed()


def pytest_configure(config: pytest.Config) -> None:
    """Make a folder that the processes which run tests have in common; they inherit its name."""
    if not hasattr(config, "workerinput"):
        folder = tempfile.mkdtemp(prefix="hotline-tests-")
        os.environ[SESSION] = folder
        config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark a case that `make test` leaves out, and skip a case whose traces are missing."""
    if item.nodeid in LONG_CASES:
        item.add_marker(pytest.mark.long)
    of_traces = item.get_closest_marker("traces")
    if of_traces and not of_traces.kwargs.get("replaced") and "HOTLINE_TRACES" not in os.environ:
        item.add_marker(pytest.mark.skip(reason="HOTLINE_TRACES is not set"))


def pytest_collection_finish() -> None:
    """Look no more for garbage in modules and in the thousands of tests, which stay until the end."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    """Let go of it, or libraries tell at the end what was never released."""
    gc.unfreeze()


@pytest.fixture
def in_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several files are imported by a process each, although they are small."""
    monkeypatch.setattr(processes, "_WORTH_PROCESSES_BYTES", 0)
