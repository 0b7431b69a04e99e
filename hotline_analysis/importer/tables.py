"""Write the tables of one file: from the reader in batches, or from the database by query."""

from __future__ import annotations

import functools
import io
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from hotline_analysis.database import make_empty, no_rows, table_of
from hotline_analysis.kineto.split import Damage
from hotline_analysis.schema import READ_TABLES, TABLES
from hotline_analysis.text.masking import mask_columns, mask_json_column

_ROW_GROUP = 122_880
# A smaller table is read once into memory. Doing so for larger tables makes an import no faster.
_SMALL_BYTES = 1 << 17


class Reader(Protocol):
    """Interface of file readers. Iterate once; `metadata` and `damage` are complete afterwards."""

    event_count: int

    @property
    def metadata(self) -> dict[str, Any]:
        """The file's metadata, besides the events."""

    @property
    def damage(self) -> Damage:
        """The unreadable parts of the file."""

    def __iter__(self) -> Iterator[Mapping[str, pa.Table]]:
        """Yield tables by name, some events at a time; see `kineto.decode.Decoder.decode`."""


class TableWriter:
    """Collects batches of a table and writes them as Parquet row groups of a useful size."""

    def __init__(self, name: str, folder: Path) -> None:
        self._name, self._folder = name, folder
        self._schema = TABLES[name].arrow
        self._writer: pq.ParquetWriter | None = None
        self._held: list[pa.Table] = []
        self._rows = 0

    def write(self, table: pa.Table) -> None:
        """Add rows. Extra columns and any column order are allowed."""
        rows = table.select(self._schema.names)
        self._held.append(rows if rows.schema.equals(self._schema) else rows.cast(self._schema))
        self._rows += table.num_rows
        if self._rows >= _ROW_GROUP:
            self._flush()

    def _flush(self) -> None:
        if self._rows:
            self._writer = self._writer or self._opened()
            self._writer.write_table(pa.concat_tables(self._held), row_group_size=_ROW_GROUP)
        self._held, self._rows = [], 0

    def _opened(self) -> pq.ParquetWriter:
        texts = [field.name for field in self._schema if pa.types.is_string(field.type)]
        return pq.ParquetWriter(
            self._folder / f"{self._name}.parquet",
            self._schema,
            compression="zstd",
            compression_level=1,
            # Numbers rarely repeat; dictionary encoding doubles the writing time. Differences of successive numbers are
            # small: files are a sixth smaller, and columns are read in less than half the time.
            use_dictionary=texts or False,
            column_encoding={
                field.name: "DELTA_BINARY_PACKED" for field in self._schema if pa.types.is_int64(field.type)
            },
            data_page_version="2.0",
        )

    def finish(self) -> None:
        """Complete the file. A table without rows also gets a file."""
        self._flush()
        if self._writer is None:
            save_empty(self._name, self._folder)
        self.close()

    def close(self) -> None:
        """Close the file; after an error, the file is incomplete."""
        if self._writer is not None:
            self._writer.close()


def write_raw(reader: Reader, folder: Path, *, keep_secrets: bool = False) -> pa.Table:
    """Write the tables read from the file. Return the tracks as a table (track_id, pid, tid)."""
    special = {"rank_info", "device", "track", "kernel_class", "gpu_given", "op_signature"}
    writers = {table.name: TableWriter(table.name, folder) for table in READ_TABLES if table.name not in special}
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
                    # By Polars, because loading Arrow's compute functions takes as long as a small trace.
                    pair_numbers = pl.DataFrame(table.select(["pair"])).to_series()
                    table = table.append_column("track_id", track_of.gather(pair_numbers).to_arrow())
                writers[name].write(without_secrets(name, table, keep_secrets))
        for writer in writers.values():
            writer.finish()
    finally:
        for writer in writers.values():
            writer.close()
    rows = [{"pid": pid, "tid": tid, "track_id": number} for (pid, tid), number in tracks.items()]
    schema = pa.schema([("pid", pa.string()), ("tid", pa.string()), ("track_id", pa.int64())])
    return table_of(rows, schema)


