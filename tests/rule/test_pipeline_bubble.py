from pathlib import Path

from tests.rule.loop import FIRST_US, GpuStep, found
from tests.trace_builder import TraceBuilder

RULE = "pipeline_bubble"


def test_a_stage_waits_in_receives(tmp_path: Path) -> None:
    step = GpuStep().kernel("ncclDevKernel_SendRecv(ncclDevComm*)", 100, op="nccl:recv 1<-0").kernel("gemm", 300)
    assert found(step.load(tmp_path), RULE) == (1, 100, 100)


def test_on_the_cpu_the_loop_waits_in_receives(tmp_path: Path) -> None:
    """From the end of the op that asks, at 20 us, until 500; the rule on unseen ranks leaves it to this one."""
    built = TraceBuilder(rank=1, world_size=2)
    for number in range(1, 4):
        at = 1000 * number
        built.on(1).step(number, at, at + 1000).op("c10d::recv_", at + 10, at + 20).op("aten::mm", at + 502, at + 990)
        built.on(5).annotation("gloo:recv", at + 12, at + 500)
    trace = built.load(tmp_path)
    assert found(trace, RULE) == (1, 480, 480)
    assert found(trace, "unseen_rank") is None


def test_all_to_all_is_no_pipeline(tmp_path: Path) -> None:
    """NCCL does it with sends and receives, too."""
    step = GpuStep().kernel("gemm", 300)
    step.trace.annotation("nccl:all_to_all", step.cpu, FIRST_US)
    step.kernel("ncclDevKernel_SendRecv(ncclDevComm*)", 100, op="c10d::alltoall_base_")
    assert found(step.load(tmp_path), RULE) is None
