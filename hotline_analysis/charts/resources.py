"""What fills up over time: launch queues, memory and the bandwidth of copies.

Each takes the frame of the answer of the same name. Lines have at most 600 points, each the largest value of its
stretch of time, so that a chart of a million events keeps every peak.
"""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from hotline_analysis.charts.breakdown import _nothing
from hotline_analysis.charts.page import clean
from hotline_analysis.charts.theme import HUES, WIDTH, dress, time_axis
from hotline_analysis.text.formats import percent, size, size_unit

_POINTS = 600


def queue_length(frame: pl.DataFrame) -> Any:
    """How many launches wait on each stream over time, from the answer `queue_length`."""
    stream = pl.col("stream").cast(pl.String).fill_null("unknown")
    rows = frame.with_columns(line=_rank(frame) + pl.format("device {} stream {}", "device", stream))
    points = over_time(rows, "queue_length", by="line")
    if points.is_empty():
        return _nothing()
    most = rows.sort("queue_length", descending=True).row(0, named=True)
    launches = "launch" if most["queue_length"] == 1 else "launches"
    title = f"At most {most['queue_length']:,} {launches} in the queue, on {most['line']}"
    return _lines(points, "launches in the queue", title, legend="stream")


def memory_timeline(frame: pl.DataFrame) -> Any:
    """Bytes allocated and reserved over time on each device, from the answer `memory_timeline`."""
    rows = (
        frame.with_columns(place=_rank(frame) + _device())
        .unpivot(
            ["allocated_bytes", "reserved_bytes"], index=["place", "start_ns"], variable_name="what", value_name="size"
        )
        .filter(pl.col("size") > 0)
        .with_columns(line=pl.col("place") + ", " + pl.col("what").str.replace("_bytes", ""))
    )
    points = over_time(rows, "size", by="line").sort("value", descending=True, maintain_order=True)
    if points.is_empty():
        return _nothing()
    scale, unit = size_unit(points["value"][0])
    # Damaged totals can be below zero.
    most = [*points.filter(pl.col("line").str.ends_with("allocated")).head(1).rows(), *points.head(1).rows()][0]
    place, _, what = most[0].rpartition(", ")
    title = f"{place} has at most {size(most[2])} {what}"
    return _lines(points.with_columns(pl.col("value") / scale), unit, title, legend="memory")


def memory_peak(frame: pl.DataFrame) -> Any:
    """What is allocated at the peak of each device, by category and phase, from the answer `memory_peak`."""
    rows = (
        frame.with_columns(place=_rank(frame) + _device(), phase=pl.col("phase").fill_null("unknown"))
        .group_by("place", "category", "phase")
        .agg(pl.col("bytes").sum())
        .filter(pl.col("bytes") > 0)
        .sort("place", "bytes", descending=[False, True])
    )
    if rows.is_empty():
        return _nothing()
    scale, unit = size_unit(max(rows.group_by("place").agg(pl.col("bytes").sum())["bytes"]))
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


def memory_bandwidth(frame: pl.DataFrame) -> Any:
    """Bandwidth of copies and memsets over time, by kind, from the answer `memory_bandwidth`."""
    kind = pl.col("kind").map_elements(clean, return_dtype=pl.String)
    device = pl.format(", device {}", "device") if frame["device"].n_unique() > 1 else pl.lit("")
    rows = frame.filter(pl.col("gb_per_s").is_not_null()).with_columns(line=_rank(frame) + kind + device)
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
        return _nothing()
    most = points.sort("value", descending=True).row(0, named=True)
    title = f"{most['line']} reaches {_figure(most['value'])} GB/s"
    return _lines(points, "GB/s", title, legend="kind")


def over_time(rows: pl.DataFrame, value: str, *, by: str, points: int = _POINTS) -> pl.DataFrame:
    """A value that changes at `start_ns`, as the largest in each of at most `points` stretches of time, and after.

    The columns are `line` (from `by`), `at_ns` from the start of the first row, and `value`. A stretch in which nothing
    changes has the last value before it; before the first change of a line there is no row.
    """
    known = rows.filter(pl.col("start_ns").is_not_null() & pl.col(value).is_not_null())
    if known.is_empty():
        return pl.DataFrame(schema={"line": pl.String, "at_ns": pl.Int64, "value": pl.Float64})
    begin, end = min(known["start_ns"]), max(known["start_ns"])
    width = max(1, -(-(end - begin + 1) // points))
    binned = (
        known.with_columns(bin=(pl.col("start_ns") - begin) // width)
        .sort("start_ns", maintain_order=True)
        .group_by(by, "bin", maintain_order=True)
        .agg(most=pl.col(value).max().cast(pl.Float64), last=pl.col(value).last().cast(pl.Float64))
    )
    every = binned.select(pl.col(by).unique(maintain_order=True)).join(
        pl.DataFrame({"bin": pl.Series(range((end - begin) // width + 2), dtype=pl.Int64)}), how="cross"
    )
    return (
        every.join(binned, on=[by, "bin"], how="left", maintain_order="left")
        .with_columns(before=pl.col("last").forward_fill().shift(1).over(by))
        .select(line=by, at_ns=pl.col("bin") * width, value=pl.max_horizontal("most", "before"))
        .filter(pl.col("value").is_not_null())
    )


def _rank(frame: pl.DataFrame) -> pl.Expr:
    return pl.format("rank {} ", "rank") if frame["rank"].n_unique() > 1 else pl.lit("")


def _figure(value: float) -> str:
    """Three digits, without an exponent."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _device() -> pl.Expr:
    return pl.when(pl.col("device") < 0).then(pl.lit("CPU")).otherwise(pl.format("device {}", "device"))


def _lines(points: pl.DataFrame, unit: str, title: str, *, legend: str) -> Any:
    lines = points.group_by("line").agg(pl.col("value").max()).sort("value", descending=True).head(len(HUES))["line"]
    axis = time_axis(max(points["at_ns"]))
    shown = points.filter(pl.col("line").is_in(lines.implode())).with_columns(time=pl.col("at_ns") / axis.size)
    chart = (
        alt.Chart(shown.sort("line", "at_ns").select("line", "time", "value"))
        .mark_line(interpolate="step-after", strokeWidth=1.2)
        .encode(
            x=alt.X("time:Q", title=axis.title("time from the first event")),
            y=alt.Y("value:Q", title=unit),
            color=alt.Color(
                "line:N",
                title=legend,
                scale=alt.Scale(range=list(HUES)),
                legend=alt.Legend(orient="bottom", columns=3) if len(lines) > 1 else None,
            ),
            tooltip=[
                "line:N",
                alt.Tooltip("time:Q", title=axis.title("at"), format=".4f"),
                alt.Tooltip("value:Q", title=unit, format=",.4~g"),
            ],
        )
        .properties(width=WIDTH, height=150)
    )
    return dress(chart, title)
