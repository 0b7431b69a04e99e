"""A loop that updates its weights in some iterations only."""

from tests.trace_builder import TraceBuilder

ACCUMULATE = "torch::autograd::AccumulateGrad"


def updating(*starts: int) -> TraceBuilder:
    """A step whose backward adds up four gradients, and then updates in place at these times."""
    trace = TraceBuilder().step(0, 0, 200).annotation("backward", 0, 50)
    for number in range(4):
        trace.op(ACCUMULATE, 10 * number, 10 * number + 5)
    for start in starts:
        trace.op("aten::add_", start, start + 5)
    return trace
