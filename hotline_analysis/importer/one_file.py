"""One trace file → the Parquet files of all tables: read, annotated, and described."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from hotline_analysis import catalog
from hotline_analysis.database import table_of, threads_for
from hotline_analysis.importer.annotating import Prepared, annotate_folder, lent_database
from hotline_analysis.importer.options import Options, Progress
from hotline_analysis.importer.tables import open_raw, save, save_table, settle_times, write_raw
from hotline_analysis.kineto import mend
from hotline_analysis.kineto.reader import TraceReader
from hotline_analysis.schema import TABLES
from hotline_analysis.text import masking

_MAX_RANK = 1_000_000_000
_READING = 0.7  # share of an import's time that reading takes, for the progress bar


def import_file(
    file: Path, folder: Path, threads: int, on_progress: Progress, options: Options | None = None
) -> dict[str, Any]:
    """Read and annotate one trace file; write `<table>.parquet` for every table and return the manifest's entry.

    The entry has `notes` beside, warnings about the model, the `folder`, and the `path` of the file.
    """
    options = options or Options()
    size = max(1, file.stat().st_size)
    with lent_database(folder / "spill") as lent:
        reader = TraceReader(
            file, lambda done: on_progress(f"reading {file.name}", _READING * done / size), threads, lent.connection
        )
        tracks = write_raw(reader, folder, keep_secrets=options.keep_secrets)
        if not options.keep_secrets:
            masking.mask(reader.metadata)
        save_table(devices_of(reader.metadata), "device", folder)
        for name, given in options.tables().items():
            save_table(given, name, folder)

        def prepare(connection: duckdb.DuckDBPyConnection) -> Prepared:
            if note := settle_times(connection, folder):
                reader.damage.note(note)
            has_rows = open_raw(connection, folder)
            connection.register("track_key", tracks)
            save(connection, "track", catalog.get("track").sql, folder)
            row = table_of([_rank_info(connection, file, reader)], TABLES["rank_info"].arrow)
            save_table(row, "rank_info", folder)
            return Prepared(row, reader.metadata, has_rows)

        known = annotate_folder(
            lent,
            str(file),
            folder,
            prepare,
            threads_for(reader.event_count, threads),
            lambda what, share: on_progress(what, _READING + (1 - _READING) * share),
            options,
        )
    world = known["world_size"]
    known["world_size"] = world if world is not None and 0 < world <= _MAX_RANK else None
    if repaired := mend.sentence(reader.damage.repairs):
        known["notes"] = [*known["notes"], f"{file.name}: {repaired}"]
    return {"rank": _rank_of(file, reader.metadata)[0], **known, "path": str(file)}


def devices_of(metadata: Mapping[str, Any]) -> pa.Table:
    """The table `device`, by what a file says beside its events."""
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
