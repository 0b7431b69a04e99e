"""Traces of `n` events that are all alike but for one thing, to see which input makes work grow faster than its rows.

A shape is a kind of event and a way in which the events are odd: all at one time, one inside the other, crossing, each
with a name or a track or an id of its own, or all with the same. `write(shape, n, path)` writes one as a trace file.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

Event = dict[str, Any]
Odd = dict[str, Any]

PID = 1
GPU = 0
STREAM = 7
STEP_US = 10  # one event per so many microseconds, where they follow one another

# Each kind makes the events of number `i` out of a name, a place and a time, and an id that links.
Maker = Callable[[str, int, float, float, int], list[Event]]


def _event(category: str, name: str, pid: int | str, tid: int, start: float, dur: float, **args: Any) -> Event:
    return {"ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid, "ts": start, "dur": dur, "args": args}


def _op(name: str, tid: int, start: float, dur: float, link: int) -> list[Event]:
    return [_event("cpu_op", f"aten::{name}", PID, tid, start, dur, **{"External id": link, "Sequence number": link})]


def _frame(name: str, tid: int, start: float, dur: float, link: int) -> list[Event]:
    ids = {"Python id": link + 1, "Python parent id": link, "Python module id": link}
    return [_event("python_function", f"train.py(1): {name}", PID, tid, start, dur, **ids)]


def _module(name: str, tid: int, start: float, dur: float, link: int) -> list[Event]:
    ids = {"Python id": link + 1, "Python parent id": link, "Python module id": link}
    return [
        _event("python_function", f"nn.Module: {name}_{link}", PID, tid, start, dur, **ids),
        *_op(name, tid, start + dur / 4, dur / 2, link),
    ]


def _note(name: str, tid: int, start: float, dur: float, link: int) -> list[Event]:
    return [_event("user_annotation", name, PID, tid, start, dur)]


def _step(name: str, tid: int, start: float, dur: float, link: int) -> list[Event]:
    return [_event("user_annotation", f"ProfilerStep#{link}", PID, tid, start, dur)]


def _optimizer(name: str, tid: int, start: float, dur: float, link: int) -> list[Event]:
    return [_event("user_annotation", f"Optimizer.step#{name}.step", PID, tid, start, dur)]


def _loader(name: str, tid: int, start: float, dur: float, link: int) -> list[Event]:
    mark = f"enumerate(DataLoader)#{name}.__next__"
    return [_event("user_annotation", mark, PID, tid, start, dur)]


def _node(name: str, tid: int, start: float, dur: float, link: int) -> list[Event]:
    args = {"Sequence number": link, "Fwd thread id": 1}
    around = f"autograd::engine::evaluate_function: {name}Backward0"
    return [
        _event("cpu_op", f"aten::{name}", PID, tid, start, dur / 4, **{"Sequence number": link}),
        _event("cpu_op", around, PID, tid + 1, start + dur / 2, dur / 2, **args),
        _event("cpu_op", f"{name}Backward0", PID, tid + 1, start + dur / 2, dur / 4, **args),
    ]


def _engine_call(name: str, tid: int, start: float, dur: float, link: int) -> list[Event]:
    """A node that says no forward op: those are found by alignment."""
    around = f"autograd::engine::evaluate_function: {name}Backward0"
    return [_event("cpu_op", around, PID, tid, start, dur, **{"External id": link})]


def _launch(name: str, tid: int, start: float, dur: float, link: int) -> list[Event]:
    kernel = _event(
        "kernel", name, GPU, tid + STREAM, start + dur, dur, correlation=link, stream=tid + STREAM, device=0
    )
    call = _event("cuda_runtime", "cudaLaunchKernel", PID, tid, start, dur / 2, correlation=link)
    return [*_op(name, tid, start, dur * 0.75, link), call, kernel]


def _flow_launch(name: str, tid: int, start: float, dur: float, link: int) -> list[Event]:
    """A launch that only an arrow links to its kernel, as the profiler of AMD's GPUs writes it."""
    ends = {"cat": "ac2g", "name": "ac2g", "id": link}
    kernel = _event("kernel", name, GPU, tid + STREAM, start + dur, dur, stream=tid + STREAM, device=0)
    return [
        _event("cuda_runtime", "hipLaunchKernel", PID, tid, start, dur / 2),
        kernel,
        {"ph": "s", "pid": PID, "tid": tid, "ts": start, **ends},
        {"ph": "f", "pid": GPU, "tid": tid + STREAM, "ts": start + dur, "bp": "e", **ends},
    ]


