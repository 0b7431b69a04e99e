"""The events of a predicted step, at the times given by the replay."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl

from hotline_analysis.answers.replay import Run
from hotline_analysis.atomic import check_file, path_of, replace_file
from hotline_analysis.prediction.engine.loop import Loop, State


def moved_events(loop: Loop, state: State, run: Run) -> pl.DataFrame:
    """Return the events of the loop's steps with the times of a run, from the start of the first step.

    One row per event of a replayed thread and per GPU work item: `event_id`, `category`, `name`, `track_id`,
    `start_ns`, `end_ns`, and the recorded times `recorded_start_ns` and `recorded_end_ns`. Events that take no time any
    more are left out, and so are events that begin before the steps or end after them.
    """
    edges = state.table.edges
    node_times = state.table.replay.reached(run)
    works = (
        edges.filter(kind="work")
        .select("event_id", "track_id", "from_id", "to_id")
        .join(node_times.select(from_id="node_id", start_ns="at_ns"), on="from_id")
        .join(node_times.select(to_id="node_id", end_ns="at_ns"), on="to_id")
        .select("event_id", "track_id", "start_ns", "end_ns")
    )
    events = loop.events.frame.select(
        "event_id", "category", "name", "class", "track_id", recorded_start_ns="start_ns", recorded_end_ns="end_ns"
    )
    on_gpu = events.drop("track_id").join(works, on="event_id")
    host = edges.filter(kind="host")
    points = (
        pl.concat(
            [
                host.select("track_id", recorded_ns="start_ns", node_id="from_id"),
                host.select("track_id", recorded_ns="end_ns", node_id="to_id"),
            ]
        )
        .unique()
        .join(node_times, on="node_id")
        .group_by("track_id", "recorded_ns")
        .agg(pl.col("at_ns").max())
        .sort("track_id", "recorded_ns")
        .with_columns(
            next_recorded_ns=pl.col("recorded_ns").shift(-1).over("track_id"),
            next_at_ns=pl.col("at_ns").shift(-1).over("track_id"),
        )
    )
    is_whole = (pl.col("recorded_start_ns") >= loop.start_ns) & (pl.col("recorded_end_ns") <= loop.end_ns)
    threads = events.filter(
        is_whole, pl.col("class").is_null(), pl.col("track_id").is_in(points["track_id"].unique().implode())
    )
    for end in ("start_ns", "end_ns"):
        threads = _mapped(threads, points, f"recorded_{end}", end)
    columns = ("event_id", "category", "name", "track_id", "start_ns", "end_ns", "recorded_start_ns", "recorded_end_ns")
    moved = pl.concat([on_gpu.select(columns), threads.select(columns)])
    lasts = pl.col("end_ns") > pl.col("start_ns")
    return moved.filter(lasts | (pl.col("recorded_start_ns") == pl.col("recorded_end_ns"))).sort("start_ns", "event_id")


def _mapped(events: pl.DataFrame, points: pl.DataFrame, recorded: str, name: str) -> pl.DataFrame:
    """Map one time of each event to the run by interpolation between two points of the event's thread."""
    rows = (
        events.with_row_index("row")
        .sort(recorded)
        .join_asof(
            points.sort("recorded_ns"), left_on=recorded, right_on="recorded_ns", by="track_id", check_sortedness=False
        )
        .sort("row")
    )
    elapsed = (pl.col(recorded) - pl.col("recorded_ns")).fill_null(0)
    length = pl.col("next_recorded_ns") - pl.col("recorded_ns")
    distance = pl.col("next_at_ns") - pl.col("at_ns")
    share = pl.when(length > 0).then((elapsed / length).clip(0, 1)).otherwise(0.0)
    new_time = pl.col("at_ns").fill_null(0) + (share * distance).fill_null(0).round().cast(pl.Int64)
    return rows.with_columns(new_time.alias(name)).drop("row", *[c for c in points.columns if c != "track_id"])


def save_timeline(loop: Loop, events: pl.DataFrame, path: str | Path, title: str, *, overwrite: bool) -> Path:
    """Write events as a trace file for ui.perfetto.dev. Raises `ExportExistsError` if the file exists."""
    target = path_of(path)
    check_file(target, overwrite=overwrite)
    tracks = loop.trace.of(loop.rank).sql(
        "select track_id, pid, tid, thread_name, process_name from track where rank = $rank", rank=loop.rank
    )
    names = {
        row["track_id"]: (row["process_name"] or f"process {row['pid']}", row["thread_name"] or f"{row['tid']}")
        for row in tracks.iter_rows(named=True)
    }
    process = {name: number for number, name in enumerate(sorted({first for first, _ in names.values()}), start=1)}
    lines = [_named("process_name", pid, 0, f"{name}, {title}") for name, pid in process.items()]
    process_of_track: dict[int, int] = {}
    for track in sorted(events["track_id"].unique()):
        first, second = names.get(track, (next(iter(process), "GPU"), "a stream of its own"))
        process_of_track[track] = process.get(first, 0)
        lines.append(_named("thread_name", process_of_track[track], track, second))
    rows = events.select(
        ph=pl.lit("X"),
        cat="category",
        name="name",
        pid=pl.col("track_id").replace_strict(process_of_track, return_dtype=pl.Int64),
        tid="track_id",
        ts=pl.col("start_ns") / 1000,
        dur=(pl.col("end_ns") - pl.col("start_ns")) / 1000,
        args=pl.struct("event_id", recorded_ns=pl.col("recorded_end_ns") - pl.col("recorded_start_ns")),
    )
    text = rows.select(pl.struct(pl.all()).struct.json_encode())
    lines += text.to_series().to_list()

    def write(file: Path) -> None:
        file.write_text('{"traceEvents": [\n' + ",\n".join(lines) + "\n]}\n", encoding="utf-8")

    return replace_file(target, write)


def _named(what: str, pid: int, tid: int, name: str) -> str:
    return json.dumps({"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {"name": name}})
