from pathlib import Path

from tests.rule.loop import GpuStep, found

RULE = "fp32_where_half_would_do"
V100 = {"name": "Tesla V100-SXM2-32GB", "numSms": 80}


def test_half_precision_is_as_much_faster_as_the_peaks_say(tmp_path: Path) -> None:
    """The V100 does 125 TFLOP/s in half precision and 15.7 in FP32: of 500 us, 62.8 remain."""
    assert found(GpuStep(V100).kernel("volta_sgemm_128x64_tn", 500).load(tmp_path), RULE) == (1, 500, 437.2)


def test_matrix_units_in_fp32_count_too(tmp_path: Path) -> None:
    """MI300X: 163.4 TFLOP/s in FP32, 1307.4 in half precision."""
    step = GpuStep({"name": "AMD Instinct MI300X", "numSms": 304})
    step.kernel("Cijk_Ailk_Bljk_SB_MT128x128x16_MI16x16x1_SN", 800)
    assert found(step.load(tmp_path), RULE) == (1, 800, 700.015)


def test_tf32_comes_first_where_it_helps(tmp_path: Path) -> None:
    assert found(GpuStep().kernel("ampere_sgemm_128x64_tn", 500).load(tmp_path), RULE) is None


def test_a_gpu_without_matrix_units_gains_nothing(tmp_path: Path) -> None:
    step = GpuStep({"name": "Tesla P100-PCIE-16GB", "numSms": 56}).kernel("maxwell_sgemm_128x64_tn", 500)
    assert found(step.load(tmp_path), RULE) is None
