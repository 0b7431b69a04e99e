"""Memory over time and at its peak, and the bandwidth of copies.

Each function takes a trace, or the frame of the answer with the same name, and returns an Altair chart titled with the
finding.
"""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from hotline_analysis.charts.either import answered
from hotline_analysis.charts.page import clean
from hotline_analysis.charts.parts import (
    device_of,
    figure,
    lines_of,
    nothing,
    over_time,
    rank_of,
)
from hotline_analysis.charts.theme import HUES, PHASES, WIDTH, Axis, dress, time_axis
from hotline_analysis.errors import HotlineError, QueryParameterError
from hotline_analysis.prediction.studies.checkpoint import recomputation as recomputed
from hotline_analysis.run.arguments import takes_traces
from hotline_analysis.run.trace import Trace
from hotline_analysis.text.formats import SIZE_UNITS, duration, percent, readable_unit, size

_MOST_BARS = 20
_CATEGORY = pl.col("category").str.replace_all("_", " ")
_CATEGORIES = {
    "parameter": "#332288",
    "optimizer state": "#117733",
    "gradient": "#44aa99",
    "gradient map": "#88ccee",
    "activation": "#cc6677",
    "input": "#ddcc77",
    "workspace": "#aa4499",
    "temporary": "#882255",
    "communication buffer": "#e69f00",
    "unknown": "#999999",
    "older": "#cccccc",
}
"""Colours of categories: Paul Tol's muted scheme, an orange, and greys for unknown and older memory."""


def memory_bandwidth(frame: pl.DataFrame) -> Any:
    """Bandwidth of copies and memsets over time, by kind, from the answer `memory_bandwidth`."""
    kind = pl.col("kind").map_elements(clean, return_dtype=pl.String)
    device = pl.format(", device {}", "device") if frame["device"].n_unique() > 1 else pl.lit("")
    rows = frame.filter(pl.col("gb_per_s").is_not_null()).with_columns(line=rank_of(frame) + kind + device)
    # The bandwidth drops to 0 at the end of a stretch, unless another stretch begins there.
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
    """Memory allocated at the peak of each device, by category and phase, from the answer `memory_peak`."""
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
    # Damaged traces can have totals below zero, which the filter removes, so an allocated line can be missing.
    most = [*points.filter(pl.col("line").str.ends_with("allocated")).head(1).rows(), *points.head(1).rows()][0]
    place, _, what = most[0].rpartition(", ")
    title = f"{place} has at most {size(most[2])} {what}"
    return lines_of(points.with_columns(pl.col("value") / scale), unit, title, legend="memory")


def memory_breakdown(frame: pl.DataFrame) -> Any:
    """Memory at the peak by module and category, from the answer `memory_breakdown`.

    The 20 largest modules have a bar each; the rest shares one bar. Sizes estimated by shapes are labelled.
    """
    by_shapes = pl.when("is_estimated").then(pl.lit(", estimated by shapes")).otherwise(pl.lit(""))
    rows = frame.with_columns(
        place=rank_of(frame) + device_of() + by_shapes,
        what=pl.col("place").map_elements(clean, return_dtype=pl.String),
    ).filter(pl.col("bytes") > 0)
    if rows.is_empty():
        return nothing()
    without = pl.when(category="unknown").then("evidence").otherwise("category").str.replace_all("_", " ")
    rows = rows.with_columns(what=pl.coalesce("what", without + pl.lit(", no module")))
    most = rows.group_by("what").agg(pl.col("bytes").sum()).sort("bytes", "what", descending=[True, False])
    named = most["what"].head(_MOST_BARS).to_list()
    shown = (
        rows.with_columns(what=pl.when(pl.col("what").is_in(named)).then("what").otherwise(pl.lit("all others")))
        .group_by("place", "what", "category")
        .agg(pl.col("bytes").sum())
        .sort("place", "what", "category")
    )
    scale, unit = readable_unit(int(most["bytes"].max()), SIZE_UNITS)  # type: ignore[arg-type]
    first = most.row(0, named=True)
    title = f"{first['what']} holds {size(first['bytes'])} at the peak"
    if rows["is_estimated"].all():
        title += ", as shapes tell"
    chart = (
        alt.Chart(shown.with_columns(size=pl.col("bytes") / scale, category=_CATEGORY))
        .mark_bar(stroke="white", strokeWidth=0.5)
        .encode(
            x=alt.X("sum(size):Q", title=f"allocated at the peak, {unit}"),
            y=alt.Y("what:N", title=None, sort=[*named, "all others"], axis=alt.Axis(labelLimit=320)),
            color=_category_colour(),
            row=alt.Row("place:N", title=None),
            tooltip=["place:N", "what:N", "category:N", alt.Tooltip("size:Q", title=unit, format=".3f")],
        )
        .properties(width=WIDTH - 320, height=alt.Step(16))
    )
    return dress(chart, title)


def _memory_by_category(trace: Trace, *, rank: int | None, step: int | None) -> pl.DataFrame:
    return trace.query("memory_by_category", rank=rank, step=step)


