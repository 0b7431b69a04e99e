from pathlib import Path

from hotline_analysis import Trace
from tests.rule.loop import found
from tests.trace_builder import TraceBuilder

RULE = "read_backs"


def read(folder: Path, *, kind: str = "DtoH (Device -> Pageable)", more: bool = True) -> Trace:
    """A step of 400 us: a kernel runs until 170, a value is read back until 200; then the CPU works for 200 us more.

    Only if there is `more` does it launch something after that.
    """
    trace = TraceBuilder(rank=0).step(0, 0, 400).op("aten::mm", 0, 10).launches("gemm", 20, 170, at=1)
    trace.op("aten::item", 10, 200).op("aten::_local_scalar_dense", 10, 200)
    trace.runtime("cudaMemcpyAsync", 12, 22, correlation=50).runtime("cudaStreamSynchronize", 22, 198, correlation=51)
    trace.gpu("gpu_memcpy", f"Memcpy {kind}", 170, 180, correlation=50)
    if more:
        trace.op("aten::relu", 380, 390).launches("relu", 390, 400)
    return trace.load(folder)


def test_the_cpu_no_longer_waits_for_the_gpu(tmp_path: Path) -> None:
    """Two calls wait, for 10 and 176 us, up to 180 with a busy GPU, which then is done before the CPU."""
    count, time, gain = found(read(tmp_path), RULE) or (0, 0, 0)
    assert (count, time) == (2, 10 + 176)
    assert 158 <= gain <= 186


def test_the_last_value_of_a_trace_is_its_result(tmp_path: Path) -> None:
    assert found(read(tmp_path, more=False), RULE) is None


def test_waiting_for_a_copy_to_the_gpu_reads_nothing_back(tmp_path: Path) -> None:
    trace = TraceBuilder(rank=0).step(0, 0, 400).op("aten::mm", 0, 10).launches("gemm", 20, 170, at=1)
    trace.op("aten::copy_", 10, 200).runtime("cudaMemcpyAsync", 12, 198, correlation=50)
    trace.gpu("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", 170, 190, correlation=50)
    trace.op("aten::relu", 380, 390).launches("relu", 390, 400)
    assert found(trace.load(tmp_path), RULE) is None
