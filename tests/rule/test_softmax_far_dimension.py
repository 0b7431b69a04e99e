from pathlib import Path

import pytest

from tests.rule.loop import GpuStep, found

RULE = "softmax_far_dimension"
FAR = "void at::native::(anonymous namespace)::cunn_SpatialSoftMaxForward<float, float, float, int>(float*)"
NEAR = "void at::native::(anonymous namespace)::cunn_SoftMaxForward<4, float, float, float>(float*)"


@pytest.mark.parametrize(("dtype", "size"), [("float", 4), ("double", 8), ("c10::Half", 2)])
def test_it_takes_as_long_as_its_bytes_need(tmp_path: Path, dtype: str, size: int) -> None:
    """1.244 GB read and written are 2.488 GB; at 1555 GB/s they take 1600 us."""
    dims = [[1_244_000_000 // size], [], []]
    step = GpuStep().kernel(FAR, 2000, op="aten::_softmax", dims=dims, types=[dtype, "", ""])
    assert found(step.load(tmp_path), RULE) == (1, 2000, 400)


def test_without_shapes_all_of_it_may_go(tmp_path: Path) -> None:
    assert found(GpuStep().kernel(FAR, 200, op="aten::_softmax").load(tmp_path), RULE) == (1, 200, 200)


def test_the_last_dimension_is_near(tmp_path: Path) -> None:
    assert found(GpuStep().kernel(NEAR, 200, op="aten::_softmax").load(tmp_path), RULE) is None
