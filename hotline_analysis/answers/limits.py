"""Limits of a step: the parts of the critical path, and the step time without each part."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl

from hotline_analysis.answers.dependencies import DependencyGraph
from hotline_analysis.answers.longest import Numbers
from hotline_analysis.answers.overlap import within
from hotline_analysis.answers.path import dependency_graph
from hotline_analysis.answers.profiler_work import ProfilerWork
from hotline_analysis.answers.recorded import has_gpu_work
from hotline_analysis.answers.replay import Replay
from hotline_analysis.answers.waiting import loop_waits_ns
from hotline_analysis.run.scope import check_scope
from hotline_analysis.run.trace import Trace
from hotline_analysis.vocabulary import COMBINED_CAUSES

_IS_HOST = pl.col("kind").is_in(["host", "handoff", "return"]) & (pl.col("bound_by") != "copy")
LIMIT = (
    pl.when(pl.col("bound_by") == "other_stage")
    .then(pl.lit("other_stage"))
    .when(_IS_HOST)
    .then(pl.col("activity").replace(COMBINED_CAUSES).fill_null("python"))
    .otherwise(
        pl.col("bound_by").replace(
            {"gpu_compute": "computing", "copy": "copying", "kernel_gap": "queued", **COMBINED_CAUSES}
        )
    )
)
"""The limit to which an edge of the dependency graph counts."""


@dataclass(frozen=True)
class TypicalStep:
    """The representative step of a step kind, and its replay.

    `loops` is false for a trace without steps, whose whole time is replayed once. `kind` is the number of the kind in
    `step_kinds`, `count` the number of steps of this kind, and `total_ns` their total time. `least_ns`, `median_ns` and
    `most_ns` are lengths of steps of this kind.
    """

    step: int
    kind: int
    loops: bool
    replay: Replay
    count: int
    total_ns: int
    median_ns: int
    least_ns: int
    most_ns: int

    @property
    def scale(self) -> float:
        """Total time of all steps of this kind divided by the time of one replayed step."""
        return self.total_ns / max(self.replay.period_ns, 1)


LEAST_PCT = 2.0
"""Smallest share of the loop that matters: the minimum gain of an advice, and the minimum of time between steps."""

# Up to this number of events, a loop of unlike steps is replayed whole. Measured: 0.4 s of CPU for 20,000
# events.
_EVENTS_REPLAYED_WHOLE = 1 << 15


@dataclass(frozen=True)
class WholeLoop:
    """All steps of a loop replayed once, from the start of its first counted step to the end of the last one.

    A loop with several kinds of steps can depend on their order: the GPU may work off in short steps the launches of a
    long step, so no kind of steps, replayed as if it followed itself, waits as the loop does. Nor does a step wait as
    if it followed itself where time lies between steps. `replay` has the column `counted`, the part of each edge that
    lies inside counted steps, from 0 to 1. The main thread begins the first step at `start_ns` and ends the last one at
    `end_ns`.
    """

    replay: Replay
    start_ns: int
    end_ns: int

    def path(self) -> tuple[Numbers, Numbers]:
        """The edges of the critical path, the last edge first, and the nanoseconds of each inside counted steps."""
        rows, times = self.replay.observed_path
        inside = self.replay.edges["counted"].to_numpy()[rows] * times
        return rows, inside.round().astype(np.int64)

    def gained(self, which: pl.Expr) -> float:
        """The share of the loop's time that is gained if the selected edges inside counted steps take no time."""
        period = self.replay.period_ns
        return 1 - self.replay.without_ns(which.fill_null(False) & (pl.col("counted") > 0)) / max(period, 1)


