"""The charts of the answers: their data by hand, their specs by the schema of Vega-Lite, their titles."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import polars as pl
import pytest

import hotline_analysis as ha
from hotline_analysis import Trace, charts
from hotline_analysis.charts.resources import over_time
from hotline_analysis.charts.theme import to_svg
from tests.charts.test_timeline import EVIL, hostile
from tests.trace_builder import TraceBuilder


def data(chart: Any) -> list[dict[str, Any]]:
    """All rows of a chart; `to_dict` checks the spec against the schema."""
    spec = chart.to_dict()
    assert sum(len(rows) for rows in spec["datasets"].values()) < 5000
    return [row for rows in spec["datasets"].values() for row in rows]


def title(chart: Any) -> str:
    return str(chart.to_dict()["title"]["text"])


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    """Two steps of 100 and 150 us: forward (40 us; a kernel of 10 us), optimizer (20 us; a kernel of 30 us)."""
    made = TraceBuilder(rank=0)
    for number, at, length in ((0, 0, 100), (1, 100, 150)):
        made.step(number, at, at + length).annotation("## forward ##", at, at + 40)
        made.module("Net", 0, at + 2, at + 38)
        made.op("aten::mm", at + 5, at + 30).launches("gemm", at + 20, at + 30, at=at + 10)
        made.annotation("Optimizer.step#SGD.step", at + 60, at + 80)
        made.op("aten::add_", at + 62, at + 75).launches("sgd", at + 65, at + 95)
        made.memory(2**20, at + 10, total=(number + 1) * 2**20, device=0)
    return made.copy(5, 10, nbytes=5000, correlation=None).load(tmp_path_factory.mktemp("charts"))


def test_phases(trace: Trace) -> None:
    chart = charts.phases(ha.phases(trace))
    rows = {(row["what"], row["phase"]): row["time_ns"] for row in data(chart)}
    assert rows["CPU, main thread", "forward"] == 80_000
    assert rows["GPU work", "forward"] == 20_000
    assert rows["GPU work", "optimizer"] == 60_000
    assert title(chart) == "optimizer takes 75.0 % of the time of the GPU work"


def test_idle_causes(trace: Trace) -> None:
    chart = charts.gpu_or_cpu_bound(ha.gpu_or_cpu_bound(trace).evidence)
    rows = data(chart)
    shares = pl.DataFrame(rows).group_by("where").agg(pl.col("share_pct").sum())
    assert shares["share_pct"].to_list() == pytest.approx([100.0] * shares.height)
    assert sum(row["time_ns"] for row in rows if row["where"] == "whole run" and row["order"] < 3) == 85_000
    assert title(chart).startswith("The GPU is busy ")


def test_steps(trace: Trace) -> None:
    chart = charts.steps(ha.steps(trace))
    assert [(row["step"], row["time"]) for row in data(chart)] == [(0, 100.0), (1, 150.0)]
    assert title(chart) == "2 steps of 100 µs to 150 µs"


@pytest.mark.parametrize(("by", "first"), [("op", "aten::add_"), ("kernel", "sgd"), ("module", "Net_0")])
def test_slowest(trace: Trace, by: Any, first: str) -> None:
    chart = charts.slowest_ops(ha.slowest_ops(trace, by=by))
    assert data(chart)[0]["label"] == first
    assert title(chart).startswith(f"{first} takes ")


def test_coverage(trace: Trace) -> None:
    chart = charts.coverage(ha.coverage(trace))
    assert sum(row["share_pct"] for row in data(chart)) == pytest.approx(100)
    # 20 of 85 us of GPU time
    assert title(chart) == "Modules explain 23.5 % of the GPU time"


def test_modules_lie_inside_each_other(tmp_path: Path) -> None:
    """Net has 10 us of its own and holds A (30 us) and B (20 us), which follow it in the order of the modules."""
    made = TraceBuilder(rank=0).step(0, 0, 1000).module("Net", 0, 0, 500)
    made.module("A", 0, 10, 100).op("aten::mm", 20, 90).launches("a", 100, 130)
    made.module("B", 0, 110, 200).op("aten::mm", 120, 190).launches("b", 200, 220)
    made.op("aten::add", 300, 310).launches("net", 310, 320)
    chart = charts.modules(ha.modules(made.load(tmp_path)))
    rows = {row["path"]: (row["depth"], row["start"], row["stop"]) for row in data(chart)}
    assert rows == {"Net_0": (0, 0, 60), "Net_0.A_0": (1, 10, 40), "Net_0.B_0": (1, 40, 60)}
    assert title(chart) == "Net_0.A_0 has most time of its own: 30.0 µs in the forward pass"


def test_queue_and_memory(trace: Trace) -> None:
    queue = charts.queue_length(ha.queue_length(trace))
    assert max(row["value"] for row in data(queue)) == 1
    assert title(queue) == "At most 1 launch in the queue, on stream 7 of device 0"
    memory = charts.memory_timeline(ha.memory_timeline(trace))
    assert max(row["value"] for row in data(memory)) == 2  # MiB
    assert title(memory) == "device 0 has at most 2 MiB allocated"
    peak = charts.memory_peak(ha.memory_peak(trace))
    assert sum(row["bytes"] for row in data(peak)) == 2 * 2**20
    bandwidth = charts.memory_bandwidth(ha.memory_bandwidth(trace))
    assert max(row["value"] for row in data(bandwidth)) == 1.0  # 5000 bytes in 5 us
    assert [row["value"] for row in data(bandwidth)][-1] == 0


def test_values_over_time_keep_every_peak() -> None:
    """A peak of one nanosecond survives, and a stretch without a change has the value before it."""
    rows = pl.DataFrame({"line": "a", "start_ns": [0, 5000, 5001, 9999], "value": [1, 70, 2, 3]})
    points = over_time(rows, "value", by="line", points=10)
    assert points["value"].to_list() == [1, 1, 1, 1, 1, 70, 2, 2, 2, 3, 3]
    assert points["at_ns"].to_list() == list(range(0, 11_000, 1000))
    many = pl.DataFrame({"line": "a", "start_ns": range(100_000), "value": range(100_000)})
    assert over_time(many, "value", by="line").height <= 601


def test_nothing_to_show_is_no_error(tmp_path: Path) -> None:
    empty = TraceBuilder(rank=0).op("aten::mm", 0, 10).load(tmp_path)
    for name in ("coverage", "modules", "queue_length", "memory_timeline", "memory_peak", "memory_bandwidth"):
        assert title(getattr(charts, name)(getattr(ha, name)(empty))) == "No data"
    assert title(charts.gpu_or_cpu_bound(ha.gpu_or_cpu_bound(empty).evidence)) == "No data"


def test_names_are_text_in_a_picture(tmp_path: Path) -> None:
    made = hostile().load(tmp_path)
    svg = to_svg(charts.slowest_ops(ha.slowest_ops(made, by="kernel")))
    root = ElementTree.fromstring(svg)
    assert not [node for node in root.iter() if node.tag.endswith(("script", "img"))]
    assert EVIL[:9] in "".join(root.itertext())


def test_charts_of_the_demo_are_valid() -> None:
    demo = ha.load(ha.demo_trace())
    for name in ("phases", "steps", "modules", "slowest_ops"):
        assert data(getattr(charts, name)(getattr(ha, name)(demo)))


def overlapping() -> TraceBuilder:
    """100 us: a kernel from 0 to 40, an all-reduce from 20 to 60, a copy from 80 to 90."""
    made = TraceBuilder(rank=0).step(0, 0, 100).op("aten::mm", 0, 20).launches("gemm", 0, 40)
    made.launches("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 20, 60, stream=9)
    return made.launches("Memcpy HtoD (Pinned -> Device)", 80, 90, category="gpu_memcpy", nbytes=100)


def test_gpu_time(tmp_path: Path) -> None:
    made = overlapping().load(tmp_path)
    parts = {row["part"]: row["time_ns"] for row in data(charts.temporal_breakdown(ha.temporal_breakdown(made)))}
    assert parts["computation"] == 20_000
    assert parts["computation beside communication"] == 20_000
    assert parts["communication alone"] == 20_000
    assert parts["copies alone"] == 10_000
    idle = charts.idle_breakdown(ha.idle_breakdown(made))
    assert title(idle).startswith("Most of the idle time has the cause ")
    assert sum(row["share_pct"] for row in data(idle)) == pytest.approx(100)
    overlap = charts.comm_comp_overlap(ha.comm_comp_overlap(made))
    assert title(overlap) == "50.0 % of the communication runs beside computation"
    assert sum(row["time_ns"] for row in data(overlap)) == 40_000


def test_kernels(tmp_path: Path) -> None:
    made = overlapping().load(tmp_path)
    kernels = charts.kernel_breakdown(ha.kernel_breakdown(made))
    assert [row["time"] for row in data(kernels)] == [40, 40, 10]
    spread = charts.kernel_duration_distribution(ha.kernel_duration_distribution(made))
    assert {row["median_ns"] for row in data(spread)} == {40, 10}
    launches = charts.launch_stats(ha.launch_stats(made))
    assert sum(row["time_ns"] for row in data(launches) if row["part"] == "inside the calls") == 3000


def test_a_waterfall_adds_up(trace: Trace) -> None:
    """Step 1 of the CPU timeline is 50 us longer than step 0."""
    frame = ha.diff(trace, trace, step_a=0, step_b=1, by="phase", timeline="cpu")
    chart = charts.diff(frame)
    rows = data(chart)
    assert sum(row["delta_ns"] for row in rows) == 50_000
    assert rows[-1]["stop"] == 50
    assert title(chart) == "B is 50.0 µs per step slower than A (50.0 %)"


def test_nothing_on_the_gpu_is_no_error(tmp_path: Path) -> None:
    empty = TraceBuilder(rank=0).op("aten::mm", 0, 10).load(tmp_path)
    for name in (
        "temporal_breakdown",
        "idle_breakdown",
        "kernel_breakdown",
        "kernel_duration_distribution",
        "comm_comp_overlap",
        "launch_stats",
    ):
        assert title(getattr(charts, name)(getattr(ha, name)(empty))) == "No data"
