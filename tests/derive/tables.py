"""What the tests of derived tables share: open all tables of a trace, and name events instead of numbering them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb

from hotline_analysis import Trace, catalog
from hotline_analysis.annotation.model_file import Model
from hotline_analysis.annotation.pipeline import annotate
from hotline_analysis.database import install_macros, install_rules, make_table
from hotline_analysis.schema import READ_TABLES
from tests.made import Made
from tests.trace_builder import TraceBuilder

Row = tuple[Any, ...]


def database_of(trace: Trace) -> duckdb.DuckDBPyConnection:
    """A database with the tables that the file of a trace gives."""
    connection = duckdb.connect()
    install_macros(connection)
    install_rules(connection)
    for table in READ_TABLES:
        connection.register("given", trace.table(table.name).drop("rank").to_arrow())
        connection.execute(f"create table {table.name} as from given")
        connection.unregister("given")
    return connection


def every_table(trace: Trace, model: Model | None = None) -> duckdb.DuckDBPyConnection:
    """A database with all tables of a trace, also those that only serve the next and are not kept in a run."""
    connection = database_of(trace)
    annotate(connection, model=model)
    return connection


def make(connection: duckdb.DuckDBPyConnection, *names: str) -> None:
    """Make tables again by their queries, one after the other, as they stand before what comes later changes them."""
    for name in names:
        connection.execute(f"create or replace temp table {name} as {_maker_of(name).sql}")


def _maker_of(name: str) -> catalog.Query:
    """The query of the annotation that first makes a table: a view of a run can have the name of the table."""
    makers = [query for query in catalog.queries("annotate") if query.writes == name]
    return next((query for query in makers if query.name == name), makers[0])


def derived(builder: TraceBuilder, folder: Path, sql: str, *made: str, model: Model | None = None) -> list[Row]:
    """The rows of a statement over all tables of a trace, after some of them are `made` again."""
    with builder.load(folder) as trace:
        names = {*re.findall(r"\w+", sql), *(name for query in made for name in catalog.get(query).tables)}
        with tables_for(trace, names) if model is None else every_table(trace, model) as connection:
            make(connection, *made)
            return connection.sql(sql).fetchall()


@contextmanager
def tables_for(trace: Trace, names: Collection[str]) -> Iterator[duckdb.DuckDBPyConnection]:
    """A database with these tables, as they stand when the annotation is done."""
    if isinstance(trace, Made):
        trace.annotation.make(names)
        yield trace.annotation.connection
    else:
        with every_table(trace) as connection:
            yield connection


def step_rows(trace: Trace, name: str, sql: str, **given: object) -> list[Row]:
    """The rows of a statement on the steps of a query, which otherwise exist only while it runs."""
    query = catalog.get(name)
    values = query.bind(**given)
    if query.kind == "annotate":
        database: AbstractContextManager[duckdb.DuckDBPyConnection] = tables_for(trace, query.tables)
    else:
        trace._run.provide(" ".join(query.tables))
        database = trace._run.connection.cursor()
    with database as connection:
        for step in query.steps:
            make_table(connection, step.name, step.sql, {param: values[param] for param in step.takes})
        return connection.execute(sql).fetchall()


def rows(trace: Trace, sql: str) -> list[Row]:
    """The rows of a statement, as tuples."""
    return trace.sql(sql).rows()


def named(trace: Trace, table: str, columns: Sequence[str]) -> dict[str, Row]:
    """Some columns of a table by the name of its event; columns ending in `_id` give the names of other events.

    Times are in microseconds.
    """
    names = dict(trace.sql("select event_id, name from event").rows())
    chosen = ", ".join(columns)
    found = {}
    for number, *values in trace.sql(f"select event_id, {chosen} from {table}").rows():
        row = []
        for column, value in zip(columns, values, strict=True):
            if value is not None and column.endswith("_ns"):
                row.append(value / 1000)
            elif value is not None and column.endswith("_id") and column != "module_id":
                row.append(names[value])
            else:
                row.append(value)
        assert names[number] not in found, f"two events are called {names[number]}"
        found[names[number]] = tuple(row)
    return found


def phases(trace: Trace) -> list[tuple[str, float, float]]:
    """The phases of the main thread in order: name, start and end in microseconds. They must fill their time."""
    spans: list[tuple[str, float, float]] = rows(
        trace, "select phase, start_ns / 1000, end_ns / 1000 from phase_span where is_main order by start_ns"
    )
    assert all(before[2] <= after[1] for before, after in pairwise(spans))
    return spans
