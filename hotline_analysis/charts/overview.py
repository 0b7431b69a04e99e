"""A whole run over time: what a brush selects in the picture above is shown wider in the one below."""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from hotline_analysis.charts.breakdown import _durations, _nothing
from hotline_analysis.charts.theme import PHASES, WIDTH, dress, time_axis
from hotline_analysis.humane import percent
from hotline_analysis.trace import Trace

_MARKS = 4000  # what a browser draws at once without a pause, and Altair takes


def overview(trace: Trace, *, rank: int | None = None) -> Any:
    """Phases of the main thread and work of each device over time, as a linked pair of charts.

    Drag over the upper one to choose a stretch for the lower. Both have the sums of the view `overview`: all events are
    in them, however many there are, and the stretches are chosen so that the marks stay few, even with many ranks.
    """
    lanes = 2 * (1 if rank is not None else len(trace.ranks))
    bins = max(10, min(600, _MARKS // (2 * lanes)))
    rows = trace.query("overview", rank=rank, bins=bins)
    while rows.height > _MARKS and bins > 1:
        bins //= 2
        rows = trace.query("overview", rank=rank, bins=bins)
    return overview_chart(rows)


def overview_chart(frame: pl.DataFrame) -> Any:
    """The pair of charts for the frame of the view `overview`; see `overview`."""
    if frame.is_empty():
        return _nothing()
    begin, end = min(frame["start_ns"]), max(frame["end_ns"])
    axis = time_axis(end - begin)
    several = frame["rank"].n_unique() > 1
    rank = pl.format("rank {} ", "rank") if several else pl.lit("")
    place = (
        pl.when(pl.col("device").is_null())
        .then(pl.lit("CPU"))
        .when(pl.col("device") < 0)
        .then(pl.lit("GPU"))
        .otherwise(pl.format("GPU {}", "device"))
    )
    rows = (
        frame.with_columns(
            lane=pl.concat_str(rank, place),
            order=pl.col("phase").replace_strict({name: at for at, name in enumerate(PHASES)}, default=len(PHASES)),
            share=pl.col("time_ns") / (pl.col("end_ns") - pl.col("start_ns")),
        )
        .sort("lane", "start_ns", "order")
        .with_columns(top=pl.col("share").cum_sum().over("lane", "start_ns"))
        .select(
            "lane",
            "phase",
            start=(pl.col("start_ns") - begin) / axis.size,
            stop=(pl.col("end_ns") - begin) / axis.size,
            low=pl.col("top") - pl.col("share"),
            high="top",
            said=_durations("time_ns"),
        )
    )
    gpu = frame.filter(pl.col("device").is_not_null())
    span = max(1, end - begin) * gpu.select("rank", "device").n_unique()
    title = f"The run over {(end - begin) / axis.size:,.1f} {axis.unit}"
    if not gpu.is_empty():
        title += f": the GPU is busy {percent(100 * int(gpu['time_ns'].sum()) / span)} of it"
    hues = {**PHASES, "outside_steps": "#555555"}
    brush = alt.selection_interval(encodings=["x"], name="window")
    lanes = rows["lane"].unique(maintain_order=True).to_list()
    base = (
        alt.Chart(rows)
        .mark_rect()
        .encode(
            x2="stop:Q",
            y=alt.Y("low:Q", title=None, axis=None, scale=alt.Scale(domain=[0, 1])),
            y2="high:Q",
            color=alt.Color(
                "phase:N",
                title=None,
                scale=alt.Scale(domain=list(hues), range=list(hues.values())),
                legend=alt.Legend(orient="bottom", columns=8),
            ),
            tooltip=[
                "lane:N",
                "phase:N",
                alt.Tooltip("said:N", title="time"),
                alt.Tooltip("start:Q", title=axis.title("from"), format=",.3f"),
            ],
        )
    )
    data = [alt.datum.lane == lane for lane in lanes]
    height = max(12, min(46, 600 // len(lanes)))
    label: dict[str, Any] = {"anchor": "start", "fontSize": 11, "offset": 2, "fontWeight": "normal"}

    def stack(scale: Any, tall: int, brushed: bool) -> Any:
        drawn = []
        for number, (lane, wanted) in enumerate(zip(lanes, data, strict=True)):
            last = number == len(lanes) - 1
            shown = alt.Axis(title=axis.title("time")) if last else None
            part = base.transform_filter(wanted).encode(x=alt.X("start:Q", scale=scale, axis=shown))
            part = part.properties(width=WIDTH, height=tall, title=alt.TitleParams(lane, **label))
            drawn.append(part.add_params(brush) if brushed and number == 0 else part)
        # Without a window, each lane alone would end with its own last event.
        return alt.vconcat(*drawn, spacing=2).resolve_scale(x="shared")

    whole = alt.Scale(domain=[0, (end - begin) / axis.size], nice=False)
    window = alt.Scale(domain=brush, nice=False, clamp=True)
    pair = alt.vconcat(stack(whole, height // 2 + 4, True), stack(window, height, False), spacing=14)
    return dress(pair, title, "drag over the first lane to choose what is shown below")
