"""Export runs as Parquet for dashboards: one run in a folder, or many runs in a dataset with a partition per run."""

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
    """Write a run as Parquet files into a folder, for dashboards: a file per table and answer, and `schema.json`.

    `tables` selects tables (`hotline schema`) and answers (`hotline queries`) by name; `run`, `measure` and `verdict`
    are always included. `name`, `commit` and `started` describe the run beyond its traces. The folder is written
    atomically. Raises `ExportExistsError` if the folder exists and `overwrite` is false, and `HotlineError` for an
    unknown table.
    """
    source = Source(trace, Labels(name, commit, _aware(started)))
    selection = source.tables(tables, raw=True)
    return replace_folder(path_of(folder), lambda partial: _write(source, selection, partial), overwrite=overwrite)


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
    """Add a run to a dataset, a folder with a partition per run, and return the partition.

    A partition (`run=ID`) has the files of `export_tables` and the report as a page. Tables of single events are only
    included if listed in `tables`. The partition is written atomically, so a dashboard may read the dataset at any
    time. Raises `ExportExistsError` if the dataset already has the run and `overwrite` is false, or if the folder is
    not a dataset.
    """
    target = path_of(dataset)
    if target.exists() and (not target.is_dir() or (target / MANIFEST).exists() or any(target.glob("*.parquet"))):
        raise ExportExistsError(
            f"{target} is not a dataset of runs", hint="Give a dataset, or a folder that does not exist."
        )
    source = Source(trace, Labels(name, commit, _aware(started)))
    selection = source.tables(tables, raw=False)
    partition = target / f"{PARTITION}{source.run_id}"
    if partition.exists() and not overwrite:
        raise ExportExistsError(
            f"{target} already has this run, as {partition.name}",
            hint="Overwrite the run (--overwrite), or leave it out.",
        )

    def write(partial: Path) -> None:
        _write(source, selection, partial)
        if with_report:
            page = report(trace, source_lines=False).to_html()
            (partial / REPORT).write_text(page, encoding="utf-8")

    return replace_folder(partition, write, overwrite=overwrite)


def _aware(started: datetime | None) -> datetime | None:
    """The time in UTC. A time without a zone is taken as UTC."""
    return None if started is None else (started if started.tzinfo else started.replace(tzinfo=UTC)).astimezone(UTC)


def _write(source: Source, chosen: Sequence[Exported], folder: Path) -> None:
    from importlib.metadata import version

    descriptions = []
    for table in chosen:
        units = units_of([column.name for column in table.columns])
        columns = list(described(table.columns, units))
        _write_table(source, table, columns, folder / f"{table.name}.parquet")
        descriptions.append(
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
        "tables": descriptions,
    }
    (folder / SCHEMA).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def _write_table(source: Source, table: Exported, columns: Sequence[dict[str, str | None]], path: Path) -> None:
    import pyarrow.parquet as pq

    writer = None
    with _pieces(source, table) as frames:
        try:
            for frame in frames:
                # Other readers do not support Polars's string views and large lists.
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
    yield empty  # an empty table also gets a file
    for batch in reader:
        frame = pl.from_arrow(batch)
        assert isinstance(frame, pl.DataFrame)
        if frame.height:
            yield frame.cast(empty.schema)


def _plain(schema: pa.Schema) -> pa.Schema:
    """The schema with types supported by all readers."""
    import pyarrow as pa

    def plain(kind: pa.DataType) -> pa.DataType:
        if pa.types.is_large_string(kind):
            return pa.string()
        if pa.types.is_large_list(kind):
            return pa.list_(plain(kind.value_type))
        if pa.types.is_list(kind):
            return pa.list_(plain(kind.value_type))
        if pa.types.is_struct(kind):
            return pa.struct([field.with_type(plain(field.type)) for field in kind])
        return kind

    return pa.schema([field.with_type(plain(field.type)) for field in schema])
