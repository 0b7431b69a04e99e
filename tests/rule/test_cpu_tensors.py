from pathlib import Path

from hotline_analysis import Trace
from tests.rule.loop import found
from tests.trace_builder import TraceBuilder

RULE = "cpu_tensors"


def computed(folder: Path, name: str, *, on_gpu: bool = False, loading: bool = False) -> Trace:
    """A step of 500 us, of which an op takes 200."""
    trace = TraceBuilder(rank=0).step(0, 0, 500).op("aten::mm", 0, 20).launches("gemm", 30, 100)
    if loading:
        trace.annotation("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", 100, 300)
    trace.op(name, 100, 300)
    if on_gpu:
        trace.launches("max", 120, 140)
    return trace.op("aten::mm", 300, 320).launches("gemm", 330, 500).load(folder)


def test_the_same_on_the_gpu_would_take_no_time(tmp_path: Path) -> None:
    assert found(computed(tmp_path, "aten::max"), RULE) == (1, 200, 200)


def test_an_op_that_launches_something_computes_on_the_gpu(tmp_path: Path) -> None:
    assert found(computed(tmp_path, "aten::max", on_gpu=True), RULE) is None


def test_a_view_computes_nothing(tmp_path: Path) -> None:
    assert found(computed(tmp_path, "aten::transpose"), RULE) is None


def test_loading_is_done_on_the_cpu_on_purpose(tmp_path: Path) -> None:
    assert found(computed(tmp_path, "aten::max", loading=True), RULE) is None


def test_without_a_gpu_there_is_no_other_place(tmp_path: Path) -> None:
    trace = TraceBuilder(rank=0).step(0, 0, 500).op("aten::max", 100, 300)
    assert found(trace.load(tmp_path), RULE) is None
