"""What ops compute and move: each formula on calls that were worked out by hand, and how kernels share it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.derive.op_work_cases import (
    BF16,
    CASES,
    FORWARD,
    FP32,
    GRADIENT,
    GROUPS,
    NONE,
    Arg,
    backward_of_conv,
    call,
    conv,
    s,
    t,
    tensors,
)
from tests.derive.tables import derived, rows, step_rows
from tests.trace_builder import TraceBuilder

NAMES = [f"{group}-{number}-{case.name}" for group in GROUPS for number, case in enumerate(GROUPS[group])]


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any] | None]:
    """The rows of all cases, each of which is an op of one trace."""
    builder, numbers = TraceBuilder(), []
    for at, each in enumerate(CASES):
        call(builder, each.name, each.args, 10 * at, 10 * at + 5, **each.recorded)
        numbers.append(builder.last_id)
    with builder.load(tmp_path_factory.mktemp("work")) as trace:
        found = {row["event_id"]: row for row in trace.sql("from op_work").to_dicts()}
    return [found.get(number) for number in numbers]


@pytest.mark.parametrize("number", range(len(CASES)), ids=NAMES)
def test_the_work_of_a_call(counted: list[dict[str, Any] | None], number: int) -> None:
    expected, row = CASES[number], counted[number]
    if expected.work is None:
        assert row is None
        return
    assert row is not None
    assert (row["matrix_flop"], row["vector_flop"], row["bytes"]) == expected.work
    assert {column: row[column] for column in expected.more} == expected.more
    assert row["is_outermost"]
    if not {"model_flop", "dense_flop"} & set(expected.more):
        assert (row["model_flop"], row["dense_flop"]) == (row["matrix_flop"],) * 2


@pytest.mark.parametrize(
    ("table", "groups"),
    [
        ("work_gemm", ["products"]),
        ("work_convolution", ["convolutions", "backward"]),
        ("work_attention", ["attention"]),
        ("work_reduction", ["rows", "reductions"]),
        ("work_elementwise", ["elements"]),
        ("work_gather", ["gathers"]),
        ("work_rnn", ["rnns"]),
        ("work_pointers", ["pointers"]),
    ],
)
def test_each_formula_counts_its_own_ops(tmp_path: Path, table: str, groups: list[str]) -> None:
    """And no other formula's, but what the compiler says itself of the kernels that it generates."""
    builder = TraceBuilder()
    cases = [case for group in groups for case in GROUPS[group]]
    if table == "work_pointers":  # a product stands among these for comparison
        cases = [case for case in cases if case.name.startswith("triton_")]
    for at, each in enumerate(cases):
        call(builder, each.name, each.args, 10 * at, 10 * at + 5, **each.recorded)
    sql = f"select evidence, shape_id in (select shape_id from {table}) as is_its_own from op_work order by event_id"
    found = derived(builder, tmp_path, sql)
    assert len(found) == sum(each.work is not None for each in cases)
    assert {is_its_own for evidence, is_its_own in found if evidence != "given"} == {True}


# --- lists of tensors: the name of the kernel tells the type ---------------------------------------------------------

CAT = (
    "void at::native::(anonymous namespace)::CatArrayBatchedCopy<at::native::(anonymous namespace)::OpaqueType<{}u>, "
    "unsigned int, 2, 64, 64>"
)
ADD = (
    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)::TensorList"
    "Metadata<2>, at::native::(anonymous namespace)::BinaryOpListAlphaFunctor<{}, 2, 2, 0>, std::plus<float>, float>"
)
ADAM = (
    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<{}, FusedAdamMathFunctor<{}, 4, (ADAM_MODE)0>>"
)
PAIR = tensors([4, 5], [10])  # 30 elements
STATE = tensors([], [])


def rows_of(folder: Path, *calls: tuple[str, tuple[Arg, ...], str | None]) -> list[tuple[Any, ...] | None]:
    """FLOP, bytes and type of calls, each of which launches a kernel, if one is named."""
    builder, numbers = TraceBuilder(), []
    for at, (name, args, kernel) in enumerate(calls):
        call(builder, name, args, 10 * at, 10 * at + 5)
        numbers.append(builder.last_id)
        if kernel is not None:
            builder.launches(kernel, 10 * at + 5, 10 * at + 8)
    with builder.load(folder) as trace:
        found = {row[0]: row[1:] for row in rows(trace, "select event_id, vector_flop, bytes, dtype from op_work")}
    return [found.get(number) for number in numbers]


