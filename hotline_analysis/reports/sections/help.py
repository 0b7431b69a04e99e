"""The section on predicted improvements: the scenarios with the shortest steps, with ranges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from hotline_analysis.answers.limits import LEAST_PCT
from hotline_analysis.answers.rules import Advice
from hotline_analysis.errors import HotlineError
from hotline_analysis.prediction.asked import worthwhile
from hotline_analysis.reports.content import Field, Section
from hotline_analysis.run.trace import Trace
from hotline_analysis.text.formats import duration

_SHOWN = 3
_ELSEWHERE = (
    ". NAME can also be gpu (another GPU) or share_gpu (several copies on one GPU) if the trace names its GPU, and"
    " scaling (more ranks) for training."
)


def worth_doing(trace: Trace, rank: int) -> pl.DataFrame | None:
    """The scenarios shortening a step by at least `LEAST_PCT`; None if no prediction is possible."""
    try:
        return worthwhile(trace, rank=rank, least_pct=LEAST_PCT)
    except HotlineError:
        return None


def apart(worth: pl.DataFrame | None, scenario: str) -> tuple[dict[str, Any] | None, pl.DataFrame | None]:
    """The row of one scenario (None if absent), and the remaining scenarios."""
    if worth is None:
        return None, None
    its = worth.filter(scenario=scenario)
    return None if its.is_empty() else its.row(0, named=True), worth.filter(pl.col("scenario") != scenario)


def with_predictions(advice: Sequence[Advice], worth: pl.DataFrame | None) -> list[Advice]:
    """The advice, with the predicted gain of the matching scenario if a gain is predicted."""
    if worth is None:
        return list(advice)
    # Round a possible loss below LEAST_PCT of the step up to 0: a user would not notice such a loss.
    is_small = (pl.col("gain_low_ns") < 0) & (-100 * pl.col("gain_low_ns") < LEAST_PCT * pl.col("baseline_ns"))
    low = pl.when(is_small).then(0).otherwise("gain_low_ns")
    gains = {name: ends for name, *ends in worth.select("scenario", low.alias("low_ns"), "gain_high_ns").rows()}
    return [
        replace(each, predicted_low_ns=gains[each.scenario][0], predicted_high_ns=gains[each.scenario][1])
        if each.scenario in gains
        else each
        for each in advice
    ]


def doubtful(advice: Sequence[Advice]) -> list[Advice]:
    """The advice with a possible loss in the predicted range. These changes may help, but are not recommended."""
    return [each for each in advice if each.predicted_low_ns is not None and each.predicted_low_ns < 0]


def help_section(worth: pl.DataFrame | None, has_gpu: bool, may_help: Sequence[Advice] = ()) -> Section | None:
    """The three scenarios with the largest gains, and scenarios in `may_help`. None without a prediction or a gain."""
    if worth is None or worth.is_empty():
        return None
    # Also show changes that may cost time.
    is_shown = (pl.int_range(pl.len()) < _SHOWN) | pl.col("scenario").is_in([each.scenario for each in may_help])
    worth = worth.filter(is_shown)
    may = "".join(f" {each.scenario} may help, or cost time: {each.what.lower()}." for each in may_help)
    baseline = duration(worth["baseline_ns"][0])
    return Section(
        "help",
        "What would help",
        f"The steps of this recording take {baseline} on average. Changed and recorded again, one should take between"
        " from and to. That range allows for how much runs differ, the range of a gain does not. Gains do not add up."
        " `hotline whatif TRACE NAME` lists the assumptions" + (_ELSEWHERE if has_gpu else ".") + may,
        [
            Field("scenario", "scenario", "name"),
            Field("summary", "what is done", "name"),
            Field("predicted_ns", "a step takes", "time"),
            Field("low_ns", "from", "time"),
            Field("high_ns", "to", "time"),
            Field("gain_low_ns", "gain from", "time"),
            Field("gain_high_ns", "gain to", "time"),
        ],
        worth,
        query="whatif",
    )
