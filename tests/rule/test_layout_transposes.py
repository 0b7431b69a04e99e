from pathlib import Path

from tests.rule.loop import GpuStep, found

RULE = "layout_transposes"
TO_NHWC = "void cudnn::ops::nchwToNhwcKernel<float, float, float, false, true, (cudnnKernelDataType_t)2>(int)"
OF_MIOPEN = "batched_transpose_64x64_dword.kd"


def test_kernels_of_cudnn_and_miopen_count(tmp_path: Path) -> None:
    step = GpuStep().kernel(TO_NHWC, 30).kernel("conv", 100).kernel(OF_MIOPEN, 20)
    assert found(step.load(tmp_path), RULE) == (2, 50, 50)


def test_a_convolution_in_channels_last_is_none(tmp_path: Path) -> None:
    step = GpuStep().kernel("sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize128x128", 100)
    assert found(step.load(tmp_path), RULE) is None


def test_under_two_percent_is_not_worth_a_line(tmp_path: Path) -> None:
    """The step takes 990 us: FIRST_US and 890 of GPU work and its end."""
    assert found(GpuStep().kernel(TO_NHWC, 19).kernel("conv", 861).load(tmp_path), RULE) is None
    assert found(GpuStep().kernel(TO_NHWC, 20).kernel("conv", 860).load(tmp_path), RULE) == (1, 20, 20)
