"""Predicted times of a step: in scenarios, on other GPUs, with more ranks, copies or batch sizes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import altair as alt
import polars as pl

from hotline_analysis.answers.limits import LIMIT
from hotline_analysis.charts.either import answered
from hotline_analysis.charts.parts import durations, in_words, nothing, stacked_bars
from hotline_analysis.charts.theme import HUES, INK, WIDTH, Axis, dress, time_axis
from hotline_analysis.errors import HotlineError, QueryParameterError
from hotline_analysis.prediction.asked import whatif as asked
from hotline_analysis.prediction.engine.loop import loop_of
from hotline_analysis.prediction.engine.predict import Prediction
from hotline_analysis.prediction.studies.all_gpus import on_gpu
from hotline_analysis.prediction.studies.batch import BatchScaling, batch_scaling
from hotline_analysis.prediction.studies.scaling import data_parallel_scaling
from hotline_analysis.prediction.studies.sharing import share_gpu
from hotline_analysis.run.arguments import takes_traces
from hotline_analysis.run.trace import Trace
from hotline_analysis.text.formats import SIZE_UNITS, duration, readable_unit

_MOST_PARTS = len(HUES)
_WAYS = {
    "time_sliced": "taking turns",
    "mps": "at once (MPS)",
    "fused": "fused into one program",
    "larger_batch": "one program, larger batch",
}


@takes_traces
def whatif(trace: Trace | pl.DataFrame, *, scenario: str | None = None, rank: int | None = None) -> Any:
    """Predicted time of a step in each scenario, as a range, against the step as recorded and the limits.

    Takes a trace, or the frame of `whatif(trace)`. With `scenario`, shows the waits of a step before and after, which
    needs a trace; raises `HotlineError` if the scenario does not apply. If nothing can be predicted, the title gives
    the reason.
    """
    if scenario is not None:
        if isinstance(trace, pl.DataFrame):
            raise QueryParameterError(
                "the frame of all scenarios does not have the waits of one", hint="Give the trace instead of the frame."
            )
        return _before_and_after(asked(trace, scenario, rank=rank))
    try:
        table = answered(trace, asked, rank=rank)
    except QueryParameterError:
        raise
    except HotlineError as error:
        return nothing(error.message)
    rows = table.filter(pl.col("reason").is_null())
    if rows.is_empty():
        return nothing("No scenario applies")
    first = rows.row(0, named=True)
    baseline = int(first["baseline_ns"])
    axis = time_axis(max(int(rows["high_ns"].max()), baseline))  # type: ignore[arg-type]
    shown = rows.with_columns(what=pl.col("scenario").str.replace_all("_", " "))
    bars, points = _ranges(
        shown, "what", "scenario", axis, alt.value(HUES[5]), alt.Tooltip("summary:N", title="what is done")
    )
    has_gpu = loop_of(trace, rank).has_gpu_work if isinstance(trace, Trace) else first["gpu_needs_ns"] > 0
    limits = pl.DataFrame(
        [
            (baseline / axis.size, "as recorded"),
            (int(first["cpu_needs_ns"]) / axis.size, "the CPU alone"),
            *([(int(first["gpu_needs_ns"]) / axis.size, "the GPU alone")] if has_gpu else []),
        ],
        ["at", "limit"],
        orient="row",
    )
    rules = (
        alt.Chart(limits)
        .mark_rule(strokeWidth=1.5)
        .encode(
            x="at:Q",
            color=alt.Color(
                "limit:N",
                title=None,
                scale=alt.Scale(
                    domain=["as recorded", "the CPU alone", "the GPU alone"], range=[INK, HUES[4], HUES[2]]
                ),
                legend=alt.Legend(orient="bottom"),
            ),
            strokeDash=alt.StrokeDash("limit:N", legend=None),
        )
    )
    gain = baseline - int(first["predicted_ns"])
    if gain >= 0.01 * baseline:
        between = f"{duration(first['low_ns'])} to {duration(first['high_ns'])}"
        title = f"{in_words(first['scenario'])} would help most: {between} instead of {duration(baseline)}"
    else:
        title = f"None of these would help: a step takes {duration(baseline)}"
    chart = alt.layer(bars, points, rules).properties(width=WIDTH - 120, height=alt.Step(24))
    return dress(chart, title, "Bars: between these, another run would be. Marks: what is expected.")


def _ranges(
    rows: pl.DataFrame, name: str, title: str, axis: Axis, colour: Any, more: alt.Tooltip
) -> tuple[alt.Chart, alt.Chart]:
    """A bar from `low_ns` to `high_ns` for each row, by the column `name`, and a mark at `predicted_ns`."""
    shown = rows.with_columns(
        low=pl.col("low_ns") / axis.size,
        high=pl.col("high_ns") / axis.size,
        predicted=pl.col("predicted_ns") / axis.size,
        said=durations("predicted_ns"),
        least=durations("low_ns"),
        most=durations("high_ns"),
    )
    base = alt.Chart(shown).encode(
        y=alt.Y(f"{name}:N", title=None, sort=shown[name].to_list(), axis=alt.Axis(labelLimit=240)),
        tooltip=[
            alt.Tooltip(f"{name}:N", title=title),
            alt.Tooltip("said:N", title="a step takes"),
            alt.Tooltip("least:N", title="at least"),
            alt.Tooltip("most:N", title="at most"),
            alt.Tooltip("limit_after:N", title="limit then"),
            more,
        ],
    )
    bars = base.mark_bar(height=10).encode(
        x=alt.X("low:Q", title=axis.title("a step takes"), scale=alt.Scale(zero=True)), x2="high:Q", color=colour
    )
    return bars, base.mark_tick(color=INK, thickness=2, size=16).encode(x="predicted:Q")


@takes_traces
def other_gpus(trace: Trace | pl.DataFrame, *, rank: int | None = None, cpu: float = 1.0) -> Any:
    """Predicted time of a step on other GPUs, as ranges, against the step as recorded.

    Takes a trace, or the frame of `on_gpu`. `cpu` is the speedup of the CPU: 2.0 is twice as fast. GPUs without a
    prediction are left out. If no GPU has a prediction, the title gives the reason.
    """
    try:
        table = answered(trace, on_gpu, rank=rank, cpu=cpu)
    except QueryParameterError:
        raise
    except HotlineError as error:
        return nothing(error.message)
    rows = table.filter(pl.col("reason").is_null())
    if rows.is_empty():
        return nothing(str(table["reason"].mode().sort()[0]))
    # The speedup is the recorded step time divided by the predicted time.
    baseline = round(rows["predicted_ns"][0] * rows["speedup"][0])
    axis = time_axis(max(int(rows["high_ns"].max()), baseline))  # type: ignore[arg-type]
    words = {limit: in_words(limit) for limit in rows["limit_after"].unique(maintain_order=True)}
    colour = alt.Color(
        "limit:N",
        title="the step then waits for",
        scale=alt.Scale(domain=list(words.values()), range=[HUES[at % _MOST_PARTS] for at in range(len(words))]),
        legend=alt.Legend(orient="bottom"),
    )
    shown = rows.with_columns(limit=pl.col("limit_after").replace(words))
    bars, points = _ranges(shown, "gpu", "GPU", axis, colour, alt.Tooltip("memory_gib:Q", title="memory, GiB"))
    recorded = alt.Chart(pl.DataFrame({"at": [baseline / axis.size]})).mark_rule(color=INK, strokeDash=[4, 3])
    chart = alt.layer(bars, points, recorded.encode(x="at:Q")).properties(width=WIDTH - 200, height=alt.Step(20))
    title = f"A step on other GPUs, instead of {duration(baseline)}"
    return dress(
        chart, title, "Bars: between these, another run would be. Marks: what is expected. Dashes: as recorded."
    )


@takes_traces
def scaling(trace: Trace | pl.DataFrame, *, rank: int | None = None) -> Any:
    """Predicted scaling efficiency by number of ranks, for networks of several bandwidths, as ranges.

    Takes a trace, or the frame of `data_parallel_scaling`. If no prediction is possible, the title gives the reason.
    """
    try:
        rows = answered(trace, data_parallel_scaling, rank=rank)
    except QueryParameterError:
        raise
    except HotlineError as error:
        return nothing(error.message)
    speeds = rows["gb_per_s"].unique().sort().to_list()
    shown = rows.with_columns(
        network=pl.col("gb_per_s").map_elements(lambda speed: f"{speed:g} GB/s", pl.String),
        said=durations("predicted_ns"),
    )
    networks = [f"{speed:g} GB/s" for speed in speeds]
    scale = alt.Scale(domain=networks, range=[HUES[at % _MOST_PARTS] for at in range(len(networks))])
    across = alt.X("ranks:Q", title="ranks", scale=alt.Scale(type="log", base=2))
    work = "work done, % of that of as many single ranks"
    base = alt.Chart(shown).encode(x=across)
    band = base.mark_area(opacity=0.12).encode(
        y=alt.Y("high_efficiency_pct:Q", title=work, scale=alt.Scale(domainMin=0)),
        y2="low_efficiency_pct:Q",
        color=alt.Color("network:N", scale=scale, legend=None),
    )
    tooltip = [
        alt.Tooltip("ranks:Q"),
        alt.Tooltip("network:N", title="bus bandwidth"),
        alt.Tooltip("said:N", title="a step takes"),
        alt.Tooltip("efficiency_pct:Q", title="efficiency, %", format=".1f"),
    ]
    colour = alt.Color("network:N", title="bus bandwidth", scale=scale, legend=alt.Legend(orient="bottom"))
    lines = base.mark_line(point=True).encode(y=alt.Y("efficiency_pct:Q", title=work), color=colour, tooltip=tooltip)
    most = rows.filter(pl.col("ranks") == pl.col("ranks").max())
    hidden = most["hidden_gb_per_s"][0]
    title = (
        f"{most['ranks'][0]} ranks need {hidden:,.1f} GB/s to wait for nothing"
        if hidden is not None
        else f"{most['ranks'][0]} ranks wait for each other on any network"
    )
    chart = alt.layer(band, lines).resolve_scale(color="independent").properties(width=WIDTH - 120, height=260)
    return dress(chart, title, "Lines: what is expected. Bands: another run would be between these.")


@takes_traces
def copies(trace: Trace | pl.DataFrame, *, rank: int | None = None) -> Any:
    """Predicted throughput gain of copies of a program on one GPU, as ranges: taking turns, at once, or fused.

    Takes a trace, or the frame of `share_gpu`. Also shows one program with the batch as many times larger. If nothing
    can be predicted, the title gives the reason.
    """
    try:
        found = answered(trace, partial(share_gpu, copies=(2, 4, 8, 16)), rank=rank)
    except QueryParameterError:
        raise
    except HotlineError as error:
        return nothing(error.message)
    rows = found.drop_nulls("low_ns")
    if rows.is_empty():
        return nothing("The memory is not enough for two copies")
    shown = rows.with_columns(
        what=pl.format("{} copies", "copies"),
        way=pl.col("way").replace_strict(_WAYS),
        least=durations("low_ns"),
        most=durations("high_ns"),
    )
    order = [word for word in _WAYS.values() if word in shown["way"].to_list()]
    bars = (
        alt.Chart(shown)
        .mark_bar()
        .encode(
            y=alt.Y("what:N", title=None, sort=shown["what"].unique(maintain_order=True).to_list()),
            yOffset=alt.YOffset("way:N", sort=order),
            x=alt.X("gain_low:Q", title="times as much done as by one copy", scale=alt.Scale(zero=True)),
            x2="gain_high:Q",
            color=alt.Color(
                "way:N",
                title=None,
                scale=alt.Scale(domain=order, range=[HUES[at] for at in range(len(order))]),
                legend=alt.Legend(orient="bottom"),
            ),
            tooltip=[
                "copies:Q",
                "way:N",
                alt.Tooltip("least:N", title="a step of all takes at least"),
                alt.Tooltip("most:N", title="at most"),
                alt.Tooltip("gain_low:Q", format=".2f"),
                alt.Tooltip("gain_high:Q", format=".2f"),
                "limit:N",
            ],
        )
    )
    one = alt.Chart(pl.DataFrame({"at": [1.0]})).mark_rule(color=INK, strokeDash=[4, 3]).encode(x="at:Q")
    chart = alt.layer(bars, one).properties(width=WIDTH - 120, height=alt.Step(9, **{"for": "offset"}))
    best = rows.filter(pl.col("way") != "larger_batch").sort(-pl.col("gain_high").round(2), "copies").row(0, named=True)
    title = (
        f"{best['copies']} copies on this GPU get at most {best['gain_high']:.1f} times as much done as one"
        if best["gain_high"] >= 1.1
        else "Copies on this GPU gain nothing"
    )
    return dress(chart, title, "Bars: bounds, between which the gain is. Dashes: one copy.")


def _before_and_after(found: Prediction) -> Any:
    """The critical path of a step by limit, as recorded and as predicted."""
    parts = []
    for key, path in (("as recorded", found.path_before()), (found.scenario, found.path())):
        period = found.baseline_ns if key == "as recorded" else found.predicted_ns
        grouped = path.group_by(limit=LIMIT).agg(pl.col("path_ns").sum())
        total = int(grouped["path_ns"].sum()) or 1
        parts.append(
            grouped.select("limit", key=pl.lit(key), time_ns=(pl.col("path_ns") * period / total).cast(pl.Int64))
        )
    rows = pl.concat(parts)
    if rows.is_empty():
        return nothing()
    limits = rows.group_by("limit").agg(pl.col("time_ns").sum()).sort("time_ns", descending=True)["limit"].to_list()
    wide = rows.pivot("limit", index="key", values="time_ns").fill_null(0)
    words = {limit: (in_words(limit), HUES[at % _MOST_PARTS]) for at, limit in enumerate(limits)}
    between = f"{duration(found.low_ns)} to {duration(found.high_ns)}"
    title = (
        f"{in_words(found.scenario)}: a step takes {duration(found.predicted_ns)}, not {duration(found.baseline_ns)}"
    )
    return dress(stacked_bars(wide, words, "what a step waits for"), title, f"Another run would take {between}.")


def batch(traces: Sequence[Trace]) -> Any:
    """Throughput and peak memory against the batch size, from traces of one program with different batch sizes.

    Points are measured, lines are fitted. A dashed rule marks the largest batch that fits into the GPU. If nothing can
    be predicted, the title gives the reason.
    """
    try:
        scaling = batch_scaling(traces)
    except HotlineError as error:
        return nothing(error.message)
    rows = scaling.frame
    most = int(rows["batch"].max())  # type: ignore[arg-type]
    ends = [value for value in (scaling.largest, scaling.knee) if value is not None and value <= 4 * most]
    sizes = pl.DataFrame(
        {"batch": pl.int_range(1, max([most, *ends]) + 1, max(1, max([most, *ends]) // 200), eager=True)}
    )
    panels = []
    if scaling.time is not None:
        line = sizes.with_columns(
            value=1e9 * pl.col("batch") / (scaling.time.intercept + scaling.time.slope * pl.col("batch"))
        )
    else:
        line = sizes.head(0).with_columns(value=pl.lit(0.0))
    points = rows.select("batch", value="samples_per_s")
    panels.append(_against_batch(points, line, "samples per second", scaling))
    if scaling.memory is not None:
        scale, unit = readable_unit(float(rows["peak_bytes"].max()), SIZE_UNITS)  # type: ignore[arg-type]
        memory = scaling.memory
        line = sizes.with_columns(value=(memory.intercept + memory.slope * pl.col("batch")) / scale)
        points = rows.select("batch", value=pl.col("peak_bytes") / scale).drop_nulls()
        panels.append(_against_batch(points, line, f"peak of memory, {unit}", scaling))
    return dress(alt.vconcat(*panels), str(scaling).split(". ")[0].rstrip("."))


def _against_batch(points: pl.DataFrame, line: pl.DataFrame, title: str, scaling: BatchScaling) -> Any:
    x = alt.X("batch:Q", title="samples per step")
    y = alt.Y("value:Q", title=title)
    layers = [
        alt.Chart(line).mark_line(color=HUES[0]).encode(x=x, y=y),
        alt.Chart(points)
        .mark_point(color=HUES[0], filled=True, size=60)
        .encode(x=x, y=y, tooltip=["batch:Q", alt.Tooltip("value:Q", title=title, format=",.3f")]),
    ]
    if scaling.largest is not None and not line.is_empty() and scaling.largest <= int(line["batch"].max()):  # type: ignore[arg-type]
        rule = pl.DataFrame({"batch": [scaling.largest]})
        layers.append(alt.Chart(rule).mark_rule(color=INK, strokeDash=[4, 3]).encode(x="batch:Q"))
    return alt.layer(*layers).properties(width=WIDTH, height=160)
