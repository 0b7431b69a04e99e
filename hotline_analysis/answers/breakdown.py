"""Where the time goes: by step, phase, module, op and kernel, and what the annotation covers."""

from __future__ import annotations

from typing import Literal

import polars as pl

from hotline_analysis.errors import QueryParameterError
from hotline_analysis.run.trace import Trace
from hotline_analysis.vocabulary import Phase

By = Literal["op", "kernel", "module", "module_type"]
Sort = Literal["gpu_self", "gpu_total", "cpu_self", "cpu_total"]


def steps(trace: Trace, *, rank: int | None = None) -> pl.DataFrame:
    """Each training step: duration, GPU work it launched, GPU busy and idle time. One row per rank and step.

    See `hotline queries steps` for the columns; all times are integer nanoseconds.
    """
    return trace.query("steps", rank=rank)


def phases(trace: Trace, *, rank: int | None = None, step: int | None = None) -> pl.DataFrame:
    """Each phase (load_data, forward, …): time on the main CPU thread and GPU work launched in it, over all steps.

    See `hotline queries phases` for the columns.
    """
    return trace.query("phases", rank=rank, step=step)


def modules(trace: Trace, *, rank: int | None = None, step: int | None = None) -> pl.DataFrame:
    """The model as a tree: each module's own and total time per pass, on the CPU and on the GPU.

    Empty if the trace has no `nn.Module` frames. See `hotline queries modules` for the columns.
    """
    return trace.query("modules", rank=rank, step=step)


def coverage(trace: Trace, *, rank: int | None = None) -> pl.DataFrame:
    """Where all GPU time in the file counts to: modules and named buckets. The shares add up to 100 %.

    Empty without GPU work. See `hotline queries coverage` for the columns.
    """
    return trace.query("coverage", rank=rank)


def doubtful_modules(trace: Trace, *, rank: int | None = None) -> pl.DataFrame:
    """Modules of a given model that were placed on the ops with doubt, or could not be placed, and the time in doubt.

    Empty where nothing is in doubt, and where the trace has `nn.Module` frames. See `hotline queries doubtful_modules`
    for the columns; times are integer nanoseconds.
    """
    return trace.query("doubtful_modules", rank=rank)


def slowest_ops(
    trace: Trace,
    n: int = 10,
    *,
    by: By = "op",
    sort: Sort | None = None,
    rank: int | None = None,
    step: int | None = None,
    phase: Phase | None = None,
    module: str | None = None,
) -> pl.DataFrame:
    """The `n` ops, kernels, modules or classes of modules that take the most time.

    `sort` is gpu_self, gpu_total, cpu_self or cpu_total; by default GPU self time if the trace has GPU work, else CPU
    self time. Kernels have GPU time only, so `sort` does not apply to them. `module` is a path and takes the modules in
    it, too. Modules count all passes together, and cannot be restricted to a phase or module; nor can their classes
    (`by="module_type"`), which put equal layers together. `hotline queries slowest_ops`,
    slowest_kernels and slowest_modules, tells the columns. Raises `QueryParameterError` for an unknown `by` or `sort`.
    """
    order = sort or ("gpu_self" if has_gpu_work(trace, rank=rank) else "cpu_self")
    if by == "op":
        return trace.query("slowest_ops", sort=order, limit=n, rank=rank, step=step, phase=phase, module=module)
    if by == "kernel":
        return trace.query("slowest_kernels", limit=n, rank=rank, step=step, phase=phase, module=module)
    if by not in ("module", "module_type"):
        raise QueryParameterError(f"by must be op, kernel, module or module_type, not {by!r}")
    if phase is not None or module is not None:
        what = "a phase" if phase is not None else "one of them"
        raise QueryParameterError(f"modules cannot be restricted to {what}", hint="Use modules(), which has passes.")
    each = "type" if by == "module_type" else "path"
    return trace.query("slowest_modules", by=each, sort=order, limit=n, rank=rank, step=step)


def slowest_sources(
    trace: Trace,
    n: int = 10,
    *,
    sort: Literal["gpu_self", "cpu_self"] | None = None,
    rank: int | None = None,
    step: int | None = None,
) -> pl.DataFrame:
    """The `n` places in the code whose modules take the most time, with the time of modules of unknown place.

    `sort` is gpu_self or cpu_self; by default GPU time if the trace has GPU work. Places are known from a capture or
    from python stacks. See `hotline queries slowest_sources` for the columns. Raises `QueryParameterError` for an
    unknown `sort`.
    """
    order = sort or ("gpu_self" if has_gpu_work(trace, rank=rank) else "cpu_self")
    return trace.query("slowest_sources", sort=order, limit=n, rank=rank, step=step)


def has_gpu_work(trace: Trace, *, rank: int | None = None) -> bool:
    """Whether the trace holds any kernel, copy or memset that takes time."""
    found = trace.sql(
        "select exists (select 1 from launch where busy_ns > 0 and ($rank is null or rank = $rank)) as found", rank=rank
    )
    return bool(found["found"][0])
