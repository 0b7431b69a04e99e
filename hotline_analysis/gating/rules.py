"""Rules of a gate: `step > +3 %`, `module:encoder.* > +1 % of step`, `memory_peak > 20 GiB`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal

from hotline_analysis.errors import QueryParameterError
from hotline_analysis.text.formats import SIZE_UNITS, TIME_UNITS, one_of

Unit = Literal["ns", "bytes", "%"]
Kind = Literal["change_pct", "change", "of_step_pct", "level"]

WHOLE: dict[str, tuple[Unit, str]] = {
    "step": ("ns", "a step, from work to work"),
    "gpu_busy": ("ns", "GPU at work"),
    "gpu_idle": ("ns", "GPU without work"),
    "memory_peak": ("bytes", "most memory allocated in a step"),
    "mfu": ("%", "model FLOP utilisation"),
}
"""Metrics with a single value per step, with unit and meaning."""
PARTS: dict[str, str] = {
    "phase": "time of a phase",
    "module": "time of a module and those in it, by path",
    "class": "GPU time of a class of work: computation, communication (the exposed part) or memory",
    "kernel": "GPU time of a kernel, by short name",
    "op": "time of an op",
    "idle": "GPU idle time by cause",
}
"""Metrics with a name, such as `phase:backward`."""

_RULE = re.compile(
    r"(?P<metric>.+?)\s*(?P<order>[<>])\s*(?P<sign>[+-])?\s*(?P<number>\d+(?:\.\d*)?|\.\d+)\s*(?P<unit>[^<>]*)",
    re.DOTALL,
)
_TIMES = {name: size for size, name in TIME_UNITS} | {"us": 1000}
_SIZES = {name: size for size, name in SIZE_UNITS}
_HINT = (
    "A rule is METRIC > LIMIT: 'step > +3 %', 'phase:backward > +2 ms', 'module:* > +1 % of step',"
    " 'memory_peak > 20 GiB', 'mfu < 30 %'. With a sign, the limit is a change."
)


@dataclass(frozen=True)
class Rule:
    """A rule. A limit with a sign is a change against the baseline, in percent or in a unit; otherwise it is a value.

    `limit` is in the unit of the metric (nanoseconds, bytes, percent). `direction` is 1 for `>` and -1 for `<`; values
    beyond the limit in this direction fail.
    """

    text: str
    metric: str
    direction: int
    kind: Kind
    limit: float

    def matches(self, metric: str) -> bool:
        """Whether the rule applies to a metric; `*` and `?` match any characters."""
        return metric == self.metric or fnmatchcase(metric, self.metric)

    @property
    def is_pattern(self) -> bool:
        """Whether the rule can apply to several metrics."""
        return any(mark in self.metric for mark in "*?")


def parse(text: str) -> Rule:
    """Parse a rule. Raises `QueryParameterError` for invalid syntax, and for a rule that would always or never fail."""
    match = _RULE.fullmatch(text.strip())
    if match is None:
        raise QueryParameterError(f"{text!r} is not a rule", hint=_HINT)
    metric = re.sub(r"\s*:\s*", ":", match["metric"].strip(), count=1)
    unit, direction = " ".join(match["unit"].split()), 1 if match["order"] == ">" else -1
    base_unit = _unit(metric)
    sign = match["sign"]
    number = float(match["number"])
    if sign and (sign == "+") != (direction > 0) and number:
        raise QueryParameterError(
            f"{text!r} would fail without any change",
            hint="Write '> +3 %' (must not grow) or '< -3 %' (must not shrink).",
        )
    kind: Kind
    if unit == "%" and (sign or base_unit != "%"):
        if not sign:
            raise QueryParameterError(f"{text!r} has no sign", hint=f"Write '{metric} {match['order']} +{number:g} %'.")
        kind, scale = "change_pct", 1.0
    elif unit == "% of step":
        if base_unit != "ns" or not sign:
            raise QueryParameterError(f"{text!r}: a share of the step is only allowed for changes of times", hint=_HINT)
        kind, scale = "of_step_pct", 1.0
    else:
        units = {"ns": _TIMES, "bytes": _SIZES, "%": {"points": 1, "point": 1} if sign else {"%": 1}}[base_unit]
        if unit not in units:
            raise QueryParameterError(
                f"{text!r} has {f'the unit {unit!r}' if unit else 'no unit'}",
                hint=f"Units of {metric} are {one_of(['%', *units] if sign else list(units))}.",
            )
        kind, scale = ("change" if sign else "level"), float(units[unit])
    return Rule(text.strip(), metric, direction, kind, number * scale)


def _unit(metric: str) -> Unit:
    whole, parts, part = metric, *metric.partition(":")[::2]
    if whole in WHOLE:
        return WHOLE[whole][0]
    if parts in PARTS and part:
        return "ns"
    raise QueryParameterError(
        f"there is no metric {metric!r}",
        hint=f"Metrics are {', '.join(WHOLE)}, and with a name: {', '.join(f'{name}:NAME' for name in PARTS)}.",
    )
