"""An LSTMCell called for 120 steps of time (32 x 64, one thread): 219 ms a step, with nn.LSTM 43 ms, 80 % less.

The rule's bound on the recorded steps was 79 %.
"""

from pathlib import Path

from hotline_analysis import Trace
from tests.rule.loop import found
from tests.trace_builder import TraceBuilder

RULE = "module_loop"


def looping(folder: Path, *, kind: str = "LSTMCell", calls: int = 20, micro_batches: int = 1) -> Trace:
    """A step of 2,000 us on the CPU: a net calls a linear layer once, and a module again and again.

    Each call takes 50 us, of which a product takes 10, another op 20, and python the rest.
    """
    trace = TraceBuilder(rank=0).step(0, 0, 2000)
    each = 50 * (calls + 1)
    for batch in range(micro_batches):
        at = each * batch
        trace.module("Net", 0, at, at + each)
        trace.module("Linear", 1, at, at + 50).op("aten::addmm", at + 10, at + 20, seq=1000 * batch)
        for number in range(1, calls + 1):
            start = at + 50 * number
            trace.module(kind, 2, start, start + 50)
            trace.op("aten::addmm", start + 5, start + 15, seq=1000 * batch + number)
            trace.op("aten::sigmoid", start + 20, start + 40, seq=1000 * batch + number)
    return trace.op("aten::mul", 1990, 2000).load(folder)


def test_of_a_cell_half_of_the_products_stay(tmp_path: Path) -> None:
    """Of 20 calls of 50 us, half of products of 10 us stays."""
    assert found(looping(tmp_path), RULE) == (20, 1000, 900)


def test_of_another_module_the_ops_stay(tmp_path: Path) -> None:
    """Of 20 calls of 50 us, ops of 30 us stay."""
    assert found(looping(tmp_path, kind="Linear"), RULE) == (20, 1000, 400)


def test_a_few_calls_are_no_loop(tmp_path: Path) -> None:
    assert found(looping(tmp_path, calls=9), RULE) is None


def test_micro_batches_call_all_modules_as_often(tmp_path: Path) -> None:
    assert found(looping(tmp_path, calls=1, micro_batches=12), RULE) is None


def test_a_shared_activation_is_no_loop(tmp_path: Path) -> None:
    trace = TraceBuilder(rank=0).step(0, 0, 2000).module("Net", 0, 0, 1500)
    for start in range(0, 1500, 100):
        trace.op("aten::addmm", start, start + 50)
        trace.module("ReLU", 1, start + 50, start + 90).op("aten::relu", start + 60, start + 70)
    assert found(trace.op("aten::mul", 1990, 2000).load(tmp_path), RULE) is None
