"""HTA's critical paths on real traces: reproduced by plain loops, with the reasons why ours are longer.

The loops follow HTA's graph with all of `REASONS` switched on, and give HTA's figure; a reason applies to a trace if
the figure changes without it. Ours is as long as the step, as a path through everything that happened must be.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Collection
from itertools import accumulate
from typing import Any, NamedTuple

import pytest

import hotline_analysis as ha
from tests.conformance.test_gpu_time import path_of
from tests.test_real_traces import HTA, file, gpu_events, interval, ns, opened

REASONS = {
    "between ops": "the time between a thread's top-level ops is nothing",
    "waits": "calls that synchronise are nothing",
    "threads": "one thread does not follow another, unless names of just these two have forward and autograd in them",
    "queues": "work follows its launch only where its queue was empty, else what was before it, up to 1.5 ms later",
    "graphs": "of a graph launch, one kernel counts",
    "window": "the second ProfilerStep is the span that the profiler drew on a stream",
}
WAITS = ("cudaDeviceSynchronize", "cudaStreamSynchronize", "cudaEventQuery", "cudaEventSynchronize")
CPU = ("cpu_op", "cuda_runtime", "cuda_driver")
# Where records of synchronisation (`cuda_sync`) add edges of their own, the loops do not follow: counters/*.
EXPECTED: dict[str, set[str]] = {
    "training/ddp_v100_memory": {"between ops", "threads"},
    "training/ddp_a100_annotated": {"between ops", "threads", "waits"},
    "training/dlrm_a100_rank3": {"between ops", "threads", "waits", "queues"},
    "training/dlrm_v100_cudagraph": {"between ops", "threads", "waits", "queues", "graphs"},
    "training/resnet18_ddp_checkpoint_mi300": {"queues"},
    "multi_rank/rank-0": {"between ops", "queues"},
    "inference/bert_small_h100": {"between ops", "waits", "window"},
    "inference/qwen_h100": {"between ops", "waits", "queues", "window"},
    "inference/vllm_b200": {"between ops"},
    "inference/sglang_graph_replay_mi300": {"between ops", "queues", "graphs"},
    "robustness/gpu_only_mi210": {"between ops", "threads", "queues"},
}

pytestmark = pytest.mark.skipif(not HTA.exists(), reason="the figures of HTA are not there")


class Call(NamedTuple):
    start: int
    end: int
    thread: Any
    name: str


def reference(name: str) -> dict[str, Any]:
    trace = "multi_rank" if name.startswith("multi_rank") else name
    found: dict[str, Any] = json.loads(HTA.read_text())["traces"][trace]["default_steps"]["critical_path"]
    return found


def window_of(name: str, reasons: Collection[str]) -> tuple[int, int, str | None]:
    """Start, end and name of the step that HTA looks at, or the whole trace."""
    marks = [
        event
        for event in file(path_of(name))["traceEvents"]
        if str(event.get("name")).startswith("ProfilerStep")
        and "dur" in event
        and ("window" in reasons or event["cat"] != "gpu_user_annotation")
    ]
    if not marks:
        return 0, 1 << 62, None
    mark = marks[min(reference(name)["instance"], len(marks) - 1)]
    return *interval(mark), mark["name"]


def threads_of(name: str, window: tuple[int, int, str | None], reasons: Collection[str]) -> dict[Any, list[Call]]:
    """What the threads do in the window. Without `threads`, all of them are one."""
    found: dict[Any, list[Call]] = defaultdict(list)
    words: dict[str, set[Any]] = {"forward": set(), "autograd": set()}
    for event in file(path_of(name))["traceEvents"]:
        if "dur" not in event or event.get("cat") not in (*CPU, "user_annotation"):
            continue
        if not window[0] <= ns(event["ts"]) < window[1]:
            continue
        thread = (event["pid"], event["tid"]) if "threads" in reasons else "all"
        for word, where in words.items():
            if word in event["name"]:
                where.add(thread)
        if event["cat"] in CPU:
            found[thread].append(Call(*interval(event), thread, event["name"]))
    if "threads" in reasons and all(len(where) == 1 for where in words.values()):
        (first,), (second,) = words.values()
        if first != second:
            found[first] += found.pop(second)
    return found


def busy(calls: list[Call], start: int, reasons: Collection[str]) -> Callable[[int], int]:
    """How much of the thread's time until a moment counts."""
    merged: list[list[int]] = []
    for call in sorted(calls):
        if merged and call.start <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], call.end)
        elif call.end > call.start:
            merged.append([call.start, call.end])
    begins = [begin for begin, _ in merged]
    before = [0, *accumulate(end - begin for begin, end in merged)]
    waits = sorted((call.end, call.end - call.start) for call in calls if call.name in WAITS)
    waited = [0, *accumulate(length for _, length in waits)]

    def until(at: int) -> int:
        place = bisect_right(begins, at) - 1
        if place < 0:
            return 0
        if "between ops" in reasons:
            counted = before[place] + min(at, merged[place][1]) - merged[place][0]
        else:
            counted = min(at, merged[-1][1]) - max(start, begins[0])
        return counted - ("waits" in reasons) * waited[bisect_right(waits, (at, 1 << 62))]

    return until


