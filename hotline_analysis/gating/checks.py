"""The results of a gate as values: a check per rule and metric, changed parts, and the outcome of all checks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from hotline_analysis.gating.rules import Unit

Answer = Literal["pass", "fail", "cannot tell"]
Of = Literal["mean", "median", "quick steps"]


@dataclass(frozen=True)
class Check:
    """A rule applied to a metric. `change` and the following fields are in percent or the metric's unit, by `unit`.

    The true change is between `low` and `high`, each at the level of this check. `detectable` is the change found in 8
    of 10 cases by this number of runs. Unknown values are `None`. `of` is the statistic of a run's value. It is the
    mean of the steps for times, or the median or quick steps if the check fails by these, and the median for other
    metrics. `base` and `new` are means over runs. `base_median` and `new_median` are the medians of the steps. If the
    noise between steps hides the answer, `steps_needed` steps in either run would find a change as large as the limit
    in 8 of 10 cases.
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
    steps_needed: int | None = None


@dataclass(frozen=True)
class Changed:
    """A changed part of the step, as an explanation: means over runs."""

    metric: str
    base_ns: float
    new_ns: float
    change_ns: float
    within_noise: bool | None
    """Whether the change is within the noise between runs; `None` with too few runs."""


@dataclass(frozen=True)
class Outcome:
    """The values of a verdict: `pass`, `fail` or `cannot tell`, a sentence, the checks, and the largest changes."""

    answer: Answer
    statement: str
    checks: Sequence[Check]
    notes: Sequence[str]
    changed: Sequence[Changed]
    base: Sequence[str]
    new: Sequence[str]
