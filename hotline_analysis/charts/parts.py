"""Parts shared by several charts: bars, lines, labels, and the chart for an empty result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import altair as alt
import polars as pl

from hotline_analysis.charts.page import clean
from hotline_analysis.charts.theme import HUES, INK, WIDTH, dress, time_axis
from hotline_analysis.text.formats import duration, percent, shorten


def nothing(title: str = "No data") -> Any:
    """An empty chart with the text "nothing to show"."""
    return dress(alt.Chart(pl.DataFrame({"text": ["nothing to show"]})).mark_text().encode(text="text:N"), title)


def in_words(name: str) -> str:
    """Replace the underscores of a name by spaces."""
    return name.replace("_", " ")


def share_tooltip(column: str) -> alt.Tooltip:
    """Tooltip for a share in per cent."""
    return alt.Tooltip(f"{column}:Q", title="share, %", format=".1f")


def durations(column: str) -> pl.Expr:
    """Format a column of nanoseconds as text with units."""
    return pl.col(column).map_elements(duration, return_dtype=pl.String)


def at_most(rows: pl.DataFrame, limit: int, by: str) -> pl.DataFrame:
    """The `limit` rows with the largest `by`, in the original order."""
    if rows.height <= limit:
        return rows
    keep = rows.with_row_index("at").sort(by, descending=True).head(limit)["at"]
    return rows.with_row_index("at").filter(pl.col("at").is_in(keep.implode())).drop("at")


MOST_ROWS = 20
NAME_COLUMNS = alt.Axis(labelLimit=320, labelExpr="slice(datum.label, 3)")


def labelled(rows: pl.DataFrame, name: str) -> pl.DataFrame:
    """Add a shortened `label`, and a key `bar` that keeps the order of rows and keeps equal labels apart."""
    labels = [shorten(clean(value), 44) for value in rows[name]]
    return rows.with_columns(
        label=pl.Series(labels, dtype=pl.String),
        bar=pl.Series([f"{at:02d} {label}" for at, label in enumerate(labels)], dtype=pl.String),
    )


def stacked_bars(rows: pl.DataFrame, parts: Mapping[str, tuple[str, str]], what: str, *, stacked: bool = True) -> Any:
    """Bars of the times of each `key`, stacked or grouped. `parts` maps columns of times to label and colour."""
    whole = rows.select(pl.sum_horizontal(*parts) if stacked else pl.max_horizontal(*parts))
    axis = time_axis(max(whole.to_series()))
    shown = (
        labelled(rows, "key")
        .unpivot(list(parts), index=["bar", "label"], variable_name="part", value_name="time_ns")
        .with_columns(
            pl.col("part").replace_strict({column: word for column, (word, _) in parts.items()}),
            time=pl.col("time_ns") / axis.size,
            said=durations("time_ns"),
        )
    )
    words, hues = zip(*parts.values(), strict=True)
    chart = (
        alt.Chart(shown)
        .mark_bar()
        .encode(
            x=alt.X("time:Q", title=axis.title(what), stack=stacked or None),
            y=alt.Y("bar:N", title=None, axis=NAME_COLUMNS),
            color=alt.Color(
                "part:N",
                title=None,
                scale=alt.Scale(domain=list(words), range=list(hues)),
                legend=alt.Legend(orient="bottom"),
            ),
            tooltip=["label:N", "part:N", alt.Tooltip("said:N", title="time")],
        )
        .properties(width=WIDTH - 300, height=alt.Step(20 if stacked else 14))
    )
    return chart if stacked else chart.encode(yOffset="part:N")


def bars_of(rows: pl.DataFrame, name: str, time: str, what: str, title: str) -> Any:
    """Bars of time by name, the longest first, with shares in the tooltip."""
    total = int(rows[time].sum() or 0)
    if not total:
        return nothing()
    axis = time_axis(max(rows[time]))
    shown = labelled(rows.sort(time, name, descending=[True, False]).head(MOST_ROWS), name).select(
        "bar", "label", said=durations(time), time=pl.col(time) / axis.size, share_pct=100.0 * pl.col(time) / total
    )
    first = shown.row(0, named=True)
    base = alt.Chart(shown).encode(
        y=alt.Y("bar:N", title=None, axis=NAME_COLUMNS),
        x=alt.X("time:Q", title=axis.title(what)),
        tooltip=["label:N", alt.Tooltip("said:N", title=what), share_tooltip("share_pct")],
    )
    drawn = base.mark_bar(color=HUES[0]) + base.mark_text(align="left", dx=3, color=INK).encode(text="said:N")
    return dress(
        drawn.properties(width=WIDTH - 300, height=alt.Step(20)),
        title.format(first["label"], first["said"], percent(first["share_pct"])),
    )


MOST_POINTS = 600


def over_time(rows: pl.DataFrame, value: str, *, by: str, points: int = MOST_POINTS) -> pl.DataFrame:
    """Downsample a value that changes at `start_ns` to the maximum in each of at most `points` equal stretches of time.

    Columns: `line` (from `by`), `at_ns` from the start of the first row, and `value`. A stretch without a change has
    the previous value. A line has no row before the line's first change. A row after the last stretch ends each line.
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


def rank_of(frame: pl.DataFrame) -> pl.Expr:
    """Prefix of a label with the rank, empty if all rows are of one rank."""
    return pl.format("rank {} ", "rank") if frame["rank"].n_unique() > 1 else pl.lit("")


def figure(value: float) -> str:
    """Format a number with three digits, without an exponent."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def device_of() -> pl.Expr:
    """Label of a device; -1 is the CPU, for traces with CPU memory."""
    return pl.when(pl.col("device") < 0).then(pl.lit("CPU")).otherwise(pl.format("device {}", "device"))


def lines_of(points: pl.DataFrame, unit: str, title: str, *, legend: str) -> Any:
    """Lines over time, one for each value of `line`. Only the largest lines are drawn, one for each colour."""
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
