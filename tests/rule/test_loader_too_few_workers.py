from pathlib import Path

from hotline_analysis import Trace
from tests.rule.loop import found
from tests.trace_builder import TraceBuilder

RULE = "loader_too_few_workers"
WORKERS = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"


def loaded(folder: Path, annotation: str) -> Trace:
    """A step of 500 us, of which the CPU waits 300 for a batch."""
    trace = TraceBuilder(rank=0).step(0, 0, 500).annotation(annotation, 0, 300)
    return trace.op("aten::mm", 300, 320).launches("gemm", 330, 500).load(folder)


def test_the_batch_is_there_when_it_is_asked_for(tmp_path: Path) -> None:
    assert found(loaded(tmp_path, WORKERS), RULE) == (1, 300, 300)


def test_a_loader_without_workers_is_another_finding(tmp_path: Path) -> None:
    assert found(loaded(tmp_path, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"), RULE) is None


def test_a_wait_beside_which_the_gpu_is_busy_costs_nothing(tmp_path: Path) -> None:
    """The kernels of a step take 990 us, and the CPU is done after 330."""
    trace = TraceBuilder(rank=0)
    for number in range(3):
        start = number * 1000
        trace.step(number, start, start + 330).annotation(WORKERS, start, start + 300)
        trace.op("aten::mm", start + 300, start + 320).launches("gemm", start + 330, start + 1320)
    assert found(trace.load(tmp_path), RULE) is None
