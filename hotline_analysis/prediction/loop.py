"""The usual steps of a trace as a loop that runs on and on: how long a step takes, and how far that can be trusted.

All usual steps that follow each other are one graph, whose copies follow each other (`answers.replay`); the period of
the graph over the number of steps is the time of a step. So steps that differ count as often as they occur.

What the replay takes as given can be of two kinds. *Mechanisms* are what a GPU and a CPU always do: work runs,
threads run, a stream goes on, a launch takes effect. *Residuals* are waits that were seen and that nothing in the file
explains: a launch that takes effect late, a gap in a stream that is longer than usual, work that started when other
work did. A change may take them away or not, so they are kept for the high end of a range, and dropped for the low one.
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
from hotline_analysis.answers.recorded import lacks_gpu_work, no_run
from hotline_analysis.answers.replay import Replay, Run
from hotline_analysis.errors import HotlineError
from hotline_analysis.prediction.events import Events
from hotline_analysis.run.scope import check_scope
from hotline_analysis.run.trace import Trace
from hotline_analysis.text.formats import duration, listed, percent

Mask = npt.NDArray[np.bool_]
Shares = npt.NDArray[np.float64]

LOW, MID, HIGH = 0, 1, 2
"""The ends of a range of times, and what is predicted between them."""

LEAST_EXPLAINED_PCT = 80.0
"""A step of which mechanisms explain less is not predicted.

Of a trace that lost work of the GPU they explain a third, and of all others that we have 92 % or more. Our choice.
"""
SURE_PCT = 95.0
"""If they explain less than this, only the range is told: traces of one stream have more. Our choice."""

MOST_OFF = 0.03
"""If the step of the loop differs more from those recorded, it is another one; a smaller difference widens ranges.

Graphs of all traces with several steps are within 3 % of what was recorded, most within 1 %.
"""

HOST_NOISE = 0.10
"""By so much at least the CPU's time differs when the same program runs again; how steps differ comes on top.

When two programs that the CPU bounds were recorded again, one took 11 % and one 14 % longer or shorter, on machines
that did nothing else. No prediction of CPU time can promise less than a tenth.
"""
GPU_NOISE = 0.04
"""By so much the GPU's time differs, likewise.

