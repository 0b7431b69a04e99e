"""What DistributedDataParallel does with the gradients of small models: its buckets, in two processes with gloo.

    python -m tests.ddp_truth FOLDER    # writes NAME.json, a trace of one process, and truth.json

For each model, one process trains it alone under the profiler. Then both train it together, and DDP tells how it has
arranged the gradients after its first step.
"""

# Checked with torch installed and without: then everything from torch is Any.
# mypy: disallow-subclassing-any=False, warn-return-any=False, warn-unused-ignores=False, disallow-untyped-calls=False

from __future__ import annotations

import json
import multiprocessing
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ProfilerActivity, profile, schedule

CAPS = (None, 0.5, 2, 25)
"""Values of `bucket_cap_mb`; None leaves it to DDP. It takes whole numbers, but also parts of one."""


class Both(torch.nn.Module):
    """Layers in two precisions, in turns."""

    def __init__(self) -> None:
        super().__init__()
        self.narrow = torch.nn.ModuleList(torch.nn.Linear(300, 300) for _ in range(6))
        self.broad = torch.nn.ModuleList(torch.nn.Linear(300, 300).double() for _ in range(6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run them in turns."""
        for narrow, broad in zip(self.narrow, self.broad, strict=True):
            x = broad(narrow(x).double()).float()
        return x


MODELS = {
    "deep": lambda: torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(24)]),
    "wide": lambda: torch.nn.Sequential(
        torch.nn.Linear(64, 4000), torch.nn.LayerNorm(4000), torch.nn.Linear(4000, 2000), torch.nn.Linear(2000, 10)
    ),
    "both": Both,
}


def step(model: Any, inputs: torch.Tensor) -> None:
    """Compute the gradients of one batch."""
    model.zero_grad()
    model(inputs).sum().backward()


def width(model: Any) -> int:
    """How many features the model takes."""
    return next(int(each.in_features) for each in model.modules() if isinstance(each, torch.nn.Linear))


def process(rank: int, folder: Path, found: dict[str, Any]) -> None:
    """One of the two processes; the first one writes."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder / 'store'}", rank=rank, world_size=2)
    for name, make in MODELS.items():
        torch.manual_seed(0)
        alone = make()
        inputs = torch.randn(4, width(alone))
        if rank == 0:
            plan = schedule(wait=0, warmup=1, active=2, repeat=1)
            with profile(activities=[ProfilerActivity.CPU], record_shapes=True, schedule=plan) as profiler:
                for _ in range(3):
                    step(alone, inputs)
                    profiler.step()
            profiler.export_chrome_trace(str(folder / f"{name}.json"))
        for cap in CAPS:
            together = DistributedDataParallel(make(), bucket_cap_mb=cap)
            for _ in range(3):
                step(together, inputs)
            said = together._get_ddp_logging_data()
            found[f"{name} {cap}"] = said["rebuilt_bucket_sizes"]
        found[f"{name} parameters"] = sum(each.numel() * each.element_size() for each in alone.parameters())
    if rank == 0:
        (folder / "truth.json").write_text(json.dumps(found))
    dist.destroy_process_group()


def main() -> None:
    """Run both processes."""
    folder = Path(sys.argv[1])
    other = multiprocessing.get_context("spawn").Process(target=process, args=(1, folder, {}))
    other.start()
    try:
        process(0, folder, {})
        other.join(60)
    finally:
        other.kill()
    sys.exit(other.exitcode)


if __name__ == "__main__":
    main()
