"""What rules about kernels find in real traces, beside what plain loops over the JSON find in the same step."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from hotline_analysis.answers.limits import typical_step
from hotline_analysis.answers.rules import find_advice
from tests.real_traces import Event, file, gpu_events, ns, opened

pytestmark = pytest.mark.traces


RUNTIME = ("cuda_runtime", "cuda_driver")
TIMESFORMER = "verdicts/timesformer_h100.json.gz"
TRANSFORMER = "labelled/transformer/trace.json.gz"
RESNET50 = "labelled/resnet50/trace.json.gz"
QWEN = "verdicts/qwen_mi300.json.gz"
OWLV2 = "verdicts/owlv2_mi300.json.gz"
DLRM = "training/dlrm_v100_cudagraph.json.gz"
RESNET18 = "training/resnet18_ddp_checkpoint_mi300.json.gz"
DDP_V100 = "training/ddp_v100_memory.json.gz"
DDP_A100 = "training/ddp_a100_annotated.json.gz"

HOST_TOO = ("zero_grad_writes", "single_tensor_optimizer")


@dataclass(frozen=True)
class Work:
    """A kernel, copy or memset, the ops around its launch, innermost last, and where it ran."""

    name: str
    start: int
    dur: int
    stream: int
    ops: tuple[Event, ...]
    called: int

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


def span(event: Event) -> tuple[int, int]:
    return ns(event["ts"]), ns(event["dur"])


def mark(name: str) -> tuple[int, int]:
    """When the typical step begins and ends on the CPU."""
    typical = typical_step(opened(name))
    assert typical
    label = f"ProfilerStep#{typical.step}"
    events = file(name)["traceEvents"]
    (found,) = [each for each in events if (each.get("name"), each.get("cat")) == (label, "user_annotation")]
    start, dur = span(found)
    return start, start + dur


def inside(name: str, pattern: str) -> list[Event]:
    """Events of the CPU in the typical step whose name matches."""
    first, last = mark(name)
    return [
        event
        for event in file(name)["traceEvents"]
        if event.get("ph") == "X" and re.search(pattern, event["name"]) and "dur" in event
        and event.get("cat") in ("user_annotation", "cpu_op", *RUNTIME) and first <= ns(event["ts"]) < last
    ]  # fmt: skip


@functools.lru_cache(maxsize=1)
def work(name: str) -> list[Work]:
    """GPU work that the typical step launched, in order of its start."""
    events = file(name)["traceEvents"]
    first, last = mark(name)
    calls = [
        event
        for event in events
        if event.get("cat") in RUNTIME
        and event.get("args", {}).get("correlation", 0) > 0
        and first <= ns(event["ts"]) < last
    ]
    ops = around([event for event in events if event.get("cat") == "cpu_op" and event.get("ph") == "X"], calls)
    called = {event["args"]["correlation"]: ns(event["ts"]) for event in calls}
    found = [
        Work(event["name"], *span(event), event["args"]["stream"], ops[correlation], called[correlation])
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


def within(pattern: str, ops: str = "") -> Callable[[str], Iterator[Work]]:
    """Work launched while an annotation is open, by ops that match."""

    def found(name: str) -> Iterator[Work]:
        spans = [span(event) for event in inside(name, pattern)]
        for each in work(name):
            if any(start <= each.called < start + dur for start, dur in spans) and re.search(ops, each.op):
                yield each

    return found


def named(pattern: str) -> Callable[[str], Iterator[Work]]:
    return lambda name: (each for each in work(name) if re.search(pattern, each.name))


def reductions(name: str) -> Iterator[Work]:
    """Collectives of gradients, which take milliseconds; broadcasts of buffers have the same name and take 10 us."""
    return (each for each in named("^nccl|^rccl")(name) if each.dur > 1_000_000)


@pytest.mark.parametrize(
    ("name", "rule", "expected"),
    [
        (TIMESFORMER, "unaligned_matmul", unaligned),
        (TIMESFORMER, "attention_not_fused", between_products),
        (OWLV2, "attention_not_fused", between_products),
        (TRANSFORMER, "attention_not_fused", between_products),
        (TRANSFORMER, "fp32_where_half_would_do", named("sgemm")),
        (TRANSFORMER, "softmax_far_dimension", named("SpatialSoftMax")),
        (RESNET50, "tf32_where_half_would_do", named("s1688|tf32f32|tfloat32_t")),
        (RESNET50, "layout_transposes", named("nchwToNhwc|nhwcToNchw")),
        (RESNET18, "layout_transposes", named("batched_transpose")),
        (QWEN, "elementwise_chains", chained),
        (QWEN, "copies_on_device", named("direct_copy|bfloat16_copy|CatArray|Memcpy DtoD")),
        (DLRM, "index_backward_sort", sorting),
        (DLRM, "exposed_collectives", named("^ncclKernel_SendRecv")),
        (RESNET18, "exposed_communication", reductions),
        (DDP_V100, "zero_grad_writes", within(r"^Optimizer\.zero_grad#")),
        (DDP_V100, "single_tensor_optimizer", within(r"^Optimizer\.step#", "(add|mul|div|addcmul|addcdiv|sqrt)_?$")),
        (TRANSFORMER, "single_tensor_optimizer", within(r"^Optimizer\.step#", "(add|mul|div|addcmul|addcdiv|sqrt)_?$")),
    ],
)
def test_what_a_rule_finds(name: str, rule: str, expected: Callable[[str], Iterator[Work]]) -> None:
    rows = list(expected(name))
    assert rows
    (said,) = find_advice(opened(name), rules=(rule,))
    assert (said.count, said.time_ns) == (len(rows), sum(each.dur for each in rows))
    # without the optimizer's or zero_grad's work, the CPU has nothing to do there either
    first, last = mark(name)
    assert 0 < said.gain_ns <= (last - first if rule in HOST_TOO else said.time_ns)


def test_the_gain_of_half_precision_is_that_of_the_peaks() -> None:
    """The GPU bounds the step and the RTX 3090 is twice as fast in half precision as in FP32 (71 and 35.6 TFLOP/s)."""
    (said,) = find_advice(opened(TRANSFORMER), rules=("fp32_where_half_would_do",))
    assert math.isclose(said.gain_ns, said.time_ns * (1 - 35.6 / 71), rel_tol=0.01)


def last_launch(name: str) -> int:
    events = file(name)["traceEvents"]
    return max(ns(event["ts"]) for event in events if event.get("cat") in RUNTIME and "aunch" in event["name"])


@pytest.mark.parametrize(
    ("name", "rule", "pattern"),
    [
        (OWLV2, "loader_in_main_process", r"^enumerate\(DataLoader\)#_SingleProcessDataLoaderIter"),
        (QWEN, "explicit_synchronise", "^hipDeviceSynchronize$"),
    ],
)
def test_what_a_rule_finds_on_the_cpu(name: str, rule: str, pattern: str) -> None:
    rows = inside(name, pattern)
    if rule == "explicit_synchronise":
        rows = [event for event in rows if ns(event["ts"]) < last_launch(name)]
    assert rows
    (said,) = find_advice(opened(name), rules=(rule,))
    assert said.count == len(rows)
    # an annotation that crosses the frames around it is cut to fit
    assert said.time_ns == pytest.approx(sum(ns(event["dur"]) for event in rows), rel=0.002)
    assert 0 < said.gain_ns <= said.time_ns


def test_buffers_are_sent_from_the_start_of_forward_to_the_first_op_of_the_model() -> None:
    (said,) = find_advice(opened(DDP_A100), rules=("broadcast_buffers",))
    (forward,) = inside(DDP_A100, r"^DistributedDataParallel\.forward$")
    first = min(ns(event["ts"]) for event in inside(DDP_A100, "^aten::conv2d$"))
    assert said.count == 1
    assert said.time_ns == pytest.approx(first - ns(forward["ts"]), rel=0.02)


# Rules whose remedy cannot be had: kinds of advice that were wrong on some of these traces before.
@pytest.mark.parametrize(
    ("name", "rules"),
    [
        (QWEN, ("fp32_where_half_would_do", "tf32_where_half_would_do")),
        (TRANSFORMER, ("tf32_where_half_would_do", "pageable_copies")),
        ("verdicts/sd35_compiled_mi300.json.gz", ("host_bound_launching",)),
        (TIMESFORMER, ("loader_in_main_process", "loader_too_few_workers")),
        (DLRM, ("tf32_where_half_would_do",)),
        ("robustness/cpu_only.json.gz", ("cpu_tensors", "host_bound_launching", "pageable_copies")),
        ("verdicts/sglang_graph_capture_mi300.json.gz", ("host_bound_launching", "compiled_without_graphs")),
    ],
)
def test_no_advice_that_cannot_apply(name: str, rules: tuple[str, ...]) -> None:
    assert find_advice(opened(name), rules=rules) == []
