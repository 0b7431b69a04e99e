"""A trace in which launches are recorded into a CUDA graph."""

from tests.trace_builder import TraceBuilder


def captured(inside: int, outside: int) -> TraceBuilder:
    """Launches that are recorded into a graph, and others that run."""
    trace = TraceBuilder().step(3, 0, 1000).op("capture", 0, 500).runtime("cudaStreamBeginCapture", 10, 12)
    for number in range(inside):
        trace.runtime("cudaLaunchKernel", 20 + 2 * number, 21 + 2 * number, correlation=500 + number)
    trace.runtime("cudaStreamEndCapture", 400, 402).op("replay", 500, 900)
    for number in range(outside):
        trace.launches("k", 510 + 20 * number, 520 + 20 * number, at=505 + 20 * number)
    return trace
