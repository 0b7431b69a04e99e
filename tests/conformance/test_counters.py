"""Queues, bandwidth, annotations and delays beside those of Holistic Trace Analysis, on every trace it was run on.

Where a figure differs there is a named reason, and a loop over the JSON proves it: with HTA's rule it gives HTA's
figure, with ours it gives ours.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import cache
from itertools import pairwise
from typing import Any

import polars as pl
import pytest

import hotline_analysis as ha
from tests.real_traces import HTA, NAMES, Event, file, gpu_events, ns, opened

pytestmark = pytest.mark.traces


# The launch calls that HTA counts.
KNOWN_CALLS = {
    "cudaLaunchKernel", "cudaLaunchKernelExC", "cuLaunchKernel", "cuLaunchKernelEx", "cudaMemcpyAsync",
    "cudaMemsetAsync", "hipLaunchKernel", "hipExtModuleLaunchKernel", "hipMemsetAsync", "hipMemcpyAsync",
    "hipMemcpyWithStream",
}  # fmt: skip


@cache
def reference() -> dict[str, Any]:
    traces: dict[str, Any] = json.loads(HTA.read_text(encoding="utf-8"))["traces"]
    return traces


# The traces of one rank that HTA was run on.
SINGLE = [
    name
    for name in NAMES
    if not name.startswith(("labelled", "multi_rank")) and name.removesuffix(".json.gz") in reference()
]


def of_hta(name: str, what: str) -> list[dict[str, Any]]:
    """HTA's rows with the last step, if it can include it."""
    runs = reference()[name.removesuffix(".json.gz")]
    found = runs.get("all_steps", runs["default_steps"])[what]
    return found if isinstance(found, list) else []


def launches(name: str, known: Callable[[str], bool]) -> dict[int, dict[int, tuple[int, int]]]:
    """Of each stream, start of the call and of its first work on the stream, by correlation."""
    calls: dict[int, Event] = {}
    for event in file(name)["traceEvents"]:
        correlation = event.get("args", {}).get("correlation", 0)
        if str(event.get("cat", "")).lower() in RUNTIME and correlation > 0 and known(event["name"]):
            calls.setdefault(correlation, event)
    streams: dict[int, dict[int, tuple[int, int]]] = defaultdict(dict)
    for _, event in gpu_events(name):
        correlation = event["args"].get("correlation", 0)
        if correlation in calls:
            called, started = ns(calls[correlation]["ts"]), ns(event["ts"])
            first = streams[event["args"]["stream"]].get(correlation, (called, started))
            streams[event["args"]["stream"]][correlation] = (called, max(called, min(started, first[1])))
    return streams


RUNTIME = {"cuda_runtime", "cuda_driver", "runtime", "driver"}


