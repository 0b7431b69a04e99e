"""How the tables of one file get to disk: from the reader in batches, from the database by query."""

from __future__ import annotations

import re
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from hotline_analysis import catalog
from hotline_analysis.kineto.reader import TraceReader
from hotline_analysis.masking import mask_columns, mask_json_column
from hotline_analysis.schema import READ_TABLES, TABLES
from hotline_analysis.trace import SMALL_BYTES

_ROW_GROUP = 122_880


class _TableWriter:
    """Collects batches of one table and writes them as Parquet row groups of a useful size."""

    def __init__(self, name: str, folder: Path) -> None:
        self._schema = TABLES[name].arrow
        texts = [field.name for field in self._schema if pa.types.is_string(field.type)]
        # Numbers rarely repeat; trying to encode them as a dictionary doubles the time of writing.
        self._writer = pq.ParquetWriter(
            folder / f"{name}.parquet",
            self._schema,
            compression="zstd",
            compression_level=1,
            use_dictionary=texts or False,
        )
        self._held: list[pa.Table] = []
        self._rows = 0

    def write(self, table: pa.Table) -> None:
        held = table.select(self._schema.names)
        self._held.append(held if held.schema.equals(self._schema) else held.cast(self._schema))
        self._rows += table.num_rows
        if self._rows >= _ROW_GROUP:
            self._flush()

    def _flush(self) -> None:
        if self._held:
            self._writer.write_table(pa.concat_tables(self._held), row_group_size=_ROW_GROUP)
        self._held, self._rows = [], 0

    def close(self) -> None:
        self._flush()
        self._writer.close()


def write_raw(reader: TraceReader, folder: Path, *, keep_secrets: bool = False) -> pa.Table:
    """Write the tables that come from the file; return the tracks as a table (track_id, pid, tid)."""
    special = {"rank_info", "device", "track", "kernel_class"}
    writers = {table.name: _TableWriter(table.name, folder) for table in READ_TABLES if table.name not in special}
    tracks: dict[tuple[str | None, str | None], int] = {}
    try:
        for tables in reader:
            pairs = zip(*(tables["pair"].column(name).to_pylist() for name in ("pid", "tid")), strict=True)
            numbers = [None if pair == (None, None) else tracks.setdefault(pair, len(tracks)) for pair in pairs]
            track_of = pl.Series(numbers, dtype=pl.Int64)
            for name, table in tables.items():
                if name == "pair":
                    continue
                if "pair" in table.column_names:
                    # By Polars, as loading Arrow's own functions would take as long as a small trace.
                    place = pl.DataFrame(table.select(["pair"])).to_series()
                    table = table.append_column("track_id", track_of.gather(place).to_arrow())
                writers[name].write(_without_secrets(name, table, keep_secrets))
    finally:
        for writer in writers.values():
            writer.close()
    rows = [{"pid": pid, "tid": tid, "track_id": number} for (pid, tid), number in tracks.items()]
    schema = pa.schema([("pid", pa.string()), ("tid", pa.string()), ("track_id", pa.int64())])
    return pa.Table.from_pylist(rows, schema)


def _without_secrets(name: str, table: pa.Table, keep: bool) -> pa.Table:
    if name == "event_args" and keep:
        return table
    frame = pl.DataFrame(table)
    masked = mask_columns(frame)
    if name == "event_args":
        # Names of secrets can stand here alone: the other tables hold what the profiler itself names.
        masked = masked.with_columns(mask_json_column(masked[column]) for column in ("args", "fields"))
    return table if masked is frame else masked.to_arrow()


def open_raw(connection: duckdb.DuckDBPyConnection, folder: Path) -> None:
    """Make the tables that come from the file known to the database; small ones are read only once."""
    for table in READ_TABLES:
        path = folder / f"{table.name}.parquet"
        if path.exists():
            kind = "table" if path.stat().st_size < SMALL_BYTES else "view"
            connection.execute(f"create temp {kind} {table.name} as from {_reading(path)}")


def _reading(path: Path) -> str:
    """The call that reads a file in SQL. In its path the database shall see no glob pattern."""
    literal = re.sub(r"([*?\[])", r"[\1]", str(path)).replace("'", "''")
    return f"read_parquet('{literal}', hive_partitioning = false)"


def pair_begin_end(connection: duckdb.DuckDBPyConnection, folder: Path) -> None:
    """Give durations to events that the file holds as separate begin and end. Few traces have any."""
    connection.execute(f"create temp view event as from {_reading(folder / 'event.parquet')}")
    if connection.execute("select count(*) from event where ph = 'B'").fetchall()[0][0]:
        _save_paired(connection, folder)
    connection.execute("drop view event")


def _save_paired(connection: duckdb.DuckDBPyConnection, folder: Path) -> None:
    connection.execute(f"create temp table paired as {catalog.get('begin_end').sql}")
    columns = TABLES["event"].arrow.names
    chosen = ", ".join(
        f"coalesce(event.{name}, paired.{name}) as {name}" if name in ("dur_ns", "end_ns") else f"event.{name}"
        for name in columns
    )
    save(
        connection,
        "event",
        f"select {chosen} from event left join paired on event.event_id = paired.event_id order by event.event_id",  # noqa: S608
        folder,
        replace=True,
    )


def save(connection: duckdb.DuckDBPyConnection, name: str, query: str, folder: Path, *, replace: bool = False) -> None:
    """Write the result of a query as the Parquet file of a table, with exactly the columns of the schema."""
    target = folder / f"{name}.parquet"
    new = folder / f"{name}.new.parquet" if replace else target
    columns = ", ".join(f'"{column.name}"::{column.type} as "{column.name}"' for column in TABLES[name].columns)
    escaped = str(new).replace("'", "''")
    connection.execute(
        f"copy (select {columns} from ({query})) to '{escaped}' (format parquet, compression zstd, compression_level 1)"  # noqa: S608
    )
    if replace:
        new.replace(target)


def save_table(table: pa.Table, name: str, folder: Path) -> None:
    """Write a table that is in memory as a Parquet file."""
    pq.write_table(table, folder / f"{name}.parquet", compression="zstd")
