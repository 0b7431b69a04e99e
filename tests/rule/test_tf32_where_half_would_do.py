from pathlib import Path

from tests.rule.loop import GpuStep, found

RULE = "tf32_where_half_would_do"


def test_half_precision_is_twice_as_fast_as_tf32(tmp_path: Path) -> None:
    """The A100 does 312 TFLOP/s in half precision and 156 in TF32."""
    step = GpuStep().kernel("sm80_xmma_gemm_tf32f32_tf32f32_f32_tn_n_tilesize128x128", 300).kernel("other", 100)
    assert found(step.load(tmp_path), RULE) == (1, 300, 150)


def test_half_precision_is_half_precision_already(tmp_path: Path) -> None:
    step = GpuStep().kernel("sm80_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128", 300)
    assert found(step.load(tmp_path), RULE) is None


def test_a_model_in_half_precision_keeps_its_few_products_in_tf32(tmp_path: Path) -> None:
    step = GpuStep().kernel("ampere_fp16_s16816gemm_fp16_128x64_tn", 300)
    step.kernel("void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_128x128_16x4_nn_align4>(Params)", 100)
    assert found(step.load(tmp_path), RULE) is None
