"""Runs as Parquet for dashboards: one in a folder, or many in a dataset in which each has a partition."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from hotline_analysis.atomic import MANIFEST, path_of, replace_folder
from hotline_analysis.envelope import units_of
from hotline_analysis.errors import ExportExistsError
from hotline_analysis.export.tables import Exported, Labels, Source, described, with_meanings
from hotline_analysis.reports import report
from hotline_analysis.run.trace import Trace

if TYPE_CHECKING:
    import pyarrow as pa

SCHEMA = "schema.json"
REPORT = "report.html"
PARTITION = "run="
_VERSION = 1
_TIMES = (
    "start_ns and end_ns count on the clock of the trace file. since_start_ns counts from the first event of the run,"
    " over all ranks: such a number is exact in JavaScript, whose numbers are exact up to 2^53 (104 days). start_utc is"
    " the time of day in UTC to the microsecond, and run.started_text the start of the run in nanoseconds since 1970."
)


def export_tables(
    trace: Trace,
    folder: str | Path,
    *,
    tables: Sequence[str] | None = None,
    name: str | None = None,
    commit: str | None = None,
    started: datetime | None = None,
    overwrite: bool = False,
) -> Path:
    """Write a run as Parquet files into a folder, for dashboards: a file for each table and answer, and `schema.json`.

    `tables` chooses tables (`hotline schema`) and answers (`hotline queries`) by name; `run`, `measure` and `verdict`
    are always there. `name`, `commit` and `started` say of the run what its traces do not. The folder appears whole or
    not at all. Raises `ExportExistsError` if it exists and `overwrite` is false, and `HotlineError` for a name that is
    no table.
    """
    source = Source(trace, Labels(name, commit, _aware(started)))
    chosen = source.tables(tables, raw=True)
    return replace_folder(path_of(folder), lambda partial: _write(source, chosen, partial), overwrite=overwrite)


def append_run(
    trace: Trace,
    dataset: str | Path,
    *,
    tables: Sequence[str] | None = None,
    name: str | None = None,
    commit: str | None = None,
    started: datetime | None = None,
    with_report: bool = True,
    overwrite: bool = False,
) -> Path:
    """Add a run to a dataset, a folder with a partition for each run, and return the partition.

    A partition (`run=ID`) has the files of `export_tables`, without the tables of single events unless `tables` names
    them, and the report as a page. It appears whole or not at all, so that a dashboard may read meanwhile. Raises
    `ExportExistsError` if the dataset has the run already and `overwrite` is false, or is no dataset.
    """
    target = path_of(dataset)
    if target.exists() and (not target.is_dir() or (target / MANIFEST).exists() or any(target.glob("*.parquet"))):
        raise ExportExistsError(
            f"{target} is no dataset of runs", hint="Give another folder, or one that does not exist."
        )
    source = Source(trace, Labels(name, commit, _aware(started)))
    chosen = source.tables(tables, raw=False)
    partition = target / f"{PARTITION}{source.run_id}"
    if partition.exists() and not overwrite:
        raise ExportExistsError(
            f"{target} has this run already, as {partition.name}", hint="Overwrite it (--overwrite), or leave it out."
        )

    def write(partial: Path) -> None:
        _write(source, chosen, partial)
        if with_report:
            page = report(trace, source_lines=False).to_html()
            (partial / REPORT).write_text(page, encoding="utf-8")

    return replace_folder(partition, write, overwrite=overwrite)


def _aware(started: datetime | None) -> datetime | None:
    """The time in UTC; one without a zone is taken as UTC."""
    return None if started is None else (started if started.tzinfo else started.replace(tzinfo=UTC)).astimezone(UTC)


def _write(source: Source, chosen: Sequence[Exported], folder: Path) -> None:
    from importlib.metadata import version

    said = []
    for table in chosen:
        units = units_of([column.name for column in table.columns])
        columns = list(described(table.columns, units))
        _write_table(source, table, columns, folder / f"{table.name}.parquet")
        said.append(
            {
                "name": table.name,
                "kind": table.kind,
                "file": f"{table.name}.parquet",
                "meaning": table.meaning,
                "parameters": dict(table.parameters),
                "columns": columns,
            }
        )
    content = {
        "kind": "hotline-export",
        "schema_version": _VERSION,
        "tool": {"name": "hotline_analysis", "version": version("hotline-analysis")},
        "times": _TIMES,
        "tables": said,
    }
    (folder / SCHEMA).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def _write_table(source: Source, table: Exported, columns: Sequence[dict[str, str | None]], path: Path) -> None:
    import pyarrow.parquet as pq

    writer = None
    with _pieces(source, table) as frames:
        try:
            for frame in frames:
                # Other readers know neither the views of strings nor the large lists that Polars has.
                rows = source.with_times(frame).to_arrow(compat_level=pl.CompatLevel.oldest())
                schema = with_meanings(_plain(rows.schema), columns, table.name)
                if writer is None:
                    writer = pq.ParquetWriter(path, schema, compression="zstd")
                writer.write_table(rows.cast(schema))
        finally:
            if writer is not None:
                writer.close()


@contextmanager
def _pieces(source: Source, table: Exported) -> Iterator[Iterator[pl.DataFrame]]:
    if table.frame is not None:
        yield iter([table.frame()])
        return
    with source.trace.batches(table.name) as reader:
        empty = pl.from_arrow(reader.schema.empty_table())
        assert isinstance(empty, pl.DataFrame)
        yield _frames(empty, reader)


def _frames(empty: pl.DataFrame, reader: Any) -> Iterator[pl.DataFrame]:
    yield empty  # a table without rows has a file, too
    for batch in reader:
        frame = pl.from_arrow(batch)
        assert isinstance(frame, pl.DataFrame)
        if frame.height:
            yield frame.cast(empty.schema)


def _plain(schema: pa.Schema) -> pa.Schema:
    """The schema with the types that all readers have."""
    import pyarrow as pa

    def plain(kind: pa.DataType) -> pa.DataType:
        if pa.types.is_large_string(kind):
            return pa.string()
        if pa.types.is_large_list(kind):
            return pa.list_(plain(kind.value_type))
        if pa.types.is_list(kind):
            return pa.list_(plain(kind.value_type))
        if pa.types.is_struct(kind):
            return pa.struct([each.with_type(plain(each.type)) for each in kind])
        return kind

    return pa.schema([each.with_type(plain(each.type)) for each in schema])
