"""What limits a step: the parts of its critical path, and how fast it would be without each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import polars as pl

from hotline_analysis.answers.dependencies import DependencyGraph
from hotline_analysis.answers.overlap import within
from hotline_analysis.answers.path import dependency_graph
from hotline_analysis.answers.replay import Replay
from hotline_analysis.answers.waiting import loop_waits_ns
from hotline_analysis.run.scope import check_scope
from hotline_analysis.run.trace import Trace

_IS_HOST = pl.col("kind").is_in(["host", "handoff", "return"]) & (pl.col("bound_by") != "copy")
LIMIT = (
    pl.when(pl.col("bound_by") == "other_stage")
    .then(pl.lit("other_stage"))
    .when(_IS_HOST)
    .then(pl.col("activity").replace({"op": "launching", "nothing": "python"}).fill_null("python"))
    .otherwise(
        pl.col("bound_by").replace(
            {"gpu_compute": "computing", "copy": "copying", "launch": "launching", "kernel_gap": "queued"}
        )
    )
)
"""What an edge of the dependency graph counts to."""


@dataclass(frozen=True)
class TypicalStep:
    """The step that stands for a kind of steps, and its replay.

    `loops` is false for a trace without steps, whose whole time is replayed once. `kind` is the number of the kind in
    `step_kinds`, `count` its steps, and `total_ns` their time. `least_ns`, `median_ns` and `most_ns` are lengths of
    steps of this kind.
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
        """The time of all steps of the kind over the time of one replayed step."""
        return self.total_ns / max(self.replay.period_ns, 1)


@dataclass(frozen=True)
class StepLoop:
    """All counted steps of a rank: one typical step of each kind, each as often as its kind occurs.

    `loop_ns` is the time from the start of the first counted step to the end of the last one. `between_ns` of it lie
    between the steps, and no change of a step shortens them. `not_counted` has the other steps with their roles in
    `step_lengths`. `profiler_ns` is the time in which the profiler itself worked in the counted steps, which no other
    time has. All times that the methods return are of a mean step, in nanoseconds.
    """

    kinds: tuple[TypicalStep, ...]
    count: int
    loop_ns: int
    not_counted: tuple[tuple[int, str], ...]
    profiler_ns: int = 0

    @property
    def typical(self) -> TypicalStep:
        """The typical step of the usual kind."""
        return self.kinds[0]

    @property
    def loops(self) -> bool:
        """Whether the trace shows steps."""
        return self.typical.loops

    @property
    def mean_ns(self) -> int:
        """The time of a step on average: the loop over its steps."""
        return self.loop_ns // self.count

    @property
    def between_ns(self) -> int:
        """Time of the loop between its steps."""
        return max(0, self.loop_ns - sum(kind.total_ns for kind in self.kinds))

    def mean_of(self, time_of: Callable[[TypicalStep], int]) -> int:
        """The mean step, if a replayed step of each kind takes as long as `time_of` says."""
        if len(self.kinds) == 1 and not self.between_ns:
            return round(self.loop_ns * time_of(self.typical) / max(self.typical.replay.period_ns, 1) / self.count)
        changed = sum(kind.scale * time_of(kind) for kind in self.kinds)
        return round((changed + self.between_ns) / self.count)

    def without_ns(self, which: pl.Expr) -> int:
        """The mean step, if the edges that meet a condition take no time."""
        return self.mean_of(lambda kind: kind.replay.without_ns(which))

    def path(self) -> pl.DataFrame:
        """What a mean step waits for: the edges on the critical paths of all kinds.

        The columns are those of `Replay.path`, and `step_kind`. `path_ns` adds up to `mean_ns`, less the time between
        steps.
        """
        paths = []
        for kind in self.kinds:
            share = kind.total_ns / self.count / max(kind.replay.period_ns * kind.replay.path_steps, 1)
            path = kind.replay.path().with_columns(step_kind=pl.lit(kind.kind, pl.Int64))
            so_far = (pl.col("path_ns").cum_sum() * share).round().cast(pl.Int64)
            paths.append(path.with_columns(path_ns=so_far - so_far.shift(1, fill_value=0)))
        return pl.concat(paths, how="diagonal_relaxed").filter(pl.col("path_ns") > 0)


