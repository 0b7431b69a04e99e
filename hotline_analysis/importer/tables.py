"""How the tables of one file get to disk: from the reader in batches, from the database by query."""

from __future__ import annotations

import functools
import io
import re
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from hotline_analysis import catalog
from hotline_analysis.database import make_empty, no_rows, table_of
from hotline_analysis.kineto.reader import TraceReader
from hotline_analysis.schema import READ_TABLES, TABLES
from hotline_analysis.text.masking import mask_columns, mask_json_column

_ROW_GROUP = 122_880
# A table whose file is smaller is read only once, into memory; to do so with larger ones makes an import no faster.
_SMALL_BYTES = 1 << 17
# Of times within these, none is unlikely (`unlikely_time.sql`): ten days, and three years of all durations together.
_LONGEST_NS = 864_000 * 10**9
_MOST_NS = 10**17


class TableWriter:
    """Collects batches of one table and writes them as Parquet row groups of a useful size."""

    def __init__(self, name: str, folder: Path) -> None:
        self._name, self._folder = name, folder
        self._schema = TABLES[name].arrow
        self._writer: pq.ParquetWriter | None = None
        self._held: list[pa.Table] = []
        self._rows = 0

    def write(self, table: pa.Table) -> None:
        """Add rows, which may have more columns, in any order."""
        held = table.select(self._schema.names)
        self._held.append(held if held.schema.equals(self._schema) else held.cast(self._schema))
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
            # Numbers rarely repeat; trying to encode them as a dictionary doubles the time of writing.
            use_dictionary=texts or False,
        )

    def finish(self) -> None:
        """Complete the file, which is there also if it has no rows."""
        self._flush()
        if self._writer is None:
            save_empty(self._name, self._folder)
        self.close()

    def close(self) -> None:
        """Write no more; after an error, the file is not complete."""
        if self._writer is not None:
            self._writer.close()


def write_raw(reader: TraceReader, folder: Path, *, keep_secrets: bool = False) -> pa.Table:
    """Write the tables that come from the file; return the tracks as a table (track_id, pid, tid)."""
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
                    # By Polars, as loading Arrow's own functions would take as long as a small trace.
                    place = pl.DataFrame(table.select(["pair"])).to_series()
                    table = table.append_column("track_id", track_of.gather(place).to_arrow())
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
    """Rows of a table in which `***` stands for what looks like a secret."""
    if name == "event_args" and keep:
        return table
    frame = pl.DataFrame(table)
    masked = mask_columns(frame)
    if name == "event_args":
        # Names of secrets can stand here alone: the other tables hold what the profiler itself names.
        masked = masked.with_columns(mask_json_column(masked[column]) for column in ("args", "fields"))
    return table if masked is frame else masked.to_arrow()


def open_raw(connection: duckdb.DuckDBPyConnection, folder: Path) -> dict[str, bool]:
    """Make the tables that come from the file known to the database; small ones are read only once.

    Returns whether each has rows.
    """
    has_rows = {}
    for table in READ_TABLES:
        path = folder / f"{table.name}.parquet"
        if table.name == "rank_info" or not path.exists():  # what it says is found out later
            continue
        has_rows[table.name] = pq.read_metadata(path).num_rows > 0
        if has_rows[table.name]:
            kind = "table" if path.stat().st_size < _SMALL_BYTES else "view"
            connection.execute(f"create temp {kind} {table.name} as from {reading(path)}")
        else:
            make_empty(connection, table.name, _kinds(table.name))
    return has_rows


def reading(path: Path) -> str:
    """The call that reads a file in SQL. In its path the database shall see no glob pattern."""
    literal = re.sub(r"([*?\[])", r"[\1]", str(path)).replace("'", "''")
    return f"read_parquet('{literal}', hive_partitioning = false)"


