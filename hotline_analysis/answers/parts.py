"""What the time of a step is made of, on the GPU and on the CPU, part by part and to the last nanosecond."""

from __future__ import annotations

import polars as pl

from hotline_analysis.run.trace import Trace
from hotline_analysis.vocabulary import Phase


def gpu_parts(
    trace: Trace,
    *,
    rank: int | None = None,
    device: int | None = None,
    step: int | None = None,
    phase: Phase | None = None,
    module: str | None = None,
) -> pl.DataFrame:
    """What each step's GPU time is made of: work by class, phase, module, region, op and kernel, and idle time.

    Times are integer nanoseconds and add up to the observed time of the devices; work that overlaps counts once, to
    computation before communication before memory. A NULL step is work that no step launched. Empty without GPU work.
    See `hotline queries gpu_parts` for the columns.
    """
    return trace.query("gpu_parts", rank=rank, device=device, step=step, phase=phase, module=module)


def cpu_parts(
    trace: Trace,
    *,
    rank: int | None = None,
    step: int | None = None,
    phase: Phase | None = None,
    module: str | None = None,
) -> pl.DataFrame:
    """What each step's time on the main CPU thread is made of: ops, and the time outside them.

    Times are integer nanoseconds and add up to the durations of the steps. See `hotline queries cpu_parts` for the
    columns.
    """
    return trace.query("cpu_parts", rank=rank, step=step, phase=phase, module=module)
