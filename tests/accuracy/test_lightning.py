"""Phases and modules of programs that Lightning runs: its optimizers call forward and backward in a closure."""

# Checked with torch and Lightning installed and without: then everything from them is Any.
# mypy: warn-return-any=False, warn-unused-ignores=False, disallow-untyped-calls=False

from __future__ import annotations

import gzip
import importlib
import json
from pathlib import Path
from typing import Any

import pytest

import hotline_analysis as ha
from tests.accuracy.marks import mark, marked, shares

pytestmark = pytest.mark.filterwarnings("ignore")  # Lightning's, on workers, loggers and devices


@pytest.fixture
def program() -> Any:
    """What Lightning runs. To load it takes seconds, so only the process does that runs this test."""
    pytest.importorskip("pytorch_lightning")
    return importlib.import_module("tests.accuracy.lightning_program")


# Of the second case, steps cross their marks, and the share of the optimizer is 72 to 85 % right: not solved.
@pytest.mark.slow
@pytest.mark.parametrize("by_lightning", [False, pytest.param(True, marks=pytest.mark.long)])
def test_lightning(by_lightning: bool, program: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own profiler ends a step in the closure, so that the optimizer starts in one and ends in the next."""
    torch = program.torch
    update = program.adam.adam

    def told_update(*arguments: Any, **settings: Any) -> None:
        with mark("optimizer"):
            update(*arguments, **settings)

    monkeypatch.setattr(program.adam, "adam", told_update)
    torch.manual_seed(0)
    model = marked(program.OptimizerNet())
    handler = ha.analyze(model, tmp_path / "run.hotline", report_format=None, when="now")
    plan = torch.profiler.schedule(wait=1, warmup=1, active=program.STEPS, repeat=1)
    if by_lightning:
        own = program.profilers.PyTorchProfiler(dirpath=tmp_path, schedule=plan, on_trace_ready=handler)
        program.trained(model, profiler=own)
    else:
        activities = [torch.profiler.ProfilerActivity.CPU]
        with torch.profiler.profile(activities=activities, schedule=plan, on_trace_ready=handler) as profiler:
            program.trained(model, callbacks=[program.Stepping(profiler)])
    with gzip.open(tmp_path / "run.json.gz", "rt") as file:
        trace: dict[str, Any] = json.load(file)
    found = shares(trace, tmp_path)
    assert min(found[name] for name in ("phases", "modules", "forward", "loss", "backward", "optimizer")) >= 99, found
