"""The eight traces that the cases change: slices of real ones where they are at hand, and generated ones."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from tests.benchmarks import odd_traces
from tests.campaign.draft import Draft, Event
from tests.trace_builder import TraceBuilder

DATA = Path(__file__).parents[1] / "data"
_MOST = 2_500  # events of a slice: a case takes some seconds

# A trace of the folder in HOTLINE_TRACES, and one of this repository that stands for it where there is none.
_REAL = {
    "ddp_checkpoint_mi300": ("training/resnet18_ddp_checkpoint_mi300.json.gz", "cnn_checkpoint.json.gz"),
    "dlrm_cudagraph_v100": ("training/dlrm_v100_cudagraph.json.gz", "dlrm.json.gz"),
    "ddp_memory_v100": ("training/ddp_v100_memory.json.gz", "transformer.json.gz"),
    "cupti_a100": ("counters/alexnet_cupti_a100.json.gz", "lstm.json.gz"),
    "qwen_h100": ("inference/qwen_h100.json.gz", "pairs/seq2seq_plain.json.gz"),
    "one_rank_of_many": ("multi_rank/rank-0.json.gz", "gloo/rank2.json.gz"),
}
GENERATED = ("training", "all_kinds")
NAMES = (*_REAL, *GENERATED)


@cache
def base(name: str) -> Draft:
    """A trace by name. It is the caller's duty to copy it before changing it."""
    if name == "training":
        return _training()
    if name == "all_kinds":
        return _all_kinds()
    real, stand_in = _REAL[name]
    folder = os.environ.get("HOTLINE_TRACES")
    path = Path(folder) / real if folder else DATA / stand_in
    with gzip.open(path, "rt", encoding="utf-8") as file:
        document = json.load(file)
    return _slice(document)


def source(name: str) -> str:
    """Where a trace comes from, in words."""
    if name in GENERATED or name not in _REAL:
        return "generated"
    real, stand_in = _REAL[name]
    return f"a slice of {real}" if os.environ.get("HOTLINE_TRACES") else f"a slice of tests/data/{stand_in}"


