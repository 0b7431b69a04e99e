"""What capturing costs the measured step: a small model trained without a profiler, with it, and with `analyze`.

    python tests/benchmarks/bench_capture.py --repeat 5 --steps 20 --device cuda

Every variant trains the same model; the variants take turns, so that a change of the machine's speed meets all of them.
The time of a step is from one `profiler.step()` to the next, without what that call itself does (it starts and stops
the recording), on a GPU with a synchronise at its end. It prints a Markdown table: the median over all recorded steps,
the spread between the repetitions' medians, and the ratio to the plain profiler. Nothing here passes or fails.
"""

# Checked with torch installed and without: then everything from torch is Any.
# mypy: disallow-subclassing-any=False, warn-return-any=False, warn-unused-ignores=False, disallow-untyped-calls=False

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile, schedule

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "docs" / "examples"))
from models import EXAMPLES  # type: ignore[import-not-found]  # the folder is found through sys.path

import hotline_analysis as ha

WARMUP = 3
VARIANTS = ("no profiler", "profiler", "profiler with analyze(model)", "profiler with with_stack=True")


class Training:
    """One model with one batch of data, trained step by step."""

    def __init__(self, name: str, size: str, batch_size: int, device: str) -> None:
        example = EXAMPLES[name](batch_size, False, size)
        inputs, targets = example.collate([example.dataset[i] for i in range(batch_size)])
        self.device = device
        self.model = example.model.to(device).train()
        self.loss = example.loss
        self.inputs = [tensor.to(device) for tensor in inputs]
        self.targets = [tensor.to(device) for tensor in targets]
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4)

    def step(self) -> None:
        self.optimizer.zero_grad()
        self.loss(self.model(*self.inputs), *self.targets).backward()
        self.optimizer.step()
        if self.device == "cuda":
            torch.cuda.synchronize()


def measured(variant: str, training: Training, steps: int, clock: Callable[[], float], folder: Path) -> list[float]:
    """Return the seconds of each recorded step."""
    activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if training.device == "cuda" else [])
    settings: dict[str, Any] = {
        "activities": activities,
        "schedule": schedule(wait=WARMUP - 1, warmup=1, active=steps, repeat=1),
    }
    if variant == VARIANTS[2]:
        settings["on_trace_ready"] = ha.analyze(
            training.model, folder / "run.hotline", report_format=None, when="later"
        )
    if variant == VARIANTS[3]:
        settings["with_stack"] = True
    seconds = []
    with nullcontext() if variant == VARIANTS[0] else profile(**settings) as profiler:
        for number in range(WARMUP + steps):
            began = clock()
            training.step()
            if number >= WARMUP:
                seconds.append(clock() - began)
            if profiler is not None:
                profiler.step()
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--model", choices=sorted(EXAMPLES), default="transformer")
    parser.add_argument("--size", choices=("tiny", "small", "large"), default="small")
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument(
        "--cpu-time", action="store_true", help="count the time of the CPU instead: for a machine that others use too"
    )
    args = parser.parse_args()
    if args.cpu_time:
        torch.set_num_threads(1)
    clock = process_time if args.cpu_time else perf_counter
    torch.manual_seed(0)
    training = Training(args.model, args.size, args.batch_size, args.device)
    times: dict[str, list[list[float]]] = {variant: [] for variant in VARIANTS}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(args.repeat):
            for variant in VARIANTS:
                times[variant].append(measured(variant, training, args.steps, clock, Path(folder)))
    plain = statistics.median(second for run in times["profiler"] for second in run)
    print("| | median step | medians of the repetitions | profiler = 1 |")
    print("|---|---:|---:|---:|")
    for variant, runs in times.items():
        median = statistics.median(second for run in runs for second in run)
        medians = [1000 * statistics.median(run) for run in runs]
        spread = f"{min(medians):.2f} to {max(medians):.2f} ms"
        print(f"| {variant} | {1000 * median:.2f} ms | {spread} | {median / plain:.2f} |")


if __name__ == "__main__":
    main()
