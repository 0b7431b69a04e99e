"""The slowest op in a sentence, or the slowest place if the time is not in ops."""

from __future__ import annotations

import re

import polars as pl

from hotline_analysis.answers.finding import Finding
from hotline_analysis.answers.generated import slowest_kernels, slowest_ops
from hotline_analysis.answers.places import place_words, slowest_places
from hotline_analysis.answers.recorded import has_gpu_work, no_run
from hotline_analysis.answers.verdicts import NO_RUN
from hotline_analysis.answers.waiting import spelled
from hotline_analysis.run.trace import Trace
from hotline_analysis.text.formats import duration, percent, safe

ANY_COLLECTIVE = "record_param_comms"  # in PyTorch, the op of every collective
_SECOND_PCT = 5.0  # from here on the second slowest kernel is worth naming
# What torch.compile records around what it compiled: no ops of the model.
_COMPILED = re.compile(
    r"Torch-Compiled Region|CompiledFunction|## Call CompiledFxGraph|.*(Compiled|_compiled)\w*Backward|triton_"
)


def slowest_op(trace: Trace, rank: int, limit: int) -> Finding:
    """The op with the most self time, on the GPU if there is one. The evidence is the `limit` slowest ops.

    Shares are of all GPU time. If ops explain less than half of it, or the op is a compiled region, the answer is the
    kernel with the most time.
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
            f"{_op(trace, rank, row['name'])}: {duration(row['cpu_self_ns'])} of CPU self time in"
            f" {_calls(row['count'])}, {percent(row['cpu_self_pct'])} of all ops."
        )
        numbers = {"cpu_self_ns": row["cpu_self_ns"], "cpu_self_pct": row["cpu_self_pct"], "count": row["count"]}
        return Finding(question, _of_collective(trace, rank, row["name"]), said, "", {}, frame, numbers)
    total_ns = int(
        trace.of(rank).sql("select sum(dur_ns)::bigint from gpu_event where rank = $rank", rank=rank).item() or 0
    )
    by_ops = int(
        trace.of(rank)
        .sql(
            "select coalesce(sum(dur_ns), 0)::bigint from gpu_event where rank = $rank and op_id is not null", rank=rank
        )
        .item()
    )
    if row is not None and row["gpu_self_ns"] and 2 * by_ops >= total_ns and not _COMPILED.match(row["name"]):
        said = (
            f"{_op(trace, rank, row['name'])}: {duration(row['gpu_self_ns'])} of GPU time in {_calls(row['count'])},"
            f" {percent(100 * row['gpu_self_ns'] / total_ns)} of all GPU time."
        )
        share = 100 * row["gpu_self_ns"] / total_ns
        numbers = {"gpu_self_ns": row["gpu_self_ns"], "gpu_self_pct": share, "count": row["count"]}
        return Finding(question, _of_collective(trace, rank, row["name"]), said, "", {}, frame, numbers)
    kernels = slowest_kernels(trace, 2, rank=rank)
    if kernels.is_empty() or not kernels["gpu_time_ns"][0]:
        return Finding(question, "unknown", "The trace has no GPU work that takes time.", "", {}, frame)
    kernel = kernels.row(0, named=True)
    reason = (
        "The trace has no CPU ops"
        if row is None
        else "Most GPU work runs in compiled code"
        if _COMPILED.match(row["name"])
        else f"Ops explain only {percent(100 * by_ops / total_ns)} of the GPU time"
    )
    statement = (
        f"{reason}. The slowest kernel is {safe(kernel['short_name'])}: {duration(kernel['gpu_time_ns'])} in"
        f" {kernel['count']:,} run{'s' if kernel['count'] != 1 else ''}, {percent(kernel['gpu_time_pct'])} of GPU time"
    )
    if kernels.height > 1 and kernels["gpu_time_pct"][1] >= _SECOND_PCT:
        statement += f"; then {safe(kernels['short_name'][1])}, {percent(kernels['gpu_time_pct'][1])}"
    statement += "."
    numbers = {name: kernel[name] for name in ("gpu_time_ns", "gpu_time_pct", "count")}
    return Finding(question, kernel["short_name"], statement, "", {}, frame, numbers)


_IN_A_PLACE = ("python", "load_data", "unrecorded")
"""Limits whose time is outside ops."""


def slowest_place_found(trace: Trace, rank: int, bound: Finding) -> Finding | None:
    """The slowest place if most of the step is python or data loading, else None. `bound` is `gpu_or_cpu_bound`."""
    limits = bound.evidence
    if limits.is_empty() or bound.answer == "no-run" or limits["limit"][0] not in _IN_A_PLACE:
        return None
    rows = slowest_places(trace, rank=rank)
    if rows.is_empty() or not rows["path_ns"][0]:
        return None
    row = rows.row(0, named=True)
    words = place_words(row)
    statement = f"{words[:1].upper()}{words[1:]}" if row["kind"] in ("phase", "rest") else words
    statement += f": {duration(row['path_ns'])} of each step, {percent(row['path_pct'])} of the step."
    if rows.height > 1 and rows["path_pct"][1] >= _SECOND_PCT:
        second = rows.row(1, named=True)
        statement += f" Then {place_words(second)}, {percent(second['path_pct'])}."
    numbers = {"path_ns": row["path_ns"], "path_pct": row["path_pct"]}
    return Finding("Which place is slowest?", safe(row["place"]), statement, "", {}, rows, numbers)


def _calls(count: int) -> str:
    return f"{count:,} call{'s' if count != 1 else ''}"


def _op(trace: Trace, rank: int, name: str) -> str:
    """The name of an op; a collective is marked as collective communication."""
    is_collective = name.startswith((ANY_COLLECTIVE, "c10d::", "nccl:"))
    return safe(_of_collective(trace, rank, name)) + (" (collective communication)" if is_collective else "")


def _of_collective(trace: Trace, rank: int, name: str) -> str:
    """The collective with most time for the op that PyTorch records for all collectives; other names unchanged."""
    if name != ANY_COLLECTIVE:
        return name
    found = trace.of(rank).sql(
        """
        select name from (
            select collective.name, sum(event.dur_ns) as time_ns, 1 as choice
            from collective
            inner join event on collective.rank = event.rank and collective.event_id = event.event_id
            where event.rank = $rank and event.name = $name and collective.name is not null
            group by all
            union all
            select short_name, sum(dur_ns), 2
            from gpu_event
            where rank = $rank and op = $name
            group by all
        )
        order by choice, time_ns desc, name
        limit 1
        """,
        rank=rank,
        name=name,
    )["name"]
    return name if found.is_empty() else spelled(found[0])
