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
from tests.conformance.hta import path_of
from tests.real_traces import HTA, file, gpu_events, interval, ns, opened

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
EXPECTED: dict[str, set[str]] = {
    "counters/alexnet_a100": {"between ops", "waits", "queues"},
    "counters/simple_add_a100": {"between ops", "waits", "queues"},
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

pytestmark = [pytest.mark.traces, pytest.mark.skipif(not HTA.exists(), reason="the figures of HTA are not there")]


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


class Work(NamedTuple):
    ended: int
    reached: int


class Threads:
    """The longest path to each moment of each thread: its counted time, and what waits for the GPU have added."""

    def __init__(self, counted: dict[Any, Callable[[int], int]]) -> None:
        self.counted = counted
        self.added: dict[Any, list[tuple[int, int]]] = {thread: [(0, 0)] for thread in counted}

    def until(self, thread: Any, at: int) -> int:
        added = self.added[thread]
        return self.counted[thread](at) + added[bisect_right(added, (at, 1 << 62)) - 1][1]

    def wait(self, call: Call, reached: int) -> None:
        """A call that ends not before a path of this length."""
        missing = reached - self.until(call.thread, call.end)
        if missing > 0:
            self.added[call.thread].append((call.end, self.added[call.thread][-1][1] + missing))

    def longest(self) -> int:
        return max(self.until(thread, 1 << 62) for thread in self.counted)


class Stream:
    """A queue of the GPU: what has ended on it, and how many launches wait."""

    def __init__(self, work: list[tuple[int, int, Call]]) -> None:
        self.starts = sorted(start for start, _, _ in work)
        self.calls = sorted(call.start for _, _, call in work)
        self.ended: int | None = None
        self.reached = 0

    def waiting(self, at: int) -> int:
        return bisect_right(self.calls, at) - bisect_right(self.starts, at)

    def run(self, start: int, end: int, call: Call, threads: Threads, held: Work | None, queues: bool) -> Work:
        """One piece of work; `held` is another stream's that it waits for."""
        lengths = [0 if held is None else held.reached]
        was_idle = all(at is None or at < call.start for at in (self.ended, held and held.ended))
        if (was_idle and self.waiting(call.start) == 1 and self.waiting(start) == 0) or not queues:
            lengths.append(threads.until(call.thread, call.start) + start - call.start)
        elif self.ended is not None and start - self.ended < 1_500_000 and (held is None or held.ended < self.ended):
            lengths.append(self.reached + start - self.ended)
        self.ended, self.reached = end, max(lengths) + end - start
        return Work(self.ended, self.reached)


def longest(name: str, reasons: Collection[str]) -> int:
    """The longest path through what HTA's graph has, in nanoseconds."""
    window = window_of(name, reasons)
    calls = threads_of(name, window, reasons)
    threads = Threads({thread: busy(found, window[0], reasons) for thread, found in calls.items()})
    launched: dict[int, Call] = {}
    for event in file(path_of(name))["traceEvents"]:
        correlation = event.get("args", {}).get("correlation") or 0
        if event.get("cat") in CPU[1:] and correlation > 0 and window[0] <= ns(event["ts"]) < window[1]:
            # A thread that was merged into another is found there.
            thread = next(key for key in ((event["pid"], event["tid"]), *calls) if key in calls)
            launched[correlation] = Call(*interval(event), thread, event["name"])
    work: dict[Any, list[tuple[int, int, Call]]] = defaultdict(list)
    # Work counts when it starts, a record of synchronisation when it ends.
    todo: list[tuple[int, int, Any, int]] = []
    seen: set[int] = set()
    for _, event in gpu_events(path_of(name)):
        correlation = event["args"].get("correlation") or 0
        if correlation not in launched or ("graphs" in reasons and correlation in seen):
            continue
        seen.add(correlation)
        stream = event["args"].get("device"), event["args"]["stream"]
        start, end = interval(event)
        work[stream].append((start, end, launched[correlation]))
        todo.append((start, end, stream, correlation))
    streams = {stream: Stream(rows) for stream, rows in work.items()}
    records = [row for row in records_of(name) if row["correlation"] in launched]
    held = held_work(records, launched, work)
    todo += [(row["end"], -1, row, row["correlation"]) for row in records if row["kind"] in ("Stream", "Context")]
    done: dict[int, Work] = {}
    for at, end, which, correlation in sorted(todo, key=lambda row: row[:2]):
        call = launched[correlation]
        if end >= 0:
            awaited = done.get(held.get(correlation, 0))
            done[correlation] = streams[which].run(at, end, call, threads, awaited, "queues" in reasons)
            continue
        for stream, queue in streams.items():
            if which["kind"] == "Context" or stream == (which["device"], which["stream"]):
                threads.wait(call, queue.reached)
    return max([threads.longest(), *(reached for _, reached in done.values())])


def records_of(name: str) -> list[dict[str, Any]]:
    """The records of synchronisation (`cuda_sync`), which only some traces have: of a Stream, Context or Event."""
    return [
        {**event["args"], "kind": event["name"].removesuffix(" Sync"), "end": interval(event)[1]}
        for event in file(path_of(name))["traceEvents"]
        if event.get("cat") == "cuda_sync"
    ]


def held_work(
    records: list[dict[str, Any]], launched: dict[int, Call], work: dict[Any, list[tuple[int, int, Call]]]
) -> dict[int, int]:
    """Work that waits for a CUDA event, and the work before that event: by the correlations of their launches."""
    number = {call: correlation for correlation, call in launched.items()}
    found = {}
    for record in records:
        recorded = launched.get(record.get("wait_on_cuda_event_record_corr_id", 0))
        if record["kind"] != "Stream Wait Event" or recorded is None:
            continue
        source, target = (record["device"], record["wait_on_stream"]), (record["device"], record["stream"])
        waits = launched[record["correlation"]]
        before = [call for _, _, call in work.get(source, ()) if call < recorded]
        after = [call for _, _, call in work.get(target, ()) if call > waits and call.thread == waits.thread]
        if before and after:
            found[number[min(after)]] = number[max(before)]
    return found


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
    trace = opened(path_of(name))
    if step is not None:
        graph = ha.dependency_graph(trace, step=int(step.partition("#")[2]), until="host")
    else:
        calls = [call for found in threads_of(name, (start, end, step), ()).values() for call in found]
        start, end = min(call.start for call in calls), max(call.end for call in calls)
        graph = ha.dependency_graph(trace, start_ns=start, end_ns=end, until="host")
    assert graph.path()["weight_ns"].sum() == graph.length_ns == end - start > everything
