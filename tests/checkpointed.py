"""A training that computes activations again in backward."""

from __future__ import annotations

from tests.trace_builder import TraceBuilder


def training() -> TraceBuilder:
    """Two layers, each 100 us: one saves 600 and 100 bytes (its output), the other 300 and 50. Backward is 400 us."""
    trace = TraceBuilder(rank=0)
    for step in (1, 2, 3):
        at = 1000 * step
        total = 0

        def block(nbytes: int, when: int, address: int) -> None:
            nonlocal total
            total += nbytes
            trace.memory(nbytes, when, total=total, address=address)

        trace.step(step, at, at + 1000).annotation("## forward ##", at, at + 300)
        trace.module("Net", 0, at + 1, at + 299)
        for layer, (inner, output) in enumerate(((600, 100), (300, 50))):
            begin = at + 10 + 120 * layer
            trace.module("Layer", layer, begin, begin + 100)
            trace.op("aten::exp", begin + 10, begin + 40, seq=2 * layer)
            block(inner, begin + 20, 10 * layer + 1)
            trace.op("aten::neg", begin + 50, begin + 90, seq=2 * layer + 1)
            block(output, begin + 60, 10 * layer + 2)
        trace.annotation("## backward ##", at + 300, at + 900)
        for number, (name, address, nbytes) in enumerate(
            (("NegBackward0", 12, 50), ("ExpBackward0", 11, 300), ("NegBackward0", 2, 100), ("ExpBackward0", 1, 600))
        ):
            begin = at + 400 + 100 * number
            trace.op(f"autograd::engine::evaluate_function: {name}", begin, begin + 90)
            trace.backward(name, begin + 1, begin + 80, seq=3 - number)
            block(-nbytes, begin + 85, address)
    return trace