@dataclass(frozen=True)
class StepLoop:
    """All counted steps of a rank: one typical step per kind, weighted by the number of steps of the kind.

    `whole` replays all steps in their order, if one step does not stand for all (`_stands_for_all`) and events are few.

    `loop_ns` is the time from the start of the first counted step to the end of the last one. It includes `between_ns`,
    the time between steps, which no change inside a step shortens. `not_counted` lists the other steps with their role
    in `step_lengths`. `profiler_ns` is the time that the profiler's own work added to the counted steps; no other time
    includes it. All methods return times of a mean step, in nanoseconds.
    """

    kinds: tuple[TypicalStep, ...]
    count: int
    loop_ns: int
    not_counted: tuple[tuple[int, str], ...]
    profiler_ns: int = 0
    whole: WholeLoop | None = None

    @property
    def typical(self) -> TypicalStep:
        """The typical step of the most common kind."""
        return self.kinds[0]

    @property
    def loops(self) -> bool:
        """Whether the trace has steps."""
        return self.typical.loops

    @property
    def mean_ns(self) -> int:
        """Mean step time: loop time divided by the number of steps."""
        return self.loop_ns // self.count

    @property
    def between_ns(self) -> int:
        """Time of the loop between its steps."""
        return max(0, self.loop_ns - sum(kind.total_ns for kind in self.kinds))

    def mean_of(self, time_of: Callable[[TypicalStep], int]) -> int:
        """Mean step time if the replayed step of each kind takes `time_of(kind)` nanoseconds."""
        if len(self.kinds) == 1 and not self.between_ns:
            return round(self.loop_ns * time_of(self.typical) / max(self.typical.replay.period_ns, 1) / self.count)
        total = sum(kind.scale * time_of(kind) for kind in self.kinds)
        return round((total + self.between_ns) / self.count)

    def without_ns(self, which: pl.Expr) -> int:
        """Mean step time if the selected edges take no time."""
        if self.whole:
            return round(self.loop_ns * (1 - self.whole.gained(which)) / self.count)
        return self.mean_of(lambda kind: kind.replay.without_ns(which))

    def path_by(self, part: pl.Expr) -> pl.DataFrame:
        """Critical path of a mean step, by an expression over the edges: the columns `part` and `path_ns`.

        `path_ns` adds up to `mean_ns` minus the time between steps.
        """
        paths = []
        for replay, rows, times, share in self._paths():
            so_far = (pl.col("path_ns").cum_sum() * share).round().cast(pl.Int64)
            # A part has a number, because texts of each edge would be copied.
            parts = replay.edges.lazy().select(part=part.cast(pl.Categorical)).collect()["part"]
            path = pl.DataFrame({"part": parts.gather(rows), "path_ns": times})
            path = path.with_columns(path_ns=so_far - so_far.shift(1, fill_value=0)).filter(pl.col("path_ns") > 0)
            paths.append(
                path.group_by("part").agg(pl.col("path_ns").sum()).with_columns(pl.col("part").cast(pl.String))
            )
        return pl.concat(paths).group_by("part").agg(pl.col("path_ns").sum())

    def _paths(self) -> Iterator[tuple[Replay, Numbers, Numbers, float]]:
        """Replays, the edges and times of their critical paths, and the time in a mean step of a nanosecond there."""
        if self.whole:
            rows, times = self.whole.path()
            yield self.whole.replay, rows, times, (self.mean_ns - self.between_ns / self.count) / max(times.sum(), 1)
            return
        for kind in self.kinds:
            share = kind.total_ns / self.count / max(kind.replay.period_ns * kind.replay.path_steps, 1)
            yield kind.replay, *kind.replay.observed_path, share


def step_loop(trace: Trace, rank: int | None = None) -> StepLoop | None:
    """The counted steps of a rank (default: the lowest rank), each kind replayed; `None` if no step counts.

    The result is cached in the trace because several answers use it.
    """
    check_scope(trace, {"rank": rank})
    chosen_rank = min(trace.ranks) if rank is None else rank
    loops: dict[int, StepLoop | None] = trace.memo.setdefault(StepLoop, {})
    if chosen_rank not in loops:
        loops[chosen_rank] = _step_loop(trace, chosen_rank)
    return loops[chosen_rank]


def typical_step(trace: Trace, rank: int | None = None) -> TypicalStep | None:
    """The typical step of a rank's most common kind (default: the lowest rank); `None` if no step takes time."""
    loop = step_loop(trace, rank)
    return None if loop is None else loop.typical


