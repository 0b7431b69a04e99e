"""The kinds of steps: count, duration and distinguishing features."""

from __future__ import annotations

import polars as pl

from hotline_analysis.answers import generated as answers
from hotline_analysis.reports.content import Field, Section
from hotline_analysis.run.trace import Trace
from hotline_analysis.text.formats import duration, ordinal, safe


def kinds_section(trace: Trace, rank: int) -> Section | None:
    """The kinds of steps; None if all counted steps are of one kind."""
    kinds = answers.step_kinds(trace, rank=rank)
    if kinds.height < 2:
        return None
    slow = kinds.filter(pl.col("kind") > 0).sort("total_ns", "kind", descending=[True, False]).row(0, named=True)
    often = f", every {ordinal(slow['every'])}," if slow["every"] else ""
    usual = kinds.row(0, named=True)
    note = (
        f"{slow['step_count']:,} of {kinds['step_count'].sum():,} steps{often} are of the kind “{safe(slow['name'])}”:"
        f" {duration(slow['mean_ns'])} instead of {duration(usual['mean_ns'])}. Share: of the loop, from the first"
        " counted step to the last."
    )
    rows = kinds.with_columns(name=pl.col("name").map_elements(safe, return_dtype=pl.String))
    return Section(
        "step_kinds",
        "Kinds of steps",
        note,
        [
            Field("name", "kind", "name"),
            Field("step_count", "steps", "count"),
            Field("mean_ns", "mean", "time"),
            Field("least_ns", "least", "time"),
            Field("most_ns", "most", "time"),
            Field("loop_pct", "share", "share"),
            Field("longer_ns", "longer by", "delta"),
        ],
        rows.select("name", "step_count", "mean_ns", "least_ns", "most_ns", "loop_pct", "longer_ns"),
    )
