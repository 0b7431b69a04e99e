"""What can be changed in a loop: edits are values, which a scenario lists and the engine applies in order.

`where` is an SQL condition on the columns of the query `editable_event`, such as `name like '%gemm%'`. An event of the
CPU stands for all that its thread does inside of it. A number can be given as it is, or as three: what makes the step
shortest, what is expected, and what makes it longest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from hotline_analysis.errors import QueryParameterError
from hotline_analysis.prediction.loop import LOW, Mask, Shares, State, Table, graph_of, merged

if TYPE_CHECKING:
    from hotline_analysis.answers.longest import Numbers
    from hotline_analysis.prediction.loop import Loop

Number = float | tuple[float, float, float]
_WORK_WAITS = ("launch", "stall", "untraced", "shared")


def at(value: Number, level: int) -> float:
    """A number, or that of three which an end of the range has."""
    return value[level] if isinstance(value, tuple) else value


@dataclass(frozen=True)
class Edit:
    """A change of the events that meet a condition."""

    where: str | pl.Expr

    is_structural = False

    def check(self) -> None:
        """Raise `QueryParameterError` for a number that makes no sense."""
        for name in ("factor", "ns", "share"):
            if (value := getattr(self, name, None)) is not None:
                _check(name, value)

    def chosen(self, loop: Loop) -> pl.DataFrame:
        """The events that meet the condition, which is SQL or an expression of Polars."""
        return loop.chosen(self, lambda: self._find(loop))

    def _find(self, loop: Loop) -> pl.DataFrame:
        if isinstance(self.where, str):
            return loop.events.where(self.where)
        return loop.events.frame.filter(self.where)

    def apply(self, loop: Loop, state: State) -> None:
        """Change the weights of a state."""
        raise NotImplementedError

    def redrawn(self, loop: Loop, edges: pl.DataFrame, level: int) -> pl.DataFrame:
        """The edges of the graph with others between them, for edits that are `is_structural`."""
        raise NotImplementedError


def _check(name: str, value: Number) -> None:
    values = value if isinstance(value, tuple) else (value,)
    if len(values) not in (1, 3) or not all(each >= 0 for each in values):
        said = "three numbers" if len(values) not in (1, 3) else "0 or more"
        raise QueryParameterError(f"{name} must be {said}, not {value!r}")
    if list(values) != sorted(values):
        raise QueryParameterError(f"{name} must go from the shortest step to the longest, not {value!r}")


@dataclass(frozen=True)
class Scale(Edit):
    """Times are multiplied by a factor: of GPU work, and of what threads do inside events of the CPU."""

    factor: Number

    def apply(self, loop: Loop, state: State) -> None:
        """Change the weights of a state."""
        factor = at(self.factor, state.level)
        work, host = picked(state, self.chosen(loop))
        state.weight = _times(state.weight, np.where(work, 1.0, host), factor)


@dataclass(frozen=True)
class Remove(Edit):
    """Events are gone: GPU work with its launches, and events of the CPU with the GPU work that they launch.

    What came after in the stream comes after what was before. Without `host`, threads take as long as they did.
    """

    host: bool = True

    def apply(self, loop: Loop, state: State) -> None:
        """Change the weights of a state."""
        chosen = self.chosen(loop)
        take_out(loop, state, with_launched(loop, chosen), chosen if self.host else chosen.clear())
        if self.host:
            calls = callers(chosen.filter(pl.col("class").is_not_null()))
            state.weight = _times(state.weight, state.table.host_shares(calls), 0.0)


@dataclass(frozen=True)
class Take(Edit):
    """Each event takes so many nanoseconds, of those inside each other the outermost; but never longer than it does."""

    ns: Number

    def apply(self, loop: Loop, state: State) -> None:
        """Change the weights of a state."""
        ns = at(self.ns, state.level)
        chosen = self.chosen(loop)
        work, host = picked(state, chosen)
        state.weight = np.where(work, np.minimum(state.weight, round(ns)), state.weight)
        spans = merged(chosen.filter(pl.col("class").is_null()))
        if not spans.is_empty():
            # All shrink alike: what counts in the long run is their sum.
            total = float((state.weight * host).sum())
            state.weight = _times(state.weight, host, min(1.0, ns * spans.height / total) if total else 1.0)


@dataclass(frozen=True)
class Insert(Edit):
    """After each event, its stream or thread does something that takes so many nanoseconds."""

    ns: Number

    def apply(self, loop: Loop, state: State) -> None:
        """Change the weights of a state."""
        ns = round(at(self.ns, state.level))
        chosen = self.chosen(loop)
        table = state.table
        work = table.of("work") & table.works(chosen)
        state.weight = state.weight + np.where(work, ns, 0)
        spans = chosen.filter(pl.col("class").is_null()).group_by("track_id", at_ns="end_ns").len("number")
        ends = table.edges.select("kind", "track_id", at_ns="end_ns").join(
            spans, on=["track_id", "at_ns"], how="left", maintain_order="left"
        )
        number = ends.select(pl.when(kind="host").then("number").fill_null(0).cast(pl.Int64)).to_series().to_numpy()
        state.weight = state.weight + number * ns


@dataclass(frozen=True)
class Unwait(Edit):
    """Calls, or all calls inside of events, no longer wait for the GPU."""

    def apply(self, loop: Loop, state: State) -> None:
        """Change the weights of a state."""
        table = state.table
        chosen = self.chosen(loop)
        rows = np.flatnonzero(table.of("return"))
        calls = loop.events.frame.filter(pl.col("class").is_null()).select(
            pl.col("event_id").alias("call_id"), "track_id", "start_ns", "end_ns"
        )
        returns = (
            table.edges[rows]
            .select("event_id")
            .join(calls, left_on="event_id", right_on="call_id", how="left", maintain_order="left")
        )
        inside = inside_of(returns, chosen)
        gone = np.zeros(len(state.gone), np.bool_)
        gone[rows] = inside
        state.gone = state.gone | gone


@dataclass(frozen=True)
class Gap(Edit):
    """The time between work and what follows it in its stream, where this waited for it, is at most so long."""

    ns: Number

    def apply(self, loop: Loop, state: State) -> None:
        """Change the weights of a state."""
        rows = state.table.of("queue") & state.table.works(self.chosen(loop))
        state.weight = np.where(rows, np.minimum(state.weight, round(at(self.ns, state.level))), state.weight)


@dataclass(frozen=True)
class Fuse(Edit):
    """Works that follow each other in a stream become one: the first takes a share of their time, the others go.

    Works form a run if nothing else is between them on their stream. The share is of what all of a run took, and never
    less than the longest one.
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
        new = table.edges.join(fused.select("event_id", "ns"), on="event_id", how="left", maintain_order="left")["ns"]
        known = new.is_not_null().to_numpy() & table.of("work")
        # A change before this one stays: the time of all changes by the same part.
        before = np.where(known, state.weight / np.maximum(table.weight, 1), 1.0)
        state.weight = np.where(known, np.rint(new.fill_null(0).to_numpy() * before).astype(np.int64), state.weight)
        rest = runs.filter(
            pl.col("run").is_in(total["run"].implode()), ~pl.col("event_id").is_in(total["event_id"].implode())
        )
        take_out(loop, state, rest["event_id"], rest.clear())
        if self.host:
            state.weight = _times(state.weight, table.host_shares(callers(rest)), 0.0)


