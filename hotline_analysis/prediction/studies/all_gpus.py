"""Predict the step time on each known GPU, the limiting factor there, and the steps per price."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from hotline_analysis.answers.recorded import how_to_record_gpu_work
from hotline_analysis.errors import HotlineError
from hotline_analysis.gpu_models import named_gpu, shipped_gpus
from hotline_analysis.prediction.engine.loop import busiest_gpu, loop_of
from hotline_analysis.prediction.engine.other_gpu import own_figures, source_gpu
from hotline_analysis.prediction.engine.predict import predict
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
    """Predict the step time on each GPU of the packaged table and of the user's own: one row per GPU.

    `gpu` is the model, `predicted_ns` the step time between `low_ns` and `high_ns`, `speedup` the recorded step time
    divided by the predicted time, and `limit_after` the largest part of the predicted step's critical path. `fits` says
    whether the GPU's memory (`memory_gib`) holds the program's peak; NULL if the trace has no memory events. `prices`
    maps a GPU name to its price per hour; `steps_per_price` is the number of steps per unit of money, NULL without a
    price. `cpu` is the speedup of the CPU. `like` is a trace recorded on another GPU: kernels with the same name, grid
    and block in both traces are scaled by their measured ratio. The fastest GPU comes first. A GPU without a prediction
    has a `reason`, and NULLs. `whatif(trace, "gpu", to=NAME)` is the prediction for one GPU.

    Raises `HotlineError` if the trace allows no prediction or has no GPU work, or if `prices` has an unknown GPU.
    """
    loop = loop_of(trace, rank)
    loop.check_explained()
    if not loop.has_gpu_work:
        raise HotlineError("the steps of this trace have no GPU work", hint=how_to_record_gpu_work(trace, rank))
    own_gpus = own_figures(loop)
    costs = {str(named_gpu(name, own_gpus)["model"]): price for name, price in (prices or {}).items()}
    needed_bytes = loop.memory_needed
    other_gpu = None if like is None else source_gpu(busiest_gpu(like, like.ranks[0]), own_gpus)
    if isinstance(other_gpu, str):
        raise HotlineError(f"in the trace to compare with: {other_gpu[:1].lower()}{other_gpu[1:]}")
    rows: list[dict[str, object]] = []
    for gpu in {str(figures["model"]): figures for figures in reversed([*own_gpus, *shipped_gpus()])}.values():
        model, memory = str(gpu["model"]), gpu.get("memory_gib")
        row: dict[str, object] = {"gpu": model, "memory_gib": memory}
        if needed_bytes is not None and memory is not None:
            row["fits"] = needed_bytes <= int(str(memory)) << 30
        options = {"like": like} if other_gpu is not None and other_gpu["model"] == model else {}
        scenario = KNOWN["gpu"].made(loop, {"to": model, "cpu": cpu, **options})
        if isinstance(scenario, str):
            rows.append({**row, "reason": scenario})
            continue
        prediction = predict(loop, scenario)
        price = costs.get(model)
        steps_per_price = 3600e9 / prediction.predicted_ns / price if price else None
        rows.append({**row, **prediction.as_dict(), "reason": None, "steps_per_price": steps_per_price})
    frame = pl.DataFrame([{name: row.get(name) for name in COLUMNS} for row in rows], COLUMNS)
    return frame.sort("predicted_ns", "gpu", nulls_last=True)
