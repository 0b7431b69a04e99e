from pathlib import Path

from hotline_analysis import Trace
from tests.rule.loop import found
from tests.trace_builder import TraceBuilder

RULE = "full_queue"


def launching(folder: Path, kernels: int, *, then: int) -> Trace:
    """A step of launches of 1 us and kernels of 10 us, whose last launch waits for 1000 us; then the CPU goes on."""
    trace = TraceBuilder(rank=0).step(0, 0, kernels + 1000 + then).op("aten::loop", 0, kernels + 1000)
    for number in range(kernels):
        until = number + 1 if number + 1 < kernels else kernels + 1000
        trace.launches("relu", 10 + 10 * number, 20 + 10 * number, at=number, until=until)
    return trace.frame("train.py(1): log", kernels + 1000, kernels + 1000 + then).load(folder)


def test_the_cpu_goes_on_without_waiting(tmp_path: Path) -> None:
    """2200 us of launches and waiting, 15000 us of other work: without the waits, a thousand less."""
    waiting = [
        number for number in range(1200) if number + 1 - sum(10 + 10 * other <= number for other in range(1200)) > 1000
    ]
    count, time, gain = found(launching(tmp_path, 1200, then=15000), RULE) or (0, 0, 0)
    assert (count, time) == (len(waiting), len(waiting) + 1000)
    assert 1000 <= gain <= len(waiting) + 1000


def test_where_the_gpu_is_the_bottleneck_waiting_costs_nothing(tmp_path: Path) -> None:
    """The kernels take 12000 us, and the CPU is done after 2200."""
    assert found(launching(tmp_path, 1200, then=0), RULE) is None


def test_a_queue_that_is_not_full_makes_nobody_wait(tmp_path: Path) -> None:
    assert found(launching(tmp_path, 900, then=3000), RULE) is None