Repeated runs that the GPU bounded were 0.3 % apart (ResNet-50, batch 256) and 4 % (a recurrent network, 11 streams).
"""

_MOST_EVENTS = 1_000_000  # of a loop: more of them take over a second
_MANY_EVENTS = 150_000  # a graph of so many takes over a second to draw
_SAME = 0.01
"""A step stands for all if it is by no more longer or shorter than their mean: what a loop may be off by."""
_SEEN = ("shared", "untraced")  # what started when other work did, or when nothing did
# A call that returns later after what it waited for does something else, too: as `first_call_ns` of `queries/macros`,
# a hundred times what a call takes.
_LATE_RETURN_NS = 1_000_000


class Table:
    """The edges of a replay as columns of numbers, and what a selection of events has of each."""

    def __init__(self, replay: Replay, events: Events) -> None:
        self.replay = replay
        self.edges = replay.edges
        self.events = events
        self.weight: Numbers = self.edges["weight_ns"].to_numpy().astype(np.int64)
        self._kinds: dict[str, Mask] = {}
        self._shares: dict[int, tuple[pl.DataFrame, Shares]] = {}
        self._works: dict[int, tuple[pl.DataFrame, Mask]] = {}

    def forget(self) -> None:
        """Drop what was found for selections of events."""
        self._shares.clear()
        self._works.clear()

    def of(self, *kinds: str) -> Mask:
        """The edges of some kinds."""
        for kind in kinds:
            if kind not in self._kinds:
                self._kinds[kind] = (self.edges["kind"] == kind).to_numpy()
        found: Mask = np.logical_or.reduce([self._kinds[kind] for kind in kinds])
        return found

    @cached_property
    def binds(self) -> Mask:
        """The edges that were waited for."""
        return self.edges["binds"].fill_null(False).to_numpy()

    def of_events(self, ids: pl.Series) -> Mask:
        """The edges of some events."""
        found: Mask = self.edges["event_id"].is_in(ids.implode()).fill_null(False).to_numpy()
        return found

    def works(self, chosen: pl.DataFrame) -> Mask:
        """The edges that belong to works among some events, found once for each frame."""
        if id(chosen) not in self._works:
            self._works[id(chosen)] = chosen, self.of_events(chosen.filter(pl.col("class").is_not_null())["event_id"])
        return self._works[id(chosen)][1]

    def host_shares(self, chosen: pl.DataFrame) -> Shares:
        """Of each edge of a thread, the share inside some events of the CPU, found once for each frame; else 0."""
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
        covered = within(rows, spans.with_columns(inside=pl.col("end_ns") - pl.col("start_ns")), "inside").to_numpy()
        length = (rows["end_ns"] - rows["start_ns"]).to_numpy()
        shares[host] = np.clip(covered / np.maximum(length, 1), 0, 1)
        return shares

    @cached_property
    def limits(self) -> tuple[list[str], Numbers]:
        """What edges count to, as in `step_limits`: the words, and the number of each edge's; the last one is none."""
        limit = self.edges.select(LIMIT.alias("limit"))["limit"]
        words = sorted(limit.drop_nulls().unique())
        codes = limit.replace_strict(words, range(len(words)), default=len(words), return_dtype=pl.Int64)
        return words, codes.to_numpy()

    @cached_property
    def usual(self) -> dict[str, int]:
        """How long edges of a kind usually are, of those that were waited for."""
        rows = self.edges.filter(pl.col("binds")).group_by("kind").agg(pl.col("weight_ns").median())
        return {kind: round(middle) for kind, middle in rows.iter_rows()}

    @cached_property
    def residual(self) -> Numbers:
        """How much of each edge no mechanism explains."""
        weight = self.weight
        explained = weight.copy()
        for kind, usual in (("launch", "launch"), ("stall", "launch"), ("queue", "queue")):
            explained = np.where(self.of(kind), np.minimum(weight, self.usual.get(usual, 0)), explained)
        usual_return = self.usual.get("return", 0)
        late = self.of("return") & (weight < _LATE_RETURN_NS)
        explained = np.where(late, np.minimum(weight, usual_return), explained)
        # A call that synchronises does nothing itself: what it waits for is not in the trace.
        waits = self.of("host") & (self.edges["activity"] == "sync").fill_null(False).to_numpy()
        explained = np.where(waits, np.minimum(weight, usual_return), explained)
        explained = np.where(self.of(*_SEEN), 0, explained)
        residual: Numbers = weight - explained
        return residual


@dataclass
class State:
    """The weights of a table's edges while edits change them. What is `gone` holds up nothing."""

    table: Table
    level: int
    weight: Numbers
    gone: Mask
    notes: list[str] = field(default_factory=list)

    def run(self) -> Run:
        """The loop with these weights."""
        weight, gone = pl.lit(pl.Series(self.weight)), pl.lit(pl.Series(self.gone))
        return self.table.replay.run(weight, gone)


