"""An annotated run, open for questions."""

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

_SHOWN = 16  # ranks in a notebook
# Every statement that writes has one of these words; looking closer takes longer than most of our own queries.
_WRITES = re.compile("copy|insert|update|delete|merge|truncate|create|into", re.IGNORECASE)
_WORD = re.compile(r"\w+")
_WIDE = re.compile(r"\bU?HUGEINT\b")  # integers of 128 bits

# Of the machine's memory, what the database of one trace may use before it spills to disk: two can be open, for `diff`.
_MEMORY_LIMIT = "40%"
# Views of a collective and all of its ranks, whichever rank is asked about.
_OF_ALL_RANKS = ("collective_match", "collective_wait")
_SPILL_SHARE = 4  # of what is free on the disk, one part in so many

# A table whose files are smaller is kept in memory: to read them for every question takes longer than the answer. With
# an eighth of it, single questions take no less time, and the report of a stored run of 40,000 events a tenth more.
_SMALL_BYTES = 1 << 20
# A small file can hold very much, where all of it is the same.
_SMALL_ROWS = 200_000
_SMALL_TEXT = 1 << 26

_KEPT_RANKS = 4  # databases of single ranks that stay open
_MANY_RANKS = 16  # above it, a question about all ranks may open more files than a process usually may
_OPEN_FILES = 1 << 16

# Up to so many events in a run, planning a statement twice takes longer than copying its rows once more, which needs
# 0.4 kB for a row of the widest answer.
_FEW_EVENTS = 250_000
INTERRUPT_AGAIN_S = 0.05