def _step_loop(trace: Trace, rank: int) -> StepLoop | None:
    lengths = trace.query("step_lengths", rank=rank)
    steps = lengths.filter(pl.col("kind").is_not_null())
    if steps.is_empty():
        return None
    profiler = ProfilerWork(trace, rank)
    kinds = [
        _typical_step(trace, rank, steps.filter(kind=number), profiler)
        for number in steps["kind"].unique().sort().to_list()
    ]
    typical_steps = [kind for kind in kinds if kind is not None]
    if not typical_steps or typical_steps[0].kind != 0:
        return None
    ends = steps["begin_ns"] + steps["length_ns"]
    other_steps = lengths.filter(pl.col("kind").is_null()).select("step", "role").rows()
    profiler_ns = int(steps["profiler_ns"].sum())
    loop_ns = int(ends.max() - steps["begin_ns"].min()) - profiler_ns  # type: ignore[operator, arg-type]
    if not typical_steps[0].loops:
        loop_ns = typical_steps[0].total_ns
    if not loop_ns:
        return None
    whole = _whole_loop(trace, rank, steps, profiler)
    return StepLoop(tuple(typical_steps), steps.height, loop_ns, tuple(other_steps), profiler_ns, whole)


def _whole_loop(trace: Trace, rank: int, steps: pl.DataFrame, profiler: ProfilerWork) -> WholeLoop | None:
    """The replay of all steps in their order; `None` where one step stands for all, or with too many events."""
    if steps["evidence"][0] == "whole_trace":
        return None
    spans = steps.select(
        track_id=pl.lit(0), start_ns="begin_ns", end_ns=pl.col("begin_ns") + pl.col("length_ns"), length="length_ns"
    )
    start_ns, end_ns = steps.select(pl.col("start_ns").min(), pl.col("end_ns").max()).row(0)
    (loop_ns,) = spans.select(pl.col("end_ns").max() - pl.col("start_ns").min()).row(0)
    has_little_between = 100 * (loop_ns - spans["length"].sum()) < LEAST_PCT * loop_ns
    if steps["kind"].n_unique() == 1 and has_little_between and _stands_for_all(trace, rank, steps):
        return None
    sql = "select count(*) from event where rank = $rank and start_ns < $end_ns and end_ns > $start_ns"
    if trace.of(rank).sql(sql, rank=rank, start_ns=start_ns, end_ns=end_ns).item() > _EVENTS_REPLAYED_WHOLE:
        return None
    graph = dependency_graph(trace, rank=rank, start_ns=start_ns, end_ns=end_ns, until="launched", frames=False)
    edges = profiler.taken_out(graph).edges
    if edges.is_empty():
        return None
    inside = within(edges.with_columns(track_id=pl.lit(0)), spans, "length")
    recorded = pl.col("end_ns") - pl.col("start_ns")
    counted = (pl.lit(inside) / recorded).fill_nan(1.0).fill_null(1.0).clip(0.0, 1.0)
    return WholeLoop(Replay(DependencyGraph(edges.with_columns(counted=counted)), loops=False), start_ns, end_ns)


def _stands_for_all(trace: Trace, rank: int, steps: pl.DataFrame) -> bool:
    """Whether the representative step has the phases of all steps: each share of the main thread's time is alike.

    A step of median length may have an unusual mix, for example if another process took the CPU during its optimizer.
    With a GPU, the mix says little: the main thread waits for the GPU in one phase or another.
    """
    if has_gpu_work(trace, rank=rank):
        return True
    times = (
        trace.of(rank)
        .sql("select step, phase, time_ns from step_activity where rank = $rank and region is null", rank=rank)
        .join(steps.select("step", "stands_for"), on="step")
    )
    if times.is_empty():
        return True
    of_typical = pl.col("time_ns").filter("stands_for").sum()
    phases = times.group_by("phase").agg(step_ns=of_typical, loop_ns=pl.col("time_ns").sum())
    of_step, of_loop = (100 * pl.col(name) / pl.col(name).sum() for name in ("step_ns", "loop_ns"))
    apart = phases.select((of_step - of_loop).abs().max()).item()
    return apart is None or bool(apart < LEAST_PCT)


