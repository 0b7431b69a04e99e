"""Build small profiler traces for tests, event by event, in the form that Kineto writes.

    trace = (
        TraceBuilder(rank=0)
        .step(1)                                   # ProfilerStep#1, around the CPU events that follow
        .op("aten::mm", 0, 10, seq=5)
        .launches("gemm", 12, 20)                  # a runtime call inside the op, and its kernel
        .on(2)                                     # now on another thread
        .backward("MmBackward0", 30, 40, seq=5)
        .launches("gemm_grad", 41, 50, stream=7)
        .load(tmp_path)                            # or .write(tmp_path / "trace.json.gz")
    )

Times are `start, end` in microseconds: integers, or decimal text such as "10.125" for nanoseconds (never floats). Every
method that adds something returns the builder; `last_id` is then the position of the last event added, its `event_id`.
The methods do no more than the names say: a test that needs an odd event writes it with `event`.
"""

from __future__ import annotations

import gzip
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

from hotline_analysis import Trace
from tests import runs, zstd
from tests.made import opened

Time = int | str | Decimal
Event = dict[str, Any]

PID = 1000
_CPU = ("cpu_op", "user_annotation", "python_function", "cuda_runtime", "cuda_driver")


def dumps(value: Any) -> str:
    """JSON text in which a Decimal keeps all its digits."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)}: {dumps(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(dumps(item) for item in value) + "]"
    return format(value, "f") if isinstance(value, Decimal) else json.dumps(value)


class TraceBuilder:
    """See the module's docstring. `top` are further keys of the file, beside `traceEvents`."""

    def __init__(self, *, rank: int | None = None, world_size: int | None = None, **top: Any) -> None:
        self.top = top
        if rank is not None or world_size is not None:
            given = {"backend": "nccl", "rank": rank, "world_size": world_size}
            self.top["distributedInfo"] = {key: value for key, value in given.items() if value is not None}
        self.events: list[Event] = []
        self._tid: int | str = 1
        self._open_step: Event | None = None
        self._parent: Event | None = None
        self._launches = 0
        self._next_correlation = 1
        self._next_python_id = 1

    # --- anything -------------------------------------------------------------------------------------------------

    def event(self, **fields: Any) -> TraceBuilder:
        """Add an event as it stands in the file; `args={…}` as a dict."""
        self.events.append(fields)
        return self

    def on(self, tid: int | str) -> TraceBuilder:
        """Put the CPU events that follow on this thread; the first thread is 1."""
        self._tid = tid
        return self

    @property
    def last_id(self) -> int:
        """The `event_id` of the event added last."""
        return len(self.events) - 1

    def ids(self, name: str) -> list[int]:
        """The `event_id` of every event with this name."""
        return [number for number, event in enumerate(self.events) if event.get("name") == name]

    def complete(self, category: str, name: str, start: Time, end: Time, args: Event | None = None) -> TraceBuilder:
        """Add an event with a duration on the current thread."""
        event = self._complete(category, name, start, end, args, PID, self._tid)
        step = self._open_step
        if step is not None and category in _CPU:
            first, last = event["ts"], event["ts"] + event["dur"]
            if step["dur"] is not None:
                first, last = min(first, step["ts"]), max(last, step["ts"] + step["dur"])
            step.update(ts=first, dur=last - first)
        return self

    def _complete(
        self, category: str, name: str, start: Time, end: Time, args: Event | None, pid: int | str, tid: int | str
    ) -> Event:
        begin, dur = Decimal(start), Decimal(end) - Decimal(start)
        assert not isinstance(start, float), "a float loses nanoseconds; write a string"
        assert dur >= 0, f"{name} ends before it starts"
        event: Event = {"ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid, "ts": begin, "dur": dur}
        if args:
            event["args"] = args
        self.events.append(event)
        return event

    # --- the CPU --------------------------------------------------------------------------------------------------

    def step(self, number: int | None = None, start: Time | None = None, end: Time | None = None) -> TraceBuilder:
        """Add `ProfilerStep#number` (one more than the last).

        Without times it covers the CPU events added until the next `step`, whatever their thread.
        """
        if number is None:
            marks = [event["name"] for event in self.events if str(event.get("name")).startswith("ProfilerStep#")]
            number = int(marks[-1].partition("#")[2]) + 1 if marks else 0
        self._open_step = None
        name = f"ProfilerStep#{number}"
        if start is not None and end is not None:
            return self.complete("user_annotation", name, start, end)
        self._open_step = {"ph": "X", "cat": "user_annotation", "name": name, "pid": PID, "tid": self._tid, "ts": 0}
        self._open_step["dur"] = None
        self.events.append(self._open_step)
        return self

    def annotation(self, name: str, start: Time, end: Time, **args: Any) -> TraceBuilder:
        """Add a `record_function`: `## forward ##`, `Optimizer.step#SGD.step`, `enumerate(DataLoader)#…`."""
        return self.complete("user_annotation", name, start, end, args)

    def op(
        self,
        name: str,
        start: Time,
        end: Time,
        *,
        seq: int | None = None,
        forward_thread: int | None = None,
        **args: Any,
    ) -> TraceBuilder:
        """Add a CPU op. `launches` refers to the last one."""
        if seq is not None:
            args["Sequence number"] = seq
        if forward_thread is not None:
            args["Fwd thread id"] = forward_thread
        self.complete("cpu_op", name, start, end, args)
        self._parent, self._launches = self.events[-1], 0
        return self

    def backward(self, name: str, start: Time, end: Time, *, seq: int, forward_thread: int = 1) -> TraceBuilder:
        """Add an autograd node as the engine records it: `evaluate_function` around the node of the same sequence."""
        self.op(f"autograd::engine::evaluate_function: {name}", start, end, seq=seq, forward_thread=forward_thread)
        return self.op(name, start, end, seq=seq, forward_thread=forward_thread)

    def frame(self, name: str, start: Time, end: Time, **args: Any) -> TraceBuilder:
        """Add a python frame such as `train.py(12): main`; its parent is the innermost frame around it."""
        begin, finish = Decimal(start), Decimal(end)
        around = [
            event
            for event in self.events
            if event.get("cat") == "python_function"
            and event["tid"] == self._tid
            and event["ts"] <= begin
            and finish <= event["ts"] + event["dur"]
        ]
        parent = min(reversed(around), key=lambda event: event["dur"])["args"]["Python id"] if around else None
        ids = {"Python parent id": parent, "Python id": self._next_python_id}
        self._next_python_id += 1
        return self.complete("python_function", name, start, end, {**ids, **args})

    def module(self, kind: str, number: int, start: Time, end: Time) -> TraceBuilder:
        """Add the frame of a module's call, `nn.Module: Linear_0`."""
        return self.frame(f"nn.Module: {kind}_{number}", start, end, **{"Python module id": number})

    def runtime(
        self,
        name: str,
        start: Time,
        end: Time,
        *,
        correlation: int | None = None,
        category: str = "cuda_runtime",
        **args: Any,
    ) -> TraceBuilder:
        """Add a call of the CUDA runtime, or of the driver with `category="cuda_driver"`."""
        ids = {} if correlation is None else {"correlation": correlation}
        return self.complete(category, name, start, end, {**ids, **args})

    # --- the GPU --------------------------------------------------------------------------------------------------

    def gpu(
        self,
        category: str,
        name: str,
        start: Time,
        end: Time,
        *,
        correlation: int | None = None,
        stream: int = 7,
        device: int = 0,
        **args: Any,
    ) -> TraceBuilder:
        """Add work on a GPU: `kernel`, `gpu_memcpy` or `gpu_memset`."""
        ids = {"device": device, "stream": stream} | ({} if correlation is None else {"correlation": correlation})
        self._complete(category, name, start, end, {**ids, **args}, device, stream)
        return self

    def kernel(self, name: str, start: Time, end: Time, **args: Any) -> TraceBuilder:
        """Add a kernel; see `gpu` for the arguments."""
        return self.gpu("kernel", name, start, end, **args)

    def copy(self, start: Time, end: Time, *, kind: str = "HtoD", nbytes: int = 0, **args: Any) -> TraceBuilder:
        """Add a copy; `kind` is HtoD, DtoH or DtoD."""
        sides = {"H": "Pageable", "D": "Device"}
        name = f"Memcpy {kind} ({sides[kind[0]]} -> {sides[kind[3]]})"
        return self.gpu("gpu_memcpy", name, start, end, **{"bytes": nbytes, **args})

    def memset(self, start: Time, end: Time, *, nbytes: int = 0, **args: Any) -> TraceBuilder:
        """Add a memset."""
        return self.gpu("gpu_memset", "Memset (Device)", start, end, **{"bytes": nbytes, **args})

    def launches(
        self,
        name: str,
        start: Time,
        end: Time,
        *,
        at: Time | None = None,
        until: Time | None = None,
        call: str = "cudaLaunchKernel",
        category: str = "kernel",
        **args: Any,
    ) -> TraceBuilder:
        """Let the last op launch GPU work that runs from `start` to `end`.

        The runtime call lies at `[at, until)`: if not given, for 1 us at the op's start, each further one 1 us later.
        """
        assert self._parent is not None, "launches() follows an op"
        begin = self._parent["ts"] + self._launches if at is None else Decimal(at)
        finish = begin + 1 if until is None else Decimal(until)
        assert finish <= self._parent["ts"] + self._parent["dur"], (
            "the call does not fit into the op; give at= and until="
        )
        self._launches += 1
        correlation = self.new_correlation()
        self.runtime(call, begin, finish, correlation=correlation)
        return self.gpu(category, name, start, end, correlation=correlation, **args)

    def new_correlation(self) -> int:
        """A correlation id that `launches` has not used and will not use."""
        self._next_correlation += 1
        return self._next_correlation - 1

    # --- the rest -------------------------------------------------------------------------------------------------

    def flow(
        self,
        kind: str,
        number: int | str,
        source: tuple[Time, int],
        target: tuple[Time, int],
        *,
        source_pid: int = PID,
        target_pid: int = PID,
    ) -> TraceBuilder:
        """Add both ends of an arrow (`fwdbwd`, `ac2g`); the ends are (time, thread or stream)."""
        for ph, (time, tid), pid in (("s", source, source_pid), ("f", target, target_pid)):
            end = {"bp": "e"} if ph == "f" else {}
            self.event(ph=ph, id=number, pid=pid, tid=tid, ts=Decimal(time), cat=kind, name=kind, **end)
        return self

    def memory(self, nbytes: int, at: Time, *, total: int, device: int = -1, address: int = 1) -> TraceBuilder:
        """Add an allocation, or a release if `nbytes` is negative; device -1 is the CPU."""
        args = {"Device Type": 0 if device < 0 else 1, "Device Id": device, "Addr": address, "Bytes": nbytes}
        args |= {"Total Allocated": total, "Total Reserved": total}
        return self.instant("[memory]", at, cat="cpu_instant_event", args=args)

    def instant(self, name: str, at: Time, *, scope: str = "t", **fields: Any) -> TraceBuilder:
        """Add an instant event."""
        return self.event(ph="i", s=scope, name=name, pid=PID, tid=self._tid, ts=Decimal(at), **fields)

    def counter(self, name: str, at: Time, **series: float) -> TraceBuilder:
        """Add a sample of a counter."""
        return self.event(ph="C", name=name, pid=PID, tid=self._tid, ts=Decimal(at), args=series)

    def process_name(self, name: str, pid: int | str = PID) -> TraceBuilder:
        """Name a process."""
        return self.event(ph="M", name="process_name", pid=pid, tid=0, ts=0, args={"name": name})

    def thread_name(self, name: str, tid: int | str | None = None, pid: int | str = PID) -> TraceBuilder:
        """Name a thread or stream, the current thread if none is given."""
        chosen = self._tid if tid is None else tid
        return self.event(ph="M", name="thread_name", pid=pid, tid=chosen, ts=0, args={"name": name})

    # --- the file -------------------------------------------------------------------------------------------------

    def text(self) -> str:
        """The file as JSON, one event per line."""
        finished = [{**event, "dur": event["dur"] or 0} if "dur" in event else event for event in self.events]
        events = ",\n".join(dumps(event) for event in finished)
        top = "".join(f"{json.dumps(key)}: {dumps(value)},\n" for key, value in self.top.items())
        return f'{{{top}"traceEvents": [\n{events}\n]}}\n'

    def write(self, path: Path) -> Path:
        """Write the trace as the name asks: `.json`, `.json.gz` or `.json.zst`."""
        data = self.text().encode()
        if path.suffix == ".gz":
            data = gzip.compress(data)
        elif path.suffix == ".zst":
            data = zstd.compress(data)
        path.write_bytes(data)
        return path

    def load(self, folder: Path, name: str = "trace.json") -> Trace:
        """Write the trace into a folder and open it; its tables are made when they are asked for (`tests.made`)."""
        return opened(self.write(folder / name))

    def imported(self, folder: Path, name: str = "trace.json") -> Trace:
        """Write the trace into a folder, import it and open the run, which has a path."""
        return runs.opened(self.write(folder / name))
