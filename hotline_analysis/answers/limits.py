"""What limits a step: the parts of its critical path, and how fast it would be without each."""

from __future__ import annotations

import weakref
from dataclasses import dataclass

import polars as pl

from hotline_analysis.answers.path import dependency_graph
from hotline_analysis.answers.replay import Replay
from hotline_analysis.run.scope import check_scope
from hotline_analysis.run.trace import Trace

_IS_HOST = pl.col("kind").is_in(["host", "handoff", "return"]) & (pl.col("bound_by") != "copy")
LIMIT = (
    pl.when(_IS_HOST)
    .then(pl.col("activity").replace({"op": "launching", "nothing": "python"}).fill_null("python"))
    .otherwise(
        pl.col("bound_by").replace(
            {"gpu_compute": "computing", "copy": "copying", "launch": "launching", "kernel_gap": "queued"}
        )
    )
)
"""What an edge of the dependency graph counts to."""


@dataclass(frozen=True)
class TypicalStep:
    """The step that stands for a run, and its replay.

    `loops` is false for a trace without steps, whose whole time is replayed once. `left_out` are the other steps that
    do not count, with their role in `step_lengths`. `median_ns`, `least_ns` and `most_ns` are of those that count.
    """

    step: int
    loops: bool
    replay: Replay
    median_ns: int
    least_ns: int
    most_ns: int
    usual_count: int
    left_out: tuple[tuple[int, str], ...]


_known: weakref.WeakKeyDictionary[Trace, dict[int, TypicalStep | None]] = weakref.WeakKeyDictionary()


def typical_step(trace: Trace, rank: int | None = None) -> TypicalStep | None:
    """Find the median of the usual steps of a rank (the lowest by default) and replay it; None for a trace of nothing.

    It is kept with the trace, as several answers need it.
    """
    check_scope(trace, {"rank": rank})
    chosen = min(trace.ranks) if rank is None else rank
    found = _known.setdefault(trace, {})
    if chosen not in found:
        found[chosen] = _typical_step(trace, chosen)
    return found[chosen]


def _typical_step(trace: Trace, rank: int) -> TypicalStep | None:
    lengths = trace.query("step_lengths", rank=rank)
    usual = lengths.filter(pl.col("role").is_in(["typical", "usual"]))
    chosen = lengths.filter(role="typical")
    if chosen.is_empty():
        return None
    step = chosen.row(0, named=True)
    loops = step["evidence"] != "whole_trace"
    graph = dependency_graph(trace, rank=rank, step=step["step"], until="launched", frames=False)
    if graph.edges.is_empty():
        return None
    others = lengths.filter(~pl.col("role").is_in(["typical", "usual"])).select("step", "role").rows()
    return TypicalStep(
        step["step"],
        loops,
        Replay(graph, loops=loops),
        step["length_ns"],
        usual["length_ns"].min(),  # type: ignore[arg-type]
        usual["length_ns"].max(),  # type: ignore[arg-type]
        usual.height,
        tuple(others),
    )


def step_limits(trace: Trace, *, rank: int | None = None) -> pl.DataFrame:
    """What a usual step waits for, and how fast it would be without: parts of the critical path of the median step.

    One row per limit: on the GPU `computing`, `communication`, `copying` and `queued` (the gaps between kernels); on
    the CPU `load_data`, `launching` (ops and launch calls), `python`, `unrecorded` (time between the calls of a trace
    that has neither ops nor frames), `cpu_tensor` (arithmetic on CPU tensors) and `sync` (calls that synchronise,
    beyond what they wait for); `unobserved` (launched work waits, and nothing in the
    file explains it) and `unknown`. `path_ns` adds up to the step and `path_pct` to 100 %. `without_ns` is the step
    replayed with these edges taking no time, and `speedup` how many times faster that is: at most so much can be
    gained. `step` is the step that was chosen (query `step_lengths`), `step_ns` its time in a loop of such
    steps. `rank` is the lowest of the run by default. Empty for a trace without steps of any
    length.
    """
    typical = typical_step(trace, rank)
    if typical is None:
        return pl.DataFrame(schema=_COLUMNS)
    replay = typical.replay
    path = replay.path().group_by(limit=LIMIT).agg(path_ns=pl.col("path_ns").sum())
    total = replay.period_ns
    rows = []
    for limit, path_ns in path.with_columns(pl.col("path_ns") // replay.path_steps).rows():
        without = replay.without_ns(limit == LIMIT)
        rows.append((typical.step, total, limit, path_ns, 100 * path_ns / total, without, total / max(without, 1)))
    frame = pl.DataFrame(rows, _COLUMNS, orient="row")
    if not has_host_events(trace, min(trace.ranks) if rank is None else rank):
        frame = frame.with_columns(pl.col("limit").replace("python", "unrecorded"))
    return frame.sort("path_ns", "limit", descending=[True, False])


def has_host_events(trace: Trace, rank: int) -> bool:
    """Whether the file tells what the CPU does between calls of the GPU's runtime."""
    found = "select exists (select 1 from event where rank = $rank and category in $categories)"
    return bool(
        trace.of(rank).sql(found, rank=rank, categories=["cpu_op", "user_annotation", "python_function"]).item()
    )


_COLUMNS = {
    "step": pl.Int64,
    "step_ns": pl.Int64,
    "limit": pl.String,
    "path_ns": pl.Int64,
    "path_pct": pl.Float64,
    "without_ns": pl.Int64,
    "speedup": pl.Float64,
}
