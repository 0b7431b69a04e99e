"""How far the host is ahead of the GPU: launches that wait on each stream."""

from __future__ import annotations

import polars as pl

from hotline_analysis.run.trace import Trace
from hotline_analysis.vocabulary import Phase


def queue_length(
    trace: Trace,
    *,
    rank: int | None = None,
    device: int | None = None,
    stream: int | None = None,
    step: int | None = None,
    phase: Phase | None = None,
) -> pl.DataFrame:
    """The launches that wait on each stream, over time: one row per change. Times are integer nanoseconds.

    A launch waits from the start of its call to the start of its first work on the stream; a graph launch counts once.
    `step` and `phase` restrict to the stretches that begin while they run on the main thread. Empty without GPU work
    whose launch is in the trace. See `hotline queries queue_length` for the columns.
    """
    return trace.query("queue_length", rank=rank, device=device, stream=stream, step=step, phase=phase)


def queue_length_summary(
    trace: Trace,
    *,
    rank: int | None = None,
    device: int | None = None,
    stream: int | None = None,
    step: int | None = None,
    phase: Phase | None = None,
    max_queue_length: int = 1000,
) -> pl.DataFrame:
    """How long the queue of each stream was over time, and how long the host was blocked because it was full.

    Mean, median and 95th percentile are weighted with time. The queue is full from `max_queue_length` launches on:
    NVIDIA's takes about 1,022, which Holistic Trace Analysis's 1,024 misses. `blocked_ns` is measured: what calls into
    a full queue took beyond the median call. See `hotline queries queue_length_summary`.
    """
    return trace.query(
        "queue_length_summary",
        rank=rank,
        device=device,
        stream=stream,
        step=step,
        phase=phase,
        max_queue_length=max_queue_length,
    )
