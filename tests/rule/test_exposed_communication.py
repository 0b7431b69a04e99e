from pathlib import Path

import pytest

from hotline_analysis import Trace
from tests.rule.loop import GpuStep, found
from tests.trace_builder import TraceBuilder

RULE = "exposed_communication"
REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)"


def in_backward(step: GpuStep) -> GpuStep:
    """Put all ops of a step into backward."""
    step.trace.annotation("## backward ##", 0, step.cpu)
    return step


def reduced(folder: Path, *, beside: int) -> Trace:
    """A step of 400 us: kernels until 300, then a reduction of 90 us, of which so much runs beside the kernels."""
    trace = TraceBuilder(rank=0, world_size=2).step(0, 0, 400).annotation("## backward ##", 0, 30)
    trace.op("aten::mm", 0, 10).launches("gemm", 10, 300)
    start = 300 - beside
    trace.op("c10d::allreduce_", 10, 20).launches(REDUCE, start, start + 90, stream=20)
    trace.runtime("cudaDeviceSynchronize", 20, 400, correlation=99)
    return trace.load(folder)


def test_what_nothing_hides_goes(tmp_path: Path) -> None:
    step = GpuStep().kernel("gemm", 300).kernel(REDUCE, 100, op="c10d::allreduce_")
    assert found(in_backward(step).load(tmp_path), RULE) == (1, 100, 100)


def test_what_computation_hides_costs_nothing(tmp_path: Path) -> None:
    assert found(reduced(tmp_path, beside=90), RULE) is None


def test_without_other_ranks_there_is_none(tmp_path: Path) -> None:
    step = GpuStep().kernel("gemm", 300).kernel("reduce_kernel", 100)
    assert found(in_backward(step).load(tmp_path), RULE) is None


@pytest.mark.parametrize(
    "kernel", ["ncclDevKernel_SendRecv(ncclDevComm*)", "ncclDevKernel_AllGather_RING_LL(ncclDevComm*)"]
)
def test_what_is_not_of_gradients_gets_no_advice_on_them(tmp_path: Path, kernel: str) -> None:
    step = GpuStep().kernel("gemm", 300).kernel(kernel, 100, op="c10d::op")
    assert found(in_backward(step).load(tmp_path), RULE) is None


def test_a_reduction_without_backward_is_not_of_gradients(tmp_path: Path) -> None:
    step = GpuStep().kernel("gemm", 300).kernel(REDUCE, 100, op="c10d::allreduce_")
    step.trace.annotation("## forward ##", 0, step.cpu)
    assert found(step.load(tmp_path), RULE) is None