def step_loop(trace: Trace, rank: int | None = None) -> StepLoop | None:
    """The counted steps of a rank (the lowest by default), each kind replayed; None for a trace of nothing.

    It is kept with the trace, as several answers need it.
    """
    check_scope(trace, {"rank": rank})
    chosen = min(trace.ranks) if rank is None else rank
    loops: dict[int, StepLoop | None] = trace.memo.setdefault(StepLoop, {})
    if chosen not in loops:
        loops[chosen] = _step_loop(trace, chosen)
    return loops[chosen]


def typical_step(trace: Trace, rank: int | None = None) -> TypicalStep | None:
    """The typical step of the usual kind of a rank (the lowest by default); None for a trace of nothing."""
    loop = step_loop(trace, rank)
    return None if loop is None else loop.typical


def _step_loop(trace: Trace, rank: int) -> StepLoop | None:
    lengths = trace.query("step_lengths", rank=rank)
    counted = lengths.filter(pl.col("kind").is_not_null())
    if counted.is_empty():
        return None
    profiler = _Profiler(trace, rank)
    kinds = [
        _typical_step(trace, rank, counted.filter(kind=number), profiler)
        for number in counted["kind"].unique().sort().to_list()
    ]
    found = [kind for kind in kinds if kind is not None]
    if not found or found[0].kind != 0:
        return None
    ends = counted["begin_ns"] + counted["length_ns"]
    others = lengths.filter(pl.col("kind").is_null()).select("step", "role").rows()
    profiler_ns = sum(map(profiler.of_step, counted["step"]))
    loop_ns = int(ends.max() - counted["begin_ns"].min()) - profiler_ns  # type: ignore[operator, arg-type]
    if not found[0].loops:
        loop_ns = found[0].total_ns
    return StepLoop(tuple(found), counted.height, loop_ns, tuple(others), profiler_ns)


class _Profiler:
    """The times in which the profiler itself worked, in calls of the loop's threads."""

    def __init__(self, trace: Trace, rank: int) -> None:
        asked = (
            "select start_ns, end_ns, step from host_activity"
            " where rank = $rank and kind = 'profiler' and end_ns > start_ns order by start_ns"
        )
        self._spans = trace.of(rank).sql(asked, rank=rank)
        self._spans = self._spans.with_columns(track_id=pl.lit(0), length=pl.col("end_ns") - pl.col("start_ns"))
        self._of_step: dict[int | None, int] = dict(self._spans.group_by("step").agg(pl.col("length").sum()).rows())

    def of_step(self, step: int) -> int:
        """Its time in a step, in nanoseconds."""
        return self._of_step.get(step, 0)

    def taken_out(self, edges: pl.DataFrame) -> pl.DataFrame:
        """The edges of a step as they would be if the profiler's work took no time."""
        is_own = (pl.col("kind") == "host") & (pl.col("activity") == "profiler").fill_null(False)
        # a launch takes effect only after what the profiler does in the call
        overlap = within(edges.with_columns(track_id=pl.lit(0)), self._spans, "length")
        weight = pl.when(is_own).then(0).when(pl.col("kind") == "launch").then(pl.col("weight_ns") - pl.lit(overlap))
        return edges.with_columns(weight_ns=weight.otherwise("weight_ns").clip(0).cast(pl.Int64))


