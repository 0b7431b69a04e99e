"""Charts of memory: who holds it, over a step, and what computing again saves."""

from __future__ import annotations

from pathlib import Path

import pytest

import hotline_analysis as ha
from hotline_analysis import charts
from tests.answer.memory_traces import training
from tests.charts.reading import data, title
from tests.checkpointed import training as layers


def test_bars_of_modules_are_those_of_the_answer(tmp_path: Path) -> None:
    chart = charts.memory_breakdown(ha.memory_breakdown(training().load(tmp_path)))
    found = {row["what"]: row["bytes"] for row in data(chart)}
    assert found == {"held throughout, no module": 1000, "Net_0.Linear_0": 200, "Net_0.Linear_1": 100}
    assert title(chart) == "held throughout, no module holds 1000 B at the peak"


def test_categories_over_a_step_add_up_to_what_is_allocated(tmp_path: Path) -> None:
    """1,000 older bytes; 200 from 30 us to 530 us, 40 from 130 to 180, 100 from 230 to 430, in 900 us."""
    trace = training().load(tmp_path)
    rows = trace.query("memory_by_category", points=901)
    found = {(row["at_ns"] // 1000, row["category"]): row["bytes"] for row in rows.iter_rows(named=True)}
    for at, activation, temporary in (
        (40, 200, 0),
        (150, 200, 40),
        (200, 200, 0),
        (300, 300, 0),
        (500, 200, 0),
        (600, 0, 0),
    ):
        assert (found[at, "activation"], found[at, "temporary"], found[at, "older"]) == (activation, temporary, 1000)
    chart = charts.memory_over_step(trace)
    assert title(chart).startswith("Most is allocated 23")
    assert "1.27 KiB" in title(chart)
    assert title(charts.memory_over_step(ha.load(ha.demo_trace())))


def test_what_computing_again_saves(tmp_path: Path) -> None:
    chart = charts.recomputation(layers().load(tmp_path))
    assert [row["peak"] for row in data(chart)] == pytest.approx([700 / 1, 700 / 1])
    assert title(chart) == "A peak of 700 B costs 100 µs per step"
