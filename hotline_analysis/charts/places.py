"""Where an event stands in the tree of a timeline."""

from __future__ import annotations

import polars as pl

from hotline_analysis.trace import Trace


def event_nodes(trace: Trace, rank: int, step: int | None, detail: pl.DataFrame) -> pl.DataFrame:
    """The node of every event of a step: its own, else the innermost around it or around the call that launched it.

    Columns: `event_id` and `node_id`; events that no node contains are left out.
    """
    events = trace.sql(
        "select label.event_id, nesting.track_id, nesting.start_ns, nesting.end_ns from label"
        " left join launch on label.rank = launch.rank and label.event_id = launch.event_id"
        " inner join nesting on label.rank = nesting.rank"
        " and nesting.event_id = coalesce(launch.runtime_id, launch.op_id, label.event_id)"
        " where label.rank = $rank and label.step is not distinct from $step",
        rank=rank,
        step=step,
    )
    own = pl.concat(
        [
            detail.filter(pl.col(name).is_not_null()).select(event_id=name, own_id="node_id").unique("event_id")
            for name in ("gpu_event_id", "event_id")
        ]
    ).unique("event_id", keep="first", maintain_order=True)
    return (
        innermost(detail, events)
        .join(own, on="event_id", how="full", coalesce=True)
        .select("event_id", node_id=pl.coalesce("own_id", "node_id"))
        .filter(pl.col("node_id").is_not_null())
    )


def innermost(detail: pl.DataFrame, spans: pl.DataFrame) -> pl.DataFrame:
    """Spans of threads (`track_id`, `start_ns`, `end_ns`) with the innermost node around each: `node_id`, or NULL."""
    sides = detail.filter(pl.col("start_ns").is_not_null(), device="cpu").sort("start_ns")
    found = spans.sort("start_ns").with_columns(node_id=pl.lit(None, pl.Int64))
    # Nodes of one depth do not overlap on a thread, so the last that begins before a span is the only one to ask.
    for depth in sorted(sides["depth"].unique()):
        level = sides.filter(depth=depth).select("track_id", "start_ns", until="end_ns", around="node_id")
        around = pl.when(pl.col("until") >= pl.col("end_ns")).then("around")
        found = (
            found.join_asof(level, on="start_ns", by="track_id", check_sortedness=False)
            .with_columns(node_id=pl.coalesce(around, "node_id"))
            .drop("until", "around")
        )
    return found
