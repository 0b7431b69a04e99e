"""Who holds the memory, at the peak and over time, with every number by hand."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import hotline_analysis as ha
from tests.answer.memory_traces import captured, training
from tests.answer.steps import step_frame
from tests.trace_builder import TraceBuilder


def test_bytes_and_byte_seconds_add_up(tmp_path: Path) -> None:
    """The time is from 30 us to 530 us. 200 B x 500 us, 40 B x 50 us, 100 B x 200 us, and 1,000 B x 500 us of older."""
    frame = ha.memory_breakdown(training().load(tmp_path))
    found = {
        (row["category"], row["place"], row["evidence"]): (row["bytes"], row["largest_bytes"], row["byte_seconds"])
        for row in frame.iter_rows(named=True)
    }
    assert found == {
        ("unknown", None, "held_throughout"): (1000, 1000, pytest.approx(1000 * 500e-6)),
        ("activation", "Net_0.Linear_0", "forward_to_backward"): (200, 200, pytest.approx(200 * 500e-6)),
        ("activation", "Net_0.Linear_1", "forward_to_backward"): (100, 100, pytest.approx(100 * 200e-6)),
        ("temporary", "Net_0.Linear_1", "before_backward"): (0, 40, pytest.approx(40 * 50e-6)),
    }
    assert set(frame["peak_bytes"]) == {1300}
    assert set(frame["peak_start_ns"]) == {230_000}
    assert frame["bytes"].sum() == 1300
    assert frame["bytes_pct"].sum() == pytest.approx(100) == frame["byte_seconds_pct"].sum()


def test_rows_by_class_category_and_phase(tmp_path: Path) -> None:
    trace = training().load(tmp_path)
    by_class = ha.memory_breakdown(trace, by="type").filter(category="activation")
    assert by_class.select("place", "bytes", "largest_bytes", "block_count").rows() == [("Linear", 300, 300, 2)]
    by_category = ha.memory_breakdown(trace, by="category")
    assert by_category.select("category", "place", "bytes").rows() == [
        ("unknown", None, 1000),
        ("activation", None, 300),
        ("temporary", None, 0),
    ]
    assert set(ha.memory_breakdown(trace, by="phase")["place"]) == {None, "forward"}
    inner = ha.memory_breakdown(trace, module="Net_0.Linear_1")
    assert set(inner["place"]) == {"Net_0.Linear_1"}


def placed(total: int, optimizer: str) -> TraceBuilder:
    trace = TraceBuilder(rank=0, hotline_model=captured()).step(0, 0, 900)
    trace.annotation("## forward ##", 0, 300).op("aten::relu", 20, 90).op("aten::relu", 120, 280)
    trace.memory(8, 130, total=total + 8, device=0, address=2).memory(-8, 180, total=total, device=0, address=2)
    return trace.annotation(f"Optimizer.step#{optimizer}.step", 700, 800)


@pytest.mark.parametrize(
    ("total", "optimizer", "expected"),
    [
        # Adam keeps two numbers for each one of the parameters: 1,400 bytes.
        (2150, "Adam", {("parameter", 700), ("optimizer_state", 1400), ("unknown", 50)}),
        (2099, "Adam", {("parameter", 700), ("unknown", 1399)}),
        # whether SGD keeps momentum is not known
        (2150, "SGD", {("parameter", 700), ("unknown", 1450)}),
        (699, "Adam", {("unknown", 699)}),
    ],
)
def test_what_is_older_than_the_trace(
    tmp_path: Path, total: int, optimizer: str, expected: set[tuple[str, int]]
) -> None:
    trace = placed(total, optimizer).load(tmp_path)
    frame = ha.memory_breakdown(trace, by="category")
    older = frame.filter(frame["bytes"] != 8)
    assert set(older.select("category", "bytes").rows()) == expected
    assert frame["bytes"].sum() == total + 8
    # The answer about the peak by phase says the same.
    key = ["category", "evidence"]
    at_peak = ha.memory_peak(trace).group_by(key).agg(pl.col("bytes").sum())
    assert sorted(at_peak.rows()) == sorted(frame.group_by(key).agg(pl.col("bytes").sum()).rows())


def test_each_module_has_its_own_parameters(tmp_path: Path) -> None:
    frame = ha.memory_breakdown(placed(800, "SGD").load(tmp_path)).filter(category="parameter")
    assert dict(frame.select("place", "bytes").rows()) == {"net": 10, "net.a": 300, "net.b": 390}
    assert set(frame["evidence"]) == {"model_table"}


def test_lines_of_code_have_the_bytes_of_their_modules(tmp_path: Path) -> None:
    """No frame of the user is in the trace, so all modules have one row: 340 bytes, of which 300 are saved."""
    row = ha.slowest_sources(training().load(tmp_path)).row(0, named=True)
    assert (row["source"], row["allocated_bytes"], row["saved_bytes"], row["param_bytes"]) == (None, 340, 300, None)
    row = ha.slowest_sources(placed(800, "SGD").load(tmp_path, "placed.json")).row(0, named=True)
    assert (row["allocated_bytes"], row["saved_bytes"]) == (8, 0)


def test_a_line_has_the_gpu_time_of_forward_and_backward(tmp_path: Path) -> None:
    trace = TraceBuilder().step(0, 0, 900).annotation("## forward ##", 0, 300).module("Linear", 0, 10, 100)
    trace.op("aten::mm", 20, 90, seq=1).launches("gemm", 100, 130)
    trace.annotation("## backward ##", 300, 600).backward("MmBackward0", 400, 500, seq=1).launches("grad", 510, 580)
    row = ha.slowest_sources(trace.load(tmp_path)).row(0, named=True)
    assert (row["gpu_self_ns"], row["forward_gpu_ns"], row["backward_gpu_ns"]) == (100_000, 30_000, 70_000)


def test_the_steps_of_a_trace_with_allocations(tmp_path: Path) -> None:
    """The peak is at 230 us, when blocks 1 and 3 live; 1,000 bytes are older than the trace, of which 700 are known."""
    trace = training(hotline_model=captured()).load(tmp_path)
    moment = step_frame(trace, "memory_breakdown", "asked_moment")
    columns = ("device", "peak_bytes", "peak_ns", "peak_step", "from_ns", "until_ns", "byte_ns", "is_estimated")
    byte_ns = 1000 * (1000 * 500 + 200 * 500 + 40 * 50 + 100 * 200)
    assert moment.select(columns).rows() == [(0, 1300, 230_000, 0, 30_000, 530_000, byte_ns, False)]
    block = step_frame(trace, "memory_breakdown", "asked_block").sort("begins_ns")
    assert block.select("bytes", "category", "at_peak", "byte_ns", "begins_ns", "ends_ns").rows() == [
        (200, "activation", True, 200 * 500_000, 30_000, 530_000),
        (40, "temporary", False, 40 * 50_000, 130_000, 180_000),
        (100, "activation", True, 100 * 200_000, 230_000, 430_000),
    ]
    older = step_frame(trace, "memory_breakdown", "older_memory")
    assert older.select("bytes", "byte_ns", "duration_ns").rows() == [(1000, 1000 * 500_000, 500_000)]
    # Adam keeps two numbers for each parameter: 1,400 bytes, which do not fit into what is older.
    state = trace.sql("select category, evidence, bytes from model_state order by bytes").rows()
    assert state == [("parameter", "model_table", 700), ("optimizer_state", "optimizer_class", 1400)]
    parts = step_frame(trace, "memory_breakdown", "older_part").sort("bytes")
    assert parts.select("category", "evidence", "bytes", "byte_ns").rows() == [
        ("unknown", "held_throughout", 300, 300 * 500_000),
        ("parameter", "model_table", 700, 700 * 500_000),
    ]
    assert step_frame(trace, "memory_breakdown", "estimated_rank").is_empty()
    assert step_frame(trace, "memory_breakdown", "estimated_part").is_empty()


@pytest.mark.filterwarnings("ignore:.*does not fit the trace")
def test_the_steps_of_a_trace_without_allocations(tmp_path: Path) -> None:
    """The table of the model tells 700 bytes of parameters, and Adam's state is twice as much; no shapes."""
    trace = TraceBuilder(rank=0, hotline_model=captured()).step(0, 0, 900)
    trace.annotation("Optimizer.step#Adam.step", 700, 800).op("aten::mm", 10, 20).launches("k", 15, 30)
    opened = trace.load(tmp_path)
    ranks = step_frame(opened, "memory_breakdown", "estimated_rank")
    assert ranks.rows() == [(0, "cuda", 0)]
    parts = step_frame(opened, "memory_breakdown", "estimated_part", by="type").sort("bytes")
    assert parts.select("category", "evidence", "bytes").rows() == [
        ("parameter", "model_table", 700),
        ("optimizer_state", "optimizer_class", 1400),
    ]
    assert step_frame(opened, "memory_breakdown", "older_memory").is_empty()
