"""What is computed again to save memory."""

from __future__ import annotations

import polars as pl

from hotline_analysis.prediction.edits import (
    Remove,
)
from hotline_analysis.prediction.loop import Loop
from hotline_analysis.prediction.scenarios.known import (
    Made,
    chosen_of,
    made_of,
    scenario,
)


@scenario("PyTorch, torch.utils.checkpoint: what is recomputed in backward is what was not kept.")
def _no_recompute(loop: Loop) -> Made:
    """Nothing is recomputed in backward: activations are kept."""
    again = pl.col("pass") == "recompute"
    found = chosen_of(loop, again)
    if found.is_empty():
        return "No forward of a module is known to run again in backward."
    return made_of(
        "no_recompute",
        [Remove(again)],
        "Memory is enough for what is kept, and keeping it takes no time.",
    )
