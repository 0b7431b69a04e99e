"""Recording options for the data missing from a trace."""

from __future__ import annotations

import json
from typing import Any

import polars as pl

from hotline_analysis.answers.recorded import is_of_xla, missing_gpu_work, no_run, records_only_profiler, unknown_tracks
from hotline_analysis.reports.sections.recorder import recorder_of
from hotline_analysis.run.trace import Trace
from hotline_analysis.text.formats import duration

# The events from which unmarked steps were inferred, by the evidence of `step`.
INFERRED = {
    "module": "the calls of the model",
    "autograd": "the backward passes",
    "repetition": "the repetition of all ops",
}
_HANDLER = "hotline_"  # prefix of the handler's keys in a trace's metadata
_MODEL_KEY = "hotline_model"
_PRE_WINDOW_PCT = 2.0  # minimum share of GPU time for advice on work launched before the trace


def recapture(trace: Trace, info: dict[str, Any], steps: pl.DataFrame, cover: pl.DataFrame) -> list[str]:
    """Advice on how to record the data missing from this trace."""
    if recorder_of(info["metadata"]) is not None:
        return record_with_nsight(trace, info, steps, cover)
    rank = info["rank"]
    found = (
        trace.of(rank)
        .sql(
            "select"
            " exists (select 1 from op where rank = $rank) or exists"
            "   (select 1 from event where rank = $rank and category = 'cpu_op') as has_ops,"
            " exists (select 1 from captured_op where rank = $rank) as has_captured,"
            " exists (select 1 from model_op where rank = $rank) as has_modules",
            rank=rank,
        )
        .row(0, named=True)
    )
    advice: list[str] = []
    if is_of_xla(trace, rank) or (not unknown_tracks(trace, rank).is_empty() and no_run(trace, rank)):
        return advice
    if records_only_profiler(trace, rank):  # the first sentence has the usual causes
        return advice
    if not found["has_ops"]:
        advice.append("No CPU ops: add ProfilerActivity.CPU to `activities`, so that GPU work has ops and phases.")
    if cover.is_empty() and (remedy := missing_gpu_work(trace, rank)[1]) and not info["damage"]:
        advice.append(remedy)
    if (steps["evidence"] == "whole_trace").all() and found["has_ops"]:
        advice.append("No steps: call prof.step() after each batch (with a schedule) for figures per step.")
    if steps["evidence"].is_in(list(INFERRED)).any():
        sign = INFERRED[steps["evidence"][0]]
        advice.append(f"Steps are not marked, and were found by {sign}: call prof.step() after each batch to be sure.")
    if not found["has_modules"] and found["has_ops"]:
        advice.append(_without_modules(info["metadata"]))
    if not info["record_shapes"] and not found["has_captured"] and found["has_ops"]:
        advice.append(
            "No shapes: give the profiler record_shapes=True to tell calls of one op apart, and to know how much of the"
            " GPU's peak is used."
        )
    early = cover.filter(pl.col("bucket") == "pre_window")
    if not early.is_empty() and (early["gpu_time_pct"][0] or 0) >= _PRE_WINDOW_PCT:
        advice.append(
            f"{duration(early['gpu_time_ns'][0])} of GPU work was launched before the trace began:"
            " call torch.cuda.synchronize() before it starts, or record more active steps."
        )
    if info["damage"]:
        advice.append(_damaged(info))
    return advice


def _without_modules(metadata: str) -> str:
    """How to record time per module, for a trace written by the handler or by another program."""
    keys = json.loads(metadata)
    if _MODEL_KEY in keys:
        return (
            "No modules: the ops of this trace do not match the model that the handler learned. Record with_stack=True"
            " for time per nn.Module, and see the warnings of the capture."
        )
    if any(key.startswith(_HANDLER) for key in keys):
        return (
            "No modules: the handler had no model, or could not learn it. Give it the model, analyze(model), or record"
            " with_stack=True, for time per nn.Module."
        )
    return (
        "No modules: capture with on_trace_ready=hotline_analysis.analyze(model), give the model (--model), or record"
        " with_stack=True, for time per nn.Module."
    )


def record_with_nsight(trace: Trace, info: dict[str, Any], steps: pl.DataFrame, cover: pl.DataFrame) -> list[str]:
    """Advice for a recording by Nsight Systems. Nsight sees ops, steps and modules only as NVTX ranges."""
    rank = info["rank"]
    found = (
        trace.of(rank)
        .sql(
            "select"
            " exists (select 1 from event where rank = $rank and category = 'cpu_op') as has_ops,"
            " exists (select 1 from model_op where rank = $rank) as has_modules,"
            " exists (select 1 from event where rank = $rank and category in ('cuda_runtime', 'cuda_driver'))"
            "   as has_runtime,"
            " exists (select 1 from event where rank = $rank and category = 'os_call') as has_os_calls,"
            " exists (select 1 from event where rank = $rank and category = 'library_range'"
            "   and starts_with(name, 'nccl')) as has_nccl,"
            " exists (select 1 from collective where rank = $rank and in_elements is not null) as has_sizes,"
            " (select count(*) from event where rank = $rank and category = 'kernel'"
            "   and regexp_matches(name, '^CUDA graph \\d+$')) as graphs",
            rank=rank,
        )
        .row(0, named=True)
    )
    advice = []
    if not found["has_ops"]:
        advice.append(
            "No ops: run the steps inside torch.autograd.profiler.emit_nvtx(record_shapes=True), and record with"
            " --trace=cuda,nvtx,osrt, so that GPU work has ops and phases."
        )
    elif not info["record_shapes"]:
        advice.append(
            "No shapes: emit_nvtx(record_shapes=True) tells calls of one op apart, and how much of the GPU's peak is"
            " used."
        )
    if cover.is_empty() and found["has_runtime"]:
        advice.append("CUDA calls but no GPU work: let the steps finish before the recording ends.")
    if (steps["evidence"] == "whole_trace").all():
        advice.append("No steps: wrap each in torch.cuda.nvtx.range(f'step {number}') for figures per step.")
    if steps["evidence"].is_in(list(INFERRED)).any():
        sign = INFERRED[steps["evidence"][0]]
        advice.append(
            f"Steps are not marked, and were found by {sign}: wrap each in torch.cuda.nvtx.range(f'step {{number}}')"
            " to be sure."
        )
    if not found["has_modules"]:
        advice.append("No modules: call hotline_analysis.nvtx(model) before the steps, for time per nn.Module.")
    if found["graphs"]:
        advice.append(
            f"CUDA graphs are one piece of work each ({found['graphs']:,}): record with --cuda-graph-trace=node for"
            " their kernels."
        )
    if not found["has_os_calls"]:
        advice.append("No calls of the operating system: add osrt to --trace, for what the CPU waits for.")
    if found["has_nccl"] and not found["has_sizes"]:
        advice.append("Collectives have no sizes: export with --include-json=true, which keeps the payloads of NCCL.")
    if info["damage"]:
        advice.append(_damaged(info))
    return advice


def _damaged(info: dict[str, Any]) -> str:
    if info["lost_event_count"] or info["truncated"]:
        return "The file is damaged: export or copy it again for the missing events."
    return "The file has errors: record it again, with a newer profiler if there is one."
