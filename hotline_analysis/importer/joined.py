"""The tables of many ranks in few files: a question then opens as many as of one rank, and not as many for each.

A file has the rows of several ranks, in order of the ranks, behind a column `rank`. It ends with the rank that brings
it to a certain size or number of ranks. A group of rows, which is what a reader skips, has a part of one rank, or all
rows of several small ones.
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

# Up to so many ranks have files of their own, which need not be written twice: a question about all of them reads up to
# 16 tables, and opens 256 files at most.
MOST_OWN_FILES = 16
_FILE_BYTES = 1 << 26
# Who asks about one rank of a file reads what the file says of the parts of all: of 1,024 ranks, that takes a tenth of
# a report. But a question about all ranks shall open no more files of a table than this.
_FILE_RANKS = 128
_MOST_FILES = 8
# To read so many rows takes no longer than to open a file.
_GROUP_ROWS = 16_384


def join_ranks(tables: Sequence[Table], folders: Mapping[int, Path], run: Path) -> dict[str, list[int]]:
    """Write the tables of all ranks to a run; return the first rank of each file of a table, as the manifest has it.

    `folders` has the folder of each rank, which loses its files. A table whose own files are large already is left out.
    """
    joined = [table for table in tables if _is_worth_it(table, folders)]
    with ThreadPoolExecutor(processors()) as pool:
        firsts = list(pool.map(lambda table: _join(table, folders, run), joined))
    return {table.name: first for table, first in zip(joined, firsts, strict=True)}


def _is_worth_it(table: Table, folders: Mapping[int, Path]) -> bool:
    size = sum((folder / f"{table.name}.parquet").stat().st_size for folder in folders.values())
    return size < _FILE_BYTES * len(folders)


def _join(table: Table, folders: Mapping[int, Path], run: Path) -> list[int]:
    schema = pa.schema([("rank", pa.int64()), *table.arrow])
    firsts: list[int] = []
    writer: _Writer | None = None
    begun = 0
    most = max(_FILE_RANKS, math.ceil(len(folders) / _MOST_FILES))
    try:
        for number, rank in enumerate(sorted(folders)):
            if writer is None:
                begun = number
                firsts.append(rank)
                writer = _Writer(run / shared_file(table, rank), schema)
            own = folders[rank] / f"{table.name}.parquet"
            if not is_empty(own, table.name):
                writer.add(rank, own)
            own.unlink()
            if writer.size >= _FILE_BYTES or number + 1 - begun >= most:
                writer.close()
                writer = None
    finally:
        if writer is not None:
            writer.close()
    return firsts


class _Writer:
    """Writes one file, and holds back the rows of small ranks until there are enough for a group."""

    def __init__(self, file: Path, schema: pa.Schema) -> None:
        file.parent.mkdir(parents=True)
        self._schema = schema
        self._file = file.open("wb")
        # Most numbers are a little more than the one before: as differences they take half the time and bytes.
        whole = [field.name for field in schema if pa.types.is_integer(field.type)]
        texts = [field.name for field in schema if pa.types.is_string(field.type)]
        self._writer = pq.ParquetWriter(
            self._file,
            schema,
            compression="zstd",
            compression_level=1,
            use_dictionary=texts or False,
            column_encoding=dict.fromkeys(whole, "DELTA_BINARY_PACKED"),
        )
        self._held: list[pa.Table] = []
        self._rows = 0

    @property
    def size(self) -> int:
        return self._file.tell()

    def add(self, rank: int, file: Path) -> None:
        """Add the rows of a rank."""
        with pq.ParquetFile(file, memory_map=False) as opened:
            if self._rows + opened.metadata.num_rows > _GROUP_ROWS:
                self._flush()
            for number in range(opened.num_row_groups):
                if not opened.metadata.row_group(number).num_rows:
                    continue  # such a group would not say which ranks it has
                rows = opened.read_row_group(number, columns=self._schema.names[1:])
                ranks = pl.repeat(rank, rows.num_rows, dtype=pl.Int64, eager=True).to_arrow()
                made = rows.select(self._schema.names[1:]).add_column(0, self._schema.field("rank"), ranks)
                self._held.append(made.cast(self._schema))
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
