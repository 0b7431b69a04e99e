"""A rank of a run as the source of an import: its tables are copied and annotated again.

This converts runs of earlier versions, merges several runs, and gives a run a model or new rules, without the trace
files.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from hotline_analysis.annotation.model_file import METADATA_KEY
from hotline_analysis.atomic import MANIFEST
from hotline_analysis.database import threads_for
from hotline_analysis.errors import HotlineError, RunFormatError
from hotline_analysis.importer.annotating import Prepared, annotate_folder, lent_database
from hotline_analysis.importer.identity import COORDINATES, coordinates_of
from hotline_analysis.importer.one_file import devices_of
from hotline_analysis.importer.options import Options, Progress
from hotline_analysis.importer.sources import StoredRank
from hotline_analysis.importer.tables import TableWriter, open_raw, reading, save_table, without_secrets
from hotline_analysis.run.stored import read_manifest, spans_of, table_files
from hotline_analysis.schema import OLDEST_FORMAT, READ_TABLES, TABLES, Table
from hotline_analysis.text.masking import mask

_OF_METADATA = ("rank_info", "device")  # secrets in these tables are masked by metadata keys
_MISSING = re.compile(r"[\d,]+ of [\d,]+ ranks (is|are) missing")
_WITH_PLACES = 13  # first format with coordinates in `rank_info`
_HINT = "Import the trace files again."
# Options not stored in a run, and the table and evidence that show their use.
_USED = {"model": ("module_span", "alignment"), "op_work": ("op_work", "user")}


def ranks_of(runs: Sequence[Path]) -> list[StoredRank]:
    """Return all ranks of the runs. Raises `RunFormatError` for a damaged run, or a format that is too old."""
    ranks = []
    for run in runs:
        parts = read_manifest(run, oldest=OLDEST_FORMAT)["parts"]
        size = sum(file.stat().st_size for file in run.rglob("*.parquet")) // len(parts)
        version = str((run / MANIFEST).stat().st_mtime_ns)
        ranks += [StoredRank(run, part["rank"], part["file"], size, version) for part in parts]
    return ranks


def warnings_of(ranks: Sequence[object]) -> list[str]:
    """Return the runs' warnings about files outside the runs; the new import repeats all other warnings."""
    texts = []
    for run in dict.fromkeys(rank.run for rank in ranks if isinstance(rank, StoredRank)):
        manifest = read_manifest(run, oldest=OLDEST_FORMAT)
        prefixes = tuple(f"{part['file']}: " for part in manifest["parts"])
        texts += [text for text in manifest["warnings"] if not text.startswith(prefixes) and not _MISSING.match(text)]
    return texts


def processes_of(ranks: Sequence[object]) -> list[dict[str, Any]]:
    """Return the job's processes that are not ranks, from the manifests of the ranks' runs."""
    runs = dict.fromkeys(rank.run for rank in ranks if isinstance(rank, StoredRank))
    return [process for run in runs for process in read_manifest(run, oldest=OLDEST_FORMAT)["processes"]]


def import_rank(
    source: StoredRank, folder: Path, threads: int, on_progress: Progress, options: Options
) -> dict[str, Any]:
    """Write `<table>.parquet` for every table of a rank, and return the same entry as `import_file`.

    Given rules replace the run's rules. Raises `RunFormatError` if the run is damaged, and `HotlineError` if the run
    needs a model or query that is not given.
    """
    manifest = read_manifest(source.run, oldest=OLDEST_FORMAT)
    part = next((part for part in manifest["parts"] if part["rank"] == source.rank), None)
    if part is None:
        raise RunFormatError(f"{source.run} no longer has rank {source.rank}", hint="Import the run again.")
    with lent_database(folder / "spill") as lent:
        try:
            _copy_tables(source, manifest, folder, keep_secrets=options.keep_secrets)
            row = pq.read_table(folder / "rank_info.parquet")
            missing_options = _lacks(lent.connection, source, manifest["joined"], options)
        except (duckdb.Error, pl.exceptions.PolarsError, pa.ArrowException, OSError) as error:
            message = str(error).partition("\n")[0]
            raise RunFormatError(f"{source} is damaged: {message}", hint=_HINT) from error
        metadata = _metadata(source, row)
        if not options.keep_secrets:
            mask(metadata)
            row = row.set_column(row.column_names.index("metadata"), "metadata", [[json.dumps(metadata)]])
            save_table(row, "rank_info", folder)
            save_table(devices_of(metadata), "device", folder)
        if "model" in missing_options and METADATA_KEY not in metadata:
            raise HotlineError(f"{source.run} was imported with a model", hint="Give the model again (--model).")
        if "op_work" in missing_options:
            raise HotlineError(
                f"{source.run} was imported with a query for ops", hint="Give the query again (--op-work)."
            )
        for name, table in options.tables().items():
            if table.num_rows:
                save_table(table, name, folder)

        def prepare(connection: duckdb.DuckDBPyConnection) -> Prepared:
            return Prepared(row, metadata, open_raw(connection, folder))

        entry = annotate_folder(
            lent, str(source), folder, prepare, threads_for(part["event_count"], threads), on_progress, options
        )
    return {"rank": source.rank, **entry, **part, "path": str(source), "digest": str(source)}


