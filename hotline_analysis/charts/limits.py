"""Limits of a step.

Each function takes the frame of the answer with the same name. It returns an Altair chart titled with the finding.
"""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from hotline_analysis.charts.parts import (
    durations,
    in_words,
    nothing,
    share_tooltip,
)
from hotline_analysis.charts.theme import HUES, INK, WIDTH, dress, time_axis
from hotline_analysis.text.formats import duration, percent


def step_limits(frame: pl.DataFrame) -> Any:
    """Parts of a mean step's critical path, and the step time without each part, from the answer `step_limits`."""
    rows = frame.filter(pl.col("path_ns") > 0).sort("path_ns", descending=True)
    if rows.is_empty():
        return nothing()
    whole = int(rows["step_ns"][0])
    axis = time_axis(whole)
    shown = rows.with_columns(
        time=pl.col("path_ns") / axis.size,
        rest=pl.col("without_ns") / axis.size,
        said=durations("path_ns"),
        left=durations("without_ns"),
        what=pl.col("limit").replace("load_data", "loading data").replace("cpu_tensor", "CPU tensors"),
    )
    order = shown["what"].to_list()
    base = alt.Chart(shown).encode(y=alt.Y("what:N", title=None, sort=order))
    tooltip = [
        "what:N",
        alt.Tooltip("said:N", title="time"),
        share_tooltip("path_pct"),
        alt.Tooltip("left:N", title="the step without it"),
    ]
    bars = base.mark_bar(color=HUES[0]).encode(x=alt.X("time:Q", title=axis.title("time")), tooltip=tooltip)
    ends = base.mark_tick(color=INK, thickness=2, size=18).encode(x="rest:Q", tooltip=tooltip)
    first = rows.row(0, named=True)
    title = f"{in_words(order[0])} takes {percent(first['path_pct'])} of a step of {duration(whole)}"
    chart = alt.layer(bars, ends).properties(width=WIDTH, height=alt.Step(24))
    return dress(chart, title, "Bars add up to the step. Marks: the least that a step would take without this part.")
