from pathlib import Path

from hotline_analysis import Trace
from tests.rule.loop import found
from tests.trace_builder import TraceBuilder

RULE = "cpu_optimizer_not_fused"


def updated(folder: Path, *ops: str, gpu: bool = False, optimizer: str = "Adam") -> Trace:
    """A step of 500 us on the CPU, of which the optimizer takes 400: an op of 80 us each, and 20 of python."""
    trace = TraceBuilder(rank=0).step(0, 0, 500).op("aten::mm", 0, 100)
    if gpu:
        trace.launches("gemm", 20, 30)
    trace.annotation(f"Optimizer.step#{optimizer}.step", 100, 500)
    for number, op in enumerate(ops):
        trace.op(op, 100 + 100 * number, 180 + 100 * number)
    return trace.load(folder)


def test_one_pass_takes_as_long_as_the_longest_op(tmp_path: Path) -> None:
    """The four ops take 320 us; `addcmul_` and `mul_` take the same, of which one stays: 400 us less 160."""
    trace = updated(tmp_path, "aten::mul_", "aten::addcmul_", "aten::mul_", "aten::addcmul_")
    assert found(trace, RULE) == (8, 400, 240)


def test_a_fused_optimizer_does_one_pass(tmp_path: Path) -> None:
    assert found(updated(tmp_path, "aten::mul_", "aten::mul_", "aten::_fused_adam_"), RULE) is None


def test_on_a_gpu_it_is_another_finding(tmp_path: Path) -> None:
    trace = updated(tmp_path, "aten::mul_", "aten::addcmul_", "aten::mul_", "aten::addcmul_", gpu=True)
    assert found(trace, RULE) is None


def test_an_optimizer_that_cannot_be_fused_is_left_alone(tmp_path: Path) -> None:
    assert found(updated(tmp_path, "aten::mul_", "aten::mul_", optimizer="LBFGS"), RULE) is None
