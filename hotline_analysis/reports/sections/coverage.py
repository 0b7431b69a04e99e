"""The reliability of the report: GPU time by bucket, and module calls in doubt."""

from __future__ import annotations

import polars as pl

from hotline_analysis.reports.content import Field, Section
from hotline_analysis.text.formats import duration, percent, shares

_NAMED = 3  # regions of compiled code


def coverage_section(cover: pl.DataFrame) -> Section:
    """All GPU time of the rank by bucket."""
    rows = cover.with_columns(pl.Series("gpu_time_pct", shares(cover["gpu_time_ns"].to_list()), pl.Float64))
    return Section(
        "coverage",
        "What the GPU time belongs to",
        "All GPU time in the file: what a module explains, and named buckets for the rest.",
        [
            Field("bucket", "bucket", "name"),
            Field("event_count", "events", "count"),
            Field("gpu_time_ns", "GPU time", "time"),
            Field("gpu_time_pct", "share", "share"),
        ],
        rows.select("bucket", "event_count", "gpu_time_ns", "gpu_time_pct"),
        chart="coverage",
    )


def coverage_line(cover: pl.DataFrame) -> str:
    """All GPU time by bucket on one line. The shares add up to 100.0 %."""
    if cover["gpu_time_ns"].sum() == 0:
        return "The trace has no GPU time."
    times = cover["gpu_time_ns"].to_list()
    parts = ", ".join(
        f"{bucket} {percent(share)}" for bucket, share in zip(cover["bucket"], shares(times), strict=True) if share
    )
    return f"GPU time in the file: {duration(sum(times))} = {parts}."


def doubts_line(doubts: pl.DataFrame, has_gpu: bool) -> str:
    """The number of doubtful or missing module calls, with the affected time; empty if all calls are certain."""
    doubtful, missing, cpu_ns, gpu_ns = doubts.select(
        pl.sum("doubtful_call_count", "missing_call_count", "cpu_time_ns", "gpu_time_ns")
    ).row(0)
    parts = []
    if doubtful:
        time = f"{duration(gpu_ns)} of GPU time, " if has_gpu else ""
        parts.append(
            f"{doubtful:,} of the module calls {'is' if doubtful == 1 else 'are'} doubtful"
            f" ({time}{duration(cpu_ns)} of CPU time in forward): they may belong to other modules."
        )
    if missing:
        parts.append(
            f"{missing:,} call{' of a module' if missing == 1 else 's of modules'} could not be placed:"
            f" no op shows {'it' if missing == 1 else 'them'}."
        )
    return "".join(f" {part}" for part in parts)


def compiled_line(regions: pl.DataFrame, has_gpu: bool) -> str:
    """A sentence on regions compiled by torch.compile; empty without compiled regions."""
    if regions.is_empty():
        return ""
    calls, cpu_ns, gpu_ns = regions.select(pl.sum("call_count", "cpu_ns", "gpu_ns")).row(0)
    names = regions["region"].head(_NAMED).to_list()
    more = regions.height - len(names)
    which = ", ".join(names) + (f" and {more} more" if more else "")
    time = f" and {duration(gpu_ns)} of the GPU" if has_gpu else ""
    text = (
        f" Compiled code runs {calls:,} time{'' if calls == 1 else 's'}"
        f" (region{'' if regions.height == 1 else 's'} {which}), {duration(cpu_ns)} on the CPU{time} in forward:"
        " it counts to the module that calls it, but for ops that show another."
    )
    parts = regions["regions_in_pass"].max()
    if isinstance(parts, int) and parts > 1:
        text += (
            f" Up to {parts} regions run in one forward pass: graph breaks part it, or functions in it are compiled"
            " one by one."
        )
    return text
