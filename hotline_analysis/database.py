"""How the database is set wherever it runs the queries of this package."""

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
    """How many processors this process may use; a cluster's scheduler often grants fewer than there are."""
    granted = getattr(os, "sched_getaffinity", None)  # Linux only
    return len(granted(0)) if granted else os.cpu_count() or 1


def memory_bytes() -> int:
    """The memory that a program may use: four fifths of what the machine has, or its container or job may have."""
    import duckdb

    with duckdb.connect() as database:  # which looks at the limits of control groups
        (row,) = database.execute("select parse_formatted_bytes(current_setting('memory_limit'))").fetchall()
    return int(row[0])


# Up to so many events, one thread is as fast as several, which hand each other too little work. Measured on two
# processors: as fast with a tenth less CPU for 1 and 17,000 events, a thirtieth slower for 40,000, a tenth for 56,000.
_EVENTS_OF_ONE_THREAD = 1 << 15


def threads_for(event_count: int, most: int | None = None) -> int:
    """How many threads the database should have for a run of so many events; `most` is what there are for it."""
    return 1 if event_count <= _EVENTS_OF_ONE_THREAD else most or processors()


SETTINGS: dict[str, str | bool | int | float | list[str]] = {
    "python_enable_replacements": False,
    "threads": processors(),
    "autoinstall_known_extensions": False,
    # The database joins by time row by row where it expects few rows, and it expects far too few.
    "asof_loop_join_threshold": 0,
    # DuckDB 2.0.0 can take one column's range for another's before it sorts, and then cuts sums to a byte.
    "disabled_optimizers": "compressed_materialization",
}


def make_table(
    connection: duckdb.DuckDBPyConnection, name: str, sql: str, parameters: Mapping[str, object] | None = None
) -> int:
    """Make a temporary table by a shipped statement, or replace one, and return how many rows it has.

    It is one of the annotation, or a step of a query.
    """
    statement = catalog.parsed(connection, f"create or replace temp table {name} as {sql}")
    made = connection.execute(statement, dict(parameters)) if parameters else connection.execute(statement)
    return int(made.fetchall()[0][0])


def make_table_of(
    connection: duckdb.DuckDBPyConnection,
    query: catalog.Query,
    name: str,
    parameters: Mapping[str, object] | None = None,
    has_rows: Mapping[str, bool] | None = None,
) -> bool:
    """Make the table of a query, or of a step of one; return whether it has rows.

    Where it can have none (`Query.only_with`), the query is not asked: to plan it takes longer, on a small trace.
    `has_rows` are the tables of which that is known, which need not be looked at.
    """
    if _can_have_rows(connection, query, has_rows or {}):
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
    """Make a temporary table without rows, or replace one, from the names and types of its columns."""
    listed = ", ".join(f'"{column}" {kind}' for column, kind in columns.items())
    connection.execute(catalog.parsed(connection, f"create or replace temp table {name} ({listed})"))


def table_of(rows: Iterable[Mapping[str, object]], schema: pa.Schema) -> pa.Table:
    """Rows of Python's own values as an Arrow table; a column that a row lacks is NULL there.

    Polars makes it: where pandas is installed, Arrow loads it for a third of a second, to see if the values are its.
    """
    columns: Any = pl.from_arrow(no_rows(schema))
    return pl.DataFrame(list(rows), schema=columns.schema, orient="row").to_arrow().cast(schema)


def no_rows(schema: pa.Schema) -> pa.Table:
    """An Arrow table without rows; `empty_table` of Arrow loads pandas."""
    import pyarrow as pa

    return pa.Table.from_batches([], schema)


def rows_of(connection: duckdb.DuckDBPyConnection) -> pa.Table:
    """Return the rows of the statement that was executed last, copied once more than those of a relation."""
    # What warnings are ignored holds for all threads, and of two at once, one would undo what the other set.
    with _IGNORING, warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Arrow output on a DB-API result makes an extra copy", UserWarning)
        return connection.to_arrow_table()


def install_macros(
    connection: duckdb.DuckDBPyConnection, statements: Iterable[str] | None = None, known: Collection[str] = ()
) -> list[str]:
    """Make the macros that some statements name, or all, but for those that are `known`; return their names.

    Each takes a quarter of a millisecond, as long as a small answer needs for a join.
    """
    wanted = catalog.macros() if statements is None else macros_in(statements)
    made = [name for name in wanted if name not in known]
    make_macros(connection, made)
    return made


def install_rules(connection: duckdb.DuckDBPyConnection) -> None:
    """Make the tables of the rules of names (`catalog.rules`), which the annotation reads."""
    for name, rules in catalog.rules().items():
        connection.register("given", rules)
        connection.execute(f"create table {name} as from given")
        connection.unregister("given")


def macros_in(statements: Iterable[str]) -> list[str]:
    """The macros that some statements name, and those that these are made of, each after those that it needs."""
    macros = catalog.macros()
    named = macros.keys() & {word for text in statements for word in _WORD.findall(text.lower())}
    wanted = named.union(*(macros[name].uses for name in named))
    return [name for name in macros if name in wanted]


def make_macros(connection: duckdb.DuckDBPyConnection, names: Iterable[str]) -> None:
    """Make macros, which must be in the order of `catalog.macros`."""
    for name in names:
        connection.execute(catalog.parsed(connection, catalog.macros()[name].sql))
