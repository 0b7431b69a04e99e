"""The tables on ranks, steps, phases, modules, places in the code, ops and kernels."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import polars as pl

from hotline_analysis.answers import generated as answers
from hotline_analysis.reports.content import Field, Section
from hotline_analysis.run.trace import Trace
from hotline_analysis.text.formats import duration, module_name, percent, runs, shares
from hotline_analysis.text.source_lines import Lines

_OVERLAP = 0.99  # note overlapping work if busy time is below this share of the summed work
_OUTSIDE = 0.05  # minimum share of GPU time outside steps for a note
ROWS = 8  # maximum rows in tables of unlimited length


def ranks_section(trace: Trace) -> Section:
    """A comparison of the ranks. With over eight ranks, the table has only the most unusual ranks."""
    rows = answers.ranks(trace).rename({"step_ns": "dur_ns"})
    note = "GPU busy: share of the observed time in which the device works. Idle: the main cause of idle time."
    if rows.height > ROWS:
        note = f"{_range_of(rows)} Shown: the {ROWS} that differ most from the others. {note}"
        rows = rows.sort("oddity", "rank", descending=[True, False], nulls_last=True).head(ROWS)
    places = [name for name in ("tp", "pp", "dp", "ep") if rows[name].null_count() < rows.height]
    return Section(
        "ranks",
        "Ranks",
        note,
        [
            Field("rank", "rank", "count"),
            *[Field(name, name, "count") for name in places],
            Field("step_count", "steps", "count"),
            Field("dur_ns", "mean step", "time"),
            Field("gpu_busy_ns", "GPU busy", "time"),
            Field("gpu_busy_pct", "share", "share"),
            Field("idle_cause", "idle", "name"),
        ],
        rows.select("rank", *places, "step_count", "dur_ns", "gpu_busy_ns", "gpu_busy_pct", "idle_cause"),
        query="ranks",
    )


def _range_of(rows: pl.DataFrame) -> str:
    steps, busy = rows["dur_ns"].drop_nulls(), rows["gpu_busy_pct"].drop_nulls()
    said = f"{rows.height:,} ranks"
    if steps.len():
        said += f", with steps of {duration(steps.min())} to {duration(steps.max())} on average"  # type: ignore[arg-type]
    if busy.len():
        said += f", and GPUs that are busy for {percent(busy.min())} to {percent(busy.max())} of the time"  # type: ignore[arg-type]
    odd = rows.filter("is_outlier")["rank"].to_list()
    if not odd:
        return f"{said}. None is an outlier."
    which = f"rank{'s' if len(odd) > 1 else ''} {runs(odd)}" if len(odd) <= ROWS else f"{len(odd):,} of them"
    return f"{said}. Outliers: {which}."


def steps_section(steps: pl.DataFrame, use: pl.DataFrame, has_gpu: bool) -> Section:
    """The steps, or the longest steps if there are many."""
    rows = steps.sort("step")
    fields = [Field("step", "step", "count"), Field("dur_ns", "CPU time", "time")]
    note = ""
    if has_gpu:
        note = "GPU work counts to the step that launched it, whenever it ran. "
        fields += [
            Field("gpu_event_count", "GPU events", "count"),
            Field("gpu_busy_ns", "GPU busy", "time"),
            Field("gpu_busy_pct", "share", "share"),
            Field("gpu_idle_ns", "GPU idle", "time"),
        ]
        note += _of_no_step(use)
    if rows.height > ROWS:
        note += f"The {ROWS} longest of {rows.height} steps."
        rows = rows.sort("dur_ns", descending=True).head(ROWS).sort("step")
    return Section(
        "steps",
        "Steps",
        note.strip(),
        fields,
        rows.select("step", "dur_ns", "gpu_event_count", "gpu_time_ns", "gpu_busy_ns", "gpu_idle_ns", "gpu_busy_pct"),
        chart="steps",
    )


def _of_no_step(use: pl.DataFrame) -> str:
    """A note on GPU time missing from the steps: work launched outside steps, and idle time outside steps."""
    sums = use.group_by("scope").agg(pl.col("gpu_busy_ns", "gpu_idle_ns").sum()).rows_by_key("scope")
    (busy, idle), (in_steps, idle_in_steps) = (sums.get(scope, [(0, 0)])[0] for scope in ("run", "step"))
    outside, idle_outside = busy - in_steps, idle - idle_in_steps
    if in_steps + idle_in_steps == 0 or (outside + idle_outside) < _OUTSIDE * (busy + idle):
        return ""
    return f"Launched by no step: {duration(outside)} more of busy time, {duration(idle_outside)} of idle time. "


def phases_section(rows: pl.DataFrame, has_gpu: bool) -> Section:
    """All phases, with CPU and GPU time, and waiting and idle time."""
    rows = rows.with_columns(
        pl.Series("cpu_pct", shares(rows["cpu_ns"].to_list()), pl.Float64),
        pl.Series("gpu_time_pct", shares(rows["gpu_time_ns"].to_list()), pl.Float64),
    )
    fields = [Field("phase", "phase", "name"), Field("cpu_ns", "CPU time", "time"), Field("cpu_pct", "share", "share")]
    note = "CPU time is that of the main thread and adds up to the steps."
    if has_gpu:
        fields += [
            Field("cpu_waiting_ns", "waits for GPU", "time"),
            Field("gpu_time_ns", "GPU time", "time"),
            Field("gpu_time_pct", "share", "share"),
            Field("gpu_idle_ns", "GPU idle", "time"),
        ]
        note += " GPU time counts to the phase that launched it, idle time to the phase that the CPU is in then."
    if int(rows["gpu_busy_ns"].sum()) < _OVERLAP * int(rows["gpu_time_ns"].sum()):
        note += " Work that overlaps counts in full."
    return Section(
        "phases",
        "Phases",
        note,
        fields,
        rows.select(
            "phase",
            "cpu_ns",
            "cpu_pct",
            "cpu_waiting_ns",
            "gpu_event_count",
            "gpu_time_ns",
            "gpu_time_pct",
            "gpu_busy_ns",
            "gpu_idle_ns",
        ),
        chart="phases",
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


def module_types_section(trace: Trace, rank: int, has_gpu: bool, step: int | None = None) -> Section | None:
    """Modules summed by type; None if every type has a single module."""
    rows = answers.slowest_modules(trace, ROWS, by="type", rank=rank, step=step)
    if (rows["module_count"] == 1).all():
        return None
    return Section(
        "module_types",
        "Slowest types of modules",
        "Self: these modules without the modules in them, all passes. Total and passes: with them. Share: of all.",
        [Field("type", "type", "name"), Field("module_count", "modules", "count"), *_module_fields(rows, has_gpu)],
        rows,
        query="slowest_modules",
        chart="slowest_modules",
    )


def modules_section(
    trace: Trace,
    rank: int,
    has_gpu: bool,
    step: int | None = None,
    cover: pl.DataFrame | None = None,
    steps: pl.DataFrame | None = None,
) -> Section:
    """The modules with most self time.

    The note has the modules' share of GPU time, by the rows `cover` of `coverage`. Without a GPU, the note has the
    share of the time of `steps`.
    """
    rows = answers.slowest_modules(trace, ROWS, rank=rank, step=step)
    names = [module_name(path, kind) for path, kind in rows.select("path", "type").iter_rows()]
    whole = _share_of_modules(rows, has_gpu, cover, steps)
    return Section(
        "modules",
        "Slowest modules",
        "Self: the module without the modules in it, all passes. Total and passes: with them. Share: of all modules"
        + (f", which have {whole}." if whole else "."),
        [Field("module", "module", "name"), *_module_fields(rows, has_gpu)],
        rows.with_columns(module=pl.Series(names, dtype=pl.String)),
        query="slowest_modules",
        chart="slowest_modules",
    )


def _share_of_modules(rows: pl.DataFrame, has_gpu: bool, cover: pl.DataFrame | None, steps: pl.DataFrame | None) -> str:
    if has_gpu and cover is not None and (gpu_ns := int(cover["gpu_time_ns"].sum())):
        return f"{percent(100 * int(cover.filter(bucket='module')['gpu_time_ns'].sum()) / gpu_ns)} of the GPU time"
    known = rows.filter(pl.col("cpu_self_pct") > 0)
    steps_ns = 0 if steps is None else int(steps["dur_ns"].sum())
    if has_gpu or known.is_empty() or not steps_ns:
        return ""
    of_modules = 100 * float(known["cpu_self_ns"][0]) / float(known["cpu_self_pct"][0])
    return f"{percent(100 * of_modules / steps_ns)} of the time of the steps"


def sources_section(
    trace: Trace, rank: int, has_gpu: bool, lines: Lines | None, step: int | None = None
) -> Section | None:
    """The places in the code with most self time; None if the trace has no places."""
    rows = answers.slowest_sources(trace, ROWS, rank=rank, step=step)
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
        Field("place", "code", "place"),
        Field("module_count", "modules", "count"),
        Field(f"{device}_self_ns", f"{device.upper()} self", "time"),
        Field(f"{device}_self_pct", "share", "share"),
        Field("type", "most of it", "name"),
    ]
    return Section(
        "sources",
        "Slowest places in the code",
        "Time in a torch module counts to the line of your code that calls it. Share: of all modules.",
        [*fields, Field("line", "line", "name")] if any(code) else fields,
        rows,
        query="slowest_sources",
    )


def ops_section(slowest: pl.DataFrame, has_gpu: bool) -> Section:
    """The ops with most self time."""
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
        slowest,
        query="slowest_ops",
        chart="slowest_ops",
    )


def kernels_section(trace: Trace, rank: int, scope: Mapping[str, Any] = MappingProxyType({})) -> Section:
    """The slowest kernels, copies and memsets launched in the step, phase or module in `scope`."""
    whole = "in this part" if scope else "in the trace"
    return Section(
        "kernels",
        "Slowest kernels and copies",
        f"Share: of all GPU time {whole}. Kernels of one short name are one row; `slowest_kernels` has full names.",
        [
            Field("key", "kernel", "name"),
            Field("count", "runs", "count"),
            Field("gpu_time_ns", "GPU time", "time"),
            Field("gpu_time_pct", "share", "share"),
            Field("mean_ns", "mean", "time"),
            Field("max_ns", "max", "time"),
        ],
        answers.kernel_breakdown(trace, ROWS, by="short_name", rank=rank, **scope),
        query="kernel_breakdown",
        chart="slowest_kernels",
    )
