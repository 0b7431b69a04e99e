"""Waiting is not python: what is said of a loop that waits for other ranks, from one file and from several."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import hotline_analysis as ha
from hotline_analysis.answers.rules import find_advice
from hotline_analysis.answers.waiting import find_late_rank
from tests.answer.gloo_job import LOADER, STEPS, job, together

P5 = Path(os.environ.get("HOTLINE_TRACES", "no traces")).parent / "cases" / "programs"


@pytest.mark.slow
def test_one_file_waits_for_other_ranks(tmp_path: Path) -> None:
    """From 198 us, where the op of the collective ends, the loop waits until 800; the collective begins at 200."""
    trace = job(0, 200).load(tmp_path)
    limits = {row["limit"]: row for row in ha.step_limits(trace).iter_rows(named=True)}
    assert (limits["other_ranks"]["path_ns"], limits["other_ranks"]["without_ns"]) == (600_000, 400_000)
    assert limits["load_data"]["speedup"] == 1  # with its batch earlier, it waits longer
    first, *rest = find_advice(trace)
    assert (first.rule, first.count, first.time_ns, first.gain_ns) == ("unseen_rank", 1, 600_000, 600_000)
    assert {each.rule for each in rest} & {"loader_too_few_workers", "python_overhead"} == set()
    text = ha.report(trace).to_text(width=400)
    assert "Mostly waiting for other ranks in all_reduce: 60.0 % of the step (2.50 times faster without it)." in text
    assert "60.0 % of the step is waiting for other ranks in all_reduce." in text
    assert "num_workers" not in text


def test_a_short_collective_leaves_the_advice_on_loading(tmp_path: Path) -> None:
    """100 us for the batch, and 52 for the collective, from the end of its op on."""
    trace = job(0, 200, 250)
    for number in range(1, STEPS + 1):
        trace.on(1).op("aten::relu", 1000 * number + 252, 1000 * number + 800)
    found = {each.rule: each.gain_ns for each in find_advice(trace.load(tmp_path))}
    assert found["loader_too_few_workers"] == 100_000
    assert found["unseen_rank"] == 50_000


def test_of_several_ranks_the_late_one_is_named_with_its_cause_and_gain(tmp_path: Path) -> None:
    """Rank 1 comes 500 us later, each time after a stretch between its batch and the op that is 500 us longer."""
    trace = together(tmp_path, 200, 700)
    first = find_advice(trace)[0]
    assert (first.rule, first.time_ns, first.gain_ns, first.gain_pct) == ("late_rank", 500_000, 500_000, 50)
    # Twice, as nothing ends before the first collective.
    assert f"time on the CPU in load_data, between {LOADER} and aten::linear (1.00 ms more)" in first.do
    text = ha.report(trace).to_text(width=400)
    assert "Mostly waiting for rank 1 in all_reduce: 60.0 % of the step" in text
    assert "each other rank waits 1.50 ms for it, 500 µs a step." in text
    assert "num_workers" not in text


def test_the_late_rank_itself_is_told_what_it_costs_the_others(tmp_path: Path) -> None:
    first = find_advice(together(tmp_path, 700, 200))[0]
    assert (first.rule, first.gain_ns, first.gain_pct) == ("late_rank", 500_000, 50)
    assert "the others wait for it: once, 500 µs" in first.what


def test_collectives_in_flight_together_count_once(tmp_path: Path) -> None:
    """Four buckets wait at the same time: no rank waits longer than a step takes."""
    trace = together(tmp_path, 200, 700, buckets=4)
    rows = {row["rank"]: row for row in ha.stragglers(trace).iter_rows(named=True)}
    assert rows[0]["wait_ns"] == rows[1]["caused_wait_ns"] == STEPS * 503_000  # the last bucket comes at 703
    assert rows[0]["transfer_ns"] == STEPS * 97_000
    assert ha.straggler_causes(trace, rank=1)["excess_ns"].sum() == (STEPS - 1) * 500_000
    late = find_late_rank(trace)
    assert late is not None
    assert "1.50 ms for it, 500 µs a step." in late.text


def test_ranks_that_come_together_do_not_wait_for_each_other(tmp_path: Path) -> None:
    trace = together(tmp_path, 200, 201)
    assert find_late_rank(trace) is None
    assert [each.rule for each in find_advice(trace) if each.rule == "late_rank"] == []


@pytest.mark.skipif(not P5.exists(), reason="HOTLINE_TRACES is not set")
def test_a_recorded_rank_waits_as_long_as_a_stopwatch_says(tmp_path: Path) -> None:
    """The program's stopwatch: rank 0 waits in backward for 74 % of a step."""
    trace = ha.load(P5 / "p5.rank0.json.gz")
    limits = dict(ha.step_limits(trace).select("limit", "path_pct").rows())
    assert limits["other_ranks"] == pytest.approx(74, abs=3)
    phases = trace.sql("select distinct phase from rank_wait where step is not null")["phase"].to_list()
    assert phases == ["backward"]
    assert [each.rule for each in find_advice(trace)] == ["unseen_rank"]
    assert "waiting for other ranks in all_reduce" in ha.report(trace).headline


@pytest.mark.skipif(not P5.exists(), reason="HOTLINE_TRACES is not set")
def test_recorded_ranks_tell_who_is_late_and_why() -> None:
    """Rank 1 augments its data for 30 ms a step in its main process, between the loader and the next op."""
    trace = ha.load([P5 / "p5.rank0.json.gz", P5 / "p5.rank1.json.gz"])
    cause = ha.straggler_causes(trace, rank=1).row(0, named=True)
    assert (cause["activity"], cause["phase"], cause["region"]) == ("host", "load_data", None)
    assert cause["excess_ns"] / cause["collective_count"] == pytest.approx(30_000_000, rel=0.1)
    late = find_late_rank(trace)
    assert late is not None
    assert late.rank == 1
    assert f"between {LOADER} and aten::randn_like" in late.cause
    first = find_advice(trace)[0]
    assert (first.rule, late.cause in first.do) == ("late_rank", True)
    assert 50 < first.gain_pct < 74
    assert "waiting for rank 1 in all_reduce" in ha.report(trace).headline
