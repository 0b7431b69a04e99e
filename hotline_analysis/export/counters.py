"""Queue lengths, bandwidths and memory as counters of a trace file.

Counters belong to a process. Each number in a counter's args is a separate track.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from hotline_analysis.export.lines import CPU_PID, gpu_pid, json_text, lines, microseconds, text
from hotline_analysis.export.tracks import Part
from hotline_analysis.run.trace import Trace


def counters(trace: Trace, rank: int, part: Part | None = None) -> Iterator[pl.Series]:
    """Queue lengths, bandwidths and memory over time, as lines of JSON; for a part, only in its CPU and GPU time."""
    for series in (_queues, _bandwidths, _memory):
        samples = series(trace, rank)
        if part is not None:
            start = pl.col("start_ns")
            samples = samples.filter(start.is_between(*part.cpu) | start.is_between(*part.gpu))
        yield from lines(
            samples,
            text('{"ph":"C","cat":"hotline","pid":'),
            pl.col("pid").cast(pl.String),
            text(',"ts":'),
            microseconds("start_ns"),
            text(',"name":'),
            json_text("name"),
            text(',"args":'),
            pl.col("args").struct.json_encode(),
            text("}"),
        )


def _queues(trace: Trace, rank: int) -> pl.DataFrame:
    return trace.query("queue_length", rank=rank).select(
        "start_ns",
        pid=gpu_pid(),
        name=pl.format("queue length, stream {}", "stream"),
        args=pl.struct(launches="queue_length"),
    )


def _bandwidths(trace: Trace, rank: int) -> pl.DataFrame:
    frame = trace.query("memory_bandwidth", rank=rank).filter(pl.col("gb_per_s").is_not_null())
    # An interval ends at 0 unless the next interval follows immediately.
    ends = frame.join(frame, how="anti", left_on=["device", "kind", "end_ns"], right_on=["device", "kind", "start_ns"])
    columns = ["device", "kind", "start_ns", "gb_per_s"]
    both = pl.concat([frame.select(columns), ends.with_columns(start_ns="end_ns", gb_per_s=0.0).select(columns)])
    return both.sort("device", "kind", "start_ns").select(
        "start_ns",
        pid=gpu_pid(),
        name=pl.format("bandwidth, {}", "kind"),
        args=pl.struct(pl.col("gb_per_s").alias("GB/s")),
    )


def _memory(trace: Trace, rank: int) -> pl.DataFrame:
    return trace.query("memory_timeline", rank=rank).select(
        "start_ns",
        pid=pl.when(pl.col("device_type") == "cpu").then(CPU_PID).otherwise(gpu_pid()),
        name=pl.format("memory, {}", "device_type"),
        args=pl.struct(allocated="allocated_bytes", reserved=pl.col("reserved_bytes").fill_null(0)),
    )
