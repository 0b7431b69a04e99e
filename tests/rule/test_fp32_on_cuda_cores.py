from pathlib import Path

from tests.rule.loop import GpuStep, found

RULE = "fp32_on_cuda_cores"


def test_tf32_is_as_much_faster_as_the_peaks_say(tmp_path: Path) -> None:
    """The A100 does 156 TFLOP/s in TF32 and 19.5 in FP32: an eighth of 400 us remains, 350 us are saved."""
    step = GpuStep().kernel("ampere_sgemm_128x64_tn", 400, op="aten::mm").kernel("other", 100)
    assert found(step.load(tmp_path), RULE) == (1, 400, 350)


def test_a_gpu_without_tf32_gets_no_such_advice(tmp_path: Path) -> None:
    step = GpuStep({"name": "Tesla V100-SXM2-32GB", "numSms": 80}).kernel("volta_sgemm_128x64_tn", 400)
    assert found(step.load(tmp_path), RULE) is None


def test_products_with_a_vector_are_bound_by_memory(tmp_path: Path) -> None:
    assert found(GpuStep().kernel("void gemv2T_kernel_val<float>(int)", 400).load(tmp_path), RULE) is None


def test_a_model_in_half_precision_keeps_its_few_products_in_fp32(tmp_path: Path) -> None:
    step = GpuStep().kernel("ampere_sgemm_128x64_tn", 100).kernel("ampere_bf16_s16816gemm_bf16_128x64_tn", 300)
    assert found(step.load(tmp_path), RULE) is None


def test_an_unknown_gpu_gets_no_advice(tmp_path: Path) -> None:
    assert found(GpuStep({"name": "Some GPU"}).kernel("ampere_sgemm_128x64_tn", 400).load(tmp_path), RULE) is None
