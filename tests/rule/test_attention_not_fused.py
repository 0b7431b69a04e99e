from pathlib import Path

import pytest

from tests.rule.loop import GpuStep, found

RULE = "attention_not_fused"


def attention(softmax: str = "aten::_softmax", second: str = "aten::bmm") -> GpuStep:
    step = GpuStep().kernel("gemm", 50, op="aten::bmm").kernel("mul", 20, op="aten::mul")
    return (
        step.kernel("softmax", 30, op=softmax)
        .kernel("drop", 10, op="aten::native_dropout")
        .kernel("gemm", 50, op=second)
    )


@pytest.mark.slow
def test_all_between_the_two_products_goes(tmp_path: Path) -> None:
    assert found(attention().kernel("other", 100).load(tmp_path), RULE) == (3, 60, 60)


@pytest.mark.slow
def test_the_gradient_of_a_softmax_counts(tmp_path: Path) -> None:
    assert found(attention("aten::_softmax_backward_data").load(tmp_path), RULE) == (3, 60, 60)


@pytest.mark.slow
def test_a_softmax_that_no_product_follows_is_no_attention(tmp_path: Path) -> None:
    """As at the end of a model that classifies."""
    assert found(attention(second="aten::nll_loss_forward").load(tmp_path), RULE) is None


def test_other_work_between_says_it_is_no_attention(tmp_path: Path) -> None:
    step = GpuStep().kernel("gemm", 50, op="aten::bmm").kernel("norm", 20, op="aten::native_layer_norm")
    step.kernel("softmax", 30, op="aten::_softmax").kernel("gemm", 50, op="aten::bmm")
    assert found(step.load(tmp_path), RULE) is None


def test_products_without_a_softmax_are_no_attention(tmp_path: Path) -> None:
    assert found(attention("aten::mul").load(tmp_path), RULE) is None


def test_fused_attention_is_fused(tmp_path: Path) -> None:
    step = GpuStep().kernel("flash_fwd", 50, op="aten::_flash_attention_forward")
    assert found(step.load(tmp_path), RULE) is None
