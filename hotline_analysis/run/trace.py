"""An annotated run, open for queries."""

from __future__ import annotations

import copy
import re
import shutil
import threading
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import duckdb
import polars as pl

from hotline_analysis import catalog
from hotline_analysis.atomic import begin, begin_folder, check_name, end, path_of, remove, replace_folder
from hotline_analysis.database import SETTINGS, install_macros, make_table_of, rows_of, threads_for
from hotline_analysis.errors import HotlineError, RunFormatError
from hotline_analysis.run.connections import Connections
from hotline_analysis.run.failures import as_hotline_error, damage_told
from hotline_analysis.run.kept import KeptAnswers
from hotline_analysis.run.scope import check_scope
from hotline_analysis.run.some_ranks import groups_of_ranks, show_some
from hotline_analysis.run.stored import Size, most_bytes, read_manifest, run_of_rank, table_files
from hotline_analysis.schema import TABLES

_SHOWN = 16  # ranks shown in a notebook
# Every writing statement contains one of these words. A full parse takes longer than most of our own queries.
_WRITES = re.compile("copy|insert|update|delete|merge|truncate|create|into", re.IGNORECASE)
_WORD = re.compile(r"\w+")
_WIDE = re.compile(r"\bU?HUGEINT\b")  # integers of 128 bits

# Share of the machine's memory for a trace's database before it spills to disk. `diff` opens two databases.
_MEMORY_LIMIT = "40%"
# Views of a collective with all of its ranks, whichever rank is queried.
_OF_ALL_RANKS = ("collective_match", "collective_wait")
_SPILL_SHARE = 4  # one part in this many of the free disk space

# Tables with smaller files are kept in memory, because reading the files for every query takes longer than the answer.
# With an eighth of this size, single queries take no less time, and the report of a stored run of 40,000 events takes a
# tenth more.
_SMALL_BYTES = 1 << 20
# A small file can hold a very large table if all values are equal.
_SMALL_ROWS = 200_000
_SMALL_TEXT = 1 << 26

_KEPT_RANKS = 4  # databases of single ranks that stay open
_MANY_RANKS = 16  # with more ranks, a query over all ranks may exceed the usual limit of open files
_OPEN_FILES = 1 << 16

# Maximum number of events in a run for the faster query path. Up to this number, planning a statement twice takes
# longer than copying the rows once more, at 0.4 kB per row of the widest answer.
_FEW_EVENTS = 250_000
INTERRUPT_AGAIN_S = 0.05


