"""The view `gradient`: the size of a gradient by its shape and type."""

from pathlib import Path

from tests.trace_builder import TraceBuilder

SIZES = {"float": 48, "c10::BFloat16": 24, "c10::Float8_e4m3fn": 12, "c10::complex<c10::Half>": 48, "double": 96}


def test_bytes_of_twelve_elements(tmp_path: Path) -> None:
    trace = TraceBuilder(rank=0).step(0, 0, 100)
    for number, name in enumerate([*SIZES, "unheard of"]):
        shapes = {"Input Dims": [[3, 4]], "Input type": [name]}
        trace.complete("cpu_op", "torch::autograd::AccumulateGrad", 10 + 2 * number, 11 + 2 * number, shapes)
    with trace.load(tmp_path) as opened:
        rows = opened.sql("select dtype, bytes from gradient order by start_ns").rows()
    assert rows == [*SIZES.items(), ("unheard of", None)]
