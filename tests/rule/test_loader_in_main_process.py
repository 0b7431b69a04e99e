from pathlib import Path

from hotline_analysis import Trace
from tests.rule.loop import found
from tests.trace_builder import TraceBuilder

RULE = "loader_in_main_process"


def loaded(folder: Path, annotation: str) -> Trace:
    """A step of 500 us, of which the loader takes 300."""
    trace = TraceBuilder(rank=0).step(0, 0, 500).annotation(annotation, 0, 300)
    return trace.op("aten::mm", 300, 320).launches("gemm", 330, 500).load(folder)


def test_the_batch_is_there_when_it_is_asked_for(tmp_path: Path) -> None:
    trace = loaded(tmp_path, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__")
    assert found(trace, RULE) == (1, 300, 300)


def test_a_loader_with_workers_has_workers(tmp_path: Path) -> None:
    assert found(loaded(tmp_path, "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"), RULE) is None


def test_without_a_loader_there_is_none_to_give_workers(tmp_path: Path) -> None:
    assert found(loaded(tmp_path, "load data"), RULE) is None