class Trace:
    """The annotated trace of one or more ranks, read from a run directory, or from several with different ranks.

    Open a trace with `hotline_analysis.load`. Every answer is a `polars.DataFrame`. Statements run in a separate
    database that can read only the files of this run. The trace is safe to use from several threads. To close the
    trace, use it as a context manager or let it go out of scope. Closing also deletes `temporary`, a folder created
    only for this run. With `rank` (or several ranks in `only`), the trace behaves as if the run had no other ranks, and
    opens none of their files.
    """

    def __init__(
        self,
        path: Path,
        *more: Path,
        temporary: Path | None = None,
        rank: int | None = None,
        only: Collection[int] | None = None,
    ) -> None:
        self.path = path  # with several paths, the first
        self._rank_folders: dict[int, Path] = {}
        self._joined: dict[Path, Mapping[str, list[int]]] = {}
        self.manifest: Mapping[str, Any] = self._read_manifests((path, *more))
        only = [rank] if rank is not None else only
        if only is not None:  # ignore all other ranks
            self._rank_folders = {number: self._rank_folders[number] for number in only}
            parts = [part for part in self.manifest["parts"] if part["rank"] in self._rank_folders]
            self.manifest = {**self.manifest, "parts": parts}
        self._is_part = only is not None
        self._of_ranks: dict[int, Trace] = {}
        self._few: weakref.WeakSet[Trace] = weakref.WeakSet()  # open traces of some ranks
        if len(self.ranks) > _MANY_RANKS:
            _allow_open_files()
        # In rank order, because the order of rows follows the order of files.
        self._runs = list(dict.fromkeys(self._rank_folders[rank] for rank in self.ranks))
        # Spill to a folder readable only by this user, not to the working directory.
        spill, undo = begin_folder(temporary)
        if temporary is not None:  # the spill folder is inside the temporary folder
            end(undo)
            undo = begin(lambda: remove(temporary))
        first = duckdb.connect(
            config={
                **SETTINGS,
                "threads": threads_for(self._event_count),
                "memory_limit": _MEMORY_LIMIT,
                # In a file of many ranks, reading the metadata takes longer than reading one rank.
                "parquet_metadata_cache": True,
                "temp_directory": str(spill),
                "max_temp_directory_size": f"{shutil.disk_usage(spill).free // _SPILL_SHARE}B",
            }
        )
        self._connections = Connections(first)
        self._close = weakref.finalize(self, _release, self._connections, undo)
        self._known: set[str] = set()
        self._providing = threading.RLock()  # held while tables are made, by one thread at a time
        self._lock = threading.Lock()  # guards the traces of some ranks
        self._kept = KeptAnswers()
        # Cache for other modules, by type. Values may refer to the trace, and are released with it.
        self.memo: dict[type, dict[Any, Any]] = {}
        # The database also matches patterns against this list, so each folder is listed both plain and escaped.
        folders = [str(run.resolve()) for run in self._runs]
        allowed = folders + list(map(_glob_escape, folders))
        first.execute(f"set allowed_directories = [{', '.join(map(_quote, allowed))}]")
        first.execute("set enable_external_access = false")
        # If Python runs no script file, the progress bar would go to standard output, between the answers. A notebook
        # without ipywidgets has no bar, and the database refuses even to switch it off.
        if first.execute("select current_setting('enable_progress_bar')").fetchall() == [(True,)]:
            first.execute("set enable_progress_bar = false")
        first.execute("set lock_configuration = true")

    @property
    def _connection(self) -> duckdb.DuckDBPyConnection:
        return self._connections.mine

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
            "processes": [process for content in manifests for process in content["processes"]],
        }

    def _damaged(self, error: object) -> RunFormatError:
        folders = " or ".join(map(str, self._runs))
        return RunFormatError(f"{folders} is damaged: {error}", hint="Import the traces again.")

    def _provide(self, statement: str) -> None:
        """Create the macros and tables used by a statement.

        Opening all tables takes longer than most answers. If the statement names no table (`show tables`), create all
        of them.
        """
        words = set(_WORD.findall(statement.lower()))
        with self._providing:
            self._install_macros([statement])
            for name in [name for name in TABLES if name in words] or list(TABLES):
                if name in self._known:
                    continue
                self._known.add(name)
                try:
                    self._make(name)
                except BaseException as error:
                    self._known.discard(name)  # perhaps only interrupted
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
        self._provide(" ".join(query.tables))
        for step in (*query.steps, query):
            self._install_macros([step.sql])
            kind = "table" if step.is_kept else "view"
            statement = f"create or replace {kind} {step.name} as {step.sql}"
            self._connection.execute(catalog.parsed(self._connection, statement))

    def _install_macros(self, statements: Sequence[str]) -> None:
        with self._providing:
            self._known.update(install_macros(self._connection, statements, self._known))

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
            ranks = ", ".join(map(str, self.ranks)) if self._is_part else ""
            where = f" where rank in ({ranks})" if ranks else ""
            sources.append(f"select rank, {names} from read_parquet([{files}], hive_partitioning = false){where}")  # noqa: S608
        source = " union all ".join(sources)
        is_small = size.file_bytes < _SMALL_BYTES and size.rows < _SMALL_ROWS
        if size.text_bytes > (_SMALL_TEXT if is_small else most_bytes(size.file_bytes)):
            is_small &= self._text_bytes(name, source, size) < _SMALL_TEXT
        if name == "name_info":
            self._check_names(source)
        kind = "table" if is_small else "view"
        self._connection.execute(f"create {kind} {name} as {source}")

    def _text_bytes(self, name: str, source: str, size: Size) -> int:
        """Total length of the texts of a table in bytes; raises `RunFormatError` if it is implausibly large."""
        columns = [column.name for column in TABLES[name].columns if column.type in ("VARCHAR", "JSON")]
        texts = [f'sum(strlen("{column}"))' for column in columns]
        lengths = self._connection.execute(f"select {', '.join(texts)} from ({source})").fetchall()[0]  # noqa: S608
        total = sum(map(int, filter(None, lengths)))
        if total > most_bytes(size.file_bytes):
            raise self._damaged(
                f"the texts of {name} would unpack to {total:,} bytes, which no table of {size.file_bytes:,} bytes does"
            )
        return total

    def _check_names(self, source: str) -> None:
        """Raise `RunFormatError` if a name has two rows: joins would duplicate all events of that name."""
        twice = f"select 1 from ({source}) group by rank, category, name having count(*) > 1 limit 1"  # noqa: S608
        if self._connection.execute(twice).fetchall():
            raise self._damaged("two rows of name_info have the same category and name")

    # --- queries -------------------------------------------------------------------------------------------------

    def sql(self, query: str, **parameters: object) -> pl.DataFrame:
        """Run one SQL statement (DuckDB's dialect) on the tables of the run. `$name` is a parameter.

        `hotline schema` lists the tables and views. The statement can read only this run and cannot write. Raises
        `HotlineError` for an invalid statement, or for more than a single SELECT.
        """
        with as_hotline_error():
            self._refuse_all_but_select(query)
            # The database does not accept numpy scalars, such as values of a pandas column.
            values = {name: value.item() if hasattr(value, "item") else value for name, value in parameters.items()}
            return self._run(query, query, values)

    def _refuse_all_but_select(self, query: str) -> None:
        kinds = [statement.type for statement in self._connection.extract_statements(query)]
        if kinds == [duckdb.StatementType.SELECT] and not _WRITES.search(query):
            return
        tree = self._connection.execute("select json_serialize_sql(?)", [query]).fetchall()[0][0]
        # A COPY or INSERT can hide in a WITH clause. In the tree, quotes inside the query's own texts are escaped.
        if (
            kinds != [duckdb.StatementType.SELECT]
            or tree.startswith('{"error":true')
            or re.search(r'"type":"(COPY|INSERT|UPDATE|DELETE|MERGE)\w*_QUERY_NODE"', tree)
        ):
            raise HotlineError(
                "only a single SELECT statement can be run here",
                hint="Traces are read-only; write the returned frame with polars, or use export.",
            )

    def _run(self, text: str, query: str | duckdb.Statement, parameters: Mapping[str, object]) -> pl.DataFrame:
        self._provide(text)
        relation = self._connection.sql(query, params=parameters) if parameters else self._connection.sql(query)
        kinds = [str(kind) for kind in relation.types]
        if any(map(_WIDE.search, kinds)):
            # A frame holds 38 digits. Without the cast, a longer number would silently change.
            relation = relation.project(
                ", ".join(
                    f"#{number}::{_WIDE.sub('decimal(38, 0)', kind)} as {_quote_name(name)}"
                    for number, (name, kind) in enumerate(zip(relation.columns, kinds, strict=True), start=1)
                )
            )
        return _narrow(relation.pl())

    @contextmanager
    def at_most(self, seconds: float) -> Iterator[None]:
        """Stop the running statement (`sql`) after the given number of seconds, with a `HotlineError`."""
        is_over = threading.Event()
        connection = self._connection

        def stop() -> None:
            # The database ignores an interrupt before a statement runs, so a single interrupt is not enough.
            wait = seconds
            while not is_over.wait(wait):
                connection.interrupt()
                wait = INTERRUPT_AGAIN_S

        stopper = threading.Thread(target=stop, daemon=True)
        stopper.start()
        try:
            yield
        finally:
            is_over.set()
            stopper.join()  # otherwise it could stop the next statement

    def interrupt(self) -> None:
        """Stop all running statements from all threads. Each statement ends with a `HotlineError`."""
        with self._lock:
            traces = [self, *self._of_ranks.values(), *self._few]
        for trace in traces:
            trace._connections.interrupt()

    def query(self, name: str, **parameters: object) -> pl.DataFrame:
        """Run a query of this package by name; see `hotline queries` for the list.

        Missing parameters take the defaults of the query's header. Raises `QueryNotFoundError` and
        `QueryParameterError`, also for a rank, device, step or module missing from the trace.
        """
        query = catalog.asked_of_a_run(name)
        bound = query.bind(**parameters)
        check_scope(self, bound, of_memory="memory_change" in query.tables)
        return self._answer(query, bound)

    def _answer(self, query: catalog.Query, bound: Mapping[str, object]) -> pl.DataFrame:
        """Run a query with all parameters bound, or return the cached result. A run never changes."""
        key = (query.name, *(value if value is None else (type(value), value) for value in bound.values()))
        return self._kept.get(key, lambda: self._ask(query, bound))

    def _ask(self, query: catalog.Query, bound: Mapping[str, object]) -> pl.DataFrame:
        """Run a query after its steps."""
        rank = bound.get("rank")
        if len(self.ranks) == 1:
            return self._run_all(query, bound)
        if not isinstance(rank, int):
            groups = groups_of_ranks(self.manifest["parts"]) if catalog.goes_rank_by_rank(query.name) else []
            return self._run_by_groups(query, bound, groups) if len(groups) > 1 else self._run_all(query, bound)
        if not catalog.compares_ranks(query.name):
            return self._of(rank)._run_all(query, bound)
        with self._beside(rank) as subset:
            return subset._run_all(query, bound)

    @contextmanager
    def _beside(self, rank: int) -> Iterator[Trace]:
        """A trace with the collectives of all ranks, and otherwise only a rank and the ranks compared with it.

        If this would include most ranks, the trace itself is returned.
        """
        with as_hotline_error():
            tables = {name: self._run(name, f"from {name}", {}) for name in _OF_ALL_RANKS}
            early_ranks = self._run(
                "late_pair", "select distinct early_rank from late_pair where rank = $rank", {"rank": rank}
            )
        ranks = sorted({rank, *early_ranks["early_rank"].to_list()})
        if 2 * len(ranks) > len(self.ranks) or not self._close.alive:
            yield self
            return
        paths = dict.fromkeys(self._rank_folders[number] for number in ranks)
        with Trace(*paths, only=ranks) as subset:
            with self._lock:
                self._few.add(subset)
            with as_hotline_error():
                for name, rows in tables.items():
                    subset._connection.register("matched", rows.to_arrow())
                    subset._connection.execute(f"create temp table {name} as from matched")
                    subset._connection.unregister("matched")
                    subset._known.add(name)
            yield subset

    def _run_all(self, query: catalog.Query, bound: Mapping[str, object]) -> pl.DataFrame:
        """Run a query over all ranks of this trace."""
        with as_hotline_error():
            self._provide(_needed(query))
            if not query.steps:
                return self._run_here(query, bound)
            # Use a separate connection, so the steps are private and are dropped with the connection.
            with self._apart() as other:
                return other._run_here(query, bound)

    def _run_by_groups(
        self, query: catalog.Query, bound: Mapping[str, object], groups: Sequence[tuple[int, int]]
    ) -> pl.DataFrame:
        """Run a query that goes rank by rank over one group of ranks after the other."""
        frames = []
        with as_hotline_error():
            self._provide(_needed(query))
            for first, last in groups:
                with self._apart() as other:
                    show_some(other._connection, query.tables, first, last)
                    frames.append(other._run_here(query, bound))
        return pl.concat(frames, how="vertical_relaxed")

    def _run_here(self, query: catalog.Query, bound: Mapping[str, object]) -> pl.DataFrame:
        """Run a query after its steps over existing tables. The steps stay in the connection."""
        self._install_macros([*(step.sql for step in query.steps), query.sql])
        for step in query.steps:
            make_table_of(self._connection, step, step.name, {name: bound[name] for name in step.takes})
        values = {name: bound[name] for name in query.uses} if query.steps else bound
        return self._run_shipped(_needed(query), catalog.parsed(self._connection, query.sql), values)

    def _run_shipped(self, text: str, query: duckdb.Statement, parameters: Mapping[str, object]) -> pl.DataFrame:
        """Run a query of this package, whose header guarantees column names and types supported by frames.

        A relation plans twice, for the types and for the rows. Without a relation, the rows are copied once more, which
        is faster for few events.
        """
        if self._event_count > _FEW_EVENTS:
            return self._run(text, query, parameters)
        self._provide(text)
        self._connection.execute(query, dict(parameters) if parameters else None)
        return pl.DataFrame(rows_of(self._connection))

    @contextmanager
    def of_step(self, views: Sequence[str], rank: int, step: int | None) -> Iterator[Trace]:
        """A trace with some views as in-memory tables of one step of a rank, for repeated queries about the step.

        The connection is separate, so the tables are private and are dropped with the connection.
        """
        with self._of(rank)._apart() as other:
            with as_hotline_error():
                for name in views:
                    other._provide(name)
                    other._connection.execute(
                        f"create temp table {name} as from main.{name} where rank = $rank"
                        " and step is not distinct from $step",
                        {"rank": rank, "step": step},
                    )
            yield other

    def of(self, rank: int | None) -> Trace:
        """The trace of one rank, or this trace for `None`. The returned trace is closed with this trace."""
        return self if rank is None else self._of(int(rank))

    def _of(self, rank: int) -> Trace:
        """The trace of one rank, which opens no file of another rank. The last few are cached."""
        if len(self.ranks) == 1 or rank not in self._rank_folders or not self._close.alive:
            return self
        with self._lock:
            trace = self._of_ranks.pop(rank, None) or Trace(self._rank_folders[rank], rank=rank)
            self._of_ranks[rank] = trace
            if len(self._of_ranks) > _KEPT_RANKS:  # closes when no other thread uses it
                self._of_ranks.pop(next(iter(self._of_ranks))).memo.clear()
        return trace

    @contextmanager
    def _apart(self) -> Iterator[Trace]:
        """A copy of this trace with another connection, which is closed afterwards."""
        other = copy.copy(self)
        other._connections = self._connections.apart()
        other._kept, other.memo = KeptAnswers(), {}  # its tables may differ
        try:
            yield other
        finally:
            other._connections.close_mine()

    def table(self, name: str) -> pl.DataFrame:
        """Return a whole table or view, such as `annotated_event`. Prefer `sql` for large traces."""
        if name not in TABLES:
            raise HotlineError(f"there is no table {name!r}", hint=f"The tables are {', '.join(TABLES)}.")
        return self.sql(f"from {name}")

    @contextmanager
    def batches(self, name: str) -> Iterator[Any]:
        """A whole table or view as a `pyarrow.RecordBatchReader`, for tables larger than memory."""
        self._provide(name)
        with damage_told():
            yield self._connection.sql(f"from {name}").to_arrow_reader(100_000)

    @property
    def ranks(self) -> list[int]:
        """The ranks of this run, ascending."""
        return sorted(part["rank"] for part in self.manifest["parts"])

    @property
    def _event_count(self) -> int:
        return sum(part["event_count"] for part in self.manifest["parts"])

    @property
    def _name(self) -> str:
        more = len(self._runs) - 1
        return self.path.name + (f" and {more} more" if more else "")

    # --- export and life cycle -------------------------------------------------------------------------------------

    def export(self, folder: str | Path, *, overwrite: bool = False) -> Path:
        """Write every table as a Parquet file into a folder, for dashboards: `annotated_event.parquet` and so on.

        The folder is written atomically. Raises `ExportExistsError` if the folder exists and `overwrite` is false.
        """
        target = path_of(folder)

        def write(partial: Path) -> None:
            for name in TABLES:
                with self.batches(name) as reader:
                    _write_parquet(reader, partial / f"{name}.parquet")

        return replace_folder(target, write, overwrite=overwrite)

    def close(self) -> None:
        """Close the database, and delete a temporary run."""
        for trace in self._of_ranks.values():
            trace.close()
        self.memo.clear()
        self._close()

    def __enter__(self) -> Trace:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        ranks = self.ranks
        ranks_text = f"rank {ranks[0]}" if len(ranks) == 1 else f"{len(ranks)} ranks"
        events = self._event_count
        return f"<Trace {self._name}: {ranks_text}, {events:,} events>"

    def _repr_html_(self) -> str:
        from hotline_analysis.text.html import Cell, Table, render

        parts = self.manifest["parts"]
        files = Table(
            heads=[Cell("rank"), Cell("file", is_text=True), Cell("events")],
            rows=[
                [
                    Cell(str(part["rank"]), names_row=True),
                    Cell(str(part["file"]), is_text=True),
                    Cell(f"{part['event_count']:,}"),
                ]
                for part in parts[:_SHOWN]
            ],
            more=f"and {len(parts) - _SHOWN} more ranks" if len(parts) > _SHOWN else "",
        )
        return str(render("notebook_trace.html", name=self._name, files=files))