def _external(name: str, tid: int, start: float, dur: float, link: int) -> list[Event]:
    """A kernel that names its op and no call."""
    kernel = _event("kernel", name, GPU, tid + STREAM, start + dur, dur, stream=tid + STREAM, device=0)
    kernel["args"]["External id"] = link
    return [*_op(name, tid, start, dur / 2, link), kernel]


def _graph(name: str, tid: int, start: float, dur: float, link: int) -> list[Event]:
    return [_event("kernel", name, GPU, STREAM, start, dur, correlation=link, stream=tid + STREAM, device=0)]


def _copy(name: str, tid: int, start: float, dur: float, link: int) -> list[Event]:
    args = {"correlation": link, "stream": tid + STREAM, "device": 0, "bytes": 1024, "memory bandwidth (GB/s)": 1.5}
    return [
        _event("cuda_runtime", "cudaMemcpyAsync", PID, tid, start, dur / 2, correlation=link),
        _event("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", GPU, tid + STREAM, start + dur, dur, **args),
    ]


def _sync(name: str, tid: int, start: float, dur: float, link: int) -> list[Event]:
    """A wait for a device, which the device shows as a wait of each stream, and a wait of one stream for another."""
    args = {"correlation": link, "stream": tid + STREAM, "device": 0, "context": 1}
    waits = {"wait_on_stream": STREAM + 1, "wait_on_cuda_event_record_corr_id": link - 1, "wait_on_cuda_event_id": link}
    return [
        _event("cuda_runtime", "cudaDeviceSynchronize", PID, tid, start, dur, correlation=link),
        _event("cuda_sync", "Context Sync", GPU, tid + STREAM, start, dur, cuda_sync_kind="Context Sync", **args),
        _event(
            "cuda_sync", "Stream Wait Event", GPU, tid + STREAM, start, 0, cuda_sync_kind="Stream Wait Event", **args
        )
        | {"args": {"cuda_sync_kind": "Stream Wait Event", **args, **waits}},
        _event("kernel", name, GPU, tid + STREAM, start + dur / 2, dur / 2, **args),
    ]


def _memory(name: str, tid: int, start: float, dur: float, link: int) -> list[Event]:
    args = {"Device Type": 1, "Device Id": 0, "Addr": link, "Bytes": 512 if link % 2 else -512}
    args |= {"Total Allocated": 4096, "Total Reserved": 8192, "Ev Idx": link}
    return [
        {"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": PID, "tid": tid, "ts": start}
        | {"args": args},
        *_op(name, tid, start, dur, link),
    ]


def _collective(name: str, tid: int, start: float, dur: float, link: int) -> list[Event]:
    args = {"Collective name": "allreduce", "dtype": "Float", "In msg nelems": 100, "Group size": 8}
    args |= {"Process Group Name": str(link), "correlation": link, "stream": tid + STREAM, "device": 0}
    kernel = _event("kernel", f"ncclDevKernel_{name}", GPU, tid + STREAM, start + dur, dur, **args)
    return [
        _event("cpu_op", "record_param_comms", PID, tid, start, dur, **{"External id": link}),
        _event("cuda_runtime", "cudaLaunchKernel", PID, tid, start, dur / 2, correlation=link),
        kernel,
    ]


def _counter(name: str, tid: int, start: float, dur: float, link: int) -> list[Event]:
    return [{"ph": "C", "name": name, "pid": PID, "tid": tid, "ts": start, "args": {str(link): link, "other": 1}}]


def _profiled(name: str, tid: int, start: float, dur: float, link: int) -> list[Event]:
    args = {"smsp__inst_executed.sum": 1, "sm__cycles_active.sum": 2}
    return [
        *_launch(name, tid, start, dur, link),
        _event("cuda_profiler_range", name, GPU, 0, start, dur, **args),
    ]


def _begin_end(name: str, tid: int, start: float, dur: float, link: int) -> list[Event]:
    both = {"cat": "cpu_op", "name": name, "pid": PID, "tid": tid}
    return [{"ph": "B", "ts": start, **both}, {"ph": "E", "ts": start + dur, **both}]


