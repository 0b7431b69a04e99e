"""Database settings, tables and macros for the queries of this package."""

from __future__ import annotations

import os
import re
import threading
import warnings
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import polars as pl

from hotline_analysis import catalog

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa


_WORD = re.compile(r"\w+")
_IGNORING = threading.Lock()


def processors() -> int:
    """Number of processors available to this process; a cluster's scheduler often grants fewer than the machine has."""
    affinity = getattr(os, "sched_getaffinity", None)  # Linux only
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def memory_bytes() -> int:
    """Memory available to a program: four fifths of the limit of the machine, container or job."""
    import duckdb

    with duckdb.connect() as database:  # DuckDB respects the limits of control groups
        (row,) = database.execute("select parse_formatted_bytes(current_setting('memory_limit'))").fetchall()
    return int(row[0])


# Up to this number of events, one thread is as fast as several, because each thread gets too little work. Measured on
# two processors: equally fast with a tenth less CPU for 1 and 17,000 events, a thirtieth slower for 40,000, a tenth
# slower for 56,000.
_EVENTS_OF_ONE_THREAD = 1 << 15


def threads_for(event_count: int, most: int | None = None) -> int:
    """Number of database threads for a run with `event_count` events; `most` is the number available."""
    return 1 if event_count <= _EVENTS_OF_ONE_THREAD else most or processors()


SETTINGS: dict[str, str | bool | int | float | list[str]] = {
    "python_enable_replacements": False,
    "threads": processors(),
    "autoinstall_known_extensions": False,
    # The database uses a nested-loop as-of join if it expects few rows, and its estimates are far too low.
    "asof_loop_join_threshold": 0,
    # DuckDB 2.0.0 can confuse the ranges of two columns before a sort, and then truncates sums to a byte. If one side
    # of a left join is empty, it takes all sums over the join for 0, so that no comparison with them holds. A report
    # takes as long without.
    "disabled_optimizers": "compressed_materialization,statistics_propagation",
}


def make_table(
    connection: duckdb.DuckDBPyConnection, name: str, sql: str, parameters: Mapping[str, object] | None = None
) -> int:
    """Create or replace a temporary table by a shipped statement, and return the number of rows.

    The table belongs to the annotation, or is a step of a query.
    """
    statement = catalog.parsed(connection, f"create or replace temp table {name} as {sql}")
    result = connection.execute(statement, dict(parameters)) if parameters else connection.execute(statement)
    return int(result.fetchall()[0][0])


def make_table_of(
    connection: duckdb.DuckDBPyConnection,
    query: catalog.Query,
    name: str,
    parameters: Mapping[str, object] | None = None,
    has_rows: Mapping[str, bool] | None = None,
    *,
    as_view: bool = False,
) -> bool:
    """Make the table of a query, or of a query's step; return whether the table has rows.

    If `Query.only_with` rules out any row, the query does not run, because planning it takes longer on a small trace.
    `has_rows` lists tables with a known answer, which need no check. With `as_view`, a query that has rows whenever
    `only_with` allows rows becomes a view.
    """
    if _can_have_rows(connection, query, has_rows or {}):
        if as_view:
            connection.execute(catalog.parsed(connection, f"create or replace temp view {name} as {query.sql}"))
            return True
        return make_table(connection, name, query.sql, parameters) > 0
    make_empty(connection, name, {column.name: column.type for column in query.columns})
    return False


def _can_have_rows(connection: duckdb.DuckDBPyConnection, query: catalog.Query, has_rows: Mapping[str, bool]) -> bool:
    unknown = []
    for sources in query.only_with:
        possible = [source for source in sources if has_rows.get(source.partition(" ")[0], True)]
        if not possible:
            return False
        if not any(has_rows.get(source) for source in possible):
            unknown.append(" or ".join(f"exists (from {source})" for source in possible))
    if not unknown:
        return True
    condition = f"select ({') and ('.join(unknown)})"
    return bool(connection.execute(catalog.parsed(connection, condition)).fetchall()[0][0])


def make_empty(connection: duckdb.DuckDBPyConnection, name: str, columns: Mapping[str, str]) -> None:
    """Create or replace an empty temporary table from the names and types of its columns."""
    column_list = ", ".join(f'"{column}" {kind}' for column, kind in columns.items())
    connection.execute(catalog.parsed(connection, f"create or replace temp table {name} ({column_list})"))


def table_of(rows: Iterable[Mapping[str, object]], schema: pa.Schema) -> pa.Table:
    """Convert Python rows to an Arrow table. A missing column is NULL.

    Polars builds the table. If pandas is installed, Arrow would import it for a third of a second to check for pandas
    values.
    """
    columns: Any = pl.from_arrow(no_rows(schema))
    return pl.DataFrame(list(rows), schema=columns.schema, orient="row").to_arrow().cast(schema)


def no_rows(schema: pa.Schema) -> pa.Table:
    """An empty Arrow table. Arrow's own `empty_table` imports pandas."""
    import pyarrow as pa

    return pa.Table.from_batches([], schema)


def rows_of(connection: duckdb.DuckDBPyConnection) -> pa.Table:
    """Return the rows of the last executed statement, with one more copy than a relation needs."""
    # Warning filters are global to all threads, so concurrent calls would undo each other's filter.
    with _IGNORING, warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Arrow output on a DB-API result makes an extra copy", UserWarning)
        return connection.to_arrow_table()


def install_macros(
    connection: duckdb.DuckDBPyConnection, statements: Iterable[str] | None = None, known: Collection[str] = ()
) -> list[str]:
    """Create the macros used by the statements, or all macros, except the `known` ones; return their names.

    A macro takes a quarter of a millisecond, as long as a join in a small answer.
    """
    macro_names = catalog.macros() if statements is None else macros_in(statements)
    new_names = [name for name in macro_names if name not in known]
    make_macros(connection, new_names)
    return new_names


def install_rules(connection: duckdb.DuckDBPyConnection) -> None:
    """Create the tables of the name rules (`catalog.rules`) for the annotation."""
    for name, rules in catalog.rules().items():
        connection.register("given", rules)
        connection.execute(f"create table {name} as from given")
        connection.unregister("given")


def macros_in(statements: Iterable[str]) -> list[str]:
    """All macros that the statements use, directly or indirectly, in dependency order."""
    macros = catalog.macros()
    direct_names = macros.keys() & {word for text in statements for word in _WORD.findall(text.lower())}
    all_names = direct_names.union(*(macros[name].uses for name in direct_names))
    return [name for name in macros if name in all_names]


def make_macros(connection: duckdb.DuckDBPyConnection, names: Iterable[str]) -> None:
    """Create macros. The names must be in the order of `catalog.macros`."""
    for name in names:
        connection.execute(catalog.parsed(connection, catalog.macros()[name].sql))
