from pathlib import Path

from tests.rule.loop import GpuStep, found

RULE = "unaligned_matmul"
GEMM = "void cutlass::Kernel2<cutlass_75_tensorop_bf16_s1688gemm_bf16_128x128_nn_align1>(Params)"
BF16 = ["c10::BFloat16", "c10::BFloat16"]


def test_the_gain_is_what_the_peak_leaves(tmp_path: Path) -> None:
    """2 * 4096 * 4096 * 4095 FLOP at 312 TFLOP/s are 440.4 us; memory would need 65 us."""
    dims = [[4096, 4096], [4096, 4095]]
    step = GpuStep().kernel(GEMM, 1000, op="aten::mm", dims=dims, strides=[[4096, 1], [4095, 1]], types=BF16)
    flop = 2 * 4096 * 4096 * 4095
    count, time, gain = found(step.load(tmp_path), RULE) or (0, 0, 0)
    assert (count, time) == (1, 1000)
    assert abs(gain - (1000 - flop / 312e6)) < 0.001


def test_rows_of_a_transposed_operand_are_its_columns(tmp_path: Path) -> None:
    """The second operand has 4095 rows, but lies in memory as 4096 columns of 4096: no row starts off."""
    dims = [[4096, 4095], [4095, 4096]]
    aligned = GpuStep().kernel(GEMM, 1000, op="aten::mm", dims=dims, strides=[[1, 4096], [4096, 1]], types=BF16)
    assert found(aligned.load(tmp_path), RULE) is None


def test_a_long_first_dimension_does_not_matter(tmp_path: Path) -> None:
    step = GpuStep().kernel(GEMM, 1000, op="aten::mm", dims=[[25089, 768], [768, 3072]], types=BF16)
    assert found(step.load(tmp_path), RULE) is None


def test_without_shapes_nothing_is_said(tmp_path: Path) -> None:
    assert found(GpuStep().kernel(GEMM, 1000, op="aten::mm").load(tmp_path), RULE) is None


def test_the_bias_of_addmm_is_no_operand(tmp_path: Path) -> None:
    dims = [[3072], [512, 768], [768, 3072]]
    assert found(GpuStep().kernel(GEMM, 900, op="aten::addmm", dims=dims, types=BF16).load(tmp_path), RULE) is None
