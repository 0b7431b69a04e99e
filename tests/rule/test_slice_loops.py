import json
from pathlib import Path

from hotline_analysis import Trace
from tests.rule.loop import found
from tests.trace_builder import TraceBuilder

RULE = "slice_loops"


def looping(folder: Path, *, rounds: int = 12, moves: bool = True) -> Trace:
    """A step that the CPU bounds, with rounds of 30 us: a slice, and an op on it that launches a kernel of 5 us."""
    trace = TraceBuilder(rank=0).step(0, 0, 30 * rounds + 100)
    for number in range(rounds):
        start = 30 * number
        index = json.dumps(["", "0", str(number if moves else 3)])
        trace.op("aten::select", start, start + 10, **{"Concrete Inputs": json.loads(index)})
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
