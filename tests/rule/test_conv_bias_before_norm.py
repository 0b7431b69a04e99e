from pathlib import Path

from tests.rule.loop import GpuStep, found

RULE = "conv_bias_before_norm"
AROUND = ("aten::conv2d", "aten::convolution", "aten::_convolution")


def layer(bias: bool, norm: str) -> GpuStep:
    step = GpuStep()
    start = step.cpu
    for name in AROUND:
        step.trace.op(name, start, start + 6)
    step.kernel("conv", 100, op="aten::cudnn_convolution")
    if bias:
        step.kernel("add", 40, op="aten::add_")
    step.cpu = start + 6
    return step.kernel("next", 60, op=norm)


def test_the_bias_goes(tmp_path: Path) -> None:
    assert found(layer(True, "aten::batch_norm").load(tmp_path), RULE) == (1, 40, 40)


def test_without_a_bias_nothing_is_said(tmp_path: Path) -> None:
    assert found(layer(False, "aten::batch_norm").load(tmp_path), RULE) is None


def test_a_bias_before_anything_else_counts(tmp_path: Path) -> None:
    assert found(layer(True, "aten::relu").load(tmp_path), RULE) is None


def test_an_addition_after_the_convolution_is_no_bias(tmp_path: Path) -> None:
    step = layer(False, "aten::add_").kernel("norm", 60, op="aten::batch_norm")
    assert found(step.load(tmp_path), RULE) is None
