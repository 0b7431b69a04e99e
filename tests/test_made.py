"""A trace of which only what is asked for is made is as the trace of an import."""

from __future__ import annotations

from pathlib import Path

import pytest

from hotline_analysis import HotlineWarning, Trace, catalog, report
from hotline_analysis.annotation import pipeline
from hotline_analysis.annotation.pipeline import PIPELINE, Work
from hotline_analysis.answers.rules import find_advice
from hotline_analysis.schema import TABLES
from tests import made, runs
from tests.query_arguments import SHAPES, training
from tests.trace_builder import TraceBuilder


def without_marks() -> TraceBuilder:
    """Three rounds of a copy from the host, an op with shapes, and its gradient; nothing marks the steps."""
    trace = TraceBuilder(rank=3)
    for at in (0, 1000, 2000):
        trace.on(1).op("aten::copy_", at, at + 10).launches("copy", at + 20, at + 30, category="gpu_memcpy", nbytes=64)
        trace.op("aten::addmm", at + 100, at + 140, **SHAPES).launches("gemm", at + 150, at + 200)
        trace.on(2).op("autograd::engine::evaluate_function: AddmmBackward0", at + 300, at + 400)
        trace.op("AddmmBackward0", at + 300, at + 400).launches("gemm_grad", at + 410, at + 450)
    return trace


def crossing() -> TraceBuilder:
    """An annotation that ends within a frame, and ops that cross each other."""
    trace = TraceBuilder().step(1, 0, 100).frame("main", 0, 90).annotation("note", 10, 50).frame("inner", 40, 60)
    return trace.on(2).op("aten::mm", 0, 50).op("aten::add", 40, 60)


def told_by_a_model() -> TraceBuilder:
    trace = TraceBuilder(rank=0).step(0, 0, 100)
    trace.top["hotline_model"] = [{"name": "linear", "type": "Linear"}, {"name": "relu", "type": "ReLU"}]
    return trace.op("aten::linear", 0, 8).op("aten::relu", 10, 18)


BUILT = {"training": training, "without marks": without_marks, "crossing": crossing}


def same(trace: Trace, imported: Trace, *names: str) -> None:
    for name in names:
        made_rows, rows = trace.table(name), imported.table(name)
        if TABLES[name].kind == "view":  # a run has the table as a view over the wide tables, in the order of the file
            made_rows, rows = made_rows.sort("event_id"), rows.sort("event_id")
        assert made_rows.equals(rows), name


@pytest.mark.parametrize("name", BUILT)
def test_each_table_is_that_of_an_import(name: str, tmp_path: Path) -> None:
    """Asked for one by one, each as soon as what it follows from is there. Views follow from the tables."""
    file = BUILT[name]().write(tmp_path / "trace.json")
    in_order = [str(catalog.get(query).writes) for stage in PIPELINE for query in stage.queries]
    tables = [table.name for table in TABLES.values() if table.kind != "view"]
    tables.sort(key=lambda table: in_order.index(table) if table in in_order else -1)
    with made.opened(file) as trace:
        assert isinstance(trace, made.Made)
        imported = runs.opened(file)
        assert trace.ranks == imported.ranks
        same(trace, imported, *tables, "nesting", "label", "launch")


def test_what_only_an_import_can_tell_is_imported(tmp_path: Path) -> None:
    """A model that is placed, and what was wrong with the file."""
    with made.opened(told_by_a_model().write(tmp_path / "model.json")) as trace:
        assert not isinstance(trace, made.Made)
    damaged = tmp_path / "damaged.json"
    damaged.write_text(training().text()[:-200])
    with pytest.warns(HotlineWarning), made.opened(damaged) as trace:
        assert not isinstance(trace, made.Made)


def test_a_table_that_stands_before_others_is_that_of_an_import(tmp_path: Path) -> None:
    """A stage has then to go before those that are done."""
    file = without_marks().write(tmp_path / "trace.json")
    with made.opened(file) as trace:
        same(trace, runs.opened(file), "rank_summary", "op_work", "step", "nesting")


@pytest.mark.parametrize("name", ["step", "label", "estimated_memory", "op_claim"])
def test_a_table_alone_is_that_of_an_import(name: str, tmp_path: Path) -> None:
    """Nothing is missing of what it follows from, by queries and by Python."""
    file = without_marks().write(tmp_path / "trace.json")
    with made.opened(file) as trace:
        same(trace, runs.opened(file), name)


def test_what_is_not_asked_for_is_not_made(tmp_path: Path) -> None:
    with made.opened(training().write(tmp_path / "trace.json")) as trace:
        assert isinstance(trace, made.Made)
        trace.table("nesting")
        found = trace.annotation.connection.sql("select table_name from duckdb_tables()").fetchall()
        there = {name for (name,) in found}
        assert "nesting" in there
        assert "phase_span" not in there


def test_a_report_which_asks_in_several_threads_is_that_of_an_import(tmp_path: Path) -> None:
    file = training().write(tmp_path / "trace.json")
    with made.opened(file) as trace:
        assert report(trace).to_text() == report(runs.opened(file)).to_text().replace("run.hotline", trace.path.name)


def test_advice_which_asks_for_many_tables_makes_each_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table of an early stage can be asked for last, unless a later stage has made what it follows from again."""
    begun: list[Work] = []

    def counted(work: Work) -> Work:
        begun.append(work)
        return pipeline.begin(work)

    monkeypatch.setattr(made, "begin", counted)
    with made.opened(training().write(tmp_path / "trace.json")) as trace:
        find_advice(trace, rules=("python_overhead",))
        assert isinstance(trace, made.Made)
        assert len(trace.annotation._done) > 20
    assert len(begun) == 1
