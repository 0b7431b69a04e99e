"""Which op is slowest, in a sentence, and which place where no op tells."""

from __future__ import annotations

import re

import polars as pl

from hotline_analysis.answers.finding import Finding
from hotline_analysis.answers.generated import slowest_kernels, slowest_ops
from hotline_analysis.answers.places import place_words, slowest_places
from hotline_analysis.answers.recorded import has_gpu_work, no_run
from hotline_analysis.answers.verdicts import NO_RUN
from hotline_analysis.run.trace import Trace
from hotline_analysis.text.formats import duration, percent, safe

_SECOND_PCT = 5.0  # from here on the second slowest kernel is worth naming
# What torch.compile records around what it compiled: no ops of the model.
_COMPILED = re.compile(
    r"Torch-Compiled Region|CompiledFunction|## Call CompiledFxGraph|.*(Compiled|_compiled)\w*Backward|triton_"
)


def slowest_op(trace: Trace, rank: int, limit: int) -> Finding:
    """The op with most self time, on the GPU if there is one; its evidence are the slowest ops, at most `limit`.

    Shares are of all GPU time. Where ops explain less than half of it, or the op is a compiled region, the kernel with
    most time is named instead.
    """
    question = "Which op is slowest?"
    has_gpu = has_gpu_work(trace, rank=rank)
    if no_run(trace, rank):
        return Finding(question, "no-run", NO_RUN, "", {}, pl.DataFrame())
    frame = slowest_ops(trace, limit, rank=rank)
    row = next((row for row in frame.iter_rows(named=True)), None)
    if not has_gpu:
        if row is None or not row["cpu_self_ns"]:
            return Finding(question, "unknown", "The trace has no CPU ops that take time.", "", {}, frame)
        said = (
            f"{_op(row['name'])}: {duration(row['cpu_self_ns'])} of CPU self time in {_calls(row['count'])},"
            f" {percent(row['cpu_self_pct'])} of all ops."
        )
        numbers = {"cpu_self_ns": row["cpu_self_ns"], "cpu_self_pct": row["cpu_self_pct"], "count": row["count"]}
        return Finding(question, row["name"], said, "", {}, frame, numbers)
    whole = int(
        trace.of(rank).sql("select sum(dur_ns)::bigint from gpu_event where rank = $rank", rank=rank).item() or 0
    )
    by_ops = int(
        trace.of(rank)
        .sql(
            "select coalesce(sum(dur_ns), 0)::bigint from gpu_work where rank = $rank and op_id is not null", rank=rank
        )
        .item()
    )
    if row is not None and row["gpu_self_ns"] and 2 * by_ops >= whole and not _COMPILED.match(row["name"]):
        said = (
            f"{_op(row['name'])}: {duration(row['gpu_self_ns'])} of GPU time in {_calls(row['count'])},"
            f" {percent(100 * row['gpu_self_ns'] / whole)} of all GPU time."
        )
        share = 100 * row["gpu_self_ns"] / whole
        numbers = {"gpu_self_ns": row["gpu_self_ns"], "gpu_self_pct": share, "count": row["count"]}
        return Finding(question, row["name"], said, "", {}, frame, numbers)
    kernels = slowest_kernels(trace, 2, rank=rank)
    if kernels.is_empty() or not kernels["gpu_time_ns"][0]:
        return Finding(question, "unknown", "The trace has no GPU work that takes time.", "", {}, frame)
    kernel = kernels.row(0, named=True)
    why = (
        "The trace has no CPU ops"
        if row is None
        else "Most GPU work runs in compiled code"
        if _COMPILED.match(row["name"])
        else f"Ops explain only {percent(100 * by_ops / whole)} of the GPU time"
    )
    said = (
        f"{why}. The slowest kernel is {safe(kernel['short_name'])}: {duration(kernel['gpu_time_ns'])} in"
        f" {kernel['count']:,} run{'s' if kernel['count'] != 1 else ''}, {percent(kernel['gpu_time_pct'])} of GPU time"
    )
    if kernels.height > 1 and kernels["gpu_time_pct"][1] >= _SECOND_PCT:
        said += f"; then {safe(kernels['short_name'][1])}, {percent(kernels['gpu_time_pct'][1])}"
    said += "."
    numbers = {name: kernel[name] for name in ("gpu_time_ns", "gpu_time_pct", "count")}
    return Finding(question, kernel["short_name"], said, "", {}, frame, numbers)


_IN_A_PLACE = ("python", "load_data", "unrecorded")
"""Limits whose time is in no op."""


def slowest_place_found(trace: Trace, rank: int, bound: Finding) -> Finding | None:
    """The slowest place, if most of the step is python or loading data; None else. `bound` is `gpu_or_cpu_bound`."""
    limits = bound.evidence
    if limits.is_empty() or bound.answer == "no-run" or limits["limit"][0] not in _IN_A_PLACE:
        return None
    rows = slowest_places(trace, rank=rank)
    if rows.is_empty() or not rows["path_ns"][0]:
        return None
    row = rows.row(0, named=True)
    words = place_words(row)
    said = f"{words[:1].upper()}{words[1:]}" if row["kind"] in ("phase", "rest") else words
    said += f": {duration(row['path_ns'])} of each step, {percent(row['path_pct'])} of the step."
    if rows.height > 1 and rows["path_pct"][1] >= _SECOND_PCT:
        second = rows.row(1, named=True)
        said += f" Then {place_words(second)}, {percent(second['path_pct'])}."
    numbers = {"path_ns": row["path_ns"], "path_pct": row["path_pct"]}
    return Finding("Which place is slowest?", safe(row["place"]), said, "", {}, rows, numbers)


def _calls(count: int) -> str:
    return f"{count:,} call{'s' if count != 1 else ''}"


def _op(name: str) -> str:
    """The name of an op; of one that only experts know, with what it is."""
    return safe(name) + (
        " (collective communication)" if name.startswith(("record_param_comms", "c10d::", "nccl:")) else ""
    )
