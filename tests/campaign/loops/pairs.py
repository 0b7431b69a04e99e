"""Pairs of loops for the gate: the same program twice, and a program that became slower."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from pathlib import Path

import hotline_analysis as ha
from tests.campaign.loops.oracle import answers
from tests.campaign.loops.plan import WAYS, Plan, Way, again, plan, slower
from tests.campaign.loops.record import recorded

_LEAST_SLOWER = 1.1
_APART = 1_000_000_000  # between the seeds of the loops of a pair
_SURE_JITTER = 0.002
_SURE_PERIODS = 3


@dataclass(frozen=True)
class Judged:
    """The verdict of the gate about a pair, and the verdicts that are right."""

    seed: int
    is_slower: bool
    way: Way | None
    answer: str
    right: frozenset[str]
    statement: str

    @property
    def is_false_alarm(self) -> bool:
        """The gate fails a program that is the same: chance gives one in a hundred."""
        return not self.is_slower and self.answer == "fail"

    @property
    def is_wrong(self) -> bool:
        """The gate passes a slower program, or cannot tell although all is regular."""
        return self.answer not in self.right and not self.is_false_alarm


def judged(seed: int, folder: Path) -> list[Judged]:
    """The gate's verdicts about a program against itself, and against a slower one."""
    base = plan(seed)
    base_run = _measured(base, folder)
    way = WAYS[seed % len(WAYS)]
    found = []
    for other, is_slower in ((again(base, seed + _APART), False), (_surely_slower(base, way, seed), True)):
        verdict = ha.gate(base_run, _measured(other, folder))
        right = {"fail" if is_slower else "pass"}
        if not _is_regular(base, other):
            right.add("cannot tell")
        of = way if is_slower else None
        found.append(Judged(seed, is_slower, of, verdict.answer, frozenset(right), verdict.statement))
    return found


def _surely_slower(base: Plan, way: Way, seed: int) -> Plan:
    """A plan whose mean step, as recorded, is 10 % longer or more; chance draws some that are not."""
    mean = answers(base).mean
    drawn = (slower(base, way, seed + _APART * place, place - 1) for place in count(2))
    return next(each for each in drawn if answers(each).mean >= _LEAST_SLOWER * mean)


def _measured(given: Plan, folder: Path) -> ha.Measured:
    with ha.load(recorded(given)[0].write(folder / "loop.json")) as trace:
        return ha.measure(trace)


def _is_regular(*plans: Plan) -> bool:
    """Whether the steps of all plans repeat often enough, and differ so little, that the gate has to tell."""
    for each in plans:
        every = [each.accumulate if each.accumulate > 1 else 0, each.late_every, each.evaluate_every, each.save_every]
        intervals = [interval for interval in every if interval]
        counted = each.steps - 1  # the first one may be a warm-up
        if each.slow or each.tail or each.jitter > _SURE_JITTER or len(intervals) > 1:
            return False
        if intervals and counted < _SURE_PERIODS * intervals[0]:
            return False
    return True
