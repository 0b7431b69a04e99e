"""A query of one's own for the work of ops, given at import."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import hotline_analysis as ha
from hotline_analysis.errors import HotlineError
from tests.trace_builder import TraceBuilder

SCANNED: dict[str, Any] = {"Input Dims": [[32, 16], []], "Input type": ["float", "Scalar"]}
PRODUCT: dict[str, Any] = {"Input Dims": [[8, 4], [4, 2]], "Input type": ["float", "float"]}
RULES = [("mylib::scan", "own", "")]
QUERY = """
-- five operations for each element
select shape_id, 0 as matrix_flop, 5 * counts[1] as vector_flop, 2 * counts[1] * item_bytes[1] as bytes
from op_shape where name = 'mylib::scan';
"""


def worked(folder: Path, query: str) -> list[tuple[Any, ...]]:
    """The work of a scan of 512 elements and of a product, with a query of the user's."""
    trace = TraceBuilder().op("mylib::scan", 0, 10, **SCANNED).op("aten::mm", 20, 30, **PRODUCT)
    (folder / "own.sql").write_text(query, encoding="utf-8")
    with ha.load(trace.write(folder / "trace.json"), op_signatures=RULES, op_work=folder / "own.sql") as loaded:
        columns = "family, matrix_flop, model_flop, vector_flop, bytes, evidence"
        return loaded.sql(f"select {columns} from op_work order by event_id").rows()


def test_it_counts_what_no_formula_does(tmp_path: Path) -> None:
    assert worked(tmp_path, QUERY) == [
        ("own", 0, 0, 5 * 512, 2 * 512 * 4, "user"),
        ("gemm", 2 * 8 * 4 * 2, 2 * 8 * 4 * 2, 0, 4 * (8 * 4 + 4 * 2 + 8 * 2), "shapes"),
    ]


def test_it_counts_instead_of_a_formula(tmp_path: Path) -> None:
    """A negative number is none."""
    query = "select shape_id, if(name = 'aten::mm', 7, -7) as bytes from op_shape"
    assert worked(tmp_path, query) == [("gemm", None, None, None, 7, "user")]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("", "is not a single SELECT"),
        ("select 1 as shape_id, 2 as bytes; select 3", "is not a single SELECT"),
        ("copy (select 1) to 'stolen.csv'", "is not a single SELECT"),
        ("select shape_id, dtypes from op_shape", "has an unknown column dtypes"),
        ("select shape_id, 1 as m from op_shape", "has no shape_id or no column of work"),
        ("select 1 as bytes from op_shape", "has no shape_id or no column of work"),
        ("select shape_id, size as bytes from op_shape", "is not a query over op_shape"),
        ("select shape_id, [1] as bytes from op_shape", "is not a query over op_shape"),
        ("select shape_id, 1 as bytes from op_shape, range(2)", "has two rows for a shape"),
        ("select shape_id, error('no') as bytes from op_shape", "the query for the work of ops failed: .*no"),
    ],
)
def test_mistakes_are_told(tmp_path: Path, query: str, said: str) -> None:
    with pytest.raises(HotlineError, match=said):
        worked(tmp_path, query)
    assert not Path("stolen.csv").exists()


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(HotlineError, match=r"cannot read .*no\.sql"):
        ha.load(TraceBuilder().op("a", 0, 1).write(tmp_path / "trace.json"), op_work=tmp_path / "no.sql")


def test_a_run_has_the_work_that_it_was_imported_with(tmp_path: Path) -> None:
    (tmp_path / "own.sql").write_text(QUERY, encoding="utf-8")
    run = ha.import_traces(TraceBuilder().op("a", 0, 1).write(tmp_path / "t.json"), tmp_path / "run")
    with pytest.raises(HotlineError, match="is already imported"):
        ha.load(run, op_work=tmp_path / "own.sql")


def test_each_process_of_an_import_has_it(tmp_path: Path, in_processes: None) -> None:
    (tmp_path / "own.sql").write_text(QUERY, encoding="utf-8")
    for rank in (0, 1):
        TraceBuilder(rank=rank).op("mylib::scan", 0, 10, **SCANNED).write(tmp_path / f"rank{rank}.json")
    files = [tmp_path / "rank0.json", tmp_path / "rank1.json"]
    with ha.load(files, op_signatures=RULES, op_work=tmp_path / "own.sql") as trace:
        assert trace.sql("select rank, vector_flop from op_work order by rank").rows() == [(0, 2560), (1, 2560)]
