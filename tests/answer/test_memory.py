"""Bandwidth of copies, memory over time, and what is alive at the peak, with every number by hand."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import hotline_analysis as ha
from hotline_analysis import Trace
from tests.trace_builder import TraceBuilder

# --- bandwidth -------------------------------------------------------------------------------------------------------


def copies() -> TraceBuilder:
    """Two HtoD copies that overlap from 20 to 30 us, 2 GB/s and 3 GB/s, a DtoH copy, and one without a duration."""
    trace = TraceBuilder().step(0, 0, 50).step(1, 50, 100).op("aten::copy_", 1, 40)
    trace.launches("Memcpy HtoD (Pageable -> Device)", 10, 30, category="gpu_memcpy", bytes=40_000)
    given: dict[str, Any] = {"bytes": 1, "memory bandwidth (GB/s)": 3.0}
    trace.launches("Memcpy HtoD (Pinned -> Device)", 20, 40, category="gpu_memcpy", **given)
    trace.op("aten::item", 60, 90).launches("Memcpy DtoH (Device -> Pinned)", 70, 80, category="gpu_memcpy")
    return trace.launches("Memset (Device)", 85, 85, category="gpu_memset", bytes=64)


def test_bandwidths_of_one_kind_add_up(tmp_path: Path) -> None:
    builder = copies()
    frame = ha.memory_bandwidth(builder.load(tmp_path)).drop("rank", "device")
    pageable, pinned, back = (
        builder.ids(name)[0]
        for name in (
            "Memcpy HtoD (Pageable -> Device)",
            "Memcpy HtoD (Pinned -> Device)",
            "Memcpy DtoH (Device -> Pinned)",
        )
    )
    assert frame.rows() == [
        ("Memcpy DtoH", 70_000, 80_000, 1, None, back),
        ("Memcpy HtoD", 10_000, 20_000, 1, 2.0, pageable),
        ("Memcpy HtoD", 20_000, 30_000, 2, 5.0, pinned),
        ("Memcpy HtoD", 30_000, 40_000, 1, 3.0, None),
    ]


@pytest.mark.parametrize(
    "said", [{"memory bandwidth (GB/s)": 1e300}, {"memory bandwidth (GB/s)": -1}, {"bytes": 2**63 - 1}]
)
def test_a_bandwidth_that_cannot_be_is_unknown(tmp_path: Path, said: dict[str, Any]) -> None:
    trace = TraceBuilder().op("aten::copy_", 0, 9).launches("Memset (Device)", 10, 11, category="gpu_memset", **said)
    assert ha.memory_bandwidth(trace.load(tmp_path))["gb_per_s"].to_list() == [None]


def test_the_summary_is_over_time(tmp_path: Path) -> None:
    """HtoD: 10 us at 2, 10 at 5, 10 at 3 GB/s."""
    trace = copies().load(tmp_path)
    rows = {row["kind"]: row for row in ha.memory_bandwidth_summary(trace).iter_rows(named=True)}
    to_device = rows["Memcpy HtoD"]
    assert (to_device["copy_count"], to_device["bytes"], to_device["pageable_bytes"]) == (2, 40_001, 40_000)
    assert (to_device["copy_ns"], to_device["active_ns"]) == (40_000, 30_000)
    assert to_device["mean_gb_per_s"] == pytest.approx(10 / 3)
    assert (to_device["median_gb_per_s"], to_device["max_gb_per_s"]) == (3.0, 5.0)
    back = rows["Memcpy DtoH"]
    assert (back["bytes"], back["mean_gb_per_s"], back["max_gb_per_s"], back["active_ns"]) == (None, None, None, 10_000)
    memset = rows["Memset"]
    assert (memset["copy_count"], memset["bytes"], memset["active_ns"], memset["mean_gb_per_s"]) == (1, 64, 0, None)
    assert set(ha.memory_bandwidth_summary(trace, step=1)["kind"]) == {"Memcpy DtoH", "Memset"}


# --- over time -------------------------------------------------------------------------------------------------------


def training() -> TraceBuilder:
    """Two steps. On the GPU, 1,000 bytes are older than the trace; of them 100 (address 9) go in step 0's zero_grad."""
    trace = TraceBuilder(rank=0)
    total = 1000

    def block(nbytes: int, at: int, address: int) -> None:
        nonlocal total
        total += nbytes
        trace.memory(nbytes, at, total=total, device=0, address=address)

    for step in (0, 1):
        at = 1000 * step
        trace.step(step, at, at + 900)
        trace.annotation("enumerate(DataLoader)#_Iter.__next__", at, at + 100).op("aten::to", at + 10, at + 90)
        block(10, at + 20, address=1)  # the batch
        trace.annotation("## forward ##", at + 100, at + 300)
        trace.frame("nn.Module: Net_0", at + 101, at + 299).frame("nn.Module: Linear_0", at + 110, at + 200)
        trace.op("aten::addmm", at + 120, at + 190)
        block(200, at + 130, address=2)  # kept for backward
        block(50, at + 140, address=3)
        block(-50, at + 150, address=3)  # a workspace
        trace.annotation("## backward ##", at + 300, at + 600).op("MmBackward0", at + 310, at + 590)
        block(400, at + 320, address=4)  # the gradient of an activation
        block(30, at + 330, address=5)  # the gradient of a parameter
        block(-400, at + 340, address=4)
        block(-200, at + 350, address=2)
        trace.annotation("Optimizer.step#Adam.step", at + 600, at + 700).op("aten::addcdiv", at + 610, at + 690)
        if step == 0:
            block(60, at + 620, address=6)  # its state
        trace.annotation("Optimizer.zero_grad#Adam.zero_grad", at + 700, at + 800)
        if step == 0:
            block(-100, at + 720, address=9)
        block(-30, at + 730, address=5)
        block(-10, at + 850, address=1)
    return trace


