"""Loops on one GPU whose times are known, as plain events: tests break some of the times, and know what is right."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hotline_analysis import Trace
from tests.odd_values import load
from tests.trace_builder import TraceBuilder

Event = dict[str, Any]
GPU = ("kernel", "gpu_memcpy", "gpu_memset")


@dataclass
class Loop:
    """A loop: `steps` steps, each with `calls` ops that launch work `lag` us after their call, `spacing` us apart.

    `kernels` are its works and `calls_of` the launching call of each, by correlation.
    """

    steps: int
    calls: int
    spacing: int
    dur: int
    lag: int
    base: int = 6_744_669_505_000
    streams: tuple[int, ...] = (7,)
    name: str = "gemm"
    call: str = "cudaLaunchKernel"
    builder: TraceBuilder = field(default_factory=lambda: TraceBuilder(rank=0))
    kernels: list[Event] = field(default_factory=list)
    calls_of: dict[int, Event] = field(default_factory=dict)

    def __post_init__(self) -> None:
        at = self.base
        for number in range(self.steps):
            start = at
            at += 50
            for call in range(self.calls):
                stream = self.streams[call % len(self.streams)]
                self.builder.op("aten::mm", at, at + 40)
                self.builder.launches(
                    self.name,
                    at + 10 + self.lag,
                    at + 10 + self.lag + self.dur,
                    at=at + 10,
                    until=at + 15,
                    call=self.call,
                    stream=stream,
                )
                self.calls_of[self.builder.events[-1]["args"]["correlation"]] = self.builder.events[-2]
                self.kernels.append(self.builder.events[-1])
                at += self.spacing
            self.builder.step(number + 2, start, at)
            at += 100

    @property
    def length(self) -> int:
        """Length of a step, in us."""
        return 50 + self.calls * self.spacing

    def load(self, folder: Path, *, shuffled: int | None = None) -> Trace:
        """Write the loop, its events in another order if `shuffled` is a seed, and open it."""
        if shuffled is not None:
            random.Random(shuffled).shuffle(self.builder.events)
        return load(self.builder.write(folder / "trace.json"))


def spans_of(trace: Trace) -> list[tuple[int, int]]:
    """Start and duration of the GPU work that counts, in nanoseconds, in order."""
    rows = trace.sql("select start_ns, dur_ns from gpu_event order by start_ns, dur_ns").rows()
    return [(start, dur) for start, dur in rows]


def given(trace: Trace) -> dict[str, int]:
    """Events of each caveat on times."""
    words = ("zero_time", "far_time", "long_time", "ends_first", "before_launch", "other_clock", "overlap")
    return {name: count for name, count in trace.query("caveats").select("caveat", "count").rows() if name in words}