@dataclass(frozen=True)
class Move(Edit):
    """Works run on a stream of their own, in the order in which they ran; their old stream does not wait for them.

    What waits for them otherwise still does: calls that synchronise, and streams that wait for an event.
    """

    is_structural = True

    def redrawn(self, loop: Loop, edges: pl.DataFrame, level: int) -> pl.DataFrame:
        """The edges with the works on another stream."""
        moved = _works(self.chosen(loop)).implode()
        # A work is its two nodes; each stream's order is that of its works' starts.
        works = edges.filter(kind="work").sort("start_ns", "end_ns").select("event_id", "track_id", "from_id", "to_id")
        works = works.with_columns(is_moved=pl.col("event_id").is_in(moved))
        if not works["is_moved"].any():
            return edges
        new_track = edges.select(pl.col("track_id").max() + 1).item()
        streams = works.filter("is_moved").select("track_id").unique()
        works = works.with_columns(
            track_id=pl.when("is_moved").then(pl.lit(new_track, pl.Int64)).otherwise("track_id")
        ).with_columns(before_id=pl.col("to_id").shift().over("track_id"))
        touched = works.filter(pl.col("track_id").is_in([new_track, *streams["track_id"]]))
        gap = edges.filter(pl.col("binds"), kind="queue").select(pl.col("weight_ns").median().fill_null(0)).item()
        queue = touched.filter(pl.col("before_id").is_not_null()).select(
            "event_id", "track_id", to_id="from_id", from_id="before_id", kind=pl.lit("queue"), binds=pl.lit(False),
            weight_ns=pl.lit(int(gap), pl.Int64), bound_by=pl.lit("kernel_gap"),
        )  # fmt: skip
        # The gaps that were seen stay where a work follows the same one as before.
        seen = edges.filter(kind="queue").select("to_id", "from_id", seen_ns="weight_ns")
        queue = (
            queue.join(seen, on=["to_id", "from_id"], how="left", maintain_order="left")
            .with_columns(weight_ns=pl.coalesce("seen_ns", "weight_ns"))
            .drop("seen_ns")
        )
        times = edges.filter(kind="work").select("start_ns", to_id="from_id")
        queue = queue.join(times, on="to_id", how="left").with_columns(end_ns="start_ns")
        old = (pl.col("kind") == "queue") & pl.col("event_id").is_in(touched["event_id"].implode())
        own = pl.col("kind").is_in(["work", "queue", "launch"]) & pl.col("event_id").is_in(moved)
        kept = edges.filter(~(old & pl.col("previous_id").is_null()) & ~(old & pl.col("event_id").is_in(moved)))
        kept = kept.with_columns(track_id=pl.when(own).then(pl.lit(new_track, pl.Int64)).otherwise("track_id"))
        return pl.concat([kept, queue], how="diagonal_relaxed")


