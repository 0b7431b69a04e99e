"""Edits of a loop. Edits are values: a scenario lists edits, and the engine applies them in order.

`where` is an SQL condition on the columns of the query `editable_event`, such as `name like '%gemm%'`. A selected CPU
event includes everything that its thread does during the event. A number is a single value, or three values: for the
shortest step, the expected value, and for the longest step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from hotline_analysis.errors import QueryParameterError
from hotline_analysis.prediction.engine.loop import LOW, Mask, Shares, State, Table, graph_of, merged

if TYPE_CHECKING:
    from hotline_analysis.answers.longest import Numbers
    from hotline_analysis.prediction.engine.loop import Loop

Number = float | tuple[float, float, float]
_WORK_WAITS = ("launch", "stall", "untraced", "shared")


def at(value: Number, level: int) -> float:
    """Return a single number, or the number for an end of the range."""
    return value[level] if isinstance(value, tuple) else value


@dataclass(frozen=True)
class Edit:
    """A change of the events that meet a condition."""

    where: str | pl.Expr

    is_structural = False

    def check(self) -> None:
        """Raise `QueryParameterError` for an invalid number."""
        for name in ("factor", "ns", "share"):
            if (value := getattr(self, name, None)) is not None:
                _check(name, value)

    def chosen(self, loop: Loop) -> pl.DataFrame:
        """Return the events that meet the condition, given as SQL or as a Polars expression."""
        return loop.chosen(self, lambda: self._find(loop))

    def _find(self, loop: Loop) -> pl.DataFrame:
        if isinstance(self.where, str):
            return loop.events.where(self.where)
        return loop.events.frame.filter(self.where)

    def apply(self, loop: Loop, state: State) -> None:
        """Change the weights of a state."""
        raise NotImplementedError

    def redrawn(self, loop: Loop, edges: pl.DataFrame, level: int) -> pl.DataFrame:
        """Return the edges of the graph with changed connections, for edits with `is_structural`."""
        raise NotImplementedError


def _check(name: str, value: Number) -> None:
    values = value if isinstance(value, tuple) else (value,)
    if len(values) not in (1, 3) or not all(number >= 0 for number in values):
        requirement = "three numbers" if len(values) not in (1, 3) else "0 or more"
        raise QueryParameterError(f"{name} must be {requirement}, not {value!r}")
    if list(values) != sorted(values):
        raise QueryParameterError(f"{name} must go from the shortest step to the longest, not {value!r}")


@dataclass(frozen=True)
class Scale(Edit):
    """Multiply times by a factor: of GPU work, and of threads inside CPU events."""

    factor: Number

    def apply(self, loop: Loop, state: State) -> None:
        """Change the weights of a state."""
        factor = at(self.factor, state.level)
        work, host = picked(state, self.chosen(loop))
        state.weight = _times(state.weight, np.where(work, 1.0, host), factor)


@dataclass(frozen=True)
class Remove(Edit):
    """Remove events: GPU work with its launches, and CPU events with the GPU work they launch.

    The next work item in the stream then follows the previous work item. Without `host`, thread times stay unchanged.
    """

    host: bool = True

    def apply(self, loop: Loop, state: State) -> None:
        """Change the weights of a state."""
        events = self.chosen(loop)
        take_out(loop, state, with_launched(loop, events), events if self.host else events.clear())
        if self.host:
            calls = callers(events.filter(pl.col("class").is_not_null()))
            state.weight = _times(state.weight, state.table.host_shares(calls), 0.0)


@dataclass(frozen=True)
class Take(Edit):
    """Limit each event to this many nanoseconds. For nested events, the outermost counts."""

    ns: Number

    def apply(self, loop: Loop, state: State) -> None:
        """Change the weights of a state."""
        ns = at(self.ns, state.level)
        events = self.chosen(loop)
        work, host = picked(state, events)
        state.weight = np.where(work, np.minimum(state.weight, round(ns)), state.weight)
        spans = merged(events.filter(pl.col("class").is_null()))
        if not spans.is_empty():
            # Shrink all spans equally, because only their sum matters in the long run.
            total = float((state.weight * host).sum())
            state.weight = _times(state.weight, host, min(1.0, ns * spans.height / total) if total else 1.0)


@dataclass(frozen=True)
class Insert(Edit):
    """Insert an activity of this many nanoseconds after each event, on the event's stream or thread."""

    ns: Number

    def apply(self, loop: Loop, state: State) -> None:
        """Change the weights of a state."""
        ns = round(at(self.ns, state.level))
        events = self.chosen(loop)
        table = state.table
        work = table.of("work") & table.works(events)
        state.weight = state.weight + np.where(work, ns, 0)
        spans = events.filter(pl.col("class").is_null()).group_by("track_id", at_ns="end_ns").len("number")
        ends = table.edges.select("kind", "track_id", at_ns="end_ns").join(
            spans, on=["track_id", "at_ns"], how="left", maintain_order="left"
        )
        number = ends.select(pl.when(kind="host").then("number").fill_null(0).cast(pl.Int64)).to_series().to_numpy()
        state.weight = state.weight + number * ns


