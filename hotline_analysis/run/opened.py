"""The database of an open run: its tables, created when a statement first uses them, and its queries."""

from __future__ import annotations

import copy
import re
import shutil
import threading
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import duckdb
import polars as pl

from hotline_analysis import catalog
from hotline_analysis.atomic import begin, begin_folder, check_name, end, remove
from hotline_analysis.database import SETTINGS, install_macros, make_table_of, threads_for
from hotline_analysis.errors import RunFormatError
from hotline_analysis.run.connections import Connections
from hotline_analysis.run.failures import as_hotline_error
from hotline_analysis.run.frames import fetched, frame_of
from hotline_analysis.run.stored import Size, most_bytes, read_manifest, run_of_rank, table_files
from hotline_analysis.schema import TABLES

_WORD = re.compile(r"\w+")

# Share of the machine's memory for a trace's database before it spills to disk. `diff` opens two databases.
_MEMORY_LIMIT = "40%"
_SPILL_SHARE = 4  # one part in this many of the free disk space

# Tables with smaller files are kept in memory, because reading the files for every query takes longer than the answer.
# With an eighth of this size, single queries take no less time, and the report of a stored run of 40,000 events takes a
# tenth more.
_SMALL_BYTES = 1 << 20
# A small file can hold a very large table if all values are equal.
_SMALL_ROWS = 200_000
_SMALL_TEXT = 1 << 26

_MANY_RANKS = 16  # with more ranks, a query over all ranks may exceed the usual limit of open files
_OPEN_FILES = 1 << 16

# Maximum number of events in a run for the faster query path. Up to this number, planning a statement twice takes
# longer than copying the rows once more, at 0.4 kB per row of the widest answer.
_FEW_EVENTS = 250_000


