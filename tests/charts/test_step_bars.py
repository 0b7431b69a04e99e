"""The bars of a step: what the main thread and the device do in each stretch, and nothing is lost."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from hotline_analysis import catalog, charts
from hotline_analysis.answers.remedies import REMEDIES
from hotline_analysis.answers.rules import SLOWEST, UNNAMED
from hotline_analysis.run.trace import Trace
from tests.answer.ranks_of_a_job import job, ranks
from tests.trace_builder import TraceBuilder


@pytest.fixture
def trace(tmp_path: Path) -> Trace:
    """A step of 100 us: 20 of loading data, a kernel from 40 to 70, and a collective from 60 to 90."""
    made = TraceBuilder(rank=0).step(0, 0, 100)
    made.annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 0, 20)
    made.op("aten::mm", 20, 60).launches("gemm", 40, 70, at=30, until=32)
    made.launches("ncclDevKernel_AllReduce", 60, 90, at=50, until=52, stream=8)
    return made.load(tmp_path)


def times(rows: pl.DataFrame) -> dict[tuple[int | None, str], int]:
    return {(device, state): time for device, state, time in rows.select("device", "state", "time_ns").iter_rows()}


def test_a_device_is_in_one_state_and_the_parts_add_up(trace: Trace) -> None:
    found = times(trace.query("step_bars", rank=0, start_ns=0, end_ns=100_000))
    # The kernel hides the first 10 us of the collective.
    assert found[0, "computation"] == 30_000
    assert found[0, "communication"] == 20_000
    assert found[0, "load_data"] == 20_000
    assert sum(time for (device, _), time in found.items() if device == 0) == 100_000
    assert sum(time for (device, _), time in found.items() if device is None) == 100_000
    assert found[None, "load_data"] == 20_000


@pytest.mark.parametrize("bins", [1, 3, 7, 100])
def test_stretches_share_out_the_same_time(trace: Trace, bins: int) -> None:
    whole = trace.query("step_bars", rank=0, start_ns=0, end_ns=100_000)
    rows = trace.query("step_bars", rank=0, start_ns=0, end_ns=100_000, bins=bins)
    assert times(rows.group_by("device", "state").agg(pl.col("time_ns").sum())) == times(whole)
    width = -(-100_000 // bins)
    assert (rows.group_by("device", "bin").agg(pl.col("time_ns").sum())["time_ns"] <= width).all()


def test_a_time_cuts_what_reaches_over_its_ends(trace: Trace) -> None:
    found = times(trace.query("step_bars", rank=0, start_ns=50_000, end_ns=80_000))
    assert found[0, "computation"] == 20_000
    assert found[0, "communication"] == 10_000


def test_every_rule_has_a_change_for_a_card() -> None:
    rules = {rule.name for rule in catalog.queries("advice")}
    assert set(REMEDIES) == rules | {SLOWEST, UNNAMED}
    for remedy in REMEDIES.values():
        assert 2 <= len(remedy.title.split()) <= 7
        assert len(remedy.code.splitlines()) <= 3


def test_the_late_rank_has_a_row_on_the_clock_of_the_shown_rank(tmp_path: Path) -> None:
    """Rank 1 comes 90 us late to each collective, and its clock is 10 ms ahead."""
    both = ranks(tmp_path, job(0, [100, 100]), job(1, [190, 190], clock=10_000, gemm=140))
    shown = charts.timeline(both, rank=0).picture()
    late = shown["late"]
    assert late["rank"] == 1
    # On another clock, nothing of it would be at this time.
    assert sum(bar["time"] for bar in late["bars"]) >= 0.9 * shown["span"]
    assert {bar["device"] for bar in late["bars"]} == {None}
    assert charts.timeline(both, rank=1).picture()["late"] is None


def test_ranks_without_a_late_one_have_no_row(tmp_path: Path) -> None:
    assert charts.timeline(ranks(tmp_path, job(0, [100, 100]), job(1, [100, 100]))).picture()["late"] is None
