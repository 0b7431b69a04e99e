"""How long a step would take on each GPU that is known, what then bounds it, and what it costs."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from hotline_analysis.errors import HotlineError
from hotline_analysis.gpu_models import named_gpu, shipped_gpus
from hotline_analysis.prediction.loop import busiest_gpu, loop_of
from hotline_analysis.prediction.other_gpu import own_figures, source_gpu
from hotline_analysis.prediction.predict import predict
from hotline_analysis.prediction.scenarios import KNOWN
from hotline_analysis.run.trace import Trace

COLUMNS = {
    "gpu": pl.String,
    "memory_gib": pl.Int64,
    "fits": pl.Boolean,
    "predicted_ns": pl.Int64,
    "low_ns": pl.Int64,
    "high_ns": pl.Int64,
    "speedup": pl.Float64,
    "limit_after": pl.String,
    "steps_per_price": pl.Float64,
    "reason": pl.String,
}


def on_gpu(
    trace: Trace,
    *,
    rank: int | None = None,
    cpu: float = 1.0,
    prices: Mapping[str, float] | None = None,
    like: Trace | None = None,
) -> pl.DataFrame:
    """How long a step would take on each GPU of the packaged table, and of the user's own: one row each.

    `gpu` is the model, `predicted_ns` the time of a step between `low_ns` and `high_ns`, `speedup` how many times
    faster that is than recorded, and `limit_after` what most of the step's path is then. `fits` says whether the memory
    that the program held at once is there (`memory_gib`); NULL if the trace has no memory events. `prices` are what an
    hour of a GPU costs, by its name; `steps_per_price` is how many steps one unit of money then buys, NULL without a
    price. `cpu` is how many times faster the CPU is. On the GPU of another trace, `like`, kernels that have the same
    name, grid and block in both take as much longer as they do there. The fastest comes first; a GPU of which nothing
    can be said has a `reason`, and NULLs. `whatif(trace, "gpu", to=NAME)` is the prediction of one.

    Raises `HotlineError` for a trace from which nothing can be predicted, or without GPU work, or a GPU with a price
    that is not known.
    """
    loop = loop_of(trace, rank)
    loop.check_explained()
    if not loop.has_gpu_work:
        raise HotlineError("the steps of this trace have no GPU work", hint="Record it with ProfilerActivity.CUDA.")
    given = own_figures(loop)
    costs = {str(named_gpu(name, given)["model"]): price for name, price in (prices or {}).items()}
    needed = loop.memory_needed
    other = None if like is None else source_gpu(busiest_gpu(like, like.ranks[0]), given)
    if isinstance(other, str):
        raise HotlineError(f"of the trace to compare with: {other[:1].lower()}{other[1:]}")
    rows: list[dict[str, object]] = []
    for gpu in {str(each["model"]): each for each in reversed([*given, *shipped_gpus()])}.values():
        model, memory = str(gpu["model"]), gpu.get("memory_gib")
        row: dict[str, object] = {"gpu": model, "memory_gib": memory}
        if needed is not None and memory is not None:
            row["fits"] = needed <= int(str(memory)) << 30
        measured = {"like": like} if other is not None and other["model"] == model else {}
        made = KNOWN["gpu"].made(loop, {"to": model, "cpu": cpu, **measured})
        if isinstance(made, str):
            rows.append({**row, "reason": made})
            continue
        found = predict(loop, made)
        price = costs.get(model)
        bought = 3600e9 / found.predicted_ns / price if price else None
        rows.append({**row, **found.as_dict(), "reason": None, "steps_per_price": bought})
    frame = pl.DataFrame([{name: row.get(name) for name in COLUMNS} for row in rows], COLUMNS)
    return frame.sort("predicted_ns", "gpu", nulls_last=True)
