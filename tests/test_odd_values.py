"""Odd times and arguments colour the answers and break none: every import, answer, chart, report and export ends."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import hotline_analysis as ha
from hotline_analysis import HotlineWarning, Trace, charts
from tests.odd_values import DAY_US, everything, load, ranks
from tests.trace_builder import TraceBuilder

# All of `CHANGES` with any seed must pass; these differ most.
CASES = ["years at one time", "most starts", "all arguments", "huge arguments"]


@pytest.mark.slow
@pytest.mark.parametrize(("change", "count"), [*((case, 1) for case in CASES), ("two clocks", 2)])
@pytest.mark.sampled
def test_everything_ends_without_an_error(change: str, count: int, tmp_path: Path) -> None:
    with load(ranks(change, 0, tmp_path / "traces", count)) as trace:
        for name, ask in everything(trace, tmp_path):
            try:
                ask()
            except Exception as error:
                pytest.fail(f"{name}: {type(error).__name__}: {error}")


def test_a_kernel_of_seconds_in_a_module(tmp_path: Path) -> None:
    """Its nanoseconds do not fit into 32 bits."""
    trace = TraceBuilder().step(0, 0, 100).module("Net", 0, 0, 90).op("aten::mm", 1, 80)
    run = trace.launches("gemm", 10, 3_000_010).load(tmp_path)
    assert run.sql("select gpu_self_ns, gpu_total_ns from module_time").rows() == [(3_000_000_000, 3_000_000_000)]
    assert ha.slowest_ops(run)["gpu_self_ns"].to_list() == [3_000_000_000]


def times(trace: Trace) -> dict[str, tuple[int | None, int | None]]:
    rows = trace.sql("select name, start_ns, dur_ns, end_ns from event order by event_id").rows()
    assert all(end == (None if dur is None else start + dur) for _, start, dur, end in rows)
    return {name: (start, dur) for name, start, dur, _ in rows}


def test_times_far_from_the_others_do_not_count(tmp_path: Path) -> None:
    """More than ten days from the middle, or longer than that; their starts stay, and their durations are kept."""
    trace = TraceBuilder(rank=0)
    for number in range(4):
        trace.op(f"op {number}", 10 * number, 10 * number + 5)
    trace.op("nine days later", 9 * DAY_US, 9 * DAY_US + 5)
    trace.op("eleven days later", 11 * DAY_US, 11 * DAY_US + 5).op("eleven days", 2, 2 + 11 * DAY_US)
    with pytest.warns(
        HotlineWarning, match=r"results exclude 2 events over ten days .* \(7 events were read, none was lost\)"
    ):
        run = ha.load(trace.write(tmp_path / "trace.json"))
    with run:
        assert times(run) == {
            **{f"op {number}": (10_000 * number, 5_000) for number in range(4)},
            "nine days later": (9 * DAY_US * 1000, 5_000),
            "eleven days later": (11 * DAY_US * 1000, None),
            "eleven days": (2_000, None),
        }
        labelled = run.sql("select event_id from label order by event_id")["event_id"].to_list()
        assert labelled == [0, 1, 2, 3, 4]
        path = ha.export_perfetto(run, tmp_path / "again.json", annotate=False)
    written = {event["name"]: event for event in json.loads(path.read_text())["traceEvents"]}
    assert written["eleven days later"]["dur"] == 5
    assert written["eleven days"]["dur"] == 11 * DAY_US


def test_the_gpu_may_have_another_clock(tmp_path: Path) -> None:
    """Its middle is its own, and it is moved: the first work starts with its launch, at 0 us."""
    far = 1_700_000_000_000_000
    trace = TraceBuilder(rank=0).step(0, 0, 100).op("aten::mm", 0, 50)
    for number in range(3):
        trace.launches("gemm", far + 10 * number, far + 10 * number + 4)
    with pytest.warns(HotlineWarning, match="GPU clock is .* ahead of the CPU clock: 3 events are moved"):
        run = ha.load(trace.write(tmp_path / "trace.json"))
    with run:
        assert run.sql("select start_ns, dur_ns from gpu_event order by start_ns").rows() == [
            (0, 4_000),
            (10_000, 4_000),
            (20_000, 4_000),
        ]
        # Within the step, the device idles from 4 to 10, 14 to 20 and 24 to 100 us.
        assert run.sql("select sum(end_ns - start_ns)::bigint as ns from gpu_gap").item() == 88_000


def test_durations_that_add_up_to_more_than_years(tmp_path: Path) -> None:
    """200 ops of nine days are 1.6e17 ns, over three years; half of it allows 1e17 // 203 ns for each of the 203."""
    trace = TraceBuilder(rank=0)
    for number in range(200):
        trace.on(number).op("long", 0, 9 * DAY_US)
    trace.on(999).op("at the limit", 0, Decimal(10**17 // 203) / 1000)
    trace.op("above it", 0, Decimal(10**17 // 203 + 1) / 1000).op("short", 0, 7)
    with pytest.warns(HotlineWarning, match="results exclude 201 events lasting days or years"):
        run = ha.load(trace.write(tmp_path / "trace.json"))
    with run:
        counted = run.sql("select name, dur_ns from event where dur_ns is not null order by event_id").rows()
    assert counted == [("at the limit", 10**17 // 203), ("short", 7_000)]


def test_bytes_that_no_device_has(tmp_path: Path) -> None:
    trace = TraceBuilder(rank=0).op("aten::mm", 0, 100)
    trace.memory(512, 10, total=512, device=0, address=1).memory(-(2**63), 20, total=2**62, device=0, address=2)
    trace.memory(256, 30, total=-(2**63), device=0, address=3)
    trace.op("copy", 100, 200).launches("c", 150, 160, category="gpu_memcpy", bytes=2**63 - 1)
    with trace.load(tmp_path) as run:
        changes = run.sql("select bytes, allocated_bytes from memory_change order by start_ns").rows()
        assert changes == [(512, 512), (256, 768)]
        assert run.sql("select bytes, bytes_per_s from gpu_copy").rows() == [(None, None)]
        assert ha.memory_peak(run)["peak_bytes"].unique().to_list() == [768]


def test_counters_beyond_all_numbers(tmp_path: Path) -> None:
    fadd, ffma = (f"smsp__sass_thread_inst_executed_op_{name}_pred_on.sum" for name in ("fadd", "ffma"))
    trace = TraceBuilder(rank=0)
    counted: list[dict[str, Any]] = [{fadd: 5, ffma: 7}, {fadd: 1e300, ffma: -3}, {fadd: "many", ffma: 2}]
    for number, values in enumerate(counted):
        trace.op(f"op {number}", 100 * number, 100 * number + 50)
        trace.launches("k", 100 * number + 10, 100 * number + 20)
        trace.complete("cuda_profiler_range", "k", 100 * number + 10, 100 * number + 20, values)
    with trace.load(tmp_path) as run:
        flops = ha.cupti_flops(run)
    # 5 adds and 7 fused multiply-adds; a bound for what is too large; a fused multiply-add alone
    assert sorted(flops["flop"].to_list()) == [2 * 2, 5 + 2 * 7, 10**18]


def test_a_path_with_time_that_nothing_explains_is_drawn() -> None:
    edge = {"bound_by": "unobserved", "weight_ns": 5, "name": "k", "phase": None}
    drawn = charts.critical_path(pl.DataFrame([edge], schema_overrides={"phase": pl.String})).to_dict()
    assert "work that the trace lacks" in json.dumps(drawn)
