"""Rules for the work of one's own ops, given at import."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import hotline_analysis as ha
from hotline_analysis.errors import HotlineError
from tests.trace_builder import TraceBuilder

LINEAR: dict[str, Any] = {
    "Input Dims": [[32, 16, 64], [128, 64], [], [128]],
    "Input type": ["c10::BFloat16", "c10::BFloat16", "", "c10::BFloat16"],
}
PRODUCT: dict[str, Any] = {"Input Dims": [[8, 4], [4, 2]], "Input type": ["float", "float"]}
RULES = "name,family,roles\nmylib::scaled_linear,linear,a=0 b=1 c=3\naten::mm,pointwise,\n"


def written(folder: Path) -> Path:
    trace = TraceBuilder().op("mylib::scaled_linear", 0, 10, **LINEAR).op("aten::mm", 20, 30, **PRODUCT)
    return trace.write(folder / "trace.json")


def test_the_rules_of_the_user_come_first(tmp_path: Path) -> None:
    (tmp_path / "rules.csv").write_text(RULES, encoding="utf-8")
    trace = ha.load(written(tmp_path), op_signatures=tmp_path / "rules.csv")
    work = trace.sql("select family, matrix_flop, vector_flop, bytes from op_work order by event_id").rows()
    rows, elements = 32 * 16, 32 * 16 * 128
    moved = 2 * (32 * 16 * 64 + 128 * 64 + elements + 128)
    assert work[0] == ("linear", 2 * rows * 128 * 64, elements, moved)
    assert work[1][0] == "pointwise"
    # A run has the rules that it was imported with.
    assert trace.sql("select name from op_signature order by position")["name"].to_list() == [
        "mylib::scaled_linear",
        "aten::mm",
    ]


def test_without_them_an_op_of_the_user_has_no_work(tmp_path: Path) -> None:
    assert ha.load(written(tmp_path)).sql("select family from op_work").rows() == [("gemm",)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a,b\n1,2\n", "is not a table of ops"),
        ("", "is not a table of ops"),
        ("name,family,roles\n,gemm,a=0 b=1\n", "has no name"),
        ("name,family,roles\nx,matrix,a=0 b=1\n", "'matrix' is not a family of ops"),
        ("name,family,roles\nx,gemm,first and second\n", "is not a list of roles for the arguments of x"),
        ("name,family,roles\nx,gemm,a=-1\n", "is not a list of roles for the arguments of x"),
        ("name,family,roles\nx,gemm\n", "is not a table of ops"),
    ],
)
def test_mistakes_are_told(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "rules.csv").write_text(text, encoding="utf-8")
    with pytest.raises(HotlineError, match=said):
        ha.load(written(tmp_path), op_signatures=tmp_path / "rules.csv")


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(HotlineError, match="cannot read"):
        ha.load(written(tmp_path), op_signatures=tmp_path / "none.csv")


def test_a_run_is_imported_already(tmp_path: Path) -> None:
    run = ha.import_traces(written(tmp_path), tmp_path / "run")
    with pytest.raises(HotlineError, match="is already imported"):
        ha.load(run, op_signatures=[("x", "gemm", "a=0 b=1")])
