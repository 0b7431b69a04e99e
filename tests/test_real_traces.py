"""Real traces of many kinds, against numbers that plain loops over the JSON find. `HOTLINE_TRACES` is their folder."""

from __future__ import annotations

import bisect
import gzip
import json
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from decimal import Decimal
from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import hotline_analysis as ha
from hotline_analysis import Trace, catalog
from hotline_analysis.answers.comparison import Chosen, Level, Timeline, compare
from tests import runs
from tests.intervals import union
from tests.real_traces import HTA, NAMES, SPELLINGS, TRACES, Event, file, gpu_events, interval, ns, opened
from tests.view.agreement import agreement

pytestmark = pytest.mark.traces


SCORE = TRACES.parent / "tools" / "score_annotation.py"

CAUSES = [
    f"{cause}_ns"
    for cause in ("load_data", "sync", "cpu_tensor", "op", "python", "launch", "queued", "unobserved", "unknown")
]


def overlap(spans: Iterable[tuple[int, int]], window: tuple[int, int]) -> int:
    return sum(max(0, min(end, window[1]) - max(start, window[0])) for start, end in spans)


# --- every trace -----------------------------------------------------------------------------------------------------


@pytest.fixture(params=[name for name in NAMES if not runs.is_as_another(TRACES / name)])
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_every_trace_adds_up(name: str) -> None:
    """One test for all invariants of a trace, as reading the JSON takes longest."""
    trace = opened(name)
    gpu_time_is_that_of_the_file(trace, name)
    busy_time_is_that_of_the_file(trace, name)
    busy_and_idle_fill_the_window(trace)
    idle_causes_are_those_of_the_file(trace, name)
    nesting_is_that_of_a_stack(trace)
    phases_fill_the_steps(trace)
    answers_agree(trace)
    the_tree_has_the_times_of_the_phases(trace)
    the_tree_changes_as_little_as_the_program(trace)
    the_critical_path_is_as_long_as_the_window(trace)
    a_graph_library_finds_the_same_times(trace)
    kernel_patterns_occur_as_often_as_they_say(trace)
    parts_add_up(trace, name)