@dataclass(frozen=True)
class Unwait(Edit):
    """Calls, or all calls inside events, no longer wait for the GPU."""

    def apply(self, loop: Loop, state: State) -> None:
        """Change the weights of a state."""
        table = state.table
        events = self.chosen(loop)
        rows = np.flatnonzero(table.of("return"))
        calls = loop.events.frame.filter(pl.col("class").is_null()).select(
            pl.col("event_id").alias("call_id"), "track_id", "start_ns", "end_ns"
        )
        returns = (
            table.edges[rows]
            .select("event_id")
            .join(calls, left_on="event_id", right_on="call_id", how="left", maintain_order="left")
        )
        is_inside = inside_of(returns, events)
        is_gone = np.zeros(len(state.gone), np.bool_)
        is_gone[rows] = is_inside
        state.gone = state.gone | is_gone


@dataclass(frozen=True)
class Gap(Edit):
    """Limit the gap between a work item and the next item waiting for it in the stream."""

    ns: Number

    def apply(self, loop: Loop, state: State) -> None:
        """Change the weights of a state."""
        rows = state.table.of("queue") & state.table.works(self.chosen(loop))
        state.weight = np.where(rows, np.minimum(state.weight, round(at(self.ns, state.level))), state.weight)


@dataclass(frozen=True)
class Fuse(Edit):
    """Fuse consecutive work items of a stream: the first takes a share of the total time, the others are removed.

    Work items form a run if the stream runs nothing else between them. The fused time is the share of the run's total
    time, and at least the time of the longest item.
    """

    share: Number = 1.0
    host: bool = True

    def apply(self, loop: Loop, state: State) -> None:
        """Change the weights of a state."""
        runs = runs_of(loop, self.chosen(loop))
        share = at(self.share, state.level)
        total = (
            runs.group_by("run")
            .agg(
                pl.col("event_id").first(), total=pl.col("dur_ns").sum(), longest=pl.col("dur_ns").max(), size=pl.len()
            )
            .filter(pl.col("size") > 1)
        )
        if total.is_empty():
            return
        fused = total.with_columns(ns=pl.max_horizontal(pl.col("total") * share, "longest").round().cast(pl.Int64))
        table = state.table
        new_ns = table.edges.join(fused.select("event_id", "ns"), on="event_id", how="left", maintain_order="left")[
            "ns"
        ]
        is_fused = new_ns.is_not_null().to_numpy() & table.of("work")
        # Keep earlier changes: scale the new time by the same factor.
        earlier_factor = np.where(is_fused, state.weight / np.maximum(table.weight, 1), 1.0)
        state.weight = np.where(
            is_fused, np.rint(new_ns.fill_null(0).to_numpy() * earlier_factor).astype(np.int64), state.weight
        )
        rest = runs.filter(
            pl.col("run").is_in(total["run"].implode()), ~pl.col("event_id").is_in(total["event_id"].implode())
        )
        take_out(loop, state, rest["event_id"], rest.clear())
        if self.host:
            state.weight = _times(state.weight, table.host_shares(callers(rest)), 0.0)


