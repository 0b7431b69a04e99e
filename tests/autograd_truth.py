"""The graphs of autograd of the example models: how many nodes there are, and how many the longest path has.

python -m tests.autograd_truth FOLDER    # writes NAME.json, a trace of two steps, and truth.json
"""

# Checked with torch installed and without: then everything from torch is Any.
# mypy: disallow-subclassing-any=False, warn-return-any=False, warn-unused-ignores=False, disallow-untyped-calls=False

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile, schedule

sys.path.insert(0, str(Path(__file__).parents[1] / "docs" / "examples"))
from models import EXAMPLES  # type: ignore[import-not-found]  # of the folder above


def longest_path(loss: torch.Tensor) -> tuple[int, int]:
    """The nodes on the longest path from the loss, and all; but for those that add gradients of parameters."""
    depth: dict[Any, int] = {}
    stack: list[Any] = [loss.grad_fn]
    while stack:
        node = stack[-1]
        following = [other for other, _ in node.next_functions if other is not None]
        if missing := [other for other in following if other not in depth]:
            stack.extend(missing)
            continue
        own = node.name() != "torch::autograd::AccumulateGrad"
        depth[node] = max((depth[other] for other in following), default=0) + own
        stack.pop()
    count = sum(node.name() != "torch::autograd::AccumulateGrad" for node in depth)
    return depth[loss.grad_fn], count


def main() -> None:
    """Train each model for a few steps."""
    folder = Path(sys.argv[1])
    torch.set_num_threads(1)
    truth = {}
    for name, make in EXAMPLES.items():
        torch.manual_seed(0)
        example = make(4, False, "tiny")
        inputs, targets = example.collate([example.dataset[number] for number in range(4)])
        plan = schedule(wait=0, warmup=1, active=2, repeat=1)
        with profile(activities=[ProfilerActivity.CPU], record_shapes=True, schedule=plan) as profiler:
            for _ in range(3):
                loss = example.loss(example.model(*inputs), *targets)
                truth[name] = longest_path(loss)
                loss.backward()
                profiler.step()
        profiler.export_chrome_trace(str(folder / f"{name}.json"))
    (folder / "truth.json").write_text(json.dumps(truth))


if __name__ == "__main__":
    main()
