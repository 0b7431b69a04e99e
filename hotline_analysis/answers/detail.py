"""A readable tree of the trace, and how much smaller the tree is than the trace."""

from __future__ import annotations

import polars as pl

from hotline_analysis.answers.generated import level_of_detail
from hotline_analysis.run.trace import Trace

_BUSY_PCT = 80.0  # from this share on the GPU bounds a node, as in `gpu_or_cpu_bound`
_NODE = (
    "rank",
    "step",
    "parent_id",
    "depth",
    "kind",
    "name",
    "short_name",
    "phase",
    "module_id",
    "pass",
    "member_count",
    "name_count",
    "name_pct",
    "event_id",
    "gpu_event_id",
)


def tree_nodes(detail: pl.DataFrame) -> pl.DataFrame:
    """The nodes of `level_of_detail`, one row each, with the time on the busiest thread and on all streams.

    `cpu_ns` is the longest time on one thread; NULL if a node runs on no thread. `gpu_ns` is the duration of the node's
    GPU work, `busy_ns` the part of it that kept a device busy, and `idle_ns` the time that a device waited for it.
    """
    on_cpu, on_gpu = pl.col("device") == "cpu", pl.col("device") == "gpu"
    return (
        detail.group_by("node_id", maintain_order=True)
        .agg(
            pl.first(*_NODE),
            cpu_ns=pl.col("time_ns").filter(on_cpu).max(),
            gpu_ns=pl.col("time_ns").filter(on_gpu).sum(),
            busy_ns=pl.col("busy_ns").sum(),
            idle_ns=pl.col("idle_ns").sum(),
            gpu_event_count=pl.col("gpu_event_count").sum(),
            start_ns=pl.coalesce(pl.col("start_ns").filter(on_cpu).min(), pl.col("start_ns").min()),
        )
        .select("node_id", *_NODE, "cpu_ns", "gpu_ns", "busy_ns", "idle_ns", "gpu_event_count", "start_ns")
    )


def bound_by() -> pl.Expr:
    """GPU or CPU, whichever bounds a node of `tree_nodes`: GPU if it is busy for 80 % of its busy and waiting time."""
    return (
        pl.when(pl.col("busy_ns") == 0)
        .then(pl.lit("CPU"))
        .when(100.0 * pl.col("busy_ns") >= _BUSY_PCT * (pl.col("busy_ns") + pl.col("idle_ns")))
        .then(pl.lit("GPU"))
        .otherwise(pl.lit("CPU"))
    )


def longest_chain(nodes: pl.DataFrame, *, min_pct: float = 0.0) -> list[int]:
    """The path down the tree to the bottleneck: from the longest step on, always the child with the most time.

    Time is GPU time if the GPU bounds the step, else CPU time. The path ends before a node with less than `min_pct` of
    the step. Takes the nodes of `tree_nodes`, returns node ids.
    """
    root = nodes.filter(pl.col("depth") == 0).sort("cpu_ns", "gpu_ns", descending=True, nulls_last=True).head(1)
    if root.is_empty():
        return []
    on_gpu = root.select(bound_by()).item() == "GPU"
    time = pl.col("gpu_ns") if on_gpu else pl.col("cpu_ns").fill_null(0)
    heaviest = (
        nodes.filter(
            pl.col("parent_id").is_not_null() & (time > 0) & (100.0 * time >= min_pct * root.select(time).item())
        )
        .sort([time, pl.col("node_id")], descending=[True, False])
        .unique("parent_id", keep="first", maintain_order=True)
    )
    next_of = dict(heaviest.select("parent_id", "node_id").iter_rows())
    chain = [int(root["node_id"][0])]
    while chain[-1] in next_of:
        chain.append(next_of[chain[-1]])
    return chain


def median_step(trace: Trace, rank: int) -> int | None:
    """The typical step of a rank, by the query `step_lengths`; `None` for a rank without steps."""
    steps = trace.query("step_lengths", rank=rank)
    typical = steps.filter(role="typical")
    number: int | None = next(iter((typical if not typical.is_empty() else steps)["step"]), None)
    return number


def detail_size(trace: Trace) -> pl.DataFrame:
    """Size of the typical step of each rank: number of events in the trace, and of nodes in the tree.

    `event_count` is the number of events with a duration, and `node_count` the number of tree nodes without groups.
    `first_view_count` is the number of slices on the screen with the path to the bottleneck expanded (`longest_chain`),
    and `widest_count` the maximum number of slices shown by one click.
    """
    rows = []
    for rank in trace.ranks:
        step = median_step(trace, rank)
        nodes = tree_nodes(level_of_detail(trace, rank=rank, step=step))
        events = trace.of(rank).sql(
            "select count(*) as n from label where rank = $rank and step is not distinct from $step",
            rank=rank,
            step=step,
        )
        children = nodes.filter(pl.col("parent_id").is_not_null()).group_by("parent_id").len()
        rows.append(
            {
                "rank": rank,
                "step": step,
                "event_count": events["n"][0],
                "node_count": nodes.filter(pl.col("kind") != "group").height,
                "first_view_count": int(children.filter(pl.col("parent_id").is_in(longest_chain(nodes)))["len"].sum()),
                "widest_count": max(children["len"], default=0),
            }
        )
    kinds = ("rank", "step", "event_count", "node_count", "first_view_count", "widest_count")
    return pl.DataFrame(rows, schema=dict.fromkeys(kinds, pl.Int64))
