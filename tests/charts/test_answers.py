"""The charts of the answers: their data by hand, their specs by the schema of Vega-Lite, their titles."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import polars as pl
import pytest

import hotline_analysis as ha
from hotline_analysis import Trace, charts
from hotline_analysis.charts.forms import to_svg
from hotline_analysis.charts.parts import over_time
from hotline_analysis.charts.path import _stretches
from hotline_analysis.text.formats import duration
from tests.answer.ranks_of_a_job import job, ranks
from tests.charts.hostile import EVIL, hostile
from tests.charts.reading import data, title
from tests.trace_builder import TraceBuilder


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
    chart = charts.device_use(ha.device_use(trace))
    rows = data(chart)
    shares = pl.DataFrame(rows).group_by("where").agg(pl.col("share_pct").sum())
    assert shares["share_pct"].to_list() == pytest.approx([100.0] * shares.height)
    assert sum(row["time_ns"] for row in rows if row["where"] == "whole run" and row["order"] < 3) == 85_000
    assert title(chart).startswith("The GPU is busy ")


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ("launching_ns", "CPU in ops and launch calls"),
        ("sync_ns", "CPU in a synchronising call"),
        ("unobserved_ns", "unobserved: launched work waits, unexplained"),
    ],
)
def test_the_largest_idle_cause_is_in_the_title(trace: Trace, column: str, words: str) -> None:
    use = ha.device_use(trace).with_columns(pl.lit(10**9).alias(column))
    assert title(charts.device_use(use)).endswith(f"; most of the rest: {words}")


def test_parts_of_a_step_and_what_is_left_without_each(trace: Trace) -> None:
    limits = ha.step_limits(trace)
    chart = charts.step_limits(limits)
    found = {row["limit"]: (row["path_ns"], row["without_ns"]) for row in data(chart)}
    rows = limits.select("limit", "path_ns", "without_ns").rows()
    assert found == {limit: (path, rest) for limit, path, rest in rows}
    assert title(chart).endswith(f"of a step of {duration(limits['step_ns'][0])}")


def test_steps(trace: Trace) -> None:
    chart = charts.steps(ha.steps(trace))
    assert [(row["step"], row["time"]) for row in data(chart)] == [(0, 100.0), (1, 150.0)]
    assert title(chart) == "2 steps of 100 µs to 150 µs"


@pytest.mark.parametrize(
    ("name", "first"), [("slowest_ops", "aten::add_"), ("slowest_kernels", "sgd"), ("slowest_modules", "Net_0")]
)
def test_slowest(trace: Trace, name: str, first: str) -> None:
    chart = getattr(charts, name)(getattr(ha, name)(trace))
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
    assert title(queue) == "At most 1 launch in the queue, on device 0 stream 7"
    memory = charts.memory_timeline(ha.memory_timeline(trace))
    assert max(row["value"] for row in data(memory)) == 2  # MiB
    assert title(memory) == "device 0 has at most 2 MiB allocated"
    peak = charts.memory_peak(ha.memory_peak(trace))
    assert sum(row["bytes"] for row in data(peak)) == 2 * 2**20
    bandwidth = charts.memory_bandwidth(ha.memory_bandwidth(trace))
    assert max(row["value"] for row in data(bandwidth)) == 1.0  # 5000 bytes in 5 us
    assert [row["value"] for row in data(bandwidth)][-1] == 0


def test_ranks_with_the_same_device_have_lines_of_their_own(tmp_path: Path) -> None:
    for rank in (0, 1):
        made = TraceBuilder(rank=rank).step(0, 0, 1000).op("aten::mm", 0, 100)
        for number in range(rank + 1):
            made.launches("a", 200 + 100 * number, 300 + 100 * number, at=10 + number, until=11 + number)
        made.copy(500, 505, nbytes=5000)
        made.memory(2**20 * (rank + 1), 50, total=2**20 * (rank + 1), device=0).write(tmp_path / f"rank{rank}.json")
    both = ha.load(tmp_path)
    queue = charts.queue_length(ha.queue_length(both))
    assert title(queue) == "At most 2 launches in the queue, on rank 1 device 0 stream 7"
    assert {row["line"] for row in data(queue)} == {"rank 0 device 0 stream 7", "rank 1 device 0 stream 7"}
    memory = charts.memory_timeline(ha.memory_timeline(both))
    assert title(memory) == "rank 1 device 0 has at most 2 MiB allocated"
    peak = charts.memory_peak(ha.memory_peak(both))
    assert {row["place"]: row["bytes"] for row in data(peak)} == {"rank 0 device 0": 2**20, "rank 1 device 0": 2**21}
    bandwidth = {row["line"] for row in data(charts.memory_bandwidth(ha.memory_bandwidth(both)))}
    assert bandwidth == {"rank 0 Memcpy HtoD", "rank 1 Memcpy HtoD"}


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
    assert title(charts.device_use(ha.device_use(empty))) == "No data"


def test_a_trace_and_itself_take_the_same_time(trace: Trace) -> None:
    assert title(charts.diff(ha.diff(trace, trace, by="op"))) == "A and B take the same time"


def test_names_are_text_in_a_picture(tmp_path: Path) -> None:
    made = hostile().load(tmp_path)
    svg = to_svg(charts.slowest_ops(ha.slowest_kernels(made)))
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
    # 20 us after the all-reduce, since when the copy had been launched, and 10 us at the end
    assert title(idle) == "Most idle time: launched work follows a kernel, 20.0 µs (66.7 %)"
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


def test_a_critical_path_adds_up(tmp_path: Path) -> None:
    """The host runs for 20 us until it launches; a kernel of 70 us, and 10 us until the host has seen it end."""
    rows = pl.DataFrame(
        {
            "weight_ns": [12_000, 8_000, 0, 70_000, 10_000],
            "bound_by": ["cpu", "cpu", None, "gpu_compute", None],
            "name": ["aten::mm", "cudaLaunchKernel", None, "gemm", None],
            "phase": ["forward", "forward", None, "forward", None],
        }
    )
    chart = charts.critical_path(rows)
    shown = [(row["lane"], row["start"], row["stop"], row["edge_count"], row["longest"]) for row in data(chart)]
    assert shown == [
        ("code on the host, 20.0 %", 0, 20, 2, "aten::mm"),
        ("GPU computation, 70.0 %", 20, 90, 1, "gemm"),
        ("unknown, 10.0 %", 90, 100, 1, "–"),
    ]
    assert title(chart) == "The critical path of 100 µs is 70.0 % GPU computation"
    assert title(charts.critical_path(rows.clear())) == "No data"
    made = overlapping().load(tmp_path)
    assert sum(row["time_ns"] for row in data(charts.critical_path(ha.critical_path(made, step=0)))) == (
        ha.critical_path(made, step=0)["weight_ns"].sum()
    )


def test_a_long_path_keeps_its_sums_and_its_long_parts() -> None:
    """Two long kernels among 40,000 short parts of seven classes that alternate."""
    short = ["cpu", "launch", "copy", "kernel_gap", "communication", "unknown", "data_loading"]
    bounds = [*(short[at % 7] for at in range(20_000)), "gpu_compute", *(short[at % 7] for at in range(20_000))]
    weights = [*(1 + at % 5 for at in range(20_000)), 500_000, *(1 + at % 3 for at in range(20_000))]
    rows = pl.DataFrame({"weight_ns": weights, "bound_by": bounds, "name": "x", "phase": "forward"})
    parts = _stretches(rows)
    assert parts.height < 4800
    assert (
        parts.group_by("bound_by")
        .agg(pl.col("time_ns").sum())
        .sort("bound_by")
        .equals(rows.group_by("bound_by").agg(time_ns=pl.col("weight_ns").sum()).sort("bound_by"))
    )
    assert parts["edge_count"].sum() == 40_001
    long = parts.filter(bound_by="gpu_compute").select("start_ns", "time_ns").rows()
    assert long == [(sum(weights[:20_000]), 500_000)]
    assert (parts["start_ns"] + parts["time_ns"]).to_list()[:-1] == parts["start_ns"].to_list()[1:]


def test_who_is_late(tmp_path: Path) -> None:
    """Rank 2 comes 50 and 40 us late in steps 1 and 2; in each, both others wait (50 + 50 and 40 + 50 us)."""
    made = ranks(tmp_path, job(0, [100, 100, 110]), job(1, [100, 100, 100]), job(2, [100, 150, 150], gemm=100))
    frame = ha.collectives(made)
    for by, names in (("step", ["0", "1", "2"]), ("collective", ["1", "2", "3"])):
        chart = charts.stragglers(frame, by)  # type: ignore[arg-type]
        late = {(row["rank"], row["label"]): row["late_ns"] for row in data(chart)}
        assert late == {(rank, name): 0 for rank in range(3) for name in names} | {
            (2, names[1]): 50_000,
            (2, names[2]): 40_000,
        }
        assert title(chart) == "The others wait 190 µs for rank 2, of 190 µs in all"
    assert charts.stragglers(frame).to_dict() == charts.stragglers(frame, "step").to_dict()
    assert title(charts.stragglers(frame.clear())) == "No data"


def test_many_collectives_share_cells() -> None:
    """64 ranks come to 1,000 collectives; rank r is r us late to each."""
    count = 64 * 1000
    frame = pl.DataFrame(
        {
            "rank": [at % 64 for at in range(count)],
            "match_id": [at // 64 for at in range(count)],
            "start_ns": [1_000_000 * (at // 64) for at in range(count)],
            "late_ns": [1000 * (at % 64) for at in range(count)],
            "wait_ns": [1000 * (63 - at % 64) for at in range(count)],
            "is_last": [at % 64 == 63 for at in range(count)],
        },
    ).with_columns(step=pl.lit(None, pl.Int64))
    rows = data(charts.stragglers(frame))
    sums = pl.DataFrame(rows).group_by("rank").agg(pl.col("late_ns", "collective_count").sum()).sort("rank")
    assert sums.rows() == [(rank, 1_000_000 * rank, 1000) for rank in range(64)]
    assert len(rows) <= 4000
    assert rows[0]["label"] == "1 to 17"  # 62 columns: 1,000 / 62 is over 16
