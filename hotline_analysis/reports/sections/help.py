"""The report's section on what would help: the scenarios that make a step shortest, with their ranges."""

from __future__ import annotations

import polars as pl

from hotline_analysis.answers.rules import LEAST_PCT
from hotline_analysis.errors import HotlineError
from hotline_analysis.prediction.asked import whatif
from hotline_analysis.reports.content import Field, Section
from hotline_analysis.run.trace import Trace
from hotline_analysis.text.formats import duration

_SHOWN = 3


def help_section(trace: Trace, rank: int) -> Section | None:
    """The three scenarios that gain most; none where nothing can be predicted, or nothing gains anything."""
    try:
        table = whatif(trace, rank=rank)
    except HotlineError:
        return None
    worth = table.filter(pl.col("reason").is_null(), 100 * pl.col("gain_ns") >= LEAST_PCT * pl.col("baseline_ns")).head(
        _SHOWN
    )
    if worth.is_empty():
        return None
    baseline = duration(worth["baseline_ns"][0])
    return Section(
        "help",
        "What would help",
        f"How long a step would take, instead of {baseline}: another run would be between the two ends. Gains do not"
        " add up. `hotline whatif TRACE NAME` says what is assumed.",
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
