from pathlib import Path

import pytest

import hotline_analysis as ha
from hotline_analysis import Trace
from hotline_analysis.answers.rules import find_advice
from tests.rule.loop import found
from tests.trace_builder import TraceBuilder

RULE = "files_written"


def writing(folder: Path, *, region: str = "", frame: str = "", first: str = "aten::mm") -> Trace:
    """A step of 1,000 us on the CPU, of which something takes 500 after backward."""
    trace = TraceBuilder(rank=0).step(0, 0, 1000)
    trace.op(first, 0, 100, seq=1).backward("MmBackward0", 100, 300, seq=1)
    trace.annotation("Optimizer.step#SGD.step", 300, 400).op("aten::add_", 310, 390)
    if region:
        trace.annotation(region, 450, 950)
    if frame:
        trace.frame("train.py(9): save_grid", 440, 960).frame(frame, 450, 950)
    return trace.load(folder)


@pytest.mark.parametrize(
    "frame",
    [
        "<built-in function fsync>",
        "<built-in method write of _io.TextIOWrapper object at 0x7fd5ac821560>",
        "torch/serialization.py(943): save",
        "/usr/lib/python3/site-packages/torchvision/utils.py(130): save_image",
        "torch/utils/tensorboard/writer.py(350): add_scalar",
    ],
)
def test_a_call_that_writes(tmp_path: Path, frame: str) -> None:
    trace = writing(tmp_path, frame=frame)
    assert found(trace, RULE) == (1, 500, 500)
    (said,) = find_advice(trace, rules=(RULE,))
    assert "save_grid (train.py:9)" in said.what


@pytest.mark.parametrize(
    "region", ["save_checkpoint", "[pl][profile][Callback]ModelCheckpoint.on_train_end", "write grid"]
)
def test_a_region_that_says_so(tmp_path: Path, region: str) -> None:
    assert found(writing(tmp_path, region=region), RULE) == (1, 500, 500)


@pytest.mark.parametrize("region", ["draw samples", "savant", "gradient statistics"])
def test_other_regions(tmp_path: Path, region: str) -> None:
    assert found(writing(tmp_path, region=region), RULE) is None


def test_a_call_that_reads(tmp_path: Path) -> None:
    assert found(writing(tmp_path, frame="<built-in method read of _io.BufferedReader object at 0x7f>"), RULE) is None


def test_a_place_is_one_change(tmp_path: Path) -> None:
    """Advice to run the place less often, to write less, and to speed it up is one gain, not three."""
    trace = writing(tmp_path, frame="<built-in function fsync>")
    assert {"user_stretch", RULE} <= {each.rule for each in find_advice(trace)}
    actions = ha.report(trace).actions
    assert [each.rule for each in actions if "train.py:9" in each.where] == ["user_stretch"]
    assert actions[0].after_ns <= 500_000
