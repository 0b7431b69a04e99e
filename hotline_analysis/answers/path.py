"""What a step had to wait for: its critical path, and what bounds it."""

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
    """What waits for what in one step, in all of them (the default), or between two times of the trace's clock.

    `rank` is the lowest of the run by default. With `until="work"`, a step ends when the GPU work launched until its
    end is done, and starts when that of the step before is: so steps share no time, and a step of a loop that the GPU
    bounds is bound by the GPU, even if the CPU runs ahead. With `"host"`, it is the step as the CPU marks it, and with
    `"launched"` that and all GPU work that it launches, whenever this runs. Without `frames`, python frames do not cut
    the time of threads, which makes the graph smaller. `hotline queries dependency_edges` has the rules and columns.
    Raises `QueryParameterError` for a step that is not there, or half a window.
    """
    chosen = min(trace.ranks) if rank is None else rank
    first, last = _window(trace, chosen, step, start_ns, end_ns)
    return DependencyGraph(
        trace.query("dependency_edges", rank=chosen, start_ns=first, end_ns=last, until=until, frames=frames)
    )


def _window(trace: Trace, rank: int, step: int | None, start_ns: int | None, end_ns: int | None) -> tuple[int, int]:
    if start_ns is not None and end_ns is not None:
        if step is not None:
            raise QueryParameterError("give a step or a window, not both")
        return start_ns, max(start_ns, end_ns)
    if start_ns is not None or end_ns is not None:
        raise QueryParameterError("a window needs start_ns and end_ns")
    check_scope(trace, {"rank": rank, "step": step})
    found = (
        trace.of(rank)
        .sql(
            "select min(start_ns) as start_ns, max(end_ns) as end_ns from step"
            " where rank = $rank and ($step is null or step = $step)",
            rank=rank,
            step=step,
        )
        .row(0)
    )
    return (0, 0) if found[0] is None else (found[0], found[1])


def critical_path(
    trace: Trace,
    *,
    rank: int | None = None,
    step: int | None = None,
    start_ns: int | None = None,
    end_ns: int | None = None,
    until: Until = "work",
) -> pl.DataFrame:
    """What a step (or all of them, or a window) waited for, from its end back to its start: one row per edge, in order.

    Each row starts where the one before ends, so `weight_ns` adds up to the window: shorten a row and, until another
    path is longer, the step gets shorter by as much. The columns are those of `dependency_edges`; `bound_by` says what
    a row is: cpu, data_loading, gpu_compute, communication, copy, launch, kernel_gap or unknown. For the arguments see
    `dependency_graph`. Empty if the work of the step was over before that of the step before.
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
    """What the critical path consists of: by what bounds it, by phase, module, step, kind of edge or event name.

    `by` is one or several of bound_by, kind, step, phase, module and name, as a list or with commas. Returns those
    columns (`module_path` for module), `path_ns`, its share `path_pct` and the number of edges that take time. The
    times add up to the window and the shares to 100 %. NULL stands for outside steps, phases or modules. For the other
    arguments see `dependency_graph`. Raises `QueryParameterError` for an unknown `by`.
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
    """The path with two rows for each collective that waits for other ranks: the wait, and the transfer."""
    is_transfer = (pl.col("bound_by") == "communication") & (pl.col("kind") == "work")
    if path.filter(is_transfer).is_empty():
        return path
    found = trace.sql(  # of all ranks, as one waits for another
        "select event.event_id, event.start_ns + collective_match.wait_ns as last_ns from collective_match"
        " inner join event on (collective_match.rank, collective_match.event_id) = (event.rank, event.event_id)"
        " where collective_match.rank = $rank and collective_match.on_gpu and collective_match.wait_ns > 0",
        rank=rank,
    )
    met = path.join(found, on="event_id", how="left", maintain_order="left")
    waits = pl.when(is_transfer).then(pl.col("last_ns") - pl.col("start_ns")).clip(0, pl.col("weight_ns")).fill_null(0)
    met = met.with_columns(waits_ns=waits)
    late = met.filter(pl.col("waits_ns") > 0).with_columns(weight_ns="waits_ns", bound_by=pl.lit("late_rank"))
    rest = met.with_columns(pl.col("weight_ns") - pl.col("waits_ns"))
    return pl.concat([rest, late]).select(path.columns)
