"""The critical path of a step, and the resource that bounds each part of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import polars as pl

from hotline_analysis.answers.dependencies import DependencyGraph
from hotline_analysis.errors import QueryParameterError
from hotline_analysis.run.scope import check_scope
from hotline_analysis.run.trace import Trace

Until = Literal["host", "work", "launched"]
PathBy = Literal["bound_by", "kind", "step", "phase", "module", "name"]
_BY = {
    "bound_by": "bound_by",
    "kind": "kind",
    "step": "step",
    "phase": "phase",
    "module": "module_path",
    "name": "name",
}


def dependency_graph(
    trace: Trace,
    *,
    rank: int | None = None,
    step: int | None = None,
    start_ns: int | None = None,
    end_ns: int | None = None,
    until: Until = "work",
    frames: bool = True,
) -> DependencyGraph:
    """The dependency graph of one step, of all steps (the default), or of a window on the trace's clock.

    `rank` defaults to the lowest rank. `until` sets the step's limits:

    * `"work"`: a step ends when all GPU work launched before its CPU end is done, and starts when the previous step
      ends. Steps then share no time, and a GPU-bound loop shows GPU-bound steps even if the CPU runs ahead.
    * `"host"`: the step as the CPU marks it.
    * `"launched"`: the step as the CPU marks it, and all GPU work that it launches, whenever the work runs.

    Without `frames`, python frames do not cut the threads' time, so the graph is smaller. `hotline queries
    dependency_edges` documents the rules and the columns. Raises `QueryParameterError` for an unknown step, or if only
    one end of the window is given.
    """
    chosen_rank = min(trace.ranks) if rank is None else rank
    first, last = _window(trace, chosen_rank, step, start_ns, end_ns)
    return DependencyGraph(
        trace.query("dependency_edges", rank=chosen_rank, start_ns=first, end_ns=last, until=until, frames=frames)
    )


def _window(trace: Trace, rank: int, step: int | None, start_ns: int | None, end_ns: int | None) -> tuple[int, int]:
    if start_ns is not None and end_ns is not None:
        if step is not None:
            raise QueryParameterError("give a step or a window, not both")
        return start_ns, max(start_ns, end_ns)
    if start_ns is not None or end_ns is not None:
        raise QueryParameterError("a window needs start_ns and end_ns")
    check_scope(trace, {"rank": rank, "step": step})
    window = (
        trace.of(rank)
        .sql(
            "select min(start_ns) as start_ns, max(end_ns) as end_ns from step"
            " where rank = $rank and ($step is null or step = $step)",
            rank=rank,
            step=step,
        )
        .row(0)
    )
    return (0, 0) if window[0] is None else (window[0], window[1])


def critical_path(
    trace: Trace,
    *,
    rank: int | None = None,
    step: int | None = None,
    start_ns: int | None = None,
    end_ns: int | None = None,
    until: Until = "work",
) -> pl.DataFrame:
    """The critical path of a step (or of all steps, or of a window): one row per edge, from start to end.

    Each row starts where the previous row ends, so `weight_ns` adds up to the window. If a row gets shorter, the step
    gets shorter by as much, until another path is longer. The columns are the columns of `dependency_edges`. `bound_by`
    is the row's kind: cpu, data_loading, gpu_compute, communication, other_stage, copy, launch, kernel_gap, unobserved
    or unknown. For the arguments see `dependency_graph`. Empty if the step's work was done before the work of the
    previous step.
    """
    return dependency_graph(trace, rank=rank, step=step, start_ns=start_ns, end_ns=end_ns, until=until).path()


def critical_path_breakdown(
    trace: Trace,
    *,
    by: PathBy | str | Sequence[PathBy] = "bound_by",
    rank: int | None = None,
    step: int | None = None,
    start_ns: int | None = None,
    end_ns: int | None = None,
    until: Until = "work",
) -> pl.DataFrame:
    """Breakdown of the critical path by resource, phase, module, step, kind of edge or event name.

    `by` is one or several of bound_by, kind, step, phase, module and name, as a list or separated by commas. Returns
    these columns (`module_path` for module), `path_ns`, `path_pct` (the share of the path) and the number of edges that
    take time. The times add up to the window and the shares to 100 %. NULL means outside steps, phases or modules. With
    several ranks and `bound_by`, a collective's wait for other ranks is `late_rank`. For the other arguments see
    `dependency_graph`. Raises `QueryParameterError` for an unknown `by`.
    """
    words = by.split(",") if isinstance(by, str) else list(by)
    if not words or any(word not in _BY for word in words):
        raise QueryParameterError(f"by must be one or more of {', '.join(_BY)}, not {by!r}")
    path = critical_path(trace, rank=rank, step=step, start_ns=start_ns, end_ns=end_ns, until=until)
    if "bound_by" in words and len(trace.ranks) > 1:
        path = _with_waits_apart(trace, min(trace.ranks) if rank is None else rank, path)
    columns = [_BY[word] for word in dict.fromkeys(words)]
    return (
        path.filter(pl.col("weight_ns") > 0)
        .group_by(columns)
        .agg(path_ns=pl.col("weight_ns").sum(), edge_count=pl.len().cast(pl.Int64))
        .with_columns(path_pct=100.0 * pl.col("path_ns") / pl.col("path_ns").sum())
        .sort("path_ns", *columns, descending=[True] + [False] * len(columns), nulls_last=True)
        .select(*columns, "path_ns", "path_pct", "edge_count")
    )


def _with_waits_apart(trace: Trace, rank: int, path: pl.DataFrame) -> pl.DataFrame:
    """The path with each waiting collective split into two rows: the wait for other ranks, and the transfer."""
    is_transfer = (pl.col("bound_by") == "communication") & (pl.col("kind") == "work")
    if path.filter(is_transfer).is_empty():
        return path
    matches = trace.sql(  # of all ranks, because a rank waits for the others
        "select event.event_id, event.start_ns + collective_match.wait_ns as last_ns from collective_match"
        " inner join event on (collective_match.rank, collective_match.event_id) = (event.rank, event.event_id)"
        " where collective_match.rank = $rank and collective_match.on_gpu and collective_match.wait_ns > 0",
        rank=rank,
    )
    rows = path.join(matches, on="event_id", how="left", maintain_order="left")
    waits = pl.when(is_transfer).then(pl.col("last_ns") - pl.col("start_ns")).clip(0, pl.col("weight_ns")).fill_null(0)
    rows = rows.with_columns(waits_ns=waits)
    late_rows = rows.filter(pl.col("waits_ns") > 0).with_columns(weight_ns="waits_ns", bound_by=pl.lit("late_rank"))
    rest_rows = rows.with_columns(pl.col("weight_ns") - pl.col("waits_ns"))
    return pl.concat([rest_rows, late_rows]).select(path.columns)
