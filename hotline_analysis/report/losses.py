"""The report's section on lost GPU time: what the device waits for or does instead of computing, and what would help.

Shares are of the device's observed time, and what is below 5 % of it is not said. That is where TraceLens's agent
starts to speak of exposed communication and of copies, and torch-tb-profiler of data loading.
"""

from __future__ import annotations

import polars as pl

from hotline_analysis.analyze.device_time import comm_comp_overlap, idle_breakdown, temporal_breakdown
from hotline_analysis.analyze.kernels import launch_stats
from hotline_analysis.humane import duration, percent
from hotline_analysis.report.model import Field, Section
from hotline_analysis.trace import Trace

_SPEAK_PCT = 5.0

_IDLE = {
    "host": "idle: the host had not launched the next work",
    "synchronise": "idle: the host was in a synchronise",
    "kernel": "idle: gaps between kernels that wait in the queue",
    "communication": "idle: work waits for communication",
    "other": "idle: launched work waits for something else",
    "unknown": "idle: before work whose launch is not in the trace",
}
_COMMUNICATION = "communication without computation"
_COPIES = "copies and memsets alone"

# What a verdict of `gpu_or_cpu_bound` says in general, its remedy here says with figures.
SAID_BY = {"communication-bound": _COMMUNICATION, "copy-bound": _COPIES, "launch-bound": _IDLE["host"]}


def losses_section(trace: Trace, rank: int) -> tuple[Section | None, dict[str, str]]:
    """Lost time by cause, the largest first, and the remedies that are known, by cause in the same order."""
    time = temporal_breakdown(trace, rank=rank)
    window = int(time["window_ns"].sum())
    if not window:
        return None, {}
    idle = idle_breakdown(trace, rank=rank).group_by("cause").agg(pl.col("idle_ns").sum())
    lost = {_IDLE[cause]: total for cause, total in idle.rows()}
    lost[_COMMUNICATION] = int((time["communication_only_ns"] + time["communication_memory_ns"]).sum())
    lost[_COPIES] = int(time["memory_only_ns"].sum())
    told = {what: total for what, total in lost.items() if 100 * total >= _SPEAK_PCT * window}
    if not told:
        return None, {}
    rows = pl.DataFrame(
        [(what, total, 100 * total / window) for what, total in told.items()],
        {"loss": pl.String, "lost_ns": pl.Int64, "lost_pct": pl.Float64},
        orient="row",
    ).sort("lost_ns", "loss", descending=[True, False])
    section = Section(
        "losses",
        "Where GPU time is lost",
        f"From {_SPEAK_PCT:.0f} % of the observed time on. `idle_gaps` lists the gaps one by one.",
        [Field("loss", "the GPU", "name"), Field("lost_ns", "time", "time"), Field("lost_pct", "share", "share")],
        rows,
    )
    remedies = {what: _remedy(trace, rank, what, window) for what in rows["loss"]}
    return section, {what: text for what, text in remedies.items() if text}


def _remedy(trace: Trace, rank: int, what: str, window: int) -> str:
    if what == _COMMUNICATION:
        overlap = comm_comp_overlap(trace, rank=rank)
        exposed, hideable = int(overlap["exposed_ns"].sum()), int(overlap["hideable_ns"].sum())
        return (
            f"{duration(exposed)} of communication run without computation; at most {duration(hideable)} of it fit"
            " beside computation that now runs alone. Start it earlier (DDP's bucket size, FSDP's prefetch), send"
            " less (lower precision, accumulated gradients), and look for a rank that comes late."
        )
    if what == _COPIES:
        return (
            "Copies keep the GPU from computing: copy from pinned memory with non_blocking=True while the last batch is"
            " computed, and keep on the device what is used again."
        )
    if what == _IDLE["host"]:
        short = launch_stats(trace, by="step", rank=rank).select(
            pl.col("short_idle_ns", "short_count").sum(), pl.col("call_count").sum()
        )
        waited, count, calls = short.row(0)
        if 100 * waited < _SPEAK_PCT * window:
            return ""
        return (
            f"{count:,} of {calls:,} launches take longer than the work they launch, and the GPU is idle for"
            f" {duration(waited)} ({percent(100 * waited / window)}) before it: fuse such ops (torch.compile, foreach"
            " optimizers), replay them as a CUDA graph, or give them more to do (a larger batch)."
        )
    return ""
