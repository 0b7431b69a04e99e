"""Kernels by class, name, op and module, and how they are launched, by hand on a built trace."""

from __future__ import annotations

import statistics
from pathlib import Path

import polars as pl
import pytest

import hotline_analysis as ha
from hotline_analysis import Trace
from hotline_analysis.errors import QueryParameterError
from tests.trace_builder import TraceBuilder

NCCL = "ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*)"


def launching(rank: int = 0, factor: int = 1) -> TraceBuilder:
    """A step of 1000 µs with every kind of launch; on the second rank kernels take longer."""
    trace = TraceBuilder(rank=rank).step(0, 0, 1000)
    trace.module("Net", 0, 5, 300).module("Linear", 0, 8, 100)
    trace.op("aten::mm", 10, 90)
    trace.launches("ampere_sgemm_128x64_nn", 20, 20 + 10 * factor, at=12, until=16)
    trace.launches("ampere_sgemm_32x32_nn", 60, 60 + 30 * factor, at=18, until=22)
    trace.op("aten::relu", 150, 250).launches("relu", 200, 202, at=160, until=170)
    # a call of 60 us, whose work starts 150 us after it
    trace.op("c10d::allreduce_", 300, 400).launches(NCCL, 530, 630, at=320, until=380, stream=9)
    trace.op("aten::copy_", 640, 660)
    trace.launches("copy", 700, 720, at=642, until=650, category="gpu_memcpy", call="hipMemcpyAsync")
    # one graph of two kernels
    trace.op("graph", 730, 760).runtime("cudaGraphLaunch", 732, 752, correlation=500)
    trace.kernel("a", 760, 764, correlation=500).kernel("b", 764, 768, correlation=500)
    trace.op("triton", 800, 820).runtime("cuLaunchKernelEx", 802, 806, correlation=501, category="cuda_driver")
    trace.kernel("triton_poi_fused_add_0", 806, 810, correlation=501)
    return trace


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    return launching().load(tmp_path_factory.mktemp("launching"))


