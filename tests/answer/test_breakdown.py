"""The answers `coverage`, `steps`, `phases` and `modules` on one small trace, with every number by hand."""

from pathlib import Path

import polars as pl
import pytest

import hotline_analysis as ha
from hotline_analysis import Trace
from tests.trace_builder import TraceBuilder


def training(rank: int, slower: int = 0) -> TraceBuilder:
    """Two steps of 1000 us. In each the GPU works from 100 to 200, 300 to 450 and, two streams at once, 600 to 700."""
    trace = TraceBuilder(rank=rank, world_size=2)
    for number in (0, 1):
        at, seq = 1000 * number, 10 * number
        trace.on(1).step(number, at, at + 1000).module("Net", 0, at + 50, at + 200).module(
            "Linear", 0, at + 60, at + 160
        )
        trace.op("aten::addmm", at + 70, at + 150, seq=seq).launches(
            "gemm", at + 100, at + 200, at=at + 90, until=at + 95
        )
        trace.op("aten::mse_loss", at + 210, at + 250, seq=seq + 1).launches("loss", at + 300, at + 310, at=at + 240)
        trace.on(2).backward("MseLossBackward0", at + 260, at + 290, seq=seq + 1).launches(
            "loss grad", at + 310, at + 330
        )
        trace.backward("AddmmBackward0", at + 290, at + 400, seq=seq).launches("gemm grad", at + 330, at + 450 + slower)
        trace.on(1).annotation("Optimizer.step#SGD.step", at + 500, at + 600).op("aten::add_", at + 510, at + 590)
        trace.launches("add", at + 600, at + 700, at=at + 560, until=at + 561)
        trace.launches("add", at + 620, at + 660, at=at + 570, until=at + 571, stream=8)
    return trace


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    return training(0).load(tmp_path_factory.mktemp("one"))


