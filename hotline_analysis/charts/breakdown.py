"""Where the time goes: charts of steps, phases, modules, and the slowest ops, kernels and modules.

Each function takes the frame of the answer with the same name. It returns an Altair chart titled with the finding.
"""

from __future__ import annotations

from typing import Any, Literal

import altair as alt
import polars as pl

from hotline_analysis.charts.page import clean
from hotline_analysis.charts.parts import (
    at_most,
    durations,
    in_words,
    nothing,
    share_tooltip,
)
from hotline_analysis.charts.theme import HUES, INK, PHASES, WIDTH, dress, time_axis
from hotline_analysis.errors import QueryParameterError
from hotline_analysis.text.formats import duration, module_name, percent, shared_path, shorten


def phases(frame: pl.DataFrame) -> Any:
    """Time of each phase: main thread, GPU work and GPU waiting, from the answer `phases`."""
    rows = (
        frame.group_by("phase")
        .agg(pl.col("cpu_ns", "gpu_time_ns", "gpu_idle_ns").sum())
        .unpivot(index="phase", variable_name="what", value_name="time_ns")
        .with_columns(
            pl.col("what").replace_strict(
                {"cpu_ns": "CPU, main thread", "gpu_time_ns": "GPU work", "gpu_idle_ns": "GPU waiting"}
            ),
            share_pct=100.0 * pl.col("time_ns") / pl.col("time_ns").sum().over("what"),
            order=pl.col("phase").replace_strict({name: at for at, name in enumerate(PHASES)}, default=len(PHASES)),
        )
        .filter(pl.col("time_ns") > 0)
        .sort("what", "order")
    )
    if rows.is_empty():
        return nothing()
    top = rows.filter(pl.col("what").is_in(["GPU work", "CPU, main thread"])).sort("what", "time_ns").reverse()
    first = top.row(0, named=True)
    title = f"{in_words(first['phase'])} takes {percent(first['share_pct'])} of the time of the {first['what']}"
    axis = time_axis(int(rows.group_by("what").agg(pl.col("time_ns").sum())["time_ns"].max()))  # type: ignore[arg-type]
    rows = rows.with_columns(time=pl.col("time_ns") / axis.size, said=durations("time_ns"))
    chart = (
        alt.Chart(rows)
        .mark_bar(stroke="white", strokeWidth=0.5)
        .encode(
            x=alt.X("sum(time):Q", title=axis.title("time")),
            y=alt.Y("what:N", title=None, sort=["CPU, main thread", "GPU work", "GPU waiting"]),
            color=alt.Color(
                "phase:N",
                title="phase",
                scale=alt.Scale(domain=list(PHASES), range=list(PHASES.values())),
                legend=alt.Legend(orient="bottom", columns=7),
            ),
            order="order:Q",
            tooltip=["phase:N", "what:N", alt.Tooltip("said:N", title="time"), share_tooltip("share_pct")],
        )
        .properties(width=WIDTH, height=90)
    )
    return dress(chart, title)


def steps(frame: pl.DataFrame) -> Any:
    """Duration and GPU busy time of each step, from the answer `steps`."""
    one = frame if "rank" in frame.columns else frame.with_columns(rank=pl.lit(0))
    rows = one.filter(pl.col("step").is_not_null()).sort("rank", "step")
    if rows.is_empty():
        return nothing()
    lengths = rows["dur_ns"]
    axis = time_axis(max(lengths))
    middle = float(lengths.median() or 0)  # type: ignore[arg-type]
    slow = rows.filter(pl.col("dur_ns") > 1.2 * middle)
    title = (
        f"{rows.height} steps of {duration(min(lengths))} to {duration(max(lengths))}"
        if rows.height > 1
        else "One step"
    )
    if slow.height and rows.height > 2:
        title += f"; {slow.height} over 1.2 times the median"
    shown = at_most(rows, 500, "dur_ns").select(
        rank="rank",
        step="step",
        time=pl.col("dur_ns") / axis.size,
        busy=pl.col("gpu_busy_ns") / axis.size,
    )
    base = alt.Chart(shown).encode(x=alt.X("step:O", title="step", axis=alt.Axis(labelOverlap=True, labelAngle=0)))
    ranks = shown["rank"].n_unique()
    # There are not enough distinct hues for many ranks.
    hue = alt.Color("rank:Q", scale=alt.Scale(scheme="viridis"))
    if ranks <= len(HUES):
        hue = alt.Color("rank:O", scale=alt.Scale(range=list(HUES)), legend=None if ranks == 1 else alt.Legend())
    bars = base.mark_bar(opacity=0.85).encode(
        y=alt.Y("time:Q", title=axis.title("time")),
        xOffset="rank:O",
        color=hue,
        tooltip=[
            "rank:O",
            "step:O",
            alt.Tooltip("time:Q", title=axis.title("duration"), format=".3f"),
            alt.Tooltip("busy:Q", title=axis.title("GPU busy"), format=".3f"),
        ],
    )
    ticks = base.mark_tick(color=INK, thickness=2).encode(y="busy:Q", xOffset="rank:O")
    drawn = bars + ticks if float(shown["busy"].sum() or 0) > 0 else bars
    note = "bars: duration; lines: time the GPU was busy with it" if float(shown["busy"].sum() or 0) > 0 else ""
    return dress(drawn.properties(width=WIDTH, height=140), title, note)


