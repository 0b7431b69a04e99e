"""Memory over time and at its peak, and the bandwidth of copies.

Each takes the frame of the answer of the same name and returns an Altair chart, whose title states the finding.
"""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from hotline_analysis.charts.page import clean
from hotline_analysis.charts.parts import (
    device_of,
    figure,
    lines_of,
    nothing,
    over_time,
    rank_of,
)
from hotline_analysis.charts.theme import HUES, WIDTH, dress
from hotline_analysis.text.formats import SIZE_UNITS, percent, readable_unit, size


def memory_bandwidth(frame: pl.DataFrame) -> Any:
    """Bandwidth of copies and memsets over time, by kind, from the answer `memory_bandwidth`."""
    kind = pl.col("kind").map_elements(clean, return_dtype=pl.String)
    device = pl.format(", device {}", "device") if frame["device"].n_unique() > 1 else pl.lit("")
    rows = frame.filter(pl.col("gb_per_s").is_not_null()).with_columns(line=rank_of(frame) + kind + device)
    # Where a stretch ends and no other begins, nothing is copied.
    ends = rows.join(rows, left_on=["line", "end_ns"], right_on=["line", "start_ns"], how="anti")
    rows = pl.concat(
        [
            rows.select("line", "start_ns", "gb_per_s"),
            ends.select("line", start_ns="end_ns", gb_per_s=pl.lit(0.0)),
        ]
    )
    points = over_time(rows, "gb_per_s", by="line")
    if points.is_empty():
        return nothing()
    most = points.sort("value", descending=True).row(0, named=True)
    title = f"{most['line']} reaches {figure(most['value'])} GB/s"
    return lines_of(points, "GB/s", title, legend="kind")


def memory_peak(frame: pl.DataFrame) -> Any:
    """What is allocated at the peak of each device, by category and phase, from the answer `memory_peak`."""
    rows = (
        frame.with_columns(place=rank_of(frame) + device_of(), phase=pl.col("phase").fill_null("unknown"))
        .group_by("place", "category", "phase")
        .agg(pl.col("bytes").sum())
        .filter(pl.col("bytes") > 0)
        .sort("place", "bytes", descending=[False, True])
    )
    if rows.is_empty():
        return nothing()
    scale, unit = readable_unit(max(rows.group_by("place").agg(pl.col("bytes").sum())["bytes"]), SIZE_UNITS)
    categories = frame.group_by("category").agg(pl.col("bytes").sum()).sort("bytes", descending=True)
    share = 100 * int(categories["bytes"][0]) / max(1, int(categories["bytes"].sum()))
    title = f"At the peak, {percent(share)} is {categories['category'][0].replace('_', ' ')}"
    chart = (
        alt.Chart(rows.with_columns(size=pl.col("bytes") / scale))
        .mark_bar(stroke="white", strokeWidth=0.5)
        .encode(
            x=alt.X("sum(size):Q", title=f"allocated at the peak, {unit}"),
            y=alt.Y("category:N", title=None, sort="-x"),
            color=alt.Color("phase:N", title="allocated in", scale=alt.Scale(range=list(HUES))),
            row=alt.Row("place:N", title=None),
            tooltip=["place:N", "category:N", "phase:N", alt.Tooltip("size:Q", title=unit, format=".3f")],
        )
        .properties(width=WIDTH - 160, height=alt.Step(20))
    )
    return dress(chart, title)


def memory_timeline(frame: pl.DataFrame) -> Any:
    """Bytes allocated and reserved over time on each device, from the answer `memory_timeline`."""
    rows = (
        frame.with_columns(place=rank_of(frame) + device_of())
        .unpivot(
            ["allocated_bytes", "reserved_bytes"], index=["place", "start_ns"], variable_name="what", value_name="size"
        )
        .filter(pl.col("size") > 0)
        .with_columns(line=pl.col("place") + ", " + pl.col("what").str.replace("_bytes", ""))
    )
    points = over_time(rows, "size", by="line").sort("value", descending=True, maintain_order=True)
    if points.is_empty():
        return nothing()
    scale, unit = readable_unit(points["value"][0], SIZE_UNITS)
    # Damaged totals can be below zero.
    most = [*points.filter(pl.col("line").str.ends_with("allocated")).head(1).rows(), *points.head(1).rows()][0]
    place, _, what = most[0].rpartition(", ")
    title = f"{place} has at most {size(most[2])} {what}"
    return lines_of(points.with_columns(pl.col("value") / scale), unit, title, legend="memory")
