"""Charts of several ranks.

`stragglers` takes the frame of the answer `collectives`. It returns an Altair chart titled with the finding.
"""

from __future__ import annotations

from typing import Any, Literal

import altair as alt
import polars as pl

from hotline_analysis.charts.parts import (
    durations,
    nothing,
)
from hotline_analysis.charts.theme import WIDTH, dress, time_axis
from hotline_analysis.errors import QueryParameterError
from hotline_analysis.text.formats import duration

_CELLS = 4000


def stragglers(frame: pl.DataFrame, by: Literal["step", "collective"] | None = None) -> Any:
    """Heatmap of how late each rank came to collectives, over steps or over single collectives in order.

    From the answer `collectives`, counting only collectives shared by several ranks. The cells of a rank add up to the
    rank's `late_ns` in the answer `stragglers`. Without `by`, columns are steps if there are several steps, else
    collectives. Neighbouring columns are merged if there are too many. Raises `QueryParameterError` for another `by`.
    """
    if by not in (None, "step", "collective"):
        raise QueryParameterError(f"by must be step or collective, not {by!r}")
    frame = frame.filter(pl.col("match_id").is_not_null())
    if frame.is_empty():
        return nothing()
    over = by or ("step" if frame["step"].n_unique() > 1 else "collective")
    # Collectives in the order of the first rank's arrival. Collectives outside steps share a column.
    first = frame.group_by("match_id").agg(pl.col("start_ns").min(), pl.col("step").max())
    key = "step" if over == "step" else "match_id"
    columns = first.group_by(key).agg(pl.col("start_ns").min()).sort("start_ns", key).with_row_index("at")
    each = -(-columns.height // max(1, _CELLS // frame["rank"].n_unique()))
    columns = columns.with_columns(
        at=pl.col("at") // each,
        label=pl.col("step").cast(pl.String).fill_null("none")
        if over == "step"
        else (pl.col("at") + 1).cast(pl.String),
    ).with_columns(
        label=pl.when(pl.col("label").len().over("at") > 1)
        .then(pl.format("{} to {}", pl.col("label").first().over("at"), pl.col("label").last().over("at")))
        .otherwise("label")
    )
    rows = frame.drop("step").join(first.select("match_id", "step"), on="match_id")
    cells = (
        rows.join(columns.select(key, "at", "label"), on=key, nulls_equal=True)
        .group_by("rank", "at", "label")
        .agg(
            pl.col("late_ns", "wait_ns").sum(),
            last_count=pl.col("is_last").sum().cast(pl.Int64),
            collective_count=pl.len().cast(pl.Int64),
        )
        .sort("rank", "at")
    )
    axis = time_axis(max(cells["late_ns"]))
    shown = cells.with_columns(
        late=pl.col("late_ns") / axis.size, late_said=durations("late_ns"), wait_said=durations("wait_ns")
    )
    labels = shown.sort("at")["label"].unique(maintain_order=True).to_list()
    chart = (
        alt.Chart(shown)
        .mark_rect()
        .encode(
            x=alt.X("label:N", title=over, sort=labels, axis=alt.Axis(labelOverlap=True, labelAngle=0)),
            y=alt.Y("rank:O", title="rank", axis=alt.Axis(labelOverlap=True)),
            color=alt.Color("late:Q", title=axis.title("late by"), scale=alt.Scale(scheme="viridis", domainMin=0)),
            tooltip=[
                "rank:O",
                alt.Tooltip("label:N", title=over),
                alt.Tooltip("late_said:N", title="later than the middle rank"),
                alt.Tooltip("wait_said:N", title="waited for others"),
                alt.Tooltip("last_count:Q", title="times last"),
                alt.Tooltip("collective_count:Q", title="collectives"),
            ],
        )
        .properties(width=WIDTH - 60, height=min(600, max(60, 22 * cells["rank"].n_unique())))
    )
    return dress(chart, _title(frame), "start of each rank after the middle rank's; clocks are aligned")


def _title(frame: pl.DataFrame) -> str:
    """Title with the rank that causes the longest wait. A wait counts to the last rank, as in `stragglers`."""
    waits = frame.group_by("match_id").agg(
        pl.col("wait_ns").sum(), last=pl.col("rank").filter(pl.col("is_last")).first()
    )
    caused = waits.group_by("last").agg(pl.col("wait_ns").sum()).sort("wait_ns", "last", descending=[True, False])
    worst = caused.filter(pl.col("last").is_not_null()).head(1).to_dicts()
    if not worst or not worst[0]["wait_ns"]:
        return "No rank keeps the others waiting"
    whole = int(waits["wait_ns"].sum())
    return f"The others wait {duration(worst[0]['wait_ns'])} for rank {worst[0]['last']}, of {duration(whole)} in all"
