"""GPU efficiency: losses from peak, the roofline of ops, and occupancy of kernels.

Each function takes the frame of the answer with the same name. It returns an Altair chart titled with the finding.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import altair as alt
import polars as pl

from hotline_analysis.charts.page import clean
from hotline_analysis.charts.parts import durations, figure, nothing, rank_of, share_tooltip
from hotline_analysis.charts.theme import HUES, INK, WIDTH, dress
from hotline_analysis.text.formats import duration, percent, shorten
from hotline_analysis.vocabulary import PEAK_PARTS

# Colours of the parts, in the order of `PEAK_PARTS`.
_HUES = (
    *(HUES[2], "#7fcfb9", HUES[4], HUES[5], HUES[0], HUES[1], HUES[3]),
    *("#bbbbbb", "#999999", "#dddddd"),
)
# Limits of occupancy as words.
_LIMITS = {
    "grid": "too few blocks",
    "threads": "threads",
    "registers": "registers",
    "shared_memory": "shared memory",
    "blocks": "places for blocks",
    "not known": "not known",
}
_BARS = 60  # maximum number of bars: steps, phases or ranks
_NAMED = 6  # maximum number of points with a name


def peak_loss(frame: pl.DataFrame) -> Any:
    """Share of useful arithmetic and of each loss, a bar for each part, step or phase, from the answer `peak_loss`."""
    rows = frame.filter(pl.col("ns") > 0).with_columns(
        word=pl.col("part").replace_strict(dict(PEAK_PARTS)),
        order=pl.col("part").replace_strict({part: at for at, part in enumerate(PEAK_PARTS)}),
        said=durations("ns"),
    )
    if rows.is_empty():
        return nothing()
    title = _loss_title(rows)
    colour = alt.Color(
        "word:N",
        title=None,
        scale=alt.Scale(domain=list(PEAK_PARTS.values()), range=list(_HUES)),
        legend=alt.Legend(orient="bottom", columns=4),
    )
    tooltip = ["word:N", alt.Tooltip("said:N", title="time"), share_tooltip("pct")]
    groups = rows.select("rank", "device", "step", "phase").unique().height
    if groups == 1:
        return dress(_waterfall(rows, colour.legend(None), tooltip), title)
    place = pl.concat_str(
        rank_of(rows),
        pl.when(pl.col("step").is_not_null()).then(pl.format("step {}", "step")).otherwise(pl.lit("")),
        pl.col("phase").fill_null("" if rows["step"].null_count() < rows.height else "no phase"),
    )
    shown = rows.with_columns(place=place.str.strip_chars()).with_columns(
        place=pl.when(pl.col("place") == "").then(pl.lit("outside")).otherwise("place")
    )
    places = shown["place"].unique(maintain_order=True).head(_BARS)
    chart = (
        alt.Chart(shown.filter(pl.col("place").is_in(places.implode())))
        .mark_bar(stroke="white", strokeWidth=0.5)
        .encode(
            x=alt.X("sum(pct):Q", title="share of the observed time, %", scale=alt.Scale(domain=[0, 100])),
            y=alt.Y("place:N", title=None, sort=places.to_list()),
            color=colour,
            order="order:Q",
            tooltip=["place:N", *tooltip],
        )
        .properties(width=WIDTH, height=alt.Step(18))
    )
    return dress(chart, title)


def _waterfall(rows: pl.DataFrame, colour: alt.Color, tooltip: list[Any]) -> Any:
    """A bar for each part, which begins at the end of the previous part."""
    steps = (
        rows.sort("order").with_columns(end=pl.col("pct").cum_sum()).with_columns(begin=pl.col("end") - pl.col("pct"))
    )
    base = alt.Chart(steps).encode(y=alt.Y("word:N", title=None, sort=None, axis=alt.Axis(labelLimit=240)))
    bars = base.mark_bar().encode(
        x=alt.X("begin:Q", title="share of the observed time, %", scale=alt.Scale(domain=[0, 100])),
        x2="end:Q",
        color=colour,
        tooltip=tooltip,
    )
    near_end = alt.datum.end > 80
    texts = base.transform_calculate(label="datum.said + ', ' + format(datum.pct, '.1f') + ' %'")
    right = texts.transform_filter(~near_end).mark_text(align="left", dx=4, color=INK).encode(x="end:Q", text="label:N")
    left = (
        texts.transform_filter(near_end).mark_text(align="right", dx=-4, color=INK).encode(x="begin:Q", text="label:N")
    )
    return (bars + right + left).properties(width=WIDTH - 200, height=alt.Step(22))


def _loss_title(rows: pl.DataFrame) -> str:
    """The useful share and the largest loss."""
    total = int(rows["ns"].sum())
    of_part = rows.group_by("part", "word").agg(pl.col("ns").sum())
    useful = 100.0 * int(of_part.filter(part="useful")["ns"].sum()) / total
    lost = of_part.filter(pl.col("part") != "useful").sort("ns", "part", descending=[True, False])
    if lost.is_empty():
        return "All of the time is useful arithmetic at peak"
    share = percent(100.0 * lost["ns"][0] / total)
    said = f"{percent(useful)} of the time is useful arithmetic at peak" if useful else "No useful arithmetic is known"
    return f"{said}; the largest other part: {lost['word'][0]}, {share}"


def roofline(frame: pl.DataFrame) -> Any:
    """Roofline: FLOP per byte and FLOP/s of ops, modules or kernels, and the GPU's limits, from the answer `roofline`.

    Work without arithmetic (such as copies) and unknown work are not drawn; the subtitle shows their share of GPU time.
    If the frame has a column `link`, points are links.
    """
    rate = pl.col("flop_per_byte") * pl.col("gb_per_s") / 1000
    rows = frame.with_columns(
        tflop_per_s=rate,
        name=pl.col("name").fill_null("unknown"),
        label=pl.col("name")
        .fill_null("unknown")
        .map_elements(lambda name: shorten(clean(name), 24), return_dtype=pl.String),
    ).filter(pl.col("flop_per_byte") > 0, pl.col("tflop_per_s") > 0)
    if rows.is_empty():
        return nothing("No FLOP are known: record shapes (record_shapes=True)")
    rows = rows.with_columns(
        said=durations("gpu_time_ns"),
        lost=pl.col("lost_ns").map_elements(duration, return_dtype=pl.String),
        shape=pl.col("shape").fill_null(""),
        family=pl.col("family").fill_null("several"),
    )
    left = 2.0 ** min(-4, math.floor(math.log2(min(rows["flop_per_byte"]))))
    right = 2.0 ** max(12, math.ceil(math.log2(max(rows["flop_per_byte"]))))
    points = (
        alt.Chart(rows)
        .mark_circle(opacity=0.75, stroke="white", strokeWidth=0.5)
        .encode(
            x=alt.X(
                "flop_per_byte:Q",
                title="FLOP per byte",
                scale=alt.Scale(type="log", base=2, domain=[left, right], nice=False),
                axis=alt.Axis(format="~g", grid=True, gridOpacity=0.3),
            ),
            y=alt.Y(
                "tflop_per_s:Q",
                title="TFLOP/s",
                scale=alt.Scale(type="log"),
                axis=alt.Axis(format="~g", grid=True, gridOpacity=0.3),
            ),
            size=alt.Size("gpu_time_ns:Q", title=None, scale=alt.Scale(range=[20, 900]), legend=None),
            color=alt.Color(
                "family:N", title=None, scale=alt.Scale(range=list(HUES)), legend=alt.Legend(orient="bottom", columns=5)
            ),
            tooltip=[
                "name:N",
                *(["shape:N"] if (rows["shape"] != "").any() else []),
                "family:N",
                alt.Tooltip("said:N", title="GPU time"),
                share_tooltip("gpu_time_pct"),
                alt.Tooltip("flop_per_byte:Q", title="FLOP per byte", format=".3~s"),
                alt.Tooltip("tflop_per_s:Q", title="TFLOP/s", format=".3~g"),
                alt.Tooltip("efficiency_pct:Q", title="of the limit, %", format=".1f"),
                alt.Tooltip("lost:N", title="lost time"),
                "bound:N",
            ],
        )
    )
    if "link" in rows.columns:
        points = points.encode(href="link:N")
    largest = rows.sort("gpu_time_ns", descending=True)
    # A name is about 4 powers of two wide and a quarter of a power of ten high.
    named = _apart(map(math.log2, largest["flop_per_byte"]), map(math.log10, largest["tflop_per_s"]), (4.0, 0.25))
    names = (
        alt.Chart(largest[named])
        .mark_text(align="left", dx=9, fontSize=10, color=INK)
        .encode(x="flop_per_byte:Q", y="tflop_per_s:Q", text="label:N")
    )
    roofs = _roofs(rows, left, right)
    layers = [points, names]
    if not roofs.is_empty():
        line = (
            alt.Chart(roofs)
            .mark_line(color=INK, strokeWidth=1)
            .encode(x="flop_per_byte:Q", y="tflop_per_s:Q", detail="roof:N")
        )
        ends = roofs.filter(pl.col("flop_per_byte") == right)
        words = (
            alt.Chart(ends)
            .mark_text(align="right", dy=-6, dx=-2, fontSize=10, color=INK)
            .encode(x="flop_per_byte:Q", y="tflop_per_s:Q", text="roof:N")
        )
        layers = [line, words, *layers]
    return dress(alt.layer(*layers).properties(width=WIDTH, height=340), *_roofline_title(frame, rows))


def _apart(across: Iterable[float], up: Iterable[float], room: tuple[float, float]) -> list[int]:
    """Indices of the first points whose names do not overlap; `room` is the width and height of a name."""
    named: list[tuple[int, float, float]] = []
    for place, (x, y) in enumerate(zip(across, up, strict=True)):
        if len(named) < _NAMED and all(abs(x - a) > room[0] or abs(y - b) > room[1] for _, a, b in named):
            named.append((place, x, y))
    return [place for place, _, _ in named]


def _roofs(rows: pl.DataFrame, left: float, right: float) -> pl.DataFrame:
    """The limits as lines: a slope for the bandwidth, and a level at the peak of each unit and precision."""
    known = rows.filter(pl.col("peak_tflop_per_s").is_not_null(), pl.col("peak_gb_per_s").is_not_null())
    drawn = []
    word = pl.concat_str(pl.col("unit").fill_null("vector"), pl.lit(" "), pl.col("precision").fill_null("fp32"))
    for name, peak, bandwidth in known.select(word, "peak_tflop_per_s", "peak_gb_per_s").unique().sort(pl.all()).rows():
        ridge = 1000 * peak / bandwidth
        roof = f"{name} {figure(peak)} TFLOP/s"
        drawn += [(roof, at, min(peak, at * bandwidth / 1000)) for at in (left, ridge, right)]
    return pl.DataFrame(
        drawn, {"roof": pl.String, "flop_per_byte": pl.Float64, "tflop_per_s": pl.Float64}, orient="row"
    )


def _roofline_title(frame: pl.DataFrame, rows: pl.DataFrame) -> tuple[str, str]:
    """The largest loss, and the share of GPU time that is not drawn."""
    total = int(frame["gpu_time_ns"].sum())
    hidden = total - int(rows["gpu_time_ns"].sum())
    subtitle = (
        f"not drawn: {percent(100 * hidden / total)} of the GPU time, of work without arithmetic or of unknown work"
        if hidden
        else ""
    )
    lost = rows.filter(pl.col("lost_ns") > 0).sort("lost_ns", descending=True)
    if lost.is_empty():
        return "FLOP per byte and rate; the limits of this GPU are not known", subtitle
    first = lost.row(0, named=True)
    words = {"matrix": "peak", "memory": "the bandwidth of memory", "vector": "the peak of vector units"}
    at = f"{percent(first['efficiency_pct'])} of {words[first['bound']]}"
    return f"{first['label']} loses most: {first['lost']}, at {at}", subtitle


def kernel_metrics(frame: pl.DataFrame) -> Any:
    """Occupancy of kernels against waves of blocks, from the answer `kernel_metrics`.

    The area of a circle is the kernel's GPU time. The colour is the limit of the kernel's occupancy. Left of the line,
    a kernel has fewer blocks than the GPU can hold at once. Both axes need fields found only in traces of NVIDIA GPUs.
    """
    rows = frame.filter(
        pl.col("waves").is_not_null() & pl.col("occupancy_pct").is_not_null() & (pl.col("gpu_time_ns") > 0)
    )
    if rows.is_empty():
        return nothing("No kernel with a known occupancy")
    computing = rows.filter(pl.col("class") == "computation")
    title = "Occupancy of the kernels with most GPU time"
    if not computing.is_empty():
        idle = computing.select((100 - pl.col("sm_efficiency_pct")).dot("gpu_time_ns") / pl.sum("gpu_time_ns")).item()
        title = f"While these kernels compute, {percent(idle)} of the multiprocessors have no block to run"
    names = [shorten(clean(name), 30) for name in rows["short_name"]]
    shown = (
        rows.with_columns(label=rank_of(frame) + pl.Series(names, dtype=pl.String), said=durations("gpu_time_ns"))
        .sort("gpu_time_ns", descending=True, maintain_order=True)
        .select(
            "label",
            "count",
            "said",
            "waves",
            "tail_pct",
            "occupancy_pct",
            "gpu_time_pct",
            limit=pl.col("occupancy_limit").fill_null("not known").replace(_LIMITS),
        )
    )
    x = alt.X("waves:Q", title="waves: blocks as a multiple of what the GPU holds", scale=alt.Scale(type="log"))
    y = alt.Y("occupancy_pct:Q", title="occupancy, %", scale=alt.Scale(domain=[0, 105], nice=False))
    circles = (
        alt.Chart(shown)
        .mark_circle(opacity=0.7, stroke=INK, strokeWidth=0.3)
        .encode(
            x=x,
            y=y,
            size=alt.Size("gpu_time_pct:Q", title="share of GPU time, %", scale=alt.Scale(range=[12, 1500])),
            color=alt.Color(
                "limit:N",
                title="occupancy is limited by",
                scale=alt.Scale(domain=list(_LIMITS.values()), range=[*HUES[: len(_LIMITS) - 1], HUES[7]]),
            ),
            tooltip=[
                "label:N",
                "count:Q",
                alt.Tooltip("said:N", title="time"),
                share_tooltip("gpu_time_pct"),
                alt.Tooltip("waves:Q", format=",.3~g"),
                alt.Tooltip("tail_pct:Q", title="empty in the last wave, %", format=".1f"),
                alt.Tooltip("occupancy_pct:Q", title="occupancy, %", format=".1f"),
                alt.Tooltip("limit:N", title="limited by"),
            ],
        )
    )
    span = max(1.0, math.log10(max(shown["waves"]) / min(shown["waves"])))
    named = _apart([math.log10(waves) / span for waves in shown["waves"]], shown["occupancy_pct"], (0.35, 4))
    labels = (
        alt.Chart(shown[named])
        .mark_text(align="left", dx=9, dy=-6, color=INK, fontSize=10)
        .encode(x=x, y=y, text="label:N")
    )
    line = alt.Chart(pl.DataFrame({"waves": [1.0]})).mark_rule(strokeDash=[4, 4], color=INK).encode(x=x)
    return dress((line + circles + labels).properties(width=WIDTH - 160, height=320), title)
