"""Which GPU events count: whatever a damaged trace holds, all figures have the same ones, and the rest is told."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import hotline_analysis as ha
from tests.intervals import union
from tests.odd_values import load
from tests.query_arguments import training
from tests.trace_builder import TraceBuilder

GPU = ("kernel", "gpu_memcpy", "gpu_memset")
PHASES = ["X", "X", "i", "I", "B", "b", "x", "C", "M", "N", "s", "", 1, None]
KEYS = ["ph", "ts", "dur", "name", "args", "pid", "tid", "cat"]


def damaged(rng: random.Random) -> TraceBuilder:
    """A training trace in which a third of the GPU events have another phase, or lack a key, or have an odd time.

    Some of the calls that launch them lack keys, too.
    """
    trace = training()
    for event in trace.events:
        if event.get("cat") in GPU and rng.random() < 0.4:
            change = rng.randrange(3)
            if change == 0:
                event["ph"] = rng.choice(PHASES)
            elif change == 1:
                del event[rng.choice(KEYS)]
            else:
                event[rng.choice(["ts", "dur"])] = rng.choice([-5, None, "soon", "7", 0, [3], {"us": 1}, True])
        elif event.get("cat") in ("cuda_runtime", "cpu_op") and rng.random() < 0.2:
            for key in rng.choice([("pid", "tid"), ("tid",), ("ts",), ("dur",), ("args",)]):
                event.pop(key, None)
    return trace


def number(value: Any) -> int | None:
    """A time as the trace format has it, in nanoseconds: a number, or its digits as text."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        return None
    try:
        return 1000 * int(value)
    except ValueError:
        return None


def counting(event: dict[str, Any]) -> tuple[int, int] | None:
    """Start and duration of an event that counts: a complete one with both."""
    start, dur = number(event.get("ts")), number(event.get("dur"))
    if event.get("ph") != "X" or start is None or dur is None or dur < 0:
        return None
    return start, dur


def is_before_launch(event: dict[str, Any], events: list[dict[str, Any]]) -> bool:
    """Whether work starts over a millisecond before the first call with its correlation."""
    own = event.get("args", {}).get("correlation")
    calls = [
        times[0]
        for other in events
        if other.get("cat") in ("cuda_runtime", "cuda_driver")
        and other.get("args", {}).get("correlation") == own
        and {"pid", "tid"} & other.keys()
        and (times := counting(other))
    ]
    times = counting(event)
    return bool(own and calls and times and times[0] < min(calls) - 10**6)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.sampled
def test_every_figure_has_the_same_events(seed: int, tmp_path: Path) -> None:
    trace = damaged(random.Random(seed))
    events = json.loads(trace.text())["traceEvents"]
    work = {
        number: (*times, event)
        for number, event in enumerate(events)
        if event.get("cat") in GPU and (times := counting(event)) and not is_before_launch(event, events)
    }
    others = [
        number
        for number, event in enumerate(events)
        if (not counting(event) and (event.get("cat") in GPU or event.get("ph") == "X"))
        or (event.get("cat") in GPU and is_before_launch(event, events))
    ]
    spans = defaultdict(list)
    for start, dur, event in work.values():
        spans[event.get("args", {}).get("device", -1)].append((start, start + dur))
    busy = {device: union(own) for device, own in spans.items() if union(own)}
    total = sum(dur for _, dur, _ in work.values())
    assert len(work) > 5
    with load(trace.write(tmp_path / "trace.json")) as run:
        for table in ("launch", "gpu_event"):
            found = run.sql(f"select event_id from {table} order by event_id")["event_id"].to_list()
            assert found == sorted(work), table
        labelled = run.sql("select event_id from label")["event_id"].to_list()
        assert set(labelled) >= set(work)
        assert len(set(labelled)) == len(labelled)
        assert not set(others) & set(labelled)
        coverage = ha.coverage(run)
        assert coverage["event_count"].sum() == len(work)
        assert coverage["gpu_time_ns"].sum() == total
        for by in ("class", "name", "op", "phase", "category"):
            kernels = ha.kernel_breakdown(run, by=by)
            assert kernels["count"].sum() == len(work), by
            assert kernels["gpu_time_ns"].sum() == total, by
            assert kernels["busy_ns"].sum() == sum(busy.values()), by
        slowest = run.query("slowest_kernels", limit=1000)
        assert (slowest["count"].sum(), slowest["gpu_time_ns"].sum()) == (len(work), total)
        windows = ha.temporal_breakdown(run)
        assert dict(windows.select("device", "busy_ns").rows()) == busy
        use = ha.device_use(run).filter(scope="run")
        assert use["gpu_busy_ns"].to_list() == [sum(busy.values())]
        parts = ha.gpu_parts(run).filter(~pl.col("part").str.starts_with("idle"))
        assert (parts["count"].sum(), parts["dur_ns"].sum()) == (len(work), total)
        assert parts["time_ns"].sum() == sum(busy.values())
        assert ha.kernel_launches(run)["gpu_ns"].sum() == total
        told = [text for text in run.manifest["warnings"] if "results exclude" in text]
        if others:
            assert f"results exclude {len(others)} event" in told[0]
            gpu = [number for number in others if events[number].get("cat") in GPU]
            assert (f", {len(gpu)} of them GPU work" in told[0]) == bool(gpu)
        else:
            assert not told