def test_memory_over_time(tmp_path: Path) -> None:
    trace = training().load(tmp_path)
    frame = ha.memory_timeline(trace, step=0)
    totals = [1010, 1210, 1260, 1210, 1610, 1640, 1240, 1040, 1100, 1000, 970, 960]
    assert frame["allocated_bytes"].to_list() == totals == frame["reserved_bytes"].to_list()
    assert frame["bytes"].to_list()[:3] == [10, 200, 50]
    assert frame["start_ns"].to_list()[:3] == [20_000, 130_000, 140_000]
    assert set(frame["device_type"]) == {"cuda"}
    assert ha.memory_timeline(trace).height == 12 + 10
    assert ha.memory_timeline(trace, device=0).height == 12 + 10


def peak(trace: Trace) -> dict[tuple[str, str, str | None, str | None], tuple[int, int | None]]:
    frame = ha.memory_peak(trace)
    assert frame["bytes"].sum() == frame["peak_bytes"][0]
    assert frame["bytes_pct"].sum() == pytest.approx(100)
    keys = frame.select("category", "evidence", "phase", "module_path").rows()
    return dict(zip(keys, frame.select("bytes", "block_count").rows(), strict=True))


def test_what_is_alive_at_the_peak(tmp_path: Path) -> None:
    """The peak is in step 0, at 330 us: 1,000 older bytes, the batch, the activation and both gradients."""
    builder = training()
    trace = builder.load(tmp_path)
    assert peak(trace) == {
        ("unknown", "held_throughout", None, None): (900, None),
        ("gradient", "released_in_zero_grad", None, None): (100, 1),
        ("temporary", "same_node", "backward", None): (400, 1),
        ("activation", "forward_to_backward", "forward", "Net_0.Linear_0"): (200, 1),
        ("gradient", "released_in_zero_grad", "backward", None): (30, 1),
        ("input", "outlives_load_data", "load_data", None): (10, 1),
    }
    frame = ha.memory_peak(trace)
    assert set(frame["peak_start_ns"]) == {330_000}
    assert set(frame["peak_bytes"]) == {1640}
    assert set(frame["peak_step"]) == {0}
    events = builder.events
    assert {events[number]["args"]["Bytes"] for number in frame["largest_id"].drop_nulls()} == {-100, 400, 200, 30, 10}
    assert events[frame["peak_id"][0]]["args"]["Bytes"] == 30


