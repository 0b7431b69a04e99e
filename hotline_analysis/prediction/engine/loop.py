"""The usual steps of a trace as an endless loop: the time of a step, and the reliability of this time.

All consecutive usual steps form one graph, and copies of the graph follow each other (`answers.replay`). The period of
the graph divided by the number of steps is the time of a step. So different kinds of steps count as often as they
occur.

The replay distinguishes two kinds of edges. *Mechanisms* are general behaviour of a GPU and a CPU: work runs, threads
run, a stream continues, a launch takes effect. *Residuals* are recorded waits without an explanation in the file: a
launch that takes effect late, a stream gap longer than usual, work that started together with other work. A change may
remove a residual or not, so residuals are kept for the high end of a range, and dropped for the low end.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt
import polars as pl

from hotline_analysis.answers.dependencies import DependencyGraph
from hotline_analysis.answers.limits import LIMIT
from hotline_analysis.answers.longest import Numbers
from hotline_analysis.answers.overlap import within
from hotline_analysis.answers.path import dependency_graph
from hotline_analysis.answers.periods import period
from hotline_analysis.answers.profiler_work import ProfilerWork
from hotline_analysis.answers.recorded import how_to_record_gpu_work, lacks_gpu_work, missing_gpu_work, no_run
from hotline_analysis.answers.replay import Replay, Run
from hotline_analysis.errors import HotlineError
from hotline_analysis.prediction.engine.events import Events
from hotline_analysis.run.scope import check_scope
from hotline_analysis.run.trace import Trace
from hotline_analysis.text.formats import duration, listed, percent

Mask = npt.NDArray[np.bool_]
Shares = npt.NDArray[np.float64]

LOW, MID, HIGH = 0, 1, 2
"""The low end of a range of times, the prediction in the middle, and the high end."""

LEAST_EXPLAINED_PCT = 80.0
"""Minimum explained share of a step for a prediction.

In a trace with lost GPU work, mechanisms explain a third; in all other traces we have, 92 % or more. Our choice.
"""
SURE_PCT = 95.0
"""Below this explained share, only the range is shown. Traces with a single stream are above. Our choice."""

MOST_OFF = 0.03
"""Maximum relative difference between the loop's step and the recorded steps. A smaller difference widens ranges.

Graphs of all traces with several steps are within 3 % of the recorded time, most within 1 %.
"""

HOST_NOISE = 0.10
"""Minimum relative variation of CPU time between runs of the same program. The variation of steps is added.

When two CPU-bound programs were recorded again, their times differed by 11 % and 14 %, on otherwise idle machines. No
prediction of CPU time can promise less than a tenth.
"""
GPU_NOISE = 0.04
"""Minimum relative variation of GPU time between runs of the same program.

