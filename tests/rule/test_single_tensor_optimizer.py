from pathlib import Path

from hotline_analysis import Trace
from tests.rule.loop import found
from tests.trace_builder import TraceBuilder

RULE = "single_tensor_optimizer"


def updated(folder: Path, *ops: str, mark: str = "Optimizer.step#Adam.step") -> Trace:
    """A step of 500 us that the CPU bounds, of which the optimizer takes 400: an op each 100 us, kernels of 5 us."""
    trace = TraceBuilder(rank=0).step(0, 0, 500).op("aten::mm", 0, 100).launches("gemm", 20, 30)
    trace.annotation(mark, 100, 500)
    for number, op in enumerate(ops):
        start = 100 + 100 * number
        trace.op(op, start, start + 80).launches("update", start + 10, start + 15)
    return trace.load(folder)


def test_one_update_for_all_parameters_takes_the_cpu_no_time(tmp_path: Path) -> None:
    """The four ops go, of 80 us each, and the python between them stays; the kernels are done before."""
    trace = updated(tmp_path, "aten::mul_", "aten::addcmul_", "aten::mul_", "aten::addcmul_")
    assert found(trace, RULE) == (4, 20, 320)


def test_updating_all_parameters_at_once_is_done_already(tmp_path: Path) -> None:
    ops = ("aten::_foreach_mul_", "aten::_foreach_addcmul_", "aten::add_", "aten::add_")
    assert found(updated(tmp_path, *ops), RULE) is None


def test_the_same_ops_outside_of_the_optimizer_are_none_of_it(tmp_path: Path) -> None:
    trace = updated(tmp_path, "aten::mul_", "aten::addcmul_", "aten::mul_", "aten::addcmul_", mark="forward")
    assert found(trace, RULE) is None


def test_an_optimizer_that_cannot_update_all_at_once_is_left_alone(tmp_path: Path) -> None:
    trace = updated(tmp_path, "aten::mul_", "aten::mul_", mark="Optimizer.step#LBFGS.step")
    assert found(trace, RULE) is None


def test_what_else_the_optimizer_does_stays(tmp_path: Path) -> None:
    """Two updates of 10 us in an optimizer of 400 us, most of which waits for something else: 4 % of the step."""
    trace = TraceBuilder(rank=0).step(0, 0, 500).op("aten::mm", 0, 100).launches("gemm", 20, 30)
    trace.annotation("Optimizer.step#Adam.step", 100, 500)
    for start in (100, 480):
        trace.op("aten::mul_", start, start + 10).launches("update", start + 2, start + 4)
    assert found(trace.load(tmp_path), RULE) == (2, 4, 20)
