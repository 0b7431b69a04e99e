"""The rows of a statement become the same frame whether they pass through Python or through a relation."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import polars as pl
import pytest

from hotline_analysis.run.frames import _FEW_ROWS, fetched, frame_of

STATEMENT = """
    select range as number, range::utinyint as small, range / 2.0 as half, range::float as single, 'é' || range as text,
        if(range % 2 = 0, null, range) as gap, null::varchar as none, [range, null] as numbers, ['a', 'b'] as texts,
        '{"a": 1}'::json as json, range > 1 as truth, sum(range) over () as total
    from range(200) limit $rows
"""


@pytest.fixture
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(config={"python_enable_replacements": False}) as opened:
        yield opened


@pytest.mark.parametrize("rows", [0, 1, 7])
def test_few_rows_are_those_of_a_relation(connection: duckdb.DuckDBPyConnection, rows: int) -> None:
    found = fetched(connection, STATEMENT, {"rows": rows})
    asked = frame_of(connection.sql(STATEMENT, params={"rows": rows}))
    assert found is not None
    assert found.schema == asked.schema
    assert found.equals(asked)
    assert found.schema["total"] == pl.Int64


@pytest.mark.parametrize("more", [-1, 0, 1, 2, 5000])
def test_no_row_is_lost_where_python_gives_way_to_arrow(connection: duckdb.DuckDBPyConnection, more: int) -> None:
    found = fetched(connection, "select range, range::varchar as text from range($rows)", {"rows": _FEW_ROWS + more})
    assert found is not None
    assert found["range"].to_list() == list(range(_FEW_ROWS + more))
    assert found["text"].to_list() == list(map(str, range(_FEW_ROWS + more)))


def test_other_types_pass_through_arrow(connection: duckdb.DuckDBPyConnection) -> None:
    statement = "select {'a': 1} as pair, date '2026-01-02' as day, null as nothing"
    found = fetched(connection, statement, {})
    assert found is not None
    assert found.equals(frame_of(connection.sql(statement)))


@pytest.mark.parametrize(
    "statement",
    [
        "select 1 as a, 2 as a",
        "select 9223372036854775808::hugeint as wide",
        "select -9223372036854775809::hugeint as wide",
        "select range::hugeint as wide from range(5000)",
        "select 1::hugeint as wide, 1.5::decimal(4, 1) as cut",
    ],
)
def test_a_relation_is_asked_for_the_rest(connection: duckdb.DuckDBPyConnection, statement: str) -> None:
    """Equal names get numbers, and integers beyond 64 bits become decimals; the connection stays usable."""
    assert fetched(connection, statement, {}) is None
    assert frame_of(connection.sql(statement)).height == connection.sql(statement).shape[0]


def test_the_least_integer_of_64_bits(connection: duckdb.DuckDBPyConnection) -> None:
    """It has no positive counterpart, so a relation converts it."""
    statement = f"select ({-(2**63)})::hugeint as least, {2**63 - 1}::hugeint as most"
    assert fetched(connection, statement, {}) is None
    assert frame_of(connection.sql(statement)).row(0) == (-(2**63), 2**63 - 1)
