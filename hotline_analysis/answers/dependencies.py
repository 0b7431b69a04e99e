"""The dependency graph of a window: its critical path, and what becomes of it when its edges change."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from hotline_analysis.answers.longest import Incoming, chains
from hotline_analysis.errors import HotlineError

if TYPE_CHECKING:
    from rustworkx import PyDiGraph

_START, _END = 0, 1


class DependencyGraph:
    """What waits for what: nodes are points of time, edges the least time between two of them.

    `edges` has one row per edge, as the query `dependency_edges` describes them; node 0 is the window's start and node
    1 its end. The graph is a value: a change returns a new one, whose path is found again by `retimed_path`.

        graph = ha.dependency_graph(trace, step=3)
        gemm = pl.col("name").str.contains("gemm") & (pl.col("kind") == "work")
        faster = graph.reweighted(pl.when(gemm).then(pl.col("weight_ns") // 2).otherwise("weight_ns"))
        graph.length_ns - faster.retimed_ns()           # what the step would gain
        faster.retimed_path()                           # and what it would wait for then

    `to_rustworkx` gives it to a library of graph algorithms (`pip install 'hotline-analysis[graph]'`).
    """

    def __init__(self, edges: pl.DataFrame) -> None:
        self.edges = edges

    def __repr__(self) -> str:
        return f"<DependencyGraph: {self.edges['to_id'].n_unique():,} nodes, {self.edges.height:,} edges>"

    @property
    def start_ns(self) -> int:
        """Start of the window, on the clock of the trace; 0 for an empty graph."""
        return self.edges.filter(from_id=_START).select(pl.col("start_ns").min().fill_null(0)).item() or 0

    @property
    def length_ns(self) -> int:
        """Length of the window, which is that of the critical path as observed; 0 for an empty graph."""
        end_ns = self.edges.filter(to_id=_END).select(pl.col("end_ns").max()).item()
        return 0 if end_ns is None else end_ns - self.start_ns

    def path(self) -> pl.DataFrame:
        """Return the critical path as observed: the edges that bind, from the window's start to its end, in order.

        Each starts where the one before ends, so their lengths `weight_ns` add up to the window. Edges that take no
        time are among them: they show where the path changes its track.
        """
        binding = self.edges.filter("binds").unique("to_id", keep="first", maintain_order=True).sort("to_id")
        if binding.is_empty():
            return binding
        nodes = pl.concat([pl.Series("to_id", [_START], binding.schema["to_id"]), binding["to_id"]])
        # Each node's place in `nodes`; the start is its own predecessor.
        before = pl.concat([nodes.search_sorted(_at(0)), nodes.search_sorted(binding["from_id"])])
        # By pointer doubling, which takes as many rounds as the longest chain has digits: the number of edges from the
        # start, and pointers that lead 1, 2, 4, … nodes back.
        hops = (before != pl.int_range(len(nodes), eager=True)).cast(pl.UInt32)
        jumps = [before]
        while (jumps[-1] != 0).any():
            hops = hops + hops.gather(jumps[-1])
            jumps.append(jumps[-1].gather(jumps[-1]))
            _refuse_cycle(len(jumps) > len(nodes).bit_length() + 1)
        # The same jumps from the end reach every node of the path.
        reached = nodes.search_sorted(_at(_END))
        for jump in reversed(jumps):
            reached = pl.concat([reached, jump.gather(reached)]).unique()
        on_path = pl.DataFrame({"to_id": nodes.gather(reached), "hops": hops.gather(reached)})
        return binding.join(on_path, on="to_id").sort("hops").drop("hops")

    def reweighted(self, weight: pl.Expr) -> DependencyGraph:
        """Return the graph with other weights: an expression over the columns of `edges`, in nanoseconds.

        Fractions are cut off. Raises `HotlineError` if a weight is negative or missing.
        """
        edges = self.edges.with_columns(weight.cast(pl.Int64).alias("weight_ns"))
        if edges.select((pl.col("weight_ns").is_null() | (pl.col("weight_ns") < 0)).any()).item():
            raise HotlineError("an edge cannot take less than no time", hint="Weights are nanoseconds from 0 up.")
        return DependencyGraph(edges)

    def without(self, which: pl.Expr) -> DependencyGraph:
        """Return the graph without the edges that meet a condition; what waits for nothing then comes first."""
        return DependencyGraph(self.edges.filter(~which.fill_null(False)))

    def with_edges(self, edges: pl.DataFrame) -> DependencyGraph:
        """Return the graph with further edges: `from_id`, `to_id`, `weight_ns` and any other column of `edges`."""
        return DependencyGraph(pl.concat([self.edges, edges], how="diagonal_relaxed"))

    def retimed_ns(self) -> int:
        """Return how long the window takes if every node comes as early as its edges allow.

        Raises `HotlineError` if changes made the graph go in circles.
        """
        return int(self.retimed_path()["weight_ns"].sum())

    def retimed_path(self) -> pl.DataFrame:
        """Return the critical path if every node comes as early as its edges allow, with the times that follow.

        The columns are those of `edges`. Where two paths are equally long, either may be returned; for a graph that was
        not changed it may differ from `path` in this, but not in its length.
        """
        edges = self.edges
        if edges.is_empty():
            return edges
        source, target, weight = (edges[name].to_numpy() for name in ("from_id", "to_id", "weight_ns"))
        found = chains(source, target, np.array([_START, _END]))
        weights = found.weights(weight)
        times = found.times(weights, [0] * len(found.nodes))
        binds = edges["binds"].fill_null(False).to_numpy()
        path, _ = Incoming.of(found, binds).back(found, weights, times, found.node(_END))
        edges = edges[found.edges(path)]
        end = self.start_ns + pl.col("weight_ns").cum_sum()
        return edges.with_columns(start_ns=end - pl.col("weight_ns"), end_ns=end)

    def to_rustworkx(self) -> PyDiGraph[int, int]:
        """Return the part that leads to the window's end as a graph of rustworkx: nodes by number, weights on edges.

        Nodes keep their numbers. Raises `HotlineError` without rustworkx, or if changes made the graph go in circles.
        """
        try:
            import rustworkx
        except ImportError:
            raise HotlineError(
                "re-timing a graph needs rustworkx", hint="pip install 'hotline-analysis[graph]'"
            ) from None
        edges = self.edges.select("from_id", "to_id", "weight_ns")
        reached = edges["to_id"].implode()
        free = edges.select(to_id="from_id").unique().filter(~pl.col("to_id").is_in(reached), pl.col("to_id") != _START)
        zero = pl.lit(0, pl.Int64)
        edges = pl.concat([edges, free.select(zero.alias("from_id"), "to_id", zero.alias("weight_ns"))])
        size = 1 + max(edges.select(pl.max_horizontal("from_id", "to_id").max()).item() or 0, _END)
        graph: PyDiGraph[int, int] = rustworkx.PyDiGraph()
        graph.add_nodes_from(range(size))
        graph.add_edges_from(edges.rows())
        _refuse_cycle(not rustworkx.is_directed_acyclic_graph(graph))
        leading = rustworkx.ancestors(graph, _END) | {_END}
        graph.remove_nodes_from(list(set(range(size)) - leading))
        return graph


def _at(node: int) -> pl.Series:
    return pl.Series([node], dtype=pl.Int64)


def _refuse_cycle(found: bool) -> None:
    if found:
        raise HotlineError("the graph goes in circles", hint="An added edge leads back to what it waits for.")
