"""What all tests share."""

from __future__ import annotations

import gc
import os
import shutil
import tempfile
from pathlib import Path

import pytest

from hotline_analysis.importer import processes
from tests import kinds
from tests.runs import SESSION

# Where Linux keeps files in memory, and the free bytes that tests want there: ten times as many as they leave behind.
_MEMORY = Path("/dev/shm")
_MEMORY_BYTES = 16 << 30


def pytest_configure(config: pytest.Config) -> None:
    """Make a folder that the processes which run tests have in common; they inherit its name.

    A run has a folder for each of its tables. Tests make hundreds of thousands of folders, which a disk takes
    milliseconds each to remove.
    """
    if not hasattr(config, "workerinput"):
        if "TMPDIR" not in os.environ and _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free >= _MEMORY_BYTES:
            os.environ["TMPDIR"] = tempfile.tempdir = str(_MEMORY)
        folder = tempfile.mkdtemp(prefix="hotline-tests-")
        os.environ[SESSION] = folder
        config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add what `tests.changed` asks for."""
    parser.addoption("--of-queries", help="of tests that go over queries, only the cases of these (tests/changed.py)")


def pytest_itemcollected(item: pytest.Item) -> None:
    """Skip a case whose traces are missing."""
    of_traces = item.get_closest_marker("traces")
    if of_traces and not of_traces.kwargs.get("replaced") and "HOTLINE_TRACES" not in os.environ:
        item.add_marker(pytest.mark.skip(reason="HOTLINE_TRACES is not set"))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out cases of other queries, and mark those that `make test-kinds` leaves out, and those of `make test`.

    That is done where it matters: to look at real traces takes seconds.
    """
    if config.option.of_queries is not None:
        others = kinds.of_other_queries(items, config.option.of_queries.split(","))
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if item not in set(others)]
    if "long" in config.option.markexpr:
        traces = os.environ.get("HOTLINE_TRACES")
        left_out = kinds.left_out(items, Path(traces) if traces else None)
        for item in left_out:
            item.add_marker(pytest.mark.long)
        if "sample" in config.option.markexpr.split():
            for item in kinds.sample(items, set(left_out)):
                item.add_marker(pytest.mark.sample)


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
