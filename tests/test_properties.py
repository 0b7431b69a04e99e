"""What must hold for any trace, on small random ones: everything adds up, and nothing overlaps that must not."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import hotline_analysis as ha
from hotline_analysis import Trace
from tests.intervals import union
from tests.trace_builder import TraceBuilder

FRAMES = [
    "nn.Module: Net_0",
    "nn.Module: Linear_0",
    "nn.Module: MSELoss_0",
    "torch/_tensor.py(1): backward",
    "a.py(3): f",
]
NOTES = [
    "Optimizer.step#SGD.step",
    "Optimizer.zero_grad#SGD.zero_grad",
    "enumerate(DataLoader)#x",
    "## forward ##",
    "## loss ##",
    "something",
]
OPS = ["aten::mm", "aten::mse_loss", "c10d::allreduce_", "MmBackward0", "torch::autograd::AccumulateGrad"]
CALLS = ["cudaLaunchKernel", "cudaStreamSynchronize", "cudaMemcpy", "cudaGraphLaunch"]


@st.composite
def traces(draw: st.DrawFn) -> TraceBuilder:
    """A few threads with properly nested events of any kind, and GPU work that some of them launch at any time."""
    trace = TraceBuilder(rank=0)
    correlations: list[int] = []
    at = draw(st.integers(1, 21))  # an event at 0 without a duration has no time
    _grow(draw, trace, correlations, 1, at, 3)
    for number, length in enumerate(draw(st.lists(st.integers(5, 40), max_size=3))):
        trace.step(number, at, at + length)
        _grow(draw, trace, correlations, at, at + length, 0)
        at += length + draw(st.integers(0, 3))
    _grow(draw, trace, correlations, at, at + draw(st.integers(0, 20)), 3)
    for tid in range(2, draw(st.integers(1, 3)) + 1):
        trace.on(tid)
        _grow(draw, trace, correlations, 1, draw(st.integers(5, 100)), 0)
    for stream in range(draw(st.integers(0, 12))):  # work of one stream does not overlap
        start = draw(st.integers(1, 150))
        ids = draw(st.sampled_from([None, 9999, *correlations]))
        kind = draw(st.sampled_from(["kernel", "kernel", "gpu_memcpy", "gpu_memset"]))
        end = start + draw(st.integers(0, 25))
        where = {"stream": stream, "device": draw(st.integers(0, 1))}
        trace.gpu(kind, draw(st.sampled_from(["k", "ncclDevKernel"])), start, end, correlation=ids, **where)
    assume(trace.events)  # a file without events is an error
    return trace


def _grow(draw: st.DrawFn, trace: TraceBuilder, correlations: list[int], low: int, high: int, depth: int) -> None:
    at = low
    while at < high:
        start = draw(st.integers(at, high))
        end = draw(st.integers(start, high))
        kind = draw(st.sampled_from(["op", "op", "frame", "note", "call"]))
        if kind == "op":
            seq, thread = draw(st.sampled_from([None, 1, 2, 3])), draw(st.sampled_from([None, 0, 1, 2]))
            trace.op(draw(st.sampled_from(OPS)), start, end, seq=seq, forward_thread=thread)
        elif kind == "frame":
            trace.frame(draw(st.sampled_from(FRAMES)), start, end)
        elif kind == "note":
            trace.annotation(draw(st.sampled_from(NOTES)), start, end)
        else:
            correlations.append(trace.new_correlation())
            trace.runtime(draw(st.sampled_from(CALLS)), start, end, correlation=correlations[-1])
        if kind != "call" and depth < 4:
            _grow(draw, trace, correlations, start, end, depth + 1)
        at = end + draw(st.integers(0, 4)) + (end == start)


# The same examples every time, so that a change is tested and not the luck of the draw; more of them find more.
@pytest.mark.slow
@settings(max_examples=8, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(traces())
def test_everything_adds_up(builder: TraceBuilder) -> None:
    with tempfile.TemporaryDirectory() as folder, builder.load(Path(folder)) as trace:
        nesting_is_that_of_a_stack(trace, builder)
        self_times_sum_to_the_roots(trace)
        busy_is_the_union(trace, builder)
        gaps_fill_the_rest(trace)
        gaps_show_what_the_host_did(trace)
        spans_do_not_overlap(trace)
        phases_fill_the_steps(trace)
        labels_are_complete(trace, builder)
        no_time_is_negative(trace)


@pytest.mark.slow
@settings(max_examples=6, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(traces(), st.data())
def test_what_does_not_nest_adds_up_as_well(builder: TraceBuilder, data: st.DataObject) -> None:
    """Clocks that jump, or damage, make events end anywhere."""
    for event in data.draw(st.lists(st.sampled_from(builder.events), min_size=1, max_size=5)):
        event["dur"] = data.draw(st.sampled_from([0, 1, 3, 10, 30, 10**9]))
    with tempfile.TemporaryDirectory() as folder, builder.load(Path(folder)) as trace:
        events_are_there_once(trace)
        self_times_sum_to_the_roots(trace)
        busy_is_the_union(trace, builder)
        gaps_fill_the_rest(trace)
        spans_do_not_overlap(trace)
        phases_fill_the_steps(trace)
        labels_are_complete(trace, builder)
        no_time_is_negative(trace)


def events_are_there_once(trace: Trace) -> None:
    for table in ("nesting", "launch", "label", "annotated_event"):
        assert trace.sql(f"select event_id from {table} group by event_id having count(*) > 1").is_empty(), table


def nesting_is_that_of_a_stack(trace: Trace, builder: TraceBuilder) -> None:
    layers = {"user_annotation": 0, "python_function": 0, "cpu_op": 1, "cuda_runtime": 2}
    threads = defaultdict(list)
    for number, event in enumerate(builder.events):
        if event["cat"] in layers:
            begin, end = int(event["ts"]), int(event["ts"] + event["dur"])
            threads[event["tid"]].append((begin, -end, layers[event["cat"]], number))
    expected = {}
    inside: dict[int, int] = defaultdict(int)
    for events in threads.values():
        stack: list[tuple[int, int, int | None]] = []  # number, end, innermost op
        for begin, minus_end, layer, number in sorted(events):
            while stack and stack[-1][1] <= begin:
                stack.pop()
            op = number if layer == 1 else stack[-1][2] if stack else None
            expected[number] = (stack[-1][0] if stack else None, len(stack), op)
            if stack:
                inside[stack[-1][0]] += -minus_end - begin
            if -minus_end > begin:
                stack.append((number, -minus_end, op))
    found = trace.sql(
        "select event_id, parent_id, depth, op_id, self_ns, end_ns - start_ns, overhangs from nesting"
    ).rows()
    crossing = {row[0] for row in found if row[6]}
    assert not crossing
    assert {row[0]: row[1:4] for row in found} == expected
    assert {row[0]: row[5] - row[4] for row in found} == {number: 1000 * inside[number] for number in expected}


def self_times_sum_to_the_roots(trace: Trace) -> None:
    selves = dict(trace.sql("select track_id, sum(self_ns)::bigint from nesting group by all").rows())
    roots = defaultdict(list)
    for track, start, end in trace.sql("select track_id, start_ns, end_ns from nesting where parent_id is null").rows():
        roots[track].append((start, end))
    assert selves == {track: union(spans) for track, spans in roots.items()}


def busy_is_the_union(trace: Trace, builder: TraceBuilder) -> None:
    work = defaultdict(list)
    for event in builder.events:
        if event["cat"] in ("kernel", "gpu_memcpy", "gpu_memset") and event["dur"] > 0:
            start = int(event["ts"]) * 1000
            work[event["args"]["device"]].append((start, start + int(event["dur"]) * 1000))
    expected = {device: union(spans) for device, spans in work.items()}
    assert (
        dict(trace.sql("select device, sum(end_ns - start_ns)::bigint from gpu_busy group by all").rows()) == expected
    )
    shared = trace.sql(
        "select device, sum(busy_ns)::bigint as busy from launch inner join gpu_op using (rank, event_id)"
        " group by all having busy > 0"
    )
    assert dict(shared.rows()) == expected


def gaps_fill_the_rest(trace: Trace) -> None:
    edges = trace.sql("select min(start_ns), max(end_ns) from step").row(0)
    spans = trace.sql(
        "select device, start_ns, end_ns from gpu_busy union all"
        " select device, start_ns, end_ns from gpu_gap order by all"
    ).rows()
    busy = trace.sql("select device, min(start_ns), max(end_ns) from gpu_busy group by all").rows()
    for device, first, last in busy:
        own = [(start, end) for number, start, end in spans if number == device]
        assert own[0][0] == min(first, *(edges[:1] if edges[0] is not None else ()))
        assert own[-1][1] == max(last, *(edges[1:] if edges[1] is not None else ()))
        assert all(before[1] == after[0] for before, after in pairwise(own))
    parts = "load_data_ns + sync_ns + cpu_tensor_ns + op_ns + python_ns + launch_ns + queued_ns"
    parts += " + unobserved_ns + unknown_ns"
    assert trace.sql(f"from gpu_gap where {parts} is distinct from end_ns - start_ns").is_empty()


def gaps_show_what_the_host_did(trace: Trace) -> None:
    """In each gap, the event with the most time of its own before the launch, and the user's line around it."""
    nesting = {
        row[0]: row[1:]
        for row in trace.sql("select event_id, track_id, parent_id, start_ns, end_ns from nesting").rows()
    }
    lines = dict(trace.sql("select event_id, name from event where name like 'a.py%'").rows())
    launches = {
        row[0]: row[1:]
        for row in trace.sql("select event_id, coalesce(runtime_id, op_id), launch_start_ns from launch").rows()
    }
    for by in ("device", "stream"):
        for gap in ha.idle_gaps(trace, None, by=by).iter_rows(named=True):
            call, launched = launches.get(gap["next_id"], (None, None))
            begin = gap["start_ns"]
            end = max(
                begin, min(begin + gap["dur_ns"], gap["start_ns"] + gap["dur_ns"] if launched is None else launched)
            )
            own: dict[int, int] = defaultdict(int)
            for number, (track, parent, start, stop) in nesting.items():
                inside = min(stop, end) - max(start, begin)
                if call in nesting and track == nesting[call][0] and inside > 0:
                    own[number] += inside
                    if parent is not None:
                        own[parent] -= inside
            best = max(own, key=lambda number: (own[number], -number), default=None)
            assert (gap["cpu_event_id"], gap["cpu_ns"]) == (best, own[best] if best is not None else None)
            while best is not None and best not in lines:
                best = nesting[best][1]
            assert gap["source"] == (None if best is None else lines[best])


