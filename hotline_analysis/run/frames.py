"""The rows of a statement as a frame."""

from __future__ import annotations

import re
from collections.abc import Mapping

import duckdb
import polars as pl

from hotline_analysis.database import rows_of

_WIDE = re.compile(r"\bU?HUGEINT\b")  # integers of 128 bits

# The database's types whose Python values become a column of a frame directly.
_TYPES: Mapping[str, pl.DataType | type[pl.DataType]] = {
    "BIGINT": pl.Int64,
    "INTEGER": pl.Int32,
    "SMALLINT": pl.Int16,
    "TINYINT": pl.Int8,
    "UBIGINT": pl.UInt64,
    "UINTEGER": pl.UInt32,
    "USMALLINT": pl.UInt16,
    "UTINYINT": pl.UInt8,
    "DOUBLE": pl.Float64,
    "FLOAT": pl.Float32,
    "BOOLEAN": pl.Boolean,
    "VARCHAR": pl.String,
    "JSON": pl.String,
    "HUGEINT": pl.Int64,  # the sum of integers; larger ones take the other way
}
_MOST_BIGINT = (1 << 63) - 1
# Most answers have fewer rows. Up to this number, values in Python take less time than a copy through Arrow.
_FEW_ROWS = 200


def fetched(
    connection: duckdb.DuckDBPyConnection, query: str | duckdb.Statement, parameters: Mapping[str, object]
) -> pl.DataFrame | None:
    """Run a statement and return its rows; None for values or equal names that only a relation can convert.

    Few rows come as Python values, so neither Arrow nor numpy is imported.
    """
    connection.execute(query, dict(parameters) if parameters else None)
    columns = connection.description or []
    kinds = {str(name): str(kind) for name, kind, *_ in columns}
    types = {name: _type_of(kind) for name, kind in kinds.items()}
    has_duplicates = len(kinds) < len(columns)
    wide = [number for number, kind in enumerate(kinds.values()) if _WIDE.search(kind)]
    is_simple = None not in types.values() and not has_duplicates
    if not is_simple and not wide and not has_duplicates:
        return pl.DataFrame(rows_of(connection))
    rows = connection.fetchmany(_FEW_ROWS + 1) if is_simple else []
    has_more = len(rows) > _FEW_ROWS
    is_too_wide = has_more or any(abs(row[number] or 0) > _MOST_BIGINT for row in rows for number in wide)
    if not is_simple or (wide and is_too_wide):
        connection.abort()
        return None
    frame = pl.DataFrame(rows, schema=types, orient="row")
    return pl.concat([frame, pl.DataFrame(rows_of(connection))]) if has_more else frame


def _type_of(kind: str) -> pl.DataType | type[pl.DataType] | None:
    if kind.endswith("[]"):
        inner = _type_of(kind.removesuffix("[]"))
        return None if inner is None or _WIDE.search(kind) else pl.List(inner)
    return _TYPES.get(kind)


def frame_of(relation: duckdb.DuckDBPyRelation) -> pl.DataFrame:
    """The rows of a relation.

    Sums of integers have 128 bits. They become 64-bit integers where all values fit.
    """
    kinds = [str(kind) for kind in relation.types]
    if any(map(_WIDE.search, kinds)):
        # A frame holds 38 digits. Without the cast, a longer number would silently change.
        relation = relation.project(
            ", ".join(
                f"#{number}::{_WIDE.sub('decimal(38, 0)', kind)} as {_quote_name(name)}"
                for number, (name, kind) in enumerate(zip(relation.columns, kinds, strict=True), start=1)
            )
        )
    frame: pl.DataFrame = relation.pl()
    for name, kind in frame.schema.items():
        if isinstance(kind, pl.Decimal) and kind.scale == 0:
            integers = frame[name].cast(pl.Int64, strict=False)
            if integers.null_count() == frame[name].null_count():
                frame = frame.with_columns(integers)
    return frame


def _quote_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