def modules(frame: pl.DataFrame, side: Literal["gpu", "cpu"] = "gpu") -> Any:
    """Icicle of the model, one for each pass, with submodules under their module, from the answer `modules`.

    Widths are GPU time, or CPU time with `side="cpu"` and for a frame without GPU time. A gap under a module is the
    module's self time. Raises `QueryParameterError` for another `side`.
    """
    if side not in ("gpu", "cpu"):
        raise QueryParameterError(f"side must be gpu or cpu, not {side!r}")
    on = side if (frame[f"{side}_total_ns"].sum() or 0) > 0 else "cpu"
    # In pre-order, a module starts after the summed self times of all earlier modules.
    rows = (
        frame.filter(pl.col(f"{on}_total_ns") > 0)
        .group_by("pass", "module_id", maintain_order=True)
        .agg(pl.first("path", "type", "depth"), pl.col(f"{on}_self_ns", f"{on}_total_ns").sum())
        .sort("pass", "module_id")
        .with_columns(start_ns=pl.col(f"{on}_self_ns").cum_sum().over("pass") - pl.col(f"{on}_self_ns"))
    )
    if rows.is_empty():
        return nothing()
    whole = rows.group_by("pass").agg(pl.col(f"{on}_self_ns").sum())
    rows = at_most(rows, 2000, f"{on}_total_ns")
    axis = time_axis(max(whole[f"{on}_self_ns"]))
    leaf = rows.sort(f"{on}_self_ns", descending=True).row(0, named=True)
    shown = rows.select(
        "pass",
        "depth",
        path=pl.col("path").map_elements(clean, return_dtype=pl.String),
        type=pl.col("type").map_elements(clean, return_dtype=pl.String),
        start=pl.col("start_ns") / axis.size,
        stop=(pl.col("start_ns") + pl.col(f"{on}_total_ns")) / axis.size,
        own=pl.col(f"{on}_self_ns").map_elements(duration, return_dtype=pl.String),
        total=pl.col(f"{on}_total_ns").map_elements(duration, return_dtype=pl.String),
        below=pl.col("depth") + 1,
    )
    chart = (
        alt.Chart(shown)
        .mark_rect(stroke="white", strokeWidth=0.5)
        .encode(
            x=alt.X("start:Q", title=axis.title(f"{on.upper()} time")),
            x2="stop:Q",
            y=alt.Y("depth:Q", title=None, scale=alt.Scale(reverse=True, nice=False), axis=None),
            y2="below:Q",
            color=alt.Color(
                "type:N",
                title="type",
                scale=alt.Scale(range=list(HUES)),
                legend=alt.Legend(orient="bottom", columns=6, symbolLimit=12),
            ),
            tooltip=["path:N", "type:N", "pass:N", alt.Tooltip("own:N", title="of its own"), "total:N"],
        )
        .properties(width=WIDTH, height=110)
        .facet(row=alt.Row("pass:N", title=None, sort=["forward", "recompute", "backward"]))
        .resolve_scale(x="shared")
    )
    longest = clean(module_name(leaf["path"], leaf["type"]))
    title = f"{longest} has most time of its own: {duration(leaf[f'{on}_self_ns'])} in the {leaf['pass']} pass"
    return dress(chart, title)


def slowest_ops(frame: pl.DataFrame) -> Any:
    """The slowest ops with their share, from the answer `slowest_ops`."""
    return _slowest(frame)


def slowest_kernels(frame: pl.DataFrame) -> Any:
    """The slowest kernels, copies and memsets with their share, from the answer `slowest_kernels`."""
    return _slowest(frame)


def slowest_modules(frame: pl.DataFrame) -> Any:
    """The slowest modules, or module types, with their share, from the answer `slowest_modules`."""
    return _slowest(frame)


def _slowest(frame: pl.DataFrame) -> Any:
    """Bars of GPU or CPU self time by op, kernel, module or module type."""
    names = ("path", "key", "short_name", "name", "type")
    name = next((column for column in names if column in frame.columns and frame[column].null_count() == 0), None)
    time = next(
        (
            column
            for column in ("gpu_self_ns", "gpu_time_ns", "cpu_self_ns")
            if column in frame.columns and (frame[column].sum() or 0) > 0
        ),
        None,
    )
    if name is None or time is None:
        return nothing()
    side = "CPU" if time.startswith("cpu") else "GPU"
    share = time.replace("_ns", "_pct")
    axis = time_axis(max(frame[time]))
    chosen = frame.sort(time, descending=True).head(20)
    kinds = chosen["type"] if name == "path" else [None] * chosen.height
    shared = shared_path(chosen[name].to_list()) if name == "path" else ""
    labels = [
        shorten(clean(module_name(text.removeprefix(shared), kind)), 44)
        for text, kind in zip(chosen[name], kinds, strict=True)
    ]
    rows = chosen.with_columns(label=pl.Series(labels, dtype=pl.String)).select(
        "label",
        said=durations(time),
        time=pl.col(time) / axis.size,
        share_pct=share,
        # The number keeps names apart that have the same shortened label.
        bar=pl.int_range(pl.len()).cast(pl.String).str.zfill(2) + " " + pl.col("label"),
    )
    first = rows.row(0, named=True)
    longest = shorten(first["label"], 36)
    title = f"{longest} takes {first['said']} of {side} time of its own, {percent(first['share_pct'])}"
    base = alt.Chart(rows).encode(
        y=alt.Y("bar:N", title=None, axis=alt.Axis(labelLimit=320, labelExpr="slice(datum.label, 3)")),
        x=alt.X("time:Q", title=axis.title(f"{side} time of its own")),
        tooltip=[alt.Tooltip("label:N", title="name"), alt.Tooltip("said:N", title="time"), share_tooltip("share_pct")],
    )
    bars = base.mark_bar(color=HUES[0])
    said = base.mark_text(align="left", dx=3, color=INK).encode(text="said:N")
    return dress((bars + said).properties(width=WIDTH - 300, height=alt.Step(20)), title)