def spans_do_not_overlap(trace: Trace) -> None:
    for table, track in (("gpu_busy", "device"), ("gpu_gap", "device"), ("phase_span", "track_id"), ("step", "rank")):
        spans = defaultdict(list)
        for key, start, end in trace.sql(f"select {track}, start_ns, end_ns from {table} order by all").rows():
            spans[key].append((start, end))
        for own in spans.values():
            assert all(before[1] <= after[0] for before, after in pairwise(own)), table


def phases_fill_the_steps(trace: Trace) -> None:
    main = trace.sql("select distinct track_id from phase_span where is_main")
    steps = trace.sql("select coalesce(sum(end_ns - start_ns), 0)::bigint from step").item()
    found = trace.query("phases")
    if trace.table("nesting").is_empty():  # the GPU alone has no phases
        assert main.is_empty()
    elif steps:
        assert main.height == 1
        assert found["cpu_ns"].sum() == steps
        assert found["cpu_pct"].sum() == pytest.approx(100, abs=1e-9)


def labels_are_complete(trace: Trace, builder: TraceBuilder) -> None:
    once = "select event_id from label group by event_id having count(*) > 1"
    assert trace.sql(once).is_empty()
    labelled = set(trace.sql("select event_id from label")["event_id"])
    assert labelled == set(range(len(builder.events)))
    coverage = trace.query("coverage")
    total = sum(int(event["dur"]) * 1000 for event in builder.events if event["cat"].startswith(("kernel", "gpu_")))
    assert coverage["gpu_time_ns"].sum() == total
    if total:
        assert coverage["gpu_time_pct"].sum() == pytest.approx(100, abs=1e-9)
    assert None not in coverage["bucket"].to_list()
    # A label of a GPU event is that of its launch.
    torn = trace.sql(
        "from launch inner join label as own using (rank, event_id)"
        " inner join label as call on call.rank = launch.rank and call.event_id = launch.runtime_id"
        " where own.step is distinct from call.step or own.phase is distinct from call.phase"
        " or own.module_id is distinct from call.module_id or own.bucket is distinct from call.bucket"
    )
    assert torn.is_empty()


def no_time_is_negative(trace: Trace) -> None:
    for table in ("nesting", "launch", "step", "phase_span", "module_span", "gpu_busy", "gpu_gap"):
        frame = trace.table(table)
        times = [name for name in frame.columns if name.endswith("_ns")]
        for name in times:
            assert (frame[name].drop_nulls() >= 0).all(), f"{table}.{name}"
        if {"start_ns", "end_ns"} <= set(times):
            assert (frame["end_ns"] >= frame["start_ns"]).all(), table
