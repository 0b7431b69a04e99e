"""Annotate the tables of a file, using a database shared by the imports of a process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from hotline_analysis import catalog
from hotline_analysis.annotation.model_file import METADATA_KEY, Model, parse_model, read_model
from hotline_analysis.annotation.pipeline import annotate
from hotline_analysis.database import install_rules, macros_in, make_macros
from hotline_analysis.errors import HotlineError, MachineError, ModelMismatchError
from hotline_analysis.importer.options import Options
from hotline_analysis.importer.tables import save_derived
from hotline_analysis.kineto.reader import READER_SETTINGS

# Memory limits of the annotating database before it spills to disk. After an internal error of DuckDB, the second
# attempt gets more memory, because such errors were seen only while spilling.
_MEMORY_LIMITS = ("500MB", "80%")

# Manifest fields of each file, besides the rank.
_OF_PART = (
    *("file", "rank_source", "world_size", "event_count", "lost_event_count", "lost_bytes", "damage", "truncated"),
    *("start_ns", "end_ns", "tp", "pp", "dp", "ep"),
)


@dataclass
class Lent:
    """A connection to a database that is reused by the next import if still sound."""

    connection: duckdb.DuckDBPyConnection
    is_sound: bool = True


@dataclass(frozen=True)
class Prepared:
    """The tables of a file, as registered with the database."""

    row: pa.Table
    """The row of `rank_info`."""
    metadata: Mapping[str, Any]
    """The file's metadata, besides the events."""
    has_rows: Mapping[str, bool]
    """By table: whether the table has rows."""


@contextmanager
def lent_database(spill: Path) -> Iterator[Lent]:
    """Give a connection to a database that the imports of this process use in turns.

    The database reads and annotates one file after another, because starting a database takes as long as reading a
    small trace. Imports create only temporary objects, which disappear with the connection. A database is not reused
    after an error, or if the folder `spill` still exists.
    """
    with _LOCK:
        database = _KEPT.pop() if _KEPT else None
    database = database or _new_database()
    with ExitStack() as at_end:
        at_end.callback(database.close)
        with database.cursor() as connection:
            lent = Lent(connection)
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
    make_macros(database, macros_in(step.sql for query in queries for step in (*query.steps, query)))
    install_rules(database)
    return database


def annotate_folder(
    lent: Lent,
    called: str,
    folder: Path,
    prepare: Callable[[duckdb.DuckDBPyConnection], Prepared],
    threads: int,
    on_progress: Callable[[str, float], None],
    options: Options,
) -> dict[str, Any]:
    """Add the derived tables to the tables registered by `prepare`. Return the manifest entry, without the rank.

    The entry also has `notes` (warnings about the model) and `folder`. `called` is the file's name in errors. Raises
    `MachineError` if memory or disk run out.
    """

    def made_in(connection: duckdb.DuckDBPyConnection, memory: str) -> dict[str, Any]:
        spill = str(folder / "spill").replace("'", "''")
        connection.execute(f"set threads = {threads}; set memory_limit = '{memory}'; set temp_directory = '{spill}'")
        prepared = prepare(connection)
        connection.register("rank_info", prepared.row)
        (info,) = prepared.row.to_pylist()
        notes: list[str] = []
        annotate(
            connection,
            lambda share: on_progress(f"annotating {info['file']}", share),
            model=_model_of(info["file"], prepared.metadata, options.model, notes),
            own_work=options.op_work,
            on_note=lambda note: notes.append(f"{info['file']}: {note}"),
            has_rows=prepared.has_rows,
            on_done=lambda name, is_filled: save_derived(connection, name, folder, is_filled=is_filled),
        )
        return entry_of(info, folder, notes)

    try:
        try:
            return made_in(lent.connection, _MEMORY_LIMITS[0])
        except duckdb.InternalException:
            lent.is_sound = False
            with _new_database() as another:
                return made_in(another, _MEMORY_LIMITS[1])
    except duckdb.Error as error:
        message = str(error).partition("\n")[0]  # a stack trace may follow
        if isinstance(error, duckdb.IOException | duckdb.OutOfMemoryException):
            raise MachineError(
                f"{called} cannot be annotated: {message}", hint="Is there enough memory and disk?"
            ) from error
        is_defect = isinstance(error, duckdb.InternalException)
        hint = "This is a defect of DuckDB; please report it." if is_defect else None
        raise HotlineError(f"{called} cannot be annotated: {message}", hint=hint) from error


def entry_of(info: Mapping[str, Any], folder: Path, notes: Sequence[str] = ()) -> dict[str, Any]:
    """Return the manifest entry for a row of `rank_info`, without the rank."""
    return {**{name: info.get(name) for name in _OF_PART}, "folder": str(folder), "notes": list(notes)}


def _model_of(file: str, metadata: Mapping[str, Any], given: Path | None, notes: list[str]) -> Model | None:
    """Return the user's model, or else the model stored in the trace by a capture; None if there is no model."""
    if given is not None:
        return read_model(given)
    if METADATA_KEY not in metadata:
        return None
    try:
        return parse_model(metadata[METADATA_KEY], f"{METADATA_KEY} in {file}", stored=True)
    except ModelMismatchError as error:
        notes.append(error.message)
        return None
