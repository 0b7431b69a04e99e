from pathlib import Path

from tests.rule.loop import GpuStep, found

RULE = "exposed_collectives"
REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)"


def test_reductions_in_forward_are_not_of_gradients(tmp_path: Path) -> None:
    """As tensor parallelism has them: one rule finds them, and the rule on gradients does not."""
    step = GpuStep().kernel("gemm", 300).kernel(REDUCE, 100, op="c10d::allreduce_")
    step.trace.annotation("## forward ##", 0, step.cpu)
    trace = step.load(tmp_path)
    assert found(trace, RULE) == (1, 100, 100)
    assert found(trace, "exposed_communication") is None


def test_reductions_of_gradients_are_not_these(tmp_path: Path) -> None:
    step = GpuStep().kernel("gemm", 300).kernel(REDUCE, 100, op="c10d::allreduce_")
    step.trace.annotation("## backward ##", 0, step.cpu)
    assert found(step.load(tmp_path), RULE) is None
