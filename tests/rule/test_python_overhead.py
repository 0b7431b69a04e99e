from pathlib import Path

from hotline_analysis import Trace
from tests.rule.loop import GpuStep, found
from tests.trace_builder import TraceBuilder

RULE = "python_overhead"


def running(folder: Path, *, phase: str = "forward", op_until: int = 100) -> Trace:
    """A step of 400 us that the CPU bounds: two ops, and python from where the first one ends to 300."""
    trace = TraceBuilder(rank=0).step(0, 0, 400).annotation(f"## {phase} ##", 0, 400)
    trace.frame("model.py(3): forward", 0, 400)
    trace.op("aten::mm", 0, op_until).launches("gemm", 10, 20)
    return trace.op("aten::relu", 300, 400).launches("relu", 310, 320).load(folder)


def test_the_next_op_follows_at_once(tmp_path: Path) -> None:
    assert found(running(tmp_path), RULE) == (1, 200, 200)


def test_the_engine_of_autograd_is_no_python(tmp_path: Path) -> None:
    assert found(running(tmp_path, phase="backward"), RULE) is None


def test_where_ops_follow_each_other_there_is_none(tmp_path: Path) -> None:
    assert found(running(tmp_path, op_until=300), RULE) is None


def test_python_that_the_gpu_hides_costs_nothing(tmp_path: Path) -> None:
    step = GpuStep()
    step.trace.annotation("## forward ##", 0, 60)
    for _ in range(3):
        step.kernel("gemm", 500, op="aten::mm")
        step.cpu += 10
    assert found(step.load(tmp_path), RULE) is None