@dataclass(frozen=True)
class Move(Edit):
    """Move work items to a new stream, in the same order. The old stream no longer waits for them.

    Other waits for these items remain: synchronising calls, and streams waiting for an event.
    """

    is_structural = True

    def redrawn(self, loop: Loop, edges: pl.DataFrame, level: int) -> pl.DataFrame:
        """Return the edges with the work items on another stream."""
        moved_ids = _works(self.chosen(loop)).implode()
        # A work item has two nodes. A stream's order is the order of the items' starts.
        works = edges.filter(kind="work").sort("start_ns", "end_ns").select("event_id", "track_id", "from_id", "to_id")
        works = works.with_columns(is_moved=pl.col("event_id").is_in(moved_ids))
        if not works["is_moved"].any():
            return edges
        new_track = edges.select(pl.col("track_id").max() + 1).item()
        streams = works.filter("is_moved").select("track_id").unique()
        works = works.with_columns(
            track_id=pl.when("is_moved").then(pl.lit(new_track, pl.Int64)).otherwise("track_id")
        ).with_columns(before_id=pl.col("to_id").shift().over("track_id"))
        touched_works = works.filter(pl.col("track_id").is_in([new_track, *streams["track_id"]]))
        gap = edges.filter(pl.col("binds"), kind="queue").select(pl.col("weight_ns").median().fill_null(0)).item()
        queue = touched_works.filter(pl.col("before_id").is_not_null()).select(
            "event_id", "track_id", to_id="from_id", from_id="before_id", kind=pl.lit("queue"), binds=pl.lit(False),
            weight_ns=pl.lit(int(gap), pl.Int64), bound_by=pl.lit("kernel_gap"),
        )  # fmt: skip
        # Keep the recorded gap if a work item follows the same item as before.
        recorded_gaps = edges.filter(kind="queue").select("to_id", "from_id", seen_ns="weight_ns")
        queue = (
            queue.join(recorded_gaps, on=["to_id", "from_id"], how="left", maintain_order="left")
            .with_columns(weight_ns=pl.coalesce("seen_ns", "weight_ns"))
            .drop("seen_ns")
        )
        times = edges.filter(kind="work").select("start_ns", to_id="from_id")
        queue = queue.join(times, on="to_id", how="left").with_columns(end_ns="start_ns")
        is_old = (pl.col("kind") == "queue") & pl.col("event_id").is_in(touched_works["event_id"].implode())
        is_own = pl.col("kind").is_in(["work", "queue", "launch"]) & pl.col("event_id").is_in(moved_ids)
        remaining = edges.filter(
            ~(is_old & pl.col("previous_id").is_null()) & ~(is_old & pl.col("event_id").is_in(moved_ids))
        )
        remaining = remaining.with_columns(
            track_id=pl.when(is_own).then(pl.lit(new_track, pl.Int64)).otherwise("track_id")
        )
        return pl.concat([remaining, queue], how="diagonal_relaxed")


@dataclass(frozen=True)
class Stretch(Take):
    """Limit stretches of threads to this many nanoseconds per step in total."""

    spans: pl.DataFrame

    def apply(self, loop: Loop, state: State) -> None:
        """Change the weights of a state."""
        share = state.table.host_shares(self.spans)
        total = float((state.weight * share).sum())
        target_ns = at(self.ns, state.level) * loop.count
        state.weight = _times(state.weight, share, min(1.0, target_ns / total) if total else 1.0)
        # A single launch of many kernels needs a single place in the stream's queue.
        full = state.table.of("full")
        calls = state.table.edges.select("track_id", start_ns="end_ns", end_ns="end_ns")
        state.gone = state.gone | (full & inside_of(calls, self.spans.with_columns(pl.lit(None).alias("class"))))


