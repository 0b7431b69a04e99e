"""A whole run over time: the lower chart enlarges the stretch selected in the upper chart."""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from hotline_analysis.charts.parts import durations, nothing
from hotline_analysis.charts.theme import PHASES, WIDTH, Axis, dress, time_axis
from hotline_analysis.run.arguments import takes_traces
from hotline_analysis.run.trace import Trace
from hotline_analysis.text.formats import percent

_MARKS = 4000  # maximum number of marks: a browser draws as many without a pause
_RANKS = 6  # maximum number of ranks with separate lanes
_STRETCHES = 300  # stretches of time in the mean of all ranks
_CELLS = 2400  # maximum number of cells: one for each rank and stretch of time
_HUES = {**PHASES, "outside_steps": "#555555"}


@takes_traces
def overview(trace: Trace, *, rank: int | None = None) -> Any:
    """Phases of the main thread and work of each device over time, as a linked pair of charts.

    Drag over the upper chart to choose a stretch for the lower chart. Both show sums over all events, from the query
    `overview`. The number of stretches is chosen to keep the number of marks small. With more than six ranks, the upper
    chart shows the mean of all ranks, and the lower chart the GPU busy share of each rank.
    """
    if rank is None and len(trace.ranks) > _RANKS:
        cells = trace.query("overview", bins=max(1, _CELLS // len(trace.ranks)))
        return _together_chart(trace.query("overview", bins=_STRETCHES), cells)
    lanes = 2 * (1 if rank is not None else len(trace.ranks))
    bins = max(10, min(600, _MARKS // (2 * lanes)))
    rows = trace.query("overview", rank=rank, bins=bins)
    while rows.height > _MARKS and bins > 1:
        bins //= 2
        rows = trace.query("overview", rank=rank, bins=bins)
    return _overview_chart(rows)


def _overview_chart(frame: pl.DataFrame) -> Any:
    """The pair of charts for a frame of `overview`, with a lane for each thread and device."""
    if frame.is_empty():
        return nothing()
    rank = pl.format("rank {} ", "rank") if frame["rank"].n_unique() > 1 else pl.lit("")
    place = (
        pl.when(pl.col("device").is_null())
        .then(pl.lit("CPU"))
        .when(pl.col("device") < 0)
        .then(pl.lit("GPU"))
        .otherwise(pl.format("GPU {}", "device"))
    )
    ordered = frame.sort("rank", "device", nulls_last=False)
    rows = ordered.with_columns(lane=pl.concat_str(rank, place), places=pl.lit(1))
    lanes, brush = _Lanes(rows), _brush()
    pair = alt.vconcat(
        lanes.stack(_whole(frame), lanes.height // 2 + 4, brush), lanes.stack(_window(brush), lanes.height), spacing=14
    )
    return dress(pair, _title(frame), "drag over the first lane to choose what is shown below")


def _together_chart(frame: pl.DataFrame, cells: pl.DataFrame) -> Any:
    """The pair of charts for many ranks: the mean of all above, each rank below. Both frames are of `overview`."""
    if frame.is_empty():
        return nothing()
    ranks = frame["rank"].n_unique()
    on_gpu = pl.col("device").is_not_null()
    side = pl.when(on_gpu).then(pl.lit("GPU")).otherwise(pl.lit("CPU"))
    rows = (
        frame.with_columns(side=side, places=pl.struct("rank", "device").n_unique().over(side))
        .group_by("side", "bin", "phase")
        .agg(pl.col("time_ns").sum(), pl.col("start_ns", "end_ns", "places").first())
        .sort("side", "bin", "phase")
        .with_columns(lane=pl.format("{}, mean of {} ranks", "side", pl.lit(ranks)))
    )
    begin, axis = _scale(frame)
    has_gpu = cells["device"].is_not_null().any()
    busy = (
        cells.filter(on_gpu if has_gpu else ~on_gpu)
        .with_columns(places=pl.col("device").n_unique().over("rank"))
        .group_by("rank", "bin")
        .agg(pl.col("time_ns").sum(), pl.col("start_ns", "end_ns", "places").first())
        .sort("rank", "bin")
        .select(
            "rank",
            start=(pl.col("start_ns") - begin) / axis.size,
            stop=(pl.col("end_ns") - begin) / axis.size,
            busy_pct=100.0 * pl.col("time_ns") / (pl.col("end_ns") - pl.col("start_ns")) / pl.col("places"),
            said=durations("time_ns"),
        )
    )
    what = "GPU busy, %" if has_gpu else "CPU in steps, %"
    brush = _brush()
    below = (
        alt.Chart(busy)
        .mark_rect(clip=True)
        .encode(
            x=alt.X("start:Q", scale=_window(brush), axis=alt.Axis(title=axis.title("time"))),
            x2="stop:Q",
            y=alt.Y("rank:O", title="rank", axis=alt.Axis(labelOverlap=True)),
            color=alt.Color("busy_pct:Q", title=what, scale=alt.Scale(scheme="viridis", domain=[0, 100])),
            tooltip=[
                "rank:O",
                alt.Tooltip("busy_pct:Q", title=what, format=".1f"),
                alt.Tooltip("said:N", title="time"),
                alt.Tooltip("start:Q", title=axis.title("from"), format=",.3f"),
            ],
        )
        .properties(width=WIDTH, height=max(60, min(620, 12 * ranks)))
    )
    above = _Lanes(rows).stack(_whole(frame), 46, brush)
    pair = alt.vconcat(above, below, spacing=14).resolve_scale(color="independent")
    return dress(pair, _title(frame), "drag over the first lane to choose what is shown below, rank by rank")


class _Lanes:
    """Lanes of stacked phases. Columns: lane, phase, start_ns, end_ns, time_ns, `places` (number of summed places)."""

    def __init__(self, frame: pl.DataFrame) -> None:
        begin, self._axis = _scale(frame)
        self._names = frame["lane"].unique(maintain_order=True).to_list()
        self.height = max(12, min(46, 600 // len(self._names)))
        width = (pl.col("end_ns") - pl.col("start_ns")) * pl.col("places")
        rows = (
            frame.with_columns(
                order=pl.col("phase").replace_strict({name: at for at, name in enumerate(PHASES)}, default=len(PHASES)),
                share=pl.col("time_ns") / width,
            )
            .sort("lane", "start_ns", "order")
            .with_columns(top=pl.col("share").cum_sum().over("lane", "start_ns"))
            .select(
                "lane",
                "phase",
                start=(pl.col("start_ns") - begin) / self._axis.size,
                stop=(pl.col("end_ns") - begin) / self._axis.size,
                low=pl.col("top") - pl.col("share"),
                high="top",
                said=durations("time_ns"),
            )
        )
        self._base = (
            alt.Chart(rows)
            .mark_rect()
            .encode(
                x2="stop:Q",
                y=alt.Y("low:Q", title=None, axis=None, scale=alt.Scale(domain=[0, 1])),
                y2="high:Q",
                color=alt.Color(
                    "phase:N",
                    title=None,
                    scale=alt.Scale(domain=list(_HUES), range=list(_HUES.values())),
                    legend=alt.Legend(orient="bottom", columns=8),
                ),
                tooltip=[
                    "lane:N",
                    "phase:N",
                    alt.Tooltip("said:N", title="time"),
                    alt.Tooltip("start:Q", title=self._axis.title("from"), format=",.3f"),
                ],
            )
        )

    def stack(self, scale: Any, height: int, brush: Any = None) -> Any:
        """Stack the lanes. The first lane can have a brush."""
        label: dict[str, Any] = {"anchor": "start", "fontSize": 11, "offset": 2, "fontWeight": "normal"}
        drawn = []
        for number, lane in enumerate(self._names):
            last = number == len(self._names) - 1
            shown = alt.Axis(title=self._axis.title("time")) if last else None
            part = self._base.transform_filter(alt.datum.lane == lane).encode(
                x=alt.X("start:Q", scale=scale, axis=shown)
            )
            part = part.properties(width=WIDTH, height=height, title=alt.TitleParams(lane, **label))
            drawn.append(part.add_params(brush) if brush is not None and number == 0 else part)
        # Without a shared scale, each lane would end with the lane's last event.
        return alt.vconcat(*drawn, spacing=2).resolve_scale(x="shared")


def _brush() -> Any:
    return alt.selection_interval(encodings=["x"], name="window")


def _scale(frame: pl.DataFrame) -> tuple[int, Axis]:
    """Start of the time axis in nanoseconds, and the axis with a readable unit."""
    begin, end = min(frame["start_ns"]), max(frame["end_ns"])
    return begin, time_axis(end - begin)


def _whole(frame: pl.DataFrame) -> alt.Scale:
    begin, axis = _scale(frame)
    return alt.Scale(domain=[0, (max(frame["end_ns"]) - begin) / axis.size], nice=False)


def _window(brush: Any) -> alt.Scale:
    return alt.Scale(domain=brush, nice=False, clamp=True)


def _title(frame: pl.DataFrame) -> str:
    begin, axis = _scale(frame)
    length = max(frame["end_ns"]) - begin
    title = f"The run over {length / axis.size:,.1f} {axis.unit}"
    gpu = frame.filter(pl.col("device").is_not_null())
    if gpu.is_empty():
        return title
    span = max(1, length) * gpu.select("rank", "device").n_unique()
    return f"{title}: the GPU is busy {percent(100 * int(gpu['time_ns'].sum()) / span)} of it"