def _forward_backward(name: str, tid: int, start: float, dur: float, link: int) -> list[Event]:
    """A forward op and a node which an arrow links."""
    ends = {"cat": "fwdbwd", "name": "fwdbwd", "id": link}
    around = f"autograd::engine::evaluate_function: {name}Backward0"
    return [
        _event("cpu_op", f"aten::{name}", PID, tid, start, dur / 4),
        _event("cpu_op", around, PID, tid + 1, start + dur / 2, dur / 2),
        {"ph": "s", "pid": PID, "tid": tid, "ts": start, **ends},
        {"ph": "f", "pid": PID, "tid": tid + 1, "ts": start + dur / 2, "bp": "e", **ends},
    ]


KINDS: dict[str, Maker] = {
    "op": _op,
    "frame": _frame,
    "module": _module,
    "note": _note,
    "step": _step,
    "optimizer": _optimizer,
    "loader": _loader,
    "node": _node,
    "engine_call": _engine_call,
    "launch": _launch,
    "flow_launch": _flow_launch,
    "external": _external,
    "graph": _graph,
    "copy": _copy,
    "sync": _sync,
    "memory": _memory,
    "collective": _collective,
    "counter": _counter,
    "profiled": _profiled,
    "begin_end": _begin_end,
    "forward_backward": _forward_backward,
}

# How the events are odd; the first has nothing odd.
ODDITIES: dict[str, Odd] = {
    "in_turn": {},
    "one_time": {"time": "equal"},
    "nested": {"time": "nested"},
    "crossing": {"time": "crossing"},
    "own_names": {"names": "own"},
    "own_tracks": {"tracks": "own"},
    "own_tracks_at_one_time": {"tracks": "own", "time": "equal"},
    "one_id": {"ids": "one"},
    "one_id_at_one_time": {"ids": "one", "time": "equal"},
    "each_step": {"steps": "each"},
}


