"""What the devices do with the time: compute, communicate, move memory, wait."""

from __future__ import annotations

from typing import Literal

import polars as pl

from hotline_analysis.run.trace import Trace
from hotline_analysis.vocabulary import Phase

Window = Literal["run", "step"]
OverlapBy = Literal["rank", "step", "phase", "module", "collective", "event"]
IdleBy = Literal["device", "stream"]
Cause = Literal["host", "synchronise", "communication", "kernel", "other", "unknown"]
IdleCause = Literal["load_data", "sync", "cpu_tensor", "op", "python"]

_ALL = 2**62


def temporal_breakdown(
    trace: Trace,
    *,
    by: Window = "run",
    rank: int | None = None,
    device: int | None = None,
    step: int | None = None,
) -> pl.DataFrame:
    """Idle, computation, communication and memory time of each device, alone and together.

    One row per rank and device, and per step with `by="step"`. The window is wall time, so in a step the GPU may still
    run work of the one before. The eight parts from `idle_ns` to `all_three_ns` are exclusive and add up to
    `window_ns`; all times are integer nanoseconds. HTA's `get_temporal_breakdown` leaves out `edge_ns`. A trace without
    GPU work has no rows. See `hotline queries temporal_breakdown` for the columns. Raises `QueryParameterError` for an
    unknown `by`.
    """
    return trace.query("temporal_breakdown", by=by, rank=rank, device=device, step=step)


def step_time_breakdown(trace: Trace, *, rank: int | None = None, step: int | None = None) -> pl.DataFrame:
    """Each step's wall time by what happened, the first of: kernel, copy, communication, runtime, data, CPU op, other.

    The parts add up to `wall_ns`, in integer nanoseconds. The priority is that of the step time breakdown in PyTorch's
    TensorBoard plugin. See `hotline queries step_time_breakdown` for the columns.
    """
    return trace.query("step_time_breakdown", rank=rank, step=step)


def comm_comp_overlap(
    trace: Trace,
    *,
    by: OverlapBy = "rank",
    rank: int | None = None,
    device: int | None = None,
    step: int | None = None,
    phase: Phase | None = None,
    module: str | None = None,
) -> pl.DataFrame:
    """How much communication runs beside computation, how much is exposed, and how much of that could be hidden.

    One row per rank and device, or also per step, phase, module, collective (by short name) or event. Communication
    counts to the step, phase and module that launched it; the rows of every grouping add up. `overlap_pct` of the rank
    is HTA's `get_comm_comp_overlap`. Times are integer nanoseconds. A trace without communication has no rows. See
    `hotline queries comm_comp_overlap`. Raises `QueryParameterError` for an unknown `by`.
    """
    return trace.query("comm_comp_overlap", by=by, rank=rank, device=device, step=step, phase=phase, module=module)


def device_use(trace: Trace, *, rank: int | None = None) -> pl.DataFrame:
    """How busy the GPU is in the run, in each step and in each phase, and why it has no work the rest of the time.

    Times are integer nanoseconds. The header of the query `device_use` has the columns and the causes.
    """
    return trace.query("device_use", rank=rank)


def idle_events(
    trace: Trace,
    n: int | None = 20,
    *,
    cause: IdleCause | None = None,
    rank: int | None = None,
    step: int | None = None,
) -> pl.DataFrame:
    """What the CPU does while the GPU has no work, by short name, most time first: `n` names of each cause.

    With `n=None` all of them. Times are integer nanoseconds. The header of the query `idle_events` has the columns.
    """
    limit = 2**63 - 1 if n is None else n
    return trace.query("idle_events", cause=cause, rank=rank, step=step, limit=limit)


def idle_breakdown(
    trace: Trace,
    *,
    by: IdleBy = "device",
    rank: int | None = None,
    device: int | None = None,
    stream: int | None = None,
    step: int | None = None,
    phase: Phase | None = None,
    module: str | None = None,
    micro_ns: int = 10_000,
) -> pl.DataFrame:
    """What each device, or with `by="stream"` each stream, waits for when it has no work.

    One row per cause: host, synchronise, communication, kernel, other or unknown. Gaps shorter than `micro_ns` are
    counted as micro gaps, too. Gaps count to the step and phase of the work that ends them. With a `stream`, its own
    gaps. Times are integer nanoseconds. See `hotline queries idle_breakdown`, and `idle_gaps` for the gaps one by one.
    Raises `QueryParameterError` for an unknown `by`.
    """
    scope = {"rank": rank, "device": device, "stream": stream, "step": step, "phase": phase, "module": module}
    return trace.query("idle_breakdown", by=by, micro_ns=micro_ns, **scope)


def idle_gaps(
    trace: Trace,
    n: int | None = 20,
    *,
    by: IdleBy = "device",
    rank: int | None = None,
    device: int | None = None,
    stream: int | None = None,
    step: int | None = None,
    phase: Phase | None = None,
    module: str | None = None,
    cause: Cause | None = None,
) -> pl.DataFrame:
    """The `n` longest times without work: their cause, the work that ends each, and what the CPU did meanwhile.

    With `n=None` all of them; with a `stream`, its own gaps. `module` is a path and takes the modules in it, too. The
    CPU's event, its own time in the gap and the user's line of python are those of the thread that launched the work
    that ends the gap; NULL when the trace does not show them. Times are integer nanoseconds. See `hotline queries
    idle_gaps`. Raises `QueryParameterError` for an unknown `by` or `cause`.
    """
    limit = _ALL if n is None else n
    scope = {"rank": rank, "device": device, "stream": stream, "step": step, "phase": phase, "module": module}
    return trace.query("idle_gaps", by=by, cause=cause, limit=limit, **scope)
