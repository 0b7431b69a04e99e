"""The profiler's own work in the steps, and the steps without it."""

from __future__ import annotations

import polars as pl

from hotline_analysis.answers.dependencies import DependencyGraph
from hotline_analysis.answers.overlap import within
from hotline_analysis.run.trace import Trace


class ProfilerWork:
    """The profiler's own work inside calls of the loop's threads."""

    def __init__(self, trace: Trace, rank: int) -> None:
        sql = (
            "select start_ns, end_ns, step from host_activity"
            " where rank = $rank and kind = 'profiler' and end_ns > start_ns order by start_ns"
        )
        self._spans = trace.of(rank).sql(sql, rank=rank)
        self._spans = self._spans.with_columns(track_id=pl.lit(0), length=pl.col("end_ns") - pl.col("start_ns"))

    def taken_out(self, graph: DependencyGraph) -> DependencyGraph:
        """The graph with the profiler's work taking no time."""
        if self._spans.is_empty() or not (graph.edges["activity"] == "profiler").any():
            return graph
        edges = graph.edges
        is_own = (pl.col("kind") == "host") & (pl.col("activity") == "profiler").fill_null(False)
        # a launch takes effect only after the profiler's work in the same call
        overlap = within(edges.with_columns(track_id=pl.lit(0)), self._spans, "length")
        weight = pl.when(is_own).then(0).when(pl.col("kind") == "launch").then(pl.col("weight_ns") - pl.lit(overlap))
        return DependencyGraph(edges.with_columns(weight_ns=weight.otherwise("weight_ns").clip(0).cast(pl.Int64)))
