"""What tests of several files share."""

from __future__ import annotations

import pytest

from hotline_analysis.importer import processes


@pytest.fixture
def in_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several files are imported by a process each, although they are small."""
    monkeypatch.setattr(processes, "_WORTH_PROCESSES_BYTES", 0)
