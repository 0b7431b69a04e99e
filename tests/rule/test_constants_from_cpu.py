from pathlib import Path

from hotline_analysis import Trace
from tests.rule.loop import found
from tests.trace_builder import TraceBuilder

RULE = "constants_from_cpu"


def copied(folder: Path, *, nbytes: int = 8, kind: str = "HtoD (Pinned -> Device)", place: str = "forward") -> Trace:
    """A step of 500 us that the CPU bounds, of which an op that copies a tensor takes 100."""
    trace = TraceBuilder(rank=0).step(0, 0, 500).annotation(f"## {place} ##", 0, 500)
    trace.op("aten::mm", 0, 200).launches("gemm", 20, 30)
    trace.op("aten::to", 200, 300).op("aten::copy_", 210, 290)
    trace.launches(f"Memcpy {kind}", 220, 224, at=212, call="cudaMemcpyAsync", category="gpu_memcpy", bytes=nbytes)
    return trace.op("aten::relu", 300, 500).launches("relu", 310, 320).load(folder)


def test_a_constant_on_the_gpu_needs_no_copy(tmp_path: Path) -> None:
    """Neither the copy of 4 us nor the outermost op around it, of 100 us."""
    assert found(copied(tmp_path), RULE) == (1, 4, 100)


def test_more_than_a_page_may_be_a_batch(tmp_path: Path) -> None:
    assert found(copied(tmp_path, nbytes=4097), RULE) is None


def test_reading_a_value_is_another_finding(tmp_path: Path) -> None:
    assert found(copied(tmp_path, kind="DtoH (Device -> Pinned)"), RULE) is None