def _typical_step(trace: Trace, rank: int, steps: pl.DataFrame, profiler: _Profiler) -> TypicalStep | None:
    """The step of a kind that stands for the kind, replayed; None if its steps take no time.

    What the `profiler` itself does takes no time in the replay, and is no part of lengths.
    """
    step = steps.filter("stands_for").row(0, named=True)
    loops = step["evidence"] != "whole_trace"
    graph = dependency_graph(trace, rank=rank, step=step["step"], until="launched", frames=False)
    if graph.edges.is_empty():
        return None
    own_ns = profiler.of_step(step["step"])
    if own_ns:
        graph = DependencyGraph(profiler.taken_out(graph.edges))
    length = (steps["length_ns"] - pl.Series(map(profiler.of_step, steps["step"]), dtype=pl.Int64)).clip(0)
    replay = Replay(graph, loops=loops)
    total = int(length.sum()) if loops else replay.period_ns
    lengths = max(0, step["length_ns"] - own_ns), int(length.min()), int(length.max())  # type: ignore[arg-type]
    return TypicalStep(step["step"], step["kind"], loops, replay, steps.height, total, *lengths)


def step_limits(trace: Trace, *, rank: int | None = None) -> pl.DataFrame:
    """What steps wait for, and how fast they would be without: the parts of the critical path over the loop.

    One row per limit: on the GPU `computing`, `communication`, `other_stage` (sends and receives of a pipeline),
    `copying` and `queued` (the gaps between kernels); on the CPU `load_data`, `launching` (ops and launch calls),
    `python`, `unrecorded` (time between the calls of a trace that has neither ops nor frames), `cpu_tensor` (arithmetic
    on CPU tensors), `sync` (calls that synchronise, beyond what they wait for), `other_ranks` (a collective on another
    thread, which ends when all ranks have come) and `other_thread` (other work of another thread); `unobserved`
    (launched work waits, and nothing in the file explains it), `unknown`, and `between` (time between steps). Times are
    of a mean step: `path_ns` adds up to `step_ns`, the loop over its steps, and `path_pct` to 100 %. `without_ns` is
    the mean step, replayed with these edges taking no time, and `speedup` how many times faster that is: at most so
    much can be gained. A rank that waits longer for other ranks than it loads data gains nothing without `load_data`.
    The typical step of each kind (`step_kinds`) stands for its kind; `step` is the typical step of the usual kind.
    `rank` is the lowest of the run by default. Empty for a trace without steps of any length.
    """
    loop = step_loop(trace, rank)
    if loop is None or not loop.mean_ns:
        return pl.DataFrame(schema=_COLUMNS)
    path = loop.path().group_by(limit=LIMIT).agg(path_ns=pl.col("path_ns").sum())
    total = loop.mean_ns
    chosen = min(trace.ranks) if rank is None else rank
    waits = loop_waits_ns(trace, chosen) // loop.count
    rows = []
    for limit, path_ns in path.rows():
        without = loop.without_ns(limit == LIMIT)
        if limit == "load_data" and waits >= total - without:
            without = total  # with its data earlier, the rank waits longer for the others
        rows.append((loop.typical.step, total, limit, path_ns, 100 * path_ns / total, without, total / max(without, 1)))
    if between := loop.between_ns // loop.count:
        rows.append((loop.typical.step, total, "between", between, 100 * between / total, total, 1.0))
    frame = pl.DataFrame(rows, _COLUMNS, orient="row").sort("path_ns", "limit", descending=[True, False])
    # Means are rounded; the largest part takes the rest.
    rest = pl.when(pl.int_range(pl.len()) == 0).then(total - pl.col("path_ns").sum()).otherwise(0)
    frame = frame.with_columns(pl.col("path_ns") + rest)
    if not has_host_events(trace, chosen):
        frame = frame.with_columns(pl.col("limit").replace("python", "unrecorded"))
    return frame.sort("path_ns", "limit", descending=[True, False])


def has_host_events(trace: Trace, rank: int) -> bool:
    """Whether the file tells what the CPU does between calls of the GPU's runtime."""
    found = "select exists (select 1 from event where rank = $rank and category in $categories)"
    return bool(
        trace.of(rank).sql(found, rank=rank, categories=["cpu_op", "user_annotation", "python_function"]).item()
    )


_COLUMNS = {
    "step": pl.Int64,
    "step_ns": pl.Int64,
    "limit": pl.String,
    "path_ns": pl.Int64,
    "path_pct": pl.Float64,
    "without_ns": pl.Int64,
    "speedup": pl.Float64,
}
