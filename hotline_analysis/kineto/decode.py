"""Event texts → Arrow tables with the columns of `schema`, in native code. One `Decoder` per thread."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources

import duckdb
import polars as pl
import pyarrow as pa

from hotline_analysis.database import rows_of
from hotline_analysis.kineto.split import Batch

# Which query decodes what, and which flag of `contents.sql` says that a batch has such events.
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
_FEW = 10_000  # events of a batch, for which planning twice, as a relation does, takes longer than to copy the rows


@cache
def _statement(name: str) -> str:
    """The text of one query of this package."""
    return (resources.files(__package__) / "sql" / f"{name}.sql").read_text(encoding="utf-8")


class Decoder:
    """Turns batches of event texts into one Arrow table per table of the run directory.

    `connection` is one to any database, and its own.
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        self._connection.execute(_statement("category_spelling"))
        self._is_small = False

    def close(self) -> None:
        """Release the connection."""
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

        The tables hold the columns of their namesakes in `schema` in any order, with two differences: `event` and
        `flow` have `pair` where the schema has `track_id`, a row number of the additional table `pair` (pid, tid), and
        there are columns that the schema lacks. Texts that are no events (no phase and no name) are in no table.
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
        # By Polars, as loading Arrow's own functions would take as long as a small trace.
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
