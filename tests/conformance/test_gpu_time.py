"""HTA's answers on real traces beside ours: equal where HTA is right, and where they differ, why.

Each figure is computed three times: by HTA (`reference/hta.json`, without its rounding of times), by the plain loops
below over the JSON, and by us. The loops reproduce HTA with all of `REASONS` switched on, so nothing else is behind a
difference, and our answers with none, to the nanosecond. Where no reason applies, ours equals HTA's directly.
"""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import polars as pl
import pytest

import hotline_analysis as ha
from tests.conformance.hta import path_of
from tests.intervals import union
from tests.real_traces import GPU, HTA, SPELLINGS, file, ns, opened

pytestmark = pytest.mark.traces


REASONS = {
    "unlinked": "with two steps or more, HTA drops work whose launch is not in the trace",
    "last step": "HTA drops what was launched in the last step, or after it",
    "sync rows": "HTA counts synchronisation records on a stream as work",
    "cpu rows": "HTA counts CPU ops that carry a stream (Triton's) as kernels",
    "classes": "HTA takes communication for computation, or the other way round, by its names",
    "overlap": "HTA takes the gap to the previous row, which is negative where work on a stream overlaps",
    "event 0": "HTA compares work without a launch with the first event of the file",
}
TOGETHER = ("multi_rank/rank-0", "multi_rank/rank-1")  # HTA read them as one
NAMES = sorted({*json.loads(HTA.read_text())["traces"], *TOGETHER} - {"multi_rank"}) if HTA.exists() else []

Span = tuple[int, int]


@dataclass(frozen=True)
class Row:
    """A row of HTA's table: an event with a duration and a category. Times in nanoseconds, -1 for no stream or id."""

    index: int
    category: str
    name: str
    start: int
    end: int
    stream: int
    correlation: int

    @property
    def is_work(self) -> bool:
        return self.category in GPU


