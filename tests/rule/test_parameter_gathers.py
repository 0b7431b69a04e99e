from pathlib import Path

from tests.rule.loop import GpuStep, found

RULE = "parameter_gathers"
GATHER = "ncclDevKernel_AllGather_RING_LL(ncclDevComm*)"
SCATTER = "ncclDevKernel_ReduceScatter_Sum_f32_RING_LL(ncclDevComm*)"


def sharded(*, scatters: bool) -> GpuStep:
    """Forward gathers parameters for 100 us; backward reduces gradients of the same group, or does not."""
    step = GpuStep().kernel(GATHER, 100, op="c10d::_allgather_base_").kernel("gemm", 200)
    step.trace.annotation("## forward ##", 0, 4)
    begin = step.cpu
    step.kernel("gemm", 200)
    if scatters:
        step.kernel(SCATTER, 100, op="c10d::_reduce_scatter_base_")
    step.trace.annotation("## backward ##", begin, step.cpu)
    return step


def test_gathers_of_a_group_that_reduces_gradients(tmp_path: Path) -> None:
    trace = sharded(scatters=True).load(tmp_path)
    assert found(trace, RULE) == (1, 100, 100)
    assert found(trace, "exposed_communication") == (1, 100, 100)


def test_other_gathers_are_not_of_parameters(tmp_path: Path) -> None:
    assert found(sharded(scatters=False).load(tmp_path), RULE) is None
