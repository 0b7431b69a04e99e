"""Device time: computation, communication, copies, and causes of idle time.

Each function takes the frame of the answer with the same name. It returns an Altair chart titled with the finding.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import altair as alt
import polars as pl

from hotline_analysis.charts.parts import (
    MOST_ROWS,
    bars_of,
    durations,
    nothing,
    share_tooltip,
    stacked_bars,
)
from hotline_analysis.charts.theme import HUES, PHASES, WIDTH, dress
from hotline_analysis.text.formats import percent
from hotline_analysis.vocabulary import GAP_CAUSES, UseCause, idle_title, idle_words

_IDLE_HUES: Mapping[UseCause, str] = {
    "load_data": HUES[1],
    "profiler": "#ddcc77",
    "sync": HUES[3],
    "other_ranks": "#332288",
    "other_thread": "#999933",
    "cpu_tensor": "#882255",
    "launching": HUES[4],
    "python": HUES[6],
    "queued": HUES[7],
    "unobserved": "#bbbbbb",
    "unknown": "#dddddd",
}
# Parts of a device's time, work first, then causes of idle time: column of `device_use`, label, colour.
_PARTS = (
    ("computing_ns", "computing", HUES[2]),
    ("communication_ns", "communication", HUES[0]),
    ("copy_ns", "copies", HUES[5]),
    *((f"{cause}_ns", idle_title(cause), hue) for cause, hue in _IDLE_HUES.items()),
)
# Columns of `temporal_breakdown` that add up to the window, with label and colour.
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


def device_use(frame: pl.DataFrame) -> Any:
    """GPU work and causes of idle time, for the run and each phase, from the answer `device_use`."""
    rows = (
        frame.filter(pl.col("scope").is_in(["run", "phase"]))
        .with_columns(
            computing_ns=pl.col("gpu_busy_ns") - pl.col("communication_ns") - pl.col("copy_ns"),
            where=pl.when(pl.col("scope") == "run").then(pl.lit("whole run")).otherwise(pl.col("phase")),
        )
        .group_by("where")
        .agg(pl.col([name for name, _, _ in _PARTS]).sum())
        .unpivot(index="where", variable_name="part", value_name="time_ns")
        .with_columns(
            order=pl.col("part").replace_strict({name: at for at, (name, _, _) in enumerate(_PARTS)}),
            part=pl.col("part").replace_strict({name: word for name, word, _ in _PARTS}),
            share_pct=100.0 * pl.col("time_ns") / pl.col("time_ns").sum().over("where"),
        )
        .filter(pl.col("time_ns") > 0)
        .sort("where", "order")
    )
    run = rows.filter(where="whole run")
    if run.is_empty():
        return nothing()
    busy = float(run.filter(pl.col("order") < 3)["share_pct"].sum())
    idle = run.filter(pl.col("order") >= 3).sort("time_ns", descending=True)
    title = f"The GPU is busy {percent(busy)} of the time"
    if not idle.is_empty():
        title += f"; most of the rest: {idle['part'][0].removeprefix('idle: ')}"
    places = ["whole run", *(name for name in PHASES if name in set(rows["where"]))]
    shown = rows.with_columns(said=durations("time_ns"))
    chart = (
        alt.Chart(shown)
        .mark_bar(stroke="white", strokeWidth=0.5)
        .encode(
            x=alt.X("sum(share_pct):Q", title="share of the device's time, %", scale=alt.Scale(domain=[0, 100])),
            y=alt.Y("where:N", title=None, sort=places),
            color=alt.Color(
                "part:N",
                title=None,
                scale=alt.Scale(domain=[word for _, word, _ in _PARTS], range=[hue for _, _, hue in _PARTS]),
                legend=alt.Legend(orient="bottom", columns=3),
            ),
            order="order:Q",
            tooltip=["where:N", "part:N", alt.Tooltip("said:N", title="time"), share_tooltip("share_pct")],
        )
        .properties(width=WIDTH, height=alt.Step(24))
    )
    return dress(chart, title)


def temporal_breakdown(frame: pl.DataFrame) -> Any:
    """Chart of the answer `temporal_breakdown`: one stacked bar per rank and device, and per step if rows have steps.

    The parts of a bar are computation, communication, copies, their overlaps, and idle time.
    """
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
        return nothing()
    whole = int(rows["time_ns"].sum())
    idle = 100 * int(rows.filter(part="idle")["time_ns"].sum()) / whole
    exposed = 100 * int(rows.filter(pl.col("part").str.starts_with("communication"))["time_ns"].sum()) / whole
    title = f"The GPU idles {percent(idle)} of the time; {percent(exposed)} is communication without computation"
    chart = (
        alt.Chart(rows.with_columns(said=durations("time_ns")))
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
            tooltip=["place:N", "part:N", alt.Tooltip("said:N", title="time"), share_tooltip("share_pct")],
        )
        .properties(width=WIDTH - 80, height=alt.Step(22))
    )
    return dress(chart, title)


def idle_breakdown(frame: pl.DataFrame) -> Any:
    """Idle time of devices by cause, from the answer `idle_breakdown`."""
    words = {cause: idle_words(cause) for cause in GAP_CAUSES}
    rows = (
        frame.group_by(cause=pl.col("cause").replace_strict(words))
        .agg(pl.col("idle_ns", "gap_count").sum())
        .filter(pl.col("idle_ns") > 0)
    )
    return bars_of(rows, "cause", "idle_ns", "idle time", "Most idle time: {}, {} ({})")


def comm_comp_overlap(frame: pl.DataFrame) -> Any:
    """Communication time, overlapped with computation and exposed, from the answer `comm_comp_overlap`."""
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
        .head(MOST_ROWS)
    )
    if rows.is_empty():
        return nothing()
    hidden = 100 * int(rows["overlapped_ns"].sum()) / int(rows["communication_ns"].sum())
    parts = {
        "overlapped_ns": ("beside computation", HUES[5]),
        "exposed_ns": ("alone: the GPU waits for it", HUES[4]),
    }
    return dress(
        stacked_bars(rows, parts, "communication"), f"{percent(hidden)} of the communication runs beside computation"
    )