def test_the_type_of_lists_is_that_of_the_kernel(tmp_path: Path) -> None:
    cases: list[tuple[tuple[str, tuple[Arg, ...], str | None], tuple[Any, ...] | None]] = [
        # A concatenation knows the size of its elements and not their type.
        (("aten::cat", (tensors([4, 5], [4, 1]), s(1)), CAT.format(2)), (0, 2 * 2 * 24, None)),
        (("aten::cat", (tensors([4, 5], [4, 2]), s(1)), CAT.format(8)), (0, 2 * 8 * 28, None)),
        (("aten::_foreach_add_", (PAIR, PAIR, s(1)), ADD.format("float")), (30, 4 * 90, "fp32")),
        (("aten::_foreach_mul_", (PAIR, s(0.9)), ADD.format("c10::Half")), (30, 2 * 60, "fp16")),
        (("aten::_foreach_mul", (PAIR, PAIR), ADD.format("double")), (30, 8 * 90, "fp64")),
        (("aten::_foreach_copy_", (PAIR, PAIR, s(False)), ADD.format("float")), (0, 4 * 60, "fp32")),
        (("aten::_foreach_zero_", (PAIR,), ADD.format("c10::BFloat16")), (0, 2 * 30, "bf16")),
        (("aten::_foreach_norm", (PAIR, s(2)), ADD.format("float")), (30, 4 * 30, "fp32")),
        # Parameters, gradients and two states are read, and three of them written.
        (
            ("aten::_fused_adamw_", (*[PAIR] * 4, tensors(), STATE), ADAM.format("TensorListMetadata<4>", "float")),
            (12 * 30, 7 * 4 * 30, "fp32"),
        ),
        (
            ("aten::_fused_adam_", (*[PAIR] * 5, STATE), ADAM.format("TensorListMetadata<5>", "float")),
            (12 * 30, 9 * 4 * 30, "fp32"),
        ),
        # Without momentum there is no state.
        (
            ("aten::_fused_sgd_", (PAIR, PAIR, tensors()), ADAM.format("TensorListMetadata<2>", "c10::BFloat16")),
            (4 * 30, 3 * 2 * 30, "bf16"),
        ),
        (
            ("aten::_fused_sgd_", (PAIR, PAIR, PAIR), ADAM.format("TensorListMetadata<3>", "float")),
            (4 * 30, 5 * 4 * 30, "fp32"),
        ),
        # Without a kernel that tells, the elements are known and the bytes are not.
        (("aten::_foreach_add_", (PAIR, PAIR, s(2)), "something"), (30, None, None)),
        (("aten::_foreach_add_", (PAIR, PAIR, s(3)), None), (30, None, None)),
        (("aten::cat", (tensors([4, 5], [4, 3]), s(1)), None), (0, None, None)),
        # Calls that look the same, of two types.
        (("aten::cat", (tensors([4, 5], [4, 4]), s(1)), CAT.format(2)), (0, None, None)),
        (("aten::cat", (tensors([4, 5], [4, 4]), s(1)), CAT.format(4)), (0, None, None)),
        # Of more than 30 tensors, the profiler writes no shapes.
        (("aten::cat", (tensors(), s(1)), CAT.format(2)), None),
        (("aten::_foreach_add_", (tensors(), tensors(), s(1)), ADD.format("float")), None),
    ]
    found = rows_of(tmp_path, *(given for given, _ in cases))
    assert found == [expected for _, expected in cases]


def test_work_list_has_elements_and_the_size_that_the_kernel_tells(tmp_path: Path) -> None:
    trace = call(TraceBuilder(), "aten::cat", (tensors([4, 5], [5]), s(0)), 0, 10).launches(CAT.format(2), 20, 30)
    sql = "select m, matrix_flop, vector_flop, bytes, dtype from work_list"
    assert derived(trace, tmp_path, sql) == [(25, 0, 0, 2 * 2 * 25, None)]


# --- which op counts, and which kernel -------------------------------------------------------------------------------

MM = (t(BF16, 30, 50), t(BF16, 50, 70))
MM_FLOP, MM_BYTES = 2 * 30 * 50 * 70, 2 * (1500 + 3500 + 2100)
GEMM = "nvjet_tst_128x64_64x8_1x2_h_bz_TNN"
SPLIT = "void cublasLt::splitKreduce_kernel<32, 16, int, float, float>"
SHARES = "select work_id, time_ns, matrix_flop, vector_flop, bytes, evidence from op_claim order by event_id"
CONVOLVED = (t(FP32, 2, 3, 32, 32), t(FP32, 8, 3, 3, 3), t(FP32, 8), *conv([2, 2], [1, 1]))


