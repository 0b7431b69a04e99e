"""Functions that samples of warm-up steps show: likely places where the trace itself names none."""

from __future__ import annotations

import polars as pl

from hotline_analysis.run.trace import Trace

_LIKELY = 0.5
"""Share of the samples from which on a function is likely to have the time: it has most of them."""
_SURELY = 80.0
"""Per cent of the samples from which on a function is likely to have the time of ops in modules, too. Our choice."""


def with_samples(trace: Trace, rank: int, pieces: pl.DataFrame) -> pl.DataFrame:
    """The pieces without a region or function, named by what the samples of warm-up steps show at their place.

    Python in a module is named so, too: the samples tell which function of the user has most of a phase.

    The place is inside the same mark, or between the same marks: those that the samples have, since a batch made by
    hand, say, is a phase of the trace, but no mark of theirs. The innermost function of the user with most of the
    samples names it, and if none has half of them, a function around those that has.
    """
    pieces = pieces.with_columns(sampled_pct=pl.lit(None, pl.Float64))
    is_module = pl.col("kind") == "module"
    is_op = is_module & (pl.col("limit") == "cpu_tensor")
    is_open = pl.col("kind").is_in(["phase", "rest"]) | is_op | (is_module & (pl.col("limit") == "python"))
    samples = trace.sql(
        "select inside_mark, after_mark, before_mark, function, file || ':' || line as sampled_source, is_loop,"
        " sum(sample_count)::bigint as own, sum(inclusive_count)::bigint as inclusive,"
        " max(gap_sample_count) as whole from sampled_frame where rank = $rank and is_user and function is not null"
        " group by all",
        rank=rank,
    )
    if samples.is_empty() or pieces.filter(is_open).is_empty():
        return pieces
    # Inside a mark, the marks around it do not matter. A loss that the user wrote is no mark, but lies between these.
    is_inside = pl.col("inside_mark").is_not_null()
    is_loss = pl.col("after_mark").is_in(["forward", "loss"]) & pl.col("before_mark").is_in(["loss", "backward"])
    marked = pl.concat(
        [samples.filter(is_inside), samples.filter(~is_inside & is_loss).with_columns(inside_mark=pl.lit("loss"))]
    )
    inside = marked.group_by("inside_mark", "function", "sampled_source", "is_loop").agg(
        pl.col("own", "inclusive").sum()
    )
    totals = (
        marked.group_by("inside_mark", "after_mark", "before_mark", "whole")
        .agg()
        .group_by("inside_mark")
        .agg(pl.col("whole").sum())
    )
    of_phase = _likely(inside.join(totals, on="inside_mark").filter(~pl.col("is_loop")), ["inside_mark"])
    gaps = samples.filter(~is_inside)
    of_gap = _likely(gaps, ["after_mark", "before_mark"])
    # after a mark, whatever follows: for the last step, and for marks too short for the samples
    wholes = gaps.unique(["after_mark", "before_mark"]).group_by("after_mark").agg(pl.col("whole").sum())
    after = gaps.group_by("after_mark", "function", "sampled_source", "is_loop").agg(pl.col("own", "inclusive").sum())
    of_after = _likely(after.join(wholes, on="after_mark"), ["after_mark"])
    marks = pl.concat([samples[name] for name in ("inside_mark", "after_mark", "before_mark")]).drop_nulls().unique()
    met = (
        _between_marks(trace, rank, pieces, marks.to_list())
        .join(of_phase, left_on="phase", right_on="inside_mark", how="left", maintain_order="left")
        .join(of_gap, on=["after_mark", "before_mark"], how="left", maintain_order="left", suffix="_of_gap")
        .join(of_after, on="after_mark", how="left", maintain_order="left", suffix="_of_after")
    )
    is_gap = (pl.col("kind") == "rest") | ~pl.col("phase").is_in(marks.to_list())
    function, source, share = (
        pl.when(is_open & is_gap).then(pl.coalesce(f"{name}_of_gap", f"{name}_of_after")).when(is_open).then(name)
        for name in ("function_of_samples", "sampled_source", "share_pct")
    )
    # Modules tell more of ops than their own `forward`, and than a function that may have half of the time.
    is_vague = is_op & (function.str.ends_with("forward") | (share < _SURELY)).fill_null(True)
    is_sampled = function.is_not_null() & ~is_vague
    return met.with_columns(
        kind=pl.when(is_sampled).then(pl.lit("sampled")).otherwise("kind"),
        place=pl.when(is_sampled).then(function).otherwise("place"),
        source=pl.when(is_sampled).then(source).otherwise("source"),
        own_source=pl.when(is_sampled).then(source).otherwise("own_source"),
        sampled_pct=share,
    ).select(pieces.columns)


def _between_marks(trace: Trace, rank: int, pieces: pl.DataFrame, marks: list[str]) -> pl.DataFrame:
    """The pieces with the marks before and after them on the main thread: `after_mark` and `before_mark`.

    Steps repeat: before the first mark of the trace is the last one, and after the last one the first.
    """
    spans = trace.sql(
        "select start_ns, phase from phase_span where rank = $rank and is_main and end_ns > start_ns order by start_ns",
        rank=rank,
    ).filter(pl.col("phase").is_in(marks))
    numbered = pieces.with_row_index("piece").sort("start_ns")
    met = numbered.join_asof(
        spans.select(after_mark="phase", started_ns="start_ns"), left_on="start_ns", right_on="started_ns"
    ).join_asof(
        spans.select(before_mark="phase", starts_ns="start_ns"),
        left_on="start_ns",
        right_on="starts_ns",
        strategy="forward",
    )
    first, last = spans["phase"].first(), spans["phase"].last()
    return (
        met.sort("piece")
        .drop("piece", "started_ns", "starts_ns")
        .with_columns(pl.col("after_mark").fill_null(last), pl.col("before_mark").fill_null(first))
    )


def _likely(samples: pl.DataFrame, marks: list[str]) -> pl.DataFrame:
    """The function of the user that most samples of a place show, with its share; no row where none has half."""
    # Of own samples first: the innermost function tells most.
    counted = samples.with_columns(
        is_own=pl.col("own") >= _LIKELY * pl.col("whole"), count=pl.max_horizontal("own", "inclusive")
    ).filter(pl.col("count") >= _LIKELY * pl.col("whole"))
    best = counted.sort("is_own", "is_loop", "own", "sampled_source", descending=[True, False, True, False]).unique(
        marks, keep="first", maintain_order=True
    )
    number = pl.when("is_own").then("own").otherwise("count")
    return best.select(
        *marks,
        "sampled_source",
        function_of_samples="function",
        share_pct=(100 * number / pl.col("whole")).clip(0, 100),
    )
