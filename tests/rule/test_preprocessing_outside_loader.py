from pathlib import Path

from tests.rule.loop import found
from tests.trace_builder import TraceBuilder

RULE = "preprocessing_outside_loader"


def prepared(*, copy: str = "HtoD") -> TraceBuilder:
    """A step of 500 us, which begins with 300 us of python; then a copy and a kernel are launched."""
    trace = TraceBuilder(rank=0).step(0, 0, 500).frame("train.py(3): main", 0, 500)
    trace.frame("video.py(30): decode", 0, 300).module("Net", 0, 300, 400).op("aten::mm", 300, 320)
    trace.launches(f"Memcpy {copy} (Pinned -> Device)", 310, 320, call="cudaMemcpyAsync", category="gpu_memcpy")
    return trace.launches("gemm", 330, 500)


def test_the_data_is_there_when_it_is_asked_for(tmp_path: Path) -> None:
    assert found(prepared().load(tmp_path), RULE) == (1, 300, 300)


def test_what_a_loader_gives_is_another_finding(tmp_path: Path) -> None:
    """Of the 300 us in which the program loads data, the loader takes 100 in the middle."""
    trace = prepared().annotation("load batch", 0, 300)
    trace.annotation("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", 100, 200)
    assert found(trace.load(tmp_path), RULE) == (2, 200, 200)


def test_what_never_gets_to_the_gpu_is_no_data(tmp_path: Path) -> None:
    assert found(prepared(copy="DtoD").load(tmp_path), RULE) is None


def test_preparing_that_no_step_waits_for_costs_nothing(tmp_path: Path) -> None:
    """The GPU is busy all the time."""
    trace = TraceBuilder(rank=0)
    for number in range(3):
        start = number * 1000
        trace.step(number, start, start + 400).frame("video.py(30): decode", start, start + 300)
        trace.module("Net", 0, start + 300, start + 400).op("aten::mm", start + 300, start + 320)
        trace.launches("Memcpy HtoD (Pinned -> Device)", start + 320, start + 330, category="gpu_memcpy")
        trace.launches("gemm", start + 330, start + 1320)
    assert found(trace.load(tmp_path), RULE) is None
