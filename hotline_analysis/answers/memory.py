"""Memory: bandwidth of copies, what is allocated over time, and what is alive at the peak."""

from __future__ import annotations

import polars as pl

from hotline_analysis.run.trace import Trace
from hotline_analysis.vocabulary import Phase


def memory_bandwidth(
    trace: Trace,
    *,
    rank: int | None = None,
    device: int | None = None,
    step: int | None = None,
    phase: Phase | None = None,
    module: str | None = None,
) -> pl.DataFrame:
    """Bandwidth of copies and memsets over time, by kind: one row per stretch in which something runs.

    `gb_per_s` is in 10^9 bytes per second, NULL where the trace does not say. `step`, `phase` and `module` (a path,
    with the modules in it) are those that launched the copies. See `hotline queries memory_bandwidth` for the columns.
    """
    return trace.query("memory_bandwidth", rank=rank, device=device, step=step, phase=phase, module=module)


def memory_bandwidth_summary(
    trace: Trace,
    *,
    rank: int | None = None,
    device: int | None = None,
    step: int | None = None,
    phase: Phase | None = None,
    module: str | None = None,
) -> pl.DataFrame:
    """Bytes, times and bandwidth of copies and memsets, by kind; mean and median are over time, not over copies.

    `pageable_bytes` are those from or to host memory that is not pinned. See `hotline queries memory_bandwidth_summary`
    for the columns.
    """
    return trace.query("memory_bandwidth_summary", rank=rank, device=device, step=step, phase=phase, module=module)


def memory_timeline(
    trace: Trace,
    *,
    rank: int | None = None,
    device: int | None = None,
    step: int | None = None,
    phase: Phase | None = None,
    module: str | None = None,
) -> pl.DataFrame:
    """Bytes allocated and reserved over time: one row per allocation or release. Device -1 is the CPU.

    `phase` and `module` are those of the thread that allocates or releases. Empty unless the trace was recorded with
    `profile_memory=True`. See `hotline queries memory_timeline` for the columns.
    """
    return trace.query("memory_timeline", rank=rank, device=device, step=step, phase=phase, module=module)


def memory_peak(
    trace: Trace,
    *,
    rank: int | None = None,
    device: int | None = None,
    step: int | None = None,
    phase: Phase | None = None,
    module: str | None = None,
) -> pl.DataFrame:
    """What is allocated at the peak of each device, by category and by the phase and module that allocated it.

    Categories follow from where a block was allocated and released, and `evidence` names the rule; what a trace cannot
    tell is `unknown`. Parameters are older than a trace: only a captured model says how large they are. With `step` it
    is the peak of that step; `phase` and `module` (a path, with the modules in it) leave what they allocated. Without
    those two, the rows of a device add up to `peak_bytes`. Empty unless the trace was recorded with
    `profile_memory=True`. See `hotline queries memory_peak`.
    """
    return trace.query("memory_peak", rank=rank, device=device, step=step, phase=phase, module=module)
