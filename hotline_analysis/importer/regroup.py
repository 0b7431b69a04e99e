"""Cut or join the tables of files that do not hold one recording of one process, and annotate the result as ranks.

Several processes in one file become separate parts. Several recordings of one process become one part: each recording
directly follows the previous one, because the time between them was not recorded.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow.parquet as pq

from hotline_analysis import catalog
from hotline_analysis.annotation.model_file import METADATA_KEY
from hotline_analysis.database import processors, rows_of, table_of, threads_for
from hotline_analysis.importer.annotating import Prepared, annotate_folder, lent_database
from hotline_analysis.importer.identity import COORDINATES, coordinates_of, identity_of, label_order
from hotline_analysis.importer.one_file import WORK, find_processes, make_documents
from hotline_analysis.importer.options import Options, Progress
from hotline_analysis.importer.tables import TableWriter, open_raw, reading, save_table
from hotline_analysis.schema import READ_TABLES, TABLES
from hotline_analysis.text.formats import listed

_OF_EVENTS = tuple(table.name for table in READ_TABLES if table.columns[0].name == "event_id" and table.name != "event")
_GIVEN = ("kernel_class", "gpu_given", "op_signature")
# Numbers restarted by each recording, by counter. Later recordings get numbers past those of earlier recordings.
_NUMBERS: Mapping[str, Mapping[str, str]] = {
    "event": {"event_id": "event_id", "correlation": "correlation", "external_id": "external_id"},
    "op": {"event_id": "event_id", "sequence_number": "sequence", "record_function_id": "function"},
    "python_call": {"event_id": "event_id", "python_id": "python", "python_parent_id": "python"},
    "sync": {"event_id": "event_id", "wait_on_correlation": "correlation"},
}
_LARGEST = 1 << 48
_TIMES: Mapping[str, tuple[str, ...]] = {"event": ("start_ns", "end_ns"), "flow": ("start_ns",)}


def split(
    part: Mapping[str, Any], folder: Path, options: Options, on_progress: Progress | None
) -> list[dict[str, Any]]:
    """Return the working processes of a file as separate parts, ordered by label or number.

    The first part has the other processes in `others`, with their labels and event counts.
    """
    root = Path(part["folder"])
    owner, workers, idle = _owners(root, part["borders"])
    ranks = _ranks_of_writers(part["ranks"], len(workers)) if part["borders"] else list(range(len(workers)))
    lost_counts = [_lost_of_writer(part, owner, process) for process in workers] if part["borders"] else []
    pieces = []
    for number, process in enumerate(workers):
        target = folder / f"{root.name}-{number}"
        target.mkdir()
        of_process = owner.filter(process=process).select("event_id")
        events = _read(root, "event").join(of_process, on="event_id", how="semi")
        _write("event", events, target)
        for name in _OF_EVENTS:
            _write(name, _read(root, name).join(of_process, on="event_id", how="semi"), target)
        _write("track", _read(root, "track").join(events, on="track_id", how="semi"), target)
        _write("device", _read(root, "device").unique("device_id", keep="first", maintain_order=True), target)
        for name in _GIVEN:
            _write(name, _read(root, name), target)
        info = _info(root)
        info |= {"rank_source": "process", "event_count": events.height, **_span(events)}
        info |= {**dict.fromkeys(COORDINATES), **coordinates_of(process)}
        if part["borders"]:
            info |= {
                "lost_event_count": lost_counts[number],
                "lost_bytes": info["lost_bytes"] if lost_counts[number] else 0,
            }
            info["damage"] = _damage_of_writers(ranks, lost_counts) or info["damage"]
        elif number:  # events without a process are counted once
            info |= {"lost_event_count": 0, "lost_bytes": 0}
        pieces.append(_annotated(target, info, part, ranks[number], options, on_progress))
    counts = dict(owner.group_by("process").len().rows())
    pieces[0]["others"] = [{"name": process, "event_count": counts.get(process, 0)} for process in idle]
    return pieces


def _ranks_of_writers(declared: Sequence[int], count: int) -> list[int]:
    """Return the ranks of documents: the different ranks declared in the file, then free numbers."""
    ranks = list(dict.fromkeys(declared))[:count] or [0]
    free = (number for number in range(max(ranks) + count + 1) if number not in ranks)
    return ranks + [next(free) for _ in range(count - len(ranks))]


def _lost_of_writer(part: Mapping[str, Any], owner: pl.DataFrame, process: str) -> int:
    """Return about how many events of a document were overwritten; 0 for the first and for complete documents.

    Earlier documents occupy the space of the lost beginning. With equally long events, the lost count equals their
    count.
    """
    number = int(process)
    first = part["borders"][number - 1] if number else None
    if first is None or first in part["whole"]:
        return 0
    return owner.filter(pl.col("event_id") < first).height


def _damage_of_writers(ranks: Sequence[int], lost: Sequence[int]) -> str | None:
    phrases = [f"rank {rank} lacks about {count:,} events" for rank, count in zip(ranks, lost, strict=True) if count]
    if not phrases:
        return None
    return (
        f"{len(ranks)} processes wrote this file at the same time, so their events are mixed and some are missing:"
        f" {listed(phrases)}"
    )


def _owners(root: Path, borders: Sequence[int]) -> tuple[pl.DataFrame, list[str], list[str]]:
    """Return the process of each event, the working processes, and the other processes."""
    with lent_database(root / "spill") as lent:
        lent.connection.execute(f"create temp view event as from {reading(root / 'event.parquet')}")
        lent.connection.execute(f"create temp view track as from {reading(root / 'track.parquet')}")
        if borders:
            make_documents(lent.connection, borders)
            owner = pl.DataFrame(rows_of(lent.connection.execute(catalog.get("event_document").sql)))
            return (owner, *_documents(root, owner))
        find_processes(lent.connection)
        rows = lent.connection.execute(catalog.get("file_process").sql).fetchall()
        owner = pl.DataFrame(rows_of(lent.connection.execute(catalog.get("event_process").sql)))
    workers = sorted((process for process, _, is_working in rows if is_working), key=label_order)
    return owner, workers, [process for process, _, is_working in rows if not is_working]


def _documents(root: Path, owner: pl.DataFrame) -> tuple[list[str], list[str]]:
    """Return the documents with CPU or GPU work, and the other documents."""
    work_owner = owner.join(
        _read(root, "event").filter(pl.col("category").is_in(WORK)).select("event_id"), on="event_id", how="semi"
    )
    names = work_owner["process"].unique(maintain_order=True).to_list()
    return names, [name for name in owner["process"].unique(maintain_order=True) if name not in names]


def joined(
    parts: Sequence[Mapping[str, Any]],
    pauses_ns: Sequence[int],
    folder: Path,
    options: Options,
    on_progress: Progress | None,
) -> dict[str, Any]:
    """Join the recordings of one process, in order of time. In the part, `recordings` lists their positions.

    `pauses_ns` has the time cut out between each recording and the next.
    """
    roots = [Path(part["folder"]) for part in parts]
    target = folder / f"{roots[0].name}-joined"
    target.mkdir()
    infos = [_info(root) for root in roots]
    next_number: dict[str, int] = {}
    tracks: dict[tuple[str | None, str | None], dict[str, Any]] = {}
    writers = {name: TableWriter(name, target) for name in ("event", *_OF_EVENTS)}
    recordings = []
    for number, (root, info) in enumerate(zip(roots, infos, strict=True)):
        shift = (info["base_time_ns"] or 0) - (infos[0]["base_time_ns"] or 0) - sum(pauses_ns[:number])
        first = dict(next_number)
        number_of = _tracks(root, tracks)
        for name in writers:
            rows = _read(root, name)
            moves = [
                (pl.col(column) + first.get(counter, 0)).alias(column)
                for column, counter in _NUMBERS.get(name, {"event_id": "event_id"}).items()
            ]
            for column, counter in _NUMBERS.get(name, {"event_id": "event_id"}).items():
                last = rows[column].max()
                if isinstance(last, int) and last < _LARGEST:  # a damaged number does not shift later numbers
                    next_number[counter] = max(next_number.get(counter, 0), first.get(counter, 0) + last + 1)
            moves += [pl.col(column) + shift for column in _TIMES.get(name, ())]
            if name in ("event", "flow"):
                moves.append(pl.col("track_id").replace(number_of))
            if name == "flow" and number:
                moves.append(pl.format("{}:{}", pl.lit(number), pl.col("flow_id")).alias("flow_id"))
            writers[name].write(rows.with_columns(moves).to_arrow())
        recordings.append(
            {
                "file": info["file"],
                "first_event_id": first.get("event_id", 0),
                "event_count": info["event_count"],
                "start_ns": info["start_ns"],
                "end_ns": info["end_ns"],
                "shift_ns": shift,
            }
        )
    for writer in writers.values():
        writer.finish()
    save_table(table_of(list(tracks.values()), TABLES["track"].arrow), "track", target)
    devices = pl.concat([_read(root, "device") for root in roots]).unique(
        "device_id", keep="first", maintain_order=True
    )
    _write("device", devices, target)
    for name in _GIVEN:
        _write(name, _read(roots[0], name), target)
    info = _joined_info(infos, recordings)
    result = _annotated(target, info, parts[0], parts[0]["rank"], options, on_progress)
    result["notes"] = list(dict.fromkeys(note for part in (*parts, result) for note in part["notes"]))
    return {
        **result,
        "recordings": recordings,
        "rank_source": parts[0]["rank_source"],
        "bytes": sum(p["bytes"] for p in parts),
    }


def _joined_info(infos: Sequence[dict[str, Any]], recordings: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The facts of the joined recordings, from the facts of each recording."""
    full_info = next((info for info in infos if METADATA_KEY in json.loads(info["metadata"])), infos[0])
    info = {**infos[0], "metadata": full_info["metadata"]}
    info |= {name: sum(entry[name] for entry in infos) for name in ("event_count", "lost_event_count", "lost_bytes")}
    damage = [f"{entry['file']}: {entry['damage']}" for entry in infos if entry["damage"]]
    info |= {"damage": "; ".join(damage) or None, "truncated": any(entry["truncated"] for entry in infos)}
    info |= {name: any(entry[name] for entry in infos) for name in ("with_stack", "record_shapes", "profile_memory")}
    info["end_ns"] = max(entry["end_ns"] + entry["shift_ns"] for entry in recordings if entry["end_ns"] is not None)
    return info


