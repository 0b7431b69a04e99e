"""Writes a planned loop as a trace file, and keeps the truth: times of steps, of CPU activities and of kernels."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from tests.campaign.loops.plan import Plan
from tests.trace_builder import TraceBuilder

LOADING = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
SAVING = "save checkpoint"
EVALUATING = "evaluation"
OWN = "Activity Buffer Request"
_CALL_US = 5
_EFFECT_US = 3  # from the launch call to the kernel on an idle GPU
_RETURN_US = 4  # a synchronise returns so long after the GPU is done


@dataclass(frozen=True)
class Kernel:
    """A kernel: its times, its launch call, and whether it follows the previous kernel without a gap."""

    start: int
    end: int
    called: int
    is_queued: bool
    is_communication: bool


@dataclass(frozen=True)
class Activity:
    """A stretch of the main thread: `load_data`, `op`, `python`, `sync` or `profiler`."""

    start: int
    end: int
    what: str


@dataclass
class Step:
    """A step with its marks, the parts that not all steps have, and the right role."""

    number: int
    start: int
    role: str = "counted"
    end: int = 0
    parts: dict[str, int] = field(default_factory=dict)


@dataclass
class Truth:
    """All that is known of a recorded loop; times are microseconds."""

    plan: Plan
    steps: list[Step] = field(default_factory=list)
    activities: list[Activity] = field(default_factory=list)
    kernels: list[Kernel] = field(default_factory=list)


class Recorder:
    """Records one loop: plays the CPU and one stream of the GPU, and writes each event."""

    def __init__(self, plan: Plan, *, with_profiler: bool = True) -> None:
        self.plan = plan
        self.trace = TraceBuilder(rank=0)
        self.truth = Truth(plan)
        self._pick = random.Random(plan.seed)
        self._own_us = plan.own_us if with_profiler else 0
        self._at = 0
        self._free = 0

    def recorded(self) -> tuple[TraceBuilder, Truth]:
        """The whole loop."""
        plan = self.plan
        number = plan.first_number
        for place in range(-plan.warm_up, plan.steps):
            self._step(number, place)
            self._between(place)
            number += 1
        if plan.last != "whole":
            self._last(number)
        self.trace.annotation("the end", self._at, max(self._at + 1, self._free))
        return self.trace, self.truth

    def _between(self, place: int) -> None:
        if self.plan.between_us and place < self.plan.steps - 1:
            self._spend("python", self._drawn(self.plan.between_us))

    def _drawn(self, time_us: int) -> int:
        jitter = self._pick.uniform(-self.plan.jitter, self.plan.jitter)
        return max(1, round(time_us * (1 + jitter)))

    def _spend(self, what: str, time_us: int) -> tuple[int, int]:
        begin, self._at = self._at, self._at + time_us
        self.truth.activities.append(Activity(begin, self._at, what))
        return begin, self._at

    def _step(self, number: int, place: int) -> None:
        plan, step = self.plan, Step(number, self._at)
        counted = place >= 0
        if not counted:
            step.role = "warm_up"
            begin, end = self._spend("op", plan.warm_up_us)
            if plan.gpu:
                self.trace.op("aten::empty", begin, end)
                self.trace.runtime("cudaMalloc", begin, end, correlation=self.trace.new_correlation())
            else:
                self.trace.annotation("CompiledFunction (dynamo_timed)", begin, end)
        is_late = counted and plan.has(plan.late_every, place)
        begin, end = self._spend("load_data", self._drawn(plan.load_us + (plan.late_us if is_late else 0)))
        self.trace.annotation(LOADING, begin, end)
        if is_late:
            step.parts["late"] = plan.late_us
        extra = plan.slow_us if place in plan.slow else 0
        extra += round(self._pick.expovariate(1 / (plan.tail * plan.usual_us))) if plan.tail else 0
        if place in plan.slow:
            step.parts["slow"] = plan.slow_us
        owns = counted and plan.has(plan.own_every, place)
        self._work("## forward ##", "aten::linear", self._drawn(plan.forward_us) + extra, owns=owns)
        self._work("## backward ##", "aten::mm", self._drawn(plan.backward_us))
        if not counted or plan.has(plan.accumulate, place):
            sends = plan.gpu and plan.accumulate > 1
            begin = self._at
            if sends:
                self._op("aten::all_reduce", self._drawn(plan.optimizer_us) // 2, is_communication=True)
            self._work("Optimizer.step#SGD.step", "aten::add_", self._drawn(plan.optimizer_us))
            if plan.accumulate > 1:
                step.parts["optimizer"] = self._at - begin
        for name, every, time_us in (
            (EVALUATING, plan.evaluate_every, plan.evaluate_us),
            (SAVING, plan.save_every, plan.save_us),
        ):
            if counted and plan.has(every, place):
                begin = self._at
                if name == EVALUATING:
                    self._work(EVALUATING, "aten::relu", self._drawn(time_us))
                else:
                    self.trace.annotation(SAVING, *self._spend("python", self._drawn(time_us)))
                step.parts[name] = self._at - begin
        self._spend("python", self._drawn(plan.python_us))
        if plan.gpu and not plan.ahead:
            self._synchronise()
        self._mark(step)

    def _mark(self, step: Step) -> None:
        step.end = self._at
        self.trace.step(step.number, step.start, step.end)
        self.truth.steps.append(step)

    def _last(self, number: int) -> None:
        """A step that does not count: the GPU's or the ops' recording has ended, or the step is empty."""
        step = Step(number, self._at, self.plan.last.replace(" ", "_"))
        begin, end = self._spend("python", self._drawn(self.plan.usual_us))
        if self.plan.last == "cut off":
            middle = (begin + end) // 2
            self.trace.annotation(LOADING, begin, middle)
            if self.plan.gpu:
                self.trace.op("aten::linear", middle, end)
        self._mark(step)

    def _synchronise(self) -> None:
        begin, end = self._spend("sync", max(self._at, self._free) + _RETURN_US - self._at)
        self.trace.runtime("cudaDeviceSynchronize", begin, end, correlation=self.trace.new_correlation())

    def _work(self, phase: str, op: str, time_us: int, *, owns: bool = False) -> None:
        """A phase or region of equally long ops, each with a kernel."""
        begin = self._at
        for place in range(self.plan.ops):
            self._op(op, time_us // self.plan.ops, owns=owns and place == 1)
        self.trace.annotation(phase, begin, self._at)

    def _op(self, name: str, time_us: int, *, owns: bool = False, is_communication: bool = False) -> None:
        own_us = self._own_us if owns else 0
        begin = self._at
        time_us = max(time_us, _CALL_US + 3)
        if not self.plan.gpu:
            self.trace.op(name, *self._spend("op", time_us))
            return
        called = begin + 1
        self._spend("op", 2)
        if own_us:
            own_begin, _ = self._spend("profiler", own_us)
            self.trace.event(ph="X", cat="overhead", name=OWN, pid=-1, tid=0, ts=own_begin, dur=own_us)
        self._spend("op", time_us - 2)
        self.trace.op(name, begin, self._at)
        ready = called + _EFFECT_US + own_us
        start = max(ready, self._free)
        self._free = start + max(1, time_us * self.plan.kernel_pct // 100)
        kernel = "ncclDevKernel_AllReduce_Sum_f32_RING_LL" if is_communication else f"kernel_of_{name[6:]}"
        self.trace.launches(kernel, start, self._free, at=called, until=called + _CALL_US + own_us)
        self.truth.kernels.append(Kernel(start, self._free, called, start > ready, is_communication))


def recorded(plan: Plan, *, with_profiler: bool = True) -> tuple[TraceBuilder, Truth]:
    """The trace of a planned loop, and the truth about it; the same plan gives the same trace."""
    return Recorder(plan, with_profiler=with_profiler).recorded()
