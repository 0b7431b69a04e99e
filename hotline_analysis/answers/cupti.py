"""Hardware counters that the profiler measured per kernel."""

from __future__ import annotations

import polars as pl

from hotline_analysis.run.trace import Trace
from hotline_analysis.vocabulary import Phase


def cupti_counters(
    trace: Trace,
    *,
    rank: int | None = None,
    step: int | None = None,
    phase: Phase | None = None,
    module: str | None = None,
) -> pl.DataFrame:
    """Every hardware counter of every profiled kernel, with the op and module that launched it. One row per value.

    The profiler does not say which launch a kernel belongs to; `evidence` says how it was found, and is NULL where it
    was not. `module` is a path and includes the modules in it. Empty unless the trace was recorded with
    `profiler_metrics`. See `hotline queries cupti_counters` for the columns.
    """
    return trace.query("cupti_counters", rank=rank, step=step, phase=phase, module=module)


def cupti_flops(
    trace: Trace,
    *,
    rank: int | None = None,
    step: int | None = None,
    phase: Phase | None = None,
    module: str | None = None,
) -> pl.DataFrame:
    """Floating-point operations that the hardware counted, by op and module, and the rate where durations are known.

    Only what the counters hold: tensor cores are not among the counters of executed instructions. Empty without such
    counters. See `hotline queries cupti_flops` for the columns.
    """
    return trace.query("cupti_flops", rank=rank, step=step, phase=phase, module=module)