@dataclass(frozen=True)
class Between(Scale):
    """In stretches of threads, multiply the time outside the selected ops by a factor."""

    spans: pl.DataFrame

    def apply(self, loop: Loop, state: State) -> None:
        """Change the weights of a state."""
        ops = self.chosen(loop).filter(pl.col("category") == "cpu_op")
        shares = np.clip(state.table.host_shares(self.spans) - state.table.host_shares(ops), 0, 1)
        state.weight = _times(state.weight, shares, at(self.factor, state.level))


@dataclass(frozen=True)
class Transfer(Scale):
    """Multiply the transfer time of collectives; at the low end, also the waiting time.

    `split` has `event_id` and `transfer_ns`.
    """

    split: pl.DataFrame

    def apply(self, loop: Loop, state: State) -> None:
        """Change the weights of a state."""
        table = state.table
        rows = table.edges.select("event_id").join(self.split, on="event_id", how="left", maintain_order="left")
        transfer_ns = rows["transfer_ns"].fill_null(0).to_numpy()
        part = state.weight if state.level == LOW else np.minimum(transfer_ns, state.weight)
        saved_ns = np.rint(part * (1 - at(self.factor, state.level))).astype(np.int64)
        mask = table.of("work") & table.works(self.chosen(loop))
        state.weight = np.where(mask, state.weight - saved_ns, state.weight)


@dataclass(frozen=True)
class Pace(Edit):
    """Multiply the time of each GPU work item by an individual factor.

    `parts` has `event_id` and the factors `part_0`, `part_1`, `part_2` for the low end, the middle and the high end.
    """

    parts: pl.DataFrame

    def apply(self, loop: Loop, state: State) -> None:
        """Change the weights of a state."""
        rows = state.table.edges.select("event_id", "kind").join(
            self.parts.select("event_id", part=f"part_{state.level}"),
            on="event_id",
            how="left",
            maintain_order="left",
        )
        factors = rows.select(pl.when(kind="work").then("part").fill_null(1.0)).to_series().to_numpy()
        state.weight = np.rint(state.weight * factors).astype(np.int64)


@dataclass(frozen=True)
class Hasten(Edit):
    """Multiply all thread time by a factor, including the time between recorded events."""

    part: Number

    def apply(self, loop: Loop, state: State) -> None:
        """Change the weights of a state."""
        factor = at(self.part, state.level)
        state.weight = np.where(state.table.of("host"), np.rint(state.weight * factor), state.weight).astype(np.int64)


@dataclass(frozen=True)
class AllReduce(Edit):
    """Reduce gradients over ranks on a new stream, bucket by bucket. The optimizer waits for the result.

    `buckets` has one row per bucket, in order: `ready_id`, the work item that makes the last gradient; `until_id`, the
    first work that needs the result; and the durations `ns_0`, `ns_1`, `ns_2` at the low end, the middle and the high
    end.
    """

    buckets: pl.DataFrame

    is_structural = True

    def redrawn(self, loop: Loop, edges: pl.DataFrame, level: int) -> pl.DataFrame:
        """Return the edges with the buckets' work and waits added."""
        track = edges.select(pl.col("track_id").max() + 1).item()
        first = 1 + edges.select(pl.max_horizontal(pl.col("from_id").max(), pl.col("to_id").max())).item()
        number = pl.int_range(pl.len())
        buckets = (
            self.placed(edges, level)
            .sort("at_ns", maintain_order=True)
            .with_columns(start_node=first + 2 * number, end_node=first + 2 * number + 1, ns=pl.col(f"ns_{level}"))
        )
        nothing = pl.lit(0, pl.Int64)
        rows = [
            buckets.select(from_id="ready_node", to_id="start_node", kind=pl.lit("wait"), weight_ns="before_ns"),
            buckets.select(from_id="start_node", to_id="end_node", kind=pl.lit("work"), weight_ns="ns"),
            buckets.select(from_id="end_node", to_id="until_node", kind=pl.lit("wait"), weight_ns="after_ns"),
            buckets.select(
                from_id=pl.col("end_node").shift(), to_id="start_node", kind=pl.lit("queue"), weight_ns=nothing
            ),
        ]
        new_edges = [
            frame.with_columns(
                start_ns=buckets["at_ns"],
                end_ns=buckets["at_ns"],
                track_id=pl.lit(track, pl.Int64),
                binds=pl.lit(False),
                name=pl.lit("all-reduce"),
                bound_by=pl.when(kind="work").then(pl.lit("communication")).otherwise(pl.lit("kernel_gap")),
            )
            for frame in rows
        ]
        return pl.concat([edges, pl.concat(new_edges).filter(pl.col("from_id").is_not_null())], how="diagonal_relaxed")

    def placed(self, edges: pl.DataFrame, level: int) -> pl.DataFrame:
        """Return the buckets with their ready and needed nodes, and the times before and after."""
        works = edges.filter(kind="work").select("event_id", "from_id", "to_id", "end_ns")
        return (
            self.buckets.join(works.select(ready_id="event_id", ready_node="to_id", at_ns="end_ns"), on="ready_id")
            .join(works.select(until_id="event_id", until_node="from_id"), on="until_id")
            .with_columns(before_ns=pl.lit(0, pl.Int64), after_ns=pl.lit(0, pl.Int64))
        )


