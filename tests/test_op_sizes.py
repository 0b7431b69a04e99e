"""Sizes and types of results, which no trace has, against those that torch makes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path

import duckdb
import pytest

from hotline_analysis.database import install_macros
from tests.derive.op_work_cases import call, t
from tests.derive.tables import rows
from tests.trace_builder import TraceBuilder

torch = pytest.importorskip("torch")


@pytest.fixture
def database() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        install_macros(connection)
        yield connection


def sizes(database: duckdb.DuckDBPyConnection, macro: str, given: Sequence[tuple[int | bool, ...]]) -> list[int]:
    columns = [f"c{place}" for place in range(len(given[0]))]
    types = ["boolean" if isinstance(value, bool) else "bigint" for value in given[0]]
    declared = ", ".join(f"{column} {kind}" for column, kind in zip(columns, types, strict=True))
    database.execute(f"create or replace table given ({declared})")
    database.executemany(f"insert into given values ({', '.join('?' * len(columns))})", given)
    return [row[0] for row in database.execute(f"select {macro}({', '.join(columns)})::bigint from given").fetchall()]


def test_a_pooling_gives_what_torch_gives(database: duckdb.DuckDBPyConnection) -> None:
    given = [
        (size, kernel, stride, pad, dilation, is_ceiled)
        for size, kernel, stride, pad, dilation in product(range(5, 12), (1, 2, 3), (1, 2, 3, 4), (0, 1), (1, 2))
        for is_ceiled in (False, True)
        if pad <= kernel // 2
    ]
    made = [torch.nn.functional.max_pool1d(torch.zeros(1, 1, size), *rest).shape[-1] for size, *rest in given]
    assert sizes(database, "pooled_size", given) == made


def test_convolutions_give_what_torch_gives(database: duckdb.DuckDBPyConnection) -> None:
    weight = {kernel: torch.zeros(1, 1, kernel) for kernel in (1, 2, 3)}
    given = list(product(range(5, 9), weight, (1, 2, 3), (0, 1), (1, 2)))
    made = [
        torch.nn.functional.conv1d(torch.zeros(1, 1, size), weight[kernel], None, *rest).shape[-1]
        for size, kernel, *rest in given
    ]
    assert sizes(database, "pooled_size", [(*row, False) for row in given]) == made
    widened = [(*row, more) for row in given for more in (0, 1) if more < max(row[2], row[4])]
    made = [
        torch.nn.functional.conv_transpose1d(
            torch.zeros(1, 1, size), weight[kernel], None, stride, pad, more, 1, dilation
        ).shape[-1]
        for size, kernel, stride, pad, dilation, more in widened
    ]
    assert sizes(database, "widened_size", widened) == made


# As the profiler names them, as `op_work` does, and as torch does.
TYPES = {
    "c10::Half": ("fp16", torch.float16),
    "float": ("fp32", torch.float32),
    "double": ("fp64", torch.float64),
    "long int": ("int64", torch.int64),
    "int": ("int32", torch.int32),
    "unsigned char": ("uint8", torch.uint8),
    "bool": ("bool", torch.bool),
}


def test_types_are_promoted_as_torch_does(tmp_path: Path) -> None:
    """All pairs of tensors with and without dimensions; a second one without is a number if it looks like one."""
    names = {dtype: name for name, dtype in TYPES.values()}
    builder, expected = TraceBuilder(), []
    operands = list(product(TYPES, ((2,), ())))
    for at, ((kind, dims), (other, other_dims)) in enumerate(product(operands, operands)):
        call(builder, "aten::mul", (t(kind, *dims), t(other, *other_dims)), 10 * at, 10 * at + 5)
        second: object = torch.zeros(other_dims, dtype=TYPES[other][1])
        if not other_dims and other in ("double", "long int"):
            second = 1.0 if other == "double" else 1
        expected.append(names[torch.result_type(torch.zeros(dims, dtype=TYPES[kind][1]), second)])
    with builder.load(tmp_path) as trace:
        found = [dtype for (dtype,) in rows(trace, "select dtype from op_work order by event_id")]
    wrong = [
        (pair, mine, true)
        for pair, mine, true in zip(product(operands, operands), found, expected, strict=True)
        if mine != true
    ]
    assert wrong == []
