from pathlib import Path

from hotline_analysis import Trace
from tests.rule.loop import found
from tests.trace_builder import TraceBuilder

RULE = "pageable_copies"


def copied(folder: Path, kind: str) -> Trace:
    """A step of 400 us on the CPU: a kernel runs from 20 to 170, and the call of a copy returns when both are done.

    Then the CPU works for 200 us more, beside which the kernel could have run.
    """
    trace = TraceBuilder(rank=0).step(0, 0, 400).op("aten::mm", 0, 10).launches("gemm", 20, 170, at=1)
    trace.op("aten::copy_", 10, 200).runtime("cudaMemcpyAsync", 12, 198, correlation=50)
    return trace.gpu("gpu_memcpy", f"Memcpy {kind}", 170, 190, correlation=50).load(folder)


def test_the_call_no_longer_waits_for_the_kernel_and_its_copy(tmp_path: Path) -> None:
    """The call is there while the GPU is busy from 20 to 190. Without the wait, the GPU is done long before the CPU."""
    count, time, gain = found(copied(tmp_path, "HtoD (Pageable -> Device)"), RULE) or (0, 0, 0)
    assert (count, time) == (1, 186)
    assert 170 <= gain <= 186


def test_pinned_memory_is_pinned_already(tmp_path: Path) -> None:
    assert found(copied(tmp_path, "HtoD (Pinned -> Device)"), RULE) is None


def test_a_copy_on_the_device_needs_no_pinned_memory(tmp_path: Path) -> None:
    assert found(copied(tmp_path, "DtoD (Device -> Device)"), RULE) is None


def test_reading_a_value_back_is_another_finding(tmp_path: Path) -> None:
    assert found(copied(tmp_path, "DtoH (Device -> Pageable)"), RULE) is None
