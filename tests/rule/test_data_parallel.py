from pathlib import Path

from hotline_analysis import Trace
from tests.rule.loop import found
from tests.trace_builder import TraceBuilder

RULE = "data_parallel"


def parallel(folder: Path, *, other_device: int = 1, copying: str = "Broadcast") -> Trace:
    """A step of 500 us that the CPU bounds: 200 us for copies of the model, and kernels on two GPUs."""
    trace = TraceBuilder(rank=0).step(0, 0, 500).op(copying, 0, 200).launches("copy", 10, 20)
    trace.op("aten::mm", 200, 300).launches("gemm", 210, 220, device=0)
    return trace.op("aten::mm", 300, 500).launches("gemm", 310, 320, device=other_device).load(folder)


def test_a_process_for_each_gpu_keeps_its_model(tmp_path: Path) -> None:
    assert found(parallel(tmp_path), RULE) == (1, 200, 200)


def test_one_gpu_is_no_data_parallel(tmp_path: Path) -> None:
    assert found(parallel(tmp_path, other_device=0), RULE) is None


def test_other_ops_on_several_gpus_are_meant(tmp_path: Path) -> None:
    assert found(parallel(tmp_path, copying="aten::to"), RULE) is None
