"""Coverage of the annotation: GPU time by bucket.

Each function takes the frame of the answer with the same name. It returns an Altair chart titled with the finding.
"""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from hotline_analysis.charts.parts import (
    durations,
    nothing,
    share_tooltip,
)
from hotline_analysis.charts.theme import HUES, WIDTH, dress
from hotline_analysis.text.formats import percent


def coverage(frame: pl.DataFrame) -> Any:
    """GPU time by bucket (modules and named buckets), from the answer `coverage`."""
    rows = frame.group_by("bucket").agg(pl.col("gpu_time_ns").sum()).sort("gpu_time_ns", descending=True)
    total = int(rows["gpu_time_ns"].sum())
    if not total:
        return nothing()
    rows = rows.with_columns(share_pct=100.0 * pl.col("gpu_time_ns") / total, said=durations("gpu_time_ns"))
    known = float(rows.filter(bucket="module")["share_pct"].sum())
    chart = (
        alt.Chart(rows)
        .mark_bar(color=HUES[2])
        .encode(
            x=alt.X("share_pct:Q", title="share of GPU time, %", scale=alt.Scale(domain=[0, 100])),
            y=alt.Y("bucket:N", title=None, sort="-x"),
            tooltip=["bucket:N", alt.Tooltip("said:N", title="time"), share_tooltip("share_pct")],
        )
        .properties(width=WIDTH - 120, height=alt.Step(20))
    )
    return dress(chart, f"Modules explain {percent(known)} of the GPU time")
