"""What `:only_with` says of a query is so: without rows in these tables, it has none. Its columns are the header's.

Each condition is tried until the query has had rows once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import duckdb
import pytest

import hotline_analysis as ha
from hotline_analysis import catalog
from hotline_analysis.annotation import pipeline
from hotline_analysis.database import make_table_of
from hotline_analysis.run import opened as run
from tests.answer.short_paths import two_kernels, two_streams
from tests.campaign import bases
from tests.derive.launch_shapes import A100
from tests.derive.op_work_cases import CASES, call
from tests.derive.updates import clipped, updating
from tests.nsight_whole import whole_export
from tests.trace_builder import TraceBuilder

AS_TEXT = {"JSON": "VARCHAR"}  # which files make of it
CONDITIONS = {
    (query.name, sources): query
    for whole in catalog.queries()
    if whole.kind != "advice"  # rule/conftest.py has those
    for query in (*whole.steps, whole)
    for sources in query.only_with
}


def without(connection: duckdb.DuckDBPyConnection, source: str) -> None:
    """Leave out the rows of a source, in a transaction that is rolled back."""
    name, _, where = source.partition(" where ")
    kind = "view" if connection.execute(f"from duckdb_views() where view_name = '{name}'").fetchall() else "table"
    connection.execute(f"alter {kind} {name} rename to whole_{name}")
    connection.execute(f"create temp table {name} as from whole_{name} where not coalesce({where or 'true'}, false)")


@pytest.mark.slow
def test_a_query_has_rows_only_with_these_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[tuple[str, tuple[str, ...]], list[tuple[int, int]]] = defaultdict(list)

    def checked(
        connection: duckdb.DuckDBPyConnection,
        query: catalog.Query,
        name: str,
        parameters: Mapping[str, object] | None = None,
        has_rows: Mapping[str, bool] | None = None,
        *,
        as_view: bool = False,
    ) -> bool:
        # What is said to be known is so.
        for table in {source.partition(" ")[0] for sources in query.only_with for source in sources}:
            if has_rows and table in has_rows:
                assert connection.execute(f"select exists (from {table})").fetchall() == [(has_rows[table],)], table

        def count() -> int:
            return int(connection.execute(f"select count(*) from ({query.sql})", parameters).fetchall()[0][0])

        open_still = [
            sources for sources in query.only_with if not any(whole for whole, _ in seen[query.name, sources])
        ]
        if open_still:
            result = connection.execute(f"describe ({query.sql})", parameters).fetchall()
            made = [(name, AS_TEXT.get(kind, kind)) for name, kind, *_ in result]
            said = [(column.name, AS_TEXT.get(column.type, column.type)) for column in query.columns]
            assert made == said, query.name
            whole = count()
        for sources in open_still:
            connection.execute("begin")
            for source in sources:
                without(connection, source)
            seen[query.name, sources].append((whole, count()))
            connection.execute("rollback")
        return make_table_of(connection, query, name, parameters, has_rows, as_view=as_view)

    monkeypatch.setattr(pipeline, "make_table_of", checked)
    monkeypatch.setattr(run, "make_table_of", checked)
    for name in bases.GENERATED:
        (tmp_path / f"{name}.json").write_text(bases.base(name).text(), encoding="utf-8")
    updating(60, 70).write(tmp_path / "updating.json")
    clipped().write(tmp_path / "clipped.json")
    waiting = TraceBuilder(rank=1, world_size=2).step(0, 0, 1000).op("c10d::recv_", 10, 20).op("aten::mm", 502, 990)
    waiting.on(5).annotation("gloo:recv", 12, 500).write(tmp_path / "waiting.json")
    starting = TraceBuilder().step(0, 0, 50).op("aten::empty", 1, 10).runtime("cudaMalloc", 2, 9)
    starting.write(tmp_path / "starting.json")
    two_kernels().write(tmp_path / "two_kernels.json")
    for recorded in (True, False):
        two_streams(recorded=recorded).write(tmp_path / f"two_streams_{recorded}.json")
    full = TraceBuilder().step(0, 0, 60_000)  # a thread launches as far ahead of the GPU as it can (`most_pending`)
    for number in range(1_100):
        at = 2 * number + (3_000 + 50 * (number - 1_025) if number > 1_025 else 0)
        full.op("aten::mul", at, at + 1).launches("k", 3_000 + 50 * number, 3_050 + 50 * number)
    full.write(tmp_path / "full.json")
    own = TraceBuilder().step(0, 0, 100).op("aten::mm", 1, 60).launches("gemm", 52, 60, at=2, until=50)
    own.event(ph="X", cat="overhead", name="Activity Buffer Request", pid=-1, tid=0, ts=3, dur=40)
    own.write(tmp_path / "own.json")
    closure = TraceBuilder().step(0, 0, 100).annotation("Optimizer.step#LBFGS.step", 10, 90)
    closure.op("aten::linear", 20, 30, seq=1).backward("AddmmBackward0", 40, 50, seq=1).write(tmp_path / "closure.json")
    work = TraceBuilder(rank=0, deviceProperties=[A100])
    for at, each in enumerate(CASES):
        call(work, each.name, each.args, 10 * at, 10 * at + 5, **each.recorded)
        work.launches("gemm", 10 * at + 5, 10 * at + 8)
    work.write(tmp_path / "work.json")
    whole_export(tmp_path / "nsight.sqlite")
    for file in (*tmp_path.iterdir(), bases.DATA / "lstm.json.gz", bases.DATA / "dlrm.json.gz"):
        with ha.load(file) as trace:
            for step in ha.steps(trace)["step"][:1]:
                ha.dependency_graph(trace, rank=trace.ranks[0], step=step, until="work")
    assert seen.keys() == CONDITIONS.keys()
    assert [condition for condition, counts in seen.items() if any(rest for _, rest in counts)] == []
    # each has rows in one of the traces
    assert [condition for condition, counts in seen.items() if not any(whole for whole, _ in counts)] == []
