from pathlib import Path

import pytest

from tests.rule.loop import GpuStep, found

RULE = "index_backward_sort"
SORT = "void cub::CUB_200200_NS::DeviceRadixSortOnesweepKernel<Policy>(int)"


def gradient(*kernels: tuple[str, int], node: str = "IndexBackward0") -> GpuStep:
    step = GpuStep().kernel("gemm", 100, op="aten::mm")
    start, end = step.cpu, step.cpu + 20
    step.trace.backward(node, start, end, seq=3).op("aten::_index_put_impl_", start, end)
    for name, duration in kernels:
        step.trace.launches(name, step.gpu, step.gpu + duration)
        step.gpu += duration
    step.cpu = end
    return step


@pytest.mark.slow
def test_all_but_the_sum_goes(tmp_path: Path) -> None:
    step = gradient((SORT, 30), (SORT, 40), ("arange", 5), ("indexing_backward_kernel", 25))
    assert found(step.load(tmp_path), RULE) == (4, 100, 75)


@pytest.mark.slow
def test_adding_with_atomic_operations_needs_no_sorting(tmp_path: Path) -> None:
    assert found(gradient(("index_add", 100)).load(tmp_path), RULE) is None


def test_sorting_in_forward_is_meant(tmp_path: Path) -> None:
    step = GpuStep().kernel("gemm", 100).kernel(SORT, 50, op="aten::sort")
    assert found(step.load(tmp_path), RULE) is None
