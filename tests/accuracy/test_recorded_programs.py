"""The optimizer of programs that users wrote, against PyTorch's own marks in the same trace.

The programs compute statistics of gradients, or write files, between backward and the optimizer or after it. They and
their traces lie beside the real traces, in `cases/programs`.
"""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest

import hotline_analysis as ha

PROGRAMS = Path(os.environ.get("HOTLINE_TRACES", "not set")).parent / "cases" / "programs"
STATISTICS = ("aten::histc", "aten::quantile", "aten::sort", "aten::std")

pytestmark = pytest.mark.skipif(
    "HOTLINE_TRACES" not in os.environ or not PROGRAMS.is_dir(), reason="the recorded programs are not here"
)


def marked_pct(path: Path, starts: str) -> float:
    """The share of the steps in events whose name starts so, by a plain loop over the file."""
    with gzip.open(path, "rt") as file:
        events: list[dict[str, Any]] = json.load(file)["traceEvents"]
    time = {"step": 0.0, "mark": 0.0}
    for event in events:
        if event.get("cat") == "user_annotation" and "dur" in event:
            time["step"] += float(event["dur"]) * event["name"].startswith("ProfilerStep#")
            time["mark"] += float(event["dur"]) * event["name"].startswith(starts)
    return 100 * time["mark"] / time["step"]


@pytest.mark.parametrize("name", ["v4_clip", "v4_plain", "v4_ann", "p3", "p4"])
@pytest.mark.sampled
def test_the_optimizer_is_its_marks(name: str) -> None:
    path = PROGRAMS / f"{name}.json.gz"
    with ha.load(path) as trace:
        phases = dict(trace.query("phases").select("phase", "cpu_pct").rows())
        statistics = trace.sql(
            "select distinct phase from annotated_event where list_contains($names, name)", names=list(STATISTICS)
        )["phase"].to_list()
    assert phases["optimizer"] == pytest.approx(marked_pct(path, "Optimizer.step#"), abs=3)
    assert set(statistics) <= {"other"}


@pytest.mark.parametrize(("name", "is_clipping"), [("v4_clip", True), ("p4", True), ("v4_plain", False), ("p3", False)])
def test_clipping_is_shown_where_gradients_are_clipped(name: str, *, is_clipping: bool) -> None:
    """One op scales all gradients in each step; norms for statistics are no clip."""
    with ha.load(PROGRAMS / f"{name}.json.gz") as trace:
        phases = dict(trace.query("phases").select("phase", "cpu_pct").rows())
        found = trace.sql(
            "select count(distinct step) as steps from annotated_event"
            " where name = 'aten::_foreach_mul_' and phase = 'clipping'"
        )
        steps = trace.query("steps").height
    assert found["steps"].to_list() == [steps if is_clipping else 0]
    assert (phases.get("clipping", 0) > 0) == is_clipping
