"""The critical path of a step.

Each function takes the frame of the answer with the same name. It returns an Altair chart titled with the finding.
"""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from hotline_analysis.charts.page import clean
from hotline_analysis.charts.parts import (
    durations,
    nothing,
    share_tooltip,
)
from hotline_analysis.charts.theme import HUES, WIDTH, dress, time_axis
from hotline_analysis.text.formats import duration, percent

# Value of `bound_by`, label, colour.
_BOUNDS = (
    ("gpu_compute", "GPU computation", HUES[2]),
    ("communication", "communication", HUES[0]),
    ("copy", "copies", HUES[5]),
    ("data_loading", "loading data", HUES[1]),
    ("cpu", "code on the host", HUES[4]),
    ("launch", "launch delay", HUES[3]),
    ("kernel_gap", "gaps between kernels", HUES[7]),
    ("unobserved", "work that the trace lacks", HUES[6]),
    ("unknown", "unknown", "#cccccc"),
)
_MARKS = 2000
# On a path of more marks, marks shorter than 1/250 of the path are merged. At most 250 long marks remain, and at most
# 500 stretches between long marks, each with one mark for each of nine classes.
_BINS = 250


def critical_path(frame: pl.DataFrame) -> Any:
    """The critical path over time, by bound, from the answer `critical_path`.

    The times of the marks add up to the path. On a path of very many edges, neighbours too short to see are
    merged into one mark for each class, with the sum of the times.
    """
    parts = _stretches(frame)
    if parts.is_empty():
        return nothing()
    whole = int(parts["time_ns"].sum())
    lanes = (
        parts.group_by("bound_by", "order")
        .agg(pl.col("time_ns").sum())
        .sort("time_ns", "order", descending=[True, False])
        .with_columns(
            word=pl.col("bound_by").replace_strict({name: word for name, word, _ in _BOUNDS}),
            share_pct=100.0 * pl.col("time_ns") / whole,
        )
        .with_columns(
            lane=pl.format("{}, {}", "word", pl.col("share_pct").map_elements(percent, return_dtype=pl.String))
        )
    )
    hues = {name: hue for name, _, hue in _BOUNDS}
    axis = time_axis(whole)
    shown = parts.join(lanes.select("bound_by", "lane"), on="bound_by", maintain_order="left").select(
        "lane",
        "edge_count",
        "time_ns",
        longest=pl.col("name").fill_null("–").map_elements(clean, return_dtype=pl.String),
        phase=pl.col("phase").fill_null("none"),
        said=durations("time_ns"),
        start=pl.col("start_ns") / axis.size,
        stop=(pl.col("start_ns") + pl.col("time_ns")) / axis.size,
        share_pct=100.0 * pl.col("time_ns") / whole,
    )
    chart = (
        alt.Chart(shown)
        .mark_rect()
        .encode(
            x=alt.X("start:Q", title=axis.title("time along the path"), scale=alt.Scale(nice=False)),
            x2="stop:Q",
            y=alt.Y("lane:N", title=None, sort=lanes["lane"].to_list(), axis=alt.Axis(labelLimit=220)),
            color=alt.Color(
                "lane:N",
                scale=alt.Scale(domain=lanes["lane"].to_list(), range=[hues[name] for name in lanes["bound_by"]]),
                legend=None,
            ),
            tooltip=[
                alt.Tooltip("lane:N", title="bound by"),
                alt.Tooltip("said:N", title="time"),
                share_tooltip("share_pct"),
                alt.Tooltip("edge_count:Q", title="parts"),
                alt.Tooltip("longest:N", title="longest part"),
                "phase:N",
            ],
        )
        .properties(width=WIDTH - 180, height=alt.Step(22))
    )
    first = lanes.row(0, named=True)
    title = f"The critical path of {duration(whole)} is {percent(first['share_pct'])} {first['word']}"
    return dress(chart, title, "at each time, what the run waited for; shorten the longest to shorten the run")


def _stretches(frame: pl.DataFrame) -> pl.DataFrame:
    """Merge neighbouring edges of one class and phase to stretches, in order. The times add up to the path.

    Columns: `bound_by`, `order` of the class, `start_ns` from the start of the path, `time_ns`, `edge_count`, and
    `name` and `phase` of the longest edge.
    """
    order = {name: at for at, (name, _, _) in enumerate(_BOUNDS)}
    edges = frame.filter(pl.col("weight_ns") > 0).select(
        pl.col("bound_by").fill_null("unknown"), "name", "phase", time_ns="weight_ns"
    )
    parts = _merged(edges.with_columns(stretch=pl.struct("bound_by", "phase").rle_id(), edge_count=pl.lit(1, pl.Int64)))
    if parts.height > _MARKS:
        width = max(1, int(parts["time_ns"].sum()) // _BINS)
        # Each long stretch gets a separate number. Short stretches between long stretches share a number in each bin.
        long = pl.col("time_ns") >= width
        key = pl.struct(pl.col("start_ns") // width, long.cum_sum().alias("before"), long.alias("long"))
        parts = _merged(parts.drop("start_ns").with_columns(parts.select(stretch=key.rle_id())["stretch"]), order)
    return parts.with_columns(order=pl.col("bound_by").replace_strict(order, default=len(order) - 1))


def _merged(rows: pl.DataFrame, order: dict[str, int] | None = None) -> pl.DataFrame:
    """One row for each class of each stretch, in order: the sums, and name and phase of the longest edge."""
    longest = pl.col("time_ns").arg_max()
    merged = rows.group_by("stretch", "bound_by", maintain_order=True).agg(
        pl.col("name").get(longest), pl.col("phase").get(longest), pl.col("edge_count", "time_ns").sum()
    )
    if order:
        merged = merged.sort("stretch", pl.col("bound_by").replace_strict(order, default=len(order)))
    return merged.drop("stretch").with_columns(start_ns=pl.col("time_ns").cum_sum() - pl.col("time_ns"))