def without_secrets(name: str, table: pa.Table, keep: bool) -> pa.Table:
    """Replace possible secrets in a table by `***`."""
    if name == "event_args" and keep:
        return table
    frame = pl.DataFrame(table)
    masked_frame = mask_columns(frame)
    if name == "event_args":
        # Secret names can occur on their own only here; names in other tables come from the profiler.
        masked_frame = masked_frame.with_columns(
            mask_json_column(masked_frame[column]) for column in ("args", "fields")
        )
    return table if masked_frame is frame else masked_frame.to_arrow()


def open_raw(connection: duckdb.DuckDBPyConnection, folder: Path) -> dict[str, bool]:
    """Register the tables read from the file with the database. Small tables are loaded into memory.

    Return, for each table, whether it has rows.
    """
    has_rows = {}
    for table in READ_TABLES:
        path = folder / f"{table.name}.parquet"
        if table.name == "rank_info" or not path.exists():  # filled in later
            continue
        has_rows[table.name] = pq.read_metadata(path).num_rows > 0
        if has_rows[table.name]:
            kind = "table" if path.stat().st_size < _SMALL_BYTES else "view"
            connection.execute(f"create temp {kind} {table.name} as from {reading(path)}")
        else:
            make_empty(connection, table.name, _kinds(table.name))
    return has_rows


def reading(path: Path) -> str:
    """Return the SQL call that reads a file. Glob characters in the path are escaped."""
    literal = re.sub(r"([*?\[])", r"[\1]", str(path)).replace("'", "''")
    return f"read_parquet('{literal}', hive_partitioning = false)"


def save(connection: duckdb.DuckDBPyConnection, name: str, query: str, folder: Path, *, replace: bool = False) -> None:
    """Write the result of a query as a table's Parquet file, with exactly the columns of the schema.

    With `replace`, the query may read the table's existing file, because the new file replaces it only at the end.
    """
    target = folder / f"{name}.parquet"
    new_file = folder / f"{name}.new.parquet" if replace else target
    columns = ", ".join(f'"{column}"::{kind} as "{column}"' for column, kind in _kinds(name).items())
    literal = str(new_file).replace("'", "''")
    connection.execute(
        f"copy (select {columns} from ({query})) to '{literal}'"  # noqa: S608
        " (format parquet, parquet_version v2, compression zstd, compression_level 1)"
    )
    if replace:
        new_file.replace(target)


def save_derived(connection: duckdb.DuckDBPyConnection, name: str, folder: Path, *, is_filled: bool) -> None:
    """Write a table of the annotation. For a table without rows, skip the slower database query."""
    if is_filled:
        save(connection, name, f"from {name}", folder)
    else:
        save_empty(name, folder)


def _kinds(name: str) -> dict[str, str]:
    """Return the column types of a table's file. JSON becomes VARCHAR: other Parquet readers take JSON for bytes."""
    return {column.name: "VARCHAR" if column.type == "JSON" else column.type for column in TABLES[name].columns}


def save_table(table: pa.Table, name: str, folder: Path) -> None:
    """Write an in-memory table as a Parquet file."""
    pq.write_table(table, folder / f"{name}.parquet", compression="zstd")


def save_empty(name: str, folder: Path) -> None:
    """Write the Parquet file of a table without rows."""
    (folder / f"{name}.parquet").write_bytes(_empty_file(name))


def is_empty(file: Path, name: str) -> bool:
    """Return whether a file is the output of `save_empty`. This is faster than a Parquet reader."""
    return file.stat().st_size == len(_empty_file(name)) and file.read_bytes() == _empty_file(name)


@functools.cache
def _empty_file(name: str) -> bytes:
    file = io.BytesIO()
    pq.write_table(no_rows(TABLES[name].arrow), file, compression="zstd")
    return file.getvalue()
