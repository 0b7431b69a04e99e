"""Charts of kernels and launch calls.

Each function takes the frame of the answer with the same name. It returns an Altair chart titled with the finding.
"""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from hotline_analysis.charts.page import clean
from hotline_analysis.charts.parts import (
    MOST_ROWS,
    NAME_COLUMNS,
    bars_of,
    durations,
    labelled,
    nothing,
    stacked_bars,
)
from hotline_analysis.charts.theme import HUES, INK, WIDTH, dress
from hotline_analysis.text.formats import duration, shorten


def kernel_breakdown(frame: pl.DataFrame) -> Any:
    """The kernels, classes, ops or modules with most GPU time, from the answer `kernel_breakdown`."""
    rows = frame.with_columns(pl.col("key").fill_null("unknown")).group_by("key").agg(pl.col("gpu_time_ns").sum())
    return bars_of(rows, "key", "gpu_time_ns", "GPU time", "{} takes {} of GPU time ({})")


def kernel_duration_distribution(frame: pl.DataFrame) -> Any:
    """Spread of kernel durations: a line from 5 to 95 %, a bar for the middle half, a tick at the median.

    From the answer `kernel_duration_distribution`; the axis is logarithmic.
    """
    rows = frame.filter(pl.col("max_ns") > 0).sort("gpu_time_ns", descending=True).head(MOST_ROWS)
    if rows.is_empty():
        return nothing()
    spread = rows.filter(pl.col("count") > 1).with_columns(ratio=pl.col("p95_ns") / pl.col("median_ns").clip(1))
    title = "Durations of the kernels with most GPU time"
    if not spread.is_empty():
        widest = spread.sort("ratio", "gpu_time_ns", descending=True).row(0, named=True)
        name = shorten(clean(widest["key"] or "unknown"), 44)
        title = (
            f"{name} varies most: {duration(widest['median_ns'])} in the median, 5 % over {duration(widest['p95_ns'])}"
        )
    quantiles = ["p05_ns", "p25_ns", "median_ns", "p75_ns", "p95_ns"]
    shown = labelled(rows, "key").select(
        "bar",
        "label",
        "count",
        *(pl.col(name).clip(1).cast(pl.Float64) / 1000 for name in quantiles),
        *(durations(name).alias(f"{name[:-3]} said") for name in ("p05_ns", "median_ns", "p95_ns")),
    )
    base = alt.Chart(shown).encode(
        y=alt.Y("bar:N", title=None, axis=NAME_COLUMNS),
        tooltip=["label:N", "count:Q", "p05 said:N", "median said:N", "p95 said:N"],
    )
    axis = alt.X("p05_ns:Q", title="duration, µs", scale=alt.Scale(type="log"))
    lines = base.mark_rule(color=INK).encode(x=axis, x2="p95_ns:Q")
    boxes = base.mark_bar(color=HUES[0], size=10).encode(x="p25_ns:Q", x2="p75_ns:Q")
    ticks = base.mark_tick(color=HUES[4], thickness=2, size=14).encode(x="median_ns:Q")
    return dress((lines + boxes + ticks).properties(width=WIDTH - 300, height=alt.Step(20)), title)


def launch_stats(frame: pl.DataFrame) -> Any:
    """Time inside launch calls, and GPU idle time until the launched work starts, from the answer `launch_stats`."""
    rows = (
        frame.with_columns(pl.col("key").fill_null("unknown"))
        .group_by("key")
        .agg(pl.col("call_ns", "idle_ns", "call_count").sum())
        .filter(pl.col("call_count") > 0)
        .sort("call_ns", "key", descending=[True, False])
        .head(MOST_ROWS)
    )
    if rows.is_empty():
        return nothing()
    first = rows.row(0, named=True)
    title = (
        f"{shorten(clean(first['key']), 44)}: {first['call_count']:,} calls take {duration(first['call_ns'])};"
        f" the GPU idled {duration(first['idle_ns'])} until their work started"
    )
    parts = {
        "call_ns": ("inside the calls", HUES[0]),
        "idle_ns": ("GPU idle until they take effect", HUES[4]),
    }
    return dress(stacked_bars(rows, parts, "time", stacked=False), title)
