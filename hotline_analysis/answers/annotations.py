"""Ranges that the code names (`record_function`), compiled code, and the way from an op to the start of its work."""

from __future__ import annotations

import polars as pl

from hotline_analysis.run.trace import Trace
from hotline_analysis.vocabulary import Phase


def user_annotations(
    trace: Trace,
    *,
    rank: int | None = None,
    step: int | None = None,
    phase: Phase | None = None,
    module: str | None = None,
    annotation: str | None = None,
) -> pl.DataFrame:
    """Time of the annotations by name, on the CPU and on the GPU, with (`total`) and without (`self`) inner ones.

    `gpu_total_ns` and `gpu_self_ns` are the durations of the GPU work that was launched inside. Rows with `side` gpu
    are the spans that the profiler itself draws on the streams, as in Holistic Trace Analysis. `annotation` restricts
    to names that contain it; `module` is a path and includes the modules in it. See `hotline queries user_annotations`
    for the columns.
    """
    return trace.query("user_annotations", rank=rank, step=step, phase=phase, module=module, annotation=annotation)


def annotation_kernels(
    trace: Trace,
    *,
    rank: int | None = None,
    device: int | None = None,
    step: int | None = None,
    phase: Phase | None = None,
    module: str | None = None,
    annotation: str | None = None,
) -> pl.DataFrame:
    """Every kernel, copy and memset with the innermost annotation around its launch. One row per GPU event.

    `annotation` restricts to names that contain it; without it, work outside every annotation is there too, with NULL.
    See `hotline queries annotation_kernels` for the columns.
    """
    scope = {"rank": rank, "device": device, "step": step, "phase": phase, "module": module}
    return trace.query("annotation_kernels", annotation=annotation, **scope)


def compiled_regions(trace: Trace, *, rank: int | None = None) -> pl.DataFrame:
    """Regions of code that torch.compile made: calls, time on the CPU and of the GPU work they launch, and module.

    What is compiled runs as one piece: PyTorch does not say which module its kernels are of, and only their names say
    which ops are in them. See `hotline queries compiled_regions` for the columns.
    """
    return trace.query("compiled_regions", rank=rank)


def op_delays(
    trace: Trace,
    *,
    rank: int | None = None,
    step: int | None = None,
    phase: Phase | None = None,
    module: str | None = None,
    op: str | None = None,
) -> pl.DataFrame:
    """From op start to first launch, and from there to the start of the work: by op and the kernels it launches.

    The first delay is the host's, the second is the launch and the queue on the GPU; integer nanoseconds, never
    negative. `module` is a path and includes the modules in it. Empty without GPU work that ops launched. See
    `hotline queries op_delays` for the columns.
    """
    return trace.query("op_delays", rank=rank, step=step, phase=phase, module=module, op=op)
