"""One trace file → the Parquet files of all tables: read, annotated, and described."""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from hotline_analysis import catalog
from hotline_analysis.annotation.model_file import METADATA_KEY, Model, parse_model, read_model
from hotline_analysis.annotation.pipeline import annotate
from hotline_analysis.database import install_rules, macros_in, make_macros, table_of, threads_for
from hotline_analysis.errors import HotlineError, MachineError, ModelMismatchError
from hotline_analysis.importer.options import Options, Progress
from hotline_analysis.importer.tables import open_raw, save, save_derived, save_table, settle_times, write_raw
from hotline_analysis.kineto.reader import READER_SETTINGS, TraceReader
from hotline_analysis.schema import TABLES
from hotline_analysis.text import masking

# What the annotating database may use before it spills to disk. Where DuckDB fails by an error of its own, the second
# try has more, since such errors have been seen in what spills only.
_MEMORY_LIMITS = ("500MB", "80%")
_MAX_RANK = 1_000_000_000
_READING = 0.7  # share of an import's time that reading takes, for the progress bar


def import_file(
    file: Path, folder: Path, threads: int, on_progress: Progress, options: Options | None = None
) -> dict[str, Any]:
    """Read and annotate one trace file; write `<table>.parquet` for every table and return the manifest's entry.

    The entry has `notes` beside, warnings about the model, the `folder`, and the `path` of the file.
    """
    options = options or Options()
    notes: list[str] = []
    size = max(1, file.stat().st_size)
    with _database(folder / "spill") as lent:
        reader = TraceReader(
            file, lambda done: on_progress(f"reading {file.name}", _READING * done / size), threads, lent.connection
        )
        tracks = write_raw(reader, folder, keep_secrets=options.keep_secrets)
        if not options.keep_secrets:
            masking.mask(reader.metadata)
        save_table(_devices(reader.metadata), "device", folder)
        save_table(options.classes, "kernel_class", folder)
        save_table(options.gpus, "gpu_given", folder)
        save_table(options.signatures, "op_signature", folder)

        def annotate_in(connection: duckdb.DuckDBPyConnection, memory: str) -> dict[str, Any]:
            spill = str(folder / "spill").replace("'", "''")
            connection.execute(
                f"set threads = {threads_for(reader.event_count, threads)}; set memory_limit = '{memory}';"
                f" set temp_directory = '{spill}'"
            )
            return _annotate_file(connection, reader, tracks, folder, options, on_progress, notes)

        try:
            try:
                info = annotate_in(lent.connection, _MEMORY_LIMITS[0])
            except duckdb.InternalException:
                lent.is_sound = False
                notes.clear()
                with _new_database() as another:
                    info = annotate_in(another, _MEMORY_LIMITS[1])
        except duckdb.Error as error:
            what = str(error).partition("\n")[0]  # a stack trace may follow
            if isinstance(error, duckdb.IOException | duckdb.OutOfMemoryException):
                raise MachineError(
                    f"{file} cannot be annotated: {what}", hint="Is there enough memory and disk?"
                ) from error
            is_defect = isinstance(error, duckdb.InternalException)
            hint = "This is a defect of DuckDB; please report it." if is_defect else None
            raise HotlineError(f"{file} cannot be annotated: {what}", hint=hint) from error
    rank, _ = _rank_of(file, reader.metadata)
    world = info["world_size"]
    info["world_size"] = world if world is not None and 0 < world <= _MAX_RANK else None
    names = (
        "file",
        "rank_source",
        "world_size",
        "event_count",
        "lost_event_count",
        "lost_bytes",
        "damage",
        "truncated",
        "start_ns",
        "end_ns",
    )
    return {
        "rank": rank,
        **{name: info[name] for name in names},
        "folder": str(folder),
        "path": str(file),
        "notes": notes,
    }


@dataclass
class _Lent:
    """A connection to a database that is kept for the next import, if it is still sound then."""

    connection: duckdb.DuckDBPyConnection
    is_sound: bool = True


@contextmanager
def _database(spill: Path) -> Iterator[_Lent]:
    """A connection to a database which the imports of this process use in turns.

    It reads and annotates a file, and the next one as well: to start a database takes as long as to read a small trace.
    What an import makes in it is temporary, so it goes with the connection. One that had an error, or may still have
    something in the folder `spill`, is not kept.
    """
    with _LOCK:
        database = _KEPT.pop() if _KEPT else None
    database = database or _new_database()
    with ExitStack() as at_end:
        at_end.callback(database.close)
        with database.cursor() as connection:
            lent = _Lent(connection)
            yield lent
        if lent.is_sound and not spill.exists():
            database.execute("reset memory_limit; set threads = 1; set temp_directory = ''")
            with _LOCK:
                if not _KEPT:
                    at_end.pop_all()
                    _KEPT.append(database)


