"""Import one trace file: read and annotate it, and write the Parquet files of all tables."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from hotline_analysis import catalog
from hotline_analysis.database import table_of, threads_for
from hotline_analysis.importer.annotating import Prepared, annotate_folder, entry_of, lent_database
from hotline_analysis.importer.devices import settle_devices
from hotline_analysis.importer.dialects import recognise
from hotline_analysis.importer.exports import REPORT_SUFFIXES, unexported
from hotline_analysis.importer.identity import COORDINATES, MAX_RANK, coordinates_of, identity_of, integer, rank_of
from hotline_analysis.importer.options import Options, Progress
from hotline_analysis.importer.sources import ExportedProcess
from hotline_analysis.importer.tables import Reader, open_raw, reading, save, save_table, write_raw
from hotline_analysis.importer.times import settle_times
from hotline_analysis.kineto import mend
from hotline_analysis.kineto.reader import TraceReader
from hotline_analysis.nsight.database import is_export
from hotline_analysis.nsight.reader import NsightReader
from hotline_analysis.schema import TABLES
from hotline_analysis.text import masking

_READING = 0.7  # share of an import's time used for reading, for the progress bar


def import_file(
    file: Path | ExportedProcess, folder: Path, threads: int, on_progress: Progress, options: Options | None = None
) -> dict[str, Any]:
    """Read and annotate one trace file or process. Write `<table>.parquet` for every table; return the manifest entry.

    The entry also has `notes` (warnings about the model), the `folder`, and the `path` of the file.
    """
    options = options or Options()
    with lent_database(folder / "spill") as lent:
        read = read_file(lent.connection, file, folder, threads, on_progress, options)
        reader = read.reader
        try:
            entry = annotate_folder(
                lent,
                str(file),
                folder,
                read.prepare,
                threads_for(reader.event_count, threads),
                lambda what, share: on_progress(what, _READING + (1 - _READING) * share),
                options,
            )
        except _SeveralProcesses as several:
            entry = {**entry_of(several.info, folder), "is_several": True, "borders": reader.damage.borders}
            entry["whole"] = reader.damage.whole
            entry["ranks"] = [
                rank_of("", metadata)[0] for metadata in (several.first_metadata, reader.metadata) if metadata
            ]
    world = entry["world_size"]
    entry["world_size"] = world if world is not None and 0 < world <= MAX_RANK else None
    if repair_note := mend.sentence(reader.damage.repairs):
        entry["notes"] = [*entry["notes"], f"{file.name}: {repair_note}"]
    path = file.file if isinstance(file, ExportedProcess) else file
    rank = _rank_of(file, reader.metadata)[0]
    return {"rank": rank, **entry, "identity": read.identity, "path": str(path)}


def _reader_of(
    file: Path | ExportedProcess,
    on_progress: Callable[[float], None],
    threads: int,
    connection: duckdb.DuckDBPyConnection,
    *,
    keep_secrets: bool,
) -> Reader:
    """Return the reader for a file, chosen by content, not by name. `on_progress` receives the share already read."""
    if isinstance(file, ExportedProcess):
        return NsightReader(
            file.file,
            on_progress,
            connection,
            process=file.process,
            with_unowned=file.position == 0,
            keep_secrets=keep_secrets,
        )
    if is_export(file):
        return NsightReader(file, on_progress, connection, keep_secrets=keep_secrets)
    if file.name.lower().endswith(REPORT_SUFFIXES):
        raise unexported(file)
    size = max(1, file.stat().st_size)
    categories = catalog.rules()["event_categories"]
    return TraceReader(file, lambda done: on_progress(done / size), threads, connection, categories)


@dataclass(frozen=True)
class ReadFile:
    """A file with its tables written as recorded."""

    reader: Reader
    prepare: Callable[[duckdb.DuckDBPyConnection], Prepared]
    """Registers the tables with the annotating database, and writes the tables derived from others."""
    identity: dict[str, Any]
    """Origin of the file; filled by `prepare`."""


def read_file(
    connection: duckdb.DuckDBPyConnection,
    file: Path | ExportedProcess,
    folder: Path,
    threads: int,
    on_progress: Progress,
    options: Options,
) -> ReadFile:
    """Write the tables of a file as recorded."""
    reader = _reader_of(
        file,
        lambda share: on_progress(f"reading {file.name}", _READING * share),
        threads,
        connection,
        keep_secrets=options.keep_secrets,
    )
    tracks = write_raw(reader, folder, keep_secrets=options.keep_secrets)
    if not options.keep_secrets:
        masking.mask(reader.metadata)
    save_table(devices_of(reader.metadata), "device", folder)
    for name, table in options.tables().items():
        save_table(table, name, folder)
    identity: dict[str, Any] = {}

    def prepare(connection: duckdb.DuckDBPyConnection) -> Prepared:
        recognise(connection, folder, tracks)
        for note in (*settle_times(connection, folder, tracks), *settle_devices(connection, folder)):
            reader.damage.note(note)
        has_rows = open_raw(connection, folder)
        connection.register("track_key", tracks)
        save(connection, "track", catalog.get("track").sql, folder)
        info = _rank_info(connection, file, reader)
        connection.execute("drop table if exists track")  # from a first attempt
        connection.execute(f"create temp view track as from {reading(folder / 'track.parquet')}")
        is_several = find_processes(connection)
        if isinstance(reader, TraceReader):
            is_several = is_several or has_writers(connection, reader.damage.borders)
            info["damage"] = _damage_of_writers(connection, reader, is_several) or info["damage"]
        else:
            is_several = False  # each process of an export is read separately
        row = table_of([info], TABLES["rank_info"].arrow)
        save_table(row, "rank_info", folder)
        identity.update(identity_of(connection, file.name, info))
        if is_several:
            raise _SeveralProcesses(info, reader.first_metadata if isinstance(reader, TraceReader) else None)
        return Prepared(row, reader.metadata, has_rows)

    return ReadFile(reader, prepare, identity)


class _SeveralProcesses(Exception):
    """Several processes of a file work. Each becomes a rank and is annotated separately (`regroup`)."""

    def __init__(self, info: dict[str, Any], first_metadata: Mapping[str, Any] | None) -> None:
        super().__init__()
        self.info, self.first_metadata = info, first_metadata


WORK = ("kernel", "gpu_memcpy", "gpu_memset", "cuda_runtime", "cuda_driver", "cpu_op")
"""Categories of events that make a document the recording of a rank."""


def has_writers(connection: duckdb.DuckDBPyConnection, borders: Sequence[int]) -> bool:
    """Return whether several documents of a file have GPU work or training.

    `borders` are the first events of all documents except the first.
    """
    if not borders:
        return False
    make_documents(connection, borders)
    sql = (
        "select count(distinct process) > 1 from ("  # noqa: S608
        + catalog.get("event_document").sql
        + ") as placed inner join event on placed.event_id = event.event_id where event.category in $categories"
    )
    return bool(connection.execute(sql, {"categories": list(WORK)}).fetchall()[0][0])


def make_documents(connection: duckdb.DuckDBPyConnection, borders: Sequence[int]) -> None:
    """Make the table `document` of the documents of a file."""
    rows = [{"number": number, "first_id": first} for number, first in enumerate([-1, *borders])]
    table = table_of(rows, pa.schema([("number", pa.int64()), ("first_id", pa.int64())]))
    connection.register("given", table)
    connection.execute("create or replace temp table document as from given")
    connection.unregister("given")


def _damage_of_writers(connection: duckdb.DuckDBPyConnection, reader: TraceReader, is_several: bool) -> str | None:
    """Return the damage note for a file written by several processes at the same time; None for other files.

    Within a recording, a name and correlation id occur in one call. Two such calls are from different processes.
    """
    damage = reader.damage
    if is_several:
        is_mixed = bool(set(damage.borders) - set(damage.whole)) or damage.lost_events > 0
    else:
        twins = (
            "select exists (select 1 from event where category in ('cuda_runtime', 'cuda_driver')"
            " and correlation is not null group by name, correlation having count(distinct start_ns) > 1)"
        )
        is_mixed = damage.lost_events > 0 and bool(connection.execute(twins).fetchall()[0][0])
    sentence = (
        "several processes wrote this file at the same time: their events are mixed, and a part of them is missing"
    )
    return "; ".join([sentence, *damage.notes]) if is_mixed else None


def find_processes(connection: duckdb.DuckDBPyConnection) -> bool:
    """Make the table `process_track` from `event` and `track`. Return whether several processes work."""
    connection.execute(f"create or replace temp table process_track as {catalog.get('process_track').sql}")
    working_query = (
        "select count(distinct process) > 1 from process_track where launch_count + gpu_count + training_count > 0"
    )
    if not connection.execute(working_query).fetchall()[0][0]:
        return False
    file_query = f"select count(*) filter (where is_working) > 1 from ({catalog.get('file_process').sql})"  # noqa: S608
    return bool(connection.execute(file_query).fetchall()[0][0])


def devices_of(metadata: Mapping[str, Any]) -> pa.Table:
    """Return the table `device` from a file's metadata. Merged files list each GPU several times."""
    devices = metadata.get("deviceProperties")
    rows = [
        {
            "device_id": integer(device.get("id")),
            "name": None if device.get("name") is None else str(device["name"]),
            "memory_bytes": integer(device.get("totalGlobalMem")),
            "sm_count": integer(device.get("numSms")),
            "properties": json.dumps(device),
        }
        for device in (devices if isinstance(devices, list) else [])
        if isinstance(device, dict)
    ]
    first = {row["device_id"]: row for row in reversed(rows)}
    rows = [row for row in rows if row["device_id"] is None or first[row["device_id"]] is row]
    return table_of(rows, TABLES["device"].arrow)