Repeated GPU-bound runs differed by 0.3 % (ResNet-50, batch 256) and 4 % (a recurrent network, 11 streams).
"""

_MOST_EVENTS = 1_000_000  # in a loop; more events take over a second
_MANY_EVENTS = 150_000  # drawing a graph of this size takes over a second
_SAME = 0.01
"""Maximum relative deviation from the mean length for a step to represent all steps: the tolerated error of a loop."""
_NEGLIGIBLE = 0.0005  # of a step: shares are shown with one decimal of a per cent
_SEEN = ("shared", "untraced")  # work that started together with other work, or without a visible cause
# A call that returns later than this after the awaited work did something else too: a hundred times the duration of a
# call, as in `first_call_ns` of `queries/macros`.
_LATE_RETURN_NS = 1_000_000


class Table:
    """The edges of a replay as columns of numbers, and each edge's share in selections of events."""

    def __init__(self, replay: Replay, events: Events) -> None:
        self.replay = replay
        self.edges = replay.edges
        self.events = events
        self.weight: Numbers = self.edges["weight_ns"].to_numpy().astype(np.int64)
        self._kinds: dict[str, Mask] = {}
        self._shares: dict[int, tuple[pl.DataFrame, Shares]] = {}
        self._works: dict[int, tuple[pl.DataFrame, Mask]] = {}

    def forget(self) -> None:
        """Drop the cached results for selections of events."""
        self._shares.clear()
        self._works.clear()

    def of(self, *kinds: str) -> Mask:
        """Return a mask of the edges of these kinds."""
        for kind in kinds:
            if kind not in self._kinds:
                self._kinds[kind] = (self.edges["kind"] == kind).to_numpy()
        mask: Mask = np.logical_or.reduce([self._kinds[kind] for kind in kinds])
        return mask

    @cached_property
    def binds(self) -> Mask:
        """Mask of the edges that were waited for."""
        return self.edges["binds"].fill_null(False).to_numpy()

    def of_events(self, ids: pl.Series) -> Mask:
        """Return a mask of the edges of these events."""
        mask: Mask = self.edges["event_id"].is_in(ids.implode()).fill_null(False).to_numpy()
        return mask

    def works(self, chosen: pl.DataFrame) -> Mask:
        """Return a mask of the edges of work items among the events, cached for each frame."""
        if id(chosen) not in self._works:
            self._works[id(chosen)] = chosen, self.of_events(chosen.filter(pl.col("class").is_not_null())["event_id"])
        return self._works[id(chosen)][1]

    def host_shares(self, chosen: pl.DataFrame) -> Shares:
        """Return, for each thread edge, the share inside the CPU events, cached for each frame; 0 for other edges."""
        if id(chosen) not in self._shares:
            self._shares[id(chosen)] = chosen, self._host_shares(chosen)
        return self._shares[id(chosen)][1]

    def _host_shares(self, chosen: pl.DataFrame) -> Shares:
        spans = merged(chosen.filter(pl.col("class").is_null()) if "class" in chosen.columns else chosen)
        shares = np.zeros(len(self.weight))
        if spans.is_empty():
            return shares
        on_track = self.edges["track_id"].is_in(spans["track_id"].implode()).fill_null(False).to_numpy()
        host = np.flatnonzero(self.of("host") & on_track)
        rows = self.edges[host].select("track_id", "start_ns", "end_ns")
        inside_ns = within(rows, spans.with_columns(inside=pl.col("end_ns") - pl.col("start_ns")), "inside").to_numpy()
        length = (rows["end_ns"] - rows["start_ns"]).to_numpy()
        shares[host] = np.clip(inside_ns / np.maximum(length, 1), 0, 1)
        return shares

    @cached_property
    def limits(self) -> tuple[list[str], Numbers]:
        """The limit of each edge, as in `step_limits`: the names, and each edge's index; the last index is no limit."""
        limit = self.edges.select(LIMIT.alias("limit"))["limit"]
        words = sorted(limit.drop_nulls().unique())
        codes = limit.replace_strict(words, range(len(words)), default=len(words), return_dtype=pl.Int64)
        return words, codes.to_numpy()

    @cached_property
    def usual(self) -> dict[str, int]:
        """The usual length of edges by kind: the median of edges that were waited for."""
        rows = self.edges.filter(pl.col("binds")).group_by("kind").agg(pl.col("weight_ns").median())
        return {kind: round(middle) for kind, middle in rows.iter_rows()}

    @cached_property
    def residual(self) -> Numbers:
        """The part of each edge's time that no mechanism explains."""
        weight = self.weight
        explained_ns = weight.copy()
        for kind, usual in (("launch", "launch"), ("stall", "launch"), ("queue", "queue")):
            explained_ns = np.where(self.of(kind), np.minimum(weight, self.usual.get(usual, 0)), explained_ns)
        usual_return = self.usual.get("return", 0)
        is_late = self.of("return") & (weight < _LATE_RETURN_NS)
        explained_ns = np.where(is_late, np.minimum(weight, usual_return), explained_ns)
        # A synchronising call does no work itself: the awaited activity is not in the trace.
        waits = self.of("host") & (self.edges["activity"] == "sync").fill_null(False).to_numpy()
        explained_ns = np.where(waits, np.minimum(weight, usual_return), explained_ns)
        explained_ns = np.where(self.of(*_SEEN), 0, explained_ns)
        residual: Numbers = weight - explained_ns
        return residual


@dataclass
class State:
    """The weights of a table's edges while edits change them. Edges in `gone` delay nothing."""

    table: Table
    level: int
    weight: Numbers
    gone: Mask
    notes: list[str] = field(default_factory=list)

    def run(self) -> Run:
        """Return the loop with these weights."""
        weight, gone = pl.lit(pl.Series(self.weight)), pl.lit(pl.Series(self.gone))
        return self.table.replay.run(weight, gone)