def test_an_op_inside_another_one_is_part_of_it(tmp_path: Path) -> None:
    builder = TraceBuilder()
    call(builder, "aten::conv2d", CONVOLVED, 0, 100)
    call(builder, "aten::convolution", CONVOLVED, 1, 99)
    outer = builder.last_id
    call(builder, "aten::_convolution", CONVOLVED, 1, 99)
    call(builder, "aten::miopen_convolution", (*CONVOLVED[:3], s([1, 1]), s([2, 2]), s([1, 1]), s(1)), 10, 50)
    builder.launches("igemm_fwd_gtcx3_nhwc_fp32_bx0", 20, 60)
    kernel = builder.last_id
    call(builder, "aten::add_", (t(FP32, 2, 8, 16, 16), t(FP32, 8, 1, 1), s(1)), 60, 70)
    builder.launches("elementwise_kernel", 70, 75)
    bias = builder.last_id
    # Behind it, and on another thread.
    call(builder, "aten::mm", MM, 100, 110).on(2)
    call(builder, "aten::mm", MM, 30, 40)
    with builder.load(tmp_path) as trace:
        found = rows(trace, "select name, is_outermost from op_work join event using (event_id) order by event_id")
        claims = rows(trace, "select event_id, work_id, matrix_flop, bytes from op_claim order by event_id")
    assert found == [
        ("aten::convolution", True),
        ("aten::_convolution", False),
        ("aten::miopen_convolution", False),
        ("aten::add_", False),
        ("aten::mm", True),
        ("aten::mm", True),
    ]
    # The bias is added by a kernel of its own, which has no part in the product.
    assert claims == [(kernel, outer, FORWARD, 4 * (6144 + 216 + 4096 + 8)), (bias, outer, 0, 0)]


