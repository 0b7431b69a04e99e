"""The answers `gpu_parts` and `cpu_parts`, and the view `region_segment`, with every number by hand."""

from pathlib import Path

import polars as pl
import pytest

import hotline_analysis as ha
from hotline_analysis import Trace
from tests.trace_builder import TraceBuilder


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    """One step of 100 us. The GPU computes from 10 to 30, sends from 20 to 50, and copies from 40 to 60."""
    built = TraceBuilder(rank=0).step(3, 0, 100).annotation("## forward ##", 0, 20)
    built.op("aten::mm", 2, 12).launches("gemm", 10, 30, at=4, until=5)
    built.annotation("## inner ##", 12, 18)
    built.op("c10d::allreduce_", 13, 17).launches("ncclDevKernel_AllReduce", 20, 50, stream=9, at=14, until=15)
    built.op("aten::copy_", 30, 40).launches(
        "Memcpy", 40, 60, category="gpu_memcpy", call="cudaMemcpyAsync", stream=8, at=31, until=32
    )
    return built.load(tmp_path_factory.mktemp("parts"))


def test_regions(trace: Trace) -> None:
    found = trace.sql("select region, start_ns // 1000, end_ns // 1000 from region_segment order by start_ns")
    assert found.rows() == [
        ("## forward ##", 0, 2),
        ("## forward ##", 2, 12),
        ("## inner ##", 12, 13),
        ("## inner ##", 13, 17),
        ("## inner ##", 17, 18),
        ("## forward ##", 18, 20),
        ("aten::copy_", 30, 40),
    ]


def test_steps_and_collective_calls_are_no_regions(tmp_path: Path) -> None:
    built = TraceBuilder(rank=0).step(0, 0, 50).annotation("## train ##", 5, 30).annotation("nccl:all_reduce", 10, 20)
    built.on(2).op("autograd::engine::evaluate_function: MmBackward0", 10, 20).op("aten::mm", 12, 15)
    found = built.load(tmp_path).sql("select distinct region from region_segment order by 1")
    assert found["region"].to_list() == ["## train ##", "MmBackward0"]


def test_gpu_parts_count_overlap_once(trace: Trace) -> None:
    found = ha.gpu_parts(trace).filter(pl.col("count") > 0)
    assert found.drop("phase", "module_path", "kernel").rows() == [
        # rank, step, part, region, op, count, by a graph, time, duration
        (0, 3, "communication", "## inner ##", "c10d::allreduce_", 1, 0, 20_000, 30_000),  # not while computing
        (0, 3, "computation", "## forward ##", "aten::mm", 1, 0, 20_000, 20_000),
        (0, 3, "memory", "aten::copy_", "aten::copy_", 1, 0, 10_000, 20_000),  # from 50 on
    ]


def test_gpu_parts_fill_the_observed_time(trace: Trace) -> None:
    found = ha.gpu_parts(trace)
    assert found["time_ns"].sum() == 100_000
    idle = found.filter(pl.col("part").str.starts_with("idle"))
    assert idle["time_ns"].sum() == 10_000 + 40_000
    # The device waits for the first kernel until its launch begins at 4 and takes effect at 10.
    first = idle.filter(pl.col("region") == "## forward ##")
    assert first["time_ns"].sum() == 10_000
    assert first["op"].unique().to_list() == ["aten::mm"]


def test_gpu_parts_of_one_class_count_to_the_first(tmp_path: Path) -> None:
    built = TraceBuilder(rank=0).step(0, 0, 100).op("a", 0, 10).launches("one", 10, 40)
    built.op("b", 20, 30).launches("two", 30, 60, stream=8)
    found = ha.gpu_parts(built.load(tmp_path)).filter(pl.col("count") > 0).select("op", "time_ns", "dur_ns")
    assert found.rows() == [("a", 30_000, 30_000), ("b", 20_000, 30_000)]


def test_gpu_parts_know_graphs_and_what_no_step_launched(tmp_path: Path) -> None:
    built = TraceBuilder(rank=0).step(0, 0, 100).op("CompiledFunction", 0, 10)
    built.runtime("cudaGraphLaunch", 2, 4, correlation=77)
    built.kernel("one", 10, 20, correlation=77).kernel("two", 20, 40, correlation=77)
    built.kernel("early", 1, 2, correlation=5)
    found = ha.gpu_parts(built.load(tmp_path)).filter(pl.col("count") > 0)
    assert found.select("step", "op", "kernel", "graph_count", "time_ns").rows() == [
        (0, "CompiledFunction", "one", 1, 10_000),
        (0, "CompiledFunction", "two", 1, 20_000),
        (None, None, "early", 0, 1_000),
    ]


def test_gpu_parts_of_one_device(tmp_path: Path) -> None:
    built = TraceBuilder(rank=0).step(0, 0, 100).op("a", 0, 10)
    built.launches("one", 10, 40, device=0).launches("two", 10, 30, device=1)
    loaded = built.load(tmp_path)
    assert ha.gpu_parts(loaded)["time_ns"].sum() == 200_000
    second = ha.gpu_parts(loaded, device=1)
    assert second["time_ns"].sum() == 100_000
    assert second.filter(pl.col("count") > 0)["time_ns"].to_list() == [20_000]


def test_cpu_parts_cut_at_ops_modules_and_phases(tmp_path: Path) -> None:
    """The outer op has its own time alone; a module's python counts to the module."""
    built = TraceBuilder(rank=0).step(0, 0, 100).module("Net", 0, 10, 60).module("Linear", 0, 20, 50)
    built.op("aten::linear", 25, 45).op("aten::addmm", 30, 40).on(2).op("elsewhere", 5, 90)
    found = ha.cpu_parts(built.load(tmp_path))
    inside = found.filter(pl.col("module_path").is_not_null()).select("module_path", "op", "count", "time_ns")
    assert inside.sort("module_path", "op").rows() == [
        ("Net_0", None, 0, 20_000),  # 10 to 20, 50 to 60
        ("Net_0.Linear_0", None, 0, 10_000),  # 20 to 25, 45 to 50
        ("Net_0.Linear_0", "aten::addmm", 1, 10_000),
        ("Net_0.Linear_0", "aten::linear", 1, 10_000),
    ]
    assert found["time_ns"].sum() == 100_000
    assert set(found.filter(pl.col("op").is_null())["part"]) == {"outside ops"}


def test_cpu_parts_give_no_time_to_ops_without_duration(tmp_path: Path) -> None:
    """One alone in an op, one beside an op that starts at the same time, one at the end of an op."""
    built = TraceBuilder(rank=0).step(3, 0, 100).op("outer", 10, 50).op("alone", 20, 20)
    built.op("beside", 30, 30).op("inner", 30, 40).op("last", 60, 70).op("end", 70, 70).kernel("k", 0, 1)
    found = ha.cpu_parts(built.load(tmp_path)).group_by("op").agg(pl.col("count", "time_ns").sum())
    assert {op: (count, time // 1000) for op, count, time in found.rows()} == {
        None: (0, 50),
        "outer": (1, 30),
        "alone": (1, 0),
        "beside": (1, 0),
        "inner": (1, 10),
        "last": (1, 10),
        "end": (1, 0),
    }
