"""Combine the tables of many ranks into few files, so that a query opens as many files as for one rank.

A file has the rows of several ranks, ordered by rank, with a column `rank` in front. A file is closed when it reaches a
certain size or number of ranks. A row group, the unit that readers skip, has part of one rank, or all rows of several
small ranks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from hotline_analysis.database import processors
from hotline_analysis.importer.tables import is_empty
from hotline_analysis.run.stored import shared_file
from hotline_analysis.schema import Table

# Up to this many ranks have their own files, which avoids writing them twice. A query over all ranks reads up to 16
# tables, so it opens at most 256 files.
MOST_OWN_FILES = 16
_FILE_BYTES = 1 << 26
# A query on one rank reads the file's footer, which describes all ranks: for 1,024 ranks, this takes a tenth of a
# report. A query on all ranks should open at most `_MOST_FILES` files of a table.
_FILE_RANKS = 128
_MOST_FILES = 8
# Reading this many rows takes no longer than opening a file.
_GROUP_ROWS = 16_384


def join_ranks(tables: Sequence[Table], folders: Mapping[int, Path], run: Path) -> dict[str, list[int]]:
    """Write the tables of all ranks to a run. Return the first rank of each file by table, as stored in the manifest.

    `folders` has the folder of each rank; its files are removed. Tables with large files are left out.
    """
    joined_tables = [table for table in tables if _is_worth_it(table, folders)]
    with ThreadPoolExecutor(processors()) as pool:
        firsts = list(pool.map(lambda table: _join(table, folders, run), joined_tables))
    return {table.name: first for table, first in zip(joined_tables, firsts, strict=True)}


def _is_worth_it(table: Table, folders: Mapping[int, Path]) -> bool:
    size = sum((folder / f"{table.name}.parquet").stat().st_size for folder in folders.values())
    return size < _FILE_BYTES * len(folders)


def _join(table: Table, folders: Mapping[int, Path], run: Path) -> list[int]:
    schema = pa.schema([("rank", pa.int64()), *table.arrow])
    firsts: list[int] = []
    writer: _Writer | None = None
    first_number = 0
    limit = max(_FILE_RANKS, math.ceil(len(folders) / _MOST_FILES))
    try:
        for number, rank in enumerate(sorted(folders)):
            if writer is None:
                first_number = number
                firsts.append(rank)
                writer = _Writer(run / shared_file(table, rank), schema)
            file = folders[rank] / f"{table.name}.parquet"
            if not is_empty(file, table.name):
                writer.add(rank, file)
            file.unlink()
            if writer.size >= _FILE_BYTES or number + 1 - first_number >= limit:
                writer.close()
                writer = None
    finally:
        if writer is not None:
            writer.close()
    return firsts


class _Writer:
    """Writes one file, and buffers the rows of small ranks until they fill a row group."""

    def __init__(self, file: Path, schema: pa.Schema) -> None:
        file.parent.mkdir(parents=True)
        self._schema = schema
        self._file = file.open("wb")
        # Most numbers are slightly larger than the previous one: delta encoding halves the time and size.
        integers = [field.name for field in schema if pa.types.is_integer(field.type)]
        texts = [field.name for field in schema if pa.types.is_string(field.type)]
        self._writer = pq.ParquetWriter(
            self._file,
            schema,
            compression="zstd",
            compression_level=1,
            use_dictionary=texts or False,
            column_encoding=dict.fromkeys(integers, "DELTA_BINARY_PACKED"),
        )
        self._held: list[pa.Table] = []
        self._rows = 0

    @property
    def size(self) -> int:
        return self._file.tell()

    def add(self, rank: int, file: Path) -> None:
        """Add the rows of a rank."""
        with pq.ParquetFile(file, memory_map=False) as parquet:
            if self._rows + parquet.metadata.num_rows > _GROUP_ROWS:
                self._flush()
            for number in range(parquet.num_row_groups):
                if not parquet.metadata.row_group(number).num_rows:
                    continue  # the statistics of an empty group would not show its ranks
                rows = parquet.read_row_group(number, columns=self._schema.names[1:])
                ranks = pl.repeat(rank, rows.num_rows, dtype=pl.Int64, eager=True).to_arrow()
                batch = rows.select(self._schema.names[1:]).add_column(0, self._schema.field("rank"), ranks)
                self._held.append(batch.cast(self._schema))
                self._rows += rows.num_rows
                if self._rows > _GROUP_ROWS:
                    self._flush()

    def _flush(self) -> None:
        if self._held:
            self._writer.write_table(pa.concat_tables(self._held))
        self._held, self._rows = [], 0

    def close(self) -> None:
        self._flush()
        self._writer.close()
        self._file.close()
