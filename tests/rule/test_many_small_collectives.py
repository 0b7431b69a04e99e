from pathlib import Path

from tests.rule.loop import GpuStep, found
from tests.trace_builder import TraceBuilder

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


def calls(op: str, inside: str | None = None) -> TraceBuilder:
    """A step that the CPU bounds: three gradients, and after each an op of 50 us that launches a reduction.

    The call of the runtime takes 4 us; the second reduction is the longest.
    """
    trace = TraceBuilder(rank=0).step(0)
    trace.annotation("## backward ##", 0, 1000)
    for number, duration in enumerate((1, 2, 1)):
        start = 100 * number
        trace.op("torch::autograd::AccumulateGrad", start, start + 10)
        trace.op(op, start + 20, start + 70)
        if inside is not None:
            trace.op(inside, start + 25, start + 69)
        trace.launches(REDUCE, start + 60, start + 60 + duration, at=start + 30, until=start + 34)
    trace.annotation("## optimizer ##", 1000, 1100)
    return trace


def saved_by_the_host(trace: TraceBuilder, folder: Path) -> list[tuple[int, int]]:
    """Start and time saved of what the CPU does less, in microseconds."""
    rows = trace.load(folder).query(RULE, rank=0, step=0).filter(effect="host").sort("start_ns")
    return [(start // 1000, saved // 1000) for start, saved in rows.select("start_ns", "saved_ns").rows()]


def test_all_that_the_op_of_a_collective_does_is_saved(tmp_path: Path) -> None:
    trace = calls("c10d::allreduce_", "record_param_comms")
    assert saved_by_the_host(trace, tmp_path) == [(20, 50), (220, 50)]


def test_of_an_op_that_does_else_as_well_only_the_launch_is_saved(tmp_path: Path) -> None:
    trace = calls("torch::distributed::reducer::mul_out")
    assert saved_by_the_host(trace, tmp_path) == [(30, 4), (230, 4)]


def test_an_op_that_launches_several_kernels_is_saved_once(tmp_path: Path) -> None:
    trace = calls("c10d::allreduce_")
    trace.launches(REDUCE, 262, 263, at=240, until=244)
    assert saved_by_the_host(trace, tmp_path) == [(20, 50), (220, 50)]
