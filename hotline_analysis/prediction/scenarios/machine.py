"""Scenarios of another machine."""

from __future__ import annotations

from hotline_analysis.gpu_models import named_gpu
from hotline_analysis.prediction.engine.edits import (
    Edit,
    Hasten,
    Number,
    Pace,
)
from hotline_analysis.prediction.engine.loop import Loop, busiest_gpu
from hotline_analysis.prediction.engine.other_gpu import move_to, own_figures, source_gpu
from hotline_analysis.prediction.scenarios.known import (
    GPU,
    NO_GPU,
    Given,
    Made,
    inverse_of,
    made_of,
    scenario,
)
from hotline_analysis.run.trace import Trace


@scenario(
    "Habitat (Yu et al., USENIX ATC 2021), wave scaling; Williams et al., “Roofline” (CACM 52(4), 2009).",
    to=Given(None, "the GPU, such as H200 or A100-SXM4-80GB", is_text=True),
    cpu=Given(1.0, "speedup of the CPU", 1e-3),
    like=Given(
        None,
        "a trace of a similar job on the other GPU, to compare kernels with the same name, grid and block",
        is_trace=True,
    ),
)
def _gpu(loop: Loop, to: str | None, cpu: Number, like: Trace | None) -> Made:
    """The job runs on another GPU."""
    if to is None and like is not None:
        other_gpu = source_gpu(busiest_gpu(like, like.ranks[0]), own_figures(loop))
        if isinstance(other_gpu, str):
            return f"In the trace to compare with: {other_gpu[:1].lower()}{other_gpu[1:]}"
        to = str(other_gpu["model"])
    if to is None:
        return "Name a GPU, as in `hotline whatif TRACE gpu -p to=H200`; `on_gpu` compares all GPUs."
    figures = own_figures(loop)
    gpu = named_gpu(to, figures)
    if not loop.has_gpu_work:
        return NO_GPU
    move = move_to(loop, gpu, figures, like)
    if isinstance(move, str):
        return move
    edits: list[Edit] = [Pace(GPU, move.parts)]
    if cpu != 1.0:
        edits.append(Hasten(~GPU, inverse_of(cpu)))
    return made_of("gpu", edits, *move.assumptions)