class Loop:
    """The usual steps of a rank, replayed as a loop.

    `steps` has the steps' rows of `step_lengths`, and `count` the number of steps. All times are per step. `alike` has
    the rows of all usual steps, which one step may represent. `profiler_ns` is the time added to a step by the
    profiler's own work; all other times exclude it.
    """

    def __init__(self, trace: Trace, rank: int, steps: pl.DataFrame, end_ns: int, alike: pl.DataFrame) -> None:
        self.trace, self.rank, self.steps, self.count = trace, rank, steps, steps.height
        self.alike = alike
        self.start_ns, self.end_ns = int(steps["start_ns"][0]), end_ns
        self.profiler_ns = int(steps["profiler_ns"].sum()) // self.count
        self.events = Events(trace, rank, self.start_ns, end_ns)
        self._plain: dict[int, int] = {}
        self._chosen: dict[int, tuple[object, pl.DataFrame]] = {}

    @cached_property
    def graph(self) -> DependencyGraph:
        """The dependency graph of the steps, made when first used. Raises `HotlineError` for steps without time."""
        graph = dependency_graph(
            self.trace, rank=self.rank, start_ns=self.start_ns, end_ns=self.end_ns, until="launched", frames=False
        )
        graph = ProfilerWork(self.trace, self.rank).taken_out(graph)
        if graph.edges.is_empty():
            raise HotlineError("the steps of this trace take no time", hint="Profile steps with work.")
        return graph

    @cached_property
    def table(self) -> Table:
        """The edges of the graph as numbers."""
        return Table(Replay(self.graph), self.events)

    @cached_property
    def has_gpu_work(self) -> bool:
        """Whether the steps launch any GPU work."""
        if not self.events.are_on_gpu:
            return False
        return bool((self.events.work["end_ns"] > self.events.work["start_ns"]).any())

    @cached_property
    def kernel_limits(self) -> pl.DataFrame:
        """The minimum times of kernels with known work, from the query `kernel_limit`."""
        return self.trace.query("kernel_limit", rank=self.rank, start_ns=self.start_ns, end_ns=self.end_ns)

    @cached_property
    def kernel_traits(self) -> pl.DataFrame:
        """The kernels and copies of the steps, from the query `kernel_trait`."""
        return self.trace.query("kernel_trait", rank=self.rank, start_ns=self.start_ns, end_ns=self.end_ns)

    @cached_property
    def busiest_gpu(self) -> tuple[str, float] | None:
        """The result of the function `busiest_gpu` for this rank."""
        return busiest_gpu(self.trace, self.rank)

    @cached_property
    def memory_needed(self) -> int | None:
        """The peak of memory allocated on a GPU, in bytes; None if the trace has no memory events."""
        frame = self.trace.of(self.rank).sql(
            "select max(total_allocated_bytes) as bytes from memory_event where rank = $rank and device_type = 1",
            rank=self.rank,
        )
        peak: int | None = frame["bytes"][0]
        return peak

    @cached_property
    def observed(self) -> Run:
        """The loop as recorded."""
        return self.state(MID, noise=False).run()

    @cached_property
    def recorded_path(self) -> tuple[Numbers, Numbers]:
        """The edges on the critical path of the recorded steps, and the time of each edge on the path."""
        return self.table.replay.path_rows(self.observed)

    @cached_property
    def baseline_ns(self) -> int:
        """The time of a step in the loop as recorded."""
        return self.per_step(self.observed)

    @cached_property
    def turns(self) -> pl.DataFrame:
        """Series of steps that vary by chance: one row per turn of the pattern of kinds, or per step if turns are few.

        `start_ns` and `count` are the first step's start and the number of steps, `length_ns` is the mean step.
        """
        # Repeating patterns of steps vary from turn to turn.
        size = period(self.alike["kind"].to_list())
        if self.alike.height // size < 3:
            size = 1
        rows = self.alike.head(size * (self.alike.height // size)).with_row_index("number")
        return rows.group_by(pl.col("number") // size, maintain_order=True).agg(
            pl.col("start_ns").first(), count=pl.len(), length_ns=pl.col("length_ns").mean()
        )

    @cached_property
    def _spread(self) -> float:
        """The standard deviation of the turns' mean steps, relative to their mean; 0 for fewer than three turns."""
        lengths = self.turns["length_ns"]
        mean = float(lengths.mean() or 0)  # type: ignore[arg-type]
        return float(lengths.std()) / mean if len(lengths) >= 3 and mean else 0.0  # type: ignore[arg-type]

    @cached_property
    def variation(self) -> float:
        """The relative random error of the mean step time: twice the error of the difference between two such means."""
        return 2 * self._spread * math.sqrt(2 / max(self.turns.height, 1))

    @cached_property
    def shortest(self) -> Loop | None:
        """The shortest turn of the steps as a loop of its own, if the steps are too unlike for `variation`; else None.

        With a long step among few, a normal distribution of the steps would have negative ones: those more than two
        standard deviations below the mean. But the mean of steps is at least the shortest of them.
        """
        first, last = self.steps["start_ns"][0], self.steps["start_ns"][-1]
        turns = self.turns.filter(pl.col("start_ns").is_between(first, last), pl.col("length_ns") > 0)
        if 2 * self._spread <= 1 or turns.is_empty():
            return None
        start_ns, count = turns.sort("length_ns", "start_ns").select("start_ns", "count").row(0)
        steps = self.steps.filter(pl.col("start_ns") >= start_ns)
        rows, later = steps.head(count), steps[count:]
        return Loop(self.trace, self.rank, rows, self.end_ns if later.is_empty() else later["start_ns"][0], rows)

    @cached_property
    def off(self) -> float:
        """The relative difference between the loop's step and the mean of the recorded steps."""
        mean = float(self.alike["length_ns"].mean() or 0)  # type: ignore[arg-type]
        return abs(self.baseline_ns - mean) / mean if mean else 0.0

    def noise(self, level: int) -> tuple[float, float]:
        """Return the factors for CPU and GPU times at an end of the range."""
        sign = (-1, 0, 1)[level]
        host, gpu = (math.hypot(share, self.variation, self.off) for share in (HOST_NOISE, GPU_NOISE))
        return max(0.0, 1 + sign * host), max(0.0, 1 + sign * gpu)

    def state(self, level: int, table: Table | None = None, *, noise: bool = True) -> State:
        """Return the initial weights for an end of the range: without residuals at the low end."""
        table = table or self.table
        weight = table.weight - table.residual if level == LOW and noise else table.weight.copy()
        gone = table.of(*_SEEN) if level == LOW and noise else np.zeros(len(weight), np.bool_)
        return State(table, level, weight, gone)

    def ended(self, state: State) -> Run:
        """Return the loop with the weights of a state, including the noise at the state's end of the range."""
        host, gpu = self.noise(state.level)
        if state.level != MID:
            is_host, is_gpu = state.table.of("host"), state.table.of("work")
            weight = np.where(is_host, np.rint(state.weight * host).astype(np.int64), state.weight)
            weight = np.where(is_gpu, np.rint(weight * gpu).astype(np.int64), weight)
            state = State(state.table, state.level, weight, state.gone)
        return state.run()

    def per_step(self, run: Run) -> int:
        """Return the time of one step of a run."""
        return round(run.period_ns / self.count)

    def time_ns(self, level: int, changed: Callable[[Loop], State]) -> int:
        """Return the time of a step at an end of the range. `changed` returns the changed weights of a loop."""
        time = self.per_step(self.ended(changed(self)))
        if level == LOW and self.shortest is not None:
            time = max(time, self.shortest.time_ns(level, changed))
            self.shortest.forget()
        return time

    def plain_ns(self, level: int) -> int:
        """Return the time of an unchanged step at an end of the range."""
        if level not in self._plain:
            self._plain[level] = self.time_ns(level, lambda loop: loop.state(level))
        return self._plain[level]

    @cached_property
    def explained_pct(self) -> float:
        """The share of a step that remains without unexplained waits, in percent."""
        table = self.table
        state = State(table, LOW, table.weight - table.residual, table.of(*_SEEN))
        return 100 * state.run().period_ns / max(self.observed.period_ns, 1)

    @cached_property
    def unexplained(self) -> pl.DataFrame:
        """The unexplained parts of the recorded critical path, the largest first.

        One row per `event_id`, `kind` and `name` of the edges. `event_id` is the event after the wait, NULL if unknown.
        `time_ns` is a sum over all steps of the path.
        """
        path = self.table.replay.path()
        residual = pl.Series("residual_ns", self.table.residual)
        rows = path.with_columns(residual_ns=residual.gather(path["row"])).with_columns(
            time_ns=pl.min_horizontal("residual_ns", "path_ns")
        )
        return (
            rows.filter(pl.col("time_ns") > 0)
            .group_by("event_id", "kind", "name")
            .agg(pl.col("time_ns").sum())
            .sort("time_ns", "event_id", descending=[True, False], nulls_last=True)
        )

    def check_explained(self) -> None:
        """Raise `HotlineError` if too little of a step is explained, or if the loop differs from the recording."""
        if self.off > MOST_OFF:
            mean = duration(float(self.alike["length_ns"].mean() or 0))  # type: ignore[arg-type]
            raise HotlineError(
                f"a step took {mean}, but the step's events take {duration(self.baseline_ns)} in a loop, so the step"
                " waited for something else and cannot be predicted",
                hint="Profile more steps: if the CPU runs ahead of the GPU, a single mark shows little.",
            )
        if self.explained_pct >= LEAST_EXPLAINED_PCT:
            return
        share = percent(100 - self.explained_pct)
        ids = [str(number) for number in self.unexplained["event_id"].drop_nulls().head(5).to_list()]
        raise HotlineError(
            f"{share} of a step are unexplained waits, so no step can be predicted: the longest waits are before event"
            f" {listed(ids)}",
            hint="The GPU waits for something outside the trace: another process, lost events, or a clock difference.",
        )

    @cached_property
    def gpu_free_ns(self) -> int:
        """The time of a step with instantaneous GPU work: the time the CPU needs."""
        state = self.state(MID)
        state.weight = np.where(state.table.of("work", "queue", "return"), 0, state.weight)
        state.gone = state.gone | state.table.of("event", "wait", "inferred", *_SEEN)
        return self.per_step(state.run())

    @cached_property
    def cpu_free_ns(self) -> int:
        """The time of a step with an instantaneous CPU: the time the GPU needs."""
        state = self.state(MID)
        state.weight = np.where(state.table.of("host", "handoff"), 0, state.weight)
        return self.per_step(state.run())

    def bound(self, run: Run, table: Table | None = None) -> str:
        """Return the limit of the largest part of a step's path, as in `step_limits`; empty for a step without time."""
        table = table or self.table
        rows, path_times = table.replay.path_rows(run)
        limits, codes = table.limits
        times = np.zeros(len(limits) + 1, np.int64)
        np.add.at(times, codes[rows], path_times)
        return limits[int(np.argmax(times[:-1]))] if times[:-1].any() else ""

    @cached_property
    def limit(self) -> str:
        """The limit of the largest part of the recorded step's path."""
        return self.bound(self.observed)

    def forget(self) -> None:
        """Drop everything cached for the edits of one scenario."""
        self.table.forget()
        self._chosen.clear()

    def chosen(self, edit: object, find: Callable[[], pl.DataFrame]) -> pl.DataFrame:
        """Return the events chosen by an edit, cached for all ends of the range."""
        if id(edit) not in self._chosen:
            self._chosen[id(edit)] = edit, find()
        return self._chosen[id(edit)][1]


def busiest_gpu(trace: Trace, rank: int) -> tuple[str, float] | None:
    """Return the model of the GPU with the most work, and the visible part of the GPU; None if unknown."""
    frame = trace.of(rank).sql(
        "select model, scale from gpu_model where rank = $rank and device_id = (select device from gpu_event"
        " where rank = $rank group by device order by sum(dur_ns) desc, device limit 1)",
        rank=rank,
    )
    return None if frame.is_empty() or frame["model"][0] is None else (frame["model"][0], frame["scale"][0])


def loop_of(trace: Trace, rank: int | None = None) -> Loop:
    """Return the loop of a rank (by default the lowest), cached in the trace.

    Raises `HotlineError` if the trace shows no loop, records no run, or lost its GPU work.
    """
    loop = loop_without_graph(trace, rank)
    assert loop.graph is not None  # raises for steps without time
    return loop


def loop_without_graph(trace: Trace, rank: int | None = None) -> Loop:
    """Return the loop as `loop_of` does, but leave its graph for later: a scenario that does not apply needs none."""
    check_scope(trace, {"rank": rank})
    chosen_rank = min(trace.ranks) if rank is None else rank
    loops: dict[int, Loop] = trace.memo.setdefault(Loop, {})
    if chosen_rank not in loops:
        loops[chosen_rank] = _loop(trace, chosen_rank)
    return loops[chosen_rank]


def _loop(trace: Trace, rank: int) -> Loop:
    if lacks_gpu_work(trace, rank):
        raise HotlineError(
            f"cannot predict from this trace: the file has no GPU work. {missing_gpu_work(trace, rank)[0]}",
            hint=how_to_record_gpu_work(trace, rank),
        )
    lengths = trace.query("step_lengths", rank=rank)
    lengths = lengths.with_columns(length_ns=pl.col("length_ns") - pl.col("profiler_ns"))
    usual = lengths["role"].is_in(["typical", "usual"])
    if lengths.is_empty() or not usual.any() or lengths["evidence"][0] == "whole_trace":
        raise HotlineError(
            "the trace shows no steps, but a prediction needs the steps of a loop",
            hint="Call prof.step() after each step.",
        )
    if reason := no_run(trace, rank):
        raise HotlineError(f"cannot predict from this trace. {reason}")
    # Consecutive usual steps, and of these the longest series.
    rows = lengths.with_columns(is_usual=usual, run=(usual != usual.shift()).fill_null(True).cum_sum())
    rows = rows.filter("is_usual").with_columns(size=pl.len().over("run"))
    steps = rows.filter(pl.col("size") == pl.col("size").max())
    steps = steps.filter(pl.col("run") == pl.col("run").max())
    alike, steps = steps, _not_too_many(trace, rank, steps)
    later_steps = lengths.filter(pl.col("start_ns") >= steps["end_ns"][-1])
    end_ns = int(steps["end_ns"][-1])
    # The thread's activity between two steps belongs to the loop too; a long pause does not. After a single step, a
    # negligible pause is left out, so the loop and `step_loop` ask for the same graph.
    pause_ns = 0 if later_steps.is_empty() else later_steps["start_ns"][0] - end_ns
    shortest_ns = int((steps["end_ns"] - steps["start_ns"]).min())  # type: ignore[arg-type]
    is_negligible = steps.height == 1 and pause_ns < _NEGLIGIBLE * shortest_ns
    if pause_ns < shortest_ns and not is_negligible:
        end_ns += pause_ns
    return Loop(trace, rank, steps, end_ns, alike)


def _not_too_many(trace: Trace, rank: int, steps: pl.DataFrame) -> pl.DataFrame:
    """Limit the steps if the steps have many events.

    If all steps launch the same GPU work, and the typical step takes about the mean time, the result is the typical
    step alone. Otherwise the result has as many steps from the middle as the maximum number of events allows.
    """
    event_count = (
        trace.of(rank)
        .sql(
            "select count(*) from event where rank = $rank and start_ns >= $start_ns and start_ns < $end_ns",
            rank=rank,
            start_ns=steps["start_ns"][0],
            end_ns=steps["end_ns"][-1],
        )
        .item()
    )
    if event_count > _MANY_EVENTS and steps.height > 1:
        typical = steps.filter(role="typical")
        mean = float(steps["length_ns"].mean() or 0)  # type: ignore[arg-type]
        if (
            not typical.is_empty()
            and abs(typical["length_ns"][0] - mean) <= _SAME * mean
            and _launch_the_same(trace, rank, steps)
        ):
            return typical
    keep = max(1, min(steps.height, steps.height * _MOST_EVENTS // max(event_count, 1)))
    return steps[(steps.height - keep) // 2 :][:keep]


def _launch_the_same(trace: Trace, rank: int, steps: pl.DataFrame) -> bool:
    """Return whether all steps launch the same number of each kind of GPU work."""
    frame = trace.of(rank).sql(
        "select step, count(*) as number, sum(hash(name)::hugeint)::varchar as names from gpu_event"
        " where rank = $rank and list_contains($steps, step) group by step",
        rank=rank,
        steps=steps["step"].to_list(),
    )
    return frame.height in (0, steps.height) and frame.select("number", "names").n_unique() <= 1


def merged(spans: pl.DataFrame) -> pl.DataFrame:
    """Return the union of thread spans: `track_id`, `start_ns` and `end_ns`, without overlaps on a track."""
    sorted_spans = spans.select("track_id", "start_ns", "end_ns").drop_nulls().sort("track_id", "start_ns", "end_ns")
    opens = pl.col("start_ns") >= pl.col("end_ns").cum_max().shift().over("track_id")
    return (
        sorted_spans.with_columns(group=opens.fill_null(True).cum_sum())
        .group_by("track_id", "group", maintain_order=True)
        .agg(pl.col("start_ns").min(), pl.col("end_ns").max())
        .drop("group")
    )


def graph_of(edges: pl.DataFrame) -> Replay:
    """Return a replay of changed edges."""
    return Replay(DependencyGraph(edges))
