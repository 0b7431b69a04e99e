"""Read an SQLite export of Nsight Systems as an untrusted database: read-only, and column by column."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from urllib.parse import quote

import polars as pl
import pyarrow as pa

from hotline_analysis.errors import TraceFormatError
from hotline_analysis.kineto.split import Damage

MAGIC = b"SQLite format 3\0"
SUFFIX = ".sqlite"
_ROWS = 100_000  # rows held at a time: a batch of the tables
_FETCHED = 20_000  # rows held in Python when read one by one
_FIRST = -(2**63)  # smaller than every rowid
_NAMES_OF_ROWIDS = frozenset({"rowid", "_rowid_", "oid"})
_LONGEST_VALUE = 256 << 20  # bytes; a longer value ends the reading of its table
LONGEST_TEXT = 1 << 16  # maximum characters kept of a text
_MOST_NAMED = 6
_PLAIN_NAME = re.compile(r"\w+")
_KINDS = {"BIGINT": pa.int64(), "DOUBLE": pa.float64(), "VARCHAR": pa.binary()}
_FUNCTIONS = ("substr", "min", "max", "count", "coalesce", "json_group_array")
# Actions of our own statements. Anything else the file could trigger (a view, a trigger, another file) is refused.
_ALLOWED = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE)


@dataclass(frozen=True)
class Made:
    """A column computed by SQLite from several columns: their sum, or the first column with a value.

    Reading the columns separately would multiply the cost.
    """

    kind: str
    columns: tuple[str, ...]
    is_sum: bool = False


Columns = Mapping[str, str | Made]
"""Column names with their types, as used by the queries of this package."""


def is_export(path: Path) -> bool:
    """Return whether a file is an SQLite database, by its first bytes."""
    try:
        with path.open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def kind_of(column: str | Made) -> pa.DataType:
    """Return the column type as read from SQLite: texts are bytes, because their encoding is unknown."""
    return _KINDS[column.kind if isinstance(column, Made) else column]


@dataclass(frozen=True)
class _Wanted:
    """A request for rows of a table: all columns, the SQL expressions of existing columns, and a row condition."""

    table: str
    columns: Columns
    there: Mapping[str, str]
    where: str
    values: tuple[int, ...]


class ExportFile:
    """An SQLite export. `damage` describes unreadable parts. Raises `TraceFormatError` if the file is unreadable."""

    def __init__(self, path: Path, damage: Damage | None = None) -> None:
        self.path = path
        self.damage = damage or Damage()
        try:
            # immutable: no lock and no journal; nothing is written next to the file
            self._connection = sqlite3.connect(
                f"file:{quote(str(path.absolute()))}?mode=ro&immutable=1", uri=True, check_same_thread=False
            )
            self._connection.text_factory = bytes
            self._connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_VALUE)
            self._connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
            for setting in ("trusted_schema = off", "cell_size_check = on", "query_only = on", "mmap_size = 0"):
                self._connection.execute(f"pragma {setting}")
            self._found = self._tables()
            self._connection.set_authorizer(_authorize)
            if self.unfinished:
                self.damage.note(f"{self.unfinished} has changes of the database that are not read")
        except sqlite3.Error as error:
            raise self._unreadable(error) from error

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def __enter__(self) -> ExportFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _unreadable(self, error: Exception) -> TraceFormatError:
        return TraceFormatError(
            f"{self.path} is a damaged SQLite database: {error}",
            hint="Copy the file again, or export the report again.",
        )

    def _tables(self) -> dict[str, frozenset[str]]:
        """Return the tables of the file with their columns, without views and virtual tables, which run code."""
        rows = self._connection.execute(
            "select name from sqlite_master where type = 'table' and rootpage > 0"
        ).fetchall()
        names = [_text(name) for (name,) in rows]
        return {
            name: frozenset(
                _text(column) for (column,) in self._connection.execute("select name from pragma_table_info(?)", [name])
            )
            for name in names
            if _PLAIN_NAME.fullmatch(name)
        }

    @cached_property
    def unfinished(self) -> str | None:
        """Name of the file with changes that a program still writes, or wrote before a crash; None if there is none.

        SQLite keeps them next to the database (sqlite.org, "Temporary Files Used By SQLite"). The database is read as
        it is, because reading the changes would write to it.
        """
        for suffix in ("-wal", "-journal"):
            file = self.path.with_name(self.path.name + suffix)
            if file.is_file() and file.stat().st_size:
                return file.name
        return None

    @cached_property
    def table_names(self) -> list[str]:
        """The tables of the file."""
        return sorted(self._found)

    @property
    def some_tables(self) -> str:
        """Names of some tables, for a message."""
        names = ", ".join(self.table_names[:_MOST_NAMED])
        more = len(self.table_names) - _MOST_NAMED
        return names + (f" and {more} more" if more > 0 else "")

    def has(self, table: str, *columns: str) -> bool:
        """Return whether a table with these columns exists."""
        return table in self._found and self._found[table].issuperset(columns)

    def read(self, table: str, columns: Columns, only: str = "", values: Sequence[int] = ()) -> Iterator[pa.Table]:
        """Yield the rows of a table in batches. Columns missing in the file are NULL.

        `only` is a condition on the columns, with `values` for its parameters. The condition and all names come from
        this package; no text of the file enters a statement. A row that cannot be read ends the table, with a note.
        """
        if table not in self._found:
            return
        selected = {name: self._expression(table, name, column) for name, column in columns.items()}
        expressions = {name: expression for name, expression in selected.items() if expression is not None}
        if not expressions:
            return
        request = _Wanted(table, columns, expressions, f"({only})" if only else "1", tuple(values))
        rows_read, last = 0, _FIRST
        try:
            if not self._found[table] & _NAMES_OF_ROWIDS:
                for number, part in self._columns(request):
                    last = number
                    rows_read += part.num_rows
                    yield part
                return
        except (sqlite3.Error, pl.exceptions.PolarsError, ValueError, MemoryError):
            pass  # the rows before the damage can be read one by one
        try:
            for part in self._rows(request, last):
                rows_read += part.num_rows
                yield part
        except (sqlite3.Error, MemoryError) as error:
            self.damage.truncated = True
            self.damage.note(f"the table {table} is damaged after {rows_read:,} rows ({error})")

    def whole(self, table: str, columns: Columns, only: str = "", values: Sequence[int] = ()) -> pa.Table:
        """Return all rows of a small table."""
        parts = list(self.read(table, columns, only, values))
        return pa.concat_tables(parts) if parts else self._arrow(table, columns, [], [])

    def _expression(self, table: str, name: str, column: str | Made) -> str | None:
        """Return the SQL expression of a column; None if the table lacks the column."""
        definition = column if isinstance(column, Made) else Made(column, (name,))
        parts = [f'"{source}"' for source in definition.columns if source in self._found[table]]
        if not parts or (definition.is_sum and len(parts) < len(definition.columns)):
            return None
        expression = (
            " + ".join(parts) if definition.is_sum else f"coalesce({', '.join(parts)})" if parts[1:] else parts[0]
        )
        return f"substr({expression}, 1, {LONGEST_TEXT})" if definition.kind == "VARCHAR" else expression

    def _columns(self, wanted: _Wanted) -> Iterator[tuple[int, pa.Table]]:
        """Yield the rows in batches, each column as one JSON text, because every value passed to Python costs 0.5 µs.

        Each item has the last rowid and the rows. Raises an error if a value does not fit into JSON.
        """
        aliases = {name: f"c{number}" for number, name in enumerate(wanted.there)}
        inner = ", ".join(f"{expression} as {aliases[name]}" for name, expression in wanted.there.items())
        outer = ", ".join(f"json_group_array({column})" for column in aliases.values())
        statement = (
            f'select max(_rowid_), count(*), {outer} from (select _rowid_, {inner} from "{wanted.table}"'  # noqa: S608
            f" where _rowid_ > ? and {wanted.where} order by _rowid_ limit {_ROWS})"
        )
        last = _FIRST
        while True:
            (row,) = self._connection.execute(statement, (last, *wanted.values)).fetchall()
            last, count, *texts = row
            if not count:
                return
            values = dict(zip(wanted.there, texts, strict=True))
            yield (
                last,
                pa.table(
                    {
                        name: self._parsed(f"{wanted.table}.{name}", kind_of(column), values.get(name), count)
                        for name, column in wanted.columns.items()
                    }
                ),
            )

    def _parsed(self, called: str, kind: pa.DataType, text: bytes | None, count: int) -> pa.Array:
        """Parse a JSON array into the values of a column."""
        result_kind = pa.string() if kind == pa.binary() else kind
        if text is None or (len(text) == 5 * count + 1 and text.count(b"null") == count):
            return pa.nulls(count, result_kind)
        json_text = pl.Series([text.decode("utf-8", "replace")])
        if kind == pa.binary():
            values = json_text.str.json_decode(pl.List(pl.String)).list.explode()
        else:
            parts = json_text.str.slice(1, len(json_text[0]) - 2).str.split(",").list.explode()
            values = parts.cast(pl.Float64 if kind == pa.float64() else pl.Int64, strict=False)
            if values.null_count() > (parts == "null").sum():
                self.damage.note(f"the column {called} has values other than numbers")
        if len(values) != count:
            raise ValueError(f"{called} has values other than numbers and texts")
        return values.to_arrow().cast(result_kind)

    def _rows(self, wanted: _Wanted, last: int) -> Iterator[pa.Table]:
        """Yield the rows after the rowid `last`, one by one."""
        expressions = ", ".join(wanted.there.values())
        statement = f'select {expressions} from "{wanted.table}" where {wanted.where}'  # noqa: S608
        values = wanted.values
        if last > _FIRST:
            statement += " and _rowid_ > ?"
            values = (*values, last)
        cursor = self._connection.execute(statement, values)
        failure: sqlite3.Error | None = None
        while failure is None:
            rows: list[Sequence[object]] = []
            try:
                rows.extend(islice(cursor, _FETCHED))  # keeps the rows before an error
            except sqlite3.Error as error:
                failure = error
            if not rows:
                break
            yield self._arrow(wanted.table, wanted.columns, list(wanted.there), rows)
        if failure is not None:
            raise failure

    def first_devices(self, table: str, bits: int) -> dict[int, int]:
        """Return the first device of each process in a table of GPU work, by the process's global id.

        `bits` is the number of thread bits, removed from the id.
        """
        if not self.has(table, "globalPid", "deviceId"):
            return {}
        try:
            rows = self._connection.execute(
                f'select "globalPid" >> {bits}, min("deviceId") from "{table}" group by 1'  # noqa: S608
            )
            return {key: device for key, device in rows if isinstance(key, int) and isinstance(device, int)}
        except sqlite3.Error:
            return {}  # reading the table later reports the error

    def latest(self, table: str, column: str) -> int:
        """Return the largest number in a column, or 0."""
        if not self.has(table, column):
            return 0
        try:
            ((number,),) = self._connection.execute(f'select max("{column}") from "{table}"').fetchall()  # noqa: S608
        except sqlite3.Error:
            return 0  # reading the table later reports the error
        return number if isinstance(number, int) else 0

    def _arrow(self, table: str, columns: Columns, there: Sequence[str], rows: Sequence[Sequence[object]]) -> pa.Table:
        values = dict(zip(there, zip(*rows, strict=True), strict=True)) if rows and there else {}
        return pa.table(
            {
                name: self._column(
                    f"{table}.{name}",
                    kind_of(column),
                    values.get(name),
                    len(rows),
                )
                for name, column in columns.items()
            }
        )

    def _column(self, called: str, kind: pa.DataType, values: Sequence[object] | None, count: int) -> pa.Array:
        if values is None or (values[:1] == (None,) and values.count(None) == count):
            return pa.nulls(count, pa.string() if kind == pa.binary() else kind)
        try:
            array = pa.array(values, kind)
            return array.cast(pa.string()) if kind == pa.binary() else array
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            # SQLite allows any value in any column, and text with any bytes.
            converted = [_value(value, kind) for value in values]
            lost_count = sum(
                value is not None and number is None for value, number in zip(values, converted, strict=True)
            )
            if lost_count:
                self.damage.note(f"the column {called} has values other than numbers")
            return pa.array(converted, pa.string() if kind == pa.binary() else kind)


def _authorize(action: int, first: str | None, second: str | None, *_: str | None) -> int:
    if action == sqlite3.SQLITE_FUNCTION and second not in _FUNCTIONS:
        return sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK if action in _ALLOWED else sqlite3.SQLITE_DENY


def _text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _value(value: object, kind: pa.DataType) -> object:
    """Return a value in the type of its column; None if the value has another type."""
    if value is None:
        return None
    if kind == pa.binary():
        return _text(value)
    if kind == pa.float64():
        return float(value) if isinstance(value, int | float) else None
    return value if isinstance(value, int) else None
