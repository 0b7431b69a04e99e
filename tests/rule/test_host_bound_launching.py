from pathlib import Path

from hotline_analysis import Trace
from hotline_analysis.answers.rules import find_advice
from tests.rule.loop import GpuStep, found
from tests.trace_builder import TraceBuilder

RULE = "host_bound_launching"


def launching(folder: Path, *, around: str | None = None, call: str = "cudaLaunchKernel") -> Trace:
    """A step of 400 us, in which the CPU takes 360 for four ops, whose kernels take 5 us each, and 40 for python."""
    trace = TraceBuilder(rank=0).step(0, 0, 400).frame("train.py(1): main", 0, 400)
    if around is not None:
        trace.op(around, 0, 360)
    for start in range(0, 360, 90):
        trace.op("aten::relu", start, start + 90).launches("relu", start + 10, start + 15, call=call)
    return trace.load(folder)


def test_ops_take_the_cpu_no_time(tmp_path: Path) -> None:
    """What is left is the longer one of 40 us of python and 4 x 5 us of kernels."""
    trace = launching(tmp_path)
    assert found(trace, RULE) == (1, 360, 360)
    (said,) = find_advice(trace, rules=(RULE,))
    assert said.what == "The CPU needs 90.0 µs to launch work that runs for 5.00 µs: once, 360 µs"


def test_long_times_have_their_own_unit(tmp_path: Path) -> None:
    """One op of 3.7 ms launches a kernel of 250 us."""
    trace = TraceBuilder(rank=0).step(0, 0, 4000).op("aten::mm", 0, 3700).launches("gemm", 10, 260).load(tmp_path)
    (said,) = find_advice(trace, rules=(RULE,))
    assert said.what == "The CPU needs 3.70 ms to launch work that runs for 250 µs: once, 3.70 ms"


def test_compiled_code_is_another_finding(tmp_path: Path) -> None:
    assert found(launching(tmp_path, around="Torch-Compiled Region: 0/0"), RULE) is None


def test_where_the_gpu_takes_longer_launching_costs_nothing(tmp_path: Path) -> None:
    step = GpuStep()
    for _ in range(10):
        step.kernel("gemm", 50, op="aten::mm")
    assert found(step.load(tmp_path), RULE) is None
