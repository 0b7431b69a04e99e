"""The answer `longest_events`: which events a figure is made of."""

from pathlib import Path

import polars as pl
import pytest

import hotline_analysis as ha
from hotline_analysis import Trace
from tests.runs import opened
from tests.trace_builder import TraceBuilder

DATA = Path(__file__).parents[1] / "data"


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    built = TraceBuilder()
    for step in (0, 1):
        at = 1000 * step
        built.step(step, at, at + 1000)
        built.op("aten::linear", at + 10, at + 40 + step)
        built.op("aten::addmm", at + 15, at + 35).launches(
            "void gemm<float>(int)", at + 100, at + 300 + step, at=at + 20
        )
        built.op("aten::relu", at + 50, at + 60).launches("relu", at + 400, at + 450, at=at + 52)
    return built.load(tmp_path_factory.mktemp("longest"))


def durations(frame: pl.DataFrame) -> list[tuple[str, int]]:
    return list(zip(frame["name"], frame["dur_ns"], strict=True))


def test_the_longest_come_first(trace: Trace) -> None:
    assert durations(ha.longest_events(trace, 3)) == [
        ("void gemm<float>(int)", 201_000),
        ("void gemm<float>(int)", 200_000),
        ("relu", 50_000),
    ]
    assert durations(ha.longest_events(trace, 2, side="cpu")) == [("aten::linear", 31_000), ("aten::linear", 30_000)]


def test_what_is_asked_for(trace: Trace) -> None:
    of_op = ha.longest_events(trace, op="aten::addmm", step=1)
    assert durations(of_op)[:2] == [("void gemm<float>(int)", 201_000), ("aten::addmm", 20_000)]
    assert set(of_op["op"]) == {"aten::addmm"}
    assert durations(ha.longest_events(trace, kernel="gemm")) == durations(ha.longest_events(trace, 2, side="gpu"))
    assert set(ha.longest_events(trace, step=0)["step"]) == {0}


def test_each_row_of_the_headline_answers_leads_to_events() -> None:
    with opened(DATA / "cnn.json.gz") as run:
        for step in ha.steps(run)["step"]:
            assert not ha.longest_events(run, 1, step=step).is_empty()
        for phase in ha.phases(run).filter(pl.col("phase") != "other")["phase"]:
            assert set(ha.longest_events(run, 1, phase=phase)["phase"]) <= {phase}
        for path in ha.slowest_modules(run, 100, sort="cpu_self").filter(pl.col("cpu_self_ns") > 0)["path"]:
            found = ha.longest_events(run, 1, module=path)
            assert found["module_path"][0].startswith(path)
        for op, total in ha.slowest_ops(run, 5).select("name", "cpu_total_ns").iter_rows():
            of_op = ha.longest_events(run, 10_000, op=op, side="cpu")
            assert of_op.filter(name=op)["dur_ns"].sum() == total
