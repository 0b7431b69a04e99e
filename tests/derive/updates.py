"""Steps with what comes between backward and the optimizer."""

from tests.trace_builder import TraceBuilder

ACCUMULATE = "torch::autograd::AccumulateGrad"
CHECK = "aten::_amp_foreach_non_finite_check_and_unscale_"


def updating(*starts: int) -> TraceBuilder:
    """A step whose backward adds up four gradients, and then updates in place at these times."""
    trace = TraceBuilder().step(0, 0, 200).annotation("backward", 0, 50)
    for number in range(4):
        trace.op(ACCUMULATE, 10 * number, 10 * number + 5)
    for start in starts:
        trace.op("aten::add_", start, start + 5)
    return trace


def trained() -> TraceBuilder:
    """A step whose backward ends at 60."""
    trace = TraceBuilder().step(0, 0, 300).op("aten::linear", 10, 20, seq=1).op("aten::mse_loss", 20, 30, seq=2)
    return trace.backward("MseLossBackward0", 40, 50, seq=2).backward("LinearBackward0", 50, 60, seq=1)


def clipped() -> TraceBuilder:
    """Norms of two gradients from 70, the norm of these, a coefficient, two products to 110, then an optimizer."""
    trace = trained().op("aten::linalg_vector_norm", 70, 72).op("aten::linalg_vector_norm", 74, 76)
    trace.op("aten::stack", 78, 80).op("aten::linalg_vector_norm", 82, 84).op("aten::reciprocal", 86, 88)
    trace.op("aten::clamp", 90, 92).op("aten::mul_", 100, 104).op("aten::mul_", 106, 110)
    return trace.annotation("Optimizer.step#SGD.step", 200, 290).op("aten::_foreach_add_", 210, 280)


def scaled() -> TraceBuilder:
    """A step of a gradient scaler: it unscales from 70 to 80, reads its flag until the optimizer, and ends at 200."""
    trace = trained().op("aten::reciprocal", 70, 72).op(CHECK, 74, 80).op("aten::item", 90, 95)
    return trace.annotation("Optimizer.step#SGD.step", 100, 190).op("aten::_amp_update_scale_", 195, 200)
