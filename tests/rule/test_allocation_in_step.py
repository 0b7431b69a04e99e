from pathlib import Path

import pytest

from hotline_analysis import Trace
from tests.rule.loop import found
from tests.trace_builder import TraceBuilder

RULE = "allocation_in_step"


def allocating(folder: Path, call: str, *, first: int = 0) -> Trace:
    """Three steps of 500 us that the CPU bounds, each from `first` on with a call of 150 us."""
    trace = TraceBuilder(rank=0)
    for number in range(3):
        start = 500 * number
        trace.step(number, start, start + 500).op("aten::empty", start, start + 200)
        if number >= first:
            trace.runtime(call, start + 20, start + 170, correlation=100 + number)
        trace.op("aten::mm", start + 200, start + 500).launches("gemm", start + 210, start + 220)
    return trace.load(folder)


@pytest.mark.slow
@pytest.mark.parametrize("call", ["cudaMalloc", "cudaFree", "hipMalloc", "cudaHostAlloc", "cuMemMap"])
@pytest.mark.sampled
def test_memory_is_there_already(tmp_path: Path, call: str) -> None:
    assert found(allocating(tmp_path, call), RULE) == (1, 150, 150)


def test_the_stream_ordered_allocator_is_quick_on_purpose(tmp_path: Path) -> None:
    assert found(allocating(tmp_path, "cudaMallocAsync"), RULE) is None


def test_the_first_step_has_to_allocate(tmp_path: Path) -> None:
    trace = TraceBuilder(rank=0).step(0, 0, 500).op("aten::empty", 0, 200).runtime("cudaMalloc", 20, 170, correlation=9)
    assert found(trace.op("aten::mm", 200, 500).launches("gemm", 210, 220).load(tmp_path), RULE) is None
