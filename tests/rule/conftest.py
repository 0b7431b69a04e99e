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
            for (source,) in rule.only_with:
                name, _, where = source.partition(" where ")
                connection.execute("begin")
                connection.execute(
                    f"create or replace temp table {name} as from {name} where not coalesce({where or 'true'}, false)"
                )
                given = {"rank": rank, "step": typical.step}
                rest = connection.execute(f"select count(*) from ({rule.sql})", given).fetchall()
                connection.execute("rollback")
                assert rest == [(0,)], (rule.name, source)
        return ask(trace, rank, typical, rule)

    monkeypatch.setattr(rules, "_of_rule", checked)
