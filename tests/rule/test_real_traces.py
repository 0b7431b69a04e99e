"""What rules about kernels find in real traces, beside what plain loops over the JSON find in the same step."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from hotline_analysis.analyze.limits import typical_step
from hotline_analysis.analyze.rules import find_advice
from tests.test_real_traces import Event, file, gpu_events, ns, opened

RUNTIME = ("cuda_runtime", "cuda_driver")
TIMESFORMER = "verdicts/timesformer_h100.json.gz"
TRANSFORMER = "labelled/transformer/trace.json.gz"
RESNET50 = "labelled/resnet50/trace.json.gz"
QWEN = "verdicts/qwen_mi300.json.gz"
OWLV2 = "verdicts/owlv2_mi300.json.gz"
DLRM = "training/dlrm_v100_cudagraph.json.gz"
RESNET18 = "training/resnet18_ddp_checkpoint_mi300.json.gz"


@dataclass(frozen=True)
class Work:
    """A kernel, copy or memset, the ops around its launch, innermost last, and where it ran."""

    name: str
    start: int
    dur: int
    stream: int
    ops: tuple[Event, ...]

    @property
    def op(self) -> str:
        return str(self.ops[-1]["name"]) if self.ops else ""


def around(events: list[Event], calls: list[Event]) -> dict[int, tuple[Event, ...]]:
    """The ops that are open on its thread when each call starts, by correlation."""
    entries = [(ns(event["ts"]), 0, -ns(event["dur"]), event) for event in events]
    entries += [(ns(event["ts"]), 1, 0, event) for event in calls]
    entries.sort(key=lambda entry: entry[:3])
    open_ops: dict[object, list[Event]] = {}
    found = {}
    for start, is_call, _, event in entries:
        stack = open_ops.setdefault(event["tid"], [])
        while stack and ns(stack[-1]["ts"]) + ns(stack[-1]["dur"]) <= start:
            stack.pop()
        if is_call:
            found[event["args"]["correlation"]] = tuple(stack)
        else:
            stack.append(event)
    return found


@functools.lru_cache(maxsize=1)
def work(name: str) -> list[Work]:
    """GPU work that the typical step launched, in order of its start."""
    typical = typical_step(opened(name))
    assert typical
    events = file(name)["traceEvents"]
    (mark,) = [event for event in events if event.get("name") == f"ProfilerStep#{typical.step}" and event["ph"] == "X"
               and event["cat"] == "user_annotation"]  # fmt: skip
    first, last = ns(mark["ts"]), ns(mark["ts"]) + ns(mark["dur"])
    calls = [
        event
        for event in events
        if event.get("cat") in RUNTIME
        and event.get("args", {}).get("correlation", 0) > 0
        and first <= ns(event["ts"]) < last
    ]
    ops = around([event for event in events if event.get("cat") == "cpu_op" and event.get("ph") == "X"], calls)
    found = [
        Work(event["name"], ns(event["ts"]), ns(event["dur"]), event["args"]["stream"], ops[correlation])
        for _, event in gpu_events(name)
        if (correlation := event["args"].get("correlation")) in ops
    ]
    return sorted(found, key=lambda each: each.start)


def unaligned(name: str) -> Iterator[Work]:
    for each in work(name):
        if each.op == "aten::bmm" and "gemm" in each.name:
            _, (_, _, n) = each.ops[-1]["args"]["Input Dims"][:2]
            strides = [max(stride[-2:]) for stride in each.ops[-1]["args"]["Input Strides"][:2]]
            if n % 8 or any(stride % 8 for stride in strides):
                yield each


def between_products(name: str) -> Iterator[Work]:
    """Runs of kernels from one bmm to the next that hold a softmax and nothing that is not of the scores."""
    found: list[Work] = []
    inside = False
    for each in (each for each in work(name) if not each.name.startswith(("Mem", "nccl"))):
        if each.op in ("aten::bmm", "aten::baddbmm"):
            if inside and any("softmax" in other.op for other in found):
                yield from found
            inside, found = True, []
        elif re.fullmatch(
            r"aten::(_softmax\w*|(add|mul|div|masked_fill|clamp)_?|sub|copy_|native_dropout\w*|masked_scale|max|where)",
            each.op,
        ):
            found.append(each)
        else:
            inside, found = False, []


def chained(name: str) -> Iterator[Work]:
    """Elementwise kernels beside another one, on a trace with one stream and no optimizer."""
    is_one = [bool(re.search(r"elementwise_kernel|unrolled_elementwise", each.name)) for each in work(name)]
    for place, each in enumerate(work(name)):
        beside = (place > 0 and is_one[place - 1]) or (place + 1 < len(is_one) and is_one[place + 1])
        if is_one[place] and beside:
            yield each


def sorting(name: str) -> Iterator[Work]:
    """All work of the outermost ops of backward that sort."""
    nodes = {id(each.ops[-1]) for each in work(name) if "RadixSort" in each.name}
    yield from (each for each in work(name) if each.ops and id(each.ops[-1]) in nodes)


def named(pattern: str) -> Callable[[str], Iterator[Work]]:
    return lambda name: (each for each in work(name) if re.search(pattern, each.name))


@pytest.mark.parametrize(
    ("name", "rule", "expected"),
    [
        (TIMESFORMER, "unaligned_matmul", unaligned),
        (TIMESFORMER, "attention_not_fused", between_products),
        (OWLV2, "attention_not_fused", between_products),
        (TRANSFORMER, "attention_not_fused", between_products),
        (TRANSFORMER, "fp32_where_half_would_do", named("sgemm")),
        (TRANSFORMER, "softmax_far_dimension", named("SpatialSoftMax")),
        (RESNET50, "tf32_where_half_would_do", named("s1688|tf32f32")),
        (RESNET50, "layout_transposes", named("nchwToNhwc|nhwcToNchw")),
        (RESNET18, "layout_transposes", named("batched_transpose")),
        (QWEN, "elementwise_chains", chained),
        (QWEN, "copies_on_device", named("direct_copy|bfloat16_copy|CatArray|Memcpy DtoD")),
        (DLRM, "index_backward_sort", sorting),
    ],
)
def test_what_a_rule_finds(name: str, rule: str, expected: Callable[[str], Iterator[Work]]) -> None:
    rows = list(expected(name))
    assert rows
    (said,) = [each for each in find_advice(opened(name)) if each.rule == rule]
    assert (said.count, said.time_ns) == (len(rows), sum(each.dur for each in rows))
    assert 0 < said.gain_ns <= said.time_ns


def test_the_gain_of_half_precision_is_that_of_the_peaks() -> None:
    """The GPU bounds the step and the RTX 3090 is twice as fast in half precision as in FP32 (71 and 35.6 TFLOP/s)."""
    (said,) = [each for each in find_advice(opened(TRANSFORMER)) if each.rule == "fp32_where_half_would_do"]
    assert math.isclose(said.gain_ns, said.time_ns * (1 - 35.6 / 71), rel_tol=0.01)
