"""Repeated sequences of GPU work: candidates for fusion or for a single launch."""

from __future__ import annotations

import polars as pl

from hotline_analysis.answers import suffix_array
from hotline_analysis.errors import QueryParameterError
from hotline_analysis.run.trace import Trace
from hotline_analysis.vocabulary import Phase

_TIMES = ("gpu_ns", "gap_ns", "cpu_ns", "launch_ns", "saved_gap_ns", "saved_launch_ns")


def frequent_kernel_patterns(
    trace: Trace,
    limit: int | None = 10,
    *,
    min_length: int = 3,
    max_length: int = 256,
    min_count: int = 2,
    rank: int | None = None,
    device: int | None = None,
    step: int | None = None,
    phase: Phase | None = None,
    module: str | None = None,
    op: str | None = None,
) -> pl.DataFrame:
    """Repeated sequences of kernels, copies and memsets, the largest saving by a single launch first.

    Returns the first `limit` sequences, or all sequences if `limit` is `None`.

    The parts of a sequence follow each other directly on one stream. By default, the whole trace is searched. `rank`,
    `device`, `step`, `phase`, `module` (a path; includes submodules) and `op` (a name) restrict the search, and can be
    combined. A sequence has `min_length` to `max_length` parts, identified by short name, and repeats at least
    `min_count` times without overlapping itself. A sequence is listed only if every longer sequence containing it
    repeats less often. A run of one repeated kernel shows as the shortest allowed sequence.

    Returns one row per sequence. All times are sums over the occurrences:

    * `pattern`: short names joined by ` → `; `length` and `count`
    * `gpu_ns`: sum of durations
    * `gap_ns`: idle time of the stream between the parts
    * `cpu_ns`: from the start of the first launching call to the end of the last
    * `launch_ns`: launch time in these calls
    * `saved_gap_ns`: GPU time saved by one fused kernel or graph launch, the part of the gaps caused by launching
    * `saved_launch_ns`: CPU time saved, all launches except the first; 0 for work already launched by a CUDA graph
    * `first_event_id` and `first_rank`: the first occurrence

    See `hotline queries kernel_sequence` for the definition of launch time.

    Sequences may contain each other, so rows do not add up. Raises `QueryParameterError` for lengths or counts below 2,
    a `max_length` below `min_length`, or a negative `limit`.
    """
    if limit is not None and limit < 0:
        raise QueryParameterError(f"limit must be 0 or more, not {limit}")
    for name, value in (("min_length", min_length), ("min_count", min_count)):
        if value < 2:
            raise QueryParameterError(f"{name} must be 2 or more, not {value}")
    if max_length < min_length:
        raise QueryParameterError(f"max_length, {max_length}, is less than min_length, {min_length}")
    work = trace.query("kernel_sequence", rank=rank, device=device, step=step, phase=phase, module=module, op=op)
    work = work.with_columns(
        token=pl.col("short_name").rank("dense").cast(pl.Int64) - 1,
        # A row that does not directly follow the previous row on the same stream starts a new sequence.
        begins=(
            (pl.struct("rank", "device", "stream") != pl.struct("rank", "device", "stream").shift(1))
            | (pl.col("place") != pl.col("place").shift(1) + 1)
        ).fill_null(True),
    )
    cost = work["launch_gap_ns"] + work["launch_ns"]
    repeats = suffix_array.find(
        work["token"], work["begins"], cost, min_length=min_length, max_length=max_length, min_count=min_count
    )
    kernels = repeats.with_columns(row=pl.int_ranges("at", pl.col("at") + pl.col("length"))).explode("row")
    kernels = kernels.with_columns(work[kernels["row"]].drop("token", "begins"), is_first=pl.col("row") == pl.col("at"))
    launches = pl.col("launch_ns") > 0
    occurrences = kernels.group_by("pattern", "length", "at", maintain_order=True).agg(
        first_rank=pl.col("rank").first(),
        first_event_id=pl.col("event_id").first(),
        gpu_ns=(pl.col("end_ns") - pl.col("start_ns")).sum(),
        gap_ns=pl.col("gap_ns").filter(~pl.col("is_first")).sum(),
        cpu_ns=(pl.col("call_end_ns").filter(launches).max() - pl.col("call_ns").filter(launches).min()).fill_null(0),
        launch_ns=pl.col("launch_ns").sum(),
        saved_gap_ns=pl.col("launch_gap_ns").filter(~pl.col("is_first")).sum(),
        saved_launch_ns=pl.col("launch_ns").filter(~pl.col("is_first")).sum(),
    )
    rows = occurrences.group_by("pattern", "length", maintain_order=True).agg(
        pl.len().cast(pl.Int64).alias("count"),
        pl.col(*_TIMES).sum(),
        pl.col("first_rank", "first_event_id", "at").first(),
    )
    best = rows.sort(
        pl.col("saved_gap_ns") + pl.col("saved_launch_ns"),
        "gpu_ns",
        "at",
        "length",
        descending=[True, True, False, False],
    )
    best = best if limit is None else best.head(limit)
    names = best.select("pattern", row=pl.int_ranges("at", pl.col("at") + pl.col("length"))).explode("row")
    names = names.with_columns(part=work["short_name"].gather(names["row"]))
    names = names.group_by("pattern", maintain_order=True).agg(pl.col("part").str.join(" → "))
    return best.join(names, on="pattern", maintain_order="left").select(
        pl.col("part").alias("pattern"),
        pl.col("length").cast(pl.Int64),
        "count",
        *_TIMES,
        "first_rank",
        "first_event_id",
    )