def lengths(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Times at which a queue changes, and its length from then on; what happens at one time counts together."""
    changes: dict[int, int] = defaultdict(int)
    for called, started in spans:
        changes[called] += 1
        changes[started] -= 1
    length, found = 0, []
    for at, change in sorted(changes.items()):
        length += change
        found.append((at, length))
    return found


@pytest.mark.parametrize("name", SINGLE)
def test_queues(name: str) -> None:
    """Reason: missing launch APIs (`hipExtLaunchKernel`, graph launches): HTA does not count what they launch."""
    theirs = {row["stream"]: row for row in of_hta(name, "queue_length_summary")}
    summary = ha.queue_length_summary(opened(name), max_queue_length=1024)
    ours = {row["stream"]: row for row in summary.iter_rows(named=True)}
    every, known = launches(name, lambda call: True), launches(name, KNOWN_CALLS.__contains__)
    assert ours.keys() == every.keys()
    assert theirs.keys() == known.keys()
    blocked = {row["stream"]: row for row in of_hta(name, "blocked_on_full_queue_1024")}
    for stream, row in ours.items():
        series = lengths(every[stream].values())
        assert row["launch_count"] == len(every[stream])
        assert row["max_length"] == max(length for _, length in series)
        spans = [(length, after - at) for (at, length), (after, _) in pairwise(series)]
        assert row["full_ns"] == sum(span for length, span in spans if length >= 1024)
        if stream in theirs:
            assert theirs[stream]["queue_length_count"] == 2 * len(known[stream])
            if known[stream] == every[stream]:
                assert theirs[stream]["queue_length_max"] == row["max_length"]
        if stream in blocked:
            assert row["full_ns"] == round(1000 * blocked[stream]["duration_at_max_queue_length"])


def peak_bandwidth(copies: list[Event], *, ends_first: bool) -> float:
    """Largest sum of bandwidths at a time. HTA takes 1 us for none, and adds what starts before it takes off."""
    edges = []
    for event in copies:
        start, dur = ns(event["ts"]), ns(event["dur"])
        rate = float(event["args"]["memory bandwidth (GB/s)"])
        if ends_first and not dur:
            continue
        end = start + (dur or 1000)
        edges += [(start, ends_first, rate), (end, not ends_first, -rate)]
    total = largest = 0.0
    for _, _, rate in sorted(edges):
        total += rate
        largest = max(largest, total)
    return largest


@pytest.mark.parametrize("name", [*SINGLE, *(name for name in NAMES if name.startswith("multi_rank"))])
def test_bandwidths(name: str) -> None:
    """Reason: time rounding. Where one copy ends in the microsecond in which the next starts, HTA adds them up."""
    kinds: dict[str, list[Event]] = defaultdict(list)
    for _, event in gpu_events(name):
        if event["name"].startswith(("Memcpy", "Memset")) and "memory bandwidth (GB/s)" in event["args"]:
            kinds[event["name"].partition(" (")[0]].append(event)
    trace = opened(name)
    ours = {row["kind"]: row for row in ha.memory_bandwidth_summary(trace).iter_rows(named=True)}
    for kind, copies in kinds.items():
        assert ours[kind]["max_gb_per_s"] == pytest.approx(peak_bandwidth(copies, ends_first=True), rel=1e-6)
        assert ours[kind]["bytes"] == sum(event["args"]["bytes"] for event in copies)
    rank = trace.ranks[0]
    for row in of_hta("multi_rank" if name.startswith("multi_rank") else name, "memory_bw_summary"):
        if row["rank"] == rank and row["name"] in kinds and "cudagraph" not in name:
            largest = peak_bandwidth(kinds[row["name"]], ends_first=False)
            assert row["memory_bw_gbps_max"] == pytest.approx(largest, rel=1e-5, abs=1e-6)


def sums(name: str, category: str, *, nested: bool) -> dict[str, int]:
    """Time by name; without `nested`, what lies in another annotation of the same name and thread is left out."""
    spans = defaultdict(list)
    for event in file(name)["traceEvents"]:
        if event.get("cat") == category and "dur" in event:
            start = ns(event["ts"])
            spans[event["name"], event["tid"]].append((start, -start - ns(event["dur"])))
    totals: dict[str, int] = defaultdict(int)
    for (label, _), own in spans.items():
        reached = -1
        for start, minus_end in sorted(own):
            if nested or start >= reached:
                totals[label] += -minus_end - start
            reached = max(reached, -minus_end)
    return totals


@pytest.mark.parametrize("name", SINGLE)
@pytest.mark.parametrize(("side", "category"), [("cpu", "user_annotation"), ("gpu", "gpu_user_annotation")])
def test_annotations(name: str, side: str, category: str) -> None:
    """Reason: an annotation inside one of the same name counts once with us and twice with HTA."""
    frame = ha.user_annotations(opened(name)).filter(pl.col("side") == side)
    assert dict(frame.select("name", "total_ns").rows()) == sums(name, category, nested=False)
    assert frame["self_ns"].sum() <= frame["total_ns"].sum()
    every = sums(name, category, nested=True)
    theirs = {row["name"]: round(1000 * row["sum (us)"]) for row in of_hta(name, f"{side}_user_annotation_breakdown")}
    # HTA leaves out what starts after the last step, and drops names beyond a limit.
    assert all(time <= every.get(label, time) for label, time in theirs.items())
    assert not theirs or any(time == every.get(label) for label, time in theirs.items())


def test_kernels_of_annotations() -> None:
    """Where annotations do not overlap on a stream, HTA's overlap in time and our launches agree."""
    for name in ("inference/bert_small_h100.json.gz", "inference/vllm_b200.json.gz"):
        frame = ha.annotation_kernels(opened(name))
        theirs = reference()[name.removesuffix(".json.gz")]["default_steps"]["gpu_kernels_with_user_annotations"]
        assert frame.height == theirs["n"]
        found: dict[str, int] = defaultdict(int)
        for label, time in frame.select("annotation", "dur_ns").rows():
            found[re.sub(r"\(.*?\)", "", label or "")] += time  # HTA shortens names so
        assert found == {label: round(1000 * time) for label, time in theirs["by_annotation_sum_us"].items()}


@pytest.mark.parametrize(
    "name", ["counters/alexnet_a100.json.gz", "counters/simple_add_a100.json.gz", "inference/bert_small_h100.json.gz"]
)
def test_delays(name: str) -> None:
    """Same calls, same means. Reasons: HTA leaves out copies and memsets, and ops that are not `aten::`."""
    frame = ha.op_delays(opened(name))
    ours = {(row["op"], row["kernel_sequence"]): row for row in frame.iter_rows(named=True)}
    theirs = reference()[name.removesuffix(".json.gz")]["default_steps"]["aten_op_kernels_and_delay"]
    checked = 0
    for row in theirs["top"]:
        same = ours.get((row["aten_op_name"], row["kernel_sequence"]))
        if same is not None and same["call_count"] == row["occurrence_count"]:
            checked += 1
            assert same["mean_op_to_launch_ns"] == pytest.approx(1000 * row["avg_aten_op_launch_delay"], abs=1)
            assert same["mean_launch_to_start_ns"] == pytest.approx(1000 * row["avg_runtime_delay"], abs=1)
    assert checked >= 3


def test_hardware_counters() -> None:
    """As many ranges as HTA pairs by position. Here the names confirm the order; shifted by one they would not."""
    name = "counters/alexnet_cupti_a100.json.gz"
    frame = ha.cupti_counters(opened(name))
    ranges = [event for event in file(name)["traceEvents"] if event.get("cat") == "cuda_profiler_range"]
    assert frame["event_id"].n_unique() == len(ranges) == 77
    assert len(frame) == sum(len(event["args"]) for event in ranges)
    assert frame["value"].sum() == sum(sum(event["args"].values()) for event in ranges)
    assert set(frame["evidence"]) == {"order_and_name"}
    ops = frame.unique("event_id", maintain_order=True)["op"].to_list()
    names = [event["name"] for event in ranges]
    repeated = {name for name in names if names.count(name) > 1 and name != "__missing__"}

    def agreement(shift: int) -> float:
        pairs = [(n, o) for n, o in zip(names, ops[shift:] + ops[:shift], strict=True) if n in repeated]
        return sum(max(pairs.count(pair) for pair in pairs if pair[0] == n) for n in repeated) / len(pairs)

    assert agreement(0) == 1
    assert max(agreement(1), agreement(-1)) < 0.9
    # Two forward passes of AlexNet: its linear layers have 58.6 million weights, the batch has 128 images.
    flops = ha.cupti_flops(opened(name)).filter(pl.col("op") == "aten::addmm").row(0, named=True)
    assert flops["fp32_flop"] == pytest.approx(2 * 128 * 2 * 58_621_952, rel=0.01)