class Loop:
    """The usual steps of a rank, replayed as a loop.

    `steps` has their rows of `step_lengths`, `count` how many they are; times are of one step. `alike` has those of all
    usual steps, of which one may stand for all.
    """

    def __init__(self, trace: Trace, rank: int, steps: pl.DataFrame, end_ns: int, alike: pl.DataFrame) -> None:
        self.trace, self.rank, self.steps, self.count = trace, rank, steps, steps.height
        self.alike = alike
        self.start_ns, self.end_ns = int(steps["start_ns"][0]), end_ns
        self.graph = dependency_graph(
            trace, rank=rank, start_ns=self.start_ns, end_ns=end_ns, until="launched", frames=False
        )
        if self.graph.edges.is_empty():
            raise HotlineError("the steps of this trace take no time", hint="Profile steps that do something.")
        self.events = Events(trace, rank, self.start_ns, end_ns)
        self.table = Table(Replay(self.graph), self.events)
        self._plain: dict[int, int] = {}
        self._chosen: dict[int, tuple[object, pl.DataFrame]] = {}

    @cached_property
    def has_gpu_work(self) -> bool:
        """Whether the steps launch any work of a GPU."""
        return bool((self.events.work["end_ns"] > self.events.work["start_ns"]).any())

    @cached_property
    def kernel_limits(self) -> pl.DataFrame:
        """The least times of kernels whose work is known, as in the query `kernel_limit`."""
        return self.trace.query("kernel_limit", rank=self.rank, start_ns=self.start_ns, end_ns=self.end_ns)

    @cached_property
    def kernel_traits(self) -> pl.DataFrame:
        """The kernels and copies of the steps, as in the query `kernel_trait`."""
        return self.trace.query("kernel_trait", rank=self.rank, start_ns=self.start_ns, end_ns=self.end_ns)

    @cached_property
    def busiest_gpu(self) -> tuple[str, float] | None:
        """As the function of the same name."""
        return busiest_gpu(self.trace, self.rank)

    @cached_property
    def memory_needed(self) -> int | None:
        """The most memory that was allocated on a GPU at once, in bytes; None if the trace does not tell."""
        found = self.trace.of(self.rank).sql(
            "select max(total_allocated_bytes) as bytes from memory_event where rank = $rank and device_type = 1",
            rank=self.rank,
        )
        needed: int | None = found["bytes"][0]
        return needed

    @cached_property
    def observed(self) -> Run:
        """The loop as it was recorded."""
        return self.state(MID, noise=False).run()

    @cached_property
    def recorded_path(self) -> tuple[Numbers, Numbers]:
        """The edges that the steps as recorded wait for, and the time of each on that path."""
        return self.table.replay.path_rows(self.observed)

    @cached_property
    def baseline_ns(self) -> int:
        """The time of a step as it was recorded, in the loop."""
        return self.per_step(self.observed)

    @cached_property
    def variation(self) -> float:
        """How far the mean of as many steps can be from this one by chance: twice the error of their difference."""
        lengths = self.alike["length_ns"]
        if len(lengths) < 3:
            return 0.0
        mean, spread = float(lengths.mean() or 0), float(lengths.std() or 0)  # type: ignore[arg-type]
        return 2 * spread / mean * math.sqrt(2 / len(lengths)) if mean else 0.0

    @cached_property
    def off(self) -> float:
        """By which share the step of the loop differs from the mean of those recorded, from work to work."""
        mean = float(self.alike["length_ns"].mean() or 0)  # type: ignore[arg-type]
        return abs(self.baseline_ns - mean) / mean if mean else 0.0

    def noise(self, level: int) -> tuple[float, float]:
        """By what the times of the CPU and of the GPU are multiplied at an end of the range."""
        sign = (-1, 0, 1)[level]
        host, gpu = (math.hypot(part, self.variation, self.off) for part in (HOST_NOISE, GPU_NOISE))
        return max(0.0, 1 + sign * host), max(0.0, 1 + sign * gpu)

    def state(self, level: int, table: Table | None = None, *, noise: bool = True) -> State:
        """The weights that an end of the range begins with: the low one without residuals."""
        table = table or self.table
        weight = table.weight - table.residual if level == LOW and noise else table.weight.copy()
        gone = table.of(*_SEEN) if level == LOW and noise else np.zeros(len(weight), np.bool_)
        return State(table, level, weight, gone)

    def ended(self, state: State) -> Run:
        """The loop with the weights of a state, and the noise of its end of the range."""
        host, gpu = self.noise(state.level)
        if state.level != MID:
            is_host, is_gpu = state.table.of("host"), state.table.of("work")
            weight = np.where(is_host, np.rint(state.weight * host).astype(np.int64), state.weight)
            weight = np.where(is_gpu, np.rint(weight * gpu).astype(np.int64), weight)
            state = State(state.table, state.level, weight, state.gone)
        return state.run()

    def per_step(self, run: Run) -> int:
        """The time of one step of a run."""
        return round(run.period_ns / self.count)

    def plain_ns(self, level: int) -> int:
        """The time of a step that nothing changes, at an end of the range."""
        if level not in self._plain:
            self._plain[level] = self.per_step(self.ended(self.state(level)))
        return self._plain[level]

    @cached_property
    def explained_pct(self) -> float:
        """How much of a step is left if it has no waits that only were seen, and no mechanism explains."""
        table = self.table
        state = State(table, LOW, table.weight - table.residual, table.of(*_SEEN))
        return 100 * state.run().period_ns / max(self.observed.period_ns, 1)

    @cached_property
    def unexplained(self) -> pl.DataFrame:
        """The waits on the path that no mechanism explains, the longest first, with `event_id` and `time_ns`."""
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
        """Raise `HotlineError` if too little of a step is explained, or the loop is another one than was recorded."""
        if self.off > MOST_OFF:
            mean = duration(float(self.alike["length_ns"].mean() or 0))  # type: ignore[arg-type]
            raise HotlineError(
                f"a step took {mean}, but what it does takes {duration(self.baseline_ns)} in a loop, so it waited for"
                " something that does not belong to it, and no step can be predicted",
                hint="Profile more steps: in a program that runs ahead of the GPU, one mark says little.",
            )
        if self.explained_pct >= LEAST_EXPLAINED_PCT:
            return
        missing = percent(100 - self.explained_pct)
        ids = [str(number) for number in self.unexplained["event_id"].drop_nulls().head(5).to_list()]
        raise HotlineError(
            f"{missing} of a step are waits that the trace does not explain, so no step can be predicted: the longest"
            f" are before event {listed(ids)}",
            hint="Something that this file does not show holds the GPU up: another process, lost events, or a clock.",
        )

    @cached_property
    def gpu_free_ns(self) -> int:
        """The time of a step whose GPU work takes no time: what the CPU needs."""
        state = self.state(MID)
        state.weight = np.where(state.table.of("work", "queue", "return"), 0, state.weight)
        state.gone = state.gone | state.table.of("event", "wait", "inferred", *_SEEN)
        return self.per_step(state.run())

    @cached_property
    def cpu_free_ns(self) -> int:
        """The time of a step whose CPU takes no time: what the GPU needs."""
        state = self.state(MID)
        state.weight = np.where(state.table.of("host", "handoff"), 0, state.weight)
        return self.per_step(state.run())

    def bound(self, run: Run, table: Table | None = None) -> str:
        """What most of a step's path is, as in `step_limits`; empty if it takes no time."""
        table = table or self.table
        rows, part = table.replay.path_rows(run)
        limits, codes = table.limits
        times = np.zeros(len(limits) + 1, np.int64)
        np.add.at(times, codes[rows], part)
        return limits[int(np.argmax(times[:-1]))] if times[:-1].any() else ""

    @cached_property
    def limit(self) -> str:
        """What most of a step's path is, as it was recorded."""
        return self.bound(self.observed)

    def forget(self) -> None:
        """Drop what was kept for the edits of one scenario."""
        self.table.forget()
        self._chosen.clear()

    def chosen(self, edit: object, find: Callable[[], pl.DataFrame]) -> pl.DataFrame:
        """The events that an edit chooses, found once for all ends of its range."""
        if id(edit) not in self._chosen:
            self._chosen[id(edit)] = edit, find()
        return self._chosen[id(edit)][1]


