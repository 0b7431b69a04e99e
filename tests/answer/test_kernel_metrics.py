"""How much of the machine is used: kernels by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import hotline_analysis as ha
from hotline_analysis import Trace
from tests.charts.reading import data, title
from tests.derive.launch_shapes import A100, launched
from tests.trace_builder import TraceBuilder

FULL = launched([2160, 1, 1], [256, 1, 1], 32, 0)  # 2.5 waves, all of the occupancy
HALF = launched([54, 1, 1], [256, 1, 1], 32, 0)  # 1/16 wave on half of the multiprocessors, 6.25 % of the occupancy
FIELDS = ("waves", "tail_pct", "occupancy_pct", "occupancy_limit", "sm_efficiency_pct")


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    """A product that runs for 10 us with half of the GPU and for 30 us with all of it, a sum, an all-reduce, a copy."""
    made = TraceBuilder(rank=0, deviceProperties=[A100]).step(0, 0, 100)
    made.op("aten::mm", 0, 20)
    made.events[-1]["args"] = {"Input type": ["c10::BFloat16"]}
    made.launches("sm90_xmma_gemm", 20, 30, **HALF).launches("sm90_xmma_gemm", 30, 60, **FULL)
    made.op("aten::sum", 30, 50).launches("reduce_kernel", 60, 80, **FULL)
    made.launches("ncclDevKernel_AllReduce", 80, 85, **HALF).launches("Memcpy", 90, 99, category="gpu_memcpy")
    made.step(1, 100, 200).op("aten::mm", 110, 120).launches("sm90_xmma_gemm", 130, 131, **FULL)
    return made.load(tmp_path_factory.mktemp("kernels"))


def rows(trace: Trace, *columns: str, **given: Any) -> list[tuple[Any, ...]]:
    return trace.query("kernel_metrics", **given).select(columns).rows()


def test_kernels_by_name(trace: Trace) -> None:
    """Means are weighted by time: (10 x 1/16 + 30 x 2.5) / 40 waves in step 0."""
    assert rows(trace, "name", "class", "count", "gpu_time_ns", "gpu_time_pct", "shape_count", step=0) == [
        ("sm90_xmma_gemm", "computation", 2, 40_000, pytest.approx(100 * 40 / 65), 2),
        ("reduce_kernel", "computation", 1, 20_000, pytest.approx(100 * 20 / 65), 1),
        ("ncclDevKernel_AllReduce", "communication", 1, 5_000, pytest.approx(100 * 5 / 65), 1),
    ]
    mean = (10 / 16 + 30 * 2.5) / 40, (10 * 93.75 + 30 * 100 / 6) / 40, (10 * 6.25 + 30 * 100) / 40
    assert rows(trace, *FIELDS, step=0, limit=1) == [pytest.approx((*mean, "threads", (10 * 50 + 30 * 100) / 40))]
    assert rows(trace, "count", "gpu_time_ns", limit=1) == [(3, 41_000)]
    assert rows(trace, "grid", "block", "registers", "shared_memory_bytes", limit=1) == [
        ("[2160,1,1]", "[256,1,1]", 32, 0)
    ]


def test_unit_and_precision_are_those_of_the_longest_launch(trace: Trace) -> None:
    assert rows(trace, "short_name", "unit", "precision", limit=2) == [
        ("xmma_gemm", "matrix", "bf16"),
        ("reduce", None, None),
    ]


def test_launches(trace: Trace) -> None:
    found = rows(trace, "name", "count", "gpu_time_ns", "waves", "occupancy_limit", by="launch", step=0)
    assert found == [
        ("sm90_xmma_gemm", 1, 30_000, 2.5, "threads"),
        ("reduce_kernel", 1, 20_000, 2.5, "threads"),
        ("sm90_xmma_gemm", 1, 10_000, 1 / 16, "grid"),
        ("ncclDevKernel_AllReduce", 1, 5_000, 1 / 16, "grid"),
    ]
    events = dict(trace.sql("select event_id, dur_ns from event where category = 'kernel'").rows())
    assert all(events[number] == ns for number, ns in rows(trace, "event_id", "gpu_time_ns", by="launch"))


def test_what_is_asked_for(trace: Trace) -> None:
    assert [row[0] for row in rows(trace, "name", kernel_class="communication")] == ["ncclDevKernel_AllReduce"]
    assert rows(trace, "gpu_time_ns", step=1) == [(1_000,)]
    assert rows(trace, "gpu_time_pct", step=1) == [(100,)]
    assert len(rows(trace, "name", limit=None, by="launch")) == 5
    assert rows(trace, "name", limit=0) == []


RATES = ("name", "tflop_per_s", "gb_per_s", "flop_per_byte", "roofline_pct")


def test_rates_and_the_roofline(tmp_path: Path) -> None:
    """A product of 2 x 64 x 512 x 128 FLOP and 212,992 bytes, which two kernels share by their 2 and 6 us.

    An A100 of 40 GB moves 1,555 GB a second and computes 312 TFLOP: the bytes take longer, 136.97 ns. Then a sum of two
    float vectors of 1,000: 12,000 bytes and 1,000 FLOP. A launch with unknown work is left out of all rates.
    """
    made = TraceBuilder(rank=0, deviceProperties=[A100]).step(0, 0, 100)
    made.op("aten::mm", 0, 10)
    made.events[-1]["args"] = {
        "Input Dims": [[64, 512], [512, 128]],
        "Input type": ["c10::BFloat16"] * 2,
        "Input Strides": [[512, 1], [128, 1]],
    }
    made.launches("sm90_xmma_gemm_bf16bf16_a", 20, 22, **FULL).launches("sm90_xmma_gemm_bf16bf16_b", 22, 28, **FULL)
    made.op("aten::add", 10, 20)
    made.events[-1]["args"] = {"Input Dims": [[1000], [1000]], "Input type": ["float"] * 2, "Input Strides": [[1], [1]]}
    made.launches("elementwise", 30, 31, **FULL)
    made.op("unknown::op", 30, 40).launches("elementwise", 40, 90, **FULL)
    flop, moved = 2 * 64 * 512 * 128, 2 * (64 * 512 + 512 * 128 + 64 * 128)
    least = 1e9 * moved / 1555e9
    assert least > 1e9 * flop / 312e12
    trace = made.load(tmp_path)
    assert rows(trace, *RATES) == [
        ("elementwise", 0, pytest.approx(12), pytest.approx(1 / 12), pytest.approx(100 * 12e3 / 1555e9 / 1e-6)),
        ("sm90_xmma_gemm_bf16bf16_b", *rates(flop, moved, least)),
        ("sm90_xmma_gemm_bf16bf16_a", *rates(flop, moved, least)),
    ]
    assert rows(trace, *RATES[1:], by="launch", limit=1) == [(None,) * 4]


def rates(flop: int, moved: int, least: float) -> tuple[Any, ...]:
    """Of both kernels, which took 8 us together."""
    return tuple(pytest.approx(rate, rel=1e-4) for rate in (flop / 8e6, moved / 8e3, flop / moved, least / 80))


def test_kernels_without_a_grid_are_there(tmp_path: Path) -> None:
    """Of an unknown GPU, and in a graph: nothing but the time is known."""
    made = TraceBuilder().op("x", 0, 10).launches("k", 10, 20).load(tmp_path)
    assert rows(made, "name", "count", "gpu_time_ns", "grid", *FIELDS) == [
        ("k", 1, 10_000, None, None, None, None, None, None)
    ]
    assert title(ha.charts.kernel_metrics(ha.kernel_metrics(made))) == "No kernel with a known occupancy"


def test_kernels_that_take_no_time(tmp_path: Path) -> None:
    made = TraceBuilder(deviceProperties=[A100]).op("x", 0, 10).launches("k", 10, 10, **FULL).load(tmp_path)
    assert rows(made, "gpu_time_ns", "gpu_time_pct", "waves") == [(0, None, 2.5)]


def test_the_chart(trace: Trace) -> None:
    """Of 61 us of computing, half of the multiprocessors have nothing to do for 10."""
    chart = ha.charts.kernel_metrics(ha.kernel_metrics(trace))
    assert (
        title(chart) == f"While these kernels compute, {100 * 5 / 61:.1f} % of the multiprocessors have no block to run"
    )
    shown = {row["label"]: (row["waves"], row["limit"]) for row in data(chart) if "limit" in row}
    assert shown["reduce"] == (2.5, "threads")
    assert shown["nccl_AllReduce"] == (1 / 16, "too few blocks")
    assert len(shown) == 3