@takes_traces
def memory_over_step(trace: Trace | pl.DataFrame, *, rank: int | None = None, step: int | None = None) -> Any:
    """Memory over a step by category, stacked, above the phases of the step.

    Takes a trace, or the frame of the query `memory_by_category`, which does not have the phases. Without `step`, the
    step with the memory peak is drawn.
    """
    rows = answered(trace, _memory_by_category, rank=rank, step=step)
    if rows.is_empty():
        return nothing("The trace has no memory events")
    first = rows.row(0, named=True)
    whole = (
        rows.group_by("at_ns")
        .agg(pl.col("bytes").sum())
        .sort(["bytes", "at_ns"], descending=[True, False])
        .row(0, named=True)
    )
    scale, unit = readable_unit(max(1, int(whole["bytes"])), SIZE_UNITS)
    axis = time_axis(int(rows["at_ns"].max()))  # type: ignore[arg-type]
    shown = rows.with_columns(
        time=pl.col("at_ns") / axis.size, size=pl.col("bytes") / scale, category=_CATEGORY
    ).filter(pl.col("bytes").max().over("category") > 0)
    area = (
        alt.Chart(shown)
        .mark_area(interpolate="step-after")
        .encode(
            x=alt.X("time:Q", title=None, scale=alt.Scale(nice=False)),
            y=alt.Y("size:Q", title=f"allocated, {unit}", stack="zero"),
            color=_category_colour(),
            order=alt.Order("rank_of_category:Q"),
            tooltip=["category:N", alt.Tooltip("size:Q", title=unit, format=".3f")],
        )
        .transform_calculate(rank_of_category=f"indexof({list(_CATEGORIES)}, datum.category)")
        .properties(width=WIDTH, height=220)
    )
    largest = rows.filter(at_ns=whole["at_ns"]).sort("bytes", descending=True).row(0, named=True)
    title = f"Most is allocated {duration(whole['at_ns'])} into the step: {size(whole['bytes'])}, of which"
    title += f" {str(largest['category']).replace('_', ' ')} is most"
    if isinstance(trace, pl.DataFrame):
        return dress(area.encode(x=alt.X("time:Q", title=axis.title("time in the step"))), title)
    bars = _phases(trace, first["rank"], first["start_ns"], int(rows["at_ns"].max()), axis)  # type: ignore[arg-type]
    return dress(alt.vconcat(area, bars).resolve_scale(x="shared", color="independent"), title)


def _phases(trace: Trace, rank: int, begin_ns: int, length_ns: int, axis: Axis) -> Any:
    """The phases of the main thread under the memory, on the same time axis."""
    spans = (
        trace.of(rank)
        .sql(
            "select phase, start_ns, end_ns from phase_span where rank = $rank and is_main and start_ns < $end_ns"
            " and end_ns > $begin_ns order by start_ns limit 2000",
            rank=rank,
            begin_ns=begin_ns,
            end_ns=begin_ns + length_ns,
        )
        .with_columns(
            begin=(pl.col("start_ns") - begin_ns).clip(0) / axis.size,
            end=(pl.col("end_ns") - begin_ns).clip(0, length_ns) / axis.size,
        )
    )
    return (
        alt.Chart(spans.select("phase", "begin", "end"))
        .mark_bar(height=14)
        .encode(
            x=alt.X("begin:Q", title=axis.title("time in the step")),
            x2="end:Q",
            color=alt.Color(
                "phase:N", title="phase", scale=alt.Scale(domain=list(PHASES), range=list(PHASES.values()))
            ),
            tooltip=["phase:N"],
        )
        .properties(width=WIDTH, height=18)
    )


@takes_traces
def recomputation(
    trace: Trace | pl.DataFrame, *, budget: str | None = None, rank: int | None = None, step: int | None = None
) -> Any:
    """Activation checkpointing: the peak of memory against the time added to a step.

    Takes a trace, or the frame of the answer `recomputation`. Each point adds a module to the modules that are computed
    again. The curve ends once the peak is at most `budget`, such as "4 GiB".
    """
    try:
        curve = answered(trace, recomputed, budget=budget, rank=rank, step=step)
    except QueryParameterError:
        raise
    except HotlineError as error:
        return nothing(error.message)
    if curve.is_empty():
        return nothing("No module lowers the peak if it is computed again")
    scale, unit = readable_unit(int(curve["peak_bytes"].max()), SIZE_UNITS)  # type: ignore[arg-type]
    axis = time_axis(int(curve["added_ns"].max()))  # type: ignore[arg-type]
    shown = curve.with_columns(
        added=pl.col("added_ns") / axis.size,
        peak=pl.col("peak_bytes") / scale,
        module=pl.col("module_path").map_elements(clean, return_dtype=pl.String),
    )
    least = curve.sort("peak_bytes", "added_ns").row(0, named=True)
    title = f"A peak of {size(least['peak_bytes'])} costs {duration(least['added_ns'])} per step"
    chart = (
        alt.Chart(shown.select("added", "peak", "module"))
        .mark_line(point=True, interpolate="step-after", color=HUES[0])
        .encode(
            x=alt.X("added:Q", title=axis.title("added to a step")),
            y=alt.Y("peak:Q", title=f"peak of memory, {unit}"),
            order="added:Q",
            tooltip=["module:N", alt.Tooltip("added:Q", format=".3f"), alt.Tooltip("peak:Q", title=unit, format=".3f")],
        )
        .properties(width=WIDTH, height=220)
    )
    return dress(chart, title)


def _category_colour() -> Any:
    return alt.Color(
        "category:N",
        title=None,
        scale=alt.Scale(domain=list(_CATEGORIES), range=list(_CATEGORIES.values())),
        legend=alt.Legend(orient="bottom", columns=6),
    )