def test_kernels_share_a_product_by_their_duration(tmp_path: Path) -> None:
    builder = TraceBuilder()
    call(builder, "aten::convolution_backward", backward_of_conv("[True, True, False]", *GRADIENT), 0, 10)
    work = builder.last_id
    builder.launches("nchwToNhwcKernel", 10, 90)  # changes the layout
    builder.launches("sm80_xmma_dgrad_implicit_gemm_tf32f32_tf32f32_f32", 100, 130)
    builder.launches("sm80_xmma_wgrad_implicit_gemm_tf32f32_tf32f32_f32", 120, 130, stream=8)
    builder.launches("Memset (Device)", 130, 135, category="gpu_memset")
    moved = 4 * 2 * (4096 + 6144 + 216)
    with builder.load(tmp_path) as trace:
        found = rows(trace, SHARES)
    dgrad, wgrad = 2 * FORWARD * 3 // 4, 2 * FORWARD // 4
    assert found == [
        (work, 80_000, 0, 0, 0, "shared"),
        (work, 30_000, dgrad, 0, moved * 3 // 4, "shared"),
        # Both run together in its time.
        (work, 0, wgrad, 0, moved // 4, "shared"),
        (work, 5_000, 0, 0, 0, "shared"),
    ]


def test_a_product_without_a_kernel_of_that_kind_is_of_the_longest(tmp_path: Path) -> None:
    builder = TraceBuilder()
    call(builder, "aten::mm", MM, 0, 10)
    work = builder.last_id
    builder.launches("mystery", 10, 13).launches("riddle", 13, 30).launches("mystery", 30, 31)
    with builder.load(tmp_path) as trace:
        found = rows(trace, SHARES)
    assert [row[2] for row in found] == [0, MM_FLOP, 0]
    assert [row[4] for row in found] == [0, MM_BYTES, 0]
    assert {row[0] for row in found} == {work}


def test_one_kernel_has_all_and_a_helper_nothing(tmp_path: Path) -> None:
    builder = TraceBuilder()
    call(builder, "aten::mm", MM, 0, 10)
    whole = builder.last_id
    builder.launches(GEMM, 10, 20)
    call(builder, "aten::mm", MM, 20, 30)
    split = builder.last_id
    builder.launches(GEMM, 30, 40).launches(SPLIT, 40, 60)
    with builder.load(tmp_path) as trace:
        found = rows(trace, SHARES)
    assert found == [
        (whole, 10_000, MM_FLOP, 0, MM_BYTES, "whole"),
        (split, 10_000, MM_FLOP, 0, MM_BYTES, "shared"),
        (split, 20_000, 0, 0, 0, "shared"),
    ]


def test_kernels_of_other_ops_share_by_duration_and_exactly(tmp_path: Path) -> None:
    builder = TraceBuilder()
    call(builder, "aten::sum", (t(FP32, 1001), NONE), 0, 10)
    builder.launches("reduce", 10, 13).launches("reduce", 13, 16).launches("reduce", 16, 17)
    with builder.load(tmp_path) as trace:
        found = rows(trace, SHARES)
    # 1001 elements and 4008 bytes in parts of 3, 3 and 1: each up to the whole number below what is reached.
    assert [row[3] for row in found] == [429, 858 - 429, 1001 - 858]
    assert [row[4] for row in found] == [1717, 3435 - 1717, 4008 - 3435]
    assert [row[2] for row in found] == [0, 0, 0]


def test_what_cannot_be_known_has_no_row_or_null(tmp_path: Path) -> None:
    builder = TraceBuilder()
    call(builder, "mine::fused", MM, 0, 10)
    builder.launches(GEMM, 10, 20)
    call(builder, "triton_tem_fused_mm_1", MM, 20, 30)
    builder.launches("triton_tem_fused_mm_1", 30, 40)
    unknown = builder.last_id
    builder.op("aten::mm", 40, 50).launches(GEMM, 50, 60)  # without shapes
    builder.kernel(GEMM, 60, 70)  # its launch is not in the trace
    with builder.load(tmp_path) as trace:
        found = rows(trace, "select event_id, matrix_flop, vector_flop, bytes from op_claim")
    assert found == [(unknown, None, None, 2 * (1500 + 3500))]


def test_without_shapes_both_tables_are_empty(tmp_path: Path) -> None:
    builder = TraceBuilder().op("aten::mm", 0, 10).launches(GEMM, 10, 20)
    with builder.load(tmp_path) as trace:
        assert rows(trace, "from op_work") == rows(trace, "from op_claim") == []


def products_and_a_sum() -> TraceBuilder:
    """Two equal products, a sum whose first operand is one row that counts four times, and an op without a rule."""
    builder = TraceBuilder()
    call(builder, "aten::mm", MM, 0, 5)
    call(builder, "aten::mm", MM, 10, 15)
    call(builder, "aten::add", (t(FP32, 4, 5, strides=[0, 1]), t(FP32, 4, 5), s(1)), 20, 25)
    return call(builder, "my::op", (t(FP32, 4, 5),), 30, 35)


def test_arguments_are_those_of_ops_that_have_some(tmp_path: Path) -> None:
    builder = products_and_a_sum().op("aten::relu", 40, 45)
    sql = "select input_dims, is_captured from op_argument order by event_id"
    mm, add, own = "[[30,50],[50,70]]", "[[4,5],[4,5],[]]", "[[4,5]]"
    found = [(dims.replace(" ", ""), is_captured) for dims, is_captured in derived(builder, tmp_path, sql)]
    assert found == [(mm, False), (mm, False), (add, False), (own, False)]


def test_calls_share_a_shape(tmp_path: Path) -> None:
    sql = (
        "select name, family, in_place, argument_count, counts, read_counts, dtypes, floats from op_shape order by name"
    )
    assert derived(products_and_a_sum(), tmp_path, sql) == [
        ("aten::add", "pointwise", False, 3, [20, 20, None], [5, 20, None], ["fp32"] * 2 + [None], [True] * 2 + [None]),
        ("aten::mm", "gemm", False, 2, [1500, 3500], [1500, 3500], ["bf16"] * 2, [True] * 2),
    ]
    sql = "select name, count(*) from op_call inner join op_shape using (shape_id) group by name order by name"
    assert derived(products_and_a_sum(), tmp_path, sql) == [("aten::add", 1), ("aten::mm", 2)]


def test_steps_to_a_shape(tmp_path: Path) -> None:
    trace = products_and_a_sum().load(tmp_path)
    assert step_rows(trace, "op_shape", "select name, family from shaped_call order by name") == [
        ("aten::add", "pointwise"),
        ("aten::mm", "gemm"),
    ]
    sql = "select position, sizes, read_count, item_bytes from shaped_argument inner join shaped_call using (shape_id)"
    assert step_rows(trace, "op_shape", f"{sql} where name = 'aten::add' order by position") == [
        (1, [4, 5], 5, 4),
        (2, [4, 5], 20, 4),
        (3, None, None, None),
    ]


def test_equal_calls_have_the_same_shape(tmp_path: Path) -> None:
    builder = TraceBuilder()
    for at, args in enumerate([MM, MM, (MM[0], t(BF16, 50, 71)), MM]):
        call(builder, "aten::mm", args, 10 * at, 10 * at + 5)
    with builder.load(tmp_path) as trace:
        found = rows(trace, "select shape_id from op_work order by event_id")
    assert found[0] == found[1] == found[3] != found[2]
