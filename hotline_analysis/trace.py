"""An annotated run, open for questions."""

from __future__ import annotations

import json
import re
import shutil
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import duckdb
import polars as pl

from hotline_analysis import catalog
from hotline_analysis.errors import ExportExistsError, HotlineError, RunFormatError
from hotline_analysis.schema import FORMAT_VERSION, TABLES

MANIFEST = "manifest.json"


class Trace:
    """The annotated trace of one or more ranks, read from a run directory.

    Open one with `hotline_analysis.load`. Every answer is a `polars.DataFrame`. Statements run in a database of their
    own, which can read the files of this run and nothing else. Use it as a context manager, or let it go out of scope,
    to close it; a run that was imported to a temporary folder is deleted then.
    """

    def __init__(self, path: Path, *, delete_on_close: bool = False) -> None:
        self.path = path
        self.manifest: Mapping[str, Any] = _read_manifest(path)
        self._connection = duckdb.connect(
            config={"python_enable_replacements": False, "autoinstall_known_extensions": False}
        )
        self._close = weakref.finalize(self, _release, self._connection, path if delete_on_close else None)
        for table in TABLES.values():
            if table.kind != "view":
                self._create_view(table.name, [column.name for column in table.columns])
        self._connection.execute(f"create view annotated_event as {catalog.get('annotated_event').sql}")
        escaped = str(path.resolve()).replace("'", "''")
        self._connection.execute(f"set allowed_directories = ['{escaped}']")
        self._connection.execute("set enable_external_access = false")
        self._connection.execute("set lock_configuration = true")

    def _create_view(self, name: str, columns: Sequence[str]) -> None:
        # The table and its columns come from the schema; only the path is foreign. Glob characters in it are escaped.
        pattern = re.sub(r"([*?\[])", r"[\1]", str(self.path.resolve())) + f"/{name}/*/data.parquet"
        literal = pattern.replace("'", "''")
        quoted = ", ".join(f'"{column}"' for column in columns)
        self._connection.execute(
            f"create view {name} as select rank, {quoted} from read_parquet("  # noqa: S608
            f"'{literal}', hive_partitioning = true, hive_types = {{'rank': bigint}})"
        )

    # --- questions -----------------------------------------------------------------------------------------------

    def sql(self, query: str, **parameters: object) -> pl.DataFrame:
        """Run one SQL statement (DuckDB's dialect) on the tables of the run; `$name` stands for a parameter.

        The tables and views are described in `docs/tables.md`. Raises `HotlineError` if the statement is wrong.
        """
        try:
            relation = self._connection.sql(query, params=parameters) if parameters else self._connection.sql(query)
            return relation.pl() if relation is not None else pl.DataFrame()
        except duckdb.Error as error:
            raise HotlineError(f"the SQL statement failed: {error}", hint="See docs/tables.md for the tables.") from error

    def query(self, name: str, **parameters: object) -> pl.DataFrame:
        """Run a query that this package ships, by name; see `hotline queries` for the list.

        Parameters left out take the defaults of the query's header. Raises `QueryNotFoundError` and
        `QueryParameterError`.
        """
        query = catalog.get(name)
        return self.sql(query.sql, **query.bind(**parameters))

    def table(self, name: str) -> pl.DataFrame:
        """Return a whole table or view, such as `annotated_event`. Large traces have large tables: prefer `sql`."""
        if name not in TABLES:
            raise HotlineError(f"there is no table {name!r}", hint=f"The tables are {', '.join(TABLES)}.")
        return self.sql(f"from {name}")

    @property
    def ranks(self) -> list[int]:
        """The ranks of this run, ascending."""
        return sorted(part["rank"] for part in self.manifest["parts"])

    # --- the outside -----------------------------------------------------------------------------------------------

    def export(self, folder: str | Path, *, overwrite: bool = False) -> Path:
        """Write every table as one Parquet file into a folder, for dashboards: `annotated_event.parquet` and so on.

        The folder appears whole or not at all. Raises `ExportExistsError` if it exists and `overwrite` is false.
        """
        target = Path(folder)

        def write(partial: Path) -> None:
            for name in TABLES:
                reader = self._connection.sql(f"from {name}").to_arrow_reader(100_000)
                _write_parquet(reader, partial / f"{name}.parquet")

        return replace_folder(target, write, overwrite=overwrite)

    def close(self) -> None:
        """Close the database; delete the run if it was a temporary one."""
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
        events = sum(part["event_count"] for part in self.manifest["parts"])
        return f"<Trace {self.path.name}: {which}, {events:,} events>"


def _release(connection: duckdb.DuckDBPyConnection, folder: Path | None) -> None:
    connection.close()
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)


def _read_manifest(path: Path) -> Mapping[str, Any]:
    try:
        manifest = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise RunFormatError(
            f"{path} is no run directory: it has no {MANIFEST}", hint="Make one with `hotline import TRACES -o run.hotline`."
        ) from None
    except (OSError, ValueError) as error:
        raise RunFormatError(f"{path / MANIFEST} cannot be read: {error}", hint="Import the traces again.") from error
    version = manifest.get("format_version") if isinstance(manifest, dict) else None
    if version != FORMAT_VERSION:
        raise RunFormatError(
            f"{path} has format version {version}, this package reads version {FORMAT_VERSION}",
            hint="Import the traces again.",
        )
    return dict(manifest)


def _write_parquet(reader: Any, path: Path) -> None:
    import pyarrow.parquet as pq

    with pq.ParquetWriter(path, reader.schema, compression="zstd") as writer:
        for batch in reader:
            writer.write_batch(batch)


def replace_folder(target: Path, write: Callable[[Path], None], *, overwrite: bool) -> Path:
    """Let `write` fill a new folder beside the target and rename it when it is complete.

    Whatever happens on the way, the target either does not exist, is the old one, or is complete. What an earlier
    process left unfinished there is removed.
    """
    if target.exists() and not overwrite:
        raise ExportExistsError(f"{target} exists already", hint="Choose another name, or overwrite it (--overwrite).")
    if target.exists() and not (target / MANIFEST).exists() and (not target.is_dir() or any(_foreign(target))):
        raise ExportExistsError(f"{target} was not written by this tool and is not replaced", hint="Choose another name.")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        for stale in target.parent.glob(f".{_glob_escape(target.name)}.*.partial"):
            if not _is_alive(stale):
                shutil.rmtree(stale, ignore_errors=True)
        partial = _make_partial(target)
    except OSError as error:
        raise HotlineError(
            f"cannot write to {target.parent}: {error.strerror or error}", hint="Choose another place with -o."
        ) from error
    try:
        write(partial)
        if target.exists():
            old = partial.with_suffix(".old.partial")
            target.rename(old)
            partial.rename(target)
            shutil.rmtree(old, ignore_errors=True)
        else:
            partial.rename(target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return target


def _foreign(folder: Path) -> list[Path]:
    """What lies in a folder that no export writes."""
    return [path for path in folder.iterdir() if path.suffix != ".parquet"]


def _glob_escape(name: str) -> str:
    return re.sub(r"([*?\[])", r"[\1]", name)


def _make_partial(target: Path) -> Path:
    import os
    import tempfile

    return Path(tempfile.mkdtemp(prefix=f".{target.name}.{os.getpid()}.", suffix=".partial", dir=target.parent))


def _is_alive(partial: Path) -> bool:
    import os

    match = re.search(r"\.(\d+)\.[^.]*\.partial$", partial.name)
    if match is None:
        return True
    try:
        os.kill(int(match[1]), 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True