def older(trace: Trace) -> dict[tuple[str, str | None], int]:
    frame = ha.memory_peak(trace).filter(pl.col("phase").is_null() & (pl.col("evidence") != "released_in_zero_grad"))
    return {(category, path): size for category, path, size in frame.select("category", "module_path", "bytes").rows()}


def captured(*, kind: str = "Net", **sizes: Any) -> dict[str, Any]:
    modules = [{"module_id": 0, "parent_id": None, "name": "net", "path": "net", "type": kind, **sizes}]
    return {
        "version": 1,
        "modules": [
            *modules,
            {"module_id": 1, "parent_id": 0, "name": "a", "path": "net.a", "type": "Linear", **sizes},
        ],
        "ops": [{"name": "aten::addmm", "module_id": 1, "call": 0}],
    }


@pytest.mark.parametrize("sizes", [{}, {"param_bytes": 901}, {"param_bytes": -1}, {"param_bytes": "many"}])
def test_parameters_are_told_by_the_size_of_the_model_alone(tmp_path: Path, sizes: dict[str, Any]) -> None:
    """900 bytes are older than the trace and stay. A model that the capture stored has 800 of them, or says nothing."""
    builder = training()
    builder.top["hotline_model"] = captured(**sizes)
    assert older(builder.load(tmp_path)) == {("unknown", None): 900}
    builder.top["hotline_model"] = captured(kind="Other", param_bytes=800)
    trace = builder.load(tmp_path)
    assert older(trace) == {("parameter", None): 800, ("unknown", None): 100}
    assert ha.memory_peak(trace)["bytes"].sum() == 1640
    assert ha.memory_peak(trace, module="Net_0")["category"].to_list() == ["activation"]


def test_parameters_belong_to_the_model_that_the_frames_show(tmp_path: Path) -> None:
    builder = training()
    builder.top["hotline_model"] = captured(param_bytes=800)
    assert older(builder.load(tmp_path)) == {("parameter", "net.a"): 800, ("unknown", None): 100}


def test_parameters_belong_to_the_model_that_was_placed(tmp_path: Path) -> None:
    builder = TraceBuilder().step(0, 0, 100).op("aten::addmm", 10, 20).memory(5, 12, total=905, device=0)
    builder.top["hotline_model"] = captured(param_bytes=800)
    assert older(builder.load(tmp_path)) == {("parameter", "net.a"): 800, ("unknown", None): 100}
    # With a second GPU it is not known on which one they are.
    builder.memory(5, 13, total=5, device=1)
    assert older(builder.load(tmp_path)) == {("unknown", None): 900}


def test_the_peak_of_a_step(tmp_path: Path) -> None:
    """At 330 us of step 1: 960 at its start, 10 + 200 + 400 + 30; the state of the optimizer is there by now."""
    frame = ha.memory_peak(training().load(tmp_path), step=1)
    assert set(frame["peak_bytes"]) == {1600}
    assert set(frame["peak_step"]) == {1}
    assert dict(frame.select("category", "bytes").rows()) == {
        "unknown": 900,
        "temporary": 400,
        "activation": 200,
        "optimizer_state": 60,
        "gradient": 30,
        "input": 10,
    }


def test_states_of_the_optimizer_outlive_it(tmp_path: Path) -> None:
    trace = TraceBuilder().step(0, 0, 100).annotation("Optimizer.step#Adam.step", 10, 50).op("aten::zeros", 12, 40)
    trace.memory(7, 20, total=7, address=1).memory(5, 21, total=12, address=2).memory(-5, 30, total=7, address=2)
    trace.annotation("## forward ##", 60, 90)
    assert peak(trace.load(tmp_path)) == {
        ("optimizer_state", "outlives_optimizer", "optimizer", None): (7, 1),
        ("temporary", "same_phase", "optimizer", None): (5, 1),
    }


