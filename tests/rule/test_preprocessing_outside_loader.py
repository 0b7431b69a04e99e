from pathlib import Path

from tests.rule.loop import found
from tests.trace_builder import TraceBuilder

RULE = "preprocessing_outside_loader"


def prepared(*, own: str = "video.py(30): decode") -> TraceBuilder:
    """A step of 500 us, which begins with 300 us of python before the first work of the GPU."""
    trace = TraceBuilder(rank=0).step(0, 0, 500).frame("train.py(3): main", 0, 500).frame(own, 0, 300)
    return trace.module("Net", 0, 300, 400).op("aten::mm", 300, 320).launches("gemm", 330, 500)


def test_the_data_is_there_when_it_is_asked_for(tmp_path: Path) -> None:
    assert found(prepared().load(tmp_path), RULE) == (1, 300, 300)


def test_where_a_loader_gives_the_data_there_is_no_other_one_to_blame(tmp_path: Path) -> None:
    trace = prepared().annotation("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", 0, 10)
    assert found(trace.load(tmp_path), RULE) is None


def test_preparing_that_no_step_waits_for_costs_nothing(tmp_path: Path) -> None:
    """The GPU is busy all the time."""
    trace = TraceBuilder(rank=0)
    for number in range(3):
        start = number * 1000
        trace.step(number, start, start + 400).frame("video.py(30): decode", start, start + 300)
        trace.module("Net", 0, start + 300, start + 400).op("aten::mm", start + 300, start + 320)
        trace.launches("gemm", start + 330, start + 1320)
    assert found(trace.load(tmp_path), RULE) is None
