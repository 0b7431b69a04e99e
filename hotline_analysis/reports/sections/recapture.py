"""What to record for a better answer, for everything that a trace lacks."""

from __future__ import annotations

from typing import Any

import polars as pl

from hotline_analysis.run.trace import Trace
from hotline_analysis.text.formats import duration

# What showed the steps that nobody marked, by the evidence of `step`.
INFERRED = {
    "module": "the calls of the model",
    "autograd": "the backward passes",
    "repetition": "the repetition of all ops",
}
_PRE_WINDOW_PCT = 2.0  # from here on the report says how to capture less of it


def recapture(trace: Trace, info: dict[str, Any], steps: pl.DataFrame, cover: pl.DataFrame) -> list[str]:
    """What to record for a better answer, for everything that this trace lacks."""
    rank = info["rank"]
    found = (
        trace.of(rank)
        .sql(
            "select"
            " exists (select 1 from op where rank = $rank) or exists"
            "   (select 1 from event where rank = $rank and category = 'cpu_op') as has_ops,"
            " exists (select 1 from captured_op where rank = $rank) as has_captured,"
            " exists (select 1 from model_op where rank = $rank) as has_modules,"
            " exists (select 1 from event where rank = $rank and category like 'cuda%') as has_runtime",
            rank=rank,
        )
        .row(0, named=True)
    )
    advice = []
    if not found["has_ops"]:
        advice.append("No CPU ops: add ProfilerActivity.CPU to `activities`, so that GPU work has ops and phases.")
    if cover.is_empty() and found["has_runtime"]:
        advice.append("CUDA calls but no GPU work: add ProfilerActivity.CUDA, and let steps finish before the export.")
    if (steps["evidence"] == "whole_trace").all() and found["has_ops"]:
        advice.append("No steps: call prof.step() after each batch (with a schedule) for figures per step.")
    if steps["evidence"].is_in(list(INFERRED)).any():
        sign = INFERRED[steps["evidence"][0]]
        advice.append(f"Steps are not marked, and were found by {sign}: call prof.step() after each batch to be sure.")
    if not found["has_modules"] and found["has_ops"]:
        advice.append(
            "No modules: capture with on_trace_ready=hotline_analysis.analyze(model), give the model (--model),"
            " or record with_stack=True, for time per nn.Module."
        )
    if not info["record_shapes"] and not found["has_captured"] and found["has_ops"]:
        advice.append(
            "No shapes: record record_shapes=True to tell calls of one op apart, and to know how much of the GPU's peak"
            " is used."
        )
    early = cover.filter(pl.col("bucket") == "pre_window")
    if not early.is_empty() and (early["gpu_time_pct"][0] or 0) >= _PRE_WINDOW_PCT:
        advice.append(
            f"{duration(early['gpu_time_ns'][0])} of GPU work was launched before the trace began:"
            " call torch.cuda.synchronize() before it starts, or record more active steps."
        )
    if info["damage"]:
        advice.append("The file is damaged: export or copy it again for the missing events.")
    return advice
