"""Judges new runs against a baseline, rule by rule."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median
from typing import Any, Literal

import numpy as np

from hotline_analysis.errors import QueryParameterError
from hotline_analysis.gating.measure import Measured, measure
from hotline_analysis.gating.rules import PARTS, Rule, Unit, parse
from hotline_analysis.gating.statistics import (
    LEVEL,
    Change,
    between_blocks,
    between_runs,
    between_steps,
    holm,
    mean_of_blocks,
)
from hotline_analysis.run.trace import Trace
from hotline_analysis.text.formats import safe, shorten

Answer = Literal["pass", "fail", "cannot tell"]
Of = Literal["mean", "median", "quick steps"]
DEFAULT_RULES = ("step > +3 %",)

_QUICK = 0.05
"""A run's quick steps are those around this quantile.

What else a machine does makes a step longer and never shorter, so quick steps differ least from run to run: for the
same reason, the minimum is advised for whole benchmarks (Chen and Revels, Robust benchmarking in noisy environments,
2016; the documentation of Python's `timeit`). A single step may be the shortest for a reason of its own, such as a
smaller batch; one in twenty is not.
"""
_QUICK_STEPS = round(1 / _QUICK)  # of fewer, the quantile would be the shortest step
_ONE_NUMBER = ("memory_peak",)  # of a run, and not of each step
_TOO_FEW = "one run with one step tells nothing of the noise"
_TOO_FEW_STEPS = "too few steps to tell the noise: record at least two periods of them"
_LIKELY = 3  # changed parts of each kind that are shown
_LONGEST = 60


@dataclass(frozen=True)
class Check:
    """One rule on one metric. `change` and what follows are in per cent or in the unit of the metric, by `unit`.

    The true change lies between `low` and `high`, each at the level of this check; `detectable` is the change that so
    many runs find in 8 of 10 cases. What is not known is None. The values are the means of the runs' `of`: times of the
    mean step of the loop, or of a check that fails for them, their medians or quick steps; other metrics are medians.
    `base_median` and `new_median` are the medians of the steps beside them.
    """

    rule: str
    metric: str
    answer: Answer
    reason: str
    limit: float
    unit: Literal["ns", "bytes", "%", "points", "% of step"]
    value_unit: Unit
    base: float | None
    new: float | None
    change: float | None = None
    low: float | None = None
    high: float | None = None
    detectable: float | None = None
    of: Of = "median"
    base_median: float | None = None
    new_median: float | None = None


@dataclass(frozen=True)
class Changed:
    """A part of the step that changed, for the question why: means over runs."""

    metric: str
    base_ns: float
    new_ns: float
    change_ns: float
    within_noise: bool | None
    """Whether it is within the noise between runs; None where too few runs tell."""


@dataclass(frozen=True)
class Verdict:
    """What a gate says: `pass`, `fail` or `cannot tell`, one sentence, the checks, and what changed most."""

    answer: Answer
    statement: str
    checks: Sequence[Check]
    notes: Sequence[str]
    changed: Sequence[Changed]
    base: Sequence[str]
    new: Sequence[str]

    def as_dict(self) -> dict[str, Any]:
        """All of it in types that JSON has."""
        from hotline_analysis.gating.forms import as_dict

        return as_dict(self)

    def to_text(self, width: int | None = None) -> str:
        """Text for a terminal, with sentences folded at `width` columns, if given; it begins with the verdict."""
        from hotline_analysis.gating.forms import to_text

        return to_text(self, width)

    def to_markdown(self) -> str:
        """GitHub-flavoured Markdown, for the summary of a job."""
        from hotline_analysis.gating.forms import to_markdown

        return to_markdown(self)

    def to_junit(self) -> str:
        """JUnit XML: a test case for each check; what cannot be told is an error."""
        from hotline_analysis.gating.forms import to_junit

        return to_junit(self)

    def __str__(self) -> str:
        return self.to_text()


def gate(
    base: Sequence[Measured | Trace] | Measured | Trace,
    new: Sequence[Measured | Trace] | Measured | Trace,
    fail_if: Collection[str] = DEFAULT_RULES,
    *,
    allow_different: Collection[str] = (),
) -> Verdict:
    """Say whether new runs are worse than those of a baseline: each is a run of the same program.

    `fail_if` are rules such as `step > +3 %`, `module:* > +1 % of step`, `memory_peak > 20 GiB` or `mfu < -2 points`.
    A check fails if the change is beyond the limit and beyond what chance gives in 1 % of cases, for all checks
    together. It passes if the change is within the limit, and the noise is smaller than the limit. Else it cannot be
    told: more runs are needed. The value of a run is the mean of its counted steps, so that what is not in every step
    counts, too. Where noise hides how a time changed, a change of the medians fails as well, and if each run has 20
    steps or more, a change of the quick steps (the quantile of 5 %). Runs that differ in what they ran on or in what
    was recorded are not compared, but for the names in `allow_different`.
    """
    rules = [parse(text) for text in ([fail_if] if isinstance(fail_if, str) else fail_if)]
    if not rules:
        raise QueryParameterError("a gate needs a rule", hint=f"Such as '{DEFAULT_RULES[0]}'.")
    before, after = _measured(base), _measured(new)
    if not after or (not before and any(rule.kind != "level" for rule in rules)):
        raise QueryParameterError("a gate needs a run on either side", hint="`hotline gate BASE NEW`.")
    differences = list(_differences(before, after, allow_different))
    if differences and any(rule.kind != "level" for rule in rules):
        blocked = [rule for rule in rules if rule.kind != "level"]
        checks = [_unknown(rule, rule.metric, f"not comparable: {differences[0]}") for rule in blocked]
        judged = [*checks, *_judge([rule for rule in rules if rule.kind == "level"], before, after)]
    else:
        judged = _judge(rules, before, after)
    notes = [f"Not comparable: {text}." for text in differences] + list(_notes(before, after, rules))
    answer, statement = _summary(judged, before, after)
    changed = _changed(before, after) if before and not differences else []
    return Verdict(answer, statement, judged, notes, changed, [run.name for run in before], [run.name for run in after])


def _measured(given: Sequence[Measured | Trace] | Measured | Trace) -> list[Measured]:
    runs = [given] if isinstance(given, Measured | Trace) else list(given)
    return [run if isinstance(run, Measured) else measure(run) for run in runs]


# --- may they be compared --------------------------------------------------------------------------------------------


def _differences(before: Sequence[Measured], after: Sequence[Measured], allowed: Collection[str]) -> Iterator[str]:
    """What differs between any two runs and is not allowed to; what one of them does not know is no difference."""
    runs = [*before, *after]
    known = {what for run in runs for what in run.identity}
    for what in allowed:
        if what not in known:
            raise QueryParameterError(f"no run knows {what!r}", hint=f"They know {', '.join(sorted(known))}.")
    for what in sorted(known - set(allowed)):
        values = dict.fromkeys(run.identity[what] for run in runs if what in run.identity)
        if len(values) > 1:
            yield f"{what} is {' and '.join(shorten(safe(value), _LONGEST) for value in list(values)[:3])}"


def _notes(before: Sequence[Measured], after: Sequence[Measured], rules: Sequence[Rule]) -> Iterator[str]:
    if any(rule.kind != "level" for rule in rules) and len(before) + len(after) == 2:
        yield (
            "One run on either side: the noise is that of steps, and runs of one program differ more than that. With"
            " several runs as a baseline, the noise between them counts."
        )
    elif len(before) == 1 and any(rule.kind != "level" for rule in rules):
        yield "One baseline run: the noise between runs is that of the new ones."
    if len(before) > 1 and len(after) == 1:
        yield (
            "One new run: a run that is unusual for a reason of the machine looks like a slower program. Before you"
            " believe a failure, run it again and give both (--new)."
        )
    of_base, of_new = (
        {metric for run in side for metric in run.values if metric.startswith("module:")} for side in (before, after)
    )
    both = len(of_base & of_new)
    if of_base and of_new and 2 * both < min(len(of_base), len(of_new)):
        yield f"Only {both:,} of {len(of_new):,} modules of the new runs are in the baseline: is it the same program?"
    few = min((run.step_count for run in [*before, *after]), default=0)
    if few < 3:
        yield f"A run has {few} step{'s' if few != 1 else ''}: of more, the median leaves out what is unusual."


# --- checks ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Open:
    """A check before its level is known: the change that is tested, and what is added to show it."""

    check: Check
    change: Change
    limit: float
    """In the scale of the test: logarithms for a relative limit."""
    is_shifted: bool
    """The tested change is what goes beyond the limit, and not beyond 0."""
    others: tuple[_Open, ...] = ()
    """The same of the medians and of the quick steps, which fail a check whose means cannot tell."""

    @property
    def p(self) -> float:
        """How often chance alone gives such a change, or such a one of the medians or quick steps."""
        ways = [self.change.p, *(other.change.p for other in self.others)]
        return min(1.0, len(ways) * min(ways))


def _judge(rules: Sequence[Rule], before: Sequence[Measured], after: Sequence[Measured]) -> list[Check]:
    found: list[Check | _Open] = []
    for rule in rules:
        metrics = list(_metrics(rule, before, after))
        if not metrics:
            sides = (("the baseline", before), ("the new runs", after))
            lacking = [
                name for name, side in sides if not any(rule.matches(metric) for run in side for metric in run.values)
            ]
            where = " and ".join(lacking) or "both sides"
            found.append(_unknown(rule, rule.metric, f"{where} {'have' if 'runs' in where else 'has'} no such metric"))
        for metric in metrics:
            opened = _opened(rule, metric, before, after, of=_main(metric))
            if isinstance(opened, _Open):
                others = [_opened(rule, metric, before, after, of=of) for of in _others(rule, metric, before, after)]
                opened = replace(opened, others=tuple(each for each in others if isinstance(each, _Open)))
            found.append(opened)
    opened_all = [each for each in found if isinstance(each, _Open)]
    levels = iter(holm([each.p for each in opened_all]))
    return [_decided(each, next(levels)) if isinstance(each, _Open) else each for each in found]


def _metrics(rule: Rule, before: Sequence[Measured], after: Sequence[Measured]) -> Iterator[str]:
    """The metrics that a rule is about and that both sides have; for a limit without a sign, the new runs."""
    sides = [after] if rule.kind == "level" else [before, after]
    names = [{metric for run in side for metric in run.values if rule.matches(metric)} for side in sides]
    yield from sorted(set.intersection(*names))


def _unknown(rule: Rule, metric: str, reason: str) -> Check:
    unit, value_unit = _units(rule, metric)
    return Check(rule.text, metric, "cannot tell", reason, rule.direction * rule.limit, unit, value_unit, None, None)


def _units(rule: Rule, metric: str) -> tuple[Any, Unit]:
    value_unit = Measured("", {}, {}).unit(metric)
    if rule.kind == "change_pct":
        return "%", value_unit
    if rule.kind == "of_step_pct":
        return "% of step", value_unit
    return "points" if value_unit == "%" and rule.kind == "change" else value_unit, value_unit


def _steps(run: Measured, metric: str) -> list[float]:
    """The values of a metric in the steps of a run. A part that the run does not have takes no time."""
    if metric in run.values:
        return list(run.values[metric])
    return [0.0] * run.step_count if metric.partition(":")[0] in PARTS else []


def _main(metric: str) -> Of:
    """What decides on a metric: the mean of a time, as the loop is the sum of its steps; else the median."""
    return "mean" if Measured("", {}, {}).unit(metric) == "ns" else "median"


def _others(rule: Rule, metric: str, before: Sequence[Measured], after: Sequence[Measured]) -> list[Of]:
    """What else may show that a time has grown."""
    if _main(metric) != "mean" or rule.kind == "level" or rule.direction < 0:
        return []
    return ["median", "quick steps"] if _has_quick_steps(rule, metric, before, after) else ["median"]


def _value(metric: str, values: Sequence[float], of: Of | None = None) -> float:
    if metric in _ONE_NUMBER:
        return max(values)
    way = of or _main(metric)
    if way == "mean":
        return fmean(values)
    return median(values) if way == "median" else float(np.quantile(values, _QUICK))


def _has_quick_steps(rule: Rule, metric: str, before: Sequence[Measured], after: Sequence[Measured]) -> bool:
    """Whether quick steps can say that a time has grown: there are enough, and runs that tell their noise."""
    runs = [*before, *after]
    is_growth = rule.kind != "level" and rule.direction > 0 and runs[0].unit(metric) == "ns"
    return is_growth and len(runs) > 2 and all(run.step_count >= _QUICK_STEPS for run in runs)


@dataclass(frozen=True)
class _Samples:
    """What two sides are compared by: a value of each run, and the values of its steps."""

    base: list[float]
    new: list[float]
    base_steps: list[list[float]]
    new_steps: list[list[float]]

    @classmethod
    def of(cls, metric: str, before: Sequence[Measured], after: Sequence[Measured], of: Of) -> _Samples:
        """The samples of a metric, from the runs that have it."""
        base, new = ([steps for run in side if (steps := _steps(run, metric))] for side in (before, after))
        values = [[_value(metric, steps, of) for steps in side] for side in (base, new)]
        return cls(values[0], values[1], base, new)

    def map(self, change: Callable[[float], float]) -> _Samples:
        """The samples with each value changed."""

        def changed(values: list[float]) -> list[float]:
            return [change(each) for each in values]

        steps = [[changed(run) for run in side] for side in (self.base_steps, self.new_steps)]
        return _Samples(changed(self.base), changed(self.new), steps[0], steps[1])


def _opened(rule: Rule, metric: str, before: Sequence[Measured], after: Sequence[Measured], of: Of) -> _Open | Check:
    """The change of a metric as the rule has it, and its noise; a check that cannot tell where there is none."""
    samples = recorded = _Samples.of(metric, before, after, of)
    unit, value_unit = _units(rule, metric)
    shown = [fmean(side) if side else None for side in (samples.base, samples.new)]
    check = Check(
        rule.text, metric, "cannot tell", "", rule.direction * rule.limit, unit, value_unit, shown[0], shown[1], of=of
    )
    if of == "mean":
        medians = [[median(steps) for steps in side] for side in (samples.base_steps, samples.new_steps)]
        middle = [fmean(side) if side else None for side in medians]
        check = replace(check, base_median=middle[0], new_median=middle[1])
    if rule.kind == "level":
        # The limit is a baseline without noise.
        change = _against_limit(rule, metric, samples.map(lambda value: rule.direction * value), after, of)
        return _Open(check, change, 0.0, True) if change else replace(check, reason=_TOO_FEW)
    limit = rule.limit
    if rule.kind == "change_pct":
        if min([*samples.base, *samples.new]) <= 0:
            return replace(check, reason="it takes no time in some runs, so it has no change in per cent")
        limit = abs(math.log1p(rule.direction * limit / 100)) if rule.direction * limit > -100 else math.inf
        samples = samples.map(lambda value: math.log(max(value, 1e-9)))
        # What is shown fits the change: a geometric mean, as it is a mean of logarithms.
        check = replace(check, base=math.exp(fmean(samples.base)), new=math.exp(fmean(samples.new)))
    elif rule.kind == "of_step_pct":
        whole = fmean(_value("step", run.values["step"]) for run in before) / 100
        samples = samples.map(lambda value: value / whole)
    samples = samples.map(lambda value: rule.direction * value)
    if len(samples.base) + len(samples.new) > 2:
        return _Open(check, between_runs(samples.base, samples.new), limit, False)
    if metric in _ONE_NUMBER:
        return _Open(check, Change(samples.new[0] - samples.base[0], "nothing"), limit, False)
    (base,), (new,) = samples.base_steps, samples.new_steps
    if min(len(base), len(new)) < 2:
        return replace(check, reason=_TOO_FEW)
    if of == "mean":
        is_relative = rule.kind == "change_pct"
        sides = (recorded.base_steps[0], recorded.new_steps[0]) if is_relative else (base, new)
        by_blocks = between_blocks(*sides, before[0].kinds, after[0].kinds, relative=is_relative)
        if by_blocks is None:
            return replace(check, reason=_TOO_FEW_STEPS)
        if is_relative:
            by_blocks = replace(by_blocks, estimate=rule.direction * by_blocks.estimate)
        return _Open(check, replace(by_blocks, estimate=by_blocks.estimate - limit), limit, True)
    change = between_steps(base, new)
    shifted = replace(change, estimate=change.estimate - limit, draws=tuple(draw - limit for draw in change.draws))
    return _Open(check, shifted, limit, True)


def _against_limit(rule: Rule, metric: str, samples: _Samples, after: Sequence[Measured], of: Of) -> Change | None:
    """By how much the new runs are above a limit; None if nothing tells the noise."""
    limit = rule.direction * rule.limit
    count = len(samples.new)
    mean = fmean(samples.new)
    if count > 1:
        spread = math.sqrt(math.fsum((each - mean) ** 2 for each in samples.new) / (count - 1))
        return Change(mean - limit, "runs", spread / math.sqrt(count), count - 1)
    if metric in _ONE_NUMBER:
        return Change(mean - limit, "nothing")
    (steps,) = samples.new_steps
    if of == "mean":
        value, error, df = mean_of_blocks(steps, after[0].kinds)
        return Change(value - limit, "blocks", error, df) if df > 0 else None
    return between_steps([limit], steps) if len(steps) > 1 else None


def _decided(opened: _Open, level: float) -> Check:
    """The check with its answer. Where medians or quick steps may fail it, all ways share the level."""
    ways = [_decided_by(each, level / (1 + len(opened.others)), level) for each in (opened, *opened.others)]
    if ways[0].answer == "cannot tell":
        for way in ways[1:]:
            if way.answer == "fail":
                return way
    known = [each.detectable for each in ways if each.detectable is not None]
    return replace(ways[0], detectable=min(known, default=None))


def _decided_by(opened: _Open, level: float, level_of_pass: float) -> Check:
    change, limit = opened.change, opened.limit
    below, above = change.margins(level)[0], change.margins(level_of_pass)[1]
    if opened.is_shifted:
        beyond = change.estimate
        answer: Answer = "fail" if beyond - below > 0 else "pass" if beyond + above <= 0 else "cannot tell"
        reason = {
            "fail": "beyond the limit by more than the noise",
            "pass": "within the limit by more than the noise",
            "cannot tell": "the limit is within the noise",
        }[answer]
    else:
        beyond = change.estimate - limit
        is_sure = change.estimate - below > 0
        if beyond > 0:
            answer = "fail" if is_sure else "cannot tell"
            reason = "beyond the limit and beyond noise" if is_sure else "beyond the limit, but not beyond noise"
        elif above <= limit or beyond + above <= 0:
            answer, reason = "pass", "within the limit"
        else:
            answer, reason = "cannot tell", "noise is larger than the limit"
    return replace(opened.check, answer=answer, reason=reason, **_shown(opened, below, above, level))


def _shown(opened: _Open, below: float, above: float, level: float) -> dict[str, Any]:
    """The change, its ends, and what can be detected, in the units of the check."""
    check = opened.check
    sign = 1 if check.limit >= 0 and ">" in check.rule else -1
    estimate = opened.change.estimate + (opened.limit if opened.is_shifted else 0.0)
    detectable = opened.change.detectable(level)
    ends = [estimate, estimate - below, estimate + above]
    if check.unit == "%" and _is_relative(check):
        values = [100 * math.expm1(sign * each) for each in ends]
        detectable = 100 * abs(math.expm1(sign * detectable))
    elif check.base is not None and _is_relative(check):
        values = [sign * each for each in ends]
    else:  # a level: where the value itself lies
        values = [abs(check.limit) + sign * each for each in ends]
    low, high = sorted(values[1:])
    return {"change": values[0], "low": low, "high": high, "detectable": detectable}


def _is_relative(check: Check) -> bool:
    """Whether the limit of a check is a change."""
    return bool(parse(check.rule).kind != "level")


# --- the whole -------------------------------------------------------------------------------------------------------


def _summary(checks: Sequence[Check], before: Sequence[Measured], after: Sequence[Measured]) -> tuple[Answer, str]:
    from hotline_analysis.gating.forms import sentence

    failed = [check for check in checks if check.answer == "fail"]
    unknown = [check for check in checks if check.answer == "cannot tell"]
    answer: Answer = "fail" if failed else "cannot tell" if unknown else "pass"
    chosen = failed or unknown or list(checks)
    chosen = sorted(chosen, key=lambda check: -abs(check.change or 0.0)) if failed else chosen
    said = sentence(chosen[0])
    more = f"; {len(chosen) - 1} more" if len(chosen) > 1 else ""
    of = f"{len(chosen)} of {len(checks)} checks: " if len(checks) > 1 else ""
    runs = f"{len(after)} new run{'s' if len(after) != 1 else ''} against {len(before)}"
    return answer, f"{of}{said}{more} ({runs})."


def _changed(before: Sequence[Measured], after: Sequence[Measured]) -> list[Changed]:
    """What changed most, of each kind of parts."""
    found: list[Changed] = []
    names = {metric for run in [*before, *after] for metric in run.values if ":" in metric}
    by_kind: dict[str, list[Changed]] = {}
    for metric in sorted(names):
        base, new = ([_value(metric, _steps(run, metric) or [0.0]) for run in side] for side in (before, after))
        change = fmean(new) - fmean(base)
        noise = None
        if len(base) + len(new) > 2:
            below, above = between_runs(base, new).margins(LEVEL)
            noise = abs(change) <= (below if change > 0 else above)
        by_kind.setdefault(metric.partition(":")[0], []).append(Changed(metric, fmean(base), fmean(new), change, noise))
    for kind in PARTS:
        largest = sorted(by_kind.get(kind, []), key=lambda each: (-abs(each.change_ns), each.metric))
        found += [each for each in largest[:_LIKELY] if each.change_ns]
    return found
