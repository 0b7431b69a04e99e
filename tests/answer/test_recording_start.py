"""Ranks that begin to record one after the other: that is nobody's delay, and one line says when each began."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import hotline_analysis as ha
from hotline_analysis import Trace
from hotline_analysis.answers.rules import find_advice
from hotline_analysis.answers.waiting import find_late_rank
from tests.trace_builder import TraceBuilder

CASE = Path(os.environ.get("HOTLINE_TRACES", "no traces")).parent / "cases" / "44b_three_steps"
ROUND = 10_000  # between the ends of all-reduces


def rank_of(rank: int, began: int, own: dict[int, int], *, last: int, steps: int = 4, world: int = 4) -> TraceBuilder:
    """A rank that begins to record at a time, and does an all-reduce in each step, whose ends are 10 ms apart.

    The first one ends at `last` + 100; `own` is how long the rank computes in a step, 3,000 us where none is given. It
    starts a step when the one before ends, and the first when it begins to record.
    """
    built = TraceBuilder(rank=rank, world_size=world)
    args: dict[str, Any] = {"Collective name": "allreduce", "dtype": "Float", "In msg nelems": 1000}
    args |= {"Out msg nelems": 1000, "Group size": world, "Process Group Name": "0"}
    at = began
    for number in range(steps):
        end = last + 100 + ROUND * number
        comes = at + own.get(number, 3000)
        built.step(number, at, end).op("aten::mm", at + 10, at + 20).launches("gemm", at + 30, comes)
        built.op("c10d::allreduce_", at + 30, at + 40)
        built.launches("ncclDevKernel_AllReduce_Sum_f32_RING_LL", comes, end, stream=9, **args)
        built.runtime("cudaDeviceSynchronize", at + 50, end)
        at = end
    return built


def together(folder: Path, *built: TraceBuilder) -> Trace:
    for number, one in enumerate(built):
        one.write(folder / f"{number}.json")
    return ha.load(folder)


def waits(trace: Trace) -> dict[int, tuple[int, int, int]]:
    """By rank, in us: waiting for what others did, waiting for the start of their recording, and when it began."""
    columns = ("rank", "wait_ns", "start_wait_ns", "began_ns")
    return {row[0]: tuple(value // 1000 for value in row[1:]) for row in ha.stragglers(trace).select(columns).rows()}


@pytest.mark.slow
@pytest.mark.parametrize(
    "began", [(500, 0, 4000), (0, 8000), (0, 1000, 2000, 8000), (7000, 0), (0, 300, 600, 900, 5000)]
)
@pytest.mark.sampled
def test_who_began_later_is_not_late(tmp_path: Path, began: tuple[int, ...]) -> None:
    """Each computes for 3 ms in each step, so the first wait of each is as long as it began before the last one."""
    last = max(began) + 3000
    world = len(began)
    trace = together(tmp_path, *(rank_of(rank, at, {}, last=last, world=world) for rank, at in enumerate(began)))
    first = min(began)
    assert waits(trace) == {rank: (0, max(began) - at, at - first) for rank, at in enumerate(began)}
    assert ha.stragglers(trace)["caused_wait_ns"].to_list() == [0] * world
    assert find_late_rank(trace) is None
    assert "late_rank" not in [each.rule for each in find_advice(trace)]
    text = ha.report(trace).to_text(width=400)
    assert f"Rank {began.index(first)} began to record first" in text
    assert "is last to reach" not in text


@pytest.mark.slow
def test_what_the_last_rank_does_in_its_recording_is_its_delay(tmp_path: Path) -> None:
    """Rank 1 begins 4 ms later and computes for 5 ms instead of 3: of 6 ms of waiting, 4 are for the start."""
    slow = dict.fromkeys(range(4), 5000)
    trace = together(tmp_path, rank_of(0, 0, {}, last=9000, world=2), rank_of(1, 4000, slow, last=9000, world=2))
    assert waits(trace) == {0: (4 * 2000, 4000, 0), 1: (0, 0, 4000)}
    late = find_late_rank(trace)
    assert late is not None
    assert (late.rank, late.step_wait_ns) == (1, 2_000_000)


@pytest.mark.slow
def test_a_rank_that_begins_later_may_wait_for_one_that_began_before(tmp_path: Path) -> None:
    """Rank 0 computes for 9 ms in its first step; rank 1 begins 2 ms later and comes 4 ms earlier."""
    trace = together(tmp_path, rank_of(0, 0, {0: 9000}, last=9000, world=2), rank_of(1, 2000, {}, last=9000, world=2))
    assert waits(trace) == {0: (0, 0, 0), 1: (4000, 0, 2000)}


@pytest.mark.slow
def test_lateness_in_one_step_without_a_cause_is_no_finding(tmp_path: Path) -> None:
    """All begin together, and rank 1 is 5 ms late to the first all-reduce only: nothing before it can be compared."""
    slow = rank_of(1, 0, {0: 8000}, last=8000, world=2)
    trace = together(tmp_path, rank_of(0, 0, {}, last=8000, world=2), slow)
    assert waits(trace) == {0: (5000, 0, 0), 1: (0, 0, 0)}
    assert find_late_rank(trace) is None


@pytest.mark.slow
def test_lateness_in_one_step_with_a_cause_is_one(tmp_path: Path) -> None:
    """Rank 1 computes for 8 ms in its third step: that is in the file."""
    slow = rank_of(1, 0, {2: 8000}, last=3000, world=2)
    late = find_late_rank(together(tmp_path, rank_of(0, 0, {}, last=3000, world=2), slow))
    assert late is not None
    assert (late.rank, "computing" in late.cause) == (1, True)


@pytest.mark.slow
@pytest.mark.skipif(not CASE.exists(), reason="HOTLINE_TRACES is not set")
def test_the_case_of_four_ranks() -> None:
    """They begin at 0, 1, 2 and 8 ms, the first all-reduce ends at 11.55 ms, and the others are even."""
    trace = ha.load(CASE)
    assert waits(trace) == {0: (0, 8000, 0), 1: (0, 7000, 1000), 2: (0, 6000, 2000), 3: (0, 0, 8000)}
    assert find_late_rank(trace) is None
    text = ha.report(trace).to_text(width=400)
    assert "rank 1 1.00 ms later, rank 2 2.00 ms later and rank 3 8.00 ms later" in text
    assert "is last to reach" not in text
