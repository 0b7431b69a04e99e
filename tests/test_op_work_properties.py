"""Work of random calls against plain Python, and shares of kernels against the sum: what must hold for any."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from math import prod
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.derive.op_work_cases import BF16, FP32, NONE, Arg, call, s, t
from tests.derive.tables import rows
from tests.trace_builder import TraceBuilder

SIZES = st.integers(1, 6)
SETTINGS = settings(max_examples=6, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
KERNELS = [
    "sm80_xmma_gemm_bf16bf16_bf16f32_f32_tn_n",
    "sm90_xmma_fprop_implicit_gemm_bf16",
    "elementwise",
    "splitKreduce",
]


@dataclass(frozen=True)
class Call:
    """A call with its FLOP and bytes by brute force."""

    name: str
    args: tuple[Arg, ...]
    matrix_flop: int
    nbytes: int


@st.composite
def products(draw: st.DrawFn) -> Call:
    batch, m, n, k = (draw(SIZES) for _ in range(4))
    kind, size = draw(st.sampled_from([(BF16, 2), (FP32, 4)]))
    flop = sum(2 for _ in product(range(batch), range(m), range(n), range(k)))
    moved = size * batch * (m * k + k * n + m * n)
    if batch == 1:
        return Call("aten::mm", (t(kind, m, k), t(kind, k, n)), flop, moved)
    return Call("aten::bmm", (t(kind, batch, m, k), t(kind, batch, k, n)), flop, moved)


def windows(size: int, kernel: int, stride: int, pad: int, dilation: int) -> list[list[int]]:
    """Where each window of a convolution reads along an axis: one that begins in the padding reads there, too."""
    last = size + 2 * pad - dilation * (kernel - 1)
    return [[begin + dilation * tap for tap in range(kernel)] for begin in range(0, last, stride)]


@st.composite
def convolutions(draw: st.DrawFn) -> Call:
    axes, groups = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    images, given_channels, made_channels = (
        draw(st.integers(1, 3)),
        groups * draw(st.integers(1, 2)),
        draw(st.integers(1, 2)),
    )
    is_transposed, is_backward = draw(st.booleans()), draw(st.booleans())
    each = [
        (draw(st.integers(5, 7)), draw(st.integers(1, 3)), draw(st.integers(1, 3)), draw(st.integers(0, 1)))
        for _ in range(axes)
    ]
    dilation = draw(st.integers(1, 2))
    sizes, kernels, strides, pads = ([axis[place] for axis in each] for place in range(4))
    if is_transposed:
        # The other way round: the output is what a convolution would read.
        made = [
            next(long for long in range(1, 100) if len(windows(long, kernel, stride, pad, dilation)) == size)
            for size, kernel, stride, pad in each
        ]
        weight = (given_channels, made_channels, *kernels)
        taps = prod(sizes) * prod(kernels)
        flop = 2 * images * given_channels * made_channels * taps
    else:
        reads = [windows(size, kernel, stride, pad, dilation) for size, kernel, stride, pad in each]
        made = [len(axis) for axis in reads]
        weight = (made_channels * groups, given_channels // groups, *kernels)
        taps = prod(sum(len(window) for window in axis) for axis in reads)
        flop = 2 * images * made_channels * groups * (given_channels // groups) * taps
    x = (images, given_channels, *sizes)
    y = (images, made_channels * groups, *made)
    values = s(strides), s(pads), s([dilation] * axes), s(is_transposed), s([0] * axes), s(groups)
    counts = prod(x), prod(weight), prod(y)
    if not is_backward:
        has_bias = draw(st.booleans())
        bias = t(FP32, y[1]) if has_bias else NONE
        moved = 4 * (sum(counts) + (y[1] if has_bias else 0))
        return Call("aten::convolution", (t(FP32, *x), t(FP32, *weight), bias, *values), flop, moved)
    mask = [draw(st.booleans()) for _ in range(3)]
    moved = 4 * (sum(counts) * (mask[0] + mask[1]) + (prod(y) + y[1] if mask[2] else 0))
    args = (t(FP32, *y), t(FP32, *x), t(FP32, *weight), s([y[1]]), *values, s(mask))
    return Call("aten::convolution_backward", args, flop * (mask[0] + mask[1]), moved)


@st.composite
def attentions(draw: st.DrawFn) -> Call:
    batch, kv_heads, shared, queries, keys, width, value_width = (draw(st.integers(1, 5)) for _ in range(7))
    heads = kv_heads * shared
    causal = draw(st.sampled_from([None, "first", "last"]))
    behind = keys - queries if causal == "last" else 0
    pairs = sum(1 for query in range(queries) for key in range(keys) if causal is None or key <= query + behind)
    sizes = [(batch, heads, queries, width), (batch, kv_heads, keys, width), (batch, kv_heads, keys, value_width)]
    moved = 4 * (sum(map(prod, sizes)) + batch * heads * queries * value_width)
    is_backward = draw(st.booleans())
    numbers = 3 * width + 2 * value_width if is_backward else width + value_width
    flop = 2 * batch * heads * pairs * numbers
    qkv = tuple(t(FP32, *size) for size in sizes)
    out = t(FP32, batch, heads, queries, value_width)
    flag = s(causal is not None)
    op = "flash" if causal == "last" else "efficient"
    other: dict[tuple[str, bool], tuple[Arg, ...]] = {
        ("flash", False): (s(0.0), flag),
        ("efficient", False): (NONE, s(False), s(0.0), flag),
        ("flash", True): (out, *[NONE] * 5, s(0.0), flag),
        ("efficient", True): (NONE, out, *[NONE] * 3, s(0.0), s(), flag),
    }
    arguments = (*qkv, *other[op, is_backward])
    name = f"aten::_scaled_dot_product_{op}_attention"
    if is_backward:
        return Call(f"{name}_backward", (out, *arguments), flop, 2 * moved)
    return Call(name, arguments, flop, moved)


def check(calls: list[Call]) -> None:
    builder = TraceBuilder()
    for at, each in enumerate(calls):
        call(builder, each.name, each.args, 10 * at, 10 * at + 5)
    with tempfile.TemporaryDirectory() as folder, builder.load(Path(folder)) as trace:
        found = rows(trace, "select matrix_flop, bytes from op_work order by event_id")
    assert found == [(each.matrix_flop, each.nbytes) for each in calls]


@SETTINGS
@given(st.lists(st.one_of(products(), convolutions(), attentions()), min_size=20, max_size=40))
def test_the_work_of_any_call_is_that_of_a_loop(calls: list[Call]) -> None:
    check(calls)


KINDS: list[Callable[[int], tuple[str, tuple[Arg, ...]]]] = [
    lambda size: ("aten::mm", (t(BF16, size, 7), t(BF16, 7, size))),
    lambda size: ("aten::mm", (t(BF16, 10**6 * size, 10**6), t(BF16, 10**6, 4))),
    lambda size: ("aten::add", (t(FP32, size, 3), t(FP32, size, 3), s(1))),
    lambda size: ("aten::mm", (t(BF16, 0, size), t(BF16, size, size))),
    lambda size: ("triton_tem_fused_mm_0", (t(BF16, size, 3),)),
]


@st.composite
def launching(draw: st.DrawFn) -> TraceBuilder:
    """Ops side by side and in each other on two threads, which launch any kernels, also of no duration."""
    builder = TraceBuilder()
    for thread in (1, 2):
        builder.on(thread)
        for place in range(draw(st.integers(1, 4))):
            start = 100 * place
            for depth in range(draw(st.integers(1, 2))):
                name, args = draw(st.sampled_from(KINDS))(draw(st.integers(1, 9)))
                call(builder, name, args, start + 10 * depth, start + 90 - 10 * depth)
            for _ in range(draw(st.integers(0, 5))):
                at = draw(st.integers(0, 500))
                builder.launches(
                    *(draw(st.sampled_from(KERNELS)), at, at + draw(st.integers(0, 9))),
                    at=start + draw(st.integers(10, 70)),
                    stream=draw(st.integers(7, 8)),
                )
    return builder


@SETTINGS
@given(launching())
def test_shares_are_exactly_the_whole(builder: TraceBuilder) -> None:
    columns = ("matrix_flop", "model_flop", "dense_flop", "vector_flop", "bytes")
    with tempfile.TemporaryDirectory() as folder, builder.load(Path(folder)) as trace:
        works = trace.sql("from op_work").to_dicts()
        claims = trace.sql("from op_claim").to_dicts()
        events = {row["event_id"]: row for row in trace.sql("from event").to_dicts()}
        launched = rows(trace, "select event_id from launch where op_id is not null")
    assert len({claim["event_id"] for claim in claims}) == len(claims)
    # Every launch is in an op with work.
    assert {claim["event_id"] for claim in claims} == {number for (number,) in launched}
    by_work = defaultdict(list)
    for claim in claims:
        by_work[claim["work_id"]].append(claim)
    outer = {work["event_id"]: work for work in works if work["is_outermost"]}
    assert set(by_work) <= set(outer)
    for number, shares in by_work.items():
        for column in columns:
            values = [share[column] for share in shares]
            assert outer[number][column] == (None if None in values else sum(values))
            assert None in values or min(values) >= 0
        spans = [(events[share["event_id"]]["start_ns"], events[share["event_id"]]["end_ns"]) for share in shares]
        busy = {at for start, end in spans for at in range(start // 1000, end // 1000)}
        assert sum(share["time_ns"] for share in shares) == 1000 * len(busy)
