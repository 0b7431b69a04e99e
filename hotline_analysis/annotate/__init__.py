"""Raw tables of one rank → derived tables, by running the queries of `queries/derive` in order."""

from __future__ import annotations

from collections.abc import Callable

import duckdb

from hotline_analysis import catalog
from hotline_analysis.schema import DERIVED_TABLES

# Each entry reads only what stands above it or comes from the file. `Query.writes` names the table it makes.
_ORDER = (
    "name_info",
    "name_class",
    "timed",
    "cpu_span",
    "nesting",
    "launch",
    "step",
    "gpu_busy",
    "module_call",
    "model_op",
    "frame_segment",
    "node",
    "node_module",
    "module_segment",
    "module_span",
    "marker",
    "marker_segment",
    "main_track",
    "backward_burst",
    "phase_evidence",
    "phase_span",
    "label_segment",
    "label",
    "module_time",
    "host_activity",
    "gpu_gap",
)


_DOUBLINGS = 4


def annotate(connection: duckdb.DuckDBPyConnection, on_progress: Callable[[float], None] | None = None) -> list[str]:
    """Derive the annotation of one rank and return the names of the tables that make it up.

    The connection must hold the tables of the file (`schema.READ_TABLES`), without a `rank` column. The derived ones
    are left in it as temporary tables, together with those that only serve the next.
    """
    for number, name in enumerate(_ORDER):
        _derive(connection, name)
        if name == "nesting" and _overhangs(connection):
            _derive(connection, "cpu_span_fitted")
            _derive(connection, "nesting")
        if on_progress:
            on_progress((number + 1) / len(_ORDER))
    return [table.name for table in DERIVED_TABLES]


def _derive(connection: duckdb.DuckDBPyConnection, name: str) -> None:
    query = catalog.get(name)
    # A query may read the table it replaces, so the new one gets the name only when it is complete.
    _with_memory(connection, f"create or replace temp table derived as {query.sql}")
    connection.execute(f"drop table if exists {query.writes}")
    connection.execute(f"alter table derived rename to {query.writes}")


def _with_memory(connection: duckdb.DuckDBPyConnection, statement: str) -> None:
    """Run a statement in the memory that is set; where that does not do for a huge trace, allow twice as much."""
    for attempt in range(_DOUBLINGS + 1):
        try:
            connection.execute(statement)
            return
        except duckdb.OutOfMemoryException:
            if attempt == _DOUBLINGS:
                raise
            rows = connection.execute("select current_setting('memory_limit')").fetchall()
            value, unit = rows[0][0].split()
            connection.execute(f"set memory_limit = '{2 * float(value)}{unit}'")


def _overhangs(connection: duckdb.DuckDBPyConnection) -> bool:
    rows = connection.execute("select coalesce(bool_or(overhangs), false) from nesting").fetchall()
    return bool(rows[0][0])
