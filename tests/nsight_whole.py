"""An export with everything that only Nsight Systems records: samples, calls of the system, GPU metrics and NCCL."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.nsight_export import Event, both_know, global_id, write_export
from tests.trace_builder import PID, TraceBuilder

_MAIN = global_id(PID, 1)
_TEXTS = ("fsync", "/usr/lib/libc.so.6", "save", "/home/me/train.py:12", "train", "/home/me/train.py:30")
_METRICS = ("SMs Active [Throughput %]", "Tensor Active [Throughput %]", "DRAM Read Bandwidth [Throughput %]")
_FIRST = 90_000  # number of the first text


def program() -> list[Event]:
    """Two steps: a kernel, a collective that its call launches, and 600 us without a range."""
    trace = TraceBuilder()
    for step in range(2):
        at = 1000 * step
        trace.step(step, at, at + 1000).annotation("forward", at, at + 100)
        trace.op("aten::mm", at + 10, at + 30).launches("gemm", at + 40, at + 140)
        trace.runtime("cudaLaunchKernelExC", at + 52, at + 55, correlation=at + 7)
        trace.kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", at + 150, at + 300, correlation=at + 7)
    return trace.events


def whole_export(path: Path, schema: str = "2026.2", events: Iterable[Event] | None = None) -> Path:
    """Write the program, or other events, with rows in every table that only an export has."""
    payload = json.dumps({"NCCL communicator ID": 7, "Message size [bytes]": 4096})
    nvtx = [_range("NCCL", 0, None, 75, None)]
    nvtx += [_range("ncclAllReduce", at + 50_000, at + 60_000, 59, payload) for at in (0, 1_000_000)]
    samples = [(number, 50_000 * number) for number in range(1, 40)]
    stack = ((_FIRST, _FIRST + 1), (_FIRST + 2, _FIRST + 3), (_FIRST + 4, _FIRST + 5))
    metrics = [(at, 1, number, 50 + number) for at in range(0, 2_000_000, 100_000) for number in range(len(_METRICS))]
    is_new = schema == "2026.2"
    more: dict[str, Sequence[Sequence[object]]] = {
        "StringIds": [(_FIRST + number, text) for number, text in enumerate(_TEXTS)],
        "COMPOSITE_EVENTS": [(number, at, 0, 1, _MAIN, 1) for number, at in samples],
        "SAMPLING_CALLCHAINS": [
            (number, symbol, module, *[0] * 6, depth)
            for number, _ in samples
            for depth, (symbol, module) in enumerate(stack)
        ],
        "OSRT_API": [(at + 400_000, at + 900_000, 27, _MAIN, None, _FIRST, 0, 0, None) for at in (0, 1_000_000)],
        "TARGET_INFO_GPU_METRICS": [(1, 1, "GPU metrics", number, name) for number, name in enumerate(_METRICS)],
        "GPU_METRICS": [(row[0], *row) if is_new else row for row in metrics],
        "NVTX_EVENTS": [[*row, None] if is_new else row for row in nvtx],
    }
    known = both_know(program() if events is None else events, {}, schema)
    return write_export(path, known, {}, schema, more, pid=PID)


def _range(text: str, start: int, end: int | None, kind: int, payload: str | None) -> list[object]:
    """A row of `NVTX_EVENTS` in the schema of 2022.4, in the domain of NCCL."""
    return [start, end, kind, None, None, None, text, _MAIN, None, None, 4, *[None] * 7, payload]
