from pathlib import Path

from hotline_analysis import Trace
from tests.rule.loop import found
from tests.trace_builder import TraceBuilder

RULE = "zero_grad_writes"


def cleared(folder: Path, *, mark: str = "Optimizer.zero_grad#SGD.zero_grad", writes: bool = True) -> Trace:
    """A step of 500 us that the CPU bounds, of which clearing gradients takes 100."""
    trace = TraceBuilder(rank=0).step(0, 0, 500).annotation(mark, 0, 100)
    if writes:
        trace.op("aten::zero_", 0, 50).launches("fill", 20, 30).op("aten::zero_", 50, 100).launches("fill", 60, 70)
    return trace.op("aten::mm", 100, 500).launches("gemm", 200, 400).load(folder)


def test_releasing_gradients_takes_no_time(tmp_path: Path) -> None:
    assert found(cleared(tmp_path), RULE) == (2, 20, 100)


def test_gradients_that_are_released_are_written_nowhere(tmp_path: Path) -> None:
    assert found(cleared(tmp_path, writes=False), RULE) is None


def test_zeros_written_elsewhere_are_meant(tmp_path: Path) -> None:
    assert found(cleared(tmp_path, mark="clear"), RULE) is None
