"""An annotated run, open for queries."""

from __future__ import annotations

import re
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

import duckdb
import polars as pl

from hotline_analysis import catalog
from hotline_analysis.atomic import path_of, replace_folder
from hotline_analysis.errors import HotlineError
from hotline_analysis.run import routing
from hotline_analysis.run.failures import as_hotline_error, damage_told
from hotline_analysis.run.kept import KeptAnswers
from hotline_analysis.run.opened import OpenRun
from hotline_analysis.run.scope import check_scope
from hotline_analysis.schema import TABLES

_SHOWN = 16  # ranks shown in a notebook
_KEPT_RANKS = 4  # databases of single ranks that stay open
# Every writing statement contains one of these words. A full parse takes longer than most of our own queries.
_WRITES = re.compile("copy|insert|update|delete|merge|truncate|create|into", re.IGNORECASE)
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
        self._begin(OpenRun((path, *more), temporary=temporary, only=[rank] if rank is not None else only))

    def _begin(self, run: OpenRun) -> None:
        self._run = run
        self.path = run.path  # with several paths, the first
        self.manifest = run.manifest
        self._kept = KeptAnswers()
        self._of_ranks: dict[int, Trace] = {}
        self._lock = threading.Lock()  # guards the traces of single ranks
        # Cache for other modules, by type. Values may refer to the trace, and are released with it.
        self.memo: dict[type, dict[Any, Any]] = {}

    @property
    def ranks(self) -> list[int]:
        """The ranks of this run, ascending."""
        return self._run.ranks

    # --- queries -------------------------------------------------------------------------------------------------

    def sql(self, query: str, **parameters: object) -> pl.DataFrame:
        """Run one SQL statement (DuckDB's dialect) on the tables of the run. `$name` is a parameter.

        `hotline schema` lists the tables and views. The statement can read only this run and cannot write. Raises
        `HotlineError` for an invalid statement, or for more than a single SELECT.
        """
        with as_hotline_error():
            _refuse_all_but_select(self._run.connection, query)
            # The database does not accept numpy scalars, such as values of a pandas column.
            values = {name: value.item() if hasattr(value, "item") else value for name, value in parameters.items()}
            return self._run.select(query, query, values)

    @contextmanager
    def at_most(self, seconds: float) -> Iterator[None]:
        """Stop the running statement (`sql`) after the given number of seconds, with a `HotlineError`."""
        is_over = threading.Event()
        connection = self._run.connection

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
        self._run.interrupt()

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
        return self._kept.get(key, lambda: routing.answer(self._run, query, bound, self._open_rank))

    @contextmanager
    def of_step(self, views: Sequence[str], rank: int, step: int | None) -> Iterator[Trace]:
        """A trace with some views as in-memory tables of one step of a rank, for repeated queries about the step.

        The connection is separate, so the tables are private and are dropped with the connection.
        """
        with self._open_rank(rank).apart() as run:
            with as_hotline_error():
                for name in views:
                    run.provide(name)
                    run.connection.execute(
                        f"create temp table {name} as from main.{name} where rank = $rank"
                        " and step is not distinct from $step",
                        {"rank": rank, "step": step},
                    )
            yield _trace_of(run)

    def of(self, rank: int | None) -> Trace:
        """The trace of one rank, or this trace for `None`. The returned trace is closed with this trace."""
        return self if rank is None else self._of(int(rank))

    def _of(self, rank: int) -> Trace:
        """The trace of one rank, which opens no file of another rank. The last few are cached."""
        if len(self.ranks) == 1 or rank not in self.ranks or not self._run.is_open:
            return self
        with self._lock:
            trace = self._of_ranks.pop(rank, None) or _trace_of(self._run.subset([rank]))
            self._of_ranks[rank] = trace
            if len(self._of_ranks) > _KEPT_RANKS:  # closes when no other thread uses it
                self._of_ranks.pop(next(iter(self._of_ranks))).memo.clear()
        return trace

    def _open_rank(self, rank: int) -> OpenRun:
        return self._of(rank)._run

    def table(self, name: str) -> pl.DataFrame:
        """Return a whole table or view, such as `annotated_event`. Prefer `sql` for large traces."""
        if name not in TABLES:
            raise HotlineError(f"there is no table {name!r}", hint=f"The tables are {', '.join(TABLES)}.")
        return self.sql(f"from {name}")

    @contextmanager
    def batches(self, name: str) -> Iterator[Any]:
        """A whole table or view as a `pyarrow.RecordBatchReader`, for tables larger than memory."""
        self._run.provide(name)
        with damage_told():
            yield self._run.connection.sql(f"from {name}").to_arrow_reader(100_000)

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
        self._run.close()

    @property
    def _name(self) -> str:
        more = len(self._run.folders) - 1
        return self.path.name + (f" and {more} more" if more else "")

    def __enter__(self) -> Trace:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        ranks = self.ranks
        ranks_text = f"rank {ranks[0]}" if len(ranks) == 1 else f"{len(ranks)} ranks"
        events = self._run.event_count
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


def _trace_of(run: OpenRun) -> Trace:
    trace = Trace.__new__(Trace)
    trace._begin(run)
    return trace


def _refuse_all_but_select(connection: duckdb.DuckDBPyConnection, query: str) -> None:
    kinds = [statement.type for statement in connection.extract_statements(query)]
    if kinds == [duckdb.StatementType.SELECT] and not _WRITES.search(query):
        return
    tree = connection.execute("select json_serialize_sql(?)", [query]).fetchall()[0][0]
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


def _write_parquet(reader: Any, path: Path) -> None:
    import pyarrow.parquet as pq

    with pq.ParquetWriter(path, reader.schema, compression="zstd") as writer:
        for batch in reader:
            writer.write_batch(batch)
