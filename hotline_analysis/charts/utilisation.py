"""Charts of how much of the machine is used.

Each takes the frame of the answer of the same name and returns an Altair chart, whose title states the finding.
"""

from __future__ import annotations

import math
from typing import Any

import altair as alt
import polars as pl

from hotline_analysis.charts.page import clean
from hotline_analysis.charts.parts import durations, nothing, rank_of, share_tooltip
from hotline_analysis.charts.theme import HUES, INK, WIDTH, dress
from hotline_analysis.text.formats import percent, shorten

_LIMITS = {
    "grid": "too few blocks",
    "threads": "threads",
    "registers": "registers",
    "shared_memory": "shared memory",
    "blocks": "places for blocks",
    "not known": "not known",
}
_NAMED = 6  # kernels that have their name beside them, if none of these is in the way


def kernel_metrics(frame: pl.DataFrame) -> Any:
    """Occupancy of kernels against how often they fill the GPU, from the answer `kernel_metrics`.

    The area of a circle is the GPU time of the kernel, its colour what keeps the occupancy from being higher. Left of
    the line, a kernel has fewer blocks than the GPU can hold at once. Both axes need what only NVIDIA's traces have.
    """
    rows = frame.filter(
        pl.col("waves").is_not_null() & pl.col("occupancy_pct").is_not_null() & (pl.col("gpu_time_ns") > 0)
    )
    if rows.is_empty():
        return nothing("No kernel with a known occupancy")
    computing = rows.filter(pl.col("class") == "computation")
    title = "Occupancy of the kernels with most GPU time"
    if not computing.is_empty():
        idle = computing.select((100 - pl.col("sm_efficiency_pct")).dot("gpu_time_ns") / pl.sum("gpu_time_ns")).item()
        title = f"While these kernels compute, {percent(idle)} of the multiprocessors have no block to run"
    names = [shorten(clean(name), 30) for name in rows["short_name"]]
    shown = (
        rows.with_columns(label=rank_of(frame) + pl.Series(names, dtype=pl.String), said=durations("gpu_time_ns"))
        .sort("gpu_time_ns", descending=True, maintain_order=True)
        .select(
            "label",
            "count",
            "said",
            "waves",
            "tail_pct",
            "occupancy_pct",
            "gpu_time_pct",
            limit=pl.col("occupancy_limit").fill_null("not known").replace(_LIMITS),
        )
    )
    x = alt.X("waves:Q", title="waves: blocks as a multiple of what the GPU holds", scale=alt.Scale(type="log"))
    y = alt.Y("occupancy_pct:Q", title="occupancy, %", scale=alt.Scale(domain=[0, 105], nice=False))
    circles = (
        alt.Chart(shown)
        .mark_circle(opacity=0.7, stroke=INK, strokeWidth=0.3)
        .encode(
            x=x,
            y=y,
            size=alt.Size("gpu_time_pct:Q", title="share of GPU time, %", scale=alt.Scale(range=[12, 1500])),
            color=alt.Color(
                "limit:N",
                title="occupancy is limited by",
                scale=alt.Scale(domain=list(_LIMITS.values()), range=[*HUES[: len(_LIMITS) - 1], HUES[7]]),
            ),
            tooltip=[
                "label:N",
                "count:Q",
                alt.Tooltip("said:N", title="time"),
                share_tooltip("gpu_time_pct"),
                alt.Tooltip("waves:Q", format=",.3~g"),
                alt.Tooltip("tail_pct:Q", title="empty in the last wave, %", format=".1f"),
                alt.Tooltip("occupancy_pct:Q", title="occupancy, %", format=".1f"),
                alt.Tooltip("limit:N", title="limited by"),
            ],
        )
    )
    labels = (
        alt.Chart(shown[_apart(shown)])
        .mark_text(align="left", dx=9, dy=-6, color=INK, fontSize=10)
        .encode(x=x, y=y, text="label:N")
    )
    line = alt.Chart(pl.DataFrame({"waves": [1.0]})).mark_rule(strokeDash=[4, 4], color=INK).encode(x=x)
    return dress((line + circles + labels).properties(width=WIDTH - 160, height=320), title)


def _apart(rows: pl.DataFrame) -> list[int]:
    """The first rows whose names do not lie on each other: by waves, of which the axis has powers, and occupancy."""
    span = max(1.0, math.log10(max(rows["waves"]) / min(rows["waves"])))
    named: list[tuple[int, float, float]] = []
    for place, (waves, occupancy) in enumerate(rows.select("waves", "occupancy_pct").iter_rows()):
        at = math.log10(waves) / span
        if len(named) < _NAMED and all(abs(occupancy - o) > 4 or abs(at - a) > 0.35 for _, a, o in named):
            named.append((place, at, occupancy))
    return [place for place, _, _ in named]