def integer(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else -1


@cache
def rows(name: str) -> list[Row]:
    kept = []
    for index, event in enumerate(file(path_of(name))["traceEvents"]):
        if event.get("dur") is None or not event.get("cat") or event["cat"] == "Trace":
            continue
        args, start = event.get("args") or {}, ns(event["ts"])
        category = SPELLINGS.get(event["cat"], event["cat"])
        stream, correlation = integer(args.get("stream")), integer(args.get("correlation"))
        kept.append(Row(index, category, event["name"], start, start + ns(event["dur"]), stream, correlation))
    return kept


@cache
def launches(name: str) -> dict[int, Row]:
    """The CPU row of each correlation, in HTA's sense of a CPU row."""
    found: dict[int, Row] = {}
    for row in rows(name):
        is_gpu = (row.stream >= 0 and row.correlation >= 0) or row.name in ("Event Sync", "Context Sync")
        if not is_gpu and row.correlation >= 0:
            found[row.correlation] = row
    return found


def work(name: str, variant: str, reasons: Iterable[str]) -> list[Row]:
    """What counts as GPU work, with some of HTA's ways."""
    return _work(name, variant, tuple(reason for reason in reasons if reason in SELECTION))


@cache
def _work(name: str, variant: str, reasons: Sequence[str]) -> list[Row]:
    chosen = [row for row in rows(name) if row.is_work]
    if "sync rows" in reasons:
        chosen += [row for row in rows(name) if not row.is_work and row.stream != -1 and row.category != "cpu_op"]
    if "cpu rows" in reasons:
        chosen += [row for row in rows(name) if row.category == "cpu_op" and row.stream != -1]
    steps = [row for row in rows(name) if row.name.startswith("ProfilerStep#") and row.stream == -1]
    if len({row.name for row in steps}) >= 2:
        launch = launches(name)
        if "unlinked" in reasons:
            chosen = [row for row in chosen if row.correlation in launch]
        if "last step" in reasons:
            last = max(row.end + 1 if variant == "all_steps" else row.start for row in steps)
            chosen = [row for row in chosen if row.correlation not in launch or launch[row.correlation].start < last]
    return sorted(chosen, key=lambda row: (row.start, row.index))


def hta_class(name: str) -> str:
    if re.match("nccl|hip|hccl", name) or "ncclKernel" in name:
        return "communication"
    if re.match("Memcpy|Memset|dma", name):
        return "memory"
    other = "runFunction|job_exe|packet|pe_exe|cpum_exe_subgraph|collective_subgraph_execution|Stream Wait Event"
    if re.search("Memcpy|Memset|dma|Sync", name) or re.match(rf"{other}|cuda.*LaunchKernel", name):
        return "other"
    return "computation"


@cache
def our_classes(name: str) -> dict[str, str]:
    return dict(opened(path_of(name)).sql("select name, class from name_info where class is not null").rows())


def spans(name: str, variant: str, reasons: Iterable[str]) -> dict[str, list[Span]]:
    """Intervals of work by class."""
    found = defaultdict(list)
    for row in work(name, variant, reasons):
        if row.end > row.start:
            ours = our_classes(name).get(row.name, "other")
            found[hta_class(row.name) if "classes" in reasons else ours].append((row.start, row.end))
    return found


def both(a: Sequence[Span], b: Sequence[Span]) -> int:
    """How long both sets of intervals are active."""
    return union(a) + union(b) - union([*a, *b])


def temporal(name: str, variant: str, reasons: Iterable[str]) -> tuple[int, int, int, int]:
    """Window from the first to the last work, idle and computation time, and communication beside computation."""
    found = spans(name, variant, reasons)
    everything = [span for each in found.values() for span in each]
    if not everything:
        return 0, 0, 0, 0
    window = max(end for _, end in everything) - min(start for start, _ in everything)
    overlap = both(found["computation"], found["communication"])
    return window, window - union(everything), union(found["computation"]), overlap


def applies(name: str, variant: str, measure: Any, candidates: Sequence[str]) -> set[str]:
    """The reasons that change a figure when they are taken away from HTA's way."""
    everything = measure(name, variant, candidates)
    return {
        reason
        for reason in candidates
        if measure(name, variant, [other for other in candidates if other != reason]) != everything
    }


@cache
def results() -> dict[str, Any]:
    content: dict[str, Any] = json.loads(HTA.read_text())["traces"]
    return content


def reference(name: str, variant: str, key: str) -> Any:
    """HTA's answer for one trace, also where it read several ranks at once."""
    if name not in TOGETHER:
        return results()[name].get(variant, {}).get(key)
    run, _, rank = name.partition("/rank-")
    found = results()[run].get(variant, {}).get(key)

    def own(part: Any) -> Any:
        return [row for row in part if row.get("rank", int(rank)) == int(rank)] if isinstance(part, list) else part

    if key == "launch_stats":
        return {rank: found[rank]}
    return {word: own(part) for word, part in found.items()} if isinstance(found, dict) else own(found)


def read_with(name: str) -> Sequence[str]:
    """The traces that HTA puts together where it does not say the rank."""
    return TOGETHER if name in TOGETHER else (name,)


SELECTION = ("unlinked", "last step", "sync rows", "cpu rows", "classes")
VARIANTS = ("default_steps", "all_steps")

# Why the idle and computation time differ; a trace that is not listed agrees. Where the last step counts, only that.
TEMPORAL = {
    "training/resnet18_ddp_checkpoint_mi300": {"unlinked"},
    "training/dlrm_v100_cudagraph": {"unlinked"},
    "inference/vllm_b200": {"classes", "cpu rows"},
    "counters/alexnet_a100": {"sync rows"},
    "counters/simple_add_a100": {"sync rows"},
}


@pytest.mark.parametrize("name", NAMES)
def test_answers_of_hta(name: str) -> None:
    """One test for all answers of a trace, as reading the JSON takes longest."""
    temporal_breakdown_and_overlap(name)
    kernel_breakdown(name)
    idle_time_breakdown(name)
    launch_stats(name)


def temporal_breakdown_and_overlap(name: str) -> None:
    frame = ha.temporal_breakdown(opened(path_of(name)))
    assert frame.height <= 1, "HTA puts all devices of a rank together; these traces have one each"
    ours = (0, 0, 0, 0)
    if frame.height:
        row = frame.row(0, named=True)
        together = row["computation_communication_ns"] + row["all_three_ns"]
        ours = (row["window_ns"] - row["edge_ns"], row["idle_ns"] - row["edge_ns"], row["computation_ns"], together)
    assert ours == temporal(name, "all_steps", ()), "ours, to the nanosecond"
    for variant in VARIANTS:
        theirs = reference(name, variant, "temporal_breakdown")
        if theirs is None:
            continue
        if "ERROR" in theirs:
            assert ours == (0, 0, 0, 0), "HTA raises on a trace without GPU work; we have no rows"
            continue
        in_their_way = temporal(name, variant, SELECTION)
        figures = [theirs[0][key] for key in ("kernel_time(us)", "idle_time(us)", "compute_time(us)")]
        assert [value / 1000 for value in in_their_way[:3]] == pytest.approx(figures, abs=0.01)
        communication = union(spans(name, variant, SELECTION)["communication"])
        share = reference(name, variant, "comm_comp_overlap")[0]["comp_comm_overlap_pctg"]
        if communication:
            assert 100 * in_their_way[3] / communication == pytest.approx(share, abs=0.006)
        else:
            assert share is None or share == 0
        reasons = applies(name, variant, temporal, SELECTION)
        if not reasons:
            assert [value / 1000 for value in ours[:3]] == pytest.approx(figures, abs=0.01)
        assert reasons - {"last step"} == TEMPORAL.get(name, set()), variant


# --- kernels ---------------------------------------------------------------------------------------------------------

PARTS = {
    "COMPUTATION": "computation_only_ns",
    "COMMUNICATION": "communication_only_ns",
    "MEMORY": "memory_only_ns",
    "COMPUTATION overlapping COMMUNICATION": "computation_communication_ns",
    "COMPUTATION overlapping MEMORY": "computation_memory_ns",
    "COMMUNICATION overlapping MEMORY": "communication_memory_ns",
    "COMPUTATION overlapping COMMUNICATION overlapping MEMORY": "all_three_ns",
}


def durations(name: str, variant: str, reasons: Iterable[str]) -> dict[str, list[int]]:
    found = defaultdict(list)
    for row in work(name, variant, reasons):
        found[row.name].append(row.end - row.start)
    return found


def spread(lengths: list[int]) -> float:
    """Standard deviation of a sample, from exact integers."""
    count, total = len(lengths), sum(lengths)
    return math.sqrt((count * sum(x * x for x in lengths) - total * total) / (count * (count - 1))) if count > 1 else 0


def kernel_breakdown(name: str) -> None:
    together = read_with(name)
    frame = pl.concat(ha.temporal_breakdown(opened(path_of(each))) for each in together)
    statistic = {row["key"]: row for row in ha.kernel_breakdown(opened(path_of(name)), by="name").to_dicts()}
    for key, lengths in durations(name, "all_steps", ()).items():
        row = statistic[key]
        assert (row["count"], row["gpu_time_ns"]) == (len(lengths), sum(lengths))
        assert (row["min_ns"], row["max_ns"]) == (min(lengths), max(lengths))
        assert row["std_ns"] == pytest.approx(spread(lengths), rel=1e-9, abs=1e-6)
    for variant in VARIANTS:
        theirs = reference(name, variant, "kernel_breakdown_full")
        if theirs is None or "ERROR" in theirs:
            continue
        if not any(applies(each, variant, temporal, SELECTION) for each in together):
            # Each of HTA's stretches is cut to whole microseconds, which loses up to one for every border of work.
            for row in theirs["kernel_type"]:
                ours = int(frame[PARTS[row["kernel_type"]]].sum()) / 1000
                assert row["sum"] <= ours + 0.5
                assert ours - row["sum"] <= 2 * sum(len(work(each, variant, ())) for each in together)
        in_their_way, in_ours = durations(name, variant, SELECTION), durations(name, variant, ())
        for row in theirs["top5_per_rank_and_type"]:
            lengths = in_their_way[row["name"]]
            figures = [row[key] for key in ("sum (us)", "max (us)", "min (us)", "mean (us)")]
            found = [sum(lengths), max(lengths), min(lengths), sum(lengths) / len(lengths)]
            assert [value / 1000 for value in found] == pytest.approx(figures, abs=0.01)
            if lengths == in_ours[row["name"]]:
                mine = statistic[row["name"]]
                same = [mine[key] / 1000 for key in ("gpu_time_ns", "max_ns", "min_ns", "mean_ns")]
                assert same == pytest.approx(figures, abs=0.01)
                assert mine["std_ns"] / 1000 == pytest.approx(row["stddev"], abs=0.01)


# --- idle time -------------------------------------------------------------------------------------------------------

IDLE = ("unlinked", "last step", "overlap", "event 0")
WAITS = ("host_wait", "kernel_wait", "other", "unknown")
IDLE_REASONS: dict[str, set[str]] = {
    "training/resnet18_ddp_checkpoint_mi300": {"unlinked"},
    "training/dlrm_v100_cudagraph": {"unlinked", "overlap"},
    "inference/qwen_h100": {"event 0"},
    "inference/vllm_b200": {"overlap"},
}


def idle(name: str, variant: str, reasons: Sequence[str]) -> dict[tuple[int, str], int]:
    """Idle time per stream and HTA's category: by the launch, and then by the length of the gap."""
    launch = launches(name)
    streams = defaultdict(list)
    for row in work(name, variant, reasons):
        if row.stream != -1 and row.is_work and (row.end > row.start or "overlap" in reasons):
            streams[row.stream].append(row)
    found: dict[tuple[int, str], int] = defaultdict(int)
    for stream, ordered in streams.items():
        reached = ordered[0].end
        for row in ordered[1:]:
            gap, launched = row.start - reached, launch.get(row.correlation)
            if launched is None and "event 0" in reasons:
                launched = rows(name)[0]
            if gap > 0 or "overlap" in reasons:
                if launched is None:
                    kind = "unknown"
                elif launched.start > reached:
                    kind = "host_wait"
                else:
                    kind = "kernel_wait" if gap < 30_000 else "other"
                found[stream, kind] += gap
            reached = row.end if "overlap" in reasons else max(reached, row.end)
    return {key: value for key, value in found.items() if value}


def idle_time_breakdown(name: str) -> None:
    launch = opened(path_of(name)).sql("select event_id as next_id, launch_start_ns from launch")
    gaps = ha.idle_gaps(opened(path_of(name)), None, by="stream").join(launch, on="next_id")
    kind = (
        pl.when(pl.col("unknown_ns") > 0)
        .then(pl.lit("unknown"))
        .when(pl.col("launch_start_ns") > pl.col("start_ns"))
        .then(pl.lit("host_wait"))
        .when(pl.col("dur_ns") < 30_000)
        .then(pl.lit("kernel_wait"))
        .otherwise(pl.lit("other"))
    )
    sums = gaps.group_by("stream", kind.alias("kind")).agg(pl.col("dur_ns").sum())
    ours = {(stream, word): total for stream, word, total in sums.rows()}
    assert ours == idle(name, "all_steps", ()), "ours, to the nanosecond"
    for variant in VARIANTS:
        theirs = reference(name, variant, "idle_time_breakdown")
        if theirs is None or "ERROR" in theirs:
            continue
        figures = {(row["stream"], row["idle_category"]): row["idle_time"] for row in theirs["breakdown"]}
        in_their_way = idle(name, variant, IDLE)
        slack = 0.01 + 1e-5 * len(work(name, variant, ()))  # HTA adds up floating-point microseconds
        for key, value in figures.items():
            assert in_their_way.get(key, 0) / 1000 == pytest.approx(value, abs=slack), (variant, key)
        reasons = applies(name, variant, idle, IDLE)
        if not reasons:
            assert {key: value / 1000 for key, value in ours.items()} == pytest.approx(
                {key: value for key, value in figures.items() if value}, abs=slack
            )
        assert reasons - {"last step"} == IDLE_REASONS.get(name, set()), variant


# --- launches --------------------------------------------------------------------------------------------------------

APIS = ("cudaLaunchKernel", "cudaLaunchKernelExC", "cudaMemcpyAsync", "cudaMemsetAsync")


def launch_stats(name: str) -> None:
    ours = ha.kernel_launches(opened(path_of(name)))
    linked = [row for row in work(name, "all_steps", ()) if row.correlation in launches(name)]
    assert ours["api"].drop_nulls().len() == len(linked)
    known = ours.filter(pl.col("api").is_in(APIS))
    for variant in VARIANTS:
        theirs = reference(name, variant, "launch_stats")
        if theirs is None or "ERROR" in theirs:
            continue
        figures = next(iter(theirs.values()))
        launch = launches(name)
        kept = [row for row in work(name, variant, SELECTION[:2]) if row.correlation in launch]
        kept = [row for row in kept if launch[row.correlation].name in APIS]
        assert figures["n"] == len(kept)
        if not kept:
            continue
        calls = [launch[row.correlation] for row in kept]
        delays = [max(0, row.start - call.end) for row, call in zip(kept, calls, strict=True)]
        expected = {
            "sum_cpu": sum(call.end - call.start for call in calls),
            "sum_gpu": sum(row.end - row.start for row in kept),
            "sum_launch_delay": sum(delays),
        }
        for key, value in expected.items():
            assert value / 1000 == pytest.approx(figures[key], abs=0.01 * len(kept)), key
        if len(kept) == known.height:
            sums = (known["launch_ns"].sum(), known["gpu_ns"].sum(), known["queue_ns"].sum())
            assert sums == tuple(expected.values())
            marks = [known[column].sum() for column in ("is_short", "is_runtime_outlier", "is_delay_outlier")]
            assert marks == [figures[key] for key in ("short_gpu_lt_cpu_le50", "runtime_gt_50", "delay_gt_100")]
