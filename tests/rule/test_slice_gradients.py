"""A loop over 150 steps of time wrote `out[:, t] = h` and read `x[:, t]` (32 x 150 x 128, one thread): 1,304 ms a step.

With `unbind` and `stack` a step took 236 ms, 82 % less; the rule's bound on the recorded steps was 88 %.
"""

from pathlib import Path

from hotline_analysis import Trace
from tests.rule.loop import found
from tests.trace_builder import TraceBuilder

RULE = "slice_gradients"
ENGINE = "autograd::engine::evaluate_function: "


def node(trace: TraceBuilder, name: str, start: int, end: int, *, adds: bool = False) -> TraceBuilder:
    """A node of backward as the engine calls it, which may add its gradient to the one before."""
    trace.op(ENGINE + name, start, end).op(name, start, end - 10).op("aten::fill_", start, end - 20)
    return trace.op("aten::add_", end - 10, end) if adds else trace


def writing(folder: Path, *, writes: int = 12) -> Trace:
    """A step of 1,000 us on the CPU with nodes of writes, of 40 us each, and other work."""
    trace = TraceBuilder(rank=0).step(0, 0, 1000)
    for number in range(writes):
        node(trace, "torch::autograd::CopySlices", 40 * number, 40 * number + 40)
    return trace.op("aten::mm", 40 * writes, 1000).load(folder)


def reading(folder: Path, *, reads: int = 12, tensors: int = 1, name: str = "SelectBackward0") -> Trace:
    """A step of 2,000 us with nodes of reads, of 40 us each: the first one of each tensor adds nothing."""
    trace = TraceBuilder(rank=0).step(0, 0, 2000)
    for number in range(reads):
        node(trace, name, 40 * number, 40 * number + 40, adds=number % (reads // tensors) > 0)
    return trace.op("aten::mm", 40 * reads, 2000).load(folder)


def test_the_parts_are_written_once(tmp_path: Path) -> None:
    """Of twelve nodes of 40 us, one stays."""
    assert found(writing(tmp_path), RULE) == (11, 440, 440)


def test_a_few_writes_are_no_loop(tmp_path: Path) -> None:
    assert found(writing(tmp_path, writes=9), RULE) is None


def test_the_parts_are_read_once(tmp_path: Path) -> None:
    assert found(reading(tmp_path), RULE) == (11, 440, 440)


def test_two_halves_in_each_of_many_layers_are_no_loop(tmp_path: Path) -> None:
    """Rotary embeddings read two halves of each layer's tensor: one node of each two adds."""
    assert found(reading(tmp_path, reads=40, tensors=20, name="SliceBackward0"), RULE) is None


def test_other_nodes_of_a_loop_are_needed(tmp_path: Path) -> None:
    assert found(reading(tmp_path, name="AddmmBackward0"), RULE) is None


def test_on_a_gpu_the_kernels_go_as_well(tmp_path: Path) -> None:
    """A GPU that is busy for 100 us for each of twelve nodes, of which the CPU is 40 us busy: 11 kernels go."""
    trace = TraceBuilder(rank=0).step(0, 0, 1600)
    for number in range(12):
        node(trace, "torch::autograd::CopySlices", 40 * number, 40 * number + 40)
        trace.launches("copy", 100 + 100 * number, 200 + 100 * number, at=40 * number + 5)
    trace.op("aten::mm", 480, 500).launches("gemm", 1300, 1550, at=490)
    trace.runtime("cudaDeviceSynchronize", 510, 1560, correlation=10_000)
    count, time, gain = found(trace.load(tmp_path), RULE) or (0, 0, 0)
    assert (count, time) == (11, 1100)
    # the CPU begins to launch the next kernel 440 us earlier, and waits for it 10 us less than the GPU took
    assert 1050 <= gain <= 1110