@dataclass(frozen=True)
class AllReduceOnCpu(AllReduce):
    """The same on a CPU: the thread copies gradients to their bucket, and waits at the end of backward.

    For each row of `buckets`, the last gradient is ready at `end_ns` on the thread `track_id`. Copying takes `copy_0`,
    `copy_1`, `copy_2`, and the same time back. Buckets with the same `step` and `pass_ns` are awaited together.
    """

    def redrawn(self, loop: Loop, edges: pl.DataFrame, level: int) -> pl.DataFrame:
        """Return the edges with the buckets' work and waits added.

        The thread's edges that copy gradients to a bucket and back get longer by the time of the copies.
        """
        new_edges = super().redrawn(loop, edges, level)
        buckets = self.placed(edges, level)
        copies_back = buckets.group_by(from_id="last_node").agg(more_ns=pl.col(f"copy_{level}").sum())
        copies_there = buckets.select(from_id="ready_node", more_ns=f"copy_{level}")
        copies = pl.concat([copies_there, copies_back]).group_by("from_id").agg(pl.col("more_ns").sum())
        weights = new_edges.join(copies, on="from_id", how="left", maintain_order="left")
        extra_ns = pl.when(kind="host").then("more_ns").fill_null(0)
        return weights.with_columns(weight_ns=pl.col("weight_ns") + extra_ns).drop("more_ns")

    def placed(self, edges: pl.DataFrame, level: int) -> pl.DataFrame:
        """Return the buckets with their ready and needed nodes, and the times before and after."""
        pieces = edges.filter(kind="host").select("track_id", "from_id", "to_id", "end_ns", "weight_ns").sort("end_ns")
        ready = (
            self.buckets.sort("end_ns")
            .join_asof(pieces.select("track_id", ready_node="to_id", at_ns="end_ns"), left_on="end_ns",
                       right_on="at_ns", by="track_id", coalesce=False, check_sortedness=False)
            .drop_nulls("ready_node")
        )  # fmt: skip
        # The thread's piece after the last gradient starts when all buckets are reduced and copied back.
        following = pieces.select(last_node="from_id", until_node="to_id", piece_ns="weight_ns")
        key = ["step", "pass_ns"]
        last = pl.col("ready_node").last().over(key, order_by="at_ns")
        copies = pl.col(f"copy_{level}").cum_sum(reverse=True).over(key, order_by="at_ns")
        buckets = ready.with_columns(last_node=last, copies_ns=copies).join(following, on="last_node")
        return buckets.with_columns(before_ns=f"copy_{level}", after_ns=pl.col("piece_ns") + pl.col("copies_ns"))


def picked(state: State, chosen: pl.DataFrame) -> tuple[Mask, Shares]:
    """Return the edges of chosen GPU work, and for each thread edge the share inside chosen CPU events."""
    return state.table.of("work") & state.table.works(chosen), state.table.host_shares(chosen)


