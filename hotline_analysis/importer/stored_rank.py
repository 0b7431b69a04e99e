"""A rank of a run as the source of an import: the tables of its file are taken as they are, and annotated again.

So runs of earlier versions of this package are brought to this one, several runs are made one, and a run gets a model
or rules that it was not imported with, all without the trace files.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
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
from hotline_analysis.importer.one_file import devices_of
from hotline_analysis.importer.options import Options, Progress
from hotline_analysis.importer.tables import TableWriter, open_raw, reading, save_table, without_secrets
from hotline_analysis.run.stored import read_manifest, spans_of, table_files
from hotline_analysis.schema import OLDEST_FORMAT, READ_TABLES, TABLES, Table
from hotline_analysis.text.masking import mask

_OF_METADATA = ("rank_info", "device")  # secrets in these are hidden by the names of what they stand in
_MISSING = re.compile(r"[\d,]+ of [\d,]+ ranks (is|are) missing")
_HINT = "Import the trace files again."
# Options that a run does not hold, and where it shows that they were given.
_USED = {"model": ("module_span", "alignment"), "op_work": ("op_work", "user")}


@dataclass(frozen=True)
class StoredRank:
    """A rank of a run."""

    run: Path
    rank: int
    name: str = ""
    """Name of the trace file that it was imported from."""
    size: int = 0
    """Bytes of its part of the run, on average of all ranks."""
    version: str = ""
    """Changes when the run is written again."""

    def __str__(self) -> str:
        return f"rank {self.rank} of {self.run}"


def ranks_of(runs: Sequence[Path]) -> list[StoredRank]:
    """All ranks of some runs. Raises `RunFormatError` for a run that is damaged, or of too early a format."""
    found = []
    for run in runs:
        parts = read_manifest(run, oldest=OLDEST_FORMAT)["parts"]
        size = sum(file.stat().st_size for file in run.rglob("*.parquet")) // len(parts)
        version = str((run / MANIFEST).stat().st_mtime_ns)
        found += [StoredRank(run, part["rank"], part["file"], size, version) for part in parts]
    return found


def warnings_of(ranks: Sequence[object]) -> list[str]:
    """What was said when the runs of these ranks were imported of other files: the rest is said again."""
    kept = []
    for run in dict.fromkeys(each.run for each in ranks if isinstance(each, StoredRank)):
        manifest = read_manifest(run, oldest=OLDEST_FORMAT)
        again = tuple(f"{part['file']}: " for part in manifest["parts"])
        kept += [text for text in manifest["warnings"] if not text.startswith(again) and not _MISSING.match(text)]
    return kept


def import_rank(
    source: StoredRank, folder: Path, threads: int, on_progress: Progress, options: Options
) -> dict[str, Any]:
    """Write `<table>.parquet` for every table of a rank, and return what `import_file` returns.

    Rules that are given count instead of those of the run. Raises `RunFormatError` if the run is damaged, and
    `HotlineError` if it needs a model or query that is not given.
    """
    manifest = read_manifest(source.run, oldest=OLDEST_FORMAT)
    part = next((part for part in manifest["parts"] if part["rank"] == source.rank), None)
    if part is None:
        raise RunFormatError(f"{source.run} has no rank {source.rank} any more", hint="Import it again.")
    with lent_database(folder / "spill") as lent:
        try:
            _copy_tables(source, manifest["joined"], folder, keep_secrets=options.keep_secrets)
            row = pq.read_table(folder / "rank_info.parquet")
            lacks = _lacks(lent.connection, source, manifest["joined"], options)
        except (duckdb.Error, pl.exceptions.PolarsError, pa.ArrowException, OSError) as error:
            what = str(error).partition("\n")[0]
            raise RunFormatError(f"{source} is damaged: {what}", hint=_HINT) from error
        metadata = _metadata(source, row)
        if not options.keep_secrets:
            mask(metadata)
            row = row.set_column(row.column_names.index("metadata"), "metadata", [[json.dumps(metadata)]])
            save_table(row, "rank_info", folder)
            save_table(devices_of(metadata), "device", folder)
        if "model" in lacks and METADATA_KEY not in metadata:
            raise HotlineError(f"{source.run} was imported with a model", hint="Give it again (--model).")
        if "op_work" in lacks:
            raise HotlineError(f"{source.run} was imported with a query for ops", hint="Give it again (--op-work).")
        for name, given in options.tables().items():
            if given.num_rows:
                save_table(given, name, folder)

        def prepare(connection: duckdb.DuckDBPyConnection) -> Prepared:
            return Prepared(row, metadata, open_raw(connection, folder))

        known = annotate_folder(
            lent, str(source), folder, prepare, threads_for(part["event_count"], threads), on_progress, options
        )
    return {"rank": source.rank, **known, **part, "path": str(source), "digest": str(source)}


def _copy_tables(source: StoredRank, joined: Mapping[str, list[int]], folder: Path, *, keep_secrets: bool) -> None:
    """Copy the rows of a rank in the tables that came from its file, and hide what looks like a secret."""
    for table in READ_TABLES:
        file, is_shared, _ = _file_of(table, source, joined)
        writer = TableWriter(table.name, folder)
        try:
            with pq.ParquetFile(file, memory_map=False) as opened:
                spans = spans_of(opened.metadata) if is_shared else [(source.rank, source.rank)] * opened.num_row_groups
                for group, (low, high) in enumerate(spans):
                    if low <= source.rank <= high:
                        rows = opened.read_row_group(group, columns=[*(["rank"] * is_shared), *table.arrow.names])
                        if is_shared:
                            rows = pl.DataFrame(rows).filter(rank=source.rank).drop("rank").to_arrow()
                        if table.name not in _OF_METADATA:
                            rows = without_secrets(table.name, rows, keep_secrets)
                        writer.write(rows)
            writer.finish()
        finally:
            writer.close()


def _lacks(
    connection: duckdb.DuckDBPyConnection, source: StoredRank, joined: Mapping[str, list[int]], options: Options
) -> list[str]:
    """The options that are not given, and of which the annotation of the run has made use."""
    lacks = []
    for option, (name, evidence) in _USED.items():
        # Of earlier formats, other columns may be other ones.
        column = tuple(column for column in TABLES[name].columns if column.name == "evidence")
        file, is_shared, count = _file_of(replace(TABLES[name], columns=column), source, joined)
        used = f"select count(*) from {reading(file)} where evidence = '{evidence}'"  # noqa: S608
        used += f" and rank = {source.rank}" if is_shared else ""
        if getattr(options, option) is None and count and connection.execute(used).fetchall()[0][0]:
            lacks.append(option)
    return lacks


def _file_of(table: Table, source: StoredRank, joined: Mapping[str, list[int]]) -> tuple[Path, bool, int]:
    """The file with the rows of a rank, whether others have rows in it, and how many those parts have that can be its.

    Raises `RunFormatError` if it is damaged.
    """
    files = table_files(table, {source.rank: source.run}, {source.run: joined})
    (file,) = files.own or files.shared
    return Path(file), bool(files.shared), files.size.rows


def _metadata(source: StoredRank, row: pa.Table) -> dict[str, Any]:
    """What the trace file said beside its events."""
    try:
        (info,) = row.to_pylist()
        metadata = json.loads(info["metadata"])
    except (ValueError, TypeError, RecursionError) as error:
        raise RunFormatError(f"{source} is damaged: rank_info: {error}", hint=_HINT) from error
    if not isinstance(metadata, dict):
        raise RunFormatError(f"{source} is damaged: rank_info: its metadata is no object", hint=_HINT)
    return metadata