@dataclass(frozen=True)
class Stretch(Take):
    """Stretches of threads take so many nanoseconds per step in all; but never longer than they do."""

    spans: pl.DataFrame

    def apply(self, loop: Loop, state: State) -> None:
        """Change the weights of a state."""
        share = state.table.host_shares(self.spans)
        total = float((state.weight * share).sum())
        asked = at(self.ns, state.level) * loop.count
        state.weight = _times(state.weight, share, min(1.0, asked / total) if total else 1.0)
        # One launch of many kernels needs one place in the stream's queue.
        full = state.table.of("full")
        calls = state.table.edges.select("track_id", start_ns="end_ns", end_ns="end_ns")
        state.gone = state.gone | (full & inside_of(calls, self.spans.with_columns(pl.lit(None).alias("class"))))


@dataclass(frozen=True)
class Between(Scale):
    """In stretches of threads, the time outside of the ops among the events is multiplied by a factor."""

    spans: pl.DataFrame

    def apply(self, loop: Loop, state: State) -> None:
        """Change the weights of a state."""
        ops = self.chosen(loop).filter(pl.col("category") == "cpu_op")
        outside = np.clip(state.table.host_shares(self.spans) - state.table.host_shares(ops), 0, 1)
        state.weight = _times(state.weight, outside, at(self.factor, state.level))


@dataclass(frozen=True)
class Transfer(Scale):
    """Of collectives, the time in which they transfer data is multiplied; at the low end, that of waiting is, too.

    `split` has `event_id` and `transfer_ns`.
    """

    split: pl.DataFrame

    def apply(self, loop: Loop, state: State) -> None:
        """Change the weights of a state."""
        table = state.table
        rows = table.edges.select("event_id").join(self.split, on="event_id", how="left", maintain_order="left")
        moved = rows["transfer_ns"].fill_null(0).to_numpy()
        part = state.weight if state.level == LOW else np.minimum(moved, state.weight)
        saved = np.rint(part * (1 - at(self.factor, state.level))).astype(np.int64)
        mask = table.of("work") & table.works(self.chosen(loop))
        state.weight = np.where(mask, state.weight - saved, state.weight)


