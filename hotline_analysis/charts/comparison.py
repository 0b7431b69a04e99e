"""Charts of two runs.

Each function takes the frame of the answer with the same name. It returns an Altair chart titled with the finding.
"""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from hotline_analysis.charts.parts import (
    MOST_ROWS,
    NAME_COLUMNS,
    labelled,
    nothing,
)
from hotline_analysis.charts.theme import HUES, WIDTH, dress, time_axis
from hotline_analysis.text.formats import delta, duration, percent


def diff(frame: pl.DataFrame) -> Any:
    """Waterfall of the time differences from the steps of A to the steps of B, from the answer `diff`."""
    named = [name for name in frame.columns[: frame.columns.index("change")] if frame.schema[name] == pl.String]
    rows = frame.with_columns(
        key=pl.concat_str(named, separator=" · ", ignore_nulls=True) if named else pl.lit("step")
    ).filter(pl.col("delta_ns") != 0)
    if rows.is_empty():
        return nothing("A and B take the same time" if frame["a_ns"].sum() else "No data")
    whole, before = int(rows["delta_ns"].sum()), int(frame["a_ns"].sum())
    ordered = rows.with_columns(size=pl.col("delta_ns").abs()).sort("size", "key", descending=[True, False])
    top, rest = ordered.head(MOST_ROWS), ordered.slice(MOST_ROWS)
    if rest.height:
        others = pl.DataFrame({"key": [f"{rest.height} others"], "delta_ns": [int(rest["delta_ns"].sum())]})
        top = pl.concat([top.select("key", "delta_ns"), others])
    axis = time_axis(max(abs(int(value)) for value in top["delta_ns"]))
    shown = labelled(top.select("key", "delta_ns"), "key").with_columns(
        stop=pl.col("delta_ns").cum_sum() / axis.size,
        start=(pl.col("delta_ns").cum_sum() - pl.col("delta_ns")) / axis.size,
        said=pl.col("delta_ns").map_elements(delta, return_dtype=pl.String),
        way=pl.when(pl.col("delta_ns") > 0).then(pl.lit("slower")).otherwise(pl.lit("faster")),
    )
    word = "slower" if whole > 0 else "faster"
    share = f" ({percent(100 * abs(whole) / before)})" if before else ""
    title = f"B is {duration(abs(whole))} per step {word} than A{share}" if whole else "A and B take the same time"
    base = alt.Chart(shown).encode(
        y=alt.Y("bar:N", title=None, axis=NAME_COLUMNS),
        x=alt.X("start:Q", title=axis.title("from A to B")),
        x2="stop:Q",
        tooltip=["label:N", alt.Tooltip("said:N", title="difference")],
    )
    bars = base.mark_bar().encode(
        color=alt.Color(
            "way:N",
            title=None,
            scale=alt.Scale(domain=["slower", "faster"], range=[HUES[4], HUES[0]]),
            legend=alt.Legend(orient="bottom"),
        )
    )
    return dress(bars.properties(width=WIDTH - 300, height=alt.Step(20)), title)