def _slice(document: dict[str, Any]) -> Draft:
    """The beginning of a training step in the middle, with the GPU work that is launched there, and all metadata."""
    events: list[Event] = document.pop("traceEvents")
    timed = [event for event in events if "ts" in event and event["ph"] != "M"]
    steps = sorted(
        (
            event
            for event in timed
            if event.get("cat") == "user_annotation" and event["name"].startswith("ProfilerStep#")
        ),
        key=lambda event: float(event["ts"]),
    )
    first = float(steps[len(steps) // 2]["ts"]) if steps else min(float(event["ts"]) for event in timed)
    inside = sorted((event for event in timed if float(event["ts"]) >= first), key=lambda event: float(event["ts"]))
    kept = {id(event) for event in inside[:_MOST]}
    launched = {
        event["args"]["correlation"]
        for event in inside[:_MOST]
        if event.get("cat") in ("cuda_runtime", "cuda_driver") and "correlation" in event.get("args", {})
    }
    for event in events:
        is_gpu = str(event.get("cat")).lower() in ("kernel", "gpu_memcpy", "gpu_memset")
        is_launched = is_gpu and event.get("args", {}).get("correlation") in launched
        if event["ph"] == "M" or is_launched:
            kept.add(id(event))
    return Draft(document, [event for event in events if id(event) in kept])


def _training() -> Draft:
    """Four steps of a model on a GPU: modules, loss, autograd, optimizer, copies, collectives, memory, counters."""
    properties = [{"id": 0, "name": "NVIDIA A100", "totalGlobalMem": 85_000_000_000, "numSms": 108}]
    trace = TraceBuilder(rank=0, world_size=2, schemaVersion=1, deviceProperties=properties, traceName="training")
    trace.process_name("python").thread_name("main", 1).process_name("GPU 0", 0)
    for number in range(4):
        at = 10_000 * number
        trace.on(1).step(number, at, at + 9_000)
        trace.annotation("enumerate(DataLoader)#_Iter.__next__", at + 5, at + 300)
        trace.op("aten::copy_", at + 310, at + 330)
        trace.launches("copy", at + 340, at + 380, category="gpu_memcpy", nbytes=4096)
        _layers(trace, at, number)
        trace.on(1).annotation("Optimizer.step#SGD.step", at + 6_000, at + 7_000)
        for part in range(8):
            trace.op("aten::_foreach_add_", at + 6_010 + 100 * part, at + 6_090 + 100 * part)
            trace.launches("multi_tensor_apply_kernel", at + 6_500 + 100 * part, at + 6_550 + 100 * part)
        trace.annotation("Optimizer.zero_grad#SGD.zero_grad", at + 7_100, at + 7_300)
        trace.op("aten::item", at + 7_500, at + 8_500)
        trace.runtime("cudaStreamSynchronize", at + 7_510, at + 8_490, correlation=100_000 + number)
        trace.frame("log.py(3): write", at + 8_600, at + 8_900)
        for sample in range(10):
            trace.counter("GPU 0 utilisation", at + 900 * sample, percent=10 * sample)
    return Draft(dict(trace.top), _plain(trace))


def _layers(trace: TraceBuilder, at: int, number: int) -> None:
    """Forward and backward of ten layers."""
    trace.module("Net", 0, at + 400, at + 2_500).frame("net.py(7): forward", at + 402, at + 2_490)
    for layer in range(10):
        begin, seq = at + 420 + 200 * layer, 100 * number + layer
        trace.module("Linear", layer, begin, begin + 150)
        trace.op("aten::linear", begin + 10, begin + 140, seq=seq)
        trace.events[-1].setdefault("args", {})["Input Dims"] = [[32, 64], [64, 64]]
        trace.op("aten::addmm", begin + 20, begin + 120, seq=seq)
        trace.launches("void gemm<float, 128>(float*, int)", begin + 60, begin + 220, stream=7)
        trace.flow("ac2g", 10_000 + seq, (begin + 20, 1), (begin + 60, 7), target_pid=0)
        trace.memory(512, begin + 25, total=1024 * (layer + 1), device=0, address=seq + 1)
    trace.op("aten::mse_loss", at + 2_600, at + 2_700, seq=100 * number + 50).launches("loss", at + 2_800, at + 2_900)
    trace.on(2)
    for layer in reversed(range(10)):
        begin, seq = at + 3_000 + 250 * (9 - layer), 100 * number + layer
        trace.backward("AddmmBackward0", begin, begin + 200, seq=seq).launches("gemm_grad", begin + 80, begin + 290)
        trace.flow("fwdbwd", seq, (at + 430 + 200 * layer, 1), (begin, 2))
        trace.memory(-512, begin + 25, total=1024 * layer, device=0, address=seq + 1)
        args: dict[str, Any] = {
            "Collective name": "allreduce",
            "dtype": "Float",
            "In msg nelems": 4096,
            "Group size": 2,
        }
        trace.op("c10d::allreduce_", begin + 205, begin + 215)
        trace.launches("ncclDevKernel_AllReduce", begin + 300, begin + 420, stream=9, **args)


def _plain(trace: TraceBuilder) -> list[Event]:
    """The events as JSON has them."""
    return [_as_json(event) for event in trace.events]


def _as_json(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _as_json(item) for key, item in value.items()}
    if isinstance(value, list):
        return list(map(_as_json, value))
    return value if value is None or isinstance(value, str | int | float) else int(value)


def _all_kinds() -> Draft:
    """A few events of every kind that the benchmarks know, one kind after the other."""

    def shifted() -> Iterator[Event]:
        for place, kind in enumerate(odd_traces.KINDS):
            for event in odd_traces.events(f"{kind}/in_turn", 40):
                yield {**event, "ts": round(event["ts"] + 1_000 * place, 3), "args": dict(event.get("args", {}))}

    return Draft({"schemaVersion": 1, "distributedInfo": {"rank": 1, "world_size": 4}}, list(shifted()))
