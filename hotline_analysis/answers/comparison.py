"""Differences between two runs, ranks or steps."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Literal

import polars as pl

from hotline_analysis.answers.generated import cpu_parts, gpu_parts
from hotline_analysis.answers.periods import period
from hotline_analysis.answers.recorded import has_gpu_work
from hotline_analysis.errors import QueryParameterError
from hotline_analysis.run.scope import check_scope, has_module
from hotline_analysis.run.trace import Trace
from hotline_analysis.text.formats import one_of
from hotline_analysis.vocabulary import PHASES, Phase

Level = Literal["step", "part", "phase", "module", "region", "op", "kernel"]
Timeline = Literal["gpu", "cpu"]

# The columns that match the rows of both sides.
_KEYS: dict[str, tuple[str, ...]] = {
    "step": (),
    "part": ("part",),
    "phase": ("phase",),
    "module": ("module_path",),
    "region": ("phase", "region"),
    "op": ("part", "op"),
    "kernel": ("part", "op", "kernel"),
}


@dataclass(frozen=True)
class Chosen:
    """Scope of one side of a comparison: a run, or a single rank, step or device of the run."""

    trace: Trace
    rank: int | None = None
    step: int | None = None
    device: int | None = None


@dataclass(frozen=True)
class Side:
    """One side of a comparison: the parts of its steps, the number of steps, and the time outside steps."""

    chosen: Chosen
    parts: pl.DataFrame
    step_count: int
    outside_ns: int
    blocks: pl.DataFrame
    """The block of each `step`, if step kinds repeat periodically (every fourth step, for example); else empty."""
    period: int
    """Steps per block; 1 without blocks."""


@dataclass(frozen=True)
class Comparison:
    """Two sides, ready for comparison at any level. `diff` builds a single level, a report uses several."""

    a: Side
    b: Side
    timeline: Timeline
    sigmas: float

    def by(self, level: Level) -> pl.DataFrame:
        """Compare at one level; see `diff` for the columns."""
        if level not in _KEYS:
            raise QueryParameterError(f"by must be {one_of(list(_KEYS))}, not {level!r}")
        if level == "kernel" and self.timeline == "cpu":
            raise QueryParameterError("the CPU runs no kernels", hint="Compare by op, or on the GPU's timeline.")
        return _compare(self, level)


def diff(
    a: Trace,
    b: Trace,
    *,
    by: Level = "op",
    timeline: Timeline | None = None,
    rank_a: int | None = None,
    rank_b: int | None = None,
    step_a: int | None = None,
    step_b: int | None = None,
    device_a: int | None = None,
    device_b: int | None = None,
    phase: Phase | None = None,
    module: str | None = None,
    sigmas: float = 3.0,
) -> pl.DataFrame:
    """Why the steps of `b` are slower or faster than the steps of `a`: a waterfall that adds up to the difference.

    Compares the mean of all steps of all ranks, or of `rank_a` with `rank_b`, `device_a` with `device_b` and `step_a`
    with `step_b`; `a` and `b` may be the same trace. `phase` and `module` (a path, including submodules) restrict both.
    `timeline` is `gpu` (busy and idle time of the devices) or `cpu` (the main thread). The default is the GPU if both
    sides have GPU work. `by` is the level:

    * `step`: one row, the whole step;
    * `part`: class of the work, or the cause of idle time;
    * `phase`; `module`; `region` (innermost user annotation around the launch, else the outermost op, by phase);
    * `op`: innermost op; work of a CUDA graph counts to the op around the graph launch, the only known op;
    * `kernel`: short name of the kernel, by op.

    Modules, regions and ops are matched by name, so runs on different devices can be compared. The columns are:

    * the columns of the level
    * `change`: `added`, `removed`, `slower`, `faster`, `noise` or `same`
    * `a_ns` and `b_ns`: mean per step; `delta_ns`: `b_ns - a_ns`
    * `a_sd_ns` and `b_sd_ns`: standard deviation between steps; NULL with a single step
    * `noise_ns`: a smaller difference is `noise`; NULL if neither side has two steps
    * `a_count` and `b_count`: calls or GPU events per step
    * `a_graph_count` and `b_graph_count`: the part launched by CUDA graphs

    `noise_ns` is `sigmas` standard errors of the difference of two means, after Welch. If step kinds repeat
    periodically (every fourth step, for example), the standard error is taken between blocks of steps, plus the effect
    of steps outside complete blocks on the mean.

    Means are rounded so that the rows of every level add up to the same integers: `delta_ns` is exactly the difference
    of the steps. Work launched outside steps is not compared. In a run without any work in steps, all work is compared,
    in rows without a phase. The largest differences come first. Raises `QueryParameterError` for an unknown rank, step,
    phase, module or level.
    """
    left, right = Chosen(a, rank_a, step_a, device_a), Chosen(b, rank_b, step_b, device_b)
    return compare(left, right, timeline=timeline, phase=phase, module=module, sigmas=sigmas).by(by)


def compare(
    a: Chosen,
    b: Chosen,
    *,
    timeline: Timeline | None = None,
    phase: Phase | None = None,
    module: str | None = None,
    sigmas: float = 3.0,
) -> Comparison:
    """Read both sides once for comparisons at several levels. The arguments are the arguments of `diff`."""
    if timeline not in (None, "gpu", "cpu"):
        raise QueryParameterError(f"timeline must be gpu or cpu, not {timeline!r}")
    if not sigmas >= 0:
        raise QueryParameterError(f"sigmas must be 0 or more, not {sigmas}")
    if phase is not None and phase not in PHASES:
        raise QueryParameterError(f"phase must be {one_of(PHASES)}, not {phase!r}")
    for side, name in ((a, "trace a"), (b, "trace b")):
        check_scope(side.trace, {"rank": side.rank, "device": side.device, "step": side.step}, name)
    if module is not None and not has_module(b.trace, module, rank=b.rank):
        check_scope(a.trace, {"rank": a.rank, "module": module}, "trace a")
    if timeline is None:
        timeline = "gpu" if all(has_gpu_work(side.trace, rank=side.rank) for side in (a, b)) else "cpu"
    if timeline == "cpu" and (a.device, b.device) != (None, None):
        raise QueryParameterError("the CPU has no device", hint="Compare on the GPU's timeline.")
    if replace(a, step=None) == replace(b, step=None):
        # Two steps of the same rank are read together.
        parts_a = parts_b = _parts(replace(a, step=None), timeline, phase, module)
    else:
        # Each run has a separate database, so two runs are read in parallel.
        with ThreadPoolExecutor(1 if a.trace is b.trace else 2) as pool:
            read_a = pool.submit(_parts, a, timeline, phase, module)
            read_b = pool.submit(_parts, b, timeline, phase, module)
            parts_a, parts_b = read_a.result(), read_b.result()
    sides = [_side(a, parts_a), _side(b, parts_b)]
    for noun, value in (("phase", phase), ("module", module)):
        if value is not None and all(side.parts.is_empty() for side in sides):
            raise QueryParameterError(f"neither trace has time in the {noun} {value!r}")
    return Comparison(sides[0], sides[1], timeline, sigmas)


def _parts(chosen: Chosen, timeline: Timeline, phase: Phase | None, module: str | None) -> pl.DataFrame:
    trace, rank, step, device = chosen.trace, chosen.rank, chosen.step, chosen.device
    if module is not None and not has_module(trace, module, rank=rank):
        # Only the other side has the module: all of its time was added or removed.
        return _parts(chosen, timeline, phase, None).clear()
    if timeline == "cpu":
        parts = cpu_parts(trace, rank=rank, step=step, phase=phase, module=module)
        return parts.with_columns(graph_count=pl.lit(0, pl.Int64))
    parts = gpu_parts(trace, rank=rank, device=device, step=step, phase=phase, module=module)
    # Idle time gets no op: the op at the end of the idle time did not cause it.
    return parts.with_columns(op=pl.when(~pl.col("part").str.starts_with("idle")).then(pl.col("op")))


def _side(chosen: Chosen, parts: pl.DataFrame) -> Side:
    step_rows = chosen.trace.of(chosen.rank).sql(
        "select step from step where $rank is null or rank = $rank", rank=chosen.rank
    )
    if chosen.step is not None:
        step_rows = step_rows.filter(pl.col("step") == chosen.step)
        parts = parts.filter(pl.col("step") == chosen.step)
    is_outside = pl.col("step").is_null()
    outside_ns = int(parts.filter(is_outside)["time_ns"].sum())
    if not parts["step"].is_null().all():
        parts = parts.filter(~is_outside)
    return Side(chosen, parts, max(1, step_rows.height), outside_ns, *_blocks(chosen))


_NO_BLOCKS = {"step": pl.Int64, "block": pl.Int64}


def _blocks(chosen: Chosen) -> tuple[pl.DataFrame, int]:
    """The steps of a rank in blocks with equal numbers of steps of each kind, and the block length."""
    ranks = chosen.trace.ranks
    if chosen.step is not None or (chosen.rank is None and len(ranks) > 1):
        return pl.DataFrame(schema=_NO_BLOCKS), 1
    lengths = chosen.trace.query("step_lengths", rank=min(ranks) if chosen.rank is None else chosen.rank)
    lengths = lengths.sort("start_ns")
    steps = lengths.filter(pl.col("kind").is_not_null().cum_max())
    length = 1 if steps["kind"].has_nulls() else period(steps["kind"].to_list())
    if length == 1:
        return pl.DataFrame(schema=_NO_BLOCKS), 1
    full_blocks = steps.head(length * (steps.height // length))
    return full_blocks.select("step", block=pl.int_range(pl.len()) // length), length


def _compare(sides: Comparison, level: Level) -> pl.DataFrame:
    keys = list(_KEYS[level])
    a, b = _summary(sides.a, keys, "a"), _summary(sides.b, keys, "b")
    rows = a.join(b, on=[*keys, "all"], how="full", coalesce=True, nulls_equal=True).sort(keys, nulls_last=True)
    means = rows.with_columns(
        _mean("a_sum", sides.a.step_count).alias("a_ns"), _mean("b_sum", sides.b.step_count).alias("b_ns")
    )
    noise = _noise(means, sides)
    delta = pl.col("b_ns") - pl.col("a_ns")
    change = (
        pl.when(pl.col("a_sum").is_null())
        .then(pl.lit("added"))
        .when(pl.col("b_sum").is_null())
        .then(pl.lit("removed"))
        .when(delta == 0)
        .then(pl.lit("same"))
        .when(delta.abs() <= pl.col("noise_ns"))
        .then(pl.lit("noise"))
        .when(delta > 0)
        .then(pl.lit("slower"))
        .otherwise(pl.lit("faster"))
    )
    counts = [pl.col(f"{side}_{name}").fill_null(0.0) for side in "ab" for name in ("count", "graph_count")]
    return (
        means.with_columns(noise)
        .with_columns(change.alias("change"), delta.alias("delta_ns"), *counts)
        .sort([pl.col("delta_ns").abs(), *keys], descending=[True, *(False for _ in keys)], nulls_last=True)
        .select(
            *keys,
            "change",
            "a_ns",
            "b_ns",
            "delta_ns",
            "a_sd_ns",
            "b_sd_ns",
            "noise_ns",
            "a_count",
            "b_count",
            "a_graph_count",
            "b_graph_count",
        )
    )


def _summary(side: Side, keys: list[str], name: str) -> pl.DataFrame:
    """Sum, standard deviation between steps, and counts of each key. A step without the key counts as 0 ns."""
    n = side.step_count
    per_step = side.parts.group_by(["rank", "step", *keys]).agg(pl.col("time_ns", "count", "graph_count").sum())
    in_step = pl.col("step").is_not_null()
    times = pl.col("time_ns").filter(in_step)
    mean = times.sum() / n
    squares = (times - mean).pow(2).sum() + (n - in_step.sum()) * mean.pow(2)
    spread = (squares / (n - 1)).sqrt() if n > 1 else pl.lit(None, pl.Float64)
    summary = (
        per_step.with_columns(all=pl.lit(0))
        .group_by(["all", *keys])
        .agg(
            pl.col("time_ns").sum().alias(f"{name}_sum"),
            # Work outside steps has no deviation between steps.
            pl.when(in_step.any()).then(spread).alias(f"{name}_sd_ns"),
            (pl.col("count").sum() / n).alias(f"{name}_count"),
            (pl.col("graph_count").sum() / n).alias(f"{name}_graph_count"),
        )
    )
    error = pl.col(f"{name}_sd_ns") / n**0.5
    if side.period == 1:
        return summary.with_columns(error.alias(f"{name}_error_ns"))
    # Parts of every fourth step, for example, are not noise: blocks of four steps are alike.
    number = side.blocks["block"].n_unique()
    squares = pl.col("time_ns").pow(2).sum() - pl.col("time_ns").sum().cast(pl.Float64).pow(2) / number
    of_blocks = (
        per_step.join(side.blocks, on="step")
        .group_by([*keys, "block"])
        .agg(pl.col("time_ns").sum().cast(pl.Float64))
        .with_columns(all=pl.lit(0))
        .group_by(["all", *keys])
        .agg(
            block_error=(squares.clip(0) / (number - 1)).sqrt() / (side.period * number**0.5),
            block_mean=pl.col("time_ns").sum() / (side.period * number),
        )
    )
    rows = summary.join(of_blocks, on=["all", *keys], how="left", nulls_equal=True)
    # Incomplete blocks at the start and end of a recording over-represent some step kinds. This is not a change.
    offset = pl.col("block_mean") - pl.col(f"{name}_sum") / n
    of_both = (pl.col("block_error").pow(2) + offset.pow(2)).sqrt()
    return rows.with_columns(pl.coalesce(of_both, error).alias(f"{name}_error_ns")).drop("block_error", "block_mean")


def _mean(column: str, n: int) -> pl.Expr:
    """Integer means that add up: each mean is the difference of the rounded-down cumulative means."""
    so_far = pl.col(column).fill_null(0).cum_sum()
    return so_far // n - (so_far // n).shift(1, fill_value=0)


def _noise(means: pl.DataFrame, sides: Comparison) -> pl.Expr:
    """The smallest difference above noise. With one step on a side, the other side's deviation counts for both."""
    n_a, n_b = sides.a.step_count, sides.b.step_count
    errors = {}
    for side, other, n in (("a", "b", n_a), ("b", "a", n_b)):
        # A key missing on a side takes exactly 0 ns in each step of the side.
        error = pl.when(pl.col(f"{side}_sum").is_null()).then(0.0).otherwise(pl.col(f"{side}_error_ns"))
        fallback = pl.when(pl.col(f"{other}_sum").is_null() & (n_a + n_b > 2)).then(0.0).otherwise(f"{other}_sd_ns")
        errors[side] = error if n > 1 else fallback
    return (sides.sigmas * (errors["a"].pow(2) + errors["b"].pow(2)).sqrt()).alias("noise_ns")