def settle_times(connection: duckdb.DuckDBPyConnection, folder: Path) -> str | None:
    """Decide which events lie in time, which are those with a duration; say how many others should.

    Events that the file holds as separate begin and end get a duration, and those whose times cannot be true lose it.
    Few traces have either.
    """
    connection.execute(f"create temp view event as from {reading(folder / 'event.parquet')}")
    begins, window_ns, total_ns = connection.execute(
        "select count(*) filter (where ph = 'B'), max(end_ns) - min(start_ns) filter (where dur_ns is not null),"
        " sum(dur_ns) from event"
    ).fetchall()[0]
    if begins:
        connection.execute(f"create temp table paired as {catalog.get('begin_end').sql}")
        _replace_times(connection, folder, "paired", "coalesce(event.{0}, paired.{0})")
    # Whatever is paired is within the times of the file, too.
    if begins or (window_ns or 0) > _LONGEST_NS or (total_ns or 0) > _MOST_NS:
        connection.execute(f"create temp table unlikely as {catalog.get('unlikely_time').sql}")
        if connection.execute("select count(*) from unlikely").fetchall()[0][0]:
            _replace_times(connection, folder, "unlikely", "case when unlikely.event_id is null then event.{0} end")
            _keep_durations(connection, folder)
    timeless, gpu = connection.execute(
        "select count(*), count(*) filter (where category in ('kernel', 'gpu_memcpy', 'gpu_memset')) from event"
        " where dur_ns is null and category is distinct from 'hotline' and (ph = 'X'"
        " or category in ('kernel', 'gpu_memcpy', 'gpu_memset') and ph is distinct from 'E')"
    ).fetchall()[0]
    connection.execute("drop view event")
    if not timeless:
        return None
    which = f", {gpu:,} of them GPU work" if gpu else ""
    return (
        f"no figure has {timeless:,} event{'s' if timeless > 1 else ''} without a start or duration that a clock shows"
        f" (missing, negative, or over ten days, from the others as well){which}"
    )


def _replace_times(connection: duckdb.DuckDBPyConnection, folder: Path, other: str, chosen: str) -> None:
    """Write `event` again with other durations and ends, which `chosen` says for each of the two columns."""
    columns = ", ".join(
        f"{chosen.format(name)} as {name}" if name in ("dur_ns", "end_ns") else f"event.{name}"
        for name in TABLES["event"].arrow.names
    )
    save(
        connection,
        "event",
        f"select {columns} from event left join {other} on event.event_id = {other}.event_id order by event.event_id",  # noqa: S608
        folder,
        replace=True,
    )


def _keep_durations(connection: duckdb.DuckDBPyConnection, folder: Path) -> None:
    """Put durations that were taken away where everything stands that no column holds."""
    given = reading(folder / "event_args.parquet")
    query = (
        "select coalesce(kept.event_id, unlikely.event_id) as event_id, kept.args, coalesce(kept.fields, case when"  # noqa: S608
        " unlikely.event_id is not null then json_object('dur', unlikely.dur_ns / 1000) end) as fields"
        f" from {given} as kept full join unlikely on kept.event_id = unlikely.event_id order by event_id"
    )
    save(connection, "event_args", query, folder, replace=True)


def save(connection: duckdb.DuckDBPyConnection, name: str, query: str, folder: Path, *, replace: bool = False) -> None:
    """Write the result of a query as the Parquet file of a table, with exactly the columns of the schema."""
    target = folder / f"{name}.parquet"
    new = folder / f"{name}.new.parquet" if replace else target
    columns = ", ".join(f'"{column}"::{kind} as "{column}"' for column, kind in _kinds(name).items())
    escaped = str(new).replace("'", "''")
    connection.execute(
        f"copy (select {columns} from ({query})) to '{escaped}' (format parquet, compression zstd, compression_level 1)"  # noqa: S608
    )
    if replace:
        new.replace(target)


def save_derived(connection: duckdb.DuckDBPyConnection, name: str, folder: Path, *, is_filled: bool) -> None:
    """Write a table of the annotation; one without rows without asking the database for them, which takes longer."""
    if is_filled:
        save(connection, name, f"from {name}", folder)
    else:
        save_empty(name, folder)


def _kinds(name: str) -> dict[str, str]:
    """The columns of a table with their types in the file. Other readers of Parquet take its type JSON for bytes."""
    return {column.name: "VARCHAR" if column.type == "JSON" else column.type for column in TABLES[name].columns}


def save_table(table: pa.Table, name: str, folder: Path) -> None:
    """Write a table that is in memory as a Parquet file."""
    pq.write_table(table, folder / f"{name}.parquet", compression="zstd")


def save_empty(name: str, folder: Path) -> None:
    """Write the Parquet file of a table without rows."""
    (folder / f"{name}.parquet").write_bytes(_empty_file(name))


def is_empty(file: Path, name: str) -> bool:
    """Whether a file is what `save_empty` writes for a table, which is told sooner than by a reader of Parquet."""
    return file.stat().st_size == len(_empty_file(name)) and file.read_bytes() == _empty_file(name)


@functools.cache
def _empty_file(name: str) -> bytes:
    file = io.BytesIO()
    pq.write_table(no_rows(TABLES[name].arrow), file, compression="zstd")
    return file.getvalue()
