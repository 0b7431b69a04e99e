"""Look at a step of a query: the table that exists only while the query runs."""

from __future__ import annotations

import polars as pl

from hotline_analysis import Trace, catalog
from hotline_analysis.database import install_macros, make_table


def step_frame(trace: Trace, query: str, step: str, /, **params: object) -> pl.DataFrame:
    """The rows of one step, after those that it needs. Parameters left out take their defaults."""
    whole = catalog.get(query)
    bound = whole.bind(**params)
    names = [each.name for each in whole.steps]
    trace._run.provide(" ".join(whole.tables))
    trace._run.known.update(install_macros(trace._run.connection, [each.sql for each in whole.steps], trace._run.known))
    with trace._run.connection.cursor() as cursor:
        for each in whole.steps[: names.index(step) + 1]:
            make_table(cursor, each.name, each.sql, {name: bound[name] for name in each.takes})
        frame: pl.DataFrame = cursor.sql(f"from {step}").pl()
        return frame