class OpenRun:
    """A run directory, or several with different ranks, open for statements from several threads.

    With ranks in `only`, the run behaves as if it had no other ranks, and opens none of their files. The database can
    read only the files of this run. `close` also deletes `temporary`, a folder created only for this run.
    """

    def __init__(
        self, paths: Sequence[Path], *, temporary: Path | None = None, only: Collection[int] | None = None
    ) -> None:
        self.path = paths[0]
        self._rank_folders: dict[int, Path] = {}
        self._joined: dict[Path, Mapping[str, list[int]]] = {}
        self.manifest: Mapping[str, Any] = self._read_manifests(paths)
        if only is not None:  # ignore all other ranks
            self._rank_folders = {number: self._rank_folders[number] for number in only}
            parts = [part for part in self.manifest["parts"] if part["rank"] in self._rank_folders]
            self.manifest = {**self.manifest, "parts": parts}
        self._is_subset = only is not None
        self._subsets: weakref.WeakSet[OpenRun] = weakref.WeakSet()
        self._lock = threading.Lock()  # guards the set of subsets
        if len(self.ranks) > _MANY_RANKS:
            _allow_open_files()
        # In rank order, because the order of rows follows the order of files.
        self.folders = list(dict.fromkeys(self._rank_folders[rank] for rank in self.ranks))
        # Spill to a folder readable only by this user, not to the working directory.
        spill, undo = begin_folder(temporary)
        if temporary is not None:  # the spill folder is inside the temporary folder
            end(undo)
            undo = begin(lambda: remove(temporary))
        first = duckdb.connect(
            config={
                **SETTINGS,
                "threads": threads_for(self.event_count),
                "memory_limit": _MEMORY_LIMIT,
                # In a file of many ranks, reading the metadata takes longer than reading one rank.
                "parquet_metadata_cache": True,
                "temp_directory": str(spill),
                "max_temp_directory_size": f"{shutil.disk_usage(spill).free // _SPILL_SHARE}B",
            }
        )
        self._connections = Connections(first)
        self._close = weakref.finalize(self, _release, self._connections, undo)
        self.known: set[str] = set()  # existing tables and macros
        self._providing = threading.RLock()  # held while tables are made, by one thread at a time
        # The database also matches patterns against this list, so each folder is listed both plain and escaped.
        folders = [str(run.resolve()) for run in self.folders]
        allowed = folders + list(map(_glob_escape, folders))
        first.execute(f"set allowed_directories = [{', '.join(map(_quote, allowed))}]")
        first.execute("set enable_external_access = false")
        # If Python runs no script file, the progress bar would go to standard output, between the answers. A notebook
        # without ipywidgets has no bar, and the database refuses even to switch it off.
        if first.execute("select current_setting('enable_progress_bar')").fetchall() == [(True,)]:
            first.execute("set enable_progress_bar = false")
        first.execute("set lock_configuration = true")

    @property
    def connection(self) -> duckdb.DuckDBPyConnection:
        """The connection of the calling thread."""
        return self._connections.mine

    @property
    def ranks(self) -> list[int]:
        """The ranks, ascending."""
        return sorted(part["rank"] for part in self.manifest["parts"])

    @property
    def event_count(self) -> int:
        """The number of events of all ranks."""
        return sum(part["event_count"] for part in self.manifest["parts"])

    @property
    def is_open(self) -> bool:
        """Whether the database is open."""
        return self._close.alive

    def _read_manifests(self, runs: Sequence[Path]) -> Mapping[str, Any]:
        """The manifest of the run, or the merged manifest of several runs."""
        manifests = []
        for run in runs:
            check_name(run)
            manifests.append(read_manifest(run))
        self._rank_folders.update(run_of_rank(runs, manifests))
        self._joined.update((run, manifest["joined"]) for run, manifest in zip(runs, manifests, strict=True))
        if len(manifests) == 1:
            return manifests[0]
        return {
            **manifests[0],
            "parts": sorted(
                (part for content in manifests for part in content["parts"]), key=lambda part: part["rank"]
            ),
            "warnings": [text for content in manifests for text in content["warnings"]],
            # Runs annotated by different rules have no common digest.
            "annotated_by": "".join({content["annotated_by"] for content in manifests}),
            "processes": [process for content in manifests for process in content["processes"]],
        }

    def _damaged(self, error: object) -> RunFormatError:
        folders = " or ".join(map(str, self.folders))
        return RunFormatError(f"{folders} is damaged: {error}", hint="Import the traces again.")

    # --- tables ----------------------------------------------------------------------------------------------------

    def provide(self, statement: str) -> None:
        """Create the macros and tables used by a statement.

        Opening all tables takes longer than most answers. If the statement names no table (`show tables`), create all
        of them.
        """
        words = set(_WORD.findall(statement.lower()))
        with self._providing:
            self._install_macros([statement])
            for name in [name for name in TABLES if name in words] or list(TABLES):
                if name in self.known:
                    continue
                self.known.add(name)
                try:
                    self._make(name)
                except BaseException as error:
                    self.known.discard(name)  # perhaps only interrupted
                    told_as_it_is = duckdb.ConnectionException | duckdb.InterruptException
                    if not isinstance(error, duckdb.Error) or isinstance(error, told_as_it_is):
                        raise
                    raise self._damaged(str(error).partition("\n")[0]) from error

    def _make(self, name: str) -> None:
        if TABLES[name].kind != "view":
            self._create(name, [column.name for column in TABLES[name].columns])
            return
        query = catalog.get(name)
        # Use the parsed table names, not all words: a comment may name a view built on this view.
        self.provide(" ".join(query.tables))
        for step in (*query.steps, query):
            self._install_macros([step.sql])
            kind = "table" if step.is_kept else "view"
            statement = f"create or replace {kind} {step.name} as {step.sql}"
            self.connection.execute(catalog.parsed(self.connection, statement))

    def _install_macros(self, statements: Sequence[str]) -> None:
        with self._providing:
            self.known.update(install_macros(self.connection, statements, self.known))

    def _create(self, name: str, columns: Sequence[str]) -> None:
        # Table and columns come from the schema. Only the path is foreign, with glob characters escaped. The database's
        # Hive partitioning is off because it would read `lr=0.1/` anywhere in the path as a column.
        stored_files = table_files(TABLES[name], self._rank_folders, self._joined)
        size = stored_files.size
        names = ", ".join(f'"{column}"' for column in columns)
        sources = []
        if stored_files.own:
            rank = "regexp_extract(filename, 'rank=(\\d+)[/\\\\]data.parquet$', 1)::bigint"
            files = ", ".join(_quote(_glob_escape(file)) for file in stored_files.own)
            sources.append(
                f"select {rank} as rank, {names} from"  # noqa: S608
                f" read_parquet([{files}], hive_partitioning = false, filename = true)"
            )
        if stored_files.shared:
            files = ", ".join(_quote(_glob_escape(file)) for file in stored_files.shared)
            ranks = ", ".join(map(str, self.ranks)) if self._is_subset else ""
            where = f" where rank in ({ranks})" if ranks else ""
            sources.append(f"select rank, {names} from read_parquet([{files}], hive_partitioning = false){where}")  # noqa: S608
        source = " union all ".join(sources)
        is_small = size.file_bytes < _SMALL_BYTES and size.rows < _SMALL_ROWS
        if size.text_bytes > (_SMALL_TEXT if is_small else most_bytes(size.file_bytes)):
            is_small &= self._text_bytes(name, source, size) < _SMALL_TEXT
        if name == "name_info":
            self._check_names(source)
        kind = "table" if is_small else "view"
        self.connection.execute(f"create {kind} {name} as {source}")

    def use_table(self, name: str, rows: pl.DataFrame) -> None:
        """Use these rows as a table, in the connection of the calling thread."""
        self.connection.register("given", rows.to_arrow())
        self.connection.execute(f"create temp table {name} as from given")
        self.connection.unregister("given")
        self.known.add(name)

    def _text_bytes(self, name: str, source: str, size: Size) -> int:
        """Total length of the texts of a table in bytes; raises `RunFormatError` if it is implausibly large."""
        columns = [column.name for column in TABLES[name].columns if column.type in ("VARCHAR", "JSON")]
        texts = [f'sum(strlen("{column}"))' for column in columns]
        lengths = self.connection.execute(f"select {', '.join(texts)} from ({source})").fetchall()[0]  # noqa: S608
        total = sum(map(int, filter(None, lengths)))
        if total > most_bytes(size.file_bytes):
            raise self._damaged(
                f"the texts of {name} would unpack to {total:,} bytes, which no table of {size.file_bytes:,} bytes does"
            )
        return total

    def _check_names(self, source: str) -> None:
        """Raise `RunFormatError` if a name has two rows: joins would duplicate all events of that name."""
        twice = f"select 1 from ({source}) group by rank, category, name having count(*) > 1 limit 1"  # noqa: S608
        if self.connection.execute(twice).fetchall():
            raise self._damaged("two rows of name_info have the same category and name")

    # --- queries ---------------------------------------------------------------------------------------------------

    def select(self, text: str, query: str | duckdb.Statement, parameters: Mapping[str, object]) -> pl.DataFrame:
        """Run a statement. `text` contains the names of its tables.

        A relation plans the statement twice, for the types and for the rows. For few events, this takes longer than
        fetching the rows through Python.
        """
        self.provide(text)
        if self.event_count <= _FEW_EVENTS and (frame := fetched(self.connection, query, parameters)) is not None:
            return frame
        relation = self.connection.sql(query, params=parameters) if parameters else self.connection.sql(query)
        return frame_of(relation)

    def answer(self, query: catalog.Query, bound: Mapping[str, object]) -> pl.DataFrame:
        """Run a query after its steps, over all ranks of this run."""
        with as_hotline_error():
            self.provide(needed(query))
            if not query.steps:
                return self.answer_here(query, bound)
            # Use a separate connection, so the steps are private and are dropped with the connection.
            with self.apart() as other:
                return other.answer_here(query, bound)

    def answer_here(self, query: catalog.Query, bound: Mapping[str, object]) -> pl.DataFrame:
        """Run a query after its steps over existing tables. The steps stay in the connection."""
        self._install_macros([*(step.sql for step in query.steps), query.sql])
        for step in query.steps:
            make_table_of(self.connection, step, step.name, {name: bound[name] for name in step.takes})
        values = {name: bound[name] for name in query.uses} if query.steps else bound
        return self.select(needed(query), catalog.parsed(self.connection, query.sql), values)

    # --- subsets and life cycle --------------------------------------------------------------------------------------

    def subset(self, ranks: Sequence[int]) -> OpenRun:
        """Open only some ranks, in another database. `interrupt` also stops the statements of the subset."""
        folders = dict.fromkeys(self._rank_folders[rank] for rank in ranks)
        subset = OpenRun([*folders], only=ranks)
        with self._lock:
            self._subsets.add(subset)
        return subset

    @contextmanager
    def apart(self) -> Iterator[OpenRun]:
        """The same database with another connection, which has private temporary tables and is closed afterwards."""
        other = copy.copy(self)
        other._connections = self._connections.apart()
        try:
            yield other
        finally:
            other._connections.close_mine()

    def interrupt(self) -> None:
        """Stop all running statements of this run and its subsets, from all threads."""
        with self._lock:
            runs = [self, *self._subsets]
        for run in runs:
            run._connections.interrupt()

    def close(self) -> None:
        """Close the database, and delete a temporary run."""
        self._close()


def needed(query: catalog.Query) -> str:
    """The tables read by a query. Its words are ambiguous: `step` is also a column, and `op` a cause."""
    return " ".join(query.tables) or query.sql


def _allow_open_files() -> None:
    """Raise this process's limit of open files, at most to the hard limit. The usual limit of 1,024 is for `select`."""
    with suppress(ImportError, ValueError, OSError):
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        limit = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, _OPEN_FILES)
        if soft != resource.RLIM_INFINITY and soft < limit:
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))


def _quote(text: str) -> str:
    """A text as an SQL literal."""
    return "'" + text.replace("'", "''") + "'"


def _release(connections: Connections, undo: Callable[[], object]) -> None:
    connections.close()
    undo()
    end(undo)


def _glob_escape(name: str) -> str:
    return re.sub(r"([*?\[])", r"[\1]", name)
