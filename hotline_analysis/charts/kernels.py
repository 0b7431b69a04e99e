"""What the GPU runs, and how it overlaps: charts of kernels, idle time, communication, launches and of two runs.

Each takes the frame of the answer of the same name and returns an Altair chart, whose title states the finding.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import altair as alt
import polars as pl

from hotline_analysis.charts.breakdown import _durations, _nothing, _share
from hotline_analysis.charts.page import clean
from hotline_analysis.charts.theme import HUES, INK, WIDTH, dress, time_axis
from hotline_analysis.text.formats import delta, duration, percent, shorten

_ROWS = 20
# Columns of `temporal_breakdown` that add up to the window, with word and colour.
_WINDOW = (
    ("computation_only_ns", "computation", HUES[2]),
    ("computation_communication_ns", "computation beside communication", HUES[5]),
    ("computation_memory_ns", "computation beside copies", "#7fcfb9"),
    ("all_three_ns", "all three", "#5f8f9f"),
    ("communication_only_ns", "communication alone", HUES[4]),
    ("communication_memory_ns", "communication beside copies", "#e9a06a"),
    ("memory_only_ns", "copies alone", HUES[1]),
    ("idle_ns", "idle", "#cccccc"),
)


def temporal_breakdown(frame: pl.DataFrame) -> Any:
    """What each device does with its time, per rank (and step), from the answer `temporal_breakdown`."""
    rows = (
        frame.head(256)
        .with_columns(
            place=pl.concat_str(
                pl.format("rank {}", "rank"),
                pl.when(pl.col("device") >= 0).then(pl.format(" device {}", "device")).otherwise(pl.lit("")),
                pl.when(pl.col("step").is_not_null()).then(pl.format(" step {}", "step")).otherwise(pl.lit("")),
            )
        )
        .unpivot([name for name, _, _ in _WINDOW], index="place", variable_name="part", value_name="time_ns")
        .with_columns(
            order=pl.col("part").replace_strict({name: at for at, (name, _, _) in enumerate(_WINDOW)}),
            part=pl.col("part").replace_strict({name: word for name, word, _ in _WINDOW}),
            share_pct=100.0 * pl.col("time_ns") / pl.col("time_ns").sum().over("place"),
        )
        .filter(pl.col("time_ns") > 0)
    )
    if rows.is_empty():
        return _nothing()
    whole = int(rows["time_ns"].sum())
    idle = 100 * int(rows.filter(part="idle")["time_ns"].sum()) / whole
    exposed = 100 * int(rows.filter(pl.col("part").str.starts_with("communication"))["time_ns"].sum()) / whole
    title = f"The GPU idles {percent(idle)} of the time; {percent(exposed)} is communication without computation"
    chart = (
        alt.Chart(rows.with_columns(said=_durations("time_ns")))
        .mark_bar(stroke="white", strokeWidth=0.5)
        .encode(
            x=alt.X("sum(share_pct):Q", title="share of the time, %", scale=alt.Scale(domain=[0, 100])),
            y=alt.Y("place:N", title=None, sort=rows["place"].unique(maintain_order=True).to_list()),
            color=alt.Color(
                "part:N",
                title=None,
                scale=alt.Scale(domain=[word for _, word, _ in _WINDOW], range=[hue for _, _, hue in _WINDOW]),
                legend=alt.Legend(orient="bottom", columns=3),
            ),
            order="order:Q",
            tooltip=["place:N", "part:N", alt.Tooltip("said:N", title="time"), _share("share_pct")],
        )
        .properties(width=WIDTH - 80, height=alt.Step(22))
    )
    return dress(chart, title)


def idle_breakdown(frame: pl.DataFrame) -> Any:
    """Why devices idle, from the answer `idle_breakdown`."""
    rows = frame.group_by("cause").agg(pl.col("idle_ns", "gap_count").sum()).filter(pl.col("idle_ns") > 0)
    return _bars(rows, "cause", "idle_ns", "idle time", "Most idle time: {}, {} ({})")


def kernel_breakdown(frame: pl.DataFrame) -> Any:
    """The kernels, classes, ops or modules with most GPU time, from the answer `kernel_breakdown`."""
    rows = frame.with_columns(pl.col("key").fill_null("unknown")).group_by("key").agg(pl.col("gpu_time_ns").sum())
    return _bars(rows, "key", "gpu_time_ns", "GPU time", "{} takes {} of GPU time ({})")


def kernel_duration_distribution(frame: pl.DataFrame) -> Any:
    """How the durations of kernels spread: 5 to 95 % as a line, the middle half as a bar, the median as a tick.

    From the answer `kernel_duration_distribution`; the axis is logarithmic.
    """
    rows = frame.filter(pl.col("max_ns") > 0).sort("gpu_time_ns", descending=True).head(_ROWS)
    if rows.is_empty():
        return _nothing()
    spread = rows.filter(pl.col("count") > 1).with_columns(ratio=pl.col("p95_ns") / pl.col("median_ns").clip(1))
    title = "Durations of the kernels with most GPU time"
    if not spread.is_empty():
        widest = spread.sort("ratio", "gpu_time_ns", descending=True).row(0, named=True)
        name = shorten(clean(widest["key"] or "unknown"), 44)
        title = (
            f"{name} varies most: {duration(widest['median_ns'])} in the median, 5 % over {duration(widest['p95_ns'])}"
        )
    quantiles = ["p05_ns", "p25_ns", "median_ns", "p75_ns", "p95_ns"]
    shown = _labelled(rows, "key").select(
        "bar",
        "label",
        "count",
        *(pl.col(name).clip(1).cast(pl.Float64) / 1000 for name in quantiles),
        *(_durations(name).alias(f"{name[:-3]} said") for name in ("p05_ns", "median_ns", "p95_ns")),
    )
    base = alt.Chart(shown).encode(
        y=alt.Y("bar:N", title=None, axis=_NAMES),
        tooltip=["label:N", "count:Q", "p05 said:N", "median said:N", "p95 said:N"],
    )
    axis = alt.X("p05_ns:Q", title="duration, µs", scale=alt.Scale(type="log"))
    lines = base.mark_rule(color=INK).encode(x=axis, x2="p95_ns:Q")
    boxes = base.mark_bar(color=HUES[0], size=10).encode(x="p25_ns:Q", x2="p75_ns:Q")
    ticks = base.mark_tick(color=HUES[4], thickness=2, size=14).encode(x="median_ns:Q")
    return dress((lines + boxes + ticks).properties(width=WIDTH - 300, height=alt.Step(20)), title)


def comm_comp_overlap(frame: pl.DataFrame) -> Any:
    """How much of the communication runs beside computation, from the answer `comm_comp_overlap`."""
    keys = [name for name in ("phase", "module_path", "name", "step") if frame[name].null_count() < frame.height]
    rows = (
        frame.with_columns(
            key=pl.concat_str(
                [pl.format("rank {}", "rank"), *(pl.col(name).cast(pl.String).fill_null("unknown") for name in keys)],
                separator=", ",
            )
        )
        .group_by("key", maintain_order=True)
        .agg(pl.col("communication_ns", "overlapped_ns", "exposed_ns").sum())
        .filter(pl.col("communication_ns") > 0)
        .sort("communication_ns", descending=True)
        .head(_ROWS)
    )
    if rows.is_empty():
        return _nothing()
    hidden = 100 * int(rows["overlapped_ns"].sum()) / int(rows["communication_ns"].sum())
    parts = {
        "overlapped_ns": ("beside computation", HUES[5]),
        "exposed_ns": ("alone: the GPU waits for it", HUES[4]),
    }
    return dress(
        _parts(rows, parts, "communication"), f"{percent(hidden)} of the communication runs beside computation"
    )


def launch_stats(frame: pl.DataFrame) -> Any:
    """Time inside launch calls and how long the GPU idled until their work started, from the answer `launch_stats`."""
    rows = (
        frame.with_columns(pl.col("key").fill_null("unknown"))
        .group_by("key")
        .agg(pl.col("call_ns", "idle_ns", "call_count").sum())
        .filter(pl.col("call_count") > 0)
        .sort("call_ns", "key", descending=[True, False])
        .head(_ROWS)
    )
    if rows.is_empty():
        return _nothing()
    first = rows.row(0, named=True)
    title = (
        f"{shorten(clean(first['key']), 44)}: {first['call_count']:,} calls take {duration(first['call_ns'])};"
        f" the GPU idled {duration(first['idle_ns'])} until their work started"
    )
    parts = {
        "call_ns": ("inside the calls", HUES[0]),
        "idle_ns": ("GPU idle until they take effect", HUES[4]),
    }
    return dress(_parts(rows, parts, "time", stacked=False), title)


def diff(frame: pl.DataFrame) -> Any:
    """What makes the steps of B slower or faster than those of A, as a waterfall, from the answer `diff`."""
    named = [name for name in frame.columns[: frame.columns.index("change")] if frame.schema[name] == pl.String]
    rows = frame.with_columns(
        key=pl.concat_str(named, separator=" · ", ignore_nulls=True) if named else pl.lit("step")
    ).filter(pl.col("delta_ns") != 0)
    if rows.is_empty():
        return _nothing("A and B take the same time" if frame["a_ns"].sum() else "No data")
    whole, before = int(rows["delta_ns"].sum()), int(frame["a_ns"].sum())
    ordered = rows.with_columns(size=pl.col("delta_ns").abs()).sort("size", "key", descending=[True, False])
    top, rest = ordered.head(_ROWS), ordered.slice(_ROWS)
    if rest.height:
        others = pl.DataFrame({"key": [f"{rest.height} others"], "delta_ns": [int(rest["delta_ns"].sum())]})
        top = pl.concat([top.select("key", "delta_ns"), others])
    axis = time_axis(max(abs(int(value)) for value in top["delta_ns"]))
    shown = _labelled(top.select("key", "delta_ns"), "key").with_columns(
        stop=pl.col("delta_ns").cum_sum() / axis.size,
        start=(pl.col("delta_ns").cum_sum() - pl.col("delta_ns")) / axis.size,
        said=pl.col("delta_ns").map_elements(delta, return_dtype=pl.String),
        way=pl.when(pl.col("delta_ns") > 0).then(pl.lit("slower")).otherwise(pl.lit("faster")),
    )
    word = "slower" if whole > 0 else "faster"
    share = f" ({percent(100 * abs(whole) / before)})" if before else ""
    title = f"B is {duration(abs(whole))} per step {word} than A{share}" if whole else "A and B take the same time"
    base = alt.Chart(shown).encode(
        y=alt.Y("bar:N", title=None, axis=_NAMES),
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


_NAMES = alt.Axis(labelLimit=320, labelExpr="slice(datum.label, 3)")


def _labelled(rows: pl.DataFrame, name: str) -> pl.DataFrame:
    """Rows with a label that fits, and a key that keeps their order and keeps equal labels apart."""
    labels = [shorten(clean(value), 44) for value in rows[name]]
    return rows.with_columns(
        label=pl.Series(labels, dtype=pl.String),
        bar=pl.Series([f"{at:02d} {label}" for at, label in enumerate(labels)], dtype=pl.String),
    )


def _parts(rows: pl.DataFrame, parts: Mapping[str, tuple[str, str]], what: str, *, stacked: bool = True) -> Any:
    """The times of each `key`, stacked or side by side; `parts` has word and colour for each column of times."""
    whole = rows.select(pl.sum_horizontal(*parts) if stacked else pl.max_horizontal(*parts))
    axis = time_axis(max(whole.to_series()))
    shown = (
        _labelled(rows, "key")
        .unpivot(list(parts), index=["bar", "label"], variable_name="part", value_name="time_ns")
        .with_columns(
            pl.col("part").replace_strict({column: word for column, (word, _) in parts.items()}),
            time=pl.col("time_ns") / axis.size,
            said=_durations("time_ns"),
        )
    )
    words, hues = zip(*parts.values(), strict=True)
    chart = (
        alt.Chart(shown)
        .mark_bar()
        .encode(
            x=alt.X("time:Q", title=axis.title(what), stack=stacked or None),
            y=alt.Y("bar:N", title=None, axis=_NAMES),
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


def _bars(rows: pl.DataFrame, name: str, time: str, what: str, title: str) -> Any:
    total = int(rows[time].sum() or 0)
    if not total:
        return _nothing()
    axis = time_axis(max(rows[time]))
    shown = _labelled(rows.sort(time, name, descending=[True, False]).head(_ROWS), name).select(
        "bar", "label", said=_durations(time), time=pl.col(time) / axis.size, share_pct=100.0 * pl.col(time) / total
    )
    first = shown.row(0, named=True)
    base = alt.Chart(shown).encode(
        y=alt.Y("bar:N", title=None, axis=_NAMES),
        x=alt.X("time:Q", title=axis.title(what)),
        tooltip=["label:N", alt.Tooltip("said:N", title=what), _share("share_pct")],
    )
    drawn = base.mark_bar(color=HUES[0]) + base.mark_text(align="left", dx=3, color=INK).encode(text="said:N")
    return dress(
        drawn.properties(width=WIDTH - 300, height=alt.Step(20)),
        title.format(first["label"], first["said"], percent(first["share_pct"])),
    )
