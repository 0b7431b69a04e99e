"""Traces as other writers than PyTorch's profiler make them, and beside each the work of devices that is in it.

A builder adds events in the form of its writer. `work` has what it put on devices: class, device, start and end in
nanoseconds. Plain loops over `work` are the truth of the tests.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import hotline_analysis as ha


class Work(NamedTuple):
    """One piece of work of a device."""

    kind: str
    device: int
    start_ns: int
    end_ns: int


class Foreign:
    """Events of a file, and the work in it."""

    def __init__(self, *, as_array: bool = False, as_text: bool = False, base_us: int = 0) -> None:
        self.events: list[dict[str, Any]] = []
        self.work: list[Work] = []
        self._as_array, self._as_text, self._base_us = as_array, as_text, base_us

    def name(self, pid: int, process: str | None = None, label: str | None = None, **threads: str) -> Foreign:
        """Name a process, and threads of it (`t7="Stream #7"`)."""
        if process is not None:
            self.events.append({"ph": "M", "name": "process_name", "pid": pid, "args": {"name": process}})
        if label is not None:
            self.events.append({"ph": "M", "name": "process_labels", "pid": pid, "args": {"labels": label}})
        for thread, name in threads.items():
            event = {"ph": "M", "name": "thread_name", "pid": pid, "tid": int(thread[1:]), "args": {"name": name}}
            self.events.append(event)
        return self

    def event(self, name: str, pid: int, tid: int, start_us: int, dur_us: int, **more: Any) -> Foreign:
        """Add an event; `args` and `cat` may follow."""
        start: Any = self._base_us + start_us
        if self._as_text:
            start, dur = f"{start}.000", f"{dur_us}.000"
            self.events.append({"ph": "X", "name": name, "pid": pid, "tid": tid, "ts": start, "dur": dur, **more})
        else:
            self.events.append({"ph": "X", "name": name, "pid": pid, "tid": tid, "ts": start, "dur": dur_us, **more})
        return self

    def does(
        self, kind: str, name: str, pid: int, tid: int, start_us: int, dur_us: int, *, device: int = 0, **more: Any
    ) -> Foreign:
        """Add work of a device."""
        begin = 1000 * (self._base_us + start_us)
        self.work.append(Work(kind, device, begin, begin + 1000 * dur_us))
        return self.event(name, pid, tid, start_us, dur_us, **more)

    def arrow(self, cat: str, number: int, *places: tuple[int, int, int]) -> Foreign:
        """Add an arrow from a place to another, each a process, a thread and a time."""
        for ph, (pid, tid, at_us) in zip("sf", places, strict=True):
            at: Any = f"{self._base_us + at_us}.000" if self._as_text else self._base_us + at_us
            self.events.append(
                {"ph": ph, "bp": "e", "name": cat, "cat": cat, "id": str(number), "pid": pid, "tid": tid, "ts": at}
            )
        return self

    def shuffled(self, seed: int) -> Foreign:
        """The same events in another order."""
        random.Random(seed).shuffle(self.events)
        return self

    def write(self, file: Path) -> Path:
        """Write the file."""
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(self.events if self._as_array else {"traceEvents": self.events}))
        return file

    def load(self, folder: Path) -> ha.Trace:
        """Import the file and open the run."""
        return ha.load(self.write(folder / "trace.json"))

    # --- what is true ---------------------------------------------------------------------------------------------

    def sums(self) -> dict[str, tuple[int, int]]:
        """How many pieces of work of each class there are, and how long they take."""
        count, time = Counter[str](), Counter[str]()
        for each in self.work:
            count[each.kind] += 1
            time[each.kind] += each.end_ns - each.start_ns
        return {kind: (count[kind], time[kind]) for kind in count}

    def busy(self) -> dict[int, int]:
        """How long each device is busy."""
        found: dict[int, int] = {}
        for device in {each.device for each in self.work}:
            reached = -(2**62)
            for each in sorted((each for each in self.work if each.device == device), key=lambda each: each.start_ns):
                found[device] = found.get(device, 0) + max(0, each.end_ns - max(each.start_ns, reached))
                reached = max(reached, each.end_ns)
        return found


def ascend(
    *,
    steps: int = 3,
    kernels: int = 8,
    kernel_us: int = 1000,
    collective_us: int = 900,
    communication: str = "Communication",
    with_tasks: bool = True,
    collectives: bool = True,
    marks: str = "cpu_op",
    queued: bool = False,
) -> Foreign:
    """A training as torch_npu's `trace_view.json` has it: an array, times as text, device work without a category.

    With `queued`, another thread launches what the thread of python asks for (the task queue of torch_npu).
    """
    trace = Foreign(as_array=True, as_text=True, base_us=1_767_189_312_000_000)
    trace.name(5001, "Python", "CPU").name(77001, "CANN", "CPU").name(77002, "Ascend Hardware", "NPU", t2="Stream 2")
    if collectives:
        trace.name(77003, communication, "NPU", t0="Group 0 Communication", t1="Plane 0")
    trace.name(77004, "Overlap Analysis", "NPU", t0="Computing", t1="Free")
    connection = 0
    each = kernel_us + 100
    for step in range(steps):
        at = step * (kernels * each + collective_us + 300)
        trace.event(f"ProfilerStep#{step}", 5001, 5001, at, kernels * each + collective_us + 200, cat=marks, args={})
        for number in range(kernels):
            connection += 1
            begin = at + 50 + number * each
            shared = {"connection_id": connection}
            trace.event("aten::mm", 5001, 5001, begin, 60, cat="cpu_op", args={"Fwd thread id": 0})
            launching, late = (5002, 55) if queued else (5001, 0)
            trace.event("AscendCL@aclnnMatmul", 77001, launching, begin + 20 + late, 20, args=shared)
            if queued:
                trace.event("Enqueue@aclnnMatmul", 5001, 5001, begin + 10, 5, cat="enqueue")
                trace.event("Dequeue@aclnnMatmul", 5001, 5002, begin + 70, 30, cat="dequeue")
            trace.arrow("async_npu", connection, (5001, 5001, begin), (77002, 2, begin + 80))
            args = {"Task Type": "AI_CORE", "Physic Stream Id": 2, "Task Id": connection, **shared}
            trace.does("computation", f"MatMulV3_{number}", 77002, 2, begin + 80, kernel_us, args=args)
            trace.event("Computing", 77004, 0, begin + 80, kernel_us)
        if with_tasks:
            begin = at + 50 + kernels * each - 15
            trace.event("EVENT_WAIT", 77002, 2, begin, 2, args={"Task Type": "EVENT_WAIT", "Physic Stream Id": 2})
            args = {"Task Type": "SDMA", "Physic Stream Id": 2}
            trace.does("memory", "MEMCPY_ASYNC", 77002, 2, begin + 4, 6, args=args)
        if collectives:
            begin = at + 50 + kernels * each
            args = {"connection_id": connection, "data_type": "BFP16"}
            trace.does("communication", f"hcom_allReduce__12_{step}_1", 77003, 0, begin, collective_us, args=args)
            trace.event("Notify_Wait", 77003, 1, begin, collective_us // 2)
            trace.event("Memcpy", 77003, 1, begin + collective_us // 2, collective_us // 4)
        trace.event("Free", 77004, 1, at, 50)
    return trace


def xla_gpu(
    *,
    steps: int = 5,
    kernel_us: int = 850,
    devices: int = 1,
    with_lines: bool = True,
    first: int = 0,
    copies: bool = True,
) -> Foreign:
    """Calls of a compiled function as JAX's `perfetto_trace.json` has them, on streams of one or more GPUs."""
    trace = Foreign()
    trace.name(701, "/host:CPU", t1="python", t2="tf_XLAEigen/2")
    for device in range(devices):
        lines = {"t1": "Steps", "t2": "XLA Modules", "t3": "XLA Ops"} if with_lines else {}
        trace.name(
            device + 1, f"/device:GPU:{device}", t7="Stream #7(Compute,MemcpyH2D)", t9="Stream #9(MemcpyD2D)", **lines
        )
    call = first
    for step in range(steps):
        at = 1000 * step
        trace.event("PjitFunction(train_step)", 701, 1, at, 120)
        trace.event("$train.py:12 step", 701, 1, at, 200)
        for device in range(devices):
            trace.event("cuLaunchKernel", 701, 1, at + 10 + 20 * device, 15, args={"correlation_id": str(call)})
            args = {"hlo_module": "jit_train_step", "hlo_op": f"gemm.{step}", "correlation_id": str(call)}
            begin = at + 60 + 20 * device
            trace.does(
                "computation", f"gemm_fusion_dot_{step}", device + 1, 7, begin, kernel_us, device=device, args=args
            )
            if with_lines:
                trace.event(str(step), device + 1, 1, begin, kernel_us)
                trace.event("jit_train_step(1)", device + 1, 2, begin, kernel_us)
                trace.event(f"gemm.{step}", device + 1, 3, begin, kernel_us)
            if copies:
                trace.does("memory", "MemcpyD2D", device + 1, 9, begin + kernel_us // 2, 40, device=device)
            if devices > 1:
                name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)"
                trace.does("communication", name, device + 1, 7, begin + kernel_us, 20, device=device)
            call += 1
    return trace