class Trace:
    """The annotated trace of one or more ranks, read from a run directory, or from several with different ranks.

    Open one with `hotline_analysis.load`. Every answer is a `polars.DataFrame`. Statements run in a database of their
    own, which can read the files of this run and nothing else; several threads may ask at once. Use it as a context
    manager, or let it go out of scope, to close it; `temporary`, a folder that exists for this run alone, is deleted
    then. With `rank`, it is as if the run had no other one, and no file of another is opened; likewise with several
    `only`.
    """

    def __init__(
        self,
        path: Path,
        *more: Path,
        temporary: Path | None = None,
        rank: int | None = None,
        only: Collection[int] | None = None,
    ) -> None:
        self.path = path  # of several, that named first
        self._rank_folders: dict[int, Path] = {}
        self._joined: dict[Path, Mapping[str, list[int]]] = {}
        self.manifest: Mapping[str, Any] = self._read_manifests((path, *more))
        only = [rank] if rank is not None else only
        if only is not None:  # the others are as if they were not there
            self._rank_folders = {each: self._rank_folders[each] for each in only}
            parts = [part for part in self.manifest["parts"] if part["rank"] in self._rank_folders]
            self.manifest = {**self.manifest, "parts": parts}
        self._is_part = only is not None
        self._of_ranks: dict[int, Trace] = {}
        self._few: weakref.WeakSet[Trace] = weakref.WeakSet()  # open ones of some ranks
        if len(self.ranks) > _MANY_RANKS:
            _allow_open_files()
        # In the order of the ranks, as that of rows follows the order of files.
        self._runs = list(dict.fromkeys(self._rank_folders[rank] for rank in self.ranks))
        # What does not fit into memory goes to a folder that only this user can read, not to the working directory.
        spill, undo = begin_folder(temporary)
        if temporary is not None:  # which the other one is in
            end(undo)
            undo = begin(lambda: remove(temporary))
        first = duckdb.connect(
            config={
                **SETTINGS,
                "threads": threads_for(self._event_count),
                "memory_limit": _MEMORY_LIMIT,
                # Of a file of many ranks, to read what it says of its parts takes longer than to read one rank.
                "parquet_metadata_cache": True,
                "temp_directory": str(spill),
                "max_temp_directory_size": f"{shutil.disk_usage(spill).free // _SPILL_SHARE}B",
            }
        )
        self._connections = Connections(first)
        self._close = weakref.finalize(self, _release, self._connections, undo)
        self._known: set[str] = set()
        self._providing = threading.RLock()  # held while tables are made, by one thread at a time
        self._lock = threading.Lock()  # of the traces of some ranks
        self._kept = KeptAnswers()
        # What others made of this trace and may need again, by kind. It may refer to the trace, and goes with it.
        self.memo: dict[type, dict[Any, Any]] = {}
        # The database compares patterns with this list, too, so each folder stands in it in both spellings.
        places = [str(run.resolve()) for run in self._runs]
        allowed = places + list(map(_glob_escape, places))
        first.execute(f"set allowed_directories = [{', '.join(map(_quote, allowed))}]")
        first.execute("set enable_external_access = false")
        # Where Python runs no file, the bar would go to standard output, among the answers. A notebook without
        # ipywidgets has no bar, and there the database refuses even to switch the bar off.
        if first.execute("select current_setting('enable_progress_bar')").fetchall() == [(True,)]:
            first.execute("set enable_progress_bar = false")
        first.execute("set lock_configuration = true")

    @property
    def _connection(self) -> duckdb.DuckDBPyConnection:
        return self._connections.mine

    def _read_manifests(self, runs: Sequence[Path]) -> Mapping[str, Any]:
        """The manifest of the run; those of several as one."""
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
            "parts": sorted((part for each in manifests for part in each["parts"]), key=lambda part: part["rank"]),
            "warnings": [text for each in manifests for text in each["warnings"]],
        }

    def _damaged(self, error: object) -> RunFormatError:
        which = " or ".join(map(str, self._runs))
        return RunFormatError(f"{which} is damaged: {error}", hint="Import the traces again.")

    def _provide(self, statement: str) -> None:
        """Make the macros and tables that a statement names known to the database.

        To open all tables takes longer than most answers. A statement that names none, such as `show tables`, is
        perhaps about all.
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
        # Its words would not do: a comment may name a view that is made of this one.
        self._provide(" ".join(query.tables))
        for each in (*query.steps, query):
            self._install_macros([each.sql])
            kind = "table" if each.is_kept else "view"
            made = f"create or replace {kind} {each.name} as {each.sql}"
            self._connection.execute(catalog.parsed(self._connection, made))

    def _install_macros(self, statements: Sequence[str]) -> None:
        with self._providing:
            self._known.update(install_macros(self._connection, statements, self._known))

    def _create(self, name: str, columns: Sequence[str]) -> None:
        # The table and its columns come from the schema; only the path is foreign. Glob characters in it are escaped.
        # Hive partitioning is not left to the database, which would see `lr=0.1/` anywhere in the path as a column.
        found = table_files(TABLES[name], self._rank_folders, self._joined)
        size = found.size
        quoted = ", ".join(f'"{column}"' for column in columns)
        sources = []
        if found.own:
            rank = "regexp_extract(filename, 'rank=(\\d+)[/\\\\]data.parquet$', 1)::bigint"
            files = ", ".join(_quote(_glob_escape(file)) for file in found.own)
            sources.append(
                f"select {rank} as rank, {quoted} from"  # noqa: S608
                f" read_parquet([{files}], hive_partitioning = false, filename = true)"
            )
        if found.shared:
            files = ", ".join(_quote(_glob_escape(file)) for file in found.shared)
            ranks = ", ".join(map(str, self.ranks)) if self._is_part else ""
            only = f" where rank in ({ranks})" if ranks else ""
            sources.append(f"select rank, {quoted} from read_parquet([{files}], hive_partitioning = false){only}")  # noqa: S608
        source = " union all ".join(sources)
        is_small = size.file_bytes < _SMALL_BYTES and size.rows < _SMALL_ROWS
        if size.text_bytes > (_SMALL_TEXT if is_small else most_bytes(size.file_bytes)):
            is_small &= self._text_bytes(name, source, size) < _SMALL_TEXT
        if name == "name_info":
            self._check_names(source)
        kind = "table" if is_small else "view"
        self._connection.execute(f"create {kind} {name} as {source}")

    def _text_bytes(self, name: str, source: str, size: Size) -> int:
        """How long the texts of a table are together; `RunFormatError` if that is more than it can have."""
        columns = [column.name for column in TABLES[name].columns if column.type in ("VARCHAR", "JSON")]
        texts = [f'sum(strlen("{column}"))' for column in columns]
        found = self._connection.execute(f"select {', '.join(texts)} from ({source})").fetchall()[0]  # noqa: S608
        total = sum(map(int, filter(None, found)))
        if total > most_bytes(size.file_bytes):
            raise self._damaged(
                f"the texts of {name} would unpack to {total:,} bytes, which no table of {size.file_bytes:,} bytes does"
            )
        return total

    def _check_names(self, source: str) -> None:
        """Raise `RunFormatError` if what a name says is told twice: joins would double all events of that name."""
        twice = f"select 1 from ({source}) group by rank, category, name having count(*) > 1 limit 1"  # noqa: S608
        if self._connection.execute(twice).fetchall():
            raise self._damaged("two rows of name_info have the same category and name")

    # --- questions -----------------------------------------------------------------------------------------------

    def sql(self, query: str, **parameters: object) -> pl.DataFrame:
        """Run one SQL statement (DuckDB's dialect) on the tables of the run; `$name` stands for a parameter.

        `hotline schema` lists the tables and views. The statement can read this run and nothing else, and
        can write nothing. Raises `HotlineError` if it is wrong, or is more than a single SELECT.
        """
        with as_hotline_error():
            self._refuse_all_but_select(query)
            # The database does not know numpy's numbers, which a column of pandas has.
            plain = {name: value.item() if hasattr(value, "item") else value for name, value in parameters.items()}
            return self._run(query, query, plain)

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
            # A frame holds 38 digits. Without the cast, a number that has more would become another one.
            relation = relation.project(
                ", ".join(
                    f"#{place}::{_WIDE.sub('decimal(38, 0)', kind)} as {_quote_name(name)}"
                    for place, (name, kind) in enumerate(zip(relation.columns, kinds, strict=True), start=1)
                )
            )
        return _narrow(relation.pl())

    @contextmanager
    def at_most(self, seconds: float) -> Iterator[None]:
        """Stop the statement (`sql`) that runs after so many seconds; it ends in a `HotlineError` that says so."""
        is_over = threading.Event()
        connection = self._connection

        def stop() -> None:
            # The database forgets an interrupt that comes before a statement runs, so one is not enough.
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
            stopper.join()  # or it could stop the next statement

    def interrupt(self) -> None:
        """Stop the statements that run now, whoever asked; each ends in a `HotlineError`."""
        with self._lock:
            traces = [self, *self._of_ranks.values(), *self._few]
        for trace in traces:
            trace._connections.interrupt()

    def query(self, name: str, **parameters: object) -> pl.DataFrame:
        """Run a query that this package ships, by name; see `hotline queries` for the list.

        Parameters left out take the defaults of the query's header. Raises `QueryNotFoundError` and
        `QueryParameterError`, also for a rank, device, step or module that the trace does not have.
        """
        query = catalog.asked_of_a_run(name)
        bound = query.bind(**parameters)
        check_scope(self, bound, of_memory="memory_change" in query.tables)
        return self._answer(query, bound)

    def _answer(self, query: catalog.Query, bound: Mapping[str, object]) -> pl.DataFrame:
        """Run a query with a value for each parameter, or give what it gave before: nothing of a run changes."""
        asked = (query.name, *(value if value is None else (type(value), value) for value in bound.values()))
        return self._kept.get(asked, lambda: self._ask(query, bound))

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
        with self._beside(rank) as few:
            return few._run_all(query, bound)

    @contextmanager
    def _beside(self, rank: int) -> Iterator[Trace]:
        """This trace with the collectives of all ranks, and of the rest only a rank and those that it is compared with.

        Of few ranks, it is this trace.
        """
        with as_hotline_error():
            matched = {name: self._run(name, f"from {name}", {}) for name in _OF_ALL_RANKS}
            early = self._run(
                "late_pair", "select distinct early_rank from late_pair where rank = $rank", {"rank": rank}
            )
        only = sorted({rank, *early["early_rank"].to_list()})
        if 2 * len(only) > len(self.ranks) or not self._close.alive:
            yield self
            return
        paths = dict.fromkeys(self._rank_folders[each] for each in only)
        with Trace(*paths, only=only) as few:
            with self._lock:
                self._few.add(few)
            with as_hotline_error():
                for name, rows in matched.items():
                    few._connection.register("matched", rows.to_arrow())
                    few._connection.execute(f"create temp table {name} as from matched")
                    few._connection.unregister("matched")
                    few._known.add(name)
            yield few

    def _run_all(self, query: catalog.Query, bound: Mapping[str, object]) -> pl.DataFrame:
        """Run a query over all ranks that this trace has."""
        with as_hotline_error():
            self._provide(_needed(query))
            if not query.steps:
                return self._run_here(query, bound)
            # A connection of its own, so that nobody else sees the steps. They go with it.
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
        """Run a query, and its steps before, over tables that are there; the steps stay with the connection."""
        self._install_macros([*(step.sql for step in query.steps), query.sql])
        for step in query.steps:
            make_table_of(self._connection, step, step.name, {name: bound[name] for name in step.takes})
        used = {name: bound[name] for name in query.uses} if query.steps else bound
        return self._run_shipped(_needed(query), catalog.parsed(self._connection, query.sql), used)

    def _run_shipped(self, text: str, query: duckdb.Statement, parameters: Mapping[str, object]) -> pl.DataFrame:
        """Run a query of this package, whose columns have names and types that a frame can hold (its header's).

        A relation plans once for the types and once more for the rows. Without one, the rows are copied once more, so
        that is for few events.
        """
        if self._event_count > _FEW_EVENTS:
            return self._run(text, query, parameters)
        self._provide(text)
        self._connection.execute(query, dict(parameters) if parameters else None)
        return pl.DataFrame(rows_of(self._connection))

    @contextmanager
    def of_step(self, views: Sequence[str], rank: int, step: int | None) -> Iterator[Trace]:
        """This trace with some views as tables in memory that hold one step of a rank, for many questions about it.

        The connection is another one, so that nobody else sees these tables. They go with it.
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
        """The trace of one rank, for statements about it, or this one for None. It is closed with this one."""
        return self if rank is None else self._of(int(rank))

    def _of(self, rank: int) -> Trace:
        """The trace of one rank, which opens no file of another one; the last few are kept."""
        if len(self.ranks) == 1 or rank not in self._rank_folders or not self._close.alive:
            return self
        with self._lock:
            only = self._of_ranks.pop(rank, None) or Trace(self._rank_folders[rank], rank=rank)
            self._of_ranks[rank] = only
            if len(self._of_ranks) > _KEPT_RANKS:  # it closes when no other thread asks it any more
                self._of_ranks.pop(next(iter(self._of_ranks))).memo.clear()
        return only

    @contextmanager
    def _apart(self) -> Iterator[Trace]:
        """This trace over another connection, which is closed afterwards."""
        other = copy.copy(self)
        other._connections = self._connections.apart()
        other._kept, other.memo = KeptAnswers(), {}  # its tables may be others
        try:
            yield other
        finally:
            other._connections.close_mine()

    def table(self, name: str) -> pl.DataFrame:
        """Return a whole table or view, such as `annotated_event`. Large traces have large tables: prefer `sql`."""
        if name not in TABLES:
            raise HotlineError(f"there is no table {name!r}", hint=f"The tables are {', '.join(TABLES)}.")
        return self.sql(f"from {name}")

    @contextmanager
    def batches(self, name: str) -> Iterator[Any]:
        """A whole table or view as a `pyarrow.RecordBatchReader`, for what is too large for memory."""
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

    # --- the outside -----------------------------------------------------------------------------------------------

    def export(self, folder: str | Path, *, overwrite: bool = False) -> Path:
        """Write every table as one Parquet file into a folder, for dashboards: `annotated_event.parquet` and so on.

        The folder appears whole or not at all. Raises `ExportExistsError` if it exists and `overwrite` is false.
        """
        target = path_of(folder)

        def write(partial: Path) -> None:
            for name in TABLES:
                with self.batches(name) as reader:
                    _write_parquet(reader, partial / f"{name}.parquet")

        return replace_folder(target, write, overwrite=overwrite)

    def close(self) -> None:
        """Close the database; delete the run if it was a temporary one."""
        for only in self._of_ranks.values():
            only.close()
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
        which = f"rank {ranks[0]}" if len(ranks) == 1 else f"{len(ranks)} ranks"
        events = self._event_count
        return f"<Trace {self._name}: {which}, {events:,} events>"

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
    """Let this process open as many files as the system allows it; the usual limit of 1,024 is for `select`."""
    with suppress(ImportError, ValueError, OSError):
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        most = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, _OPEN_FILES)
        if soft != resource.RLIM_INFINITY and soft < most:
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def _needed(query: catalog.Query) -> str:
    """The tables that a query reads. Its words name others, too: `step` is a column as well, and `op` a cause."""
    return " ".join(query.tables) or query.sql


def _narrow(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame with 64 bits where they do: sums of such integers have 128, which frames know as decimals."""
    for name, kind in frame.schema.items():
        if isinstance(kind, pl.Decimal) and kind.scale == 0:
            whole = frame[name].cast(pl.Int64, strict=False)
            if whole.null_count() == frame[name].null_count():
                frame = frame.with_columns(whole)
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
