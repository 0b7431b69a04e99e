"""Labelled traces are annotated at least as well as it takes to trust every label."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.accuracy.labelled import labelled_folders, score
from tests.real_traces import TRACES

LEAST = {
    "phase": 99.9,
    "forward leaf": 99.9,
    "forward other": 95.0,
    "backward leaf": 99.5,
    "backward other": 95.0,
    "before window": 100.0,
}


@pytest.mark.slow
@pytest.mark.traces
@pytest.mark.parametrize("folder", labelled_folders(TRACES), ids=lambda folder: folder.name)
def test_scores(folder: Path) -> None:
    found = score(TRACES, folder)
    assert found.keys() == LEAST.keys()
    for part, row in found.items():
        if row["events"]:
            assert row["events_right_pct"] >= LEAST[part], part
            assert row["gpu_time_right_pct"] is None or row["gpu_time_right_pct"] >= LEAST[part], part
