"""What the annotation adds to the tables of a file, made by a database that the imports of a process share."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
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

# What the annotating database may use before it spills to disk. Where DuckDB fails by an error of its own, the second
# try has more, since such errors have been seen in what spills only.
_MEMORY_LIMITS = ("500MB", "80%")

# What the manifest says of each file, beside its rank.
_OF_PART = (
    *("file", "rank_source", "world_size", "event_count", "lost_event_count", "lost_bytes", "damage", "truncated"),
    *("start_ns", "end_ns"),
)


@dataclass
class Lent:
    """A connection to a database that is kept for the next import, if it is still sound then."""

    connection: duckdb.DuckDBPyConnection
    is_sound: bool = True


@dataclass(frozen=True)
class Prepared:
    """The tables of a file, when the database knows them."""

    row: pa.Table
    """The row of `rank_info`."""
    metadata: Mapping[str, Any]
    """What the file says beside its events."""
    has_rows: Mapping[str, bool]
    """Whether a table has rows."""


@contextmanager
def lent_database(spill: Path) -> Iterator[Lent]:
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
    make_macros(database, macros_in(each.sql for query in queries for each in (*query.steps, query)))
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
    """Add the derived tables to those that `prepare` makes known; return the entry of the manifest, but for the rank.

    The entry has `notes` beside, warnings about the model, and the `folder`. `called` is what errors call the file.
    Raises `MachineError` if memory or disk do not suffice.
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
        return {**{name: info[name] for name in _OF_PART}, "folder": str(folder), "notes": notes}

    try:
        try:
            return made_in(lent.connection, _MEMORY_LIMITS[0])
        except duckdb.InternalException:
            lent.is_sound = False
            with _new_database() as another:
                return made_in(another, _MEMORY_LIMITS[1])
    except duckdb.Error as error:
        what = str(error).partition("\n")[0]  # a stack trace may follow
        if isinstance(error, duckdb.IOException | duckdb.OutOfMemoryException):
            raise MachineError(
                f"{called} cannot be annotated: {what}", hint="Is there enough memory and disk?"
            ) from error
        is_defect = isinstance(error, duckdb.InternalException)
        hint = "This is a defect of DuckDB; please report it." if is_defect else None
        raise HotlineError(f"{called} cannot be annotated: {what}", hint=hint) from error


def _model_of(file: str, metadata: Mapping[str, Any], given: Path | None, notes: list[str]) -> Model | None:
    """The model that the user gives, else the one that a capture has stored in the trace."""
    if given is not None:
        return read_model(given)
    if METADATA_KEY not in metadata:
        return None
    try:
        return parse_model(metadata[METADATA_KEY], f"{METADATA_KEY} in {file}", stored=True)
    except ModelMismatchError as error:
        notes.append(error.message)
        return None
