"""The recommended changes: the advice with the largest gains, with a title and the mean step before and after."""

from __future__ import annotations

import re
from collections.abc import Sequence

import polars as pl

from hotline_analysis.answers.limits import LEAST_PCT, StepLoop
from hotline_analysis.answers.remedies import code_for, remedy_of
from hotline_analysis.answers.rules import SLOWEST, Advice
from hotline_analysis.prediction.asked import applies
from hotline_analysis.reports.content import A_STEP, THE_RECORDING, Action
from hotline_analysis.run.trace import Trace

MOST = 3
_PREDICTED = ("predicted_ns", "low_ns", "high_ns")
_EVENT = re.compile(r"(^|, )event -?\d+$")
OF_A_PLACE = ("user_stretch", "files_written", SLOWEST)
"""Rules that advise to run a place less often or faster. Of several at one place, the first rule here counts."""


def first_actions(
    trace: Trace, rank: int, advice: Sequence[Advice], worth: pl.DataFrame | None, loop: StepLoop | None
) -> list[Action]:
    """The best three actions. Changes predicted to gain nothing are omitted, and each change occurs once."""
    if loop is None or not loop.mean_ns:
        return []
    step_ns, whole = loop.mean_ns, A_STEP if loop.loops else THE_RECORDING
    predicted = {} if worth is None else {row["scenario"]: row for row in worth.iter_rows(named=True)}
    found: list[tuple[Action, int, int]] = []
    changes: set[str] = set()
    for each in _once_for_each_place(advice):
        remedy = remedy_of(each)
        title = each.do if remedy is None else remedy.title
        change = {title, each.scenario, "" if remedy is None else remedy.code} - {""}
        row = predicted.get(each.scenario)
        gains_nothing = each.scenario and row is None and worth is not None and applies(trace, rank, each.scenario)
        if gains_nothing or changes & change or 100 * each.gain_ns < LEAST_PCT * step_ns:
            continue
        changes |= change
        code = "" if remedy is None else code_for(trace, rank, remedy.code)
        action = _action(each, title, code, whole, step_ns, row)
        least, most = _gains(action, row)
        # Advice is ordered by the gain in the recorded steps. A prediction moves an action only if the whole range of
        # gains is better or worse, because an order by overlapping ranges would be chance.
        position = len(found)
        while position and least > found[position - 1][2]:
            position -= 1
        found.insert(position, (action, least, most))
        if len(found) == MOST:
            break
    return [action for action, _, _ in found]


def _once_for_each_place(advice: Sequence[Advice]) -> list[Advice]:
    """The advice without further rules at the same place, whose gains would look like gains of their own."""
    rank_of = {rule: rank for rank, rule in enumerate(OF_A_PLACE)}
    best: dict[str, int] = {}
    for each in advice:
        if each.rule in rank_of and (place := _place(each)):
            best[place] = min(best.get(place, len(rank_of)), rank_of[each.rule])
    return [
        each
        for each in advice
        if each.rule not in rank_of or not _place(each) or best[_place(each)] == rank_of[each.rule]
    ]


def _place(advice: Advice) -> str:
    """The place of an advice without its event; empty if unknown."""
    return _EVENT.sub("", advice.where)


def _gains(action: Action, row: dict[str, int] | None) -> tuple[int, int]:
    """The least and the most that an action gains of a mean step, without the noise that all steps of a run share."""
    if row is None:
        gain = action.step_ns - action.after_ns
        return gain, gain
    least, most = (round(row[name] * action.step_ns / row["baseline_ns"]) for name in ("gain_low_ns", "gain_high_ns"))
    return least, most


def _action(advice: Advice, title: str, code: str, whole: str, step_ns: int, row: dict[str, int] | None) -> Action:
    remedy = remedy_of(advice)
    where = _place(advice)
    if row is None:
        after, low, high = max(0, step_ns - advice.gain_ns), None, None
    else:
        # Predictions are for usual steps, whose mean may differ from the loop's mean: scale to the loop's mean.
        after, low, high = (round(row[name] * step_ns / row["baseline_ns"]) for name in _PREDICTED)
        # Cap the range at the present step: above, the range only reflects variation between runs.
        low, high = min(low, after), max(after, min(high, step_ns))
    gains = remedy is None or remedy.gains
    return Action(
        title,
        advice.what,
        where,
        advice.do,
        code,
        advice.rule,
        advice.event_id,
        step_ns,
        after,
        low,
        high,
        gains,
        whole,
    )
