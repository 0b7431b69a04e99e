"""Calls of ops with FLOP and bytes, each worked out by hand."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import Any

from tests.trace_builder import TraceBuilder

BF16, FP16, FP32, FP64 = "c10::BFloat16", "c10::Half", "float", "double"
INT64, INT32, INT8, BOOL = "long int", "int", "signed char", "bool"
FP8, FP4 = "c10::Float8_e4m3fn", "c10::Float4_e2m1fn_x2"


@dataclass(frozen=True)
class Arg:
    """An argument of an op as the profiler writes it."""

    kind: str
    dims: Any
    strides: Any
    value: str = ""


def t(kind: str, *dims: Any, strides: list[int] | None = None) -> Arg:
    """A tensor, contiguous if no strides are given."""
    contiguous = [prod(dims[place + 1 :]) for place in range(len(dims))]
    return Arg(kind, list(dims), contiguous if strides is None else strides)


def s(value: object = "") -> Arg:
    """A number, or a list of them."""
    return Arg("ScalarList" if isinstance(value, list) else "Scalar", [], [], str(value))


def tensors(*shapes: list[int]) -> Arg:
    """A list of tensors: the profiler writes no type of theirs."""
    return Arg("TensorList", [list(shape) for shape in shapes], [[] for _ in shapes])


NONE = Arg("", [], [])
NUMBER = Arg(FP64, [], [])  # a Python number, where a tensor may stand


def call(builder: TraceBuilder, name: str, args: tuple[Arg, ...], start: int, end: int, **other: Any) -> TraceBuilder:
    """Add a call of an op with its shapes."""
    recorded = {
        "Input Dims": [arg.dims for arg in args],
        "Input type": [arg.kind for arg in args],
        "Input Strides": [arg.strides for arg in args],
        "Concrete Inputs": [arg.value for arg in args],
    }
    return builder.op(name, start, end, **{**recorded, **other})


@dataclass(frozen=True)
class Case:
    """A call and its work: FLOP of matrix products, other FLOP, bytes; and other columns if they matter."""

    name: str
    args: tuple[Arg, ...]
    work: tuple[int | None, int | None, int | None] | None
    more: dict[str, Any] = field(default_factory=dict)
    recorded: dict[str, Any] = field(default_factory=dict)


def case(name: str, args: tuple[Arg, ...], *work: int | None, **more: Any) -> Case:
    """A case; without work it has no row."""
    assert len(work) in (0, 3)
    recorded = {key: more.pop(key) for key in list(more) if key.startswith(("Input", "Concrete", "kernel_"))}
    return Case(name, args, work if len(work) == 3 else None, more, recorded)


def conv(
    stride: object = [1, 1],
    pad: object = [0, 0],
    dilation: object = [1, 1],
    transposed: bool = False,
    output_padding: object = [0, 0],
    groups: int = 1,
) -> tuple[Arg, ...]:
    return s(stride), s(pad), s(dilation), s(transposed), s(output_padding), s(groups)


UNKNOWN = {"Concrete Inputs": ["", "", "", "", "", "", "", "", ""]}
PRODUCTS = [
    case("aten::mm", (t(BF16, 3, 5), t(BF16, 5, 7)), 2 * 3 * 5 * 7, 0, 2 * (15 + 35 + 21), m=3, n=7, k=5, batch=1),
    # One row for all: read once, multiplied three times.
    case("aten::mm", (t(FP32, 3, 5, strides=[0, 1]), t(FP32, 5, 7)), 210, 0, 4 * (5 + 35 + 21)),
    case("aten::mm", (t(BF16, 3, 5), t(BF16, 5, 7), s(6)), 210, 0, 2 * (15 + 35) + 4 * 21),
    # The overload with a type for the result: here FP32, and C counts by `beta` behind it.
    case(
        "aten::addmm",
        (t(BF16, 7), t(BF16, 3, 5), t(BF16, 5, 7), s(6), s(0), s(1)),
        *(210, 0, 2 * (15 + 35) + 4 * 21),
    ),
    case(
        "aten::baddbmm",
        (t(BF16, 2, 3, 7), t(BF16, 2, 3, 5), t(BF16, 2, 5, 7), s(6), s(1), s(1)),
        *(420, 42, 2 * (42 + 30 + 70) + 4 * 42),
    ),
    case("aten::_int_mm", (t(INT8, 3, 5), t(INT8, 5, 7)), 210, 0, 15 + 35 + 4 * 21, dtype="int8"),
    case("aten::addmm", (t(FP16, 7), t(FP16, 3, 5), t(FP16, 5, 7), s(1), s(1)), 210, 21, 2 * (7 + 15 + 35 + 21)),
    case("aten::addmm", (t(FP16, 3, 7), t(FP16, 3, 5), t(FP16, 5, 7), s(1), s(1)), 210, 21, 2 * (21 + 15 + 35 + 21)),
    case("aten::addmm", (t(FP16, 3, 7), t(FP16, 3, 5), t(FP16, 5, 7), s(0), s(1)), 210, 0, 2 * (15 + 35 + 21)),
    case("aten::addmm", (t(FP16, 7), t(FP16, 3, 5), t(FP16, 5, 7), s("0."), s(1)), 210, 0, 2 * (15 + 35 + 21)),
    case("aten::addmm_", (t(FP16, 3, 7), t(FP16, 3, 5), t(FP16, 5, 7), s(1), s(1)), 210, 21, 2 * (21 + 15 + 35 + 21)),
    case("aten::bmm", (t(FP32, 2, 3, 5), t(FP32, 2, 5, 7)), 420, 0, 4 * (30 + 70 + 42), batch=2, m=3, n=7, k=5),
    # The second matrix is the same for both products of the batch.
    case("aten::bmm", (t(FP32, 2, 3, 5), t(FP32, 2, 5, 7, strides=[0, 7, 1])), 420, 0, 4 * (30 + 35 + 42)),
    case("aten::baddbmm", (t(FP32, 2, 3, 7), t(FP32, 2, 3, 5), t(FP32, 2, 5, 7), s(1), s(1)), 420, 42, 4 * 184),
    case("aten::baddbmm", (t(FP32, 2, 3, 7), t(FP32, 2, 3, 5), t(FP32, 2, 5, 7), s(0), s(1)), 420, 0, 4 * 142),
    case("aten::baddbmm", (t(FP32, 1, 7), t(FP32, 2, 3, 5), t(FP32, 2, 5, 7), s(1), s(1)), 420, 42, 4 * (7 + 142)),
    # The products of the batch are summed up to one matrix.
    case("aten::addbmm", (t(FP32, 3, 7), t(FP32, 2, 3, 5), t(FP32, 2, 5, 7), s(1), s(1)), 420, 21, 4 * (21 + 100 + 21)),
    case("aten::mv", (t(FP32, 3, 5), t(FP32, 5)), 30, 0, 4 * (15 + 5 + 3), m=3, n=1, k=5),
    case("aten::addmv", (t(FP32, 3), t(FP32, 3, 5), t(FP32, 5), s(1), s(1)), 30, 3, 4 * (3 + 15 + 5 + 3)),
    case("aten::dot", (t(FP32, 5), t(FP32, 5)), 10, 0, 4 * (5 + 5 + 1), m=1, n=1, k=5),
    case(
        "aten::_scaled_mm",
        (t(FP8, 16, 32), t(FP8, 32, 48), t(FP32), t(FP32), t(BF16, 48), NONE, s(15), s(True)),
        *(2 * 16 * 32 * 48, 16 * 48, 16 * 32 + 32 * 48 + 2 * 16 * 48 + 2 * 4 + 2 * 48),
        dtype="fp8",
    ),
    # Without a type for the result it is that of the operands.
    case(
        "aten::_scaled_mm",
        (t(FP8, 16, 32), t(FP8, 32, 48), t(FP32, 16, 1), t(FP32, 1, 48), NONE, NONE, NONE, s(False)),
        *(2 * 16 * 32 * 48, 0, 16 * 32 + 32 * 48 + 16 * 48 + 4 * (16 + 48)),
    ),
    # Two values in each element: K is 64.
    case(
        "aten::_scaled_mm",
        (t(FP4, 16, 32), t(FP4, 32, 48), t(FP8, 512), t(FP8, 512), NONE, NONE, s(15), s(False)),
        *(2 * 16 * 64 * 48, 0, 16 * 32 + 32 * 48 + 512 + 512 + 2 * 16 * 48),
        k=64,
        dtype="fp4",
    ),
    # 100 rows, each in one of 4 groups.
    case(
        "aten::_grouped_mm",
        (t(BF16, 100, 8), t(BF16, 4, 8, 16), t(INT32, 4), NONE, NONE),
        *(2 * 100 * 8 * 16, 0, 2 * (100 * 8 + 4 * 8 * 16 + 100 * 16)),
        evidence="bound",
    ),
    case(
        "aten::_grouped_mm",
        (t(BF16, 4, 100, 8), t(BF16, 4, 8, 16), NONE, NONE, NONE),
        *(2 * 4 * 100 * 8 * 16, 0, 2 * 4 * (100 * 8 + 8 * 16 + 100 * 16)),
        evidence="shapes",
    ),
    # Gradient of the weights: 100 rows in all are summed over, to one matrix for each of the 4 groups.
    case(
        "aten::_grouped_mm",
        (t(BF16, 8, 100), t(BF16, 100, 16), t(INT32, 4), NONE, NONE),
        *(2 * 100 * 8 * 16, 0, 2 * (8 * 100 + 100 * 16 + 4 * 8 * 16)),
        evidence="shapes",
    ),
    case(
        "aten::_scaled_grouped_mm",
        (t(FP8, 100, 8), t(FP8, 4, 8, 16), t(FP32, 100), t(FP32, 4, 16), t(INT32, 4), NONE, NONE, s(15), s(False)),
        *(2 * 100 * 8 * 16, 0, 100 * 8 + 4 * 8 * 16 + 4 * (100 + 64) + 2 * 100 * 16),
    ),
    case("aten::mkldnn_linear", (t(FP32, 2, 3, 5), t(FP32, 7, 5), t(FP32, 7)), 420, 42, 4 * (30 + 35 + 7 + 42)),
    case("aten::mm", (t(BF16, 0, 5), t(BF16, 5, 7)), 0, 0, 2 * 35),
    # No product at all.
    case("aten::mm", (t(BF16, 3, 5), t(BF16, 6, 7))),
    case("aten::bmm", (t(BF16, 2, 3, 5), t(BF16, 3, 5, 7))),
    case("aten::mm", (t(BF16, 3, 5),)),
    case("aten::linear", (t(BF16, 3, 5), t(BF16, 7, 5), NONE)),
    # An unknown type: what it computes is known, and not what it moves.
    case("aten::mm", (t("c10::Float2", 3, 5), t("c10::Float2", 5, 7)), 210, 0, None, dtype=None),
]
CONVOLUTIONS = [
    # 32x32 with a kernel of 3, stride 2 and padding 1 gives 16x16.
    case(
        "aten::convolution",
        (t(FP32, 2, 3, 32, 32), t(FP32, 8, 3, 3, 3), t(FP32, 8), *conv([2, 2], [1, 1])),
        *(2 * (2 * 8 * 16 * 16) * 27, 2 * 8 * 256, 4 * (2 * 3 * 1024 + 8 * 27 + 2 * 8 * 256 + 8)),
        batch=2,
    ),
    # A list of one stands for all axes.
    case(
        "aten::convolution",
        (t(FP32, 2, 3, 32, 32), t(FP32, 8, 3, 3, 3), NONE, *conv([2], [1], [1], output_padding=[0])),
        *(2 * (2 * 8 * 16 * 16) * 27, 0, 4 * (2 * 3 * 1024 + 8 * 27 + 2 * 8 * 256)),
    ),
    # Depthwise: one input channel for each output channel. Dilation 2 makes the kernel 5 long: 32 - 4 = 28.
    case(
        "aten::convolution",
        (t(BF16, 1, 8, 32, 32), t(BF16, 8, 1, 3, 3), NONE, *conv(dilation=[2, 2], groups=8)),
        *(2 * (8 * 28 * 28) * 9, 0, 2 * (8 * 1024 + 72 + 8 * 784)),
    ),
    # One axis: 100 with a kernel of 5 and stride 3 gives (100 - 5) // 3 + 1 = 32.
    case(
        "aten::convolution",
        (t(FP16, 4, 6, 100), t(FP16, 10, 3, 5), NONE, *conv([3], [0], [1], output_padding=[0], groups=2)),
        *(2 * (4 * 10 * 32) * 15, 0, 2 * (2400 + 150 + 1280)),
    ),
    # Three axes that differ in everything: 4 + 2 - 2 = 4; (9 - 1 - 1) // 2 + 1 = 4; (16 + 4 - 4 - 1) // 3 + 1 = 6.
    case(
        "aten::convolution",
        (
            t(FP32, 1, 2, 4, 9, 16),
            t(FP32, 5, 2, 3, 2, 3),
            t(FP32, 5),
            *conv([1, 2, 3], [1, 0, 2], [1, 1, 2], output_padding=[0, 0, 0]),
        ),
        *(2 * (5 * 4 * 4 * 6) * 36, 5 * 96, 4 * (2 * 576 + 5 * 36 + 5 * 96 + 5)),
    ),
    # Transposed: (8 - 1) * 2 - 2 + 2 + 1 + 1 = 16. 6 channels in 2 groups become 4 for each group, so 8.
    case(
        "aten::convolution",
        (
            t(FP32, 2, 6, 8, 8),
            t(FP32, 6, 4, 3, 3),
            t(FP32, 8),
            *conv([2, 2], [1, 1], transposed=True, output_padding=[1, 1], groups=2),
        ),
        *(2 * (2 * 6 * 64) * 36, 2 * 8 * 256, 4 * (2 * 6 * 64 + 6 * 36 + 2 * 8 * 256 + 8)),
    ),
    # In the ops of the libraries, the padding stands before the stride.
    case(
        "aten::cudnn_convolution",
        (
            t(FP32, 2, 3, 32, 32),
            t(FP32, 8, 3, 3, 3),
            s([1, 1]),
            s([2, 2]),
            s([1, 1]),
            s(1),
            s(False),
            s(False),
            s(True),
        ),
        *(2 * (2 * 8 * 16 * 16) * 27, 0, 4 * (2 * 3 * 1024 + 8 * 27 + 2 * 8 * 256)),
    ),
    case(
        "aten::cudnn_convolution_transpose",
        (t(FP32, 2, 6, 8, 8), t(FP32, 6, 4, 3, 3), s([1, 1]), s([1, 1]), s([2, 2]), s([1, 1]), s(2)),
        *(2 * (2 * 6 * 64) * 36, 0, 4 * (2 * 6 * 64 + 6 * 36 + 2 * 8 * 256)),
    ),
    case(
        "aten::cudnn_convolution_add_relu",
        (
            *(t(FP32, 2, 3, 32, 32), t(FP32, 8, 3, 3, 3), t(FP32, 2, 8, 16, 16), s(1), t(FP32, 8)),
            *(s([2, 2]), s([1, 1]), s([1, 1]), s(1)),
        ),
        *(2 * 4096 * 27, 3 * 4096, 4 * (6144 + 216 + 4096 + 8 + 4096)),
    ),
    # The strides are not recorded: the size of the result is unknown.
    case("aten::convolution", (t(FP32, 2, 3, 32, 32), t(FP32, 8, 3, 3, 3), t(FP32, 8), *conv()), **UNKNOWN),
    case("aten::convolution", (t(FP32, 2, 3, 32, 32), t(FP32, 8, 3, 3, 3)), **{"Concrete Inputs": None}),
    # The kernel does not fit.
    case("aten::convolution", (t(FP32, 2, 3, 2, 2), t(FP32, 8, 3, 3, 3), NONE, *conv())),
    case("aten::convolution", (t(FP32, 2, 3, 32, 32), t(FP32, 8, 3, 3, 3), NONE, *conv([0, 0]))),
]


def backward_of_conv(mask: str, *rest: Arg, transposed: bool = False, groups: int = 1) -> tuple[Arg, ...]:
    return (*rest, s([8]), *conv([2, 2], [1, 1], transposed=transposed, groups=groups), s(mask))


FORWARD = 2 * 4096 * 27  # of the first convolution above
GRADIENT = t(FP32, 2, 8, 16, 16), t(FP32, 2, 3, 32, 32), t(FP32, 8, 3, 3, 3)
BACKWARD = [
    case(
        "aten::convolution_backward",
        backward_of_conv("[True, True, True]", *GRADIENT),
        *(2 * FORWARD, 4096, 4 * (2 * (4096 + 6144 + 216) + 4096 + 8)),
    ),
    case(
        "aten::convolution_backward",
        backward_of_conv("[False, True, False]", *GRADIENT),
        *(FORWARD, 0, 4 * (4096 + 6144 + 216)),
    ),
    case(
        "aten::convolution_backward",
        backward_of_conv("[False, False, True]", *GRADIENT),
        *(0, 4096, 4 * (4096 + 8)),
    ),
    # Transposed, in groups: each of the 2 * 6 * 64 inputs goes to 36 outputs.
    case(
        "aten::convolution_backward",
        backward_of_conv(
            "[True, True, False]",
            *(t(FP32, 2, 8, 15, 15), t(FP32, 2, 6, 8, 8), t(FP32, 6, 4, 3, 3)),
            transposed=True,
            groups=2,
        ),
        *(2 * 2 * (2 * 6 * 64) * 36, 0, 4 * 2 * (2 * 8 * 225 + 768 + 216)),
    ),
    # Grouped: 64 channels in 32 groups of 2 channels; of each output, 18 weights.
    case(
        "aten::convolution_backward",
        (
            *(t(FP32, 1, 64, 16, 16), t(FP32, 1, 64, 16, 16), t(FP32, 64, 2, 3, 3), NONE),
            *(*conv(pad=[1, 1], groups=32), s("[True, True, False]")),
        ),
        *(2 * 2 * 64 * 256 * 18, 0, 4 * 2 * (64 * 256 * 2 + 64 * 18)),
    ),
    case("aten::convolution_backward", backward_of_conv("[]", *GRADIENT), **UNKNOWN),
]
Q, K, V = t(BF16, 2, 8, 10, 64), t(BF16, 2, 4, 30, 64), t(BF16, 2, 4, 30, 32)  # 8 heads, of which two share a key
MOVED = 2 * (2 * 8 * 10 * 64 + 2 * 4 * 30 * 64 + 2 * 4 * 30 * 32 + 2 * 8 * 10 * 32)
WIDE, TALL = t(FP32, 1, 2, 4, 8), t(FP32, 1, 2, 6, 8)


def products(pairs: int, width: int, heads: int = 2) -> int:
    """FLOP of products that multiply each pair of a query and a key, of all heads, with so many numbers."""
    return 2 * heads * pairs * width


# Six queries and four keys. From the first on, each sees one more: 1 + 2 + 3 + 4 + 4 + 4 = 18; four and six: 10. With
# the last one at the last key: 0 + 0 + 1 + 2 + 3 + 4 = 10; four and six: 3 + 4 + 5 + 6 = 18.
ATTENTION = [
    case(
        "aten::_scaled_dot_product_flash_attention",
        (Q, K, V, s(0.0), s(False), s(False), NONE),
        *(2 * 16 * 300 * 96, 5 * 16 * 300, MOVED),
        **{"dense_flop": 2 * 16 * 300 * 96, "batch": 16, "m": 10, "n": 30, "k": 64, "evidence": "shapes"},
    ),
    # The overload with scales of each operand.
    case(
        "aten::_scaled_dot_product_flash_attention",
        (TALL, TALL, TALL, *[t(FP32, 1, 2)] * 3, s(0.0), s(True), s(False), NONE),
        *(products(21, 16), 5 * 2 * 21, 4 * 4 * 2 * 6 * 8),
        dense_flop=products(36, 16),
    ),
    *(
        case(
            name,
            (TALL, TALL, TALL, *other),
            *(products(21, 16), 5 * 2 * 21, 4 * 4 * 2 * 6 * 8),
            dense_flop=products(36, 16),
            model_flop=products(21, 16),
        )
        for name, other in {
            "aten::_scaled_dot_product_flash_attention": (s(0.0), s(True), s(False), NONE),
            "aten::_scaled_dot_product_efficient_attention": (NONE, s(False), s(0.0), s(True), NONE),
            "aten::_scaled_dot_product_cudnn_attention": (NONE, s(False), s(0.0), s(True), s(False), NONE),
            "aten::_scaled_dot_product_flash_attention_for_cpu": (s(0.0), s(True), NONE, NONE),
            "aten::_scaled_dot_product_fused_attention_overrideable": (NONE, s(0.0), s(True), s(False), NONE),
        }.items()
    ),
    *(
        case(name, (q, k, k, *other), products(pairs, 16), 5 * 2 * pairs, moved, dense_flop=products(24, 16))
        for moved in (4 * 2 * (2 * 6 + 2 * 4) * 8,)
        for name, other, q, k, pairs in (
            ("aten::_scaled_dot_product_efficient_attention", (NONE, s(0), s(0.0), s(True)), TALL, WIDE, 18),
            ("aten::_scaled_dot_product_efficient_attention", (NONE, s(0), s(0.0), s(True)), WIDE, TALL, 10),
            ("aten::_scaled_dot_product_flash_attention_for_cpu", (s(0.0), s(True)), TALL, WIDE, 18),
            ("aten::_scaled_dot_product_flash_attention", (s(0.0), s(True)), TALL, WIDE, 10),
            ("aten::_scaled_dot_product_flash_attention", (s(0.0), s(True)), WIDE, TALL, 18),
        )
    ),
    # A mask that is the same for all heads is read once.
    case(
        "aten::_scaled_dot_product_efficient_attention",
        (TALL, TALL, TALL, t(FP32, 1, 2, 6, 6, strides=[36, 0, 6, 1]), s(False), s(0.0), s(False), NONE),
        *(products(36, 16), 5 * 72, 4 * (4 * 96 + 36)),
    ),
    # Keys and values that two heads share as an expanded tensor.
    case(
        "aten::_scaled_dot_product_flash_attention",
        (TALL, *[t(FP32, 1, 2, 6, 8, strides=[48, 0, 8, 1])] * 2, s(0.0), s(False)),
        *(products(36, 16), 5 * 72, 4 * (96 + 48 + 48 + 96)),
    ),
    # The heads stand behind the tokens.
    case(
        "aten::_flash_attention_forward",
        (*[t(FP16, 1, 6, 2, 8)] * 3, NONE, NONE, s(6), s(6), s(0.0), s(True), s(False)),
        *(products(21, 16), 5 * 42, 2 * 4 * 96),
        dense_flop=products(36, 16),
    ),
    case(
        "flash_attn::_flash_attn_forward",
        (t(FP16, 1, 4, 2, 8), *[t(FP16, 1, 6, 2, 8)] * 2, s(0.0), s(1.0), s(True)),
        *(products(18, 16), 5 * 36, 2 * (2 * 64 + 2 * 96)),
        dense_flop=products(24, 16),
    ),
    # 100 tokens of sequences that are data: each sees at most the 20 of the longest one.
    case(
        "aten::_flash_attention_forward",
        (*[t(FP16, 100, 2, 8)] * 3, t(INT32, 9), t(INT32, 9), s(20), s(20), s(0.0), s(True), s(False)),
        *(products(2000, 16), 5 * 4000, 2 * 4 * 1600),
        evidence="bound",
        m=20,
        n=20,
        batch=2,
    ),
    case(
        "aten::_efficient_attention_forward",
        (*[t(FP16, 1, 100, 2, 8)] * 3, NONE, t(INT32, 9), t(INT32, 9), s(20), s(20), s(0.0), s(1)),
        *(products(2000, 16), 5 * 4000, 2 * 4 * 1600),
        evidence="bound",
    ),
    # The kind of mask is a number: none, causal from the first, or from the last one.
    *(
        case(
            "aten::_efficient_attention_forward",
            (t(FP32, 1, 4, 2, 8), *[t(FP32, 1, 6, 2, 8)] * 2, NONE, NONE, NONE, NONE, NONE, s(0.0), s(kind)),
            *(products(pairs, 16), 10 * pairs, 4 * 2 * (2 * 4 + 2 * 6) * 8),
            evidence="shapes",
            dense_flop=products(24, 16),
        )
        for kind, pairs in ((0, 24), (1, 10), (2, 18))
    ),
    # Five products, of which one was made before: 2 * 8 + 2 * 8 numbers for each pair, and 8 more.
    *(
        case(
            name,
            (TALL, TALL, TALL, TALL, *other),
            *(products(21, 40), 4 * 42, 4 * 8 * 96),
            model_flop=products(21, 32),
            dense_flop=products(36, 32),
        )
        for name, other in {
            "aten::_scaled_dot_product_flash_attention_backward": (
                *(TALL, t(FP32, 1, 2, 6), NONE, NONE, s(6), s(6), s(0.0), s(True)),
            ),
            "aten::_scaled_dot_product_efficient_attention_backward": (
                *(NONE, TALL, t(FP32, 1, 2, 6), t(INT64), t(INT64), s(0.0), s("[True, True, True, False]"), s(True)),
            ),
            "aten::_scaled_dot_product_cudnn_attention_backward": (
                *(TALL, t(FP32, 1, 2, 6), t(INT64), t(INT64), NONE, NONE, NONE, s(6), s(6), s(0.0), s(True)),
            ),
            "aten::_scaled_dot_product_flash_attention_for_cpu_backward": (TALL, t(FP32, 1, 2, 6), s(0.0), s(True)),
        }.items()
    ),
    # Values of another width: (2 + 1) * 64 + 2 * 32 numbers.
    case(
        "aten::_scaled_dot_product_efficient_attention_backward",
        (
            t(BF16, 2, 8, 10, 32),
            Q,
            K,
            V,
            NONE,
            t(BF16, 2, 8, 10, 32),
            t(FP32, 2, 8, 32),
            NONE,
            NONE,
            s(0.0),
            s(),
            s(False),
        ),
        *(2 * 16 * 300 * 256, 4 * 16 * 300, 2 * MOVED),
        model_flop=2 * 16 * 300 * 192,
    ),
    # Not recorded: at most all pairs.
    case(
        "aten::_scaled_dot_product_flash_attention",
        (TALL, TALL, TALL),
        *(products(36, 16), 360, 4 * 4 * 96),
        evidence="bound",
        **{"Concrete Inputs": None},
    ),
    case("aten::scaled_dot_product_attention", (TALL, TALL, TALL, NONE, s(0.0), s(True), NONE, s(False))),
    case("aten::_scaled_dot_product_flash_attention", (TALL, TALL, t(FP32, 6, 8), s(0.0), s(True))),
]
ROW = t(BF16, 4, 8)
ROWS = [
    case("aten::native_layer_norm", (ROW, s([8]), t(BF16, 8), t(BF16, 8), s(1e-5)), 0, 5 * 32, 2 * (64 + 16)),
    # One row is as long as the weights, which are read all the same.
    case("aten::native_layer_norm", (t(BF16, 1, 8), s([8]), t(BF16, 8), t(BF16, 8), s(1e-5)), 0, 40, 2 * (16 + 16)),
    case("aten::native_layer_norm", (ROW, s([8]), NONE, NONE, s(1e-5)), 0, 5 * 32, 2 * 64),
    case(
        "aten::native_layer_norm_backward",
        (ROW, ROW, s([8]), t(FP32, 4, 1), t(FP32, 4, 1), t(BF16, 8), t(BF16, 8), s("[True, True, True]")),
        *(0, 8 * 32, 2 * (3 * 32 + 16) + 4 * 8),
    ),
    case("aten::_fused_rms_norm", (ROW, s([8]), t(BF16, 8), s(1e-5)), 0, 4 * 32, 2 * (64 + 8)),
    *(
        case(
            "aten::native_batch_norm",
            (t(FP32, 2, 3, 4, 4), *[t(FP32, 3)] * 4, s(training), s(0.1), s(1e-5)),
            *(0, steps * 96, 4 * (2 * 96 + 12)),
        )
        for training, steps in ((True, 5), (False, 2))
    ),
    # The overload without running statistics.
    case(
        "aten::_native_batch_norm_legit",
        (t(FP32, 2, 3, 4, 4), *[t(FP32, 3)] * 2, s(True), s(0.1), s(1e-5)),
        *(0, 5 * 96, 4 * (2 * 96 + 6)),
    ),
    case(
        "aten::cudnn_batch_norm_backward",
        (*[t(FP32, 2, 3, 4, 4)] * 2, *[t(FP32, 3)] * 5, s(1e-5), t("unsigned char", 10)),
        *(0, 8 * 96, 4 * (3 * 96 + 15) + 10),
    ),
    case("aten::_softmax", (ROW, s(-1), s(False)), 0, 5 * 32, 2 * 2 * 32),
    # Half in, float out.
    case("aten::_softmax", (ROW, s(-1), s(True)), 0, 5 * 32, (2 + 4) * 32),
    case("aten::_log_softmax", (t(FP32, 4, 8), s(1), s(False)), 0, 5 * 32, 2 * 4 * 32),
    case("aten::_softmax_backward_data", (ROW, ROW, s(-1), s(15)), 0, 4 * 32, 3 * 2 * 32),
    case("aten::_softmax_backward_data", (*[t(FP32, 4, 8)] * 2, s(-1), s(15)), 0, 4 * 32, (4 + 4 + 2) * 32),
]
CUBE = t(FP32, 4, 5, 6)
REDUCTIONS = [
    case("aten::sum", (CUBE, s([1]), s(False), NONE), 0, 120, 4 * (120 + 24), m=120, n=24),
    # Kept or not, an axis of 1 is no more elements.
    case("aten::sum", (CUBE, s([1]), s(True), NONE), 0, 120, 4 * (120 + 24)),
    case("aten::mean", (CUBE, s([-1]), s(True), NONE), 0, 120, 4 * (120 + 20)),
    case("aten::mean", (CUBE, s([0, -1]), s(False), NONE), 0, 120, 4 * (120 + 5)),
    case("aten::sum", (CUBE, s([]), s(False), NONE), 0, 120, 4 * (120 + 1)),
    case("aten::sum", (CUBE, NONE), 0, 120, 4 * (120 + 1)),
    case("aten::sum", (CUBE, s([0]), s(False), s(7)), 0, 120, 4 * 120 + 8 * 30),
    case("aten::sum", (t(BOOL, 4, 5), s([0]), s(False), NONE), 0, 20, 20 + 8 * 5),
    case("aten::sum", (t(FP32, 4, 5, strides=[0, 1]), s([0]), s(False), NONE), 0, 20, 4 * (5 + 5)),
    case("aten::amax", (CUBE, s([2]), s(False)), 0, 120, 4 * (120 + 20)),
    case("aten::var", (CUBE, s([0, 1]), s(1), s(False)), 0, 120, 4 * (120 + 6)),
    case("aten::linalg_vector_norm", (CUBE, s(2), NONE, s(False), NONE), 0, 120, 4 * 121, n=1),
    case("aten::all", (t(BOOL, 4, 5),), 0, 20, 20 + 1),
    case("aten::any", (t(BOOL, 4, 5), s(1), s(False)), 0, 20, 20 + 4),
    case("aten::argmax", (CUBE, s(1), s(False)), 0, 120, 4 * 120 + 8 * 24),
    case("aten::argmax", (CUBE, NONE, s(False)), 0, 120, 4 * 120 + 8),
    case("aten::count_nonzero", (CUBE, s([1])), 0, 120, 4 * 120 + 8 * 24),
    case("aten::max", (CUBE,), 0, 120, 4 * 121),
    case("aten::max", (CUBE, s(0), s(False)), 0, 120, 4 * 120 + (4 + 8) * 30),
    # The larger of two: `maximum` inside counts it.
    case("aten::max", (CUBE, CUBE)),
    case("aten::cumsum", (t(INT32, 4, 5), s(1), NONE), 0, 20, 20 * (4 + 8)),
    case("aten::sort", (CUBE, s(1), s(False)), 0, 0, 120 * (4 + 4 + 8)),
    # The axes are not recorded, so what is written is unknown.
    case("aten::sum", (CUBE, NONE, NONE, NONE), 0, 120, None, n=None, **{"Concrete Inputs": None}),
]
ELEMENTS = [
    case("aten::add", (t(FP32, 4, 5), t(FP32, 4, 5), s(1)), 0, 20, 4 * 60, m=20, dtype="fp32"),
    case("aten::add_", (t(FP32, 4, 5), t(FP32, 4, 5), s(1)), 0, 20, 4 * 60),
    case("aten::mul", (t(BF16, 4, 1, 6), t(BF16, 5, 1)), 0, 120, 2 * (24 + 5 + 120)),
    # What is left as it is does not broaden: the first one is read and written.
    case("aten::add_", (t(FP32, 4, 5), t(FP32, 5), s(1)), 0, 20, 4 * (20 + 5 + 20)),
    case("aten::mul", (t(BF16, 4, 5), NUMBER), 0, 20, 2 * 40, dtype="bf16"),
    case("aten::mul", (t(BF16, 4, 5), NUMBER, t(BF16, 4, 5)), 0, 20, 2 * 40),
    case("aten::add", (t(BF16, 4, 5), t(BF16, 4, 5), s(1), t(BF16, 4, 5)), 0, 20, 2 * 60),
    # A float without dimensions on the GPU is a tensor; it does not change the type of another float.
    case("aten::mul", (t(BF16, 4, 5), t(FP32)), 0, 20, 2 * 40 + 4, dtype="bf16"),
    case("aten::add", (t(BF16, 4, 5), t(FP32, 4, 5), s(1)), 0, 20, (2 + 4 + 4) * 20, dtype="fp32"),
    case("aten::mul", (t(INT64, 4, 5), t(FP16, 5)), 0, 20, 8 * 20 + 2 * 5 + 2 * 20, dtype="fp16"),
    case("aten::mul", (t(BOOL, 4, 5), t(INT32, 4, 5)), 0, 20, (1 + 4 + 4) * 20, dtype="int32"),
    case("aten::mul", (t(BOOL, 4, 5), t(INT32)), 0, 20, (1 + 4) * 20 + 4, dtype="int32"),
    case("aten::mul", (t(INT64, 4, 5), NUMBER), 0, 20, (8 + 4) * 20, dtype="fp32"),
    case("aten::mul", (t(INT64, 4, 5), t(FP32)), 0, 20, (8 + 4) * 20 + 4, dtype="fp32"),
    case("aten::add", (t(FP64, 4), t(FP32, 4), s(1)), 0, 4, (8 + 4 + 8) * 4, dtype="fp64"),
    case("aten::div", (t(FP32, 4, 5), t(FP32, 4, 5, strides=[0, 1])), 0, 20, 4 * (20 + 5 + 20)),
    # One number that looks like 20.
    case("aten::neg", (t(FP32, 4, 5, strides=[0, 0]),), 0, 20, 4 * (1 + 20)),
    case("aten::eq", (t(INT64, 4, 5), s(3)), 0, 20, 8 * 20 + 20),
    case("aten::lt", (t(FP32, 4, 1), t(FP32, 5)), 0, 20, 4 * 9 + 20),
    case("aten::where", (t(BOOL, 4, 5), t(FP32, 4, 5), t(FP32)), 0, 20, 20 + 4 * 20 + 4 + 4 * 20, dtype="fp32"),
    case("aten::masked_fill_", (t(FP32, 4, 5), t(BOOL, 1, 5), s(0)), 0, 20, 4 * 40 + 5),
    case("aten::addcmul", (t(FP32, 4), t(FP32, 4), t(FP32, 4), s(1)), 0, 4, 4 * 16),
    case("aten::__and__", (t(BOOL, 4, 1), t(BOOL, 5)), 0, 20, 4 + 5 + 20),
    case("aten::clamp_min_", (t(BF16, 4, 5), s(0)), 0, 20, 2 * 40),
    case("aten::gelu", (t(FP32), s("none")), 0, 1, 8),
    case("aten::glu", (t(FP32, 4, 6), s(-1)), 0, 24, 4 * (24 + 12)),
    case("aten::glu_backward", (t(FP32, 4, 3), t(FP32, 4, 6), s(-1)), 0, 24, 4 * (12 + 24 + 24)),
    case(
        "aten::elu_backward",
        (t(FP32, 4, 5), s(1.0), s(1), s(1), s(False), t(FP32, 4, 5)),
        *(0, 20, 4 * 60),
    ),
    case("aten::log_sigmoid_backward", (t(FP32, 4), t(FP32, 4), t(FP32, 0)), 0, 4, 4 * 12),
    case("aten::mse_loss", (t(FP32, 4, 5), t(FP32, 4, 5), s(1)), 0, 20, 4 * 41),
    case("aten::mse_loss", (t(FP32, 4, 5), t(FP32, 4, 5), s(0)), 0, 20, 4 * 60),
    case("aten::mse_loss_backward", (t(FP32), t(FP32, 4, 5), t(FP32, 4, 5), s(1)), 0, 20, 4 * 61),
    case("aten::triu", (t(FP32, 4, 5), s(1)), 0, 0, 4 * 40),
    case("aten::copy_", (t(FP32, 4, 5), t(BF16, 4, 5), s(False)), 0, 0, (2 + 4) * 20),
    case("aten::copy_", (t(FP32, 4, 5), t(FP32, 5), s(False)), 0, 0, 4 * (5 + 20)),
    case("aten::copy_", (t(FP32, 4, 5), t(FP32, 4, 5, strides=[0, 1]), s(False)), 0, 0, 4 * (5 + 20)),
    case("aten::copy_", (t(FP64), t(INT64), s(False)), 0, 0, 16),
    case("aten::fill_", (t(INT32, 4, 5), s(0)), 0, 0, 4 * 20),
    case("aten::zero_", (t(BF16, 4, 5),), 0, 0, 2 * 20),
    case("aten::native_dropout", (t(BF16, 4, 5), s(0.1), s(True)), 0, 20, 2 * 40 + 20),
    case("aten::native_dropout_backward", (t(BF16, 4, 5), t(BOOL, 4, 5), s(1.1)), 0, 20, 2 * 40 + 20),
    case("aten::add", (t("c10::Float2", 4, 5), t(FP32, 4, 5), s(1)), 0, 20, None),
]
GATHERS = [
    case("aten::embedding", (t(BF16, 100, 8), t(INT64, 2, 5), s(-1)), 0, 0, 8 * 10 + 2 * (10 * 8 + 10 * 8), m=10, n=8),
    # Two rows, each of which is read once, and stands five times in the result.
    case("aten::embedding", (t(BF16, 2, 8), t(INT64, 2, 5), s(-1)), 0, 0, 8 * 10 + 2 * (2 * 8 + 10 * 8)),
    case("aten::embedding_dense_backward", (t(FP32, 2, 5, 8), t(INT64, 2, 5), s(100)), 0, 80, 8 * 10 + 4 * (80 + 800)),
    case("aten::index_select", (t(FP32, 4, 50, 6), s(1), t(INT32, 7)), 0, 0, 4 * 7 + 4 * 2 * 7 * 24, n=24),
    case("aten::index_select", (t(FP32, 4, 50, 6), s(-1), t(INT64, 3)), 0, 0, 8 * 3 + 4 * 2 * 3 * 200, n=200),
    case("aten::gather", (t(FP32, 4, 50), s(1), t(INT64, 4, 3), s(False)), 0, 0, (8 + 4 + 4) * 12),
    # Expanded: of each row one index.
    case("aten::gather", (t(FP32, 4, 50), s(1), t(INT64, 4, 3, strides=[1, 0]), s(False)), 0, 0, 8 * 4 + 8 * 12),
    case("aten::scatter_", (t(FP32, 4, 50), s(1), t(INT64, 4, 3), t(FP32, 4, 3)), 0, 0, (8 + 4 + 4) * 12),
    case("aten::scatter", (t(FP32, 4, 50), s(1), t(INT64, 4, 3), t(FP32, 4, 3)), 0, 0, 16 * 12 + 2 * 4 * 200),
    case("aten::scatter_add_", (t(FP32, 4, 50), s(1), t(INT64, 4, 3), t(FP32, 4, 3)), 0, 12, (8 + 3 * 4) * 12),
    case("aten::nll_loss_forward", (t(FP32, 10, 1000), t(INT64, 10), NONE, s(1), s(-100)), 0, 10, (8 + 4) * 10),
    case(
        "aten::nll_loss_backward",
        (t(FP32), t(FP32, 2000, 10), t(INT64, 2000), NONE, s(1), s(-100), t(FP32)),
        *(0, 2000, 4 * 20000 + 8 * 2000),
    ),
    # 112 with a kernel of 3, stride 2 and padding 1: 56.
    case(
        "aten::max_pool2d_with_indices",
        (t(BF16, 2, 4, 112, 112), s([3, 3]), s([2, 2]), s([1, 1]), s([1, 1]), s(False)),
        *(0, 8 * 56 * 56 * 9, 2 * 8 * 112 * 112 + (2 + 8) * 8 * 56 * 56),
        n=8 * 56 * 56,
    ),
    # A list of one stands for both axes; without a stride it is the kernel.
    case(
        "aten::avg_pool2d",
        (t(FP32, 1, 1, 9, 9), s([2]), s([]), s([0]), s(False), s(True), NONE),
        *(0, 16 * 4, 4 * (81 + 16)),
    ),
    case(
        "aten::avg_pool2d",
        (t(FP32, 1, 1, 9, 9), s([2]), s([]), s([0]), s(True), s(True), NONE),
        *(0, 25 * 4, 4 * (81 + 25)),
    ),
    # The last window would begin in the padding: (5 + 2 - 2) / 2 = 2.5, so 4 windows, but the last at 6 - 1 = 5.
    case(
        "aten::max_pool2d_with_indices",
        (t(FP32, 1, 1, 5, 5), s([2, 2]), s([2, 2]), s([1, 1]), s([1, 1]), s(True)),
        *(0, 9 * 4, 4 * 25 + 12 * 9),
    ),
    case(
        "aten::max_pool2d_with_indices_backward",
        (
            t(FP32, 1, 1, 3, 3),
            t(FP32, 1, 1, 5, 5),
            s([2, 2]),
            s([2, 2]),
            s([1, 1]),
            s([1, 1]),
            s(True),
            t(INT64, 1, 1, 3, 3),
        ),
        *(0, 9, 4 * 25 + 12 * 9),
    ),
    case(
        "aten::avg_pool3d",
        (t(FP32, 1, 1, 8, 8, 8), s([2, 2, 4]), s([2, 2, 4]), s([0, 0, 0]), s(False), s(True), NONE),
        *(0, 32 * 16, 4 * (512 + 32)),
    ),
    case("aten::index", (t(FP32, 4, 50), tensors([3]))),
]


def lstm(*given: Arg | int, proj: int = 0, layers: int = 1, both: bool = False, mode: int = 2) -> tuple[Arg, ...]:
    x, hidden = given
    assert isinstance(x, Arg)
    weights = (tensors([1]), s(4), NONE, NONE, NONE)
    return x, *weights, s(mode), s(hidden), s(proj), s(layers), s(False), s(0.0), s(True), s(both), s([]), NONE


STEPS = t(FP32, 7, 2, 5)  # 7 steps of 2 sequences of 5 numbers
RNNS = [
    # 4 gates of 3 states, of 5 inputs and 3 states: 96 weights.
    case("aten::_cudnn_rnn", lstm(STEPS, 3), 2 * 14 * 96, 10 * 14 * 3, 4 * (70 + 96 + 42), batch=1, m=14, n=12, k=5),
    # The second layer reads both directions of the first: 2 * (4 * 3 * (5 + 3) + 4 * 3 * (6 + 3)).
    case("aten::_cudnn_rnn", lstm(STEPS, 3, layers=2, both=True), 2 * 14 * 408, 10 * 14 * 12, 4 * (70 + 408 + 84)),
    # 8 states, projected to 3: 4 * 8 * (5 + 3) + 8 * 3, and in the second layer 4 * 8 * (3 + 3) + 24.
    case("aten::_cudnn_rnn", lstm(STEPS, 8, proj=3, layers=2), 2 * 14 * 496, 10 * 14 * 16, 4 * (70 + 496 + 42)),
    case("aten::_cudnn_rnn", lstm(STEPS, 3, mode=3), 2 * 14 * 72, 10 * 14 * 3, 4 * (70 + 72 + 42)),
    case("aten::_cudnn_rnn", lstm(STEPS, 3, mode=1), 2 * 14 * 24, 10 * 14 * 3, 4 * (70 + 24 + 42)),
    # Sequences of different length, packed: 14 elements in all.
    case("aten::_cudnn_rnn", lstm(t(FP32, 14, 5), 3), 2 * 14 * 96, 10 * 14 * 3, 4 * (70 + 96 + 42)),
    case(
        "aten::_cudnn_rnn_backward",
        (STEPS, tensors([1]), s(4), *[NONE] * 7, s(2), s(3), s(0), s(1), s(False), s(0.0), s(True), s(False)),
        *(2 * 2 * 14 * 96, 2 * 10 * 14 * 3, 2 * 4 * (70 + 96 + 42)),
    ),
    case(
        "aten::miopen_rnn",
        (STEPS, tensors([1]), s(4), NONE, NONE, s(2), s(3), s(1), s(False), s(0.0), s(True), s(True)),
        *(2 * 14 * 192, 10 * 14 * 6, 4 * (70 + 192 + 84)),
    ),
    # One layer of a CPU: 4 gates of 3 states. Its argument `num_layers` is that of the whole LSTM.
    case(
        "aten::mkldnn_rnn_layer",
        (STEPS, *[t(FP32, 12)] * 4, *[t(FP32, 1, 2, 3)] * 2, *map(s, (False, [], 2, 3, 5, True, True, False, True))),
        *(2 * 14 * 96, 10 * 14 * 3, 4 * (70 + 96 + 42)),
    ),
    case("aten::_cudnn_rnn", lstm(STEPS, 3, mode=9), None, 10 * 14 * 3, None),
]
POINTERS = [
    case("triton_poi_fused_add_0", (t(BF16, 4, 5), t(FP32, 4, 5), s(20)), 0, None, (2 + 4) * 20, evidence="pointers"),
    case("triton_tem_fused_mm_1", (t(BF16, 4, 5), t(BF16, 5, 6), t(BF16, 4, 6)), None, None, 2 * (20 + 30 + 24)),
    case("triton_poi_fused_add_0", (t("c10::Float2", 4, 5), t(FP32, 4, 5)), 0, None, None),
    # What TorchInductor says of its kernels, where it does.
    case(
        "triton_tem_fused_mm_1",
        (t(BF16, 4, 5), t(BF16, 5, 6), t(BF16, 4, 6)),
        *(2 * 4 * 5 * 6, None, 148),
        **{"kernel_flop": 240, "kernel_num_gb": 1.48e-7, "evidence": "given"},
    ),
    case(
        "triton_per_fused_sum_2",
        (t(BF16, 4, 5), t(FP32, 4), s(4), s(5)),
        *(0, None, 60),
        **{"kernel_flop": 0, "kernel_num_gb": "6e-08", "evidence": "given"},
    ),
    case(
        "triton_tem_fused_mm_1",
        (t(BF16, 4, 5), t(BF16, 5, 6), t(BF16, 4, 6)),
        *(240, None, 2 * (20 + 30 + 24)),
        **{"kernel_flop": 240, "evidence": "given"},
    ),
    # Elsewhere they are the guesses of a tool that has rewritten the trace: shapes are better.
    case(
        "aten::mm",
        (t(BF16, 3, 5), t(BF16, 5, 7)),
        *(210, 0, 142),
        **{"kernel_flop": 420, "kernel_num_gb": 1e-3, "evidence": "shapes"},
    ),
    *(
        case(
            "triton_poi_fused_add_0",
            (t(BF16, 4, 5), t(FP32, 4, 5)),
            *(0, None, 120),
            **{"kernel_flop": flop, "kernel_num_gb": moved, "evidence": "pointers"},
        )
        for flop, moved in ((-5, -1), ("many", [3]), (1e300, 1e300), (None, {}))
    ),
]
HUGE = 10**18
DAMAGED = [
    case("aten::mm", (Arg(BF16, "text", []), t(BF16, 5, 7))),
    case("aten::mm", (Arg(BF16, ["3", "x"], []), t(BF16, 5, 7))),
    case("aten::mm", (Arg(BF16, {"a": 1}, []), t(BF16, 5, 7))),
    case("aten::mm", (Arg(BF16, [-3, 5], []), t(BF16, 5, 7))),
    case("aten::mm", (Arg(BF16, [[3], [5]], []), t(BF16, 5, 7))),
    case("aten::mm", (Arg(BF16, [10**30, 5], []), t(BF16, 5, 7))),
    case("aten::mm", (t(BF16, HUGE, HUGE), t(BF16, HUGE, HUGE)), None, 0, None, dense_flop=None, m=HUGE),
    case("aten::mm", (t(BF16, 3, 5), t(BF16, 5, 7)), 210, 0, 142, **{"Input Strides": "?"}),
    case("aten::mm", (t(BF16, 3, 5), t(BF16, 5, 7)), **{"Input type": ["c10::BFloat16"]}),
    case("aten::mm", (t(BF16, 3, 5), t(BF16, 5, 7)), **{"Input type": 7}),
    case("aten::mm", ()),
    case("aten::addmm", (t(BF16, 7), t(BF16, 3, 5), t(BF16, 5, 7), s("beta"), s("alpha")), 210, 21, 2 * 78),
    case("aten::_scaled_dot_product_flash_attention", (t(FP32, HUGE, HUGE, HUGE, HUGE),) * 3),
    case("aten::_scaled_dot_product_flash_attention", (t(FP32, 1, HUGE, HUGE, HUGE),) * 3),
    case(
        "aten::_flash_attention_forward",
        (*[t(FP16, 100, 2, 8)] * 3, t(INT32, 9), t(INT32, 9), s("x"), s("y"), s(0.0), s(True)),
        *(products(100 * 100, 16), 5 * 20000, 2 * 4 * 1600),
    ),
    *(
        case(
            "aten::convolution",
            (
                t(FP32, 2, 3, 32, 32),
                t(FP32, 8, 3, 3, 3),
                NONE,
                *conv(stride, pad, dilation, transposed, [HUGE], groups),
            ),
            *more,
        )
        for stride, pad, dilation, transposed, groups, more in (
            ("two", [0], [1], False, 1, ()),
            ([-1], [0], [1], False, 1, ()),
            ([1], [9 * HUGE], [9 * HUGE], False, 1, ()),
            ([9 * HUGE], [9 * HUGE], [9 * HUGE], True, 9 * HUGE, (2 * 2 * 3 * 1024 * 27, 0, None)),
        )
    ),
    case("aten::convolution", (t(FP32, 2, 3, 32, 32), t(FP32, 8, 3, 3), NONE, *conv())),
    case("aten::convolution_backward", (*GRADIENT, NONE, *conv(), s("yes"))),
    case("aten::sum", (CUBE, s("a dim"), s(False), NONE), 0, 120, 4 * 121),
    case("aten::sum", (CUBE, s([9 * HUGE, -9 * HUGE]), s(False), NONE), 0, 120, 4 * 240),
    case("aten::index_select", (t(FP32, 4, 5), s(9 * HUGE), t(INT64, 3)), 0, 0, None),
    case("aten::index_select", (t(FP32, 4, 5), s(127), t(INT64, 3)), 0, 0, None),
    case("aten::max_pool2d_with_indices", (t(FP32, 5), s([2, 2]), s([2]), s([0]), s([1]), s(False)), 0, None, None),
    case("aten::max_pool2d_with_indices", (t(FP32, 1, 9, 9), s([9 * HUGE]), s([9 * HUGE]), s([0])), 0, None, None),
    case("aten::_cudnn_rnn", lstm(STEPS, 9 * HUGE, layers=9 * HUGE)),
    case("aten::add", (t(FP32, HUGE, HUGE), t(FP32, HUGE, HUGE), s(1)), 0, None, None),
    case("aten::native_layer_norm", (s("nothing"),)),
    case("aten::cat", (Arg("TensorList", [["x"], 3], []), s(0))),
    case("aten::cat", (Arg("TensorList", 5, []), s(0))),
]
GROUPS = {
    "products": PRODUCTS,
    "convolutions": CONVOLUTIONS,
    "backward": BACKWARD,
    "attention": ATTENTION,
    "rows": ROWS,
    "reductions": REDUCTIONS,
    "elements": ELEMENTS,
    "gathers": GATHERS,
    "rnns": RNNS,
    "pointers": POINTERS,
    "damaged": DAMAGED,
}
CASES = [case for group in GROUPS.values() for case in group]
