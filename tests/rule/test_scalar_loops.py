"""A loop that reads and caps 1,000 scores one by one: 63.6 ms a step, with one `clamp_` 1.6 ms, 97 % less.

The rule's bound on the recorded steps was 89 %: what the loop writes in some rounds stays.
"""

from pathlib import Path

from hotline_analysis import Trace
from tests.rule.loop import found
from tests.trace_builder import TraceBuilder

RULE = "scalar_loops"


def reading(folder: Path, *, rounds: int = 20, ops: int = 3, optimizer: bool = False, model: int = 0) -> Trace:
    """A step of 2,000 us on the CPU, with rounds of 50 us: ops of 5 us, a value that is read, and 10 us of python.

    The first op of the first `model` rounds contains a product.
    """
    trace = TraceBuilder(rank=0).step(0, 0, 2000)
    if optimizer:
        trace.annotation("Optimizer.step#Adam.step", 0, 50 * rounds)
    for number in range(rounds):
        start = 50 * number
        width = 30 // ops
        for place in range(ops):
            trace.op("aten::select", start + width * place, start + width * place + 1)
        if number < model:
            trace.op("aten::linear", start + 1, start + 8).op("aten::addmm", start + 2, start + 7)
        trace.op("aten::item", start + 30, start + 40).op("aten::_local_scalar_dense", start + 31, start + 39)
    return trace.op("aten::mm", 50 * rounds, 2000).load(folder)


def test_one_round_stays(tmp_path: Path) -> None:
    """Nineteen rounds take 50 us with the python before them, and the first one 40."""
    assert found(reading(tmp_path), RULE) == (20, 990, 940)


def test_a_few_values_are_no_loop(tmp_path: Path) -> None:
    assert found(reading(tmp_path, rounds=9), RULE) is None


def test_much_work_between_two_values_is_not_made_for_them(tmp_path: Path) -> None:
    assert found(reading(tmp_path, ops=20), RULE) is None


def test_the_optimizer_counts_its_steps(tmp_path: Path) -> None:
    """Adam reads the step of each parameter (`_get_value` in torch/optim/optimizer.py)."""
    assert found(reading(tmp_path, optimizer=True), RULE) is None


def test_a_model_computes_the_values_of_text_generation(tmp_path: Path) -> None:
    """Each token takes a pass of the model, whose value is read: no loop over the elements of a tensor."""
    assert found(reading(tmp_path, model=20), RULE) is None


def test_the_pass_before_the_loop_is_not_in_the_loop(tmp_path: Path) -> None:
    """Of 20 rounds, the first computes the tensor: 19 take 50 us each with the python before them, less the first."""
    assert found(reading(tmp_path, model=1), RULE) == (19, 950, 900)
