from pathlib import Path

from hotline_analysis import Trace
from tests.rule.loop import found
from tests.trace_builder import TraceBuilder

RULE = "recompilation"


def compiling(folder: Path, mark: str, *, steps: int = 3) -> Trace:
    """Steps of 500 us that the CPU bounds, of which marks inside each other take 200."""
    trace = TraceBuilder(rank=0)
    for number in range(steps):
        start = 500 * number
        trace.step(number, start, start + 500)
        trace.annotation(mark, start, start + 200).annotation("inner (dynamo_timed)", start + 10, start + 190)
        trace.op("aten::mm", start + 200, start + 500).launches("gemm", start + 310, start + 320)
    return trace.load(folder)


def test_what_is_compiled_stays_compiled(tmp_path: Path) -> None:
    assert found(compiling(tmp_path, "_compile.compile_inner (dynamo_timed)"), RULE) == (1, 200, 200)


def test_the_first_step_has_to_compile(tmp_path: Path) -> None:
    assert found(compiling(tmp_path, "_compile.compile_inner (dynamo_timed)", steps=1), RULE) is None


def test_a_mark_of_the_user_is_none_of_torch(tmp_path: Path) -> None:
    """Only the 180 us inside are marked by torch.compile."""
    assert found(compiling(tmp_path, "compile my figures"), RULE) == (1, 180, 180)
