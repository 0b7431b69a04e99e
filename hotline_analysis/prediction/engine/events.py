"""The events of a loop's steps. The edits of a scenario select events with an SQL predicate.

The predicate comes from a user. It runs in a database without access to files or the run, on a connection that sees
only these events. It is parsed as one expression, so it cannot contain statements.
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
    """Return the shared database for predicates. Starting a database takes longer than evaluating a predicate."""
    database = duckdb.connect(config=_LOCKED)
    database.execute("set lock_configuration = true")
    return database


class Events:
    """The rows of the query `editable_event`, and selections by a condition."""

    def __init__(self, trace: Trace, rank: int, start_ns: int, end_ns: int) -> None:
        self._trace = trace
        self._times = {"rank": rank, "start_ns": start_ns, "end_ns": end_ns}
        self._found: dict[str, pl.DataFrame] = {}

    @cached_property
    def frame(self) -> pl.DataFrame:
        """The rows of `editable_event`, asked when first used."""
        return self._trace.query("editable_event", **self._times)

    @cached_property
    def are_on_gpu(self) -> bool:
        """Whether the trace has GPU work of the rank, in any step."""
        rank = self._times["rank"]
        sql = "select exists (from gpu_event where rank = $rank)"
        return bool(self._trace.of(rank).sql(sql, rank=rank).item())

    def where(self, predicate: str) -> pl.DataFrame:
        """Return the events that meet an SQL condition on the columns of `frame`.

        Raises `QueryParameterError` if the text is not a condition.
        """
        if predicate not in self._found:
            self._found[predicate] = self._where(predicate)
        return self._found[predicate]

    def _where(self, predicate: str) -> pl.DataFrame:
        hint = f"A condition is SQL, such as \"name like '%gemm%'\", on {', '.join(self.frame.columns)}."
        try:
            condition = duckdb.SQLExpression(predicate)
            relation = self._table.select(duckdb.ColumnExpression("event_id"), condition.alias("is_chosen"))
            if str(relation.types[1]) != "BOOLEAN":
                raise QueryParameterError(f"{predicate!r} is not a condition: the type is not boolean", hint=hint)
            flags = relation.pl()
        except duckdb.Error as error:
            message = str(error).partition("\n")[0]
            raise QueryParameterError(f"{predicate!r} is not a condition: {message}", hint=hint) from None
        return self.frame.filter(flags["is_chosen"].fill_null(False))

    @cached_property
    def _table(self) -> duckdb.DuckDBPyRelation:
        self._connection = _database().cursor()
        self._connection.register("event", self.frame.to_arrow())
        return self._connection.table("event")

    @cached_property
    def work(self) -> pl.DataFrame:
        """The GPU work among the events."""
        return self.frame.filter(pl.col("class").is_not_null())
