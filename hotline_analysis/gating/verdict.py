"""Judge new runs against a baseline, rule by rule."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median
from typing import Any

import numpy as np

from hotline_analysis.errors import QueryParameterError
from hotline_analysis.gating import forms
from hotline_analysis.gating.checks import Answer, Changed, Check, Of, Outcome
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

DEFAULT_RULES = ("step > +3 %",)

_QUICK = 0.05
"""The quantile of a run's quick steps.

Other work on a machine makes a step longer and never shorter, so quick steps differ least from run to run. For the same
reason, the minimum is recommended for whole benchmarks (Chen and Revels, Robust benchmarking in noisy environments,
2016; the documentation of Python's `timeit`). A single step may be shortest for its own reason, such as a smaller
batch; a twentieth of all steps is not.
"""
_QUICK_STEPS = round(1 / _QUICK)  # with fewer steps, the quantile would be the shortest step
_ONE_NUMBER = ("memory_peak",)  # per run, not per step
_TOO_FEW = f"one run with one step does not show the noise: record {_QUICK_STEPS} steps"
_LIKELY = 3  # maximum number of changed parts shown per kind
_LONGEST = 60


class Verdict(Outcome):
    """Result of a gate: `pass`, `fail` or `cannot tell`, a sentence, the checks, and the largest changes."""

    def as_dict(self) -> dict[str, Any]:
        """The verdict as JSON types."""
        return forms.as_dict(self)

    def to_text(self, width: int | None = None) -> str:
        """Text for a terminal, beginning with the verdict; sentences are wrapped at `width` columns, if given."""
        return forms.to_text(self, width)

    def to_markdown(self) -> str:
        """GitHub-flavoured Markdown, for a job summary."""
        return forms.to_markdown(self)

    def to_junit(self) -> str:
        """JUnit XML: a test case per check; an undecided check is an error."""
        return forms.to_junit(self)

    def __str__(self) -> str:
        return self.to_text()


def gate(
    base: Sequence[Measured | Trace] | Measured | Trace,
    new: Sequence[Measured | Trace] | Measured | Trace,
    fail_if: Collection[str] = DEFAULT_RULES,
    *,
    allow_different: Collection[str] = (),
) -> Verdict:
    """Judge whether new runs are worse than the baseline. All runs must be runs of the same program.

    `fail_if` are rules such as `step > +3 %`, `module:* > +1 % of step`, `memory_peak > 20 GiB` or `mfu < -2 points`. A
    check fails if the change is beyond the limit and beyond the change expected by chance in 1 % of cases, over all
    checks together. It passes if the change is within the limit and the noise is smaller than the limit. Otherwise the
    answer is `cannot tell`, and more runs are needed.

    The value of a run is the mean of its counted steps, so work in only some steps also counts. If noise hides the
    change of a time, a change of the medians also fails the check. With at least 20 steps in each run, a change of the
    quick steps (the 5 % quantile) fails the check, too. Runs with a different device or different recorded data are not
    compared, except for differences named in `allow_different`.
    """
    rules = [parse(text) for text in ([fail_if] if isinstance(fail_if, str) else fail_if)]
    if not rules:
        raise QueryParameterError("a gate needs a rule", hint=f"Example: '{DEFAULT_RULES[0]}'.")
    before, after = _measured(base), _measured(new)
    if not after or (not before and any(rule.kind != "level" for rule in rules)):
        raise QueryParameterError("a gate needs a baseline and a new run", hint="`hotline gate BASE NEW`.")
    differences = list(_differences(before, after, allow_different))
    if differences and any(rule.kind != "level" for rule in rules):
        change_rules = [rule for rule in rules if rule.kind != "level"]
        checks = [_unknown(rule, rule.metric, f"not comparable: {differences[0]}") for rule in change_rules]
        all_checks = [*checks, *_judge([rule for rule in rules if rule.kind == "level"], before, after)]
    else:
        all_checks = _judge(rules, before, after)
    notes = [f"Not comparable: {text}." for text in differences] + list(_notes(before, after, rules))
    answer, statement = _summary(all_checks, before, after)
    changes = _changed(before, after) if before and not differences else []
    return Verdict(
        answer, statement, all_checks, notes, changes, [run.name for run in before], [run.name for run in after]
    )


def _measured(given: Sequence[Measured | Trace] | Measured | Trace) -> list[Measured]:
    runs = [given] if isinstance(given, Measured | Trace) else list(given)
    return [run if isinstance(run, Measured) else measure(run) for run in runs]


# --- comparability ---------------------------------------------------------------------------------------------------


def _differences(before: Sequence[Measured], after: Sequence[Measured], allowed: Collection[str]) -> Iterator[str]:
    """Differences between any two runs that are not allowed. An entry unknown to a run is not a difference."""
    runs = [*before, *after]
    entries = {entry for run in runs for entry in run.identity}
    for entry in allowed:
        if entry not in entries:
            raise QueryParameterError(
                f"no run has a property {entry!r}", hint=f"Properties: {', '.join(sorted(entries))}."
            )
    for entry in sorted(entries - set(allowed)):
        values = dict.fromkeys(run.identity[entry] for run in runs if entry in run.identity)
        if len(values) > 1:
            shown = [shorten(safe(value), _LONGEST) for value in list(values)[:3]]
            yield f"{entry}: {' in one run, '.join(shown)} in another"


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
    shared = len(of_base & of_new)
    if of_base and of_new and 2 * shared < min(len(of_base), len(of_new)):
        yield f"Only {shared:,} of {len(of_new):,} modules of the new runs are in the baseline: is it the same program?"
    fewest = min((run.step_count for run in [*before, *after]), default=0)
    if fewest < 3:
        yield f"A run has {fewest} step{'s' if fewest != 1 else ''}: of more, the median leaves out what is unusual."


# --- checks ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Open:
    """A check before its level is known: the tested change, and the data to display it."""

    check: Check
    change: Change
    limit: float
    """In the scale of the test: logarithms for a relative limit."""
    is_shifted: bool
    """The tested change is measured from the limit, not from 0."""
    others: tuple[_Open, ...] = ()
    """The same check for the medians and for the quick steps, which can fail a check if the means are undecided."""
    step_count: int = 0
    """Steps of the shorter run, if the noise is the noise between its steps."""

    @property
    def p(self) -> float:
        """Probability of such a change by chance, in the mean or in the medians or quick steps."""
        probabilities = [self.change.p, *(other.change.p for other in self.others)]
        return min(1.0, len(probabilities) * min(probabilities))


def _judge(rules: Sequence[Rule], before: Sequence[Measured], after: Sequence[Measured]) -> list[Check]:
    checks: list[Check | _Open] = []
    for rule in rules:
        metrics = list(_metrics(rule, before, after))
        if not metrics:
            sides = (("the baseline", before), ("the new runs", after))
            empty_sides = [
                name for name, side in sides if not any(rule.matches(metric) for run in side for metric in run.values)
            ]
            subject = " and ".join(empty_sides) or "both sides"
            checks.append(
                _unknown(rule, rule.metric, f"{subject} {'have' if 'runs' in subject else 'has'} no such metric")
            )
        for metric in metrics:
            candidate = _opened(rule, metric, before, after, of=_main(metric))
            if isinstance(candidate, _Open):
                others = [_opened(rule, metric, before, after, of=of) for of in _others(rule, metric, before, after)]
                candidate = replace(candidate, others=tuple(check for check in others if isinstance(check, _Open)))
            checks.append(candidate)
    opened_all = [check for check in checks if isinstance(check, _Open)]
    levels = iter(holm([check.p for check in opened_all]))
    return [_decided(check, next(levels)) if isinstance(check, _Open) else check for check in checks]


def _metrics(rule: Rule, before: Sequence[Measured], after: Sequence[Measured]) -> Iterator[str]:
    """The metrics of a rule present on both sides; for a limit without a sign, present in the new runs."""
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
    """The values of a metric in the steps of a run. A part missing from the run takes no time."""
    if metric in run.values:
        return list(run.values[metric])
    return [0.0] * run.step_count if metric.partition(":")[0] in PARTS else []


def _main(metric: str) -> Of:
    """The statistic that decides: the mean for times, because the loop is the sum of its steps; else the median."""
    return "mean" if Measured("", {}, {}).unit(metric) == "ns" else "median"


def _others(rule: Rule, metric: str, before: Sequence[Measured], after: Sequence[Measured]) -> list[Of]:
    """Further statistics that may show an increase of a time."""
    if _main(metric) != "mean" or rule.kind == "level" or rule.direction < 0:
        return []
    return ["median", "quick steps"] if _has_quick_steps(rule, metric, before, after) else ["median"]


def _value(metric: str, values: Sequence[float], kinds: Sequence[int], of: Of | None = None) -> float:
    """The value of a run from the values and the kinds of its steps."""
    if metric in _ONE_NUMBER:
        return max(values)
    statistic = of or _main(metric)
    if statistic == "mean":
        return mean_of_blocks(values, kinds)[0]
    return median(values) if statistic == "median" else float(np.quantile(values, _QUICK))


def _has_quick_steps(rule: Rule, metric: str, before: Sequence[Measured], after: Sequence[Measured]) -> bool:
    """Whether quick steps can show an increase: with enough steps, and enough runs to estimate the noise."""
    runs = [*before, *after]
    is_growth = rule.kind != "level" and rule.direction > 0 and runs[0].unit(metric) == "ns"
    return is_growth and len(runs) > 2 and all(run.step_count >= _QUICK_STEPS for run in runs)


@dataclass(frozen=True)
class _Samples:
    """Samples of both sides: a value per run, and the values of its steps."""

    base: list[float]
    new: list[float]
    base_steps: list[list[float]]
    new_steps: list[list[float]]

    @classmethod
    def of(cls, metric: str, before: Sequence[Measured], after: Sequence[Measured], of: Of) -> _Samples:
        """The samples of a metric, from the runs with this metric."""
        sides = [[(run, steps) for run in side if (steps := _steps(run, metric))] for side in (before, after)]
        base, new = ([_value(metric, steps, run.kinds, of) for run, steps in side] for side in sides)
        return cls(base, new, *([steps for _, steps in side] for side in sides))

    def map(self, change: Callable[[float], float]) -> _Samples:
        """The samples with a function applied to each value."""

        def changed(values: list[float]) -> list[float]:
            return [change(value) for value in values]

        steps = [[changed(run) for run in side] for side in (self.base_steps, self.new_steps)]
        return _Samples(changed(self.base), changed(self.new), steps[0], steps[1])


def _opened(rule: Rule, metric: str, before: Sequence[Measured], after: Sequence[Measured], of: Of) -> _Open | Check:
    """The change of a metric in the rule's scale, with its noise; an undecided check if the noise is unknown."""
    samples = unscaled = _Samples.of(metric, before, after, of)
    unit, value_unit = _units(rule, metric)
    means = [fmean(side) if side else None for side in (samples.base, samples.new)]
    check = Check(
        rule.text, metric, "cannot tell", "", rule.direction * rule.limit, unit, value_unit, means[0], means[1], of=of
    )
    if of == "mean":
        medians = [[median(steps) for steps in side] for side in (samples.base_steps, samples.new_steps)]
        middle = [fmean(side) if side else None for side in medians]
        check = replace(check, base_median=middle[0], new_median=middle[1])
    if rule.kind == "level":
        # The limit acts as a baseline without noise.
        change = _against_limit(rule, metric, samples.map(lambda value: rule.direction * value), after, of)
        return _Open(check, change, 0.0, True) if change else replace(check, reason=_TOO_FEW)
    limit = rule.limit
    if rule.kind == "change_pct":
        if min([*samples.base, *samples.new]) <= 0:
            return replace(check, reason="it takes no time in some runs, so it has no change in per cent")
        limit = abs(math.log1p(rule.direction * limit / 100)) if rule.direction * limit > -100 else math.inf
        samples = samples.map(lambda value: math.log(max(value, 1e-9)))
        # The displayed values are geometric means, to match the change, which is a mean of logarithms.
        check = replace(check, base=math.exp(fmean(samples.base)), new=math.exp(fmean(samples.new)))
    elif rule.kind == "of_step_pct":
        one_percent = fmean(_value("step", run.values["step"], run.kinds) for run in before) / 100
        samples = samples.map(lambda value: value / one_percent)
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
        sides = (unscaled.base_steps[0], unscaled.new_steps[0]) if is_relative else (base, new)
        by_blocks = between_blocks(*sides, before[0].kinds, after[0].kinds, relative=is_relative)
        if by_blocks is None:
            return replace(check, reason=_TOO_FEW)
        if is_relative:
            by_blocks = replace(by_blocks, estimate=rule.direction * by_blocks.estimate)
        shifted = replace(by_blocks, estimate=by_blocks.estimate - limit)
        return _Open(check, shifted, limit, True, step_count=min(len(base), len(new)))
    change = between_steps(base, new)
    shifted = replace(change, estimate=change.estimate - limit, draws=tuple(draw - limit for draw in change.draws))
    return _Open(check, shifted, limit, True)


def _against_limit(rule: Rule, metric: str, samples: _Samples, after: Sequence[Measured], of: Of) -> Change | None:
    """Distance of the new runs above a limit; `None` if the noise is unknown."""
    limit = rule.direction * rule.limit
    count = len(samples.new)
    mean = fmean(samples.new)
    if count > 1:
        spread = math.sqrt(math.fsum((number - mean) ** 2 for number in samples.new) / (count - 1))
        return Change(mean - limit, "runs", spread / math.sqrt(count), count - 1)
    if metric in _ONE_NUMBER:
        return Change(mean - limit, "nothing")
    (steps,) = samples.new_steps
    if of == "mean":
        value, error, df = mean_of_blocks(steps, after[0].kinds)
        return Change(value - limit, "blocks", error, df) if df > 0 else None
    return between_steps([limit], steps) if len(steps) > 1 else None


def _decided(opened: _Open, level: float) -> Check:
    """Decide a check. If medians or quick steps may also fail it, all statistics share the level."""
    checks = [_decided_by(each, level / (1 + len(opened.others)), level) for each in (opened, *opened.others)]
    if checks[0].answer == "cannot tell":
        for check in checks[1:]:
            if check.answer == "fail":
                return check
    detectables = [each.detectable for each in checks if each.detectable is not None]
    decision = replace(checks[0], detectable=min(detectables, default=None))
    if decision.answer != "cannot tell":
        return decision
    times = opened.change.times_steps(level, opened.limit)
    return replace(decision, steps_needed=_two_digits(times * opened.step_count) if times else None)


def _two_digits(number: float) -> int:
    """The number rounded up to two significant digits."""
    unit = int(10 ** max(0, math.floor(math.log10(number)) - 1))
    return math.ceil(number / unit) * unit


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
    """The change, its interval, and the detectable change, in the units of the check."""
    check = opened.check
    sign = 1 if check.limit >= 0 and ">" in check.rule else -1
    estimate = opened.change.estimate + (opened.limit if opened.is_shifted else 0.0)
    detectable = opened.change.detectable(level)
    ends = [estimate, estimate - below, estimate + above]
    if check.unit == "%" and _is_relative(check):
        values = [100 * math.expm1(sign * end) for end in ends]
        detectable = 100 * abs(math.expm1(sign * detectable))
    elif check.base is not None and _is_relative(check):
        values = [sign * end for end in ends]
    else:  # a level: the interval of the value itself
        values = [abs(check.limit) + sign * end for end in ends]
    low, high = sorted(values[1:])
    return {"change": values[0], "low": low, "high": high, "detectable": detectable}


def _is_relative(check: Check) -> bool:
    """Whether the limit of a check is a change."""
    return bool(parse(check.rule).kind != "level")


# --- verdict ---------------------------------------------------------------------------------------------------------


def _summary(checks: Sequence[Check], before: Sequence[Measured], after: Sequence[Measured]) -> tuple[Answer, str]:
    failures = [check for check in checks if check.answer == "fail"]
    unknown = [check for check in checks if check.answer == "cannot tell"]
    answer: Answer = "fail" if failures else "cannot tell" if unknown else "pass"
    leading = failures or unknown or list(checks)
    leading = sorted(leading, key=lambda check: -abs(check.change or 0.0)) if failures else leading
    headline = forms.sentence(leading[0])
    more = f"; {len(leading) - 1} more" if len(leading) > 1 else ""
    count_text = f"{len(leading)} of {len(checks)} checks: " if len(checks) > 1 else ""
    runs = f"{len(after)} new run{'s' if len(after) != 1 else ''} against {len(before)}"
    return answer, f"{count_text}{headline}{more} ({runs})."


def _changed(before: Sequence[Measured], after: Sequence[Measured]) -> list[Changed]:
    """The largest changes of each kind of parts."""
    changes: list[Changed] = []
    names = {metric for run in [*before, *after] for metric in run.values if ":" in metric}
    by_kind: dict[str, list[Changed]] = {}
    for metric in sorted(names):
        base, new = (
            [_value(metric, _steps(run, metric) or [0.0], run.kinds) for run in side] for side in (before, after)
        )
        change = fmean(new) - fmean(base)
        noise = None
        if len(base) + len(new) > 2:
            below, above = between_runs(base, new).margins(LEVEL)
            noise = abs(change) <= (below if change > 0 else above)
        by_kind.setdefault(metric.partition(":")[0], []).append(Changed(metric, fmean(base), fmean(new), change, noise))
    for kind in PARTS:
        largest = sorted(by_kind.get(kind, []), key=lambda each: (-abs(each.change_ns), each.metric))
        changes += [each for each in largest[:_LIKELY] if each.change_ns]
    return changes