@dataclass(frozen=True)
class Pace(Edit):
    """Each GPU work takes a part of its time that is its own.

    `parts` has `event_id`, and the part at the ends of the range and between, `part_0`, `part_1`, `part_2`.
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
        part = rows.select(pl.when(kind="work").then("part").fill_null(1.0)).to_series().to_numpy()
        state.weight = np.rint(state.weight * part).astype(np.int64)


@dataclass(frozen=True)
class Hasten(Edit):
    """Threads take a part of their time for everything, also between the events that are recorded."""

    part: Number

    def apply(self, loop: Loop, state: State) -> None:
        """Change the weights of a state."""
        factor = at(self.part, state.level)
        state.weight = np.where(state.table.of("host"), np.rint(state.weight * factor), state.weight).astype(np.int64)


@dataclass(frozen=True)
class AllReduce(Edit):
    """Gradients are reduced over ranks on a stream of their own, bucket by bucket, and the optimizer waits for it.

    `buckets` has a row for each, in order: `ready_id`, the work that makes its last gradient, `until_id`, the first
    work that needs the result, and how long it takes at the ends of the range and between, `ns_0`, `ns_1`, `ns_2`.
    """

    buckets: pl.DataFrame

    is_structural = True

    def redrawn(self, loop: Loop, edges: pl.DataFrame, level: int) -> pl.DataFrame:
        """The edges with those of the buckets, and of what waits for them."""
        track = edges.select(pl.col("track_id").max() + 1).item()
        first = 1 + edges.select(pl.max_horizontal(pl.col("from_id").max(), pl.col("to_id").max())).item()
        place = pl.int_range(pl.len())
        made = (
            self.placed(edges, level)
            .sort("at_ns", maintain_order=True)
            .with_columns(start_node=first + 2 * place, end_node=first + 2 * place + 1, ns=pl.col(f"ns_{level}"))
        )
        nothing = pl.lit(0, pl.Int64)
        rows = [
            made.select(from_id="ready_node", to_id="start_node", kind=pl.lit("wait"), weight_ns="before_ns"),
            made.select(from_id="start_node", to_id="end_node", kind=pl.lit("work"), weight_ns="ns"),
            made.select(from_id="end_node", to_id="until_node", kind=pl.lit("wait"), weight_ns="after_ns"),
            made.select(
                from_id=pl.col("end_node").shift(), to_id="start_node", kind=pl.lit("queue"), weight_ns=nothing
            ),
        ]
        added = [
            part.with_columns(
                start_ns=made["at_ns"],
                end_ns=made["at_ns"],
                track_id=pl.lit(track, pl.Int64),
                binds=pl.lit(False),
                name=pl.lit("all-reduce"),
                bound_by=pl.when(kind="work").then(pl.lit("communication")).otherwise(pl.lit("kernel_gap")),
            )
            for part in rows
        ]
        return pl.concat([edges, pl.concat(added).filter(pl.col("from_id").is_not_null())], how="diagonal_relaxed")

    def placed(self, edges: pl.DataFrame, level: int) -> pl.DataFrame:
        """The buckets, each with the nodes at which it is ready and needed, and what it takes before and after."""
        works = edges.filter(kind="work").select("event_id", "from_id", "to_id", "end_ns")
        return (
            self.buckets.join(works.select(ready_id="event_id", ready_node="to_id", at_ns="end_ns"), on="ready_id")
            .join(works.select(until_id="event_id", until_node="from_id"), on="until_id")
            .with_columns(before_ns=pl.lit(0, pl.Int64), after_ns=pl.lit(0, pl.Int64))
        )


@dataclass(frozen=True)
class AllReduceOnCpu(AllReduce):
    """The same where a CPU computes: its thread copies gradients to their bucket, and waits at the end of backward.

    Of each of the `buckets`, the last gradient is there at `end_ns`, on the thread `track_id`. Copying it takes
    `copy_0`, `copy_1`, `copy_2`, and as long back. Those of the same `step` and `pass_ns` are waited for together.
    """

    def redrawn(self, loop: Loop, edges: pl.DataFrame, level: int) -> pl.DataFrame:
        """The edges with those of the buckets, and longer ones where the thread copies."""
        found = super().redrawn(loop, edges, level)
        made = self.placed(edges, level)
        back = made.group_by(from_id="last_node").agg(more_ns=pl.col(f"copy_{level}").sum())
        there = made.select(from_id="ready_node", more_ns=f"copy_{level}")
        copied = pl.concat([there, back]).group_by("from_id").agg(pl.col("more_ns").sum())
        weights = found.join(copied, on="from_id", how="left", maintain_order="left")
        more = pl.when(kind="host").then("more_ns").fill_null(0)
        return weights.with_columns(weight_ns=pl.col("weight_ns") + more).drop("more_ns")

    def placed(self, edges: pl.DataFrame, level: int) -> pl.DataFrame:
        """The buckets, each with the nodes at which it is ready and needed, and what it takes before and after."""
        pieces = edges.filter(kind="host").select("track_id", "from_id", "to_id", "end_ns", "weight_ns").sort("end_ns")
        ready = (
            self.buckets.sort("end_ns")
            .join_asof(pieces.select("track_id", ready_node="to_id", at_ns="end_ns"), left_on="end_ns",
                       right_on="at_ns", by="track_id", coalesce=False, check_sortedness=False)
            .drop_nulls("ready_node")
        )  # fmt: skip
        # The piece of the thread that follows the last gradient begins when all buckets are done and copied back.
        following = pieces.select(last_node="from_id", until_node="to_id", piece_ns="weight_ns")
        key = ["step", "pass_ns"]
        last = pl.col("ready_node").last().over(key, order_by="at_ns")
        copies = pl.col(f"copy_{level}").cum_sum(reverse=True).over(key, order_by="at_ns")
        found = ready.with_columns(last_node=last, copies_ns=copies).join(following, on="last_node")
        return found.with_columns(before_ns=f"copy_{level}", after_ns=pl.col("piece_ns") + pl.col("copies_ns"))


def picked(state: State, chosen: pl.DataFrame) -> tuple[Mask, Shares]:
    """The edges that are GPU work which was chosen, and of each edge of a thread the share inside chosen events."""
    return state.table.of("work") & state.table.works(chosen), state.table.host_shares(chosen)


def take_out(loop: Loop, state: State, works: pl.Series, host: pl.DataFrame) -> None:
    """Take works out of their streams, and the time of events of the CPU out of their threads."""
    table = state.table
    of_works = table.of_events(works)
    state.weight = np.where(of_works & table.of("work", "queue"), 0, state.weight)
    # What launches less also needs fewer places in the stream's queue.
    calls = loop.events.work.filter(pl.col("event_id").is_in(works.implode()))["runtime_id"].drop_nulls()
    state.gone = state.gone | (of_works & table.of(*_WORK_WAITS)) | (table.of("full") & table.of_events(calls))
    state.weight = _times(state.weight, table.host_shares(host), 0.0)


def with_launched(loop: Loop, chosen: pl.DataFrame) -> pl.Series:
    """The works among events, and those that are launched inside of events of the CPU."""
    host = chosen.filter(pl.col("class").is_null())
    work = loop.events.work
    calls = work.select("event_id", track_id="call_track_id", start_ns="call_start_ns", end_ns="call_end_ns")
    launched = work["event_id"].filter(pl.Series(inside_of(calls, host)))
    return pl.concat([_works(chosen), launched]).unique()


def inside_of(calls: pl.DataFrame, events: pl.DataFrame) -> Mask:
    """Which of some calls lie inside of events of their thread, or are one of these."""
    spans = merged(events.filter(pl.col("class").is_null()))
    if spans.is_empty() or calls.is_empty():
        return np.zeros(calls.height, np.bool_)
    around = spans.select("track_id", "start_ns", around_ns="end_ns").sort("start_ns")
    asked = calls.select("track_id", "start_ns", "end_ns").with_row_index("row").sort("start_ns", nulls_last=True)
    asked = asked.drop_nulls()
    found = asked.join_asof(around, on="start_ns", by="track_id", check_sortedness=False)
    rows = found.filter(pl.col("end_ns") <= pl.col("around_ns"))["row"].to_numpy()
    inside = np.zeros(calls.height, np.bool_)
    inside[rows] = True
    return inside


def callers(works: pl.DataFrame) -> pl.DataFrame:
    """The calls that launched some works, each once, as events of the CPU."""
    calls = works.filter(pl.col("call_track_id").is_not_null()).unique("runtime_id")
    return calls.select(track_id="call_track_id", start_ns="call_start_ns", end_ns="call_end_ns")


def runs_of(loop: Loop, chosen: pl.DataFrame) -> pl.DataFrame:
    """The chosen works with the number of their `run`: those between which their stream runs nothing else."""
    works = loop.events.work.sort("device", "stream", "start_ns", "event_id")
    is_chosen = works["event_id"].is_in(_works(chosen).implode())
    stream = pl.struct("device", "stream", "step", "phase")
    opens = ~(is_chosen & is_chosen.shift(fill_value=False))
    works = works.with_columns(opens=opens | (works.select(stream != stream.shift()).to_series().fill_null(True)))
    return works.with_columns(run=pl.col("opens").cum_sum()).filter(is_chosen)


def _works(chosen: pl.DataFrame) -> pl.Series:
    return chosen.filter(pl.col("class").is_not_null())["event_id"]


def _times(weight: Numbers, share: Shares, factor: float) -> Numbers:
    """Weights of which a share is multiplied by a factor."""
    found: Numbers = np.rint(weight * (1 + share * (factor - 1))).astype(np.int64)
    return found


def redraw(loop: Loop, edits: Sequence[Edit], level: int) -> State:
    """The state that edits begin with, once those that are structural have drawn the graph again."""
    structural = [edit for edit in edits if edit.is_structural]
    if not structural:
        return loop.state(level)
    edges = loop.graph.edges
    for edit in structural:
        edges = edit.redrawn(loop, edges, level)
    return loop.state(level, Table(graph_of(edges), loop.events))
