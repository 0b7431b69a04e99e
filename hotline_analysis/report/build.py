"""Puts the report together: asks the questions, picks what to show, and words what is missing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from hotline_analysis.analyze import Finding, bottleneck, breakdown, kernels
from hotline_analysis.errors import QueryParameterError
from hotline_analysis.humane import duration, lost_events, percent, safe, shares
from hotline_analysis.place import Lines
from hotline_analysis.report import resources
from hotline_analysis.report.given import given
from hotline_analysis.report.losses import SAID_BY, losses_section
from hotline_analysis.report.model import Field, Report, Section
from hotline_analysis.report.patterns import pattern_advice
from hotline_analysis.report.stragglers import straggler_section
from hotline_analysis.trace import Trace

_ROWS = 8
_INFERRED = {
    "module": "the calls of the model",
    "autograd": "the backward passes",
    "repetition": "the repetition of all ops",
}
_INCOMPLETE = " Events are missing from the file, so figures and answers may be wrong."
_PRE_WINDOW_PCT = 2.0  # from here on the report says how to capture less of it


def report(trace: Trace, rank: int | None = None, *, source_lines: bool = True) -> Report:
    """Report on a trace: facts, the bottleneck, the three questions, and tables of phases, modules, ops and kernels.

    With several ranks the tables are about one of them: `rank`, or the lowest; a table compares all. With
    `source_lines`, places in the code show their line if this python could import the file (`docs/timeline.md`). Raises
    `QueryParameterError` for a rank that the trace does not have.
    """
    if rank is not None and rank not in trace.ranks:
        raise QueryParameterError(
            f"the trace has no rank {rank}", hint=f"It has {', '.join(str(known) for known in trace.ranks)}."
        )
    chosen = trace.ranks[0] if rank is None else rank
    info = trace.sql("from rank_info where rank = $rank", rank=chosen).row(0, named=True)
    has_gpu = breakdown.has_gpu_work(trace, rank=chosen)
    bound = bottleneck.gpu_or_cpu_bound(trace, rank=chosen)
    optimizer = bottleneck.optimizer_bottleneck(trace, rank=chosen, bound=bound)
    slowest = _slowest_op(trace, chosen, has_gpu)
    steps = breakdown.steps(trace, rank=chosen)
    cover = breakdown.coverage(trace, rank=chosen)
    phases = optimizer.evidence
    waiting, late = straggler_section(trace)
    lost, remedies = losses_section(trace, chosen) if has_gpu else (None, {})
    sections = [
        _ranks(trace) if len(trace.ranks) > 1 else None,
        waiting,
        _steps(steps, bound, has_gpu),
        lost,
        _phases(phases, bound, has_gpu),
        _module_types(trace, chosen, has_gpu),
        _modules(trace, chosen, has_gpu),
        _sources(trace, chosen, has_gpu, Lines() if source_lines else None),
        _ops(slowest, has_gpu),
        _kernels(trace, chosen) if has_gpu else None,
        resources.full_queue(trace, chosen) if has_gpu else None,
        resources.memory_peak(trace, chosen) if info["profile_memory"] else None,
        _coverage(cover) if has_gpu else None,
    ]
    name = safe(info["file"])
    return Report(
        title=name if len(trace.ranks) == 1 else f"{name} (rank {chosen} of {len(trace.ranks)} ranks)",
        facts=_facts(trace, info, steps, has_gpu),
        headline=_headline(bound, slowest, phases) + (_INCOMPLETE if info["damage"] else ""),
        findings=[bound, optimizer, slowest],
        sections=[section for section in sections if section is not None and not section.rows.is_empty()],
        coverage=_coverage_line(cover) + _doubts(breakdown.doubtful_modules(trace, rank=chosen), has_gpu),
        advice=[
            *late,
            *_next_steps(bound, optimizer, remedies),
            *remedies.values(),
            *pattern_advice(trace, chosen, bound, steps),
            *_recapture(trace, info, steps, cover),
        ],
        warnings=[safe(text) for text in trace.manifest["warnings"]],
    )


# --- the head --------------------------------------------------------------------------------------------------------


def _facts(trace: Trace, info: dict[str, Any], steps: pl.DataFrame, has_gpu: bool) -> dict[str, str]:
    rank = info["rank"]
    used = trace.sql(
        "select distinct gpu_op.device, device.name from gpu_op"
        " left join device on gpu_op.rank = device.rank and gpu_op.device = device.device_id"
        " where gpu_op.rank = $rank order by all",
        rank=rank,
    )
    devices = [
        (safe(name) if name else "GPU") + (f" (device {number})" if number is not None else "")
        for number, name in used.rows()
    ]
    ranks = ", ".join(str(number) for number in trace.ranks[:8]) + (", …" if len(trace.ranks) > 8 else "")
    world = f" of {info['world_size']}" if info["world_size"] else ""
    flags = [
        word
        for word, on in (
            ("python stacks", info["with_stack"]),
            ("shapes", info["record_shapes"]),
            ("memory", info["profile_memory"]),
        )
        if on
    ]
    marked = steps.filter(pl.col("evidence") != "whole_trace")
    if marked.is_empty():
        said = "none marked; the whole trace counts as one"
    else:
        lengths = marked["dur_ns"]
        spread = f" ({duration(lengths.min())} to {duration(lengths.max())})" if len(lengths) > 1 else ""  # type: ignore[arg-type]
        said = f"{len(lengths)}, mean {duration(lengths.mean())}{spread}"  # type: ignore[arg-type]
        said += f", inferred from {sign}" if (sign := _INFERRED.get(marked["evidence"][0])) else ""
    facts = {
        "device": ", ".join(devices)
        or ("GPU" if has_gpu else "no GPU work was read" if info["damage"] else "CPU only"),
        "ranks": ("rank " if len(trace.ranks) == 1 else "ranks ") + ranks + world,
        "steps": said,
        "events": f"{info['event_count']:,} in {duration((info['end_ns'] or 0) - (info['start_ns'] or 0))}",
        "recorded": ", ".join(flags) if flags else "times only (no stacks, shapes or memory)",
    }
    mean = None if marked.is_empty() else marked.select(pl.col("dur_ns").mean()).item()
    facts |= given(info["metadata"], mean, frozenset(facts))
    if info["damage"]:
        facts["damage"] = f"{safe(info['damage'])}; {lost_events(info['lost_event_count'], info['truncated'])}"
    return facts


def _headline(bound: Finding, slowest: Finding, phases: pl.DataFrame) -> str:
    """One sentence: what limits the run, in which phase, and which op is slowest."""
    names = {
        "gpu-bound": "The run is GPU-bound",
        "communication-bound": "The run is bound by communication on the GPU",
        "copy-bound": "The run is bound by copies on the GPU",
        "input-bound": "The run is input-bound: the GPU waits for data",
        "sync-bound": "The run is sync-bound: the CPU stops to wait for the GPU, and the GPU then waits for the CPU",
        "launch-bound": "The run is launch-bound: the CPU cannot launch work as fast as the GPU finishes it",
        "python-bound": "The run is bound by python on the CPU",
        "gpu-wait-bound": "The GPU waits for its own work: streams, events or the gaps between kernels",
        "mixed": "The GPU idles for several reasons",
        "unknown": "The GPU idles before work whose launch is not in the trace",
        "no-gpu": "The trace shows no GPU work",
    }
    on_cpu = bound.answer == "no-gpu"
    where = phases.select("phase", time=pl.col("cpu_ns") if on_cpu else pl.col("gpu_busy_ns") + pl.col("gpu_idle_ns"))
    total = where["time"].sum()
    parts = [names[bound.answer]]
    if total and where.height > 1:
        phase, time = where.sort("time", descending=True).row(0)
        whose = "CPU's time" if on_cpu else "GPU's time, its waiting included"
        parts.append(f"{phase} takes {percent(100 * time / total)} of the {whose}")
    if not slowest.evidence.is_empty():
        parts.append(f"the slowest op is {_op(slowest.answer)}")
    return "; ".join(parts) + "."


def _slowest_op(trace: Trace, rank: int, has_gpu: bool) -> Finding:
    question = "Which op is slowest?"
    frame = breakdown.slowest_ops(trace, _ROWS, rank=rank, sort="gpu_self" if has_gpu else "cpu_self")
    if frame.is_empty():
        kernels = breakdown.slowest_ops(trace, 1, by="kernel", rank=rank)
        statement = "The trace has no CPU ops."
        if not kernels.is_empty():
            row = kernels.row(0, named=True)
            statement += (
                f" The slowest kernel is {safe(row['short_name'])}:"
                f" {duration(row['gpu_time_ns'])} in {row['count']:,} runs,"
                f" {percent(row['gpu_time_pct'])} of GPU time."
            )
        return Finding(question, "unknown", statement, "", {}, frame)
    row = frame.row(0, named=True)
    calls = f"{row['count']:,} call{'s' if row['count'] != 1 else ''}"
    if has_gpu:
        what = (
            f"{duration(row['gpu_self_ns'])} of GPU time in {calls},"
            f" {percent(row['gpu_self_pct'])} of the GPU time that ops launched"
        )
    else:
        what = f"{duration(row['cpu_self_ns'])} of CPU self time in {calls}, {percent(row['cpu_self_pct'])} of all ops"
    return Finding(question, row["name"], f"{_op(row['name'])}: {what}.", "", {}, frame)


def _op(name: str) -> str:
    """The name of an op; of one that only experts know, with what it is."""
    return safe(name) + (
        " (collective communication)" if name.startswith(("record_param_comms", "c10d::", "nccl:")) else ""
    )


# --- the tables ------------------------------------------------------------------------------------------------------


def _ranks(trace: Trace) -> Section:
    evidence = bottleneck.gpu_or_cpu_bound(trace).evidence.filter(pl.col("scope") == "run")
    times = (
        breakdown.steps(trace)
        .group_by("rank")
        .agg(pl.len().alias("step_count"), pl.col("dur_ns").mean().round().cast(pl.Int64))
    )
    rows = times.join(evidence, on="rank", how="left").sort("rank")
    return Section(
        "ranks",
        "Ranks",
        "GPU busy: share of the observed time in which the device works.",
        [
            Field("rank", "rank", "count"),
            Field("step_count", "steps", "count"),
            Field("dur_ns", "mean step", "time"),
            Field("gpu_busy_ns", "GPU busy", "time"),
            Field("gpu_busy_pct", "share", "share"),
            Field("verdict", "bound by", "name"),
        ],
        rows.select("rank", "step_count", "dur_ns", "gpu_busy_ns", "gpu_busy_pct", "verdict"),
    )


def _steps(steps: pl.DataFrame, bound: Finding, has_gpu: bool) -> Section:
    verdicts = bound.evidence.filter(pl.col("scope") == "step").select("rank", "step", "verdict")
    rows = steps.join(verdicts, on=["rank", "step"], how="left").sort("step")
    fields = [Field("step", "step", "count"), Field("dur_ns", "CPU time", "time")]
    note = ""
    if has_gpu:
        note = (
            "GPU work counts to the step that launched it, whenever it ran. Waiting: idle time of the GPU before it. "
        )
        fields += [
            Field("gpu_event_count", "GPU events", "count"),
            Field("gpu_busy_ns", "GPU busy", "time"),
            Field("gpu_busy_pct", "share", "share"),
            Field("gpu_idle_ns", "GPU waiting", "time"),
            Field("verdict", "bound by", "name"),
        ]
    if rows.height > _ROWS:
        note += f"The {_ROWS} longest of {rows.height} steps."
        rows = rows.sort("dur_ns", descending=True).head(_ROWS).sort("step")
    return Section(
        "steps",
        "Steps",
        note.strip(),
        fields,
        rows.select(
            "step", "dur_ns", "gpu_event_count", "gpu_time_ns", "gpu_busy_ns", "gpu_idle_ns", "gpu_busy_pct", "verdict"
        ),
    )


def _phases(rows: pl.DataFrame, bound: Finding, has_gpu: bool) -> Section:
    verdicts = bound.evidence.filter(pl.col("scope") == "phase").select("phase", "verdict")
    rows = rows.join(verdicts, on="phase", how="left", maintain_order="left").with_columns(
        pl.Series("cpu_pct", shares(rows["cpu_ns"].to_list()), pl.Float64),
        pl.Series("gpu_time_pct", shares(rows["gpu_time_ns"].to_list()), pl.Float64),
    )
    fields = [Field("phase", "phase", "name"), Field("cpu_ns", "CPU time", "time"), Field("cpu_pct", "share", "share")]
    if has_gpu:
        fields += [
            Field("gpu_time_ns", "GPU time", "time"),
            Field("gpu_time_pct", "share", "share"),
            Field("gpu_idle_ns", "GPU waiting", "time"),
            Field("verdict", "bound by", "name"),
        ]
    return Section(
        "phases",
        "Phases",
        "CPU time is that of the main thread and adds up to the steps."
        + (" GPU time counts to the phase that launched it." if has_gpu else ""),
        fields,
        rows.select(
            "phase",
            "cpu_ns",
            "cpu_pct",
            "gpu_event_count",
            "gpu_time_ns",
            "gpu_time_pct",
            "gpu_busy_ns",
            "gpu_idle_ns",
            "verdict",
        ),
    )


def _module_fields(rows: pl.DataFrame, has_gpu: bool) -> list[Field]:
    device = "gpu" if has_gpu else "cpu"
    fields = [
        Field(f"{device}_self_ns", f"{device.upper()} self", "time"),
        Field(f"{device}_self_pct", "share", "share"),
        Field(f"{device}_total_ns", f"{device.upper()} total", "time"),
    ]
    passes = [name for name in ("forward", "recompute", "backward") if rows[f"gpu_{name}_ns"].sum()]
    if has_gpu and len(passes) > 1:
        fields += [Field(f"gpu_{name}_ns", name, "time") for name in passes]
    return fields


def _module_types(trace: Trace, rank: int, has_gpu: bool) -> Section | None:
    sort: breakdown.Sort = "gpu_self" if has_gpu else "cpu_self"
    rows = breakdown.slowest_ops(trace, _ROWS, by="module_type", rank=rank, sort=sort)
    if (rows["module_count"] == 1).all():
        return None
    return Section(
        "module_types",
        "Slowest kinds of modules",
        "Self: these modules without the modules in them, all passes. Total and passes: with them. Share: of all.",
        [Field("type", "class", "name"), Field("module_count", "modules", "count"), *_module_fields(rows, has_gpu)],
        rows,
    )


def _modules(trace: Trace, rank: int, has_gpu: bool) -> Section:
    rows = breakdown.slowest_ops(trace, _ROWS, by="module", rank=rank, sort="gpu_self" if has_gpu else "cpu_self")
    return Section(
        "modules",
        "Slowest modules",
        "Self: the module without the modules in it, all passes. Total and passes: with them. Share: of all modules.",
        [Field("path", "module", "name"), *_module_fields(rows, has_gpu)],
        rows,
    )


def _sources(trace: Trace, rank: int, has_gpu: bool, lines: Lines | None) -> Section | None:
    rows = breakdown.slowest_sources(trace, _ROWS, rank=rank, sort="gpu_self" if has_gpu else "cpu_self")
    if rows["source"].null_count() == rows.height:
        return None
    device = "gpu" if has_gpu else "cpu"
    place = pl.format("{} in {}", "source", "function")
    known = rows.select("source", "function").rows()
    code = [lines.at(source, function) if lines else "" for source, function in known]
    rows = rows.with_columns(
        place=pl.coalesce(place, "source", pl.lit("unknown place")), line=pl.Series(code, dtype=pl.String)
    )
    fields = [
        Field("place", "code", "name"),
        Field("module_count", "modules", "count"),
        Field(f"{device}_self_ns", f"{device.upper()} self", "time"),
        Field(f"{device}_self_pct", "share", "share"),
        Field("type", "most of it", "name"),
    ]
    return Section(
        "sources",
        "Slowest places in the code",
        "The time of a torch module counts to the code of the user that calls it. Share: of all modules.",
        [*fields, Field("line", "line", "name")] if any(code) else fields,
        rows,
    )


def _ops(slowest: Finding, has_gpu: bool) -> Section:
    fields = [Field("name", "op", "name"), Field("count", "calls", "count")]
    if has_gpu:
        fields += [
            Field("gpu_self_ns", "GPU self", "time"),
            Field("gpu_self_pct", "share", "share"),
            Field("gpu_total_ns", "GPU total", "time"),
        ]
    fields += [
        Field("cpu_self_ns", "CPU self", "time"),
        Field("cpu_self_pct", "share", "share"),
        Field("cpu_total_ns", "CPU total", "time"),
    ]
    return Section(
        "ops",
        "Slowest ops",
        "Self: without the ops inside."
        + (" GPU: the work an op launched itself (self) or with the ops inside (total)." if has_gpu else ""),
        fields,
        slowest.evidence,
    )


def _kernels(trace: Trace, rank: int) -> Section:
    return Section(
        "kernels",
        "Slowest kernels and copies",
        "Share: of all GPU time in the trace. Kernels of one short name are one row; `slowest_kernels` has full names.",
        [
            Field("key", "kernel", "name"),
            Field("count", "runs", "count"),
            Field("gpu_time_ns", "GPU time", "time"),
            Field("gpu_time_pct", "share", "share"),
            Field("mean_ns", "mean", "time"),
            Field("max_ns", "max", "time"),
        ],
        kernels.kernel_breakdown(trace, _ROWS, by="short_name", rank=rank),
    )


def _coverage(cover: pl.DataFrame) -> Section:
    rows = cover.with_columns(pl.Series("gpu_time_pct", shares(cover["gpu_time_ns"].to_list()), pl.Float64))
    return Section(
        "coverage",
        "Where the GPU time counts to",
        "All GPU time in the file: what a module explains, and named buckets for the rest.",
        [
            Field("bucket", "bucket", "name"),
            Field("event_count", "events", "count"),
            Field("gpu_time_ns", "GPU time", "time"),
            Field("gpu_time_pct", "share", "share"),
        ],
        rows.select("bucket", "event_count", "gpu_time_ns", "gpu_time_pct"),
    )


def _coverage_line(cover: pl.DataFrame) -> str:
    """All GPU time by bucket, in one line whose shares add up to 100.0 %."""
    if cover.is_empty():
        return "The trace has no GPU time."
    times = cover["gpu_time_ns"].to_list()
    parts = ", ".join(
        f"{bucket} {percent(share)}" for bucket, share in zip(cover["bucket"], shares(times), strict=True) if share
    )
    return f"GPU time in the file: {duration(sum(times))} = {parts}."


def _doubts(doubts: pl.DataFrame, has_gpu: bool) -> str:
    """How much of what is said of modules is not sure; empty if all is."""
    doubtful, missing, cpu_ns, gpu_ns = doubts.select(
        pl.sum("doubtful_call_count", "missing_call_count", "cpu_time_ns", "gpu_time_ns")
    ).row(0)
    parts = []
    if doubtful:
        time = f"{duration(gpu_ns)} of GPU time, " if has_gpu else ""
        parts.append(
            f"{doubtful:,} of the module calls {'is' if doubtful == 1 else 'are'} doubtful"
            f" ({time}{duration(cpu_ns)} of CPU time in forward): they might stand elsewhere."
        )
    if missing:
        parts.append(
            f"{missing:,} call{' of a module' if missing == 1 else 's of modules'} could not be placed:"
            f" no op shows {'it' if missing == 1 else 'them'}."
        )
    return "".join(f" {part}" for part in parts)


# --- what to do ------------------------------------------------------------------------------------------------------


def _next_steps(bound: Finding, optimizer: Finding, remedies: Mapping[str, str]) -> list[str]:
    told = SAID_BY.get(bound.answer) in remedies
    return [text for text in ("" if told else bound.advice, optimizer.advice) if text]


def _recapture(trace: Trace, info: dict[str, Any], steps: pl.DataFrame, cover: pl.DataFrame) -> list[str]:
    """What to record for a better answer, for everything that this trace lacks."""
    rank = info["rank"]
    found = trace.sql(
        "select"
        " exists (select 1 from op where rank = $rank) or exists"
        "   (select 1 from event where rank = $rank and category = 'cpu_op') as has_ops,"
        " exists (select 1 from model_op where rank = $rank) as has_modules,"
        " exists (select 1 from event where rank = $rank and category like 'cuda%') as has_runtime",
        rank=rank,
    ).row(0, named=True)
    advice = []
    if not found["has_ops"]:
        advice.append("No CPU ops: add ProfilerActivity.CPU to `activities`, so that GPU work has ops and phases.")
    if cover.is_empty() and found["has_runtime"]:
        advice.append("CUDA calls but no GPU work: add ProfilerActivity.CUDA, and let steps finish before the export.")
    if (steps["evidence"] == "whole_trace").all() and found["has_ops"]:
        advice.append("No steps: call prof.step() after each batch (with a schedule) for figures per step.")
    if steps["evidence"].is_in(list(_INFERRED)).any():
        sign = _INFERRED[steps["evidence"][0]]
        advice.append(f"Nothing marks the steps, {sign} told them: call prof.step() after each batch to be sure.")
    if not found["has_modules"] and found["has_ops"]:
        advice.append(
            "No modules: capture with on_trace_ready=hotline_analysis.analyze(model), give the model (--model),"
            " or record with_stack=True, for time per nn.Module."
        )
    if not info["record_shapes"] and found["has_ops"]:
        advice.append("No shapes: record record_shapes=True to tell calls of one op apart.")
    early = cover.filter(pl.col("bucket") == "pre_window")
    if not early.is_empty() and early["gpu_time_pct"][0] >= _PRE_WINDOW_PCT:
        advice.append(
            f"{percent(early['gpu_time_pct'][0])} of the GPU time was launched before the trace began:"
            " call torch.cuda.synchronize() before it starts, or record more active steps."
        )
    if info["damage"]:
        advice.append("The file is damaged: export or copy it again for the missing events.")
    return advice
