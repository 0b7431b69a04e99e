"""Steps for tests of rules: a GPU that is busy from the first kernel to the end, and a CPU that waits for it."""

from __future__ import annotations

from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

from hotline_analysis import Trace
from hotline_analysis.answers.rules import find_advice
from tests.trace_builder import TraceBuilder

FIRST_US = 100
A100 = {"name": "NVIDIA A100-SXM4-40GB", "numSms": 108}


class GpuStep:
    """One step of a loop that the GPU bounds: kernels without a gap, after 100 us in which the CPU begins.

    So each microsecond that a kernel takes less makes the step a microsecond shorter.
    """

    def __init__(self, device: dict[str, Any] | None = None) -> None:
        self.trace = TraceBuilder(rank=0, deviceProperties=[{"id": 0, **(A100 if device is None else device)}])
        self.trace.step(0)
        self.cpu = 0
        self.gpu = FIRST_US

    def kernel(
        self,
        name: str,
        duration: int,
        *,
        op: str = "aten::op",
        dims: Any = None,
        strides: Any = None,
        types: Any = None,
        inside: tuple[str, ...] = (),
        grid: tuple[int, int, int] | None = None,
        category: str = "kernel",
    ) -> GpuStep:
        """Launch work by an op of two microseconds; `inside` are the ops around it, outermost first."""
        start, end = self.cpu, self.cpu + 2
        for around in inside:
            self.trace.op(around, start, end)
        recorded = {"Input Dims": dims, "Input Strides": strides, "Input type": types}
        self.trace.op(op, start, end, **{key: value for key, value in recorded.items() if value is not None})
        sizes: dict[str, Any] = {} if grid is None else {"grid": list(grid), "block": [128, 1, 1]}
        self.trace.launches(name, self.gpu, self.gpu + duration, at=start, category=category, **sizes)
        self.cpu, self.gpu = end, self.gpu + duration
        return self

    def load(self, folder: Path) -> Trace:
        """End the step with a call that waits for the GPU."""
        self.trace.runtime("cudaDeviceSynchronize", self.cpu, self.gpu + 10, correlation=10_000)
        return self.trace.load(folder)


@dataclass(frozen=True)
class Found:
    """What a rule says: how many, their time and the gain, in microseconds."""

    count: int
    time: float
    gain: float


def found(trace: Trace, rule: str) -> tuple[Any, ...] | None:
    """Count, time and gain in microseconds of what a rule says of a trace; None if it says nothing."""
    said = find_advice(trace, rules=(rule,))
    if not said:
        return None
    (one,) = said
    return astuple(Found(one.count, one.time_ns / 1000, one.gain_ns / 1000))
