"""A step, run again and again on its dependency graph: how long it takes in the long run, and what it waits for.

The graph has all that a step does on the CPU and all GPU work that it launches (`until="launched"`). Copies of it
follow each other: the main thread goes on where it ended, each stream goes on with the first work after the last, and
what waited for work of an earlier step waits for the work in its place in an earlier copy. After a few copies each is
reached as much later as the one before, and that is the *period*: the time of a step in a loop, whether the GPU runs
behind the CPU or not.

A step that is no part of a loop (a trace without steps) runs once, and what it waited for from before it stays as long.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from hotline_analysis.answers.dependencies import DependencyGraph
from hotline_analysis.answers.longest import Chains, Incoming, Numbers, chains

_START, _END = 0, 1
_NEVER = -(1 << 62)
# An edge that is taken away: so much before anything else that it holds up nothing, and sums of such fit in 64 bits.
_GONE = -(10**15)
_WEIGHT = pl.col("weight_ns")
# Copies of the step, if its times do not grow evenly before. Most traces need three; where the CPU is k steps ahead of
# the GPU, its waits reach k copies back, and the times are even only after some times as many.
_COPIES = 8
_MOST_COPIES = 64


@dataclass(frozen=True)
class Run:
    """The times of each copy's nodes, what chains and edges between copies took, the period, and a node on its way."""

    copies: list[list[int]]
    weights: list[int]
    carried: list[int]
    period_ns: int
    slowest: int
    edge_weights: Numbers
    loops: bool

    @property
    def path_steps(self) -> int:
        """How many steps its path covers; the times of the path add up to so many periods."""
        return max(1, len(self.copies) // 2) if self.loops else 1


class Replay:
    """The step of a graph made with `until="launched"`, as one of a loop or as a single run.

    `edges` are those of the graph with the weights that count here: an edge that waits for earlier work (`is_carried`)
    weighs `previous_ns` in a loop. A stream whose earlier work is not in the trace has an edge of its own for it.
    """

    def __init__(self, graph: DependencyGraph, *, loops: bool = True) -> None:
        edges = graph.edges
        main_end = edges.filter(kind="end").join(edges.filter(kind="host"), left_on="from_id", right_on="to_id")
        self.loops = loops and not main_end.is_empty()
        self._main_last = main_end["from_id"][0] if self.loops else _END
        if self.loops:
            edges = _with_streams_closed(edges)
        earlier = pl.col("previous_id").is_not_null() if self.loops else pl.lit(False)
        self.edges = edges.with_columns(
            weight_ns=pl.when(earlier).then("previous_ns").otherwise("weight_ns"), is_carried=earlier
        ).with_row_index("row")

    @property
    def period_ns(self) -> int:
        """How long a step takes as it was recorded."""
        return self._observed.period_ns

    def without_ns(self, which: pl.Expr) -> int:
        """How long a step takes if the edges that meet a condition take no time."""
        return self.changed_ns(pl.when(which.fill_null(False)).then(0).otherwise(_WEIGHT))

    def changed_ns(self, weight: pl.Expr, gone: pl.Expr | None = None) -> int:
        """How long a step takes with other weights, an expression over `edges`, and without the edges that are gone."""
        return self.run(weight, gone).period_ns

    def run(self, weight: pl.Expr, gone: pl.Expr | None = None) -> Run:
        """The step with other weights, an expression over `edges`, and without the edges that are gone."""
        if gone is not None:
            weight = pl.when(gone.fill_null(False)).then(_GONE).otherwise(weight)
        return self._run(_numbers(self.edges.select(weight.cast(pl.Int64)).to_series()), early=True)

    def path(self, changed: Run | None = None) -> pl.DataFrame:
        """What some steps wait for: edges, the last one first, and their time `path_ns`, which adds up.

        They are `path_steps` steps as recorded, or of a run with other weights, which `weight_ns` then has.
        """
        run = changed or self._observed
        rows, part = self.path_rows(run)
        edges = self.edges.with_columns(weight_ns=pl.Series(run.edge_weights))[rows]
        return edges.with_columns(path_ns=pl.Series(part)).filter(pl.col("path_ns") > 0)

    def path_rows(self, run: Run) -> tuple[Numbers, Numbers]:
        """The rows of `edges` on the path of a run, the last one first, and how long it is on each."""
        found = self._chains
        across = _numbers(self._across["row"])
        inside = _numbers(self._inside["row"])
        start, main_last = found.node(_START), found.node(self._main_last)
        total = run.period_ns * run.path_steps
        node, copy = run.slowest, len(run.copies) - 1
        until = run.copies[copy][node] - total
        rows: list[Numbers] = []
        into: dict[int, list[tuple[int, int, int, int]]] = {}
        for (source, target, count), weight, row in zip(self._returns, run.carried, across, strict=True):
            into.setdefault(target, []).append((source, count, weight, row))
        while True:
            path, node = self._incoming.back(found, run.weights, run.copies[copy], node)
            rows.append(inside[found.edges(path)][::-1])
            at = run.copies[copy][node]
            if not self.loops or copy == 0 or at <= until:
                break
            if node == start and at == run.copies[copy - 1][main_last]:
                node, copy = main_last, copy - 1
                continue
            for source, count, weight, row in into.get(node, ()):
                if count <= copy and run.copies[copy - count][source] + weight == at:
                    rows.append(np.array([row]))
                    node, copy = source, copy - count
                    break
            else:
                break
        edges_passed = np.concatenate(rows)
        passed = np.cumsum(run.edge_weights[edges_passed])
        before = np.concatenate([np.zeros(1, np.int64), passed[:-1]])
        return edges_passed, np.minimum(passed, total) - np.minimum(before, total)

    @property
    def path_steps(self) -> int:
        """How many steps `path` covers as recorded; its times add up to so many periods."""
        return self._observed.path_steps

    def reached(self, run: Run) -> pl.DataFrame:
        """When the last copy of the step reaches each node: `node_id` and `at_ns`, from the start of that copy."""
        found = self._chains
        times = np.array(run.copies[-1], np.int64)
        edges = self._inside
        rows = _numbers(edges["row"])
        # Within a chain, each node comes as much later as the edges before it take.
        order = np.lexsort((found.place, found.chain_of))
        passed = np.empty(len(rows), np.int64)
        weights = run.edge_weights[rows]
        total = np.cumsum(weights[order])
        opens = np.flatnonzero(found.place[order] == 0)
        before = np.repeat((total - weights[order])[opens], np.diff(np.append(opens, len(order))))
        passed[order] = total - before
        at = times[np.array(found.first)[found.chain_of]] + passed
        nodes = np.concatenate([found.nodes, _numbers(edges["to_id"])])
        when = np.concatenate([times, at])
        begin = times[found.node(_START)]
        reached = pl.DataFrame({"node_id": nodes, "at_ns": when}).group_by("node_id").agg(pl.col("at_ns").max())
        return reached.with_columns(pl.col("at_ns") - begin).sort("node_id")

    @cached_property
    def _inside(self) -> pl.DataFrame:
        return self.edges.lazy().filter(~pl.col("is_carried")).select("row", "from_id", "to_id", "binds").collect()

    @cached_property
    def _across(self) -> pl.DataFrame:
        return self.edges.filter("is_carried")

    @cached_property
    def _chains(self) -> Chains:
        kept = [_START, _END, self._main_last, *self._across["previous_id"], *self._across["to_id"]]
        return chains(_numbers(self._inside["from_id"]), _numbers(self._inside["to_id"]), np.array(kept, np.int64))

    @cached_property
    def _incoming(self) -> Incoming:
        return Incoming.of(self._chains, self._inside["binds"].to_numpy())

    @cached_property
    def _returns(self) -> list[tuple[int, int, int]]:
        """Of each edge between copies, the node it leaves, the node it reaches, and how many copies later."""
        columns = self._across.select("previous_id", "to_id", "previous_count")
        return [(self._chains.node(a), self._chains.node(b), count) for a, b, count in columns.iter_rows()]

    @cached_property
    def _observed(self) -> Run:
        return self._run(_numbers(self.edges["weight_ns"]))

    def _run(self, edge_weights: Numbers, *, early: bool = False) -> Run:
        found = self._chains
        weights = found.weights(edge_weights[_numbers(self._inside["row"])])
        carried = edge_weights[_numbers(self._across["row"])].tolist()
        start, end, main_last = (found.node(number) for number in (_START, _END, self._main_last))
        if not self.loops:
            times = found.times(weights, [0] * len(found.nodes))
            return Run([times], weights, carried, times[end], end, edge_weights, False)
        watched = sorted({end, main_last, *(source for source, *_ in self._returns)})
        back = max((count for *_, count in self._returns), default=1)
        copies: list[list[int]] = []
        grown: list[list[int]] = []
        for copy in range(min(max(_COPIES, 4 * back), _MOST_COPIES)):
            begin = copies[-1][main_last] if copies else 0
            earliest = [begin if copy == 0 else _NEVER] * len(found.nodes)
            earliest[start] = begin
            for (source, target, count), weight in zip(self._returns, carried, strict=True):
                if count <= copy:
                    earliest[target] = max(earliest[target], copies[copy - count][source] + weight)
            copies.append(found.times(weights, earliest))
            if copy:
                grown.append([copies[-1][node] - copies[-2][node] for node in watched])
                # If all that a copy is given comes by the same later, so does all that follows, for ever.
                alike = {more for each in grown[-back:] for more in each}
                if early and len(grown) >= back and len(alike) == 1:
                    node = max(watched, key=lambda node: (copies[-1][node], -node))
                    return Run(copies, weights, carried, alike.pop(), node, edge_weights, True)
            # even for once more than waits reach back
            if len(grown) > back + 1 and all(grown[-1] == before for before in grown[-back - 2 : -1]):
                _, _, slowest = max(
                    (more, copies[-1][node], -node) for more, node in zip(grown[-1], watched, strict=True)
                )
                return Run(copies, weights, carried, max(grown[-1]), -slowest, edge_weights, True)
        half = len(copies) // 2
        period = round((copies[-1][end] - copies[-1 - half][end]) / half)
        return Run(copies, weights, carried, period, end, edge_weights, True)


def _with_streams_closed(edges: pl.DataFrame) -> pl.DataFrame:
    """Let the first work of each stream wait for the last one of the step before, where no edge says so."""
    work = edges.filter(kind="work").sort("start_ns", "end_ns")
    streams = work.group_by("track_id", maintain_order=True).agg(
        pl.col("from_id", "start_ns", "event_id").first(), pl.col("to_id").last().alias("previous_id")
    )
    told = edges.filter(pl.col("previous_id").is_not_null(), kind="queue")["to_id"]
    missing = streams.filter(~pl.col("from_id").is_in(told.implode()), pl.col("from_id") != _START)
    return pl.concat(
        [
            edges,
            missing.select(
                "track_id",
                "event_id",
                "previous_id",
                to_id="from_id",
                from_id=pl.lit(_START, pl.Int64),
                kind=pl.lit("queue"),
                binds=pl.lit(False),
                start_ns="start_ns",
                end_ns="start_ns",
                weight_ns=pl.lit(0, pl.Int64),
                bound_by=pl.lit("kernel_gap"),
                previous_count=pl.lit(1, pl.Int64),
                previous_ns=pl.lit(0, pl.Int64),
            ),
        ],
        how="diagonal_relaxed",
    )


def _numbers(values: pl.Series) -> Numbers:
    return values.to_numpy().astype(np.int64, copy=False)