@pytest.fixture(scope="module")
def two_ranks(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    folder = tmp_path_factory.mktemp("two_ranks")
    for rank in (0, 1):
        launching(rank, rank + 1).write(folder / f"rank{rank}.json")
    return ha.load(folder)


def rows(frame: pl.DataFrame, *columns: str) -> list[tuple[object, ...]]:
    """Rows with times in microseconds."""
    return frame.select(pl.col(name) / 1000 if name.endswith("_ns") else pl.col(name) for name in columns).rows()


def test_classes(trace: Trace) -> None:
    found = ha.kernel_breakdown(trace, by="class")
    assert rows(found, "key", "count", "gpu_time_ns") == [
        ("communication", 1, 100),
        ("computation", 6, 10 + 30 + 2 + 4 + 4 + 4),
        ("memory", 1, 20),
    ]
    assert found["gpu_time_pct"].sum() == pytest.approx(100)


def test_short_names_put_tile_sizes_together(trace: Trace) -> None:
    found = ha.kernel_breakdown(trace, kernel_class="computation")
    assert rows(found, "key", "class", "count", "mean_ns", "min_ns", "median_ns", "max_ns")[0] == (
        "sgemm_nn",
        "computation",
        2,
        20,
        10,
        10,
        30,
    )
    assert found["std_ns"][0] == pytest.approx(statistics.stdev([10_000, 30_000]))
    assert found.filter(key="relu")["std_ns"].item() == 0
    assert ha.kernel_breakdown(trace, 2)["key"].to_list() == ["nccl_AllReduce_RING_LL_Sum_float", "sgemm_nn"]
    assert ha.kernel_breakdown(trace, by="name").height == 8


def test_ops_and_modules(trace: Trace) -> None:
    ops = dict(ha.kernel_breakdown(trace, by="op").select("key", "gpu_time_ns").rows())
    assert ops == {
        "aten::mm": 40_000,
        "aten::relu": 2_000,
        "c10d::allreduce_": 100_000,
        "aten::copy_": 20_000,
        "graph": 8_000,
        "triton": 4_000,
    }
    modules = dict(ha.kernel_breakdown(trace, by="module").select("key", "gpu_time_ns").rows())
    assert modules == {"Net_0.Linear_0": 40_000, "Net_0": 2_000, None: 132_000}
    inside = ha.kernel_breakdown(trace, module="Net_0")
    assert inside["gpu_time_ns"].sum() == 42_000


def test_ranks(two_ranks: Trace) -> None:
    found = ha.kernel_breakdown(two_ranks).filter(key="sgemm_nn")
    assert rows(found, "rank", "gpu_time_ns") == [(0, 40), (1, 80)]
    spread = ha.kernel_duration_distribution(two_ranks).filter(key="sgemm_nn")
    columns = ("rank_count", "count", "gpu_time_ns", "min_ns", "p05_ns", "median_ns", "p75_ns", "p99_ns", "max_ns")
    # 10, 20, 30, 60: half are not longer than 20, 75 % not longer than 30
    assert rows(spread, *columns) == [(2, 4, 120, 10, 10, 20, 30, 60, 60)]
    compared = rows(spread, "slowest_rank", "slowest_mean_ns", "fastest_rank", "fastest_mean_ns")
    assert compared == [(1, 40, 0, 20)]
    assert spread["std_ns"].item() == pytest.approx(statistics.stdev([10_000, 30_000, 20_000, 60_000]))


def test_launches(trace: Trace) -> None:
    columns = ("name", "api", "launch_ns", "queue_ns", "gpu_ns", "kernel_count", "idle_before_ns")
    assert rows(ha.kernel_launches(trace), *columns) == [
        # the first gap starts with the step
        ("sgemm_nn", "cudaLaunchKernel", 4, 4, 10, 1, 20),
        ("sgemm_nn", "cudaLaunchKernel", 4, 38, 30, 1, 30),
        ("relu", "cudaLaunchKernel", 10, 30, 2, 1, 110),
        ("nccl_AllReduce_RING_LL_Sum_float", "cudaLaunchKernel", 60, 150, 100, 1, 328),
        ("copy", "hipMemcpyAsync", 8, 50, 20, 1, 70),
        ("a", "cudaGraphLaunch", 20, 8, 4, 2, 40),
        ("b", "cudaGraphLaunch", 20, 12, 4, 2, 0),
        ("triton_poi_fused_add", "cuLaunchKernelEx", 4, 0, 4, 1, 38),
    ]
    marks = ha.kernel_launches(trace).select("is_short", "is_runtime_outlier", "is_delay_outlier")
    assert marks.to_dict(as_series=False) == {
        "is_short": [False, False, True, False, False, True, True, False],
        "is_runtime_outlier": [False, False, False, True, False, False, False, False],
        "is_delay_outlier": [False, False, False, True, False, False, False, False],
    }
    assert ha.kernel_launches(trace, 2).height == 2


def test_launch_stats(trace: Trace) -> None:
    columns = ("key", "call_count", "gpu_event_count", "call_ns", "gpu_time_ns", "queue_max_ns", "idle_ns")
    assert rows(ha.launch_stats(trace), *columns) == [
        ("cudaLaunchKernel", 4, 4, 78, 142, 150, 488),
        ("hipMemcpyAsync", 1, 1, 8, 20, 50, 70),
        ("cudaGraphLaunch", 1, 2, 20, 8, 8, 40),
        ("cuLaunchKernelEx", 1, 1, 4, 4, 0, 38),
    ]
    short = ("short_count", "short_call_ns", "short_idle_ns")
    long = ("runtime_outlier_count", "runtime_outlier_call_ns", "runtime_outlier_idle_ns")
    late = ("delay_outlier_count", "delay_outlier_queue_ns", "delay_outlier_idle_ns")
    step = ha.launch_stats(trace, by="step")
    # relu and the graph; the collective
    assert rows(step, "step", "call_count", *short, *long, *late) == [(0, 7, 2, 30, 150, 1, 60, 328, 1, 150, 328)]
    assert step["idle_pct"].item() == pytest.approx(63.6)
    ops = ha.launch_stats(trace, by="op", runtime_cutoff_ns=5_000)
    assert dict(ops.select("key", "runtime_outlier_count").rows())["aten::copy_"] == 1


def test_work_without_a_launch_is_listed_without_one(tmp_path: Path) -> None:
    trace = TraceBuilder().op("aten::mm", 0, 10).launches("gemm", 12, 20).kernel("early", 30, 40, correlation=777)
    opened = trace.load(tmp_path)
    lost = ha.kernel_launches(opened).filter(name="early")
    assert lost.select("api", "launch_ns", "is_short", "is_delay_outlier").row(0) == (None, None, False, False)
    assert ha.launch_stats(opened)["gpu_event_count"].sum() == 1


@pytest.mark.parametrize("answer", [ha.kernel_breakdown, ha.kernel_duration_distribution, ha.launch_stats])
def test_by_is_checked(trace: Trace, answer: object) -> None:
    with pytest.raises(QueryParameterError, match=r"by of query .* must be"):
        answer(trace, by="colour")  # type: ignore[operator]
