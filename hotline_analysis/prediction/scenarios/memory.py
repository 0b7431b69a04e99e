"""Scenarios of recomputation to save memory."""

from __future__ import annotations

import polars as pl

from hotline_analysis.prediction.engine.edits import (
    Edit,
    Number,
    Remove,
    Scale,
)
from hotline_analysis.prediction.engine.loop import Loop
from hotline_analysis.prediction.scenarios.known import (
    MODEL,
    NAME,
    Given,
    Made,
    chosen_of,
    made_of,
    scenario,
)


@scenario(
    "PyTorch, torch.utils.checkpoint: what is recomputed in backward is what was not kept.",
    # For four models on an H100 and one of them on an H200, the step without checkpointing took 0.4 to 0.75 of the
    # recorded step's time minus recomputation (bench_gpu_pairs.py).
    host=Given((0.4, 0.6, 1.0), "factor for the remaining CPU time in forward and backward"),
)
def _no_recompute(loop: Loop, host: Number) -> Made:
    """Nothing is recomputed in backward: activations are kept."""
    is_recompute = pl.col("pass") == "recompute"
    events = chosen_of(loop, is_recompute)
    if events.is_empty():
        return "No forward of a module is known to run again in backward."
    edits: list[Edit] = [Remove(is_recompute)]
    assumptions = ["Memory is enough for what is kept, and keeping it takes no time."]
    # A non-reentrant checkpoint runs Python for each saved tensor in both passes (`saved_tensors_hooks`).
    if loop.has_gpu_work and chosen_of(loop, NAME.str.contains("CheckpointFunction")).is_empty():
        edits.append(Scale(MODEL & (pl.col("category") == "cpu_op") & (pl.col("pass") != "recompute"), host))
        assumptions.append("The python that checkpointing runs for each tensor is gone, too.")
    return made_of("no_recompute", edits, *assumptions)
