from pathlib import Path

from hotline_analysis import Trace
from tests.rule.loop import found
from tests.trace_builder import TraceBuilder

RULE = "tiny_kernels"


def launched(folder: Path, duration: int, *, inside: str = "aten::op") -> Trace:
    """Ten ops of 20 us, each with a call of 8 us, whose kernels run at once."""
    trace = TraceBuilder(rank=0).step(0)
    for number in range(10):
        start = 20 * number
        trace.op(inside, start, start + 20).op("aten::add", start, start + 20)
        trace.launches("add", start + 12, start + 12 + duration, at=start + 4, until=start + 12)
    return trace.load(folder)


def test_neither_they_nor_their_calls_take_time(tmp_path: Path) -> None:
    """The CPU bounds the step, which is 200 us long: ten calls of 8 us go."""
    assert found(launched(tmp_path, 3), RULE) == (10, 30, 80)


def test_kernels_that_take_longer_than_their_calls_are_worth_them(tmp_path: Path) -> None:
    assert found(launched(tmp_path, 8), RULE) is None


def test_compiled_code_has_advice_of_its_own(tmp_path: Path) -> None:
    assert found(launched(tmp_path, 3, inside="Torch-Compiled Region: 0/0"), RULE) is None
