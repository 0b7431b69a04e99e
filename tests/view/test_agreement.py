"""Two runs of one program have the same tree, and the measure of that tells trees apart."""

from __future__ import annotations

from pathlib import Path

import pytest

import hotline_analysis as ha
from hotline_analysis.answers import detail
from tests import runs
from tests.trace_builder import TraceBuilder
from tests.view.agreement import agreement

TWICE = Path(__file__).parent.parent / "data" / "twice"


def one_step(*ops: tuple[str, int]) -> TraceBuilder:
    length = sum(us for _, us in ops)
    trace = TraceBuilder(rank=0).step(0, 0, length).annotation("Optimizer.step#SGD.step", 0, length)
    at = 0
    for op, us in ops:
        trace.op(f"aten::{op}", at, at + us)
        at += us
    return trace


@pytest.mark.slow
def test_one_op_more_is_one_node_more(tmp_path: Path) -> None:
    """The step and phase are equal, and five ops of five and six: 14 of 15 nodes; 2000 of 2100 us in ops."""
    ops = [(letter, 200) for letter in "abcde"]
    frames = [
        ha.level_of_detail(one_step(*some).load(tmp_path, name=f"{number}.json"))
        for number, some in enumerate((ops, [*ops[:2], ("x", 100), *ops[2:]]))
    ]
    assert list(agreement(*frames)) == pytest.approx([100, 100 * 14 / 15, 100 * 2000 / 2100])
    assert list(agreement(frames[0], frames[0], counting=True)) == [100, 100, 100]


@pytest.mark.slow
def test_a_group_with_another_name_is_another(tmp_path: Path) -> None:
    """Groups of two and three times `a` are one, unless counted; with `b` in them, they are another, and all in it."""
    big = ("big", 900)
    frames = [
        ha.level_of_detail(one_step(big, *some).load(tmp_path, name=f"{number}.json"))
        for number, some in enumerate(([("a", 4)] * 2, [("a", 4)] * 3, [("b", 5), ("a", 4)]))
    ]
    assert agreement(frames[0], frames[1]).groups == 100
    assert agreement(frames[0], frames[1]).nodes == pytest.approx(100 * 12 / 13)
    assert agreement(frames[0], frames[1], counting=True).groups == 0
    assert list(agreement(frames[0], frames[2]))[:2] == [0, 50]


@pytest.mark.slow
def test_two_runs_of_a_program_have_the_same_tree() -> None:
    """Three steps of a small graph network, captured twice on a busy CPU: times differ by tens of per cent.

    Some of its ops take nearly 5 % of what is around them, the limit: of 60 such pairs of runs, most agree more.
    Of the events, only ops and annotations are kept, and of what is known about them what the annotation needs.
    """
    opened = [runs.opened(TWICE / f"gnn_{number}.json.gz") for number in (1, 2)]
    frames = [ha.level_of_detail(trace, rank=0, step=detail.median_step(trace, 0)) for trace in opened]
    found = agreement(*frames)
    assert found.groups > 70
    assert found.nodes > 75
    assert found.time > 90
