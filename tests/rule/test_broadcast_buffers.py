from pathlib import Path

from hotline_analysis import Trace
from tests.rule.loop import found
from tests.trace_builder import TraceBuilder

RULE = "broadcast_buffers"


def forward(folder: Path, *, collective: str = "c10d::broadcast_", around: str = "forward") -> Trace:
    """A step of 400 us that the CPU bounds. Forward begins with 100 us of sending buffers, then comes the first op."""
    trace = TraceBuilder(rank=0, world_size=2).step(0, 0, 400)
    trace.annotation(f"DistributedDataParallel.{around}", 0, 300)
    trace.op("aten::cat", 10, 30).launches("cat", 32, 34)
    trace.op(collective, 40, 60).launches("ncclDevKernel_Broadcast_RING_LL", 62, 64, stream=20)
    trace.op("aten::copy_", 70, 90).launches("copy", 92, 94)
    trace.op("aten::conv2d", 100, 120).launches("conv", 122, 130)
    trace.op("aten::relu", 200, 220).launches("relu", 222, 230)
    return trace.load(folder)


def test_forward_begins_with_the_first_op_that_computes(tmp_path: Path) -> None:
    assert found(forward(tmp_path), RULE) == (1, 100, 100)


def test_another_collective_in_forward_belongs_to_the_model(tmp_path: Path) -> None:
    assert found(forward(tmp_path, collective="c10d::allreduce_"), RULE) is None


def test_a_broadcast_outside_of_forward_is_none_of_buffers(tmp_path: Path) -> None:
    assert found(forward(tmp_path, around="other"), RULE) is None
