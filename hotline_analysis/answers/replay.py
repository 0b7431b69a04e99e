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
class _Run:
    """The times of each copy's nodes, what chains and edges between copies took, the period, and a node on its way."""

    copies: list[list[int]]
    weights: list[int]
    carried: list[int]
    period_ns: int
    slowest: int


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
        if gone is not None:
            weight = pl.when(gone.fill_null(False)).then(_GONE).otherwise(weight)
        return self._run(_numbers(self.edges.select(weight.cast(pl.Int64)).to_series())).period_ns

    def path(self) -> pl.DataFrame:
        """What `path_steps` steps wait for: edges, the last one first, and their time `path_ns`, which adds up."""
        run, found = self._observed, self._chains
        across = _numbers(self._across["row"])
        inside = _numbers(self._inside["row"])
        start, main_last = found.node(_START), found.node(self._main_last)
        total = run.period_ns * (max(1, len(run.copies) // 2) if self.loops else 1)
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
        passed = _WEIGHT.cum_sum()
        part = pl.min_horizontal(passed, total) - pl.min_horizontal(passed - _WEIGHT, total)
        return self.edges[np.concatenate(rows)].with_columns(path_ns=part).filter(pl.col("path_ns") > 0)

    @property
    def path_steps(self) -> int:
        """How many steps `path` covers; its times add up to so many periods."""
        return max(1, len(self._observed.copies) // 2) if self.loops else 1

    @cached_property
    def _inside(self) -> pl.DataFrame:
        return self.edges.filter(~pl.col("is_carried"))

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
    def _observed(self) -> _Run:
        return self._run(_numbers(self.edges["weight_ns"]))

    def _run(self, edge_weights: Numbers) -> _Run:
        found = self._chains
        weights = found.weights(edge_weights[_numbers(self._inside["row"])])
        carried = edge_weights[_numbers(self._across["row"])].tolist()
        start, end, main_last = (found.node(number) for number in (_START, _END, self._main_last))
        if not self.loops:
            times = found.times(weights, [0] * len(found.nodes))
            return _Run([times], weights, carried, times[end], end)
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
            # even for once more than waits reach back
            if len(grown) > back + 1 and all(grown[-1] == before for before in grown[-back - 2 : -1]):
                _, _, slowest = max(
                    (more, copies[-1][node], -node) for more, node in zip(grown[-1], watched, strict=True)
                )
                return _Run(copies, weights, carried, max(grown[-1]), -slowest)
        half = len(copies) // 2
        period = round((copies[-1][end] - copies[-1 - half][end]) / half)
        return _Run(copies, weights, carried, period, end)


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
