"""Activation checkpointing in both ways, captured on the spot: alignment finds what is computed again, too."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest

import hotline_analysis as ha
from hotline_analysis.annotation.model_file import parse_model
from tests.accuracy.hide import compare


@pytest.mark.slow
@pytest.mark.parametrize("reentrant", [True, False])
def test_computed_again(reentrant: bool, tmp_path: Path) -> None:
    torch: Any = pytest.importorskip("torch")
    checkpoint = importlib.import_module("torch.utils.checkpoint").checkpoint

    class Block(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.inner = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 8))

        def forward(self, x: Any) -> Any:
            return x + self.inner(x)

    class Net(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.first = torch.nn.Linear(8, 8)
            self.blocks = torch.nn.ModuleList(Block() for _ in range(3))
            self.head = torch.nn.Linear(8, 2)

        def forward(self, x: Any) -> Any:
            x = self.first(x)
            for block in self.blocks:
                x = checkpoint(block, x, use_reentrant=reentrant)
            return self.head(x)

    net = Net()

    def step() -> None:
        net.zero_grad()
        torch.nn.functional.mse_loss(net(torch.randn(4, 8)), torch.randn(4, 2)).backward()

    step()
    learned = parse_model(json.loads(json.dumps(ha.model_ops(net, torch.randn(4, 8)).content)), "the capture")
    cpu = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=cpu, with_stack=True, with_modules=True) as profiler:
        for _ in range(2):
            step()
            profiler.step()
    profiler.export_chrome_trace(str(tmp_path / "trace.json"))

    with ha.load(tmp_path / "trace.json") as trace:
        for shares in (compare(trace), compare(trace, learned)):
            assert shares.keys() == {"forward", "backward", "recompute"}
            for name, share in shares.items():
                assert share.cpu_ns > 0
                assert share.cpu_pct == 100.0, name
