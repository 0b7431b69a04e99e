import json
from pathlib import Path

from hotline_analysis import Trace
from tests.rule.loop import found
from tests.trace_builder import TraceBuilder

RULE = "slice_loops"


def looping(folder: Path, *, rounds: int = 12, moves: bool = True, recorded: bool = True) -> Trace:
    """A step that the CPU bounds, with rounds of 30 us: a slice, and an op on it that launches a kernel of 5 us."""
    trace = TraceBuilder(rank=0).step(0, 0, 30 * rounds + 100)
    for number in range(rounds):
        start = 30 * number
        index = json.dumps(["", "0", str(number if moves else 3)])
        inputs = {"Concrete Inputs": json.loads(index)} if recorded else {}
        trace.op("aten::select", start, start + 10, **inputs)
        trace.op("aten::relu", start + 10, start + 30).launches("relu", start + 20, start + 25)
    return (
        trace.op("aten::mm", 30 * rounds, 30 * rounds + 100)
        .launches("gemm", 30 * rounds + 50, 30 * rounds + 90)
        .load(folder)
    )


def test_all_rounds_take_as_long_as_one(tmp_path: Path) -> None:
    """The last round has `aten::mm` beside it, so eleven rounds are alike, of which ten go."""
    assert found(looping(tmp_path), RULE) == (11, 330, 300)


def test_a_few_rounds_are_no_loop(tmp_path: Path) -> None:
    assert found(looping(tmp_path, rounds=9), RULE) is None


def test_the_same_slice_in_each_layer_is_no_loop(tmp_path: Path) -> None:
    assert found(looping(tmp_path, moves=False), RULE) is None


def test_without_numbers_more_rounds_than_layers_are_a_loop(tmp_path: Path) -> None:
    """Of 102 rounds the last one has `aten::mm` beside it; of the other 101, one stays.

    Then the GPU bounds the step of 3,160 us: 102 kernels of 5 us, and one of 40.
    """
    assert found(looping(tmp_path, rounds=102, recorded=False), RULE) == (101, 3030, 3160 - 102 * 5 - 40)


def test_without_numbers_a_round_can_be_a_layer(tmp_path: Path) -> None:
    assert found(looping(tmp_path, rounds=97, recorded=False), RULE) is None
