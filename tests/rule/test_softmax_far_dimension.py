from pathlib import Path

from tests.rule.loop import GpuStep, found

RULE = "softmax_far_dimension"
FAR = "void at::native::(anonymous namespace)::cunn_SpatialSoftMaxForward<float, float, float, int>(float*)"
NEAR = "void at::native::(anonymous namespace)::cunn_SoftMaxForward<4, float, float, float>(float*)"


def test_it_takes_as_long_as_its_bytes_need(tmp_path: Path) -> None:
    """311 million floats read and written are 2.488 GB; at 1555 GB/s they take 1600 us."""
    step = GpuStep().kernel(FAR, 2000, op="aten::_softmax", dims=[[311_000_000], [], []], types=["float", "", ""])
    assert found(step.load(tmp_path), RULE) == (1, 2000, 400)


def test_without_shapes_all_of_it_may_go(tmp_path: Path) -> None:
    assert found(GpuStep().kernel(FAR, 200, op="aten::_softmax").load(tmp_path), RULE) == (1, 200, 200)


def test_the_last_dimension_is_near(tmp_path: Path) -> None:
    assert found(GpuStep().kernel(NEAR, 200, op="aten::_softmax").load(tmp_path), RULE) is None