def _of_kind(kind: str, odd: Odd, n: int) -> Iterator[Event]:
    make = KINDS[kind]
    end = n * STEP_US
    per_step = max(1, n // max(1, odd.get("step_count", 1)))
    if kind != "step" and odd.get("steps") != "each":
        for first in range(0, n, per_step):
            last = min(n, first + per_step)
            yield from _step("", 1, first * STEP_US, (last - first) * STEP_US, first)
    for i in range(n):
        start, dur = {
            "equal": (STEP_US, end / 4),
            "nested": (i * STEP_US / 4, end - i * STEP_US / 2),
            "crossing": (i * STEP_US / 4, end / 2),
        }.get(odd.get("time", ""), (i * STEP_US, STEP_US * 0.9))
        name = f"work{i}" if odd.get("names") == "own" else "work"
        tid = 1 + 2 * i if odd.get("tracks") == "own" else 1
        link = 1 if odd.get("ids") == "one" else i + 1
        if odd.get("steps") == "each" and kind != "step":
            yield from _step(name, 1, start, dur, i)
        yield from make(name, tid, round(start, 3), round(dur, 3), link)


def _many_series(n: int) -> Iterator[Event]:
    """One counter event with `n` series."""
    yield _event("cpu_op", "aten::mm", PID, 1, 0, 10)
    series = {f"series {i}": i for i in range(n)}
    yield {"ph": "C", "name": "counter", "pid": PID, "tid": 1, "ts": 1, "args": series}


def _wide_args(n: int) -> Iterator[Event]:
    """One op with `n` arguments that nobody knows."""
    yield _event("cpu_op", "aten::mm", PID, 1, 0, 10, **{f"argument {i}": [i] for i in range(n)})


def _deep_stack(n: int) -> Iterator[Event]:
    """Stacks of 500 modules, again and again."""
    depth = 500
    for i in range(n):
        turn, level = divmod(i, depth)
        yield from _module("Block", 1, turn * depth * 10 + level, depth * 10 - 2 * level, 1 + level)


def _same_flow(n: int) -> Iterator[Event]:
    """Launches whose arrows all have one number, in one place, beside kernels and calls that start at one time."""
    for i in range(n):
        yield from _flow_launch("k", 1 + i % 3, 10, 5, 1 + i % 2)


def _mixed_flow(n: int) -> Iterator[Event]:
    """Arrows whose ends were given to other events: each number several times, in any order, on many tracks."""
    for i in range(n):
        events = _flow_launch("k", 1 + i % 7, 10 + i % 13, 5, i)
        for number, event in enumerate(events):
            if event["ph"] in "sf":
                event["id"] = (i * 7919 + number) % max(1, n // 50)
                event["ts"] = 10 + (i * 31) % 17
            yield event


def _own_devices(kind: str, odd: str = "in_turn") -> Callable[[int], Iterator[Event]]:
    """Each event on a device of its own: GPU work, waits and allocations."""

    def make(n: int) -> Iterator[Event]:
        number = 0
        for event in _of_kind(kind, ODDITIES[odd], n):
            args = event.get("args", {})
            if event.get("cat") in ("cpu_op", "cpu_instant_event"):
                number += 1
            if event["pid"] == GPU:
                event["pid"] = number = args.get("correlation", number)
            args |= {key: number for key in ("device", "Device Id") if key in args}
            yield event

    return make


def _own_categories(n: int) -> Iterator[Event]:
    """Each event of a category of its own, which nobody knows."""
    for i, event in enumerate(_of_kind("op", {}, n)):
        yield event | {"cat": f"category {i}"} if i else event


def _own_processes(n: int) -> Iterator[Event]:
    """Each op in a process of its own, with a name and a label."""
    for i, event in enumerate(_of_kind("op", {}, n)):
        yield event | {"pid": 10 + i}
        for field, key in (("process_name", "name"), ("process_labels", "labels")):
            yield {"ph": "M", "name": field, "pid": 10 + i, "tid": 0, "ts": 0, "args": {key: f"process {i}"}}


def _own_counters(n: int) -> Iterator[Event]:
    """Each sample of a counter of its own, on a device of its own."""
    for i in range(n):
        yield from _op("mm", 1, i * STEP_US, 5, i + 1)
        yield {"ph": "C", "name": f"GPU {i} Memory", "pid": i, "tid": 0, "ts": i * STEP_US, "args": {f"series {i}": i}}


def _own_peers(n: int) -> Iterator[Event]:
    """Each collective in a group of its own, of ranks that no other one has."""
    for i in range(n):
        for event in _collective("sum", 1, i * STEP_US, STEP_US * 0.4, i + 1):
            if event["cat"] == "kernel":
                event["args"] |= {"Process Group Ranks": f"[{2 * i}, {2 * i + 1}]", "Group size": 2, "Rank": i}
            yield event


SPECIAL: dict[str, Callable[[int], Iterator[Event]]] = {
    "counter/many_series": _many_series,
    "op/wide_args": _wide_args,
    "module/deep_stack": _deep_stack,
    "flow_launch/same_flow": _same_flow,
    "flow_launch/mixed_flow": _mixed_flow,
    "launch/own_devices": _own_devices("launch"),
    "launch/own_devices_at_one_time": _own_devices("launch", "one_time"),
    "launch/own_devices_and_steps": _own_devices("launch", "each_step"),
    "copy/own_devices": _own_devices("copy"),
    "sync/own_devices": _own_devices("sync"),
    "memory/own_devices": _own_devices("memory"),
    "op/own_categories": _own_categories,
    "op/own_processes": _own_processes,
    "counter/own_counters": _own_counters,
    "collective/own_peers": _own_peers,
}

SHAPES = [f"{kind}/{odd}" for kind in KINDS for odd in ODDITIES] + list(SPECIAL)


def events(shape: str, n: int) -> Iterator[Event]:
    """The events of a trace, about `n` of the kind."""
    if shape in SPECIAL:
        return SPECIAL[shape](n)
    kind, _, odd = shape.partition("/")
    return _of_kind(kind, ODDITIES[odd], n)


def write(shape: str, n: int, path: Path) -> Path:
    """Write a trace of a shape."""
    with path.open("w", encoding="utf-8") as out:
        out.write('{"schemaVersion": 1, "traceEvents": [\n')
        out.write(",\n".join(json.dumps(event) for event in events(shape, n)))
        out.write("\n]}\n")
    return path