def xla_tpu(*, steps: int = 4, ops: int = 3, op_us: int = 100, collective: str = "all-reduce.1") -> Foreign:
    """A TPU has its ops on one line; a loop contains ops, and is no work itself."""
    trace = Foreign()
    trace.name(3, "/device:TPU:0", t1="Steps", t2="XLA Modules", t3="XLA Ops").name(701, "/host:CPU", t1="python")
    for step in range(steps):
        at = 1000 * step
        trace.event("PjRtStreamExecutorLoadedExecutable::Execute", 701, 1, at, 30)
        whole = ops * op_us + 90
        trace.event(str(step), 3, 1, at + 40, whole)
        trace.event("jit_step(42)", 3, 2, at + 40, whole)
        trace.event("while.7", 3, 3, at + 40, ops * op_us + 10)
        for number in range(ops):
            trace.does("computation", f"fusion.{number}", 3, 3, at + 45 + number * op_us, op_us - 5)
        trace.does("communication", collective, 3, 3, at + 60 + ops * op_us, 30)
        trace.does("memory", f"copy-start.{step}", 3, 3, at + 95 + ops * op_us, 10)
    return trace


def ibm_aiu(*, jobs: int = 3, kernel_us: int = 400, devices: int = 2) -> Foreign:
    """IBM AIU, as aiu-trace-analyzer names it, without categories."""
    trace = Foreign()
    for device in range(devices):
        trace.name(device, f"AIU Device{device}", "AIU").name(1000 + device, f"Host{device}", "cpu")
        for job in range(jobs):
            at = job * (kernel_us + 200)
            trace.event("Execute Graph", 1000 + device, 1, at, 50)
            trace.does("memory", f"input{job} DmaI", device, 1, at + 60, 20, device=device, args={"TS1": "1"})
            trace.event(f"mm_{job} Cmpt Prep", device, 2, at + 60, 30, args={"TS1": "1"})
            trace.does("computation", f"mm_{job} Cmpt Exec", device, 2, at + 100, kernel_us, device=device)
            trace.does("memory", f"output{job} DmaO", device, 1, at + 110 + kernel_us, 25, device=device)
    return trace


