"""The model alone finds what frames, sequence numbers and flows say: on the programs that this project ran on GPUs.

The truth is the trace with frames; the table of modules and ops is what the capture had learned before it.
"""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.accuracy.hide import Share, captured_model, compare
from tests.runs import opened

GPU = Path(__file__).parents[1] / "data" / "gpu"
PROGRAMS = sorted(path.name.removesuffix("_frames.json.gz") for path in GPU.glob("*_frames.json.gz"))
LEAST = {"forward": 99.5, "backward": 99.0, "recompute": 99.0}


@cache
def shares_of(program: str) -> dict[str, Share]:
    """Compare with the table of the capture."""
    with opened(GPU / f"{program}_frames.json.gz") as trace:
        return compare(trace, captured_model(trace))


def table(path: Path) -> dict[str, Any]:
    """The table that the capture has stored, without the shapes, which a trace with shapes need not have."""
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        found: dict[str, Any] = json.load(stream)["hotline_model"]
    return {name: value for name, value in found.items() if name != "shapes"}


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.sampled
def test_with_the_table_of_the_capture(program: str) -> None:
    """All GPU time and CPU time of ops has the right module; the replay of a graph is in the model as a whole."""
    shares = shares_of(program)
    assert shares.keys() >= ({"forward"} if "inference" in program else {"forward", "backward"})
    assert ("recompute" in shares) == (program == "unet")
    for name, share in shares.items():
        assert min(share.cpu_ns, share.gpu_ns) > 0, name
        assert min(share.cpu_pct, share.gpu_pct) >= LEAST[name], name


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.sampled
def test_both_traces_of_a_program_hold_the_same_table(program: str) -> None:
    frames, plain = (table(GPU / f"{program}_{kind}.json.gz") for kind in ("frames", "plain"))
    assert frames == plain
    assert (frames["order"], frames["notes"]) == ("execution", [])
