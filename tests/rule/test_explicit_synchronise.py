from pathlib import Path

from hotline_analysis import Trace
from tests.rule.loop import found
from tests.trace_builder import TraceBuilder

RULE = "explicit_synchronise"


def synchronised(folder: Path, *, inside: bool = False, more: bool = True) -> Trace:
    """A step of 400 us: a kernel runs until 170, for which the program waits from 20 to 180, and then works on."""
    trace = TraceBuilder(rank=0).step(0, 0, 400).op("aten::mm", 0, 10).launches("gemm", 20, 170, at=1)
    if inside:
        trace.op("aten::item", 15, 185)
    trace.runtime("cudaDeviceSynchronize", 20, 180, correlation=50)
    if more:
        trace.op("aten::relu", 380, 390).launches("relu", 390, 400)
    return trace.load(folder)


def test_the_program_no_longer_waits(tmp_path: Path) -> None:
    """The call takes 160 us, 150 of them with a busy GPU, which then is done before the CPU."""
    count, time, gain = found(synchronised(tmp_path), RULE) or (0, 0, 0)
    assert (count, time) == (1, 160)
    assert 150 <= gain <= 160


def test_an_op_that_waits_is_another_finding(tmp_path: Path) -> None:
    assert found(synchronised(tmp_path, inside=True), RULE) is None


def test_the_last_wait_of_a_trace_ends_the_measurement(tmp_path: Path) -> None:
    assert found(synchronised(tmp_path, more=False), RULE) is None
