"""Sections present in few traces: memory at the peak, activation checkpointing, and a full launch queue."""

from __future__ import annotations

import polars as pl

from hotline_analysis.answers import generated as answers
from hotline_analysis.reports.content import Field, Section
from hotline_analysis.run.trace import Trace
from hotline_analysis.text.formats import duration, module_name, percent, safe, size

_ROWS = 8
_BLOCKED_PCT = 1.0  # minimum share of the observed time for a section


def memory_peak(trace: Trace, rank: int) -> Section | None:
    """The live memory at the peak of the device with the largest peak; None without memory events."""
    peak = answers.memory_peak(trace, rank=rank)
    if peak.is_empty():
        return None
    # Prefer GPUs: GPU memory runs out first.
    on_gpu = peak.filter(pl.col("device_type") != "cpu")
    rows = (on_gpu if not on_gpu.is_empty() else peak).sort("peak_bytes", descending=True, maintain_order=True)
    first = rows.row(0, named=True)
    alive = rows.filter(pl.col("device_type") == first["device_type"], pl.col("device").eq_missing(first["device"]))
    place = "the CPU" if first["device_type"] == "cpu" else f"device {first['device']}"
    reserved = f", of {size(first['reserved_bytes'])} reserved" if first["reserved_bytes"] else ""
    step = f" in step {first['peak_step']}" if first["peak_step"] is not None else ""
    # Sum modules by category and phase, and name the module with the most bytes.
    grouped = alive.group_by("category", "phase", maintain_order=True).agg(
        pl.col("bytes").sum(),
        pl.col("bytes_pct").sum(),
        pl.when(pl.col("block_count").null_count() == 0).then(pl.col("block_count").sum()).alias("block_count"),
        pl.col("module_path").sort_by("bytes", descending=True).first(),
    )
    shown = grouped.sort("bytes", descending=True, maintain_order=True).head(_ROWS)
    remedy = {
        "activation": "Activations: activation checkpointing (`recompute`), a smaller batch or lower precision.",
        "gradient": "Gradients: shard them, or zero_grad(set_to_none=True) before the forward pass.",
        "optimizer_state": "Optimizer states: shard them, or use an optimizer with less state.",
        "input": "Inputs: a smaller batch, or release them after the forward pass.",
    }
    told = alive.filter(pl.col("category").is_in(list(remedy))).group_by("category").agg(pl.col("bytes").sum())
    advice = f" {remedy[told.sort('bytes', 'category')['category'][-1]]}" if not told.is_empty() else ""
    return Section(
        "memory_peak",
        "Memory at its peak",
        f"{size(first['peak_bytes'])} allocated on {place}{step}{reserved}. Categories follow from where memory was"
        f" allocated and released. Unknown: memory that is older than the trace, such as parameters.{advice}",
        [
            Field("category", "category", "name"),
            Field("phase", "allocated in", "name"),
            Field("size", "alive", "name"),
            Field("bytes_pct", "share", "share"),
            Field("block_count", "blocks", "count"),
            Field("module", "most of it by", "name"),
        ],
        shown.with_columns(
            pl.Series("size", [size(value) for value in shown["bytes"]], pl.String),
            pl.Series("module", [path and module_name(path) for path in shown["module_path"]], pl.String),
        ),
    )


def recomputation(trace: Trace, rank: int) -> Section | None:
    """The modules with most memory saved per forward time if recomputed; None if no module would save memory."""
    rows = answers.recompute(trace, rank=rank, limit=_ROWS)
    if rows.is_empty():
        return None
    first = rows.row(0, named=True)
    return Section(
        "recompute",
        "Activation checkpointing",
        f"{module_name(first['module_path'])} keeps {size(first['net_bytes'])} per step for backward, the most for each"
        f" millisecond of its forward pass ({duration(first['forward_ns'] or 0)}). `hotline whatif TRACE checkpoint"
        f" -p modules={safe(first['module_path'])}` predicts step time and peak memory if it is computed again.",
        [
            Field("module", "module", "name"),
            Field("size", "saved beyond its output", "name"),
            Field("time", "forward", "name"),
            Field("has_matrix_op", "matrix products", "name"),
            Field("is_random", "random numbers", "name"),
        ],
        rows.select(
            pl.Series("module", [module_name(path) for path in rows["module_path"]], pl.String),
            pl.Series("size", [size(value) for value in rows["net_bytes"]], pl.String),
            pl.Series("time", [duration(value or 0) for value in rows["forward_ns"]], pl.String),
            pl.when("has_matrix_op").then(pl.lit("yes")).otherwise(pl.lit("no")).alias("has_matrix_op"),
            pl.when("is_random").then(pl.lit("yes")).otherwise(pl.lit("no")).alias("is_random"),
        ),
    )


def full_queue(trace: Trace, rank: int) -> Section | None:
    """Streams with launches blocked by a full queue; None if blocked for under 1 % of the observed time."""
    rows = answers.queue_length_summary(trace, rank=rank).filter(
        100.0 * pl.col("blocked_ns") >= _BLOCKED_PCT * pl.col("observed_ns"), pl.col("blocked_ns") > 0
    )
    if rows.is_empty():
        return None
    blocked, observed = int(rows["blocked_ns"].sum()), int(rows["observed_ns"].max())  # type: ignore[arg-type]
    return Section(
        "full_queue",
        "Launches that wait for room in the queue",
        f"The host waited {duration(blocked)} ({percent(100 * blocked / observed)} of the time) in launch calls"
        " because about 1,000 launches were waiting. The GPU is the limit, so this costs nothing by itself; what the"
        " host does after those launches (reading losses, loading data, communication) starts late. Do it before them,"
        " or on another thread.",
        [
            Field("stream", "stream", "count"),
            Field("launch_count", "launches", "count"),
            Field("max_length", "longest queue", "count"),
            Field("full_ns", "full for", "time"),
            Field("full_launch_count", "launches then", "count"),
            Field("blocked_ns", "host waited", "time"),
        ],
        rows.sort("blocked_ns", "stream", descending=[True, False]).head(_ROWS),
    )
