"""Kernels, copies and memsets: how long they take, and how they are launched."""

from __future__ import annotations

from typing import Literal

import polars as pl

from hotline_analysis.run.trace import Trace
from hotline_analysis.vocabulary import Phase

KernelBy = Literal["class", "name", "short_name", "op", "module", "phase", "category"]
KernelClass = Literal["computation", "communication", "memory"]
LaunchBy = Literal["api", "step", "phase", "module", "op"]


def kernel_breakdown(
    trace: Trace,
    n: int | None = None,
    *,
    by: KernelBy = "short_name",
    rank: int | None = None,
    device: int | None = None,
    stream: int | None = None,
    step: int | None = None,
    phase: Phase | None = None,
    module: str | None = None,
    kernel_class: KernelClass | None = None,
) -> pl.DataFrame:
    """GPU work by class, kernel, op, module or phase: count, sum, mean, spread, and the time it kept a device busy.

    One row per rank and key, the `n` largest of each rank, or all. Nothing is put together under "others". Times are
    nanoseconds. See `hotline queries kernel_breakdown`. Raises `QueryParameterError` for an unknown `by` or class.
    """
    scope = {
        "rank": rank,
        "device": device,
        "stream": stream,
        "step": step,
        "phase": phase,
        "module": module,
        "class": kernel_class,
    }
    return trace.query("kernel_breakdown", by=by, limit=n, **scope)


def kernel_duration_distribution(
    trace: Trace,
    n: int | None = None,
    *,
    by: KernelBy = "short_name",
    rank: int | None = None,
    device: int | None = None,
    stream: int | None = None,
    step: int | None = None,
    phase: Phase | None = None,
    module: str | None = None,
    kernel_class: KernelClass | None = None,
) -> pl.DataFrame:
    """Percentiles of the durations of each kernel, class, op or module, and its slowest and fastest rank.

    One row per key over all ranks, the `n` largest, or all. Percentiles are durations that occur, in nanoseconds. See
    `hotline queries kernel_duration_distribution`. Raises `QueryParameterError` for an unknown `by` or class.
    """
    scope = {
        "rank": rank,
        "device": device,
        "stream": stream,
        "step": step,
        "phase": phase,
        "module": module,
        "class": kernel_class,
    }
    return trace.query("kernel_duration_distribution", by=by, limit=n, **scope)


def launch_stats(
    trace: Trace,
    *,
    by: LaunchBy = "api",
    rank: int | None = None,
    step: int | None = None,
    phase: Phase | None = None,
    module: str | None = None,
    runtime_cutoff_ns: int = 50_000,
    delay_cutoff_ns: int = 100_000,
) -> pl.DataFrame:
    """What launching costs, by API, step, phase, module or op: calls, delays, short kernels, outliers, idle time.

    A launch is any call that has work on the GPU, whatever its name. The marks and cutoffs are those of HTA's
    `get_cuda_kernel_launch_stats`; what they cost is the idle time of the device before their work. Times are integer
    nanoseconds. See `hotline queries launch_stats`, and `kernel_launches` for the launches one by one. Raises
    `QueryParameterError` for an unknown `by`.
    """
    cutoffs = {"runtime_cutoff_ns": runtime_cutoff_ns, "delay_cutoff_ns": delay_cutoff_ns}
    return trace.query("launch_stats", by=by, rank=rank, step=step, phase=phase, module=module, **cutoffs)


def kernel_launches(
    trace: Trace,
    n: int | None = None,
    *,
    rank: int | None = None,
    device: int | None = None,
    stream: int | None = None,
    step: int | None = None,
    phase: Phase | None = None,
    module: str | None = None,
    runtime_cutoff_ns: int = 50_000,
    delay_cutoff_ns: int = 100_000,
) -> pl.DataFrame:
    """Each kernel, copy and memset with its launch call, delay, duration and the idle time before it.

    In order of their start, the first `n` or all. What the trace does not link has NULL for its launch. Times are
    integer nanoseconds. See `hotline queries kernel_launches` for the columns.
    """
    cutoffs = {"runtime_cutoff_ns": runtime_cutoff_ns, "delay_cutoff_ns": delay_cutoff_ns}
    scope = {"rank": rank, "device": device, "stream": stream, "step": step, "phase": phase, "module": module}
    return trace.query("kernel_launches", limit=n, **scope, **cutoffs)
