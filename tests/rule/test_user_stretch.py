"""A grid of pictures written in each step took 92 % of it (`cases/programs/p3_gan.py`, timed with a stopwatch)."""

import os
from pathlib import Path

import pytest

from hotline_analysis import Trace
from hotline_analysis.answers.rules import find_advice
from tests.rule.loop import found
from tests.runs import opened
from tests.trace_builder import TraceBuilder

RULE = "user_stretch"


def training(folder: Path, *, frames: bool = True, region: str = "", calls: int = 1) -> Trace:
    """Two steps of 1,000 us: forward and backward take 300, the optimizer 100, then the user's code runs for 600."""
    trace = TraceBuilder(rank=0)
    if frames:
        trace.frame("train.py(3): main", 0, 2000)
    for step in range(2):
        at = 1000 * step
        trace.step(step, at, at + 1000)
        trace.op("aten::mm", at, at + 100, seq=step).backward("MmBackward0", at + 100, at + 300, seq=step)
        trace.annotation("Optimizer.step#SGD.step", at + 300, at + 400).op("aten::add_", at + 310, at + 390)
        length = 600 // calls
        for call in range(calls):
            start = at + 400 + call * length
            if frames:
                trace.frame("train.py(9): draw", start, start + length)
            if region:
                trace.annotation(region, start, start + length)
    return trace.load(folder)


def test_a_function_that_is_no_part_of_training(tmp_path: Path) -> None:
    assert found(training(tmp_path), RULE) == (1, 600, 600)
    (said,) = find_advice(training(tmp_path), rules=(RULE,))
    assert "draw (train.py:9)" in said.what


@pytest.mark.parametrize("region", ["draw samples", "plots: draw", "## draw ##"])
def test_a_region_that_is_no_part_of_training(tmp_path: Path, region: str) -> None:
    trace = training(tmp_path, frames=False, region=region)
    assert found(trace, RULE) == (1, 600, 600)
    (said,) = find_advice(trace, rules=(RULE,))
    assert f'the region "{region}"' in said.what


def test_short_calls_are_no_stretch(tmp_path: Path) -> None:
    """Each of a hundred calls takes 6 us of a step of 1,000."""
    assert found(training(tmp_path, calls=100), RULE) is None


@pytest.mark.parametrize("region", ["Optimizer.zero_grad#SGD.zero_grad", "nccl:all_reduce", "TorchDynamo Cache Lookup"])
def test_a_mark_of_pytorch_is_no_code_of_the_user(tmp_path: Path, region: str) -> None:
    assert found(training(tmp_path, frames=False, region=region), RULE) is None


@pytest.mark.skipif("HOTLINE_TRACES" not in os.environ, reason="HOTLINE_TRACES is not set")
def test_the_function_that_a_stopwatch_found() -> None:
    file = Path(os.environ["HOTLINE_TRACES"]).parent / "cases" / "programs" / "p3_stack.json.gz"
    if not file.exists():
        pytest.skip("the case is missing")
    (said,) = find_advice(opened(file), rules=(RULE,))
    assert "save_grid (p3_gan_stack.py:7)" in said.what
    # of the median step, whose forward is slow as it is the first recorded one, 83 % is python after the optimizer
    assert 75 < said.gain_pct < 92