_KEPT: list[duckdb.DuckDBPyConnection] = []  # at most one
_LOCK = threading.Lock()


def _new_database() -> duckdb.DuckDBPyConnection:
    database = duckdb.connect(config=READER_SETTINGS)
    queries = catalog.queries("annotate")
    make_macros(database, macros_in(each.sql for query in queries for each in (*query.steps, query)))
    install_rules(database)
    return database


def _annotate_file(
    connection: duckdb.DuckDBPyConnection,
    reader: TraceReader,
    tracks: pa.Table,
    folder: Path,
    options: Options,
    on_progress: Progress,
    notes: list[str],
) -> dict[str, Any]:
    """Add the derived tables to those that were read; return the row of `rank_info`."""
    file = reader.path
    if note := settle_times(connection, folder):
        reader.damage.note(note)
    has_rows = open_raw(connection, folder)
    connection.register("track_key", tracks)
    save(connection, "track", catalog.get("track").sql, folder)
    info = _rank_info(connection, file, reader)
    row = table_of([info], TABLES["rank_info"].arrow)
    save_table(row, "rank_info", folder)
    connection.register("rank_info", row)
    annotate(
        connection,
        lambda share: on_progress(f"annotating {file.name}", _READING + (1 - _READING) * share),
        model=_model_of(file, reader.metadata, options.model, notes),
        own_work=options.op_work,
        on_note=lambda note: notes.append(f"{file.name}: {note}"),
        has_rows=has_rows,
        on_done=lambda name, is_filled: save_derived(connection, name, folder, is_filled=is_filled),
    )
    return info


def _model_of(file: Path, metadata: Mapping[str, Any], given: Path | None, notes: list[str]) -> Model | None:
    """The model that the user gives, else the one that a capture has stored in the trace."""
    if given is not None:
        return read_model(given)
    if METADATA_KEY not in metadata:
        return None
    try:
        return parse_model(metadata[METADATA_KEY], f"{METADATA_KEY} in {file.name}", stored=True)
    except ModelMismatchError as error:
        notes.append(error.message)
        return None


def _devices(metadata: Mapping[str, Any]) -> pa.Table:
    listed = metadata.get("deviceProperties")
    rows = [
        {
            "device_id": _integer(device.get("id")),
            "name": None if device.get("name") is None else str(device["name"]),
            "memory_bytes": _integer(device.get("totalGlobalMem")),
            "sm_count": _integer(device.get("numSms")),
            "properties": json.dumps(device),
        }
        for device in (listed if isinstance(listed, list) else [])
        if isinstance(device, dict)
    ]
    return table_of(rows, TABLES["device"].arrow)


def _integer(value: object) -> int | None:
    try:
        number = int(value)  # type: ignore[call-overload]
    except (TypeError, ValueError, OverflowError):
        return None
    return number if -(2**63) <= number < 2**63 else None


def _rank_of(file: Path, metadata: Mapping[str, Any]) -> tuple[int, str]:
    """The rank of a file, and where it is known from."""
    distributed = metadata.get("distributedInfo")
    rank = _integer(distributed.get("rank")) if isinstance(distributed, dict) else None
    if rank is not None and 0 <= rank < _MAX_RANK:
        return rank, "distributedInfo"
    in_name = re.search(r"(?<![a-z])rank[-_. ]?(\d{1,9})(?!\d)", file.name, re.IGNORECASE)
    return (int(in_name[1]), "file_name") if in_name else (0, "default")


def _rank_info(connection: duckdb.DuckDBPyConnection, file: Path, reader: TraceReader) -> dict[str, Any]:
    facts = connection.execute(
        "select"
        " (select min(start_ns) from event where dur_ns is not null and coalesce(category, '') <> 'trace'),"
        " (select max(end_ns) from event where coalesce(category, '') <> 'trace'),"
        " exists (select 1 from python_call), exists (select 1 from op where input_dims is not null),"
        " exists (select 1 from memory_event)"
    ).fetchall()[0]
    distributed = reader.metadata.get("distributedInfo")
    damage = reader.damage
    return {
        "file": os.fsencode(file.name).decode("utf-8", "replace"),
        "rank_source": _rank_of(file, reader.metadata)[1],
        "world_size": _integer(distributed.get("world_size")) if isinstance(distributed, dict) else None,
        "event_count": reader.event_count,
        "lost_event_count": damage.lost_events,
        "lost_bytes": damage.lost_bytes,
        "truncated": damage.truncated,
        "damage": "; ".join(damage.notes) or None,
        "base_time_ns": _integer(reader.metadata.get("baseTimeNanoseconds")),
        **dict(zip(("start_ns", "end_ns", "with_stack", "record_shapes", "profile_memory"), facts, strict=True)),
        "metadata": json.dumps(reader.metadata),
    }