def _rank_of(file: Path | ExportedProcess, metadata: Mapping[str, Any]) -> tuple[int, str]:
    """Return the rank of a file, and its source.

    For an export with several processes, the position replaces the file name.
    """
    name = "" if isinstance(file, ExportedProcess) and file.count > 1 else file.name
    rank, source = rank_of(name, metadata)
    return (file.position, source) if source == "default" and isinstance(file, ExportedProcess) else (rank, source)


def _rank_info(connection: duckdb.DuckDBPyConnection, file: Path | ExportedProcess, reader: Reader) -> dict[str, Any]:
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
        **dict.fromkeys(COORDINATES),
        **coordinates_of(file.name),
        "rank_source": rank_of(file.name, reader.metadata)[1],
        "world_size": integer(distributed.get("world_size")) if isinstance(distributed, dict) else None,
        "event_count": reader.event_count,
        "lost_event_count": damage.lost_events,
        "lost_bytes": damage.lost_bytes,
        "truncated": damage.truncated,
        "damage": "; ".join(damage.notes) or None,
        "base_time_ns": integer(reader.metadata.get("baseTimeNanoseconds")),
        **dict(zip(("start_ns", "end_ns", "with_stack", "record_shapes", "profile_memory"), facts, strict=True)),
        "metadata": json.dumps(reader.metadata),
    }