@pytest.fixture(scope="module")
def two_ranks(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    folder = tmp_path_factory.mktemp("two")
    training(0).write(folder / "a.json")
    training(1, slower=100).write(folder / "b.json")
    return ha.load(folder)


def test_coverage(trace: Trace) -> None:
    assert ha.coverage(trace).rows() == [
        # rank, bucket, events, gpu time, share; frames leave no doubt
        (0, "module", 4, 440_000, pytest.approx(100 * 440 / 780), 0, 0, 0),
        (0, "optimizer", 4, 280_000, pytest.approx(100 * 280 / 780), 0, 0, 0),
        (0, "loss", 4, 60_000, pytest.approx(100 * 60 / 780), 0, 0, 0),
    ]


def test_steps(trace: Trace) -> None:
    assert ha.steps(trace).drop("example_event_id").rows() == [
        # rank, step, name, evidence, duration, events, gpu time, busy, idle, busy share
        # Each is idle until 100, from 200 to 300, from 450 to 600, and from 700 to its end.
        (0, 0, "ProfilerStep#0", "profiler_step", 1_000_000, 6, 390_000, 350_000, 650_000, 35.0),
        (0, 1, "ProfilerStep#1", "profiler_step", 1_000_000, 6, 390_000, 350_000, 650_000, 35.0),
    ]


def test_phases(trace: Trace) -> None:
    columns = ("phase", "cpu_ns", "cpu_pct", "gpu_event_count", "gpu_time_ns", "gpu_busy_ns", "gpu_idle_ns")
    assert ha.phases(trace, step=0).select(columns).rows() == [
        # Idle time belongs to the phase that the host is in: until 50 it loads data.
        ("load_data", 50_000, 5.0, 0, 0, 0, 50_000),
        ("forward", 150_000, 15.0, 1, 100_000, 100_000, 50_000),
        ("loss", 50_000, 5.0, 1, 10_000, 10_000, 100_000),
        ("backward", 150_000, 15.0, 2, 140_000, 140_000, 0),
        # 450 to 500 passes before the optimizer begins, and 700 to 1000 after it.
        ("optimizer", 100_000, 10.0, 2, 140_000, 100_000, 100_000),
        ("other", 500_000, 50.0, 0, 0, 0, 350_000),
    ]
    both = ha.phases(trace)
    assert both["cpu_ns"].sum() == 2_000_000
    assert both["gpu_time_pct"].sum() == pytest.approx(100)
    assert dict(both.select("phase", "gpu_idle_ns").rows()) == {
        "load_data": 2 * 50_000,
        "forward": 2 * 50_000,
        "loss": 2 * 100_000,
        "backward": 0,
        "optimizer": 2 * 100_000,
        "other": 2 * 350_000,
    }


def test_modules(trace: Trace) -> None:
    columns = (
        "path",
        "pass",
        "call_count",
        "cpu_self_ns",
        "cpu_total_ns",
        "gpu_self_ns",
        "gpu_total_ns",
        "gpu_total_pct",
    )
    share = pytest.approx
    assert ha.modules(trace, step=1).select(columns).rows() == [
        ("Net_0", "forward", 1, 50_000, 150_000, 0, 100_000, share(100 * 100 / 390)),
        ("Net_0", "backward", 0, 0, 110_000, 0, 120_000, share(100 * 120 / 390)),
        ("Net_0.Linear_0", "forward", 1, 100_000, 100_000, 100_000, 100_000, share(100 * 100 / 390)),
        ("Net_0.Linear_0", "backward", 1, 110_000, 110_000, 120_000, 120_000, share(100 * 120 / 390)),
    ]
    assert ha.modules(trace)["call_count"].to_list() == [2, 0, 2, 2]
    assert ha.modules(trace).select("module_id", "parent_id", "depth", "type").unique(maintain_order=True).rows() == [
        (0, None, 0, "Net"),
        (1, 0, 1, "Linear"),
    ]


def test_ranks_are_kept_apart(two_ranks: Trace, trace: Trace) -> None:
    for answer in (ha.coverage, ha.steps, ha.phases, ha.modules):
        both = answer(two_ranks)
        assert both["rank"].unique().sort().to_list() == [0, 1]
        assert both.filter(rank=0).equals(answer(trace))
        assert both.filter(rank=1).equals(answer(two_ranks, rank=1))
    slower = ha.coverage(two_ranks).filter(rank=1, bucket="module")
    assert slower["gpu_time_ns"].item() == 640_000


def test_ops_of_all_ranks_are_added_up(two_ranks: Trace) -> None:
    found = ha.slowest_ops(two_ranks, 100).filter(name="aten::add_")
    assert found.select("count", "gpu_self_ns", "cpu_total_ns").row(0) == (4, 560_000, 320_000)
    modules = ha.slowest_modules(two_ranks).select("path", "gpu_self_ns").rows()
    assert modules == [("Net_0.Linear_0", 440_000 + 640_000), ("Net_0", 0)]
    kernels = ha.slowest_kernels(two_ranks).filter(pl.col("name") == "gemm grad")
    assert kernels.select("count", "gpu_time_ns", "min_ns", "max_ns").row(0) == (4, 680_000, 120_000, 220_000)


def test_work_outside_the_steps_counts_to_the_run_alone(tmp_path: Path) -> None:
    trace = TraceBuilder().op("warm-up", 0, 10).launches("early", 5, 15, at=1)
    trace.step(0, 100, 200).op("mm", 110, 120).launches("late", 150, 160, at=112)
    opened = trace.load(tmp_path)
    assert ha.steps(opened)["gpu_time_ns"].to_list() == [10_000]
    assert ha.phases(opened)["gpu_time_ns"].sum() == 10_000
    buckets = ha.coverage(opened).select("bucket", "gpu_time_ns").rows()
    assert buckets == [("other", 10_000), ("outside_steps", 10_000)]
    evidence = ha.device_use(opened).filter(scope="run")
    assert evidence["gpu_busy_ns"].item() == 20_000
