"""Assign categories to events of writers other than PyTorch's profiler, by the names of tracks and events."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa

from hotline_analysis import catalog
from hotline_analysis.database import make_table_of
from hotline_analysis.importer.tables import reading, save
from hotline_analysis.schema import TABLES

_READ = ("event", "event_args", "flow", "gpu_op", "device")
# Whether a timed event has an unknown category. Few files have such events.
_IS_ASKED = """
    select exists (
        from event anti join event_categories on event.category = event_categories.spelling
        where event.ph in ('X', 'B')
    )
"""


def recognise(connection: duckdb.DuckDBPyConnection, folder: Path, tracks: pa.Table) -> None:
    """Set the category of events with an unknown category, by their track and name, in the tables of a file.

    `tracks` has the track numbers (`write_raw`). Raw spellings and arguments stay unchanged.
    """
    for name in _READ:
        connection.execute(f"create temp view {name} as from {reading(folder / f'{name}.parquet')}")
    connection.register("track_key", tracks)
    try:
        if connection.execute(_IS_ASKED).fetchall()[0][0]:
            _rewrite(connection, folder)
    finally:
        for name in _READ:
            connection.execute(f"drop view {name}")
        connection.unregister("track_key")


def _rewrite(connection: duckdb.DuckDBPyConnection, folder: Path) -> None:
    query = catalog.get("recognised_event")
    table_names = ["track", *(step.name for step in query.steps), query.name]
    for entry in (catalog.get("track"), *query.steps, query):
        make_table_of(connection, entry, entry.name)
    expressions = {"category": "coalesce(recognised.category, event.category)"}
    expressions |= {
        name: f"coalesce(recognised.{name}, event.{name})" for name in ("track_id", "correlation", "external_id")
    }
    expressions["raw_category"] = (
        "case when recognised.category != coalesce(event.category, '')"
        " then coalesce(event.raw_category, event.category) else event.raw_category end"
    )
    columns = ", ".join(f"{expressions.get(name, f'event.{name}')} as {name}" for name in TABLES["event"].arrow.names)
    if connection.execute("select exists (from recognised_event)").fetchall()[0][0]:
        save(
            connection,
            "event",
            f"select {columns} from event left join recognised_event as recognised"  # noqa: S608
            " on event.event_id = recognised.event_id order by event.event_id",
            folder,
            replace=True,
        )
        columns = ", ".join(f'gpu_op."{name}"' for name in TABLES["gpu_op"].arrow.names)
        work = "select event_id, device, stream from recognised_event where device is not null"
        save(
            connection,
            "gpu_op",
            f"select {columns} from gpu_op union all by name ({work}) order by event_id",  # noqa: S608
            folder,
            replace=True,
        )
        save(
            connection,
            "device",
            "from device union all by name (select device as device_id, any_value(device_name) as name"
            " from recognised_event where device_name is not null and device is not null"
            " and device not in (select device_id from device where device_id is not null)"
            " group by device) order by device_id",
            folder,
            replace=True,
        )
    for name in table_names:
        connection.execute(f"drop table {name}")