def labelled(
    *, label: str, process: str = "python3", kernels: int = 6, kernel_us: int = 50, device: int = 0
) -> Foreign:
    """A writer like Kineto that labels the process of a device and names no categories of its work."""
    trace = Foreign().name(100, "python3", "CPU").name(device, process, label)
    for number in range(kernels):
        at = 100 * number
        trace.event("aten::add", 100, 100, at, 20, cat="cpu_op")
        trace.does("computation", f"add_kernel_{number}", device, 4, at + 25, kernel_us, device=device)
    trace.does("memory", "Memcpy HtoD", device, 5, 100 * kernels, 30, device=device)
    trace.does("memory", "Memset (Device)", device, 5, 100 * kernels + 40, 10, device=device)
    return trace


def forked(*, prefix: str, calls: int = 7) -> Foreign:
    """A fork of Kineto that names the categories after its device (torch_gcu, MUSA, XPU)."""
    trace = Foreign()
    for number in range(calls):
        at = 100 * number
        ids = {"correlation": number + 1}
        where = {"device": 0, "stream": 3, **ids}
        trace.event("aten::add", 1, 1, at, 30, cat="cpu_op")
        trace.event(f"{prefix}LaunchKernel", 1, 1, at + 5, 10, cat=f"{prefix}_runtime", args=ids)
        trace.does("computation", "add", 0, 3, at + 20, 60, cat="kernel", args=where)
        trace.does("memory", "copy", 0, 3, at + 80, 7, cat=f"{prefix.upper()}_MEMCPY", args={"device": 0, "stream": 3})
    return trace


def tenstorrent(*, rounds: int = 4, zone_us: int = 30) -> Foreign:
    """Processors of a core, each a thread with zones in zones."""
    trace = Foreign().name(1, "Device: 0, Core (1,1)", t1="BRISC", t2="NCRISC", t3="TRISC_0").name(9, "python", "CPU")
    for number in range(rounds):
        at = 200 * number
        trace.event("ttnn::matmul", 9, 9, at, 20)
        for tid, name in ((1, "BRISC"), (2, "NCRISC"), (3, "TRISC")):
            trace.event(f"{name}-FW", 1, tid, at + 30, zone_us + 10)
            trace.does("computation", f"{name}-KERNEL", 1, tid, at + 35, zone_us)
    return trace


def streamed(*, kernels: int = 5) -> Foreign:
    """A writer of which nothing is known, but each of its events names a device and a stream."""
    trace = Foreign().name(4, "queue runner")
    for number in range(kernels):
        args = {"device": 0, "stream": 11, "correlation": number + 1}
        trace.does("computation", f"op{number}", 4, 1, 30 * number, 20, args=args)
        trace.event("aten::mm", 50, 50, 30 * number, 10, cat="cpu_op")
    return trace