def busiest_gpu(trace: Trace, rank: int) -> tuple[str, float] | None:
    """The model of the GPU that did most work, and which part of it the trace shows; None if it is not known."""
    found = trace.of(rank).sql(
        "select model, scale from gpu_model where rank = $rank and device_id = (select device from gpu_event"
        " where rank = $rank group by device order by sum(dur_ns) desc, device limit 1)",
        rank=rank,
    )
    return None if found.is_empty() or found["model"][0] is None else (found["model"][0], found["scale"][0])


def loop_of(trace: Trace, rank: int | None = None) -> Loop:
    """The loop of a rank (the lowest by default), kept with the trace.

    Raises `HotlineError` for a trace that shows no loop, records no run, or lost its GPU work.
    """
    check_scope(trace, {"rank": rank})
    chosen = min(trace.ranks) if rank is None else rank
    loops: dict[int, Loop] = trace.memo.setdefault(Loop, {})
    if chosen not in loops:
        loops[chosen] = _loop(trace, chosen)
    return loops[chosen]


def _loop(trace: Trace, rank: int) -> Loop:
    if lacks_gpu_work(trace, rank):
        raise HotlineError(
            "the file has no GPU work, although the run had some or may have, so nothing can be predicted from it",
            hint="Capture again, with ProfilerActivity.CUDA.",
        )
    lengths = trace.query("step_lengths", rank=rank)
    usual = lengths["role"].is_in(["typical", "usual"])
    if lengths.is_empty() or not usual.any() or lengths["evidence"][0] == "whole_trace":
        raise HotlineError(
            "the trace shows no steps, and a prediction is about a step of a loop",
            hint="Call prof.step() after each step.",
        )
    if said := no_run(trace, rank):
        raise HotlineError(f"nothing can be predicted from this trace. {said}")
    # Steps that follow each other, and of these the longest row.
    rows = lengths.with_columns(is_usual=usual, run=(usual != usual.shift()).fill_null(True).cum_sum())
    rows = rows.filter("is_usual").with_columns(size=pl.len().over("run"))
    chosen = rows.filter(pl.col("size") == pl.col("size").max())
    chosen = chosen.filter(pl.col("run") == pl.col("run").max())
    alike, chosen = chosen, _not_too_many(trace, rank, chosen)
    after = lengths.filter(pl.col("start_ns") >= chosen["end_ns"][-1])
    end_ns = int(chosen["end_ns"][-1])
    # What the thread does between two steps belongs to the loop, too; a long pause does not.
    if not after.is_empty() and after["start_ns"][0] - end_ns < (chosen["end_ns"] - chosen["start_ns"]).min():
        end_ns = int(after["start_ns"][0])
    return Loop(trace, rank, chosen, end_ns, alike)