def longest(name: str, reasons: Collection[str]) -> int:
    """The longest path through what HTA's graph has, in nanoseconds."""
    window = window_of(name, reasons)
    threads = threads_of(name, window, reasons)
    until = {thread: busy(calls, window[0], reasons) for thread, calls in threads.items()}
    best = max(counted(1 << 62) for counted in until.values())
    launched: dict[int, Call] = {}
    for event in file(path_of(name))["traceEvents"]:
        correlation = event.get("args", {}).get("correlation") or 0
        if event.get("cat") in CPU[1:] and correlation > 0 and window[0] <= ns(event["ts"]) < window[1]:
            # A thread that was merged into another is found there.
            thread = next(key for key in ((event["pid"], event["tid"]), *threads) if key in threads)
            launched[correlation] = Call(*interval(event), thread, event["name"])
    streams: dict[Any, list[tuple[int, int, Call]]] = defaultdict(list)
    seen: set[int] = set()
    for _, event in gpu_events(path_of(name)):
        correlation = event["args"].get("correlation") or 0
        if correlation not in launched or ("graphs" in reasons and correlation in seen):
            continue
        seen.add(correlation)
        streams[event["args"].get("device"), event["args"]["stream"]].append((*interval(event), launched[correlation]))
    for work in streams.values():
        best = max(best, longest_of_stream(work, until, reasons))
    return best


def longest_of_stream(
    work: list[tuple[int, int, Call]], until: dict[Any, Callable[[int], int]], reasons: Collection[str]
) -> int:
    starts, calls = sorted(start for start, _, _ in work), sorted(call.start for _, _, call in work)

    def waiting(at: int) -> int:
        return bisect_right(calls, at) - bisect_right(starts, at)

    best, previous, reached = 0, None, 0
    for start, end, call in sorted(work, key=lambda row: row[:2]):
        by_launch = until[call.thread](call.start) + start - call.start
        was_idle = previous is None or previous <= call.start
        if (was_idle and waiting(call.start) == 1 and waiting(start) == 0) or "queues" not in reasons:
            length = by_launch
        elif previous is not None and start - previous < 1_500_000:
            length = reached + start - previous
        else:
            length = 0
        previous, reached = end, length + end - start
        best = max(best, reached)
    return best


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_paths_of_hta(name: str) -> None:
    """HTA's figure by loops, why it is what it is, and ours, which is as long as the step."""
    everything = longest(name, REASONS)
    assert everything / 1000 == pytest.approx(reference(name)["duration_us"], abs=0.01)
    found = {
        reason for reason in REASONS if longest(name, [other for other in REASONS if other != reason]) != everything
    }
    assert found == EXPECTED[name]
    start, end, step = window_of(name, ())
    if step is not None:
        number = int(step.partition("#")[2])
        assert ha.dependency_graph(opened(path_of(name)), step=number, until="host").length_ns == end - start
