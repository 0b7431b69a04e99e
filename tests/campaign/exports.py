"""Ways to damage an export of Nsight Systems, by class, and the export that the cases change."""

from __future__ import annotations

import random
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path

from tests.nsight_export import SCHEMAS
from tests.nsight_whole import whole_export
from tests.query_arguments import training

BASE = "nsight"
Change = Callable[[random.Random, sqlite3.Connection], None]
Rewrite = Callable[[random.Random, bytes], bytes]
EXPORT: dict[str, Change] = {}
BYTES: dict[str, Rewrite] = {}

_ODD = (
    None,
    0,
    -1,
    1.5,
    2**31,
    2**32 - 1,
    2**63 - 1,
    -(2**63),
    "",
    "7",
    "nan",
    "<hotlinexss>",
    "\x1b[31m",
    b"",
    b"\xff",
)


def _change(function: Change) -> Change:
    EXPORT[function.__name__] = function
    return function


def _rewrite(function: Rewrite) -> Rewrite:
    BYTES[function.__name__] = function
    return function


@cache
def base(schema: str) -> bytes:
    """The export of a training with everything that a query looks at."""
    with tempfile.TemporaryDirectory() as folder:
        return whole_export(Path(folder) / "base.sqlite", schema, training().events).read_bytes()


def changed(rng: random.Random, changes: list[str], rewrites: list[str]) -> bytes:
    """The bytes of an export after some changes."""
    data = base(rng.choice(SCHEMAS))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "case.sqlite"
        path.write_bytes(data)
        with closing(sqlite3.connect(path)) as connection:
            for name in changes:
                EXPORT[name](rng, connection)
            connection.commit()
        data = path.read_bytes()
    for name in rewrites:
        data = BYTES[name](rng, data)
    return data


def _tables(connection: sqlite3.Connection) -> list[str]:
    return [name for (name,) in connection.execute("select name from sqlite_master where type = 'table' order by name")]


@contextmanager
def _some_table(rng: random.Random, connection: sqlite3.Connection) -> Iterator[tuple[str, list[str]]]:
    table = rng.choice(_tables(connection))
    yield table, [row[1] for row in connection.execute(f'pragma table_info("{table}")')]


def _some(rng: random.Random) -> str:
    """A condition for one row, some or all."""
    return rng.choice(["rowid = 1", f"rowid % {rng.randrange(2, 9)} = 0", "1"])


@_change
def odd_values(rng: random.Random, connection: sqlite3.Connection) -> None:
    """A column holds something else."""
    with _some_table(rng, connection) as (table, columns):
        column = rng.choice(columns)
        connection.execute(f'update or ignore "{table}" set "{column}" = ? where {_some(rng)}', [rng.choice(_ODD)])


@_change
def without_a_table(rng: random.Random, connection: sqlite3.Connection) -> None:
    """A table is not there."""
    connection.execute(f'drop table "{rng.choice(_tables(connection))}"')


@_change
def without_a_column(rng: random.Random, connection: sqlite3.Connection) -> None:
    """A column is not there."""
    with _some_table(rng, connection) as (table, columns):
        if len(columns) > 1:
            connection.execute(f'alter table "{table}" drop column "{rng.choice(columns)}"')


@_change
def without_rows(rng: random.Random, connection: sqlite3.Connection) -> None:
    """Some rows are not there."""
    with _some_table(rng, connection) as (table, _):
        connection.execute(f'delete from "{table}" where {_some(rng)}')


@_change
def rows_twice(rng: random.Random, connection: sqlite3.Connection) -> None:
    """Rows are there twice."""
    with _some_table(rng, connection) as (table, _):
        connection.execute(f'insert into "{table}" select * from "{table}" where {_some(rng)}')


@_change
def other_times(rng: random.Random, connection: sqlite3.Connection) -> None:
    """Times jump, or run backwards."""
    with _some_table(rng, connection) as (table, columns):
        if "start" in columns and "end" in columns:
            shift = rng.choice([-(10**6), 10**6, 10**15, -(10**18)])
            change = rng.choice(
                ['start = "end", "end" = start', f"start = start + {shift}", f'"end" = "end" + {shift}']
            )
            connection.execute(f'update "{table}" set {change} where {_some(rng)}')


@_change
def a_view_in_its_place(rng: random.Random, connection: sqlite3.Connection) -> None:
    """A table is a view, which would run what it says."""
    with _some_table(rng, connection) as (table, _):
        connection.execute(f'alter table "{table}" rename to "old {table}"')
        connection.execute(f'create view "{table}" as select * from "old {table}"')


@_change
def a_trigger(rng: random.Random, connection: sqlite3.Connection) -> None:
    """A table has a trigger, which runs where a row is written."""
    with _some_table(rng, connection) as (table, _):
        connection.execute(f'create trigger "on {table}" after insert on "{table}" begin delete from "{table}"; end')


@_change
def huge_texts(rng: random.Random, connection: sqlite3.Connection) -> None:
    """Texts are longer than any name."""
    connection.execute(f"update StringIds set value = value || ? where {_some(rng)}", ["x" * 300_000])


@_change
def without_texts(rng: random.Random, connection: sqlite3.Connection) -> None:
    """Numbers of texts lead nowhere."""
    connection.execute(f"delete from StringIds where {_some(rng)}")


@_change
def negative_times(rng: random.Random, connection: sqlite3.Connection) -> None:
    """All times are before the start of the recording."""
    for table in _tables(connection):
        columns = {row[1] for row in connection.execute(f'pragma table_info("{table}")')}
        for column in ("start", "end", "timestamp"):
            if column in columns:
                connection.execute(f'update "{table}" set "{column}" = "{column}" - 10000000000000')


@_change
def one_process_more(rng: random.Random, connection: sqlite3.Connection) -> None:
    """Some events are of another process."""
    with _some_table(rng, connection) as (table, columns):
        for column in {"globalPid", "globalTid"} & {*columns}:
            connection.execute(f'update "{table}" set "{column}" = "{column}" + 16777216 where {_some(rng)}')


@_rewrite
def cut_off(rng: random.Random, data: bytes) -> bytes:
    """The file ends too early."""
    return data[: rng.randrange(1, len(data))]


@_rewrite
def other_bytes(rng: random.Random, data: bytes) -> bytes:
    """Some bytes are others."""
    changed_data = bytearray(data)
    for _ in range(rng.choice([1, 10, 1_000])):
        changed_data[rng.randrange(len(changed_data))] = rng.randrange(256)
    return bytes(changed_data)


@_rewrite
def empty_pages(rng: random.Random, data: bytes) -> bytes:
    """A page is empty, or another one."""
    pages = max(2, len(data) // 4096)
    page, other = rng.randrange(1, pages), rng.randrange(1, pages)
    content = data[other * 4096 : other * 4096 + 4096] if rng.random() < 0.5 else bytes(4096)
    return data[: page * 4096] + content + data[page * 4096 + 4096 :]