def _typical_step(trace: Trace, rank: int, steps: pl.DataFrame, profiler: ProfilerWork) -> TypicalStep | None:
    """Replay the representative step of a kind; `None` if the step's graph is empty.

    The profiler's own work takes no time in the replay and is not part of step lengths.
    """
    step = steps.filter("stands_for").row(0, named=True)
    loops = step["evidence"] != "whole_trace"
    graph = dependency_graph(trace, rank=rank, step=step["step"], until="launched", frames=False)
    if graph.edges.is_empty():
        return None
    graph = profiler.taken_out(graph)
    length = steps["length_ns"] - steps["profiler_ns"]
    replay = Replay(graph, loops=loops)
    total = int(length.sum()) if loops else replay.period_ns
    median = step["length_ns"] - step["profiler_ns"]
    lengths = median, int(length.min()), int(length.max())  # type: ignore[arg-type]
    return TypicalStep(step["step"], step["kind"], loops, replay, steps.height, total, *lengths)


def step_limits(trace: Trace, *, rank: int | None = None) -> pl.DataFrame:
    """How much each limit contributes to the step, and how fast steps would be without the limit.

    Returns a row per limit. On the GPU:

    * `computing`, `communication`, `copying`
    * `other_stage`: sends and receives of a pipeline
    * `queued`: gaps between kernels

    On the CPU:

    * `load_data`, `python`
    * `launching`: ops and launch calls
    * `unrecorded`: time without host events, if the recorder shows neither ops nor frames of the process
    * `cpu_tensor`: arithmetic on CPU tensors
    * `sync`: calls that synchronise, beyond the GPU work they wait for
    * `other_ranks`: a collective on another thread, which ends when all ranks have arrived
    * `other_thread`: other work of another thread

    Others:

    * `unobserved`: launched work waits, and the file does not show why
    * `unknown`
    * `between`: time between steps

    Times are per mean step: `path_ns` adds up to `step_ns`, the loop time divided by the number of steps, and
    `path_pct` adds up to 100 %. `without_ns` is the mean step replayed with the limit's edges taking no time, and
    `speedup` the resulting factor: an upper bound of the gain. If a rank waits for other ranks longer than it loads
    data, removing `load_data` gains nothing. Each kind of steps (`step_kinds`) is represented by its typical step;
    `step` is the typical step of the most common kind. `rank` defaults to the lowest rank. Empty for a trace without
    steps of any length.
    """
    loop = step_loop(trace, rank)
    if loop is None or not loop.mean_ns:
        return pl.DataFrame(schema=_COLUMNS)
    path = loop.path_by(LIMIT)
    total = loop.mean_ns
    chosen_rank = min(trace.ranks) if rank is None else rank
    waits = loop_waits_ns(trace, chosen_rank) // loop.count
    rows = []
    for limit, path_ns in path.rows():
        without_ns = loop.without_ns(limit == LIMIT)
        if limit == "load_data" and waits >= total - without_ns:
            without_ns = total  # if its data came earlier, the rank would only wait longer for the other ranks
        rows.append(
            (loop.typical.step, total, limit, path_ns, 100 * path_ns / total, without_ns, total / max(without_ns, 1))
        )
    if between_ns := loop.between_ns // loop.count:
        rows.append((loop.typical.step, total, "between", between_ns, 100 * between_ns / total, total, 1.0))
    frame = pl.DataFrame(rows, _COLUMNS, orient="row").sort("path_ns", "limit", descending=[True, False])
    # The means are rounded. The largest part absorbs the difference.
    rounding = pl.when(pl.int_range(pl.len()) == 0).then(total - pl.col("path_ns").sum()).otherwise(0)
    frame = frame.with_columns(pl.col("path_ns") + rounding)
    return frame.sort("path_ns", "limit", descending=[True, False])


_COLUMNS = {
    "step": pl.Int64,
    "step_ns": pl.Int64,
    "limit": pl.String,
    "path_ns": pl.Int64,
    "path_pct": pl.Float64,
    "without_ns": pl.Int64,
    "speedup": pl.Float64,
}
