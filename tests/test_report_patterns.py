"""What the report says of kernels that repeat."""

from __future__ import annotations

from pathlib import Path

import hotline_analysis as ha
from tests.trace_builder import TraceBuilder


def layers(busy: bool) -> TraceBuilder:
    """Ten layers of three short kernels, whose launch calls take 30 of each 100 us; or kernels that fill the time."""
    trace = TraceBuilder(rank=0).step(0, 0, 1000)
    for number in range(10):
        at = 100 * number
        trace.op("layer", at, at + 95)
        for part, name in enumerate(("gemm", "add", "relu")):
            call = at + 30 * part
            end = call + (40 if busy else 14)
            trace.launches(name, call + 11, end, at=call, until=call + 10)
        trace.on(1).op(f"log{number}", at + 95, at + 99).launches(
            f"other{number}", at + 97, at + 98, at=at + 95, until=at + 96, stream=8
        )
    return trace


def test_a_launch_bound_run_is_told_what_to_launch_at_once(tmp_path: Path) -> None:
    report = ha.report(layers(busy=False).load(tmp_path))
    assert report.findings[0].answer == "launch-bound"
    said = [text for text in report.advice if "repeats" in text]
    # ten times two calls of 10 us; the events are the step, the op, the call and then the first kernel
    assert said == [
        "A sequence of 3 kernels (gemm → add → relu; first is event 3) repeats 10 times. Launched at once each time,"
        " it saves 200 µs in launch calls (20.0 % of the steps): compile the module around it (torch.compile), or"
        " capture it in a CUDA graph."
    ]


def test_a_run_that_the_gpu_bounds_is_not(tmp_path: Path) -> None:
    report = ha.report(layers(busy=True).load(tmp_path))
    assert report.findings[0].answer == "gpu-bound"
    assert not [text for text in report.advice if "repeats" in text]