def _copy_tables(source: StoredRank, manifest: Mapping[str, Any], folder: Path, *, keep_secrets: bool) -> None:
    """Copy the rows of a rank in the tables read from its file, and mask possible secrets."""
    for table in READ_TABLES:
        lacks_places = table.name == "rank_info" and manifest["format_version"] < _WITH_PLACES
        if lacks_places:
            columns = tuple(column for column in table.columns if column.name not in COORDINATES)
            table = replace(table, columns=columns)
        file, is_shared, _ = _file_of(table, source, manifest["joined"])
        writer = TableWriter(table.name, folder)
        try:
            with pq.ParquetFile(file, memory_map=False) as parquet:
                spans = (
                    spans_of(parquet.metadata) if is_shared else [(source.rank, source.rank)] * parquet.num_row_groups
                )
                for group, (low, high) in enumerate(spans):
                    if low <= source.rank <= high:
                        rows = parquet.read_row_group(group, columns=[*(["rank"] * is_shared), *table.arrow.names])
                        if is_shared:
                            rows = pl.DataFrame(rows).filter(rank=source.rank).drop("rank").to_arrow()
                        if lacks_places:
                            rows = _with_places(rows)
                        if table.name not in _OF_METADATA:
                            rows = without_secrets(table.name, rows, keep_secrets)
                        writer.write(rows)
            writer.finish()
        finally:
            writer.close()


def _with_places(rows: pa.Table) -> pa.Table:
    """Add the coordinates from the file name to rows of `rank_info`."""
    frame = pl.DataFrame(rows)
    coordinates = coordinates_of(str(frame["file"][0])) if frame.height else {}
    return frame.with_columns(pl.lit(coordinates.get(name), pl.Int64).alias(name) for name in COORDINATES).to_arrow()


def _lacks(
    connection: duckdb.DuckDBPyConnection, source: StoredRank, joined: Mapping[str, list[int]], options: Options
) -> list[str]:
    """Return the names of the options that the rank's stored annotation has used, but `options` lacks."""
    missing_options = []
    for option, (name, evidence) in _USED.items():
        # Read only this column: in earlier formats, other columns may differ.
        column = tuple(column for column in TABLES[name].columns if column.name == "evidence")
        file, is_shared, count = _file_of(replace(TABLES[name], columns=column), source, joined)
        sql = f"select count(*) from {reading(file)} where evidence = '{evidence}'"  # noqa: S608
        sql += f" and rank = {source.rank}" if is_shared else ""
        if getattr(options, option) is None and count and connection.execute(sql).fetchall()[0][0]:
            missing_options.append(option)
    return missing_options


def _file_of(table: Table, source: StoredRank, joined: Mapping[str, list[int]]) -> tuple[Path, bool, int]:
    """Return the file with a rank's rows, whether other ranks share it, and the maximum number of the rank's rows.

    Raises `RunFormatError` if the run is damaged.
    """
    files = table_files(table, {source.rank: source.run}, {source.run: joined})
    (file,) = files.own or files.shared
    return Path(file), bool(files.shared), files.size.rows


def _metadata(source: StoredRank, row: pa.Table) -> dict[str, Any]:
    """Return the trace file's metadata, besides the events."""
    try:
        (info,) = row.to_pylist()
        metadata = json.loads(info["metadata"])
    except (ValueError, TypeError, RecursionError) as error:
        raise RunFormatError(f"{source} is damaged: rank_info: {error}", hint=_HINT) from error
    if not isinstance(metadata, dict):
        raise RunFormatError(f"{source} is damaged: rank_info: metadata is not an object", hint=_HINT)
    return metadata
