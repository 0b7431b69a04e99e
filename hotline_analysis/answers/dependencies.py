"""The dependency graph of a window: its critical path, and the effect of changed edges."""

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
    """Dependency graph: nodes are points in time, edges are minimum times between two nodes.

    `edges` has one row per edge, with the columns of the query `dependency_edges`. Node 0 is the start of the window
    and node 1 the end. The graph is immutable: each change returns a new graph, and `retimed_path` finds the new
    graph's critical path.

        graph = ha.dependency_graph(trace, step=3)
        gemm = pl.col("name").str.contains("gemm") & (pl.col("kind") == "work")
        faster = graph.reweighted(pl.when(gemm).then(pl.col("weight_ns") // 2).otherwise("weight_ns"))
        graph.length_ns - faster.retimed_ns()           # time gained by the step
        faster.retimed_path()                           # the new critical path

    `to_rustworkx` converts the graph for a library of graph algorithms (`pip install 'hotline-analysis[graph]'`).
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
        """Length of the window, equal to the observed critical path; 0 for an empty graph."""
        end_ns = self.edges.filter(to_id=_END).select(pl.col("end_ns").max()).item()
        return 0 if end_ns is None else end_ns - self.start_ns

    def path(self) -> pl.DataFrame:
        """Return the observed critical path: the binding edges in order from the window's start to its end.

        Each edge starts where the previous edge ends, so the lengths `weight_ns` add up to the window. Edges of zero
        length are included because they show where the path changes tracks.
        """
        binding = self.edges.filter("binds").unique("to_id", keep="first", maintain_order=True).sort("to_id")
        if binding.is_empty():
            return binding
        nodes = pl.concat([pl.Series("to_id", [_START], binding.schema["to_id"]), binding["to_id"]])
        # Position of each node's predecessor in `nodes`. The start is its own predecessor.
        previous = pl.concat([nodes.search_sorted(_at(0)), nodes.search_sorted(binding["from_id"])])
        # Pointer doubling computes the number of edges from the start, and pointers 1, 2, 4, … nodes back. The number
        # of rounds is the binary logarithm of the longest chain.
        hops = (previous != pl.int_range(len(nodes), eager=True)).cast(pl.UInt32)
        jumps = [previous]
        while (jumps[-1] != 0).any():
            hops = hops + hops.gather(jumps[-1])
            jumps.append(jumps[-1].gather(jumps[-1]))
            _refuse_cycle(len(jumps) > len(nodes).bit_length() + 1)
        # The same jumps from the end reach every node of the path.
        positions = nodes.search_sorted(_at(_END))
        for jump in reversed(jumps):
            positions = pl.concat([positions, jump.gather(positions)]).unique()
        on_path = pl.DataFrame({"to_id": nodes.gather(positions), "hops": hops.gather(positions)})
        return binding.join(on_path, on="to_id").sort("hops").drop("hops")

    def reweighted(self, weight: pl.Expr) -> DependencyGraph:
        """Return the graph with new weights: an expression over the columns of `edges`, in nanoseconds.

        Fractions are truncated. Raises `HotlineError` if a weight is negative or missing.
        """
        edges = self.edges.with_columns(weight.cast(pl.Int64).alias("weight_ns"))
        if edges.select((pl.col("weight_ns").is_null() | (pl.col("weight_ns") < 0)).any()).item():
            raise HotlineError("an edge cannot have a negative weight", hint="Weights are nanoseconds, 0 or more.")
        return DependencyGraph(edges)

    def without(self, which: pl.Expr) -> DependencyGraph:
        """Return the graph without the selected edges. Nodes that no longer wait for anything move to the start."""
        return DependencyGraph(self.edges.filter(~which.fill_null(False)))

    def with_edges(self, edges: pl.DataFrame) -> DependencyGraph:
        """Return the graph with more edges: `from_id`, `to_id`, `weight_ns` and optionally other columns of `edges`."""
        return DependencyGraph(pl.concat([self.edges, edges], how="diagonal_relaxed"))

    def retimed_ns(self) -> int:
        """Return the window's length if every node occurs as early as its edges allow.

        Raises `HotlineError` if changes made the graph cyclic.
        """
        return int(self.retimed_path()["weight_ns"].sum())

    def retimed_path(self) -> pl.DataFrame:
        """Return the critical path if every node occurs as early as its edges allow, with the new times.

        The columns are the columns of `edges`. If two paths are equally long, either may be returned. For an unchanged
        graph the result may therefore differ from `path`, but it has the same length.
        """
        edges = self.edges
        if edges.is_empty():
            return edges
        source, target, weight = (edges[name].to_numpy() for name in ("from_id", "to_id", "weight_ns"))
        graph = chains(source, target, np.array([_START, _END]))
        weights = graph.weights(weight)
        times = graph.times(weights, [0] * len(graph.nodes))
        binds = edges["binds"].fill_null(False).to_numpy()
        path, _ = Incoming.of(graph, binds).back(graph, weights, times, graph.node(_END))
        edges = edges[graph.edges(path)]
        end = self.start_ns + pl.col("weight_ns").cum_sum()
        return edges.with_columns(start_ns=end - pl.col("weight_ns"), end_ns=end)

    def to_rustworkx(self) -> PyDiGraph[int, int]:
        """Return the part leading to the window's end as a rustworkx graph with node numbers and edge weights.

        Nodes keep their numbers. Raises `HotlineError` without rustworkx, or if changes made the graph cyclic.
        """
        try:
            import rustworkx
        except ImportError:
            raise HotlineError(
                "re-timing a graph needs rustworkx", hint="pip install 'hotline-analysis[graph]'"
            ) from None
        edges = self.edges.select("from_id", "to_id", "weight_ns")
        targets = edges["to_id"].implode()
        free = edges.select(to_id="from_id").unique().filter(~pl.col("to_id").is_in(targets), pl.col("to_id") != _START)
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
        raise HotlineError("the graph has a cycle", hint="An added edge leads back to an earlier node.")