def the_critical_path_is_as_long_as_the_window(trace: Trace) -> None:
    """Exactly one edge into each node binds, and no edge is longer than observed: so the times of all nodes follow."""
    for rank in trace.ranks:
        steps = trace.sql("select step from step where rank = $rank order by start_ns", rank=rank)["step"]
        for step, until in ((steps[len(steps) // 2], "host"), (steps[len(steps) // 2], "work")):
            graph = ha.dependency_graph(trace, rank=rank, step=step, until=until)  # type: ignore[arg-type]
            edges, binding, path = graph.edges, graph.edges.filter("binds"), graph.path()
            slack = pl.col("end_ns") - pl.col("start_ns") - pl.col("weight_ns")
            assert edges.filter((slack < 0) | (pl.col("weight_ns") < 0)).is_empty()
            assert binding.filter(slack != 0).is_empty()
            assert binding["to_id"].is_unique().all()
            assert binding["to_id"].n_unique() == edges["to_id"].n_unique()
            assert path["weight_ns"].sum() == graph.length_ns == graph.retimed_ns() > 0
            assert (path["start_ns"][1:] == path["end_ns"][:-1]).all()
            again = graph.retimed_path()
            assert (again["end_ns"] - again["start_ns"] == again["weight_ns"]).all()
            # The path of the unchanged graph has the observed times.
            observed = edges.select("to_id", "end_ns").unique()
            assert again.join(observed, on=["to_id", "end_ns"], how="anti").is_empty()
    parts = ha.critical_path_breakdown(trace, by=["phase", "bound_by"])
    assert parts["path_ns"].sum() == ha.dependency_graph(trace).length_ns


def a_graph_library_finds_the_same_times(trace: Trace) -> None:
    """The longest path of the median step, as it was and with work twice as fast: ours, a library's, plain loops."""
    rustworkx = pytest.importorskip("rustworkx")
    lengths = trace.query("step_lengths", rank=min(trace.ranks)).filter(role="typical")
    for step in lengths["step"]:
        graph = ha.dependency_graph(trace, step=step, until="launched", frames=False)
        weight = pl.when(kind="work").then(pl.col("weight_ns") // 2).otherwise("weight_ns")
        for each in (graph, graph.reweighted(weight)):
            into: dict[int, list[tuple[int, int]]] = {}
            out: dict[int, list[int]] = {}
            missing: dict[int, int] = {}
            for source, target, length in each.edges.select("from_id", "to_id", "weight_ns").rows():
                into.setdefault(target, []).append((source, length))
                out.setdefault(source, []).append(target)
                missing[target] = missing.get(target, 0) + 1
            times: dict[int, int] = {}
            ready = [node for node in out if node not in missing]
            while ready:
                node = ready.pop()
                times[node] = max((times[source] + length for source, length in into.get(node, ())), default=0)
                for target in out.get(node, ()):
                    missing[target] -= 1
                    if not missing[target]:
                        ready.append(target)
            library = rustworkx.dag_longest_path_length(each.to_rustworkx(), lambda _, __, length: length)
            assert each.retimed_ns() == times.get(1, 0) == library


def kernel_patterns_occur_as_often_as_they_say(trace: Trace) -> None:
    """Counted once more from left to right, without overlaps."""
    streams: dict[tuple[int, ...], list[str]] = defaultdict(list)
    work = trace.query("kernel_sequence")
    for rank, device, stream, name in work.select("rank", "device", "stream", "short_name").iter_rows():
        streams[rank, device, stream].append(name)
    assert work["gap_ns"].min() in (0, None)
    assert work.filter(pl.col("launch_gap_ns") > pl.col("gap_ns")).is_empty()
    for pattern, length, count in ha.frequent_kernel_patterns(trace, 3).select("pattern", "length", "count").rows():
        parts = pattern.split(" → ")
        assert len(parts) == length
        found = 0
        for names in streams.values():
            at = 0
            while at + length <= len(names):
                match = names[at] == parts[0] and names[at : at + length] == parts
                found += match
                at += length if match else 1
        assert found == count >= 2


def gpu_time_is_that_of_the_file(trace: Trace, name: str) -> None:
    events = gpu_events(name)
    coverage = ha.coverage(trace)
    assert coverage["event_count"].sum() == len(events)
    assert coverage["gpu_time_ns"].sum() == sum(ns(event["dur"]) for _, event in events)
    assert coverage["bucket"].null_count() == 0
    if events:
        assert coverage["gpu_time_pct"].sum() == pytest.approx(100, abs=1e-9)


def busy_time_is_that_of_the_file(trace: Trace, name: str) -> None:
    devices = defaultdict(list)
    for _, event in gpu_events(name):
        devices[event["args"]["device"]].append(interval(event))
    busy = {device: total for device, spans in devices.items() if (total := union(spans))}
    found = trace.sql("select device, sum(end_ns - start_ns)::bigint from gpu_busy group by device").rows()
    assert dict(found) == busy
    assert (trace.sql("select sum(busy_ns)::bigint from launch").item() or 0) == sum(busy.values())


def parts_add_up(trace: Trace, name: str) -> None:
    parts = ha.gpu_parts(trace)
    observed = (
        "select coalesce(sum(end_ns - start_ns), 0)::bigint as ns from (from gpu_busy union all by name from gpu_gap)"
    )
    assert parts["time_ns"].sum() == trace.sql(observed)["ns"][0]
    assert (parts["time_ns"] >= 0).all()
    layers: dict[str, int] = defaultdict(int)
    spans = defaultdict(list)
    for _, event in gpu_events(name):
        is_communication = re.search("nccl|all_reduce", event["name"], re.IGNORECASE)
        part = "communication" if is_communication else "computation"
        part = part if SPELLINGS.get(event["cat"], event["cat"]) == "kernel" else "memory"
        spans[event["args"]["device"], part].append(interval(event))
    for device in {device for device, _ in spans}:
        seen: list[tuple[int, int]] = []
        for part in ("computation", "communication", "memory"):
            layers[part] += union(seen + spans[device, part]) - union(seen)
            seen += spans[device, part]
    work = parts.filter(pl.col("count") > 0).group_by("part").agg(pl.col("time_ns").sum())
    assert dict(work.rows()) == {part: time for part, time in layers.items() if part in set(work["part"])}
    assert work["time_ns"].sum() == sum(layers.values())
    on_cpu = ha.cpu_parts(trace)
    assert (on_cpu["time_ns"] >= 0).all()
    if not on_cpu.is_empty():
        per_step = on_cpu.group_by("rank", "step").agg(pl.col("time_ns").sum())
        assert (
            per_step.sort("rank", "step").rows() == ha.steps(trace).select("rank", "step", "dur_ns").sort("step").rows()
        )


def busy_and_idle_fill_the_window(trace: Trace) -> None:
    windows = trace.sql(
        "select device, least(min(gpu_busy.start_ns), any_value(first)),"
        " greatest(max(gpu_busy.end_ns), any_value(last))"
        " from gpu_busy cross join (select min(start_ns) as first, max(end_ns) as last from step) group by device"
    ).rows()
    spans = trace.sql(
        "select device, start_ns, end_ns from gpu_busy union all"
        " select device, start_ns, end_ns from gpu_gap order by all"
    ).rows()
    for device, first, last in windows:
        own = [(start, end) for other, start, end in spans if other == device]
        assert (own[0][0], own[-1][1]) == (first, last)
        assert all(left[1] == right[0] for left, right in pairwise(own))
    parts = " + ".join(CAUSES)
    assert trace.sql(f"from gpu_gap where {parts} is distinct from end_ns - start_ns").is_empty()
    assert trace.sql(f"from gpu_gap where least({', '.join(CAUSES)}) < 0").is_empty()


# Calls that return when the GPU is done (CUDA runtime API, "API synchronization behavior"; HIP likewise).
SYNC = re.compile(r"\w*Synchronize|(cuda|hip)(Free|Memcpy|MemcpyWithStream|Memcpy2D|Memcpy3D)")


def idle_causes_are_those_of_the_file(trace: Trace, name: str) -> None:
    """Each gap's causes by a loop over the events of the file.

    Until its launch, work waits for the launching thread: that is in a call that blocks, in an op or another call, or
    in anything else; the phase that loads data goes before, and where the thread shows nothing, the main thread counts.
    Which phases load data, and which of the ops compute on CPU tensors, is taken from the tables: for these only, it is
    checked that no call of the runtime is in them.
    """
    starting: dict[tuple[int, int], int] = {}
    for number, event in gpu_events(name):
        if event["dur"]:
            key = (event["args"].get("device", -1), ns(event["ts"]))
            starting[key] = min(starting.get(key, number), number)
    launches = {
        row[0]: row[1:]
        for row in trace.sql(
            "select launch.event_id, launch_start_ns, launch_start_ns + launch_dur_ns, nesting.track_id"
            " from launch left join nesting"
            " on launch.rank = nesting.rank and coalesce(launch.runtime_id, launch.op_id) = nesting.event_id"
            " where link is not null"
        ).rows()
    }
    parts: dict[tuple[int, int], dict[str, int]] = defaultdict(lambda: defaultdict(int))
    threads = _Threads(trace)
    kinds = {"load_data": "load_data", "sync": "sync", "cpu_tensor": "op", "op": "op", "python": "python"}
    for device, gap, start, end, cause, track in trace.sql(
        "select device, gap_ns, start_ns, end_ns, cause, track_id from idle_part"
    ).rows():
        parts[device, gap][kinds.get(cause, cause)] += end - start
        if cause == "cpu_tensor":
            assert not threads.calls(track, start, end)
    busy: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for device, start, end in trace.sql("select device, start_ns, end_ns from gpu_busy").rows():
        busy[device].append((start, end))
    for device, start, end in trace.sql("select device, start_ns, end_ns from gpu_gap").rows():
        work = starting.get((device, end))
        expected: dict[str, int] = defaultdict(int)
        others = [spans for other, spans in busy.items() if other != device]
        if work is not None and work not in launches:
            expected["unknown"] = end - start
        else:
            called, returned, track = (end, end, None) if work is None else launches[work]
            launched = max(start, min(end, called))
            threads.add(expected, track, start, launched)
            due = launched if returned <= start else max(launched, min(end, returned + 50_000))
            blocked = (
                max(launched, min(due, returned))
                if work is not None and threads.kind(track, launched) == "sync"
                else launched
            )
            expected["sync"] += blocked - launched
            expected["launch"] += due - blocked
            waits_for_another = any(first <= end and last >= end - 50_000 for spans in others for first, last in spans)
            expected["unobserved" if end - due > 50_000 and not waits_for_another else "queued"] += end - due
        assert {key: value for key, value in expected.items() if value} == dict(parts[device, start])


class _Threads:
    """What each thread does at a time, of its events in order."""

    def __init__(self, trace: Trace) -> None:
        called = trace.sql(
            "select track_id, category, name, nesting.start_ns, nesting.end_ns from nesting inner join event"
            " using (rank, event_id, track_id) where nesting.end_ns > nesting.start_ns"
        ).rows()
        layers: dict[int, dict[str, list[tuple[int, int]]]] = defaultdict(lambda: defaultdict(list))
        for track, category, label, start, end in called:
            if category in ("cuda_runtime", "cuda_driver") and SYNC.fullmatch(label):
                layers[track]["sync"].append((start, end))
            if category in ("cuda_runtime", "cuda_driver", "cpu_op"):
                layers[track]["op"].append((start, end))
            if category in ("cuda_runtime", "cuda_driver"):
                layers[track]["call"].append((start, end))
            layers[track]["python"].append((start, end))
        for track, start, end in trace.sql(
            "select track_id, start_ns, end_ns from phase_span where phase = 'load_data'"
        ).rows():
            layers[track]["load_data"].append((start, end))
        self._layers = {
            track: {kind: merged(spans) for kind, spans in kinds.items()} for track, kinds in layers.items()
        }
        for track, hooks in self._hooks(trace).items():
            ops = self._layers[track]["op"]
            self._layers[track]["op"] = [piece for span in ops for piece in without(within(hooks, span), span)]
        main = trace.sql(
            "select track_id, count(*) from step where track_id is not null group by all order by 2 desc"
        ).rows()
        # Without steps, the thread that the time after the last work is told of.
        main = main or trace.sql("select track_id from idle_part where next_id is null and track_id is not null").rows()
        self._main = main[0][0] if main else None
        # A recorder of calls alone does not show what the host does between them.
        shows_host = "category in ('cpu_op', 'user_annotation', 'python_function')"
        self._rest = "python" if trace.sql(f"select 1 from event where {shows_host} limit 1").height else "unknown"

    @staticmethod
    def _hooks(trace: Trace) -> dict[int, list[tuple[int, int]]]:
        """Pauses of 100 us or more of autograd's calls that contain other events: python that autograd runs."""
        children: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for parent, start, end in trace.sql("select parent_id, start_ns, end_ns from nesting order by start_ns").rows():
            children[parent].append((start, end))
        calls = "name like 'autograd::engine::evaluate_function:%' or name like '%AccumulateGrad'"
        found: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for number, track, start, end in trace.sql(
            f"select event_id, track_id, start_ns, end_ns from cpu_event where {calls} order by start_ns"
        ).rows():
            if number in children:
                pauses = without(merged(children[number]), (start, end))
                found[track] += [(first, last) for first, last in pauses if last - first >= 100_000]
        return {track: merged(spans) for track, spans in found.items() if spans}

    def calls(self, track: int, start: int, end: int) -> list[tuple[int, int]]:
        return [span for span in self._layers.get(track, {}).get("call", []) if start < span[1] and span[0] < end]

    def kind(self, track: int | None, at: int) -> str:
        found: dict[str, int] = defaultdict(int)
        self.add(found, track, at, at + 1)
        (kind,) = (kind for kind, time in found.items() if time)
        return kind

    def add(self, expected: dict[str, int], track: int | None, start: int, end: int) -> None:
        chosen = self._main if track is None else track
        left = [(start, end)] if end > start else []
        for thread in (chosen, self._main):
            for kind in ("load_data", "sync", "op", "python"):
                spans = self._layers.get(thread, {}).get(kind, [])  # type: ignore[arg-type]
                here = [piece for window in left for piece in within(spans, window)]
                expected[kind] += sum(last - first for first, last in here)
                left = [piece for window in left for piece in without(here, window)]
        expected[self._rest] += sum(last - first for first, last in left)


def merged(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return found


def within(spans: list[tuple[int, int]], window: tuple[int, int]) -> list[tuple[int, int]]:
    """The parts of spans, in order, that lie in a window."""
    place = max(0, bisect.bisect_right(spans, (window[0], 1 << 62)) - 1)
    found = []
    for start, end in spans[place:]:
        if start >= window[1]:
            break
        if end > window[0]:
            found.append((max(start, window[0]), min(end, window[1])))
    return found


def without(spans: list[tuple[int, int]], window: tuple[int, int]) -> list[tuple[int, int]]:
    """What is left of a window."""
    edges = [window[0], *(edge for span in within(spans, window) for edge in span), window[1]]
    return [(start, end) for start, end in zip(edges[::2], edges[1::2], strict=True) if end > start]


def nesting_is_that_of_a_stack(trace: Trace) -> None:
    """On the times that the tree itself uses, since it fits annotations between the frames that they cross."""
    spans = trace.sql(
        "select nesting.track_id, nesting.start_ns, -nesting.end_ns as minus_end_ns, case category when 'cpu_op' then 1"
        " when 'user_annotation' then 0 when 'python_function' then 0 else 2 end as layer, event_id"
        " from nesting inner join event using (rank, event_id) order by all"
    ).rows()
    expected = {}
    inside: dict[int, int] = defaultdict(int)
    stack: list[tuple[int, int, int | None]] = []  # number, end, innermost op
    thread = None
    for track, start, minus_end, layer, number in spans:
        if track != thread:
            stack, thread = [], track
        while stack and stack[-1][1] <= start:
            stack.pop()
        op = number if layer == 1 else stack[-1][2] if stack else None
        expected[number] = (stack[-1][0] if stack else None, len(stack), op)
        if stack:
            inside[stack[-1][0]] += -minus_end - start
        if -minus_end > start:
            stack.append((number, -minus_end, op))
    found = trace.sql("select event_id, parent_id, depth, op_id, end_ns - start_ns - self_ns from nesting").rows()
    assert {row[0]: row[1:4] for row in found} == expected
    assert {row[0]: row[4] for row in found} == {number: inside[number] for number in expected}


def phases_fill_the_steps(trace: Trace) -> None:
    phases = ha.phases(trace)
    duration = trace.sql("select coalesce(sum(end_ns - start_ns), 0)::bigint from step").item()
    has_cpu = not trace.sql("from nesting limit 1").is_empty()
    assert phases["cpu_ns"].sum() == (duration if has_cpu else 0)
    if has_cpu:
        assert phases["cpu_pct"].sum() == pytest.approx(100, abs=1e-9)


def answers_agree(trace: Trace) -> None:
    """The same times, summed up in different ways."""
    evidence = ha.device_use(trace)
    run = evidence.filter(scope="run")
    if run.is_empty():
        assert trace.sql("from gpu_busy").is_empty()
        return
    assert run["gpu_busy_ns"].sum() == trace.sql("select sum(end_ns - start_ns)::bigint from gpu_busy").item()
    assert run["gpu_idle_ns"].sum() == (trace.sql("select sum(end_ns - start_ns)::bigint from gpu_gap").item() or 0)
    steps = ha.steps(trace)
    assert evidence.filter(scope="step")["gpu_busy_ns"].sum() == steps["gpu_busy_ns"].sum()
    assert evidence.filter(scope="phase")["gpu_busy_ns"].sum() == ha.phases(trace)["gpu_busy_ns"].sum()
    assert steps["gpu_time_ns"].sum() == ha.phases(trace)["gpu_time_ns"].sum()
    outside = trace.sql(
        "select coalesce(sum(dur_ns), 0)::bigint from launch inner join annotated_event using (rank, event_id)"
        " where step is null"
    ).item()
    assert steps["gpu_time_ns"].sum() + outside == ha.coverage(trace)["gpu_time_ns"].sum()


def the_tree_has_the_times_of_the_phases(trace: Trace) -> None:
    """GPU work is counted once at every level of the tree, and phases have the times that the answer gives them."""
    over_time = trace.query("overview")
    busy = trace.sql("select coalesce(sum(end_ns - start_ns), 0)::bigint from gpu_busy").item()
    assert over_time.filter(pl.col("device").is_not_null())["time_ns"].sum() == busy
    assert over_time.filter(pl.col("device").is_null())["time_ns"].sum() == ha.steps(trace)["dur_ns"].sum()
    for rank in trace.ranks:
        for step in [*trace.sql("select step from step where rank = $rank order by step", rank=rank)["step"]][:2]:
            frame = ha.level_of_detail(trace, rank=rank, step=step, max_nodes=100_000)
            phases = frame.filter(kind="phase")
            expected = ha.phases(trace, rank=rank, step=step)
            main = trace.sql("select track_id from phase_span where is_main and rank = $rank limit 1", rank=rank).item()
            for row in expected.iter_rows(named=True):
                rows = phases.filter(phase=row["phase"])
                assert rows.filter(device="gpu")["time_ns"].sum() == row["gpu_time_ns"], row["phase"]
                assert rows.filter(device="cpu", track_id=main)["time_ns"].sum() == row["cpu_ns"], row["phase"]
            counts = frame.group_by("node_id").agg(pl.first("parent_id"), pl.col("gpu_event_count").sum())
            below = counts.group_by(node_id="parent_id").agg(below=pl.col("gpu_event_count").sum())
            wrong = counts.join(below, on="node_id").filter(pl.col("below") > pl.col("gpu_event_count"))
            assert wrong.is_empty()
            assert frame.filter(pl.col("start_ns") > pl.col("end_ns")).is_empty()


def the_tree_changes_as_little_as_the_program(trace: Trace) -> None:
    """Steps have as much of their trees in common as without all that depends on time: then only names group."""
    steps = trace.sql("select step from step where rank = $rank order by start_ns", rank=trace.ranks[0])["step"]
    everything = {"tiny_pct": 0, "dominant_pct": 100, "max_children": 10**6, "max_depth": 100, "max_nodes": 10**6}
    shown, program = (
        [ha.level_of_detail(trace, rank=trace.ranks[0], step=step, **limits) for step in steps[1:3]]
        for limits in ({}, everything)
    )
    if len(shown) == 2:
        found, expected = agreement(*shown), agreement(*program)
        # A group is equal if all around it is; where one of two steps does other things, fewer groups stand alike.
        assert found.groups > expected.groups - 8
        assert found.nodes > expected.nodes - 4


# --- single traces ---------------------------------------------------------------------------------------------------

RESNET = "training/resnet18_ddp_checkpoint_mi300.json.gz"


def test_gpu_work_counts_to_the_step_that_launched_it() -> None:
    """The GPU runs up to two steps behind: what step 15 launched does not run in it, and still counts to it."""
    events = file(RESNET)["traceEvents"]
    marks = [event for event in events if str(event.get("name")).startswith("ProfilerStep#")]
    windows = {int(mark["name"][13:]): interval(mark) for mark in marks if mark["cat"] == "user_annotation"}
    calls = {event["args"]["correlation"]: ns(event["ts"]) for event in events if event.get("cat") == "cuda_runtime"}
    start, end = windows[15]
    own = [
        (number, interval(event))
        for number, event in gpu_events(RESNET)
        if start <= calls.get(event["args"]["correlation"], -1) < end
    ]
    ran = [round(overlap([span for _, span in own], windows[step]) / 1e6, 1) for step in (15, 16, 17)]
    assert ran == [0.0, 2.6, 19.9]

    found = opened(RESNET).sql("select event_id, step from launch inner join label using (rank, event_id)")
    assert set(found.filter(step=15)["event_id"]) == {number for number, _ in own}
    total = sum(end - start for _, (start, end) in own)
    assert ha.steps(opened(RESNET)).filter(step=15)["gpu_time_ns"].item() == total


def test_modules_explain_the_gpu_time_of_a_checkpointed_model() -> None:
    trace = opened(RESNET)
    linked = trace.sql(
        "select bucket, sum(dur_ns)::bigint as gpu_ns from launch inner join annotated_event using (rank, event_id)"
        " where link is not null and not regexp_matches(name, '(?i)nccl') group by bucket"
    )
    times = dict(linked.rows())
    assert times["module"] / sum(times.values()) >= 0.93
    assert set(times) <= {
        "module",
        "communication",
        "gradient_accumulation",
        "loss",
        "load_data",
        "optimizer",
        "zero_grad",
        "backward",
        "forward",
        "other",
    }
    passes = trace.sql("select pass, count(*) as n from launch inner join label using (rank, event_id) group by pass")
    assert {row["pass"] for row in passes.iter_rows(named=True)} == {"forward", "backward", "recompute", None}


def test_phases_are_found_without_the_users_annotations(tmp_path: Path) -> None:
    """Hide `## forward ##` and so on, and find them again, for 99 % of the self time of the ops that they contain."""
    name = "training/ddp_a100_annotated.json.gz"
    content = file(name)
    words = {"## forward ##": "forward", "## backward ##": "backward", "## optimizer ##": "optimizer"}
    truth = [
        (*interval(event), words[event["name"]])
        for event in content["traceEvents"]
        if event.get("cat") == "user_annotation" and event["name"] in words
    ]
    assert len(truth) == 9
    # Their place stays, so that the numbers of the other events do.
    kept = [{"ph": "M", "name": "hidden"} if event["name"] in words else event for event in content["traceEvents"]]
    hidden = tmp_path / "hidden.json"
    hidden.write_text(json.dumps({**content, "traceEvents": kept}, default=_exact), encoding="utf-8")
    with ha.load(hidden) as trace:
        assert trace.sql("from event where name in ('## forward ##', '## backward ##')").is_empty()
        ops = trace.sql("select start_ns, self_ns, phase from annotated_event where category = 'cpu_op'").rows()
    agreed: dict[bool, int] = defaultdict(int)
    for start, self_ns, phase in ops:
        for first, last, word in truth:
            if first <= start < last:
                agreed[phase == word] += self_ns
    assert agreed[True] + agreed[False] > 100e6
    assert agreed[True] / (agreed[True] + agreed[False]) >= 0.99


def _exact(value: object) -> float:
    assert isinstance(value, Decimal)
    return float(value)


def test_gpu_work_from_before_the_window_is_shown_as_such() -> None:
    name = "inference/qwen_h100.json.gz"
    assert union(interval(event) for _, event in gpu_events(name)) == 45_647_300
    assert opened(name).sql("select sum(end_ns - start_ns)::bigint from gpu_busy").item() == 45_647_300
    calls = {
        event["args"]["correlation"]
        for event in file(name)["traceEvents"]
        if event.get("cat") in ("cuda_runtime", "cuda_driver")
    }
    unlinked = sum(ns(event["dur"]) for _, event in gpu_events(name) if event["args"]["correlation"] not in calls)
    buckets = dict(ha.coverage(opened(name)).select("bucket", "gpu_time_ns").rows())
    assert buckets["pre_window"] == unlinked
    assert 13.7e6 <= buckets["pre_window"] <= 13.8e6
    assert "unlinked" not in buckets


def test_every_kernel_of_a_graph_replay_is_linked() -> None:
    name = "inference/sglang_graph_replay_mi300.json.gz"
    counts: dict[int, int] = defaultdict(int)
    for _, event in gpu_events(name):
        counts[event["args"]["correlation"]] += 1
    found = opened(name).sql(
        "select kernel_count, count(*) as n, count(distinct runtime_id) as calls from launch group by all order by 1"
    )
    assert found["n"].sum() == sum(counts.values())
    assert opened(name).sql("from launch where link is distinct from 'correlation'").is_empty()
    assert max(counts.values()) > 500
    assert found.row(-1) == (max(counts.values()), max(counts.values()), 1)


# HTA drops the rows of the last step unless told not to (hence `all_steps` where there are steps), and rows whose
# launch lies outside the steps that it keeps: the V100 with CUDA graphs and the MI300 that runs two steps behind lose
# some. It counts what has a stream as GPU work: one cpu_op of Triton in vllm_b200, and the `cuda_sync` rows of
# counters/. Those cannot be compared.
# Here every GPU row of the file takes part in both.
COMPARABLE = [
    ("training/dlrm_a100_rank3", "training/dlrm_a100_rank3", "all_steps", 0),
    ("training/ddp_a100_annotated", "training/ddp_a100_annotated", "all_steps", 0),
    ("training/ddp_v100_memory", "training/ddp_v100_memory", "all_steps", 0),
    ("multi_rank/rank-0", "multi_rank", "all_steps", 0),
    ("multi_rank/rank-1", "multi_rank", "all_steps", 1),
    ("inference/bert_small_h100", "inference/bert_small_h100", "default_steps", 0),
    ("inference/qwen_h100", "inference/qwen_h100", "default_steps", 0),
    ("inference/sglang_graph_replay_mi300", "inference/sglang_graph_replay_mi300", "default_steps", 0),
    ("robustness/gpu_only_mi210", "robustness/gpu_only_mi210", "default_steps", 0),
]


@pytest.mark.skipif(not HTA.exists(), reason="the reference numbers are not there")
@pytest.mark.parametrize(("name", "key", "steps", "position"), COMPARABLE)
def test_busy_and_idle_time_are_those_of_hta(name: str, key: str, steps: str, position: int) -> None:
    reference = json.loads(HTA.read_text())["traces"][key][steps]["temporal_breakdown"][position]
    first, last, busy = (
        opened(f"{name}.json.gz")
        .sql("select min(start_ns), max(end_ns), sum(end_ns - start_ns)::bigint from gpu_busy")
        .row(0)
    )
    # It computes in doubles of microseconds.
    assert (last - first) / 1000 == pytest.approx(reference["kernel_time(us)"], abs=0.002)
    assert (last - first - busy) / 1000 == pytest.approx(reference["idle_time(us)"], abs=0.002)


@pytest.mark.skipif(not SCORE.exists(), reason="the tool that scores annotations is not there")
@pytest.mark.parametrize("model", ["resnet50", "transformer"])
def test_phases_agree_with_labels_made_by_hand(model: str, tmp_path: Path) -> None:
    folder = TRACES / "labelled" / model
    found = opened(f"labelled/{model}/trace.json.gz").sql("select event_id, phase, module_id from annotated_event")
    # The loop does not label what is neither of its phases, and has no word for it.
    found.with_columns(phase=pl.col("phase").replace("other", None)).write_parquet(tmp_path / "found.parquet")
    command = [sys.executable, str(SCORE), str(folder / "labels.parquet"), str(tmp_path / "found.parquet"), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    score = json.loads(done.stdout)["phase"]
    assert score["events"] > 5000
    assert score["events_right_pct"] >= 99.8
    assert score["gpu_time_right_pct"] >= 99.8


@pytest.fixture(scope="module", autouse=True)
def _close() -> Iterator[None]:
    yield
    file.cache_clear()
    opened.cache_clear()


# --- the difference of two runs --------------------------------------------------------------------------------------


def computation_by_op(name: str) -> dict[str | None, int]:
    """Time of the steps' computing kernels by the innermost op around their launch; where they overlap, the first's."""
    events = file(name)["traceEvents"]
    steps = [interval(event) for event in events if str(event.get("name")).startswith("ProfilerStep#")]
    steps = [(start, end) for start, end in steps if end > start]
    ops: dict[str, list[tuple[int, int, str]]] = defaultdict(list)
    calls: dict[int, Event] = {}
    kernels = []
    for number, event in enumerate(events):
        category = event.get("cat")
        if category == "cpu_op":
            ops[event["tid"]].append((*interval(event), event["name"]))
        elif category == "cuda_runtime" and event["args"].get("correlation"):
            calls.setdefault(event["args"]["correlation"], event)
        elif category == "kernel" and "nccl" not in event["name"]:
            kernels.append((*interval(event), number, event["args"]["correlation"]))
    # Ops of a thread nest: walk through them with a stack.
    innermost: dict[int, str | None] = {}
    for thread, spans in ops.items():
        points = sorted((ns(call["ts"]), number) for number, call in calls.items() if call["tid"] == thread)
        waiting = sorted(spans, key=lambda span: (span[0], -span[1]))[::-1]
        stack: list[tuple[int, int, str]] = []
        for at, number in points:
            while waiting and waiting[-1][0] <= at:
                stack.append(waiting.pop())
            stack = [span for span in stack if at < span[1]]
            innermost[number] = stack[-1][2] if stack else None
    total: dict[str | None, int] = defaultdict(int)
    reached = 0
    for start, end, _, correlation in sorted(kernels):
        call = calls.get(correlation)
        if call is not None and any(begin <= ns(call["ts"]) < stop for begin, stop in steps):
            total[innermost.get(correlation)] += max(0, end - max(start, reached))
        reached = max(reached, end)
    return {op: time for op, time in total.items() if time}


def test_the_difference_of_two_devices_is_explained_to_the_nanosecond() -> None:
    """The same job on A100 and, with CUDA graphs, on V100."""
    a, b = "training/dlrm_a100_rank3.json.gz", "training/dlrm_v100_cudagraph.json.gz"
    means, by_op = {}, {}
    for name in (a, b):
        spans = [interval(event) for _, event in gpu_events(name)]
        spans += [interval(e) for e in file(name)["traceEvents"] if str(e.get("name")).startswith("ProfilerStep#")]
        whole = max(end for _, end in spans) - min(start for start, _ in spans)
        outside = ha.gpu_parts(opened(name)).filter(pl.col("step").is_null())["time_ns"].sum()
        means[name] = (whole - int(outside)) // 6
        by_op[name] = computation_by_op(name)
    levels: list[Level] = ["part", "phase", "region", "op", "kernel"]
    for by in levels:
        found = ha.diff(opened(a), opened(b), by=by)
        assert found["delta_ns"].sum() == means[b] - means[a]
        assert found["a_ns"].sum() == means[a]
    ops = ha.diff(opened(a), opened(b)).filter(pl.col("part") == "computation")
    for name, column in ((a, "a_ns"), (b, "b_ns")):
        times = dict(ops.filter(pl.col(column) != 0).select("op", column).rows())
        assert times == pytest.approx({op: time / 6 for op, time in by_op[name].items()}, abs=1)
    # Graphs hide the ops of the compiled function; the annotated region around it is the same on both sides.
    compiled = ops.filter(pl.col("op") == "CompiledFunction").row(0, named=True)
    assert (compiled["change"], compiled["b_graph_count"]) == ("added", compiled["b_count"])
    regions = ha.diff(opened(a), opened(b), by="region").filter(pl.col("region") == "## forward:over_arch ##")
    assert regions["change"].to_list() == ["slower"]


UNLIKE = [
    ("robustness/gpu_only_mi210.json.gz", "training/dlrm_a100_rank3.json.gz"),
    ("robustness/cpu_only.json.gz", "inference/bert_small_h100.json.gz"),
    ("counters/alexnet_cupti_a100.json.gz", "counters/simple_add_a100.json.gz"),
    ("multi_rank/rank-0.json.gz", "inference/sglang_graph_replay_mi300.json.gz"),
]


@pytest.mark.parametrize(("a", "b"), UNLIKE)
@pytest.mark.parametrize("timeline", ["gpu", "cpu"])
def test_traces_that_have_nothing_in_common_can_be_compared(a: str, b: str, timeline: Timeline) -> None:
    levels: list[Level] = ["step", "part", "phase", "module", "region", "op"]
    sides = compare(Chosen(opened(a)), Chosen(opened(b)), timeline=timeline)
    found = [sides.by(level) for level in levels]
    assert len({tuple(frame.select(pl.col("a_ns", "b_ns", "delta_ns").sum()).row(0)) for frame in found}) == 1
    assert all((frame["delta_ns"] == frame["b_ns"] - frame["a_ns"]).all() for frame in found)
    itself = compare(Chosen(opened(a)), Chosen(opened(a)), timeline=timeline)
    for level in levels:
        same = itself.by(level)
        assert (same["delta_ns"] == 0).all()
        assert same["change"].unique().to_list() in (["same"], [])
    assert ha.diff(opened(b), opened(a), timeline=timeline)["delta_ns"].sum() == -found[0]["delta_ns"].sum()


# --- several ranks ---------------------------------------------------------------------------------------------------


def collectives_of(name: str) -> dict[tuple[str, int], tuple[int, int]]:
    """Kernels of collectives whose kind, step and shape are the only ones of their sort: their start and end."""
    events = file(name)["traceEvents"]
    calls = {e["args"].get("correlation"): e for e in events if e.get("cat") == "cuda_runtime"}
    around = [(*interval(e), e) for e in events if e.get("cat") == "user_annotation"]
    found = defaultdict(list)
    for event in events:
        if event.get("cat") == "kernel" and "nccl" in event["name"]:
            call = calls[event["args"]["correlation"]]
            at = ns(call["ts"])
            steps = [e for start, end, e in around if start <= at < end and e["name"].startswith("ProfilerStep#")]
            said = next(
                e
                for start, end, e in around
                if start <= at < end and e["tid"] == call["tid"] and e["name"].startswith("nccl:")
            )
            args = said["args"]
            shape = "" if said["name"] == "nccl:all_to_all" else str(args["Input Dims"])
            key = (said["name"] + str(args["Input type"]) + shape, int(steps[0]["name"].partition("#")[2]))
            found[key].append(interval(event))
    return {key: spans[0] for key, spans in found.items() if len(spans) == 1}


def test_the_late_one_of_two_ranks_is_that_of_the_file() -> None:
    """The clocks of the two ranks agree, and one call of each sort and step is sampled, so loops can match them.

    Rank 1 began its first step later than rank 0: so much of the first wait is nobody's delay.
    """
    first, second = (collectives_of(f"multi_rank/rank-{rank}.json.gz") for rank in (0, 1))
    with ha.load(TRACES / "multi_rank") as trace:
        found = ha.stragglers(trace)
        assert found["clock_offset_ns"].to_list() == [0, 0]
        waits = [
            second[key][0] - first[key][0]
            for key in first.keys() & second.keys()
            if max(first[key][0], second[key][0]) < min(first[key][1], second[key][1])
        ]
        assert len(waits) == 5
        assert min(waits) > 0
        began = [
            min(
                ns(event["ts"])
                for event in file(f"multi_rank/rank-{rank}.json.gz")["traceEvents"]
                if str(event.get("name")).startswith("ProfilerStep#") and event.get("cat") == "user_annotation"
            )
            for rank in (0, 1)
        ]
        caused = sum(waits) - (began[1] - began[0])
        assert found.select("rank", "last_count", "caused_wait_ns").rows() == [(1, 5, caused), (0, 0, 0)]
        assert not ha.straggler_causes(trace).is_empty()


@pytest.mark.long
def test_the_only_rank_is_the_run() -> None:
    """The database plans a restricted question otherwise, and must answer the same: DuckDB 2.0.0 cut sums to bytes."""
    trace = opened("training/dlrm_a100_rank3.json.gz")
    asked = 0
    for query in catalog.queries("answers"):
        if "rank" in {param.name for param in query.params} and not any(param.required for param in query.params):
            asked += 1
            whole, one = trace.query(query.name), trace.query(query.name, rank=3)
            assert_frame_equal(whole, one, rel_tol=1e-9, abs_tol=0)
    assert asked > 30


def test_what_is_saved_by_shapes_is_what_the_gpu_allocates_in_forward() -> None:
    """The old format tells sizes of allocations without addresses: what forward allocates until autograd begins."""
    file = "loader_pairs/1_workers0.json.gz"
    events = json.loads(gzip.decompress((TRACES / file).read_bytes()))["traceEvents"]
    first_node = min(event["ts"] for event in events if str(event.get("name")).endswith("NllLossBackward"))
    allocated = sum(
        event["args"]["Bytes"]
        for event in events
        if event.get("name") == "[memory]" and event["args"]["Device Type"] == 1 and event["ts"] < first_node
    )
    with ha.load(TRACES / file) as trace:
        frame = trace.query("memory_breakdown", by="category")
    held = dict(frame.select("category", "bytes").rows())
    assert held["parameter"] == held["gradient"] == held["optimizer_state"] == 102_228_128
    assert 0 <= allocated - held["activation"] <= 0.005 * allocated
    assert frame["is_estimated"].all()


def test_parameters_by_shapes_are_what_ranks_reduce() -> None:
    """ResNet-18 has 11,689,512 parameters, here of two bytes."""
    with ha.load(TRACES / RESNET) as trace:
        held = dict(trace.query("memory_breakdown", by="category").select("category", "bytes").rows())
        reduced = trace.sql(
            "select sum(collective.in_elements)::bigint as elements from collective"
            " inner join event on collective.event_id = event.event_id and event.category = 'cpu_op'"
            " inner join label on collective.event_id = label.event_id"
            " where collective.name = 'allreduce' and label.step = 16"
        ).item()
    assert reduced == 11_689_512
    assert held["parameter"] == held["gradient"] == 2 * reduced
