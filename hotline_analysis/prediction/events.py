"""The events of a loop's steps, from which the edits of a scenario choose by an SQL predicate.

The predicate comes from a user. It runs in a database that can reach neither files nor the run, over a connection that
sees these events and nothing else. It is parsed as one expression, so it can be no statement, and no more than one.
"""

from __future__ import annotations

from functools import cache, cached_property

import duckdb
import polars as pl

from hotline_analysis.database import SETTINGS
from hotline_analysis.errors import QueryParameterError
from hotline_analysis.run.trace import Trace

_LOCKED = {**SETTINGS, "enable_external_access": "false", "python_enable_replacements": "false"}


@cache
def _database() -> duckdb.DuckDBPyConnection:
    """The database of all predicates; each user of it has a connection. To start one takes longer than a predicate."""
    database = duckdb.connect(config=_LOCKED)
    database.execute("set lock_configuration = true")
    return database


class Events:
    """The rows of the query `editable_event`, and what of them meets a condition."""

    def __init__(self, trace: Trace, rank: int, start_ns: int, end_ns: int) -> None:
        self.frame = trace.query("editable_event", rank=rank, start_ns=start_ns, end_ns=end_ns)
        self._found: dict[str, pl.DataFrame] = {}

    def where(self, predicate: str) -> pl.DataFrame:
        """The events that meet an SQL condition on the columns of `frame`.

        Raises `QueryParameterError` for text that is no condition.
        """
        if predicate not in self._found:
            self._found[predicate] = self._where(predicate)
        return self._found[predicate]

    def _where(self, predicate: str) -> pl.DataFrame:
        hint = f"A condition is SQL, such as \"name like '%gemm%'\", on {', '.join(self.frame.columns)}."
        try:
            condition = duckdb.SQLExpression(predicate)
            answered = self._table.select(duckdb.ColumnExpression("event_id"), condition.alias("is_chosen"))
            if str(answered.types[1]) != "BOOLEAN":
                raise QueryParameterError(f"{predicate!r} is no condition: it is not true or false", hint=hint)
            found = answered.pl()
        except duckdb.Error as error:
            what = str(error).partition("\n")[0]
            raise QueryParameterError(f"{predicate!r} is no condition: {what}", hint=hint) from None
        return self.frame.filter(found["is_chosen"].fill_null(False))

    @cached_property
    def _table(self) -> duckdb.DuckDBPyRelation:
        self._connection = _database().cursor()
        self._connection.register("event", self.frame.to_arrow())
        return self._connection.table("event")

    @cached_property
    def work(self) -> pl.DataFrame:
        """Those that are GPU work."""
        return self.frame.filter(pl.col("class").is_not_null())
