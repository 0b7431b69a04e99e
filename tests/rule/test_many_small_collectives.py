from pathlib import Path

from tests.rule.loop import GpuStep, found

RULE = "many_small_collectives"
REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)"


def backward(parameters: int, collectives: int) -> GpuStep:
    """A step that the GPU bounds: gradients of so many parameters, and so many reductions of 40 us."""
    step = GpuStep()
    step.trace.annotation("## backward ##", 0, 1000)
    step.kernel("gemm", 500, op="aten::mm")
    for number in range(parameters):
        start = step.cpu
        step.trace.op("torch::autograd::AccumulateGrad", start, start + 2)
        step.cpu += 2
        if number < collectives:
            step.kernel(REDUCE, 40, op="c10d::allreduce_")
    step.trace.annotation("## optimizer ##", 1000, 1000)
    return step


def test_together_they_take_as_long_as_the_longest(tmp_path: Path) -> None:
    assert found(backward(6, 6).load(tmp_path), RULE) == (6, 240, 200)


def test_buckets_hold_many_gradients(tmp_path: Path) -> None:
    assert found(backward(9, 2).load(tmp_path), RULE) is None


def test_one_collective_cannot_be_joined(tmp_path: Path) -> None:
    assert found(backward(2, 2).load(tmp_path), RULE) is None