def _allow_open_files() -> None:
    """Raise this process's limit of open files, at most to the hard limit. The usual limit of 1,024 is for `select`."""
    with suppress(ImportError, ValueError, OSError):
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        limit = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, _OPEN_FILES)
        if soft != resource.RLIM_INFINITY and soft < limit:
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))


def _needed(query: catalog.Query) -> str:
    """The tables read by a query. Its words are ambiguous: `step` is also a column, and `op` a cause."""
    return " ".join(query.tables) or query.sql


def _narrow(frame: pl.DataFrame) -> pl.DataFrame:
    """Convert 128-bit sums, which frames represent as decimals, to 64-bit integers where the values fit."""
    for name, kind in frame.schema.items():
        if isinstance(kind, pl.Decimal) and kind.scale == 0:
            integers = frame[name].cast(pl.Int64, strict=False)
            if integers.null_count() == frame[name].null_count():
                frame = frame.with_columns(integers)
    return frame


def _quote(text: str) -> str:
    """A text as an SQL literal."""
    return "'" + text.replace("'", "''") + "'"


def _quote_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _release(connections: Connections, undo: Callable[[], object]) -> None:
    connections.close()
    undo()
    end(undo)


def _write_parquet(reader: Any, path: Path) -> None:
    import pyarrow.parquet as pq

    with pq.ParquetWriter(path, reader.schema, compression="zstd") as writer:
        for batch in reader:
            writer.write_batch(batch)


def _glob_escape(name: str) -> str:
    return re.sub(r"([*?\[])", r"[\1]", name)