def _not_too_many(trace: Trace, rank: int, steps: pl.DataFrame) -> pl.DataFrame:
    """The steps; where they have many events, one that stands for all, or as many from the middle as take a second."""
    found = (
        trace.of(rank)
        .sql(
            "select count(*) from event where rank = $rank and start_ns >= $start_ns and start_ns < $end_ns",
            rank=rank,
            start_ns=steps["start_ns"][0],
            end_ns=steps["end_ns"][-1],
        )
        .item()
    )
    if found > _MANY_EVENTS and steps.height > 1:
        typical = steps.filter(role="typical")
        mean = float(steps["length_ns"].mean() or 0)  # type: ignore[arg-type]
        if (
            not typical.is_empty()
            and abs(typical["length_ns"][0] - mean) <= _SAME * mean
            and _launch_the_same(trace, rank, steps)
        ):
            return typical
    keep = max(1, min(steps.height, steps.height * _MOST_EVENTS // max(found, 1)))
    return steps[(steps.height - keep) // 2 :][:keep]


def _launch_the_same(trace: Trace, rank: int, steps: pl.DataFrame) -> bool:
    """Whether all steps launch as much of each kind of GPU work."""
    found = trace.of(rank).sql(
        "select label.step, count(*) as number, sum(hash(event.name)::hugeint)::varchar as names from event"
        " inner join label on (event.rank, event.event_id) = (label.rank, label.event_id)"
        " where event.rank = $rank and event.category in ('kernel', 'gpu_memcpy', 'gpu_memset')"
        " and list_contains($steps, label.step) group by label.step",
        rank=rank,
        steps=steps["step"].to_list(),
    )
    return found.height in (0, steps.height) and found.select("number", "names").n_unique() <= 1


def merged(spans: pl.DataFrame) -> pl.DataFrame:
    """The union of spans of threads: `track_id`, `start_ns` and `end_ns`, of which those of a track do not overlap."""
    ordered = spans.select("track_id", "start_ns", "end_ns").drop_nulls().sort("track_id", "start_ns", "end_ns")
    opens = pl.col("start_ns") >= pl.col("end_ns").cum_max().shift().over("track_id")
    return (
        ordered.with_columns(group=opens.fill_null(True).cum_sum())
        .group_by("track_id", "group", maintain_order=True)
        .agg(pl.col("start_ns").min(), pl.col("end_ns").max())
        .drop("group")
    )


def graph_of(edges: pl.DataFrame) -> Replay:
    """A replay of edges that were changed."""
    return Replay(DependencyGraph(edges))
