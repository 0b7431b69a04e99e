from pathlib import Path

import pytest

from hotline_analysis import Trace
from tests.rule.loop import found
from tests.trace_builder import TraceBuilder

RULE = "garbage_collection"


def collecting(folder: Path, frame: str) -> Trace:
    """A step of 500 us that the CPU bounds, of which a call takes 150."""
    trace = TraceBuilder(rank=0).step(0, 0, 500).frame("train.py(3): main", 0, 500).frame(frame, 20, 170)
    return trace.op("aten::mm", 200, 500).launches("gemm", 210, 220).load(folder)


@pytest.mark.parametrize(
    "frame",
    [
        "<built-in function collect of module object at 0x7f>",
        "/usr/lib/python3/site-packages/torch/cuda/memory.py(160): empty_cache",
    ],
)
def test_the_loop_goes_on_without_the_call(tmp_path: Path, frame: str) -> None:
    assert found(collecting(tmp_path, frame), RULE) == (1, 150, 150)


@pytest.mark.parametrize("frame", ["<built-in method collect of Loader object at 0x7f>", "cache.py(3): empty_cache"])
def test_functions_of_others_with_such_names_are_theirs(tmp_path: Path, frame: str) -> None:
    assert found(collecting(tmp_path, frame), RULE) is None