def _tracks(root: Path, tracks: dict[tuple[str | None, str | None], dict[str, Any]]) -> dict[int, int]:
    """Add the tracks of a recording to the tracks so far. Return the new number of each of its tracks."""
    number_of = {}
    for row in _read(root, "track").iter_rows(named=True):
        track = tracks.setdefault((row["pid"], row["tid"]), {**row, "track_id": len(tracks)})
        number_of[row["track_id"]] = track["track_id"]
    return number_of


def _annotated(
    target: Path,
    info: dict[str, Any],
    part: Mapping[str, Any],
    rank: int,
    options: Options,
    on_progress: Progress | None,
) -> dict[str, Any]:
    row = table_of([info], TABLES["rank_info"].arrow)
    save_table(row, "rank_info", target)
    identity: dict[str, Any] = {}

    def prepare(connection: duckdb.DuckDBPyConnection) -> Prepared:
        has_rows = open_raw(connection, target)
        find_processes(connection)
        identity.update(identity_of(connection, info["file"], info))
        return Prepared(row, json.loads(info["metadata"]), has_rows)

    def report(what: str, share: float) -> None:
        if on_progress:
            on_progress(what, share)

    with lent_database(target / "spill") as lent:
        threads = threads_for(info["event_count"], processors())
        entry = annotate_folder(lent, part["path"], target, prepare, threads, report, options)
    fields = {name: part[name] for name in ("path", "bytes", "digest") if name in part}
    return {"rank": rank, **entry, **fields, "identity": identity}


def _info(root: Path) -> dict[str, Any]:
    (row,) = pq.read_table(root / "rank_info.parquet").to_pylist()
    return dict(row)


def _span(events: pl.DataFrame) -> dict[str, int | None]:
    """Return the first start and last end of the events, without the profiler's own track."""
    timed_events = events.filter(pl.col("dur_ns").is_not_null(), pl.col("category").fill_null("") != "trace")
    return {"start_ns": timed_events["start_ns"].min(), "end_ns": timed_events["end_ns"].max()}  # type: ignore[dict-item]


def _read(root: Path, name: str) -> pl.DataFrame:
    return pl.read_parquet(root / f"{name}.parquet", hive_partitioning=False, glob=False)


def _write(name: str, rows: pl.DataFrame, target: Path) -> None:
    writer = TableWriter(name, target)
    writer.write(rows.to_arrow())
    writer.finish()
