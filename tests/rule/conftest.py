"""What `:only_with` of a rule says is so: wherever a rule finds something in these tests, it needs these rows."""

from __future__ import annotations

import polars as pl
import pytest

from hotline_analysis import Trace, catalog
from hotline_analysis.answers import rules
from hotline_analysis.answers.limits import TypicalStep


@pytest.fixture(autouse=True)
def only_with_is_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask a rule that finds something again, each time without rows that it says it needs."""
    ask = rules._of_rule

    def checked(
        trace: Trace, rank: int, typical: TypicalStep, rule: catalog.Query
    ) -> tuple[rules.Advice, pl.DataFrame] | None:
        if rule.only_with and not trace.query(rule.name, rank=rank, step=typical.step).is_empty():
            connection = trace._run.connection
            for sources in rule.only_with:
                connection.execute("begin")
                for source in sources:
                    name, _, where = source.partition(" where ")
                    has_none = f"from {name} where not coalesce({where or 'true'}, false)"
                    connection.execute(f"create or replace temp table {name} as {has_none}")
                given = {"rank": rank, "step": typical.step}
                rest = connection.execute(f"select count(*) from ({rule.sql})", given).fetchall()
                connection.execute("rollback")
                assert rest == [(0,)], (rule.name, sources)
        return ask(trace, rank, typical, rule)

    monkeypatch.setattr(rules, "_of_rule", checked)