def test_what_lives_to_the_end_of_the_trace_is_not_guessed(tmp_path: Path) -> None:
    """Allocated in the last phase and never released: it may still be released before the phase is over."""
    trace = TraceBuilder().step(0, 0, 100).annotation("## backward ##", 10, 100).op("aten::mm", 12, 90)
    trace.memory(7, 20, total=7)
    assert peak(trace.load(tmp_path)) == {("unknown", "no_rule", "backward", None): (7, 1)}


def test_lost_releases_are_shown(tmp_path: Path) -> None:
    """The allocator says 10, but blocks of 10 and 8 are alive: a release is missing. Reused addresses tell it, too."""
    trace = TraceBuilder().memory(10, 1, total=10, address=1).memory(8, 2, total=8, address=2)
    assert peak(trace.load(tmp_path)) == {("unknown", "no_rule", None, None): (10, 1)}
    trace = TraceBuilder().memory(10, 1, total=10, address=1).memory(8, 2, total=12, address=2)
    found = peak(trace.load(tmp_path, "second.json"))
    assert found == {
        ("unknown", "no_rule", None, None): (18, 2),
        ("unknown", "inconsistent", None, None): (-6, None),
    }
    trace = TraceBuilder().memory(10, 1, total=10, address=1).memory(12, 2, total=12, address=1)
    assert peak(trace.load(tmp_path, "third.json")) == {("unknown", "no_rule", None, None): (12, 1)}


def test_without_memory_events_there_is_nothing(tmp_path: Path) -> None:
    trace = TraceBuilder().op("aten::mm", 0, 1).load(tmp_path)
    assert ha.memory_peak(trace).is_empty()
    assert ha.memory_timeline(trace).is_empty()
    assert ha.memory_bandwidth_summary(trace).is_empty()


def test_a_captured_trace_against_a_loop_over_its_events() -> None:
    """At the peak of the GPU: the blocks that a dictionary of addresses holds, and what is older than the trace.

    The same run without the profiler had the same peak by `torch.cuda.max_memory_allocated()`: 1,457,672,192 bytes.
    """
    trace = ha.load(ha.demo_trace())
    events = trace.sql(
        "select * from memory_event join event using (rank, event_id) where device_type = 1 order by start_ns, event_id"
    )
    assert events.height > 1000
    alive: dict[int, int] = {}
    largest: tuple[int, dict[int, int]] = (0, {})
    for event in events.iter_rows(named=True):
        if event["bytes"] > 0:
            alive[event["address"]] = event["event_id"]
        else:
            alive.pop(event["address"], None)
        if event["total_allocated_bytes"] > largest[0]:
            largest = event["total_allocated_bytes"], dict(alive)
    frame = ha.memory_peak(trace).filter(device=0)
    assert set(frame["peak_bytes"]) == {largest[0]} == {1_457_672_192}
    assert frame["block_count"].sum() == len(largest[1])
    sizes = dict(events.select("event_id", "bytes").rows())
    seen = frame.filter(pl.col("block_count") > 0)["bytes"].sum()
    assert seen == sum(sizes[number] for number in largest[1].values())
    assert frame["bytes"].sum() == largest[0]
    before = frame.filter(pl.col("block_count").is_null())
    assert set(before["category"]) == {"parameter", "optimizer_state", "unknown"}
    # AdamW keeps two values for each parameter, and a counter on the CPU
    held = dict(before.group_by("category").agg(pl.col("bytes").sum()).rows())
    assert held["optimizer_state"] == 2 * held["parameter"]
    by_category: dict[str, int] = defaultdict(int)
    for row in frame.iter_rows(named=True):
        by_category[row["category"]] += row["bytes"]
    assert max(by_category, key=lambda name: by_category[name]) == "activation"