def take_out(loop: Loop, state: State, works: pl.Series, host: pl.DataFrame) -> None:
    """Remove work items from their streams, and the time of CPU events from their threads."""
    table = state.table
    of_works = table.of_events(works)
    state.weight = np.where(of_works & table.of("work", "queue"), 0, state.weight)
    # Fewer launches also need fewer places in the stream's queue.
    calls = loop.events.work.filter(pl.col("event_id").is_in(works.implode()))["runtime_id"].drop_nulls()
    state.gone = state.gone | (of_works & table.of(*_WORK_WAITS)) | (table.of("full") & table.of_events(calls))
    state.weight = _times(state.weight, table.host_shares(host), 0.0)


def with_launched(loop: Loop, chosen: pl.DataFrame) -> pl.Series:
    """Return the work items among the events, and the work items launched inside CPU events."""
    host = chosen.filter(pl.col("class").is_null())
    work = loop.events.work
    calls = work.select("event_id", track_id="call_track_id", start_ns="call_start_ns", end_ns="call_end_ns")
    launched_ids = work["event_id"].filter(pl.Series(inside_of(calls, host)))
    return pl.concat([_works(chosen), launched_ids]).unique()


def inside_of(calls: pl.DataFrame, events: pl.DataFrame) -> Mask:
    """Return a mask of the calls that lie inside CPU events of their thread (or are such events)."""
    spans = merged(events.filter(pl.col("class").is_null()))
    if spans.is_empty() or calls.is_empty():
        return np.zeros(calls.height, np.bool_)
    outer = spans.select("track_id", "start_ns", around_ns="end_ns").sort("start_ns")
    inner = calls.select("track_id", "start_ns", "end_ns").with_row_index("row").sort("start_ns", nulls_last=True)
    inner = inner.drop_nulls()
    matches = inner.join_asof(outer, on="start_ns", by="track_id", check_sortedness=False)
    rows = matches.filter(pl.col("end_ns") <= pl.col("around_ns"))["row"].to_numpy()
    mask = np.zeros(calls.height, np.bool_)
    mask[rows] = True
    return mask


def callers(works: pl.DataFrame) -> pl.DataFrame:
    """Return the calls that launched the work items, without duplicates, as CPU events."""
    calls = works.filter(pl.col("call_track_id").is_not_null()).unique("runtime_id")
    return calls.select(track_id="call_track_id", start_ns="call_start_ns", end_ns="call_end_ns")


def runs_of(loop: Loop, chosen: pl.DataFrame) -> pl.DataFrame:
    """Return the chosen work items with a `run` number. The stream runs nothing else between the items of a run."""
    works = loop.events.work.sort("device", "stream", "start_ns", "event_id")
    is_chosen = works["event_id"].is_in(_works(chosen).implode())
    stream = pl.struct("device", "stream", "step", "phase")
    opens = ~(is_chosen & is_chosen.shift(fill_value=False))
    works = works.with_columns(opens=opens | (works.select(stream != stream.shift()).to_series().fill_null(True)))
    return works.with_columns(run=pl.col("opens").cum_sum()).filter(is_chosen)


def _works(chosen: pl.DataFrame) -> pl.Series:
    return chosen.filter(pl.col("class").is_not_null())["event_id"]


def _times(weight: Numbers, share: Shares, factor: float) -> Numbers:
    """Multiply a share of each weight by a factor, and keep the rest of the weight."""
    weights: Numbers = np.rint(weight * (1 + share * (factor - 1))).astype(np.int64)
    return weights


def redraw(loop: Loop, edits: Sequence[Edit], level: int) -> State:
    """Return the initial state for the edits, after the structural edits have redrawn the graph."""
    structural = [edit for edit in edits if edit.is_structural]
    if not structural:
        return loop.state(level)
    edges = loop.graph.edges
    for edit in structural:
        edges = edit.redrawn(loop, edges, level)
    return loop.state(level, Table(graph_of(edges), loop.events))
