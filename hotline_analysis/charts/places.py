"""Additions of a timeline to the tree of `level_of_detail`: python functions without ops, and the critical path."""

from __future__ import annotations

import polars as pl

from hotline_analysis.answers.limits import typical_step
from hotline_analysis.answers.overlap import within
from hotline_analysis.answers.path import dependency_graph
from hotline_analysis.answers.replay import Replay
from hotline_analysis.run.trace import Trace

_LEAST = 0.005  # minimum share of the step for a shown python function


def with_python(trace: Trace, rank: int, step: int, detail: pl.DataFrame) -> pl.DataFrame:
    """Add calls of python functions in which no op runs to the tree, as nodes of kind `python` or as groups."""
    sides = detail.filter(pl.col("start_ns").is_not_null())
    length = int(sides.filter(depth=0, device="cpu").select((pl.col("end_ns") - pl.col("start_ns")).max()).item() or 0)
    found = trace.query("python_alone", rank=rank, step=step, least_ns=max(1, int(_LEAST * length)))
    # Drop functions outside all phases, which would appear next to the phases.
    placed = innermost(detail.filter(pl.col("depth") > 0), found).filter(pl.col("node_id").is_not_null())
    if placed.is_empty():
        return detail
    last: int = detail["node_id"].max()  # type: ignore[assignment]
    calls = placed.sort("start_ns", "time_ns", descending=[False, True]).with_columns(
        number=last + 1 + pl.int_range(pl.len())
    )
    around = calls.select(around_id="event_id", caller="number")
    calls = calls.join(around, on="around_id", how="left").with_columns(parent_id=pl.coalesce("caller", "node_id"))
    depths = detail.select("node_id", "depth").unique("node_id")
    # The enclosing calls of a nested call begin before the nested call and end after the nested call.
    outer = calls.join_where(
        calls.filter(call_count=1).select(of="track_id", since="start_ns", until="end_ns", outer="number"),
        pl.col("track_id") == pl.col("of"),
        pl.col("since") <= pl.col("start_ns"),
        pl.col("until") >= pl.col("end_ns"),
        pl.col("outer") < pl.col("number"),
    )
    levels = outer.filter(pl.col("caller").is_not_null()).group_by("number").agg(levels=pl.len())
    inside = (
        calls.join(depths, on="node_id", how="left")
        .join(levels, on="number", how="left")
        .with_columns(depth=pl.col("depth") + 1 + pl.col("levels").fill_null(0))
    )
    many = pl.col("call_count") > 1
    rows = inside.select(
        "rank",
        "step",
        "parent_id",
        "depth",
        "name",
        "short_name",
        "phase",
        "track_id",
        "start_ns",
        "end_ns",
        "time_ns",
        node_id="number",
        kind=pl.when(many).then(pl.lit("group")).otherwise(pl.lit("python")),
        member_count="call_count",
        name_count=1,
        name_pct=100.0,
        event_id=pl.when(~many).then("event_id"),
        device=pl.lit("cpu"),
        gpu_event_count=0,
        busy_ns=0,
        idle_ns=0,
    )
    return pl.concat([detail, rows.cast({"member_count": pl.Int64})], how="diagonal_relaxed")


def waited_for(trace: Trace, rank: int, step: int, detail: pl.DataFrame, places: pl.DataFrame) -> pl.DataFrame:
    """Time of the critical path in each node, for a loop of copies of the step: `path_ns`, per step.

    `places` is the frame of `event_nodes`. The result is empty for a step without dependencies.
    """
    typical = typical_step(trace, rank)
    if typical is not None and typical.step == step:
        replay = typical.replay
    else:
        graph = dependency_graph(trace, rank=rank, step=step, until="launched", frames=False)
        if graph.edges.is_empty():
            return pl.DataFrame(schema={"node_id": pl.Int64, "path_ns": pl.Int64})
        replay = Replay(graph)
    path = replay.path()
    on_thread = pl.col("kind").is_in(["host", "handoff", "return"])
    nodes = detail.unique("node_id", maintain_order=True).select("node_id", "parent_id", "depth")
    work = path.filter(~on_thread).join(places, on="event_id").group_by("node_id").agg(pl.col("path_ns").sum())
    below = nodes.join(work, on="node_id", how="left", maintain_order="left").with_columns(
        pl.col("path_ns").fill_null(0)
    )
    for depth in sorted(nodes["depth"].unique(), reverse=True):
        inside = below.filter(depth=depth).group_by(node_id="parent_id").agg(inside_ns=pl.col("path_ns").sum())
        below = (
            below.join(inside, on="node_id", how="left", maintain_order="left")
            .with_columns(pl.col("path_ns") + pl.col("inside_ns").fill_null(0))
            .drop("inside_ns")
        )
    sides = detail.filter(pl.col("start_ns").is_not_null(), device="cpu")
    threads = sides.with_columns(path_ns=within(sides, path.filter(on_thread), "path_ns"))
    parts = [part.select("node_id", "path_ns") for part in (below, threads)]
    return pl.concat(parts).group_by("node_id").agg(pl.col("path_ns").sum() // replay.path_steps)


def way(nodes: pl.DataFrame, waits: pl.DataFrame, *, min_pct: float) -> list[int]:
    """The nodes along the critical path: at each level the child with most `path_ns`, down to `min_pct` of the root.

    Takes the nodes of `tree_nodes` and the frame of `waited_for`. Empty if no node has time on the critical path.
    """
    known = nodes.join(waits.filter(pl.col("path_ns") > 0), on="node_id")
    roots = known.filter(pl.col("parent_id").is_null()).sort("path_ns", "node_id", descending=[True, False])
    if roots.is_empty():
        return []
    least = min_pct * roots["path_ns"][0] / 100
    most = (
        known.filter(pl.col("parent_id").is_not_null(), pl.col("path_ns") >= least)
        .sort("path_ns", "node_id", descending=[True, False])
        .unique("parent_id", keep="first")
    )
    next_of = dict(most.select("parent_id", "node_id").iter_rows())
    chain = [int(roots["node_id"][0])]
    while chain[-1] in next_of:
        chain.append(next_of[chain[-1]])
    return chain


def event_nodes(trace: Trace, rank: int, step: int | None, detail: pl.DataFrame) -> pl.DataFrame:
    """Node of every event of a step: the event's own node, or the innermost node around the event or launching call.

    Columns: `event_id` and `node_id`; events outside all nodes are left out.
    """
    events = trace.of(rank).sql(
        "select event_id, track_id, start_ns, end_ns from cpu_event"
        " where rank = $rank and step is not distinct from $step"
        " union all"
        " select event_id, call_track_id, call_start_ns, call_end_ns from gpu_event"
        " where rank = $rank and step is not distinct from $step and call_track_id is not null",
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
    """Add `node_id`, the innermost node around each span of a thread (`track_id`, `start_ns`, `end_ns`), or NULL."""
    sides = detail.filter(pl.col("start_ns").is_not_null(), device="cpu").sort("start_ns")
    found = spans.sort("start_ns").with_columns(node_id=pl.lit(None, pl.Int64))
    # Nodes of one depth do not overlap on a thread, so only the last node that begins before a span can contain it.
    for depth in sorted(sides["depth"].unique()):
        level = sides.filter(depth=depth).select("track_id", "start_ns", until="end_ns", around="node_id")
        around = pl.when(pl.col("until") >= pl.col("end_ns")).then("around")
        found = (
            found.join_asof(level, on="start_ns", by="track_id", check_sortedness=False)
            .with_columns(node_id=pl.coalesce(around, "node_id"))
            .drop("until", "around")
        )
    return found
