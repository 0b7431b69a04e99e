"""Work of the user's own ops without a formula: the user's query over the shapes of op arguments."""

from __future__ import annotations

import os

import duckdb

from hotline_analysis import catalog
from hotline_analysis.atomic import path_of
from hotline_analysis.database import install_macros
from hotline_analysis.errors import HotlineError
from hotline_analysis.text.formats import one_of

OpWork = str | os.PathLike[str]
"""A file with one SELECT over `op_shape`."""

_FIGURES = ("matrix_flop", "vector_flop", "bytes")
# The columns of the work of a shape, each with a default expression for queries without the column.
_COLUMNS = {
    "shape_id": None,
    "dtype": "null::varchar",
    "batch": "null::bigint",
    "m": "null::bigint",
    "n": "null::bigint",
    "k": "null::bigint",
    "matrix_flop": "null::bigint",
    "model_flop": "matrix_flop",
    "dense_flop": "matrix_flop",
    "vector_flop": "null::bigint",
    "bytes": "null::bigint",
}


def read_op_work(given: OpWork | None) -> str | None:
    """Return the statement that computes the work of the user's ops, with the columns of the table `own_work`.

    Raises `HotlineError` if the file cannot be read, is not a single SELECT, or has no work columns.
    """
    if given is None:
        return None
    try:
        with open(path_of(given), encoding="utf-8-sig") as stream:
            text = stream.read()
    except (OSError, UnicodeDecodeError) as error:
        raise HotlineError(f"cannot read {given}: {getattr(error, 'strerror', None) or error}") from error
    hint = "Write one SELECT over op_shape, with the columns shape_id and at least one of " + ", ".join(_FIGURES) + "."
    try:
        with duckdb.connect() as connection:
            install_macros(connection)
            shape = ", ".join(f'"{column.name}" {column.type}' for column in catalog.get("op_shape").columns)
            connection.execute(f"create table op_shape ({shape})")
            kinds = [statement.type for statement in connection.extract_statements(text)]
            if kinds != [duckdb.StatementType.SELECT]:
                raise HotlineError(f"{given} is not a single SELECT", hint=hint)
            text = text.strip().removesuffix(";")
            names = [row[0] for row in connection.execute(f"describe from (\n{text}\n)").fetchall()]
            if unknown := [name for name in names if name not in _COLUMNS]:
                raise HotlineError(f"{given} has an unknown column {unknown[0]}", hint=f"Use {one_of(list(_COLUMNS))}.")
            if "shape_id" not in names or not set(names) & set(_FIGURES):
                raise HotlineError(f"{given} has no shape_id or no column of work", hint=hint)
            statement = _statement(text, names)
            connection.execute(statement)
    except duckdb.Error as error:
        raise HotlineError(
            f"{given} is not a query over op_shape: {str(error).partition(chr(10))[0]}", hint=hint
        ) from error
    return statement


def _statement(text: str, found: list[str]) -> str:
    columns = []
    for name, otherwise in _COLUMNS.items():
        if name not in found:
            columns.append(f"{otherwise} as {name}")
        elif name == "dtype":
            columns.append("dtype::varchar as dtype")
        elif name == "shape_id":
            columns.append("shape_id::bigint as shape_id")
        else:  # a negative or too large figure is unknown
            columns.append(f"case when given.{name} >= 0 then try_cast(given.{name} as bigint) end as {name}")
    return f"select {', '.join(columns)}, 'user' as evidence from (\n{text}\n) as given where shape_id is not null"  # noqa: S608
