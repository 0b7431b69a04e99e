"""Train a small model on several CPU processes (DDP over gloo), one process slow in one module, and save the traces.

    python docs/examples/straggler.py traces/ --ranks 4 --slow-rank 2 --delay 0.05

Writes `rank0.json.gz`, `rank1.json.gz` and so on, without the folders and the name of the machine. `hotline query
stragglers traces/` should name the slow rank, and `straggler_causes` the module `Head`.
"""

# Also checked without torch installed; everything from torch is then Any.
# mypy: disallow-subclassing-any=False, warn-return-any=False, warn-unused-ignores=False, disallow-untyped-calls=False

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
import torch.distributed as dist
from capture import scrub  # type: ignore[import-not-found]  # the sibling capture.py
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ProfilerActivity, profile, schedule


class Head(nn.Module):
    """A linear layer with an optional delay, like a layer that loads data or runs python."""

    def __init__(self, delay: float) -> None:
        super().__init__()
        self.linear = nn.Linear(64, 8)
        self.delay = delay

    def forward(self, x: Tensor) -> Tensor:
        if self.delay:
            time.sleep(self.delay)
        return self.linear(x)


class Net(nn.Module):
    """A body that is equally fast in all processes, and the head."""

    def __init__(self, delay: float) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU())
        self.head = Head(delay)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(x))


def work(rank: int, ranks: int, delay: float, steps: int, store: str, output: Path) -> None:
    """Train in one process and save the trace."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=ranks)
    model = DistributedDataParallel(Net(delay), bucket_cap_mb=0.01)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    plan = schedule(wait=1, warmup=1, active=steps, repeat=1)
    profiler = profile(activities=[ProfilerActivity.CPU], schedule=plan, with_stack=True, record_shapes=True)
    with profiler:
        for _ in range(steps + 2):
            loss = model(torch.randn(16, 32)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            profiler.step()
    dist.destroy_process_group()
    name = f"rank{rank}.json.gz"
    with tempfile.TemporaryDirectory() as folder:
        profiler.export_chrome_trace(f"{folder}/{name}")
        scrub(Path(folder, name), output / name, name)


def main() -> None:
    parser = argparse.ArgumentParser(description="Profile a distributed job in which one rank is slow.")
    parser.add_argument("output", type=Path, help="the folder for the traces")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--slow-rank", type=int, default=2)
    parser.add_argument("--delay", type=float, default=0.05, metavar="SECONDS", help="of each call of the slow module")
    parser.add_argument("--steps", type=int, default=3, help="profiled training steps")
    args = parser.parse_args()
    if "STRAGGLER_RANK" in os.environ:
        rank = int(os.environ["STRAGGLER_RANK"])
        delay = args.delay if rank == args.slow_rank else 0.0
        work(rank, args.ranks, delay, args.steps, os.environ["STRAGGLER_STORE"], args.output)
        return
    args.output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        processes = [
            subprocess.Popen(
                [sys.executable, *sys.argv],
                env={**os.environ, "STRAGGLER_RANK": str(rank), "STRAGGLER_STORE": f"{folder}/store"},
            )
            for rank in range(args.ranks)
        ]
        failed = [process.wait() for process in processes]
    if any(failed):
        sys.exit(1)


if __name__ == "__main__":
    main()
