"""Replay a step in a loop on its dependency graph: the steady-state step time, and the critical path.

The graph contains the step's CPU activity and all GPU work launched by the step (`until="launched"`). The replay chains
copies of the graph. The main thread of a copy starts where the previous copy ended, and each stream starts after the
last work of the previous copy. An event that waited for work of an earlier step waits for the same work in an earlier
copy. After a few copies the distance between equal nodes of consecutive copies becomes constant. This distance is the
*period*: the step time in a loop, whether or not the GPU lags the CPU.

A step outside a loop (a trace without steps) runs once. Waits for work from before the step keep their recorded length.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from hotline_analysis.answers.dependencies import DependencyGraph
from hotline_analysis.answers.longest import Chains, Incoming, Numbers, chains

_START, _END = 0, 1
_NEVER = -(1 << 62)
# Weight of a removed edge: negative enough never to bind, small enough for sums to fit in 64 bits.
_GONE = -(10**15)
_WEIGHT = pl.col("weight_ns")
# Maximum number of copies while the growth is uneven. Most traces need three copies. If the CPU runs k steps ahead of
# the GPU, waits reach k copies back, and the growth settles only after several times k copies.
_COPIES = 8
_MOST_COPIES = 64


@dataclass(frozen=True)
class Run:
    """Result of a replay.

    `copies` has the node times of each copy, `weights` the length of each chain, and `carried` the weights of the edges
    between copies. `slowest` is the node where the critical path ends.
    """

    copies: list[list[int]]
    weights: list[int]
    carried: list[int]
    period_ns: int
    slowest: int
    edge_weights: Numbers
    loops: bool

    @property
    def path_steps(self) -> int:
        """Number of steps covered by the critical path. The times on the path add up to this many periods."""
        return max(1, len(self.copies) // 2) if self.loops else 1


class Replay:
    """Replay of a graph made with `until="launched"`, either in a loop or as a single run.

    `edges` are the graph's edges with the weights used in the replay. In a loop, an edge that waits for earlier work
    (`is_carried`) has the weight `previous_ns`. If the trace lacks the earlier work of a stream, the stream gets an
    edge from its last work in the previous copy.
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
        """Step time with the recorded weights."""
        return self._observed.period_ns

    def without_ns(self, which: pl.Expr) -> int:
        """Step time if the selected edges take no time."""
        return self.changed_ns(pl.when(which.fill_null(False)).then(0).otherwise(_WEIGHT))

    def changed_ns(self, weight: pl.Expr, gone: pl.Expr | None = None) -> int:
        """Step time with the weights of an expression over `edges`, and without the edges selected by `gone`."""
        return self.run(weight, gone).period_ns

    def run(self, weight: pl.Expr, gone: pl.Expr | None = None) -> Run:
        """Replay with the weights of an expression over `edges`, and without the edges selected by `gone`."""
        if gone is not None:
            weight = pl.when(gone.fill_null(False)).then(_GONE).otherwise(weight)
        return self._run(_numbers(self.edges.select(weight.cast(pl.Int64)).to_series()), early=True)

    def path(self, changed: Run | None = None) -> pl.DataFrame:
        """Critical path of `path_steps` steps: its edges, the last edge first, and the time `path_ns` on each edge.

        The times add up to `path_steps` periods. With `changed`, the path is the path of this run, and `weight_ns` has
        the run's weights.
        """
        if changed is None:
            rows, times = self.observed_path
            return self.edges[rows].with_columns(path_ns=pl.Series(times))
        rows, times = self.path_rows(changed)
        edges = self.edges.with_columns(weight_ns=pl.Series(changed.edge_weights))[rows]
        return edges.with_columns(path_ns=pl.Series(times)).filter(pl.col("path_ns") > 0)

    def path_of_edges(self, columns: Sequence[str]) -> pl.DataFrame:
        """The edges with time on the recorded critical path, once each, with `columns` and the time `path_ns`.

        The order is the order of `path`.
        """
        rows, times = self.observed_path
        total = np.zeros(self.edges.height, np.int64)
        np.add.at(total, rows, times)
        first = np.zeros(self.edges.height, np.int64)
        first[rows[::-1]] = np.arange(len(rows))[::-1]
        on_path = np.flatnonzero(total)
        on_path = on_path[np.argsort(first[on_path])]
        return self.edges.select(columns)[on_path].with_columns(path_ns=pl.Series(total[on_path]))

    @cached_property
    def observed_path(self) -> tuple[Numbers, Numbers]:
        """The edges with time on the recorded critical path: the result of `path_rows` without edges of no time."""
        rows, times = self.path_rows(self._observed)
        return rows[times > 0], times[times > 0]

    def path_rows(self, run: Run) -> tuple[Numbers, Numbers]:
        """Row numbers in `edges` along the critical path of a run, the last edge first, and the time on each edge."""
        graph = self._chains
        across_rows = _numbers(self._across["row"])
        inside_rows = _numbers(self._inside["row"])
        start, main_last = graph.node(_START), graph.node(self._main_last)
        total = run.period_ns * run.path_steps
        node, copy = run.slowest, len(run.copies) - 1
        stop_ns = run.copies[copy][node] - total
        rows: list[Numbers] = []
        incoming: dict[int, list[tuple[int, int, int, int]]] = {}
        for (source, target, count), weight, row in zip(self._returns, run.carried, across_rows, strict=True):
            incoming.setdefault(target, []).append((source, count, weight, row))
        while True:
            path, node = self._incoming.back(graph, run.weights, run.copies[copy], node)
            rows.append(inside_rows[graph.edges(path)][::-1])
            time = run.copies[copy][node]
            if not self.loops or copy == 0 or time <= stop_ns:
                break
            if node == start and time == run.copies[copy - 1][main_last]:
                node, copy = main_last, copy - 1
                continue
            for source, count, weight, row in incoming.get(node, ()):
                if count <= copy and run.copies[copy - count][source] + weight == time:
                    rows.append(np.array([row]))
                    node, copy = source, copy - count
                    break
            else:
                break
        edges_passed = np.concatenate(rows)
        elapsed = np.cumsum(run.edge_weights[edges_passed])
        previous = np.concatenate([np.zeros(1, np.int64), elapsed[:-1]])
        return edges_passed, np.minimum(elapsed, total) - np.minimum(previous, total)

    @property
    def path_steps(self) -> int:
        """Number of steps covered by `path` with the recorded weights. The times add up to this many periods."""
        return self._observed.path_steps

    def reached(self, run: Run) -> pl.DataFrame:
        """When the last copy reaches each node: `node_id`, and `at_ns` from the start of the copy."""
        graph = self._chains
        times = np.array(run.copies[-1], np.int64)
        edges = self._inside
        rows = _numbers(edges["row"])
        # Within a chain, a node's time is the time of the chain's first node plus the edge weights before the node.
        order = np.lexsort((graph.place, graph.chain_of))
        elapsed = np.empty(len(rows), np.int64)
        weights = run.edge_weights[rows]
        total = np.cumsum(weights[order])
        opens = np.flatnonzero(graph.place[order] == 0)
        before = np.repeat((total - weights[order])[opens], np.diff(np.append(opens, len(order))))
        elapsed[order] = total - before
        edge_times = times[np.array(graph.first)[graph.chain_of]] + elapsed
        nodes = np.concatenate([graph.nodes, _numbers(edges["to_id"])])
        all_times = np.concatenate([times, edge_times])
        begin = times[graph.node(_START)]
        frame = pl.DataFrame({"node_id": nodes, "at_ns": all_times}).group_by("node_id").agg(pl.col("at_ns").max())
        return frame.with_columns(pl.col("at_ns") - begin).sort("node_id")

    @cached_property
    def _inside(self) -> pl.DataFrame:
        return self.edges.lazy().filter(~pl.col("is_carried")).select("row", "from_id", "to_id", "binds").collect()

    @cached_property
    def _across(self) -> pl.DataFrame:
        return self.edges.filter("is_carried")

    @cached_property
    def _chains(self) -> Chains:
        nodes = [_START, _END, self._main_last, *self._across["previous_id"], *self._across["to_id"]]
        return chains(_numbers(self._inside["from_id"]), _numbers(self._inside["to_id"]), np.array(nodes, np.int64))

    @cached_property
    def _incoming(self) -> Incoming:
        return Incoming.of(self._chains, self._inside["binds"].to_numpy())

    @cached_property
    def _returns(self) -> list[tuple[int, int, int]]:
        """For each edge between copies: source node, target node, and distance in copies."""
        columns = self._across.select("previous_id", "to_id", "previous_count")
        return [(self._chains.node(a), self._chains.node(b), count) for a, b, count in columns.iter_rows()]

    @cached_property
    def _observed(self) -> Run:
        return self._run(_numbers(self.edges["weight_ns"]))

    def _run(self, edge_weights: Numbers, *, early: bool = False) -> Run:
        graph = self._chains
        weights = graph.weights(edge_weights[_numbers(self._inside["row"])])
        carried = edge_weights[_numbers(self._across["row"])].tolist()
        start, end, main_last = (graph.node(number) for number in (_START, _END, self._main_last))
        if not self.loops:
            times = graph.times(weights, [0] * len(graph.nodes))
            return Run([times], weights, carried, times[end], end, edge_weights, False)
        watched = sorted({end, main_last, *(source for source, *_ in self._returns)})
        back = max((count for *_, count in self._returns), default=1)
        copies: list[list[int]] = []
        growths: list[list[int]] = []
        for copy in range(min(max(_COPIES, 4 * back), _MOST_COPIES)):
            begin = copies[-1][main_last] if copies else 0
            earliest = [begin if copy == 0 else _NEVER] * len(graph.nodes)
            earliest[start] = begin
            for (source, target, count), weight in zip(self._returns, carried, strict=True):
                if count <= copy:
                    earliest[target] = max(earliest[target], copies[copy - count][source] + weight)
            copies.append(graph.times(weights, earliest))
            if copy:
                growths.append([copies[-1][node] - copies[-2][node] for node in watched])
                # If all inputs of a copy are later by the same amount, all following copies are later by the same
                # amount.
                distinct = {growth for row in growths[-back:] for growth in row}
                if early and len(growths) >= back and len(distinct) == 1:
                    node = max(watched, key=lambda node: (copies[-1][node], -node))
                    return Run(copies, weights, carried, distinct.pop(), node, edge_weights, True)
            # the growth must be constant for one copy more than the longest wait reaches back
            if len(growths) > back + 1 and all(growths[-1] == earlier for earlier in growths[-back - 2 : -1]):
                _, _, slowest = max(
                    (growth, copies[-1][node], -node) for growth, node in zip(growths[-1], watched, strict=True)
                )
                return Run(copies, weights, carried, max(growths[-1]), -slowest, edge_weights, True)
        half = len(copies) // 2
        period = round((copies[-1][end] - copies[-1 - half][end]) / half)
        return Run(copies, weights, carried, period, end, edge_weights, True)


def _with_streams_closed(edges: pl.DataFrame) -> pl.DataFrame:
    """Make the first work of each stream wait for the stream's last work in the previous step, if no edge does yet."""
    work = edges.filter(kind="work").sort("start_ns", "end_ns")
    streams = work.group_by("track_id", maintain_order=True).agg(
        pl.col("from_id", "start_ns", "event_id").first(), pl.col("to_id").last().alias("previous_id")
    )
    targets = edges.filter(pl.col("previous_id").is_not_null(), kind="queue")["to_id"]
    open_streams = streams.filter(~pl.col("from_id").is_in(targets.implode()), pl.col("from_id") != _START)
    return pl.concat(
        [
            edges,
            open_streams.select(
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
