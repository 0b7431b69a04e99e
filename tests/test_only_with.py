"""What `:only_with` says of a query is so: without rows in these tables, it has none. Its columns are the header's."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import duckdb
import pytest

import hotline_analysis as ha
from hotline_analysis import catalog
from hotline_analysis.annotation import pipeline
from tests.campaign import bases
from tests.derive.test_kernel_shape import A100
from tests.derive.test_op_work import CASES, call
from tests.derive.test_steps_of_queries import updating
from tests.trace_builder import TraceBuilder

CONDITIONS = {
    (query.name, sources): query
    for whole in catalog.queries("annotate")
    for query in (*whole.steps, whole)
    for sources in query.only_with
}


def without(connection: duckdb.DuckDBPyConnection, source: str) -> None:
    """Leave out the rows of a source, in a transaction that is rolled back."""
    name, _, where = source.partition(" where ")
    kind = "view" if connection.execute(f"from duckdb_views() where view_name = '{name}'").fetchall() else "table"
    connection.execute(f"alter {kind} {name} rename to whole_{name}")
    connection.execute(f"create temp table {name} as from whole_{name} where not coalesce({where or 'true'}, false)")


def count(connection: duckdb.DuckDBPyConnection, query: catalog.Query) -> int:
    return int(connection.execute(f"select count(*) from ({query.sql})").fetchall()[0][0])


def test_a_query_has_rows_only_with_these_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[tuple[str, tuple[str, ...]], list[tuple[int, int]]] = defaultdict(list)
    derive = pipeline._derive

    def check(connection: duckdb.DuckDBPyConnection, query: catalog.Query) -> None:
        if not query.only_with:
            return
        result = connection.execute(f"describe ({query.sql})").fetchall()
        assert [row[:2] for row in result] == [(column.name, column.type) for column in query.columns], query.name
        whole = count(connection, query)
        for sources in query.only_with:
            connection.execute("begin")
            for source in sources:
                without(connection, source)
            seen[query.name, sources].append((whole, count(connection, query)))
            connection.execute("rollback")

    def checked(connection: duckdb.DuckDBPyConnection, name: str) -> None:
        query = catalog.get(name)
        for step in query.steps:
            check(connection, step)
            pipeline.make_table(connection, step.name, step.sql)
        check(connection, query)
        derive(connection, name)

    monkeypatch.setattr(pipeline, "_derive", checked)
    for name in bases.GENERATED:
        (tmp_path / f"{name}.json").write_text(bases.base(name).text(), encoding="utf-8")
    updating(60, 70).write(tmp_path / "updating.json")
    closure = TraceBuilder().step(0, 0, 100).annotation("Optimizer.step#LBFGS.step", 10, 90)
    closure.op("aten::linear", 20, 30, seq=1).backward("AddmmBackward0", 40, 50, seq=1).write(tmp_path / "closure.json")
    work = TraceBuilder(rank=0, deviceProperties=[A100])
    for at, each in enumerate(CASES):
        call(work, each.name, each.args, 10 * at, 10 * at + 5, **each.recorded)
        work.launches("gemm", 10 * at + 5, 10 * at + 8)
    work.write(tmp_path / "work.json")
    for file in (*tmp_path.iterdir(), bases.DATA / "lstm.json.gz", bases.DATA / "dlrm.json.gz"):
        ha.load(file).close()
    assert seen.keys() == CONDITIONS.keys()
    assert [condition for condition, counts in seen.items() if any(rest for _, rest in counts)] == []
    # each has rows in one of the traces
    assert [condition for condition, counts in seen.items() if not any(whole for whole, _ in counts)] == []
