"""Decode event texts to Arrow tables with the columns of `schema`, in native code. One `Decoder` per thread."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources

import duckdb
import polars as pl
import pyarrow as pa

from hotline_analysis.database import no_rows, rows_of
from hotline_analysis.kineto.split import Batch

# Decoding queries, and the flag of `contents.sql` that shows whether a batch has such events.
_DECODERS = (
    ("op", "ops"),
    ("python_call", "python_calls"),
    ("runtime_call", "runtime_calls"),
    ("gpu_op", "gpu_ops"),
    ("collective", "collectives"),
    ("memory_event", "memory_events"),
    ("sync", "syncs"),
    ("counter", "counters"),
    ("flow", "flows"),
)
_FEW = 10_000  # events of a batch; below this size, a relation's second planning takes longer than copying the rows


@cache
def _statement(name: str) -> str:
    """Return the text of a query of this package."""
    return (resources.files(__package__) / "sql" / f"{name}.sql").read_text(encoding="utf-8")


class Decoder:
    """Turns batches of event texts into one Arrow table per table of the run directory.

    `connection` is an exclusive connection to any database. `spellings` is a table (spelling, category) of event
    categories in lower case; a spelling that starts with `*` matches as an ending.
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection, spellings: pa.Table | None = None) -> None:
        self._connection = connection
        if spellings is None:
            spellings = no_rows(pa.schema([("spelling", pa.string()), ("category", pa.string())]))
        self._connection.register("given", spellings.select(["spelling", "category"]))
        self._connection.execute(_statement("known_spelling"))
        self._connection.unregister("given")
        self._connection.execute(_statement("category_of"))
        self._is_small = False

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _create(self, query: str, table: str | None = None) -> None:
        # The names come from this module, never from a trace.
        self._connection.execute(f"create or replace temp table {table or query} as {_statement(query)}")

    def _table(self, query: str, statement: str | None = None) -> pa.Table:
        statement = statement or _statement(query)
        if self._is_small:
            return rows_of(self._connection.execute(statement))
        return self._connection.sql(statement).to_arrow_table()

    def decode(self, batch: Batch) -> Mapping[str, pa.Table]:
        """Decode one batch.

        The tables have the columns of the same table in `schema`, in any order, with two differences. First, `event`
        and `flow` have `pair` instead of `track_id`: a row number of the additional table `pair` (pid, tid). Second,
        there are extra columns. Texts that are not events (without phase and name) are in no table.
        """
        self._is_small = len(batch.texts) <= _FEW
        columns = {"event_id": batch.ids, "text": batch.texts, "field_count": batch.field_counts}
        newest = pl.CompatLevel.newest()  # keeps the engines from copying the texts
        self._connection.register(
            "texts", pa.table({name: column.to_arrow(compat_level=newest) for name, column in columns.items()})
        )
        self._create("batch")
        self._create("pair")
        [flags] = rows_of(self._connection.execute(_statement("contents"))).to_pylist()
        flags["collectives"] = batch.has_collectives
        if flags["rounded"]:
            self._create("exact_start")
            self._connection.execute(
                "update batch set start_ns = exact_start.start_ns from exact_start"
                " where batch.event_id = exact_start.event_id"
            )
        tables = {name: self._table(name) for name, flag in _DECODERS if flags[flag]}
        # By Polars, because loading Arrow's compute functions takes as long as a small trace.
        claims = pl.concat(
            [
                pl.DataFrame(schema={"event_id": pl.Int64, "claimed": pl.Int64}),
                *(pl.DataFrame(table.select(["event_id", "claimed"])).cast(pl.Int64) for table in tables.values()),
            ]
        )
        if flags["leftovers"] or flags["args"] > claims["claimed"].sum():
            self._connection.register("claims", claims.to_arrow())
            tables["event_args"] = self._table("event_args")
            self._connection.unregister("claims")
        tables["pair"] = self._table("pair", "from pair")
        tables["event"] = self._table("event")
        self._connection.unregister("texts")
        return tables
