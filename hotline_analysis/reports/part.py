"""The report on a part of a run: a step, a phase, a module, or their intersection."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from hotline_analysis.answers import generated as answers
from hotline_analysis.answers.recorded import has_gpu_work, without_gpu_work
from hotline_analysis.reports.content import Field, Section
from hotline_analysis.reports.document import Report
from hotline_analysis.reports.sections import tables
from hotline_analysis.reports.sections.coverage import coverage_line
from hotline_analysis.reports.sections.subject import subject
from hotline_analysis.run.trace import Trace
from hotline_analysis.text.formats import duration, percent, safe
from hotline_analysis.text.source_lines import Lines
from hotline_analysis.vocabulary import Phase, idle_words

_ALL = 2**62  # row limit: no limit


def part_report(
    trace: Trace, rank: int, step: int | None, phase: Phase | None, module: str | None, lines: Lines | None
) -> Report:
    """Report on a part of one rank's run. Sections whose query cannot be restricted to this part are omitted."""
    scope: dict[str, Any] = {
        name: value for name, value in (("step", step), ("phase", phase), ("module", module)) if value is not None
    }
    info = trace.of(rank).sql("from rank_info where rank = $rank", rank=rank).row(0, named=True)
    has_gpu = has_gpu_work(trace, rank=rank)
    steps = answers.steps(trace, rank=rank)
    of_step = {"step": step} if set(scope) == {"step"} else None
    kernels = answers.kernel_breakdown(trace, rank=rank, **scope)
    sections = [
        tables.phases_section(answers.phases(trace, rank=rank, step=step), has_gpu) if of_step else None,
        _idle_section(trace, rank, scope) if has_gpu else None,
        tables.module_types_section(trace, rank, has_gpu, step) if of_step else None,
        tables.modules_section(trace, rank, has_gpu, step) if of_step else None,
        tables.sources_section(trace, rank, has_gpu, lines, step) if of_step else None,
        tables.ops_section(answers.slowest_ops(trace, tables.ROWS, rank=rank, **scope), has_gpu),
        tables.kernels_section(trace, rank, scope) if has_gpu else None,
    ]
    name = safe(info["file"])
    words = _words(scope)
    about = {"device": _device(trace, rank), "part": words}
    return Report(
        title=f"{name}: {words}" if len(trace.ranks) == 1 else f"{name} (rank {rank}): {words}",
        facts=about,
        headline=_headline(trace, rank, scope, steps, kernels, has_gpu),
        caveats=[],
        advice=[],
        findings=[],
        sections=[section for section in sections if section is not None and not section.rows.is_empty()],
        coverage="This report covers a part; without a step, phase or module, it covers the whole run."
        + (f" Of the whole run: {coverage_line(answers.coverage(trace, rank=rank))}" if has_gpu else ""),
        recapture=[],
        warnings=[safe(text) for text in trace.manifest["warnings"]],
        subject=f"{subject(trace, rank, steps, about)}: {words}",
        rank=rank,
        scope=scope,
    )


def _device(trace: Trace, rank: int) -> str:
    names = trace.of(rank).sql(
        "select distinct coalesce(device.name, 'GPU') as name from gpu_op"
        " left join device on gpu_op.rank = device.rank and gpu_op.device = device.device_id"
        " where gpu_op.rank = $rank order by all",
        rank=rank,
    )
    return ", ".join(map(safe, names["name"].to_list())) or without_gpu_work(trace, rank)


def _words(scope: Mapping[str, Any]) -> str:
    said = {"step": "step {}", "phase": "phase {}", "module": "module {}"}
    return ", ".join(said[name].format(safe(str(value))) for name, value in scope.items())


def _headline(
    trace: Trace, rank: int, scope: Mapping[str, Any], steps: pl.DataFrame, kernels: pl.DataFrame, has_gpu: bool
) -> str:
    """The duration of the part, and the GPU work launched there."""
    said = []
    if set(scope) == {"step"}:
        own = steps.filter(step=scope["step"])["dur_ns"][0]
        median = steps.select(pl.col("dur_ns").median()).item()
        said.append(
            f"Step {scope['step']} takes {duration(own)} on the main thread, the median step {duration(median)}."
        )
    elif "module" not in scope:
        phases = answers.phases(trace, rank=rank, step=scope.get("step"))
        here = phases.filter(phase=scope["phase"])
        taken, share = here.select(pl.col("cpu_ns", "cpu_pct").sum()).row(0)
        whole = "step" if "step" in scope else "steps"
        said.append(f"The main thread spends {duration(taken)} there, {percent(share)} of the {whole}.")
    if has_gpu:
        count, time = int(kernels["count"].sum()), int(kernels["gpu_time_ns"].sum())
        of_run = int(answers.kernel_breakdown(trace, rank=rank)["gpu_time_ns"].sum())
        part = f", {percent(100 * time / of_run)} of the run's" if of_run else ""
        said.append(f"GPU events launched there: {count:,}, with {duration(time)} of work{part}.")
    elif "module" in scope:
        ops = answers.slowest_ops(trace, _ALL, rank=rank, **scope)
        said.append(f"The CPU spends {duration(int(ops['cpu_self_ns'].sum()))} in the ops there.")
    return " ".join(said)


def _idle_section(trace: Trace, rank: int, scope: Mapping[str, Any]) -> Section:
    """Causes of idle GPU time before the work of the part."""
    rows = answers.idle_breakdown(trace, rank=rank, **scope)
    rows = (
        rows.group_by("cause")
        .agg(pl.col("gap_count", "idle_ns").sum(), pl.col("max_ns").max())
        .sort("idle_ns", "cause", descending=[True, False])
        .filter(pl.col("idle_ns") > 0)
    )
    what = [idle_words(cause) for cause in rows["cause"].to_list()]
    return Section(
        "idle",
        "Why the GPU is idle before this work",
        "Gaps that end with work of this part, by the largest part of the wait; `idle_gaps` lists them.",
        [
            Field("what", "because", "name"),
            Field("gap_count", "gaps", "count"),
            Field("idle_ns", "idle", "time"),
            Field("max_ns", "longest", "time"),
        ],
        rows.with_columns(what=pl.Series(what, dtype=pl.String)),
        query="idle_breakdown",
    )
