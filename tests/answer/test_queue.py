"""`queue_length` and `queue_length_summary`: by hand on small traces, and against a loop on random ones."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import hotline_analysis as ha
from hotline_analysis import Trace
from tests.trace_builder import TraceBuilder


def series(trace: Trace, **scope: Any) -> list[tuple[int, int, float, float, int]]:
    """Device, stream, start and end in microseconds, length."""
    frame = ha.queue_length(trace, **scope)
    return [
        (device, stream, start / 1000, end / 1000, length) for _, device, stream, start, end, length, *_ in frame.rows()
    ]


def two_launches() -> TraceBuilder:
    """Calls at 10 and 20; their kernels start at 30 and 60. A third call, for another stream, starts work at once."""
    trace = TraceBuilder(rank=3).step(0, 0, 50).step(1, 50, 100).op("aten::mm", 5, 90)
    trace.launches("a", 30, 60, at=10, until=12).launches("b", 60, 70, at=20, until=25)
    return trace.launches("c", 80, 85, at=80, until=84, stream=8)


def test_a_launch_waits_until_its_work_starts(tmp_path: Path) -> None:
    builder = two_launches()
    trace = builder.load(tmp_path)
    assert series(trace) == [
        (0, 7, 10, 20, 1),
        (0, 7, 20, 30, 2),
        (0, 7, 30, 60, 1),
        (0, 7, 60, 60, 0),
    ]
    frame = ha.queue_length(trace, stream=7)
    assert set(frame["rank"]) == {3}
    calls, (a, b) = builder.ids("cudaLaunchKernel"), [builder.ids(name)[0] for name in "ab"]
    assert frame["launch_id"].to_list() == [calls[0], calls[1], None, None]
    assert frame["started_id"].to_list() == [None, None, a, b]


def test_the_scopes(tmp_path: Path) -> None:
    trace = two_launches().load(tmp_path)
    assert series(trace, step=0) == [(0, 7, 10, 20, 1), (0, 7, 20, 30, 2), (0, 7, 30, 60, 1)]
    assert series(trace, step=1) == [(0, 7, 60, 60, 0)]
    assert len(series(trace, rank=3, device=0, stream=7)) == 4


def test_the_summary_weighs_with_time(tmp_path: Path) -> None:
    """Length 1 for 10 and 30 us, 2 for 10 us: mean (10 + 30 + 20) / 50."""
    builder = two_launches()
    row = ha.queue_length_summary(builder.load(tmp_path), stream=7, max_queue_length=2).row(0, named=True)
    assert row == {
        "rank": 3,
        "device": 0,
        "stream": 7,
        "launch_count": 2,
        "observed_ns": 50_000,
        "empty_ns": 0,
        "full_ns": 10_000,
        "full_pct": pytest.approx(20),
        "full_launch_count": 0,
        "full_call_ns": 0,
        "blocked_ns": 0,
        "mean_length": pytest.approx(1.2),
        "median_length": 1,
        "p95_length": 2,
        "max_length": 2,
        "max_id": builder.ids("cudaLaunchKernel")[1],
    }


def test_a_full_queue_blocks_the_host(tmp_path: Path) -> None:
    """Three calls of 1 us fill the queue; the fourth takes 31 us. The kernels start at 100 and later."""
    trace = TraceBuilder().op("aten::mm", 0, 90)
    for number in range(3):
        trace.launches("k", 100 + 10 * number, 110 + 10 * number)
    trace.launches("k", 130, 140, at=10, until=41)
    row = ha.queue_length_summary(trace.load(tmp_path), max_queue_length=3).row(0, named=True)
    assert (row["full_launch_count"], row["full_call_ns"], row["blocked_ns"]) == (1, 31_000, 30_000)
    assert row["full_ns"] == (100 - 2 + 110 - 100) * 1000


def test_a_graph_launch_counts_once_per_stream(tmp_path: Path) -> None:
    trace = TraceBuilder().runtime("cudaGraphLaunch", 0, 5, correlation=9)
    for start, stream in ((10, 7), (20, 7), (15, 8)):
        trace.kernel("k", start, start + 5, correlation=9, stream=stream)
    assert series(trace.load(tmp_path)) == [(0, 7, 0, 10, 1), (0, 7, 10, 10, 0), (0, 8, 0, 15, 1), (0, 8, 15, 15, 0)]


def test_work_before_its_launch_or_without_one_never_waits(tmp_path: Path) -> None:
    trace = TraceBuilder().op("aten::mm", 10, 20).launches("early", 5, 8).kernel("unlinked", 1, 3, correlation=77)
    loaded = trace.load(tmp_path)
    assert series(loaded) == []
    row = ha.queue_length_summary(loaded).row(0, named=True)
    assert (row["launch_count"], row["observed_ns"], row["full_pct"], row["max_length"]) == (1, 0, None, 0)


@st.composite
def launches(draw: st.DrawFn) -> TraceBuilder:
    trace = TraceBuilder()
    for correlation in range(1, draw(st.integers(1, 12)) + 1):
        at = draw(st.integers(0, 30))
        api = draw(
            st.sampled_from(["cudaLaunchKernel", "cuLaunchKernelEx", "hipModuleLaunchKernel", "cudaGraphLaunch"])
        )
        trace.on(correlation).runtime(api, at, at + draw(st.integers(1, 9)), correlation=correlation)
        for _ in range(draw(st.integers(0, 2))):
            start = draw(st.integers(0, 60))
            where = {"stream": draw(st.integers(7, 8)), "device": draw(st.integers(0, 1))}
            trace.kernel("k", start, start + draw(st.integers(0, 9)), correlation=correlation, **where)
    return trace


def counted(builder: TraceBuilder) -> dict[tuple[int, int], list[int]]:
    """Length of each queue at every microsecond, from the first launch to the last start."""
    called = {e["args"]["correlation"]: int(e["ts"]) for e in builder.events if e["cat"] == "cuda_runtime"}
    started: dict[tuple[int, int], dict[int, int]] = defaultdict(dict)
    for event in builder.events:
        if event["cat"] == "kernel":
            args = event["args"]
            queue = started[args["device"], args["stream"]]
            queue[args["correlation"]] = min(int(event["ts"]), queue.get(args["correlation"], 999))
    lengths = {}
    for key, first in started.items():
        spans = [(called[number], max(start, called[number])) for number, start in first.items()]
        window = range(min(start for start, _ in spans), max(end for _, end in spans))
        lengths[key] = [sum(start <= at < end for start, end in spans) for at in window]
    return lengths


@settings(max_examples=6, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(launches())
def test_the_length_is_that_of_a_count_at_every_time(builder: TraceBuilder) -> None:
    expected = counted(builder)
    with tempfile.TemporaryDirectory() as folder, builder.load(Path(folder)) as trace:
        found: dict[tuple[int, int], list[int]] = defaultdict(list)
        for device, stream, start, end, length in series(trace):
            found[device, stream] += [length] * int(end - start)
        # The series begins and ends with a change; work that never waited changes nothing.
        strip = {key: "".join(map(chr, lengths)).strip(chr(0)) for key, lengths in expected.items()}
        assert {key: "".join(map(chr, lengths)) for key, lengths in found.items()} == {
            key: lengths for key, lengths in strip.items() if lengths
        }
        for row in ha.queue_length_summary(trace, max_queue_length=2).iter_rows(named=True):
            lengths = sorted(expected.pop((row["device"], row["stream"])))
            assert row["observed_ns"] == 1000 * len(lengths)
            assert row["empty_ns"] == 1000 * lengths.count(0)
            assert row["full_ns"] == 1000 * sum(length >= 2 for length in lengths)
            if lengths:
                assert row["mean_length"] == pytest.approx(sum(lengths) / len(lengths))
                assert row["median_length"] == lengths[(len(lengths) + 1) // 2 - 1]
                assert row["p95_length"] == lengths[(95 * len(lengths) + 99) // 100 - 1]
                assert row["max_length"] == lengths[-1]
        assert not expected
