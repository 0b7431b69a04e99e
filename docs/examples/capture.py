"""Train a small model for a few steps under the PyTorch profiler and save the trace.

    python docs/examples/capture.py transformer -o trace.json.gz --with-stack --record-shapes

The switches make the situations that the analysis should recognise: a slow data loader, `loss.item()` in every step, a
single-tensor optimizer, activation checkpointing, gradient accumulation, a trace without step marks.
"""

# Checked with torch installed and without: then everything from torch is Any.
# mypy: disallow-subclassing-any=False, warn-return-any=False, warn-unused-ignores=False, disallow-untyped-calls=False

from __future__ import annotations

import argparse
import gzip
import os
import re
import site
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import get_args

import torch
from models import EXAMPLES, Batch, Example, Size  # type: ignore[import-not-found]  # the sibling models.py
from torch import Tensor, nn
from torch.optim import SGD, Adam, AdamW, Optimizer
from torch.profiler import ProfilerActivity, profile, schedule
from torch.utils.data import DataLoader

from hotline_analysis.capture import analyze

OPTIMIZERS: dict[str, Callable[..., Optimizer]] = {"sgd": SGD, "adam": Adam, "adamw": AdamW}


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Profile the training of a small model and save the trace.")
    parser.add_argument("model", choices=sorted(EXAMPLES))
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="OUT.json.gz")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--size", choices=get_args(Size), default="small")
    parser.add_argument("--steps", type=int, default=3, help="profiled training steps")
    parser.add_argument("--warmup", type=int, default=2, help="steps before the profiled ones, at least 1")
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--optimizer", choices=sorted(OPTIMIZERS), default="adamw")
    parser.add_argument("--optimizer-impl", choices=["foreach", "fused", "single"], default="foreach")
    parser.add_argument("--with-stack", action="store_true", help="record python frames and nn.Module calls")
    parser.add_argument("--record-shapes", action="store_true", help="record input shapes, types and strides")
    parser.add_argument("--profile-memory", action="store_true", help="record allocations")
    parser.add_argument("--checkpoint", action="store_true", help="recompute activations in backward")
    parser.add_argument("--accumulate", type=int, default=1, metavar="N", help="micro-batches per optimizer step")
    parser.add_argument("--slow-loader", type=float, default=0.0, metavar="SECONDS", help="delay of every batch")
    parser.add_argument("--workers", type=int, default=0, help="data loader processes; 0 loads in the main one")
    parser.add_argument("--item", action="store_true", help="call loss.item() in every step, which waits for the GPU")
    parser.add_argument("--no-steps", action="store_true", help="never call prof.step(): no ProfilerStep in the trace")
    args = parser.parse_args(argv)
    if min(args.steps, args.warmup, args.batch_size, args.accumulate) < 1:
        parser.error("--steps, --warmup, --batch-size and --accumulate must be at least 1")
    if not args.output.name.endswith(".json.gz"):
        parser.error("the output must end in .json.gz")
    return args


class SlowCollate:
    """Wait before collating each batch, like a loader that decodes images or reads a slow disk."""

    def __init__(self, example: Example, seconds: float) -> None:
        self.collate = example.collate
        self.seconds = seconds

    def __call__(self, samples: list[object]) -> Batch:
        if self.seconds:
            time.sleep(self.seconds)
        return self.collate(samples)


def make_optimizer(name: str, implementation: str, model: nn.Module) -> Optimizer:
    """The optimizer, with exactly one of its implementations chosen; `single` loops over the parameters."""
    choice = {"foreach": implementation == "foreach", "fused": implementation == "fused"}
    return OPTIMIZERS[name](model.parameters(), lr=1e-3, **choice)


class Trainer:
    """The plainest training loop there is, one method per phase of a step."""

    def __init__(self, args: argparse.Namespace) -> None:
        # One batch more than the steps use, so that no step falls on the end of the data.
        batches = (args.warmup + args.steps) * args.accumulate + 1
        example = EXAMPLES[args.model](batches * args.batch_size, args.checkpoint, args.size)
        self.device = torch.device(args.device)
        self.dataset = type(example.dataset).__name__
        self.model = example.model.to(self.device).train()
        self.loss = example.loss
        self.optimizer = make_optimizer(args.optimizer, args.optimizer_impl, self.model)
        self.accumulate: int = args.accumulate
        self.item: bool = args.item
        self.batches: Iterator[Batch] = iter(
            DataLoader(
                example.dataset,
                batch_size=args.batch_size,
                collate_fn=SlowCollate(example, args.slow_loader),
                num_workers=args.workers,
                pin_memory=args.device == "cuda",
            )
        )

    def load(self) -> Batch:
        inputs, targets = next(self.batches)
        return self.move(inputs), self.move(targets)

    def move(self, tensors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return tuple(tensor.to(self.device, non_blocking=True) for tensor in tensors)

    def step(self) -> None:
        for micro_batch in range(self.accumulate):
            inputs, targets = self.load()
            if micro_batch == 0:
                self.optimizer.zero_grad()
            output = self.model(*inputs)
            loss = self.loss(output, *targets) / self.accumulate
            loss.backward()
            if self.item:
                loss.item()
        self.optimizer.step()


def record(args: argparse.Namespace, folder: Path) -> Path:
    """Run the warm-up steps unrecorded and the others recorded; return the trace."""
    torch.manual_seed(0)
    trainer = Trainer(args)
    activities = [ProfilerActivity.CPU]
    if args.device == "cuda":
        activities.append(ProfilerActivity.CUDA)
    handler = analyze(
        trainer.model,
        folder / "run.hotline",
        report_format=None,
        batch_size=args.batch_size * args.accumulate,
        dataset=trainer.dataset,
        optimizer=trainer.optimizer,
    )
    profiler = profile(
        activities=activities,
        schedule=None if args.no_steps else schedule(wait=args.warmup - 1, warmup=1, active=args.steps, repeat=1),
        on_trace_ready=handler,
        with_stack=args.with_stack,
        record_shapes=args.record_shapes,
        profile_memory=args.profile_memory,
    )
    if args.no_steps:
        for _ in range(args.warmup):
            trainer.step()
        with profiler:
            for _ in range(args.steps):
                trainer.step()
            if args.device == "cuda":
                torch.cuda.synchronize()
    else:
        with profiler:
            for _ in range(args.warmup + args.steps):
                trainer.step()
                profiler.step()
    return folder / "run.json.gz"


def machine_prefixes() -> list[str]:
    """Folders of this machine that python frames may name, longest first so that the most specific one is cut."""
    folders = [
        *site.getsitepackages(),
        site.getusersitepackages(),
        sysconfig.get_path("stdlib"),
        sys.prefix,
        sys.base_prefix,
        str(Path(__file__).resolve().parent),
        os.getcwd(),
        tempfile.gettempdir(),
        str(Path.home()),
    ]
    return sorted({folder.rstrip("/") + "/" for folder in folders if folder.strip("/")}, key=len, reverse=True)


def scrub(source: Path, target: Path, trace_name: str) -> None:
    """Copy a trace without what identifies the machine.

    The profiler writes one field on each line, so this works line by line and leaves everything else, including every
    digit, as it was written. It cuts the folders of this machine off the names (`/usr/lib/python3.11/enum.py(1): f`
    becomes `enum.py(1): f`), and replaces the host name and the path under `traceName`.
    """
    prefixes = re.compile("|".join(map(re.escape, machine_prefixes())))
    host = re.compile(r'"host_name": "[^"]*"')
    name = re.compile(r'"traceName": "[^"]*"')
    with (
        gzip.open(source, "rt", encoding="utf-8", errors="replace") as lines,
        gzip.GzipFile(target, "wb", 9, mtime=0) as out,
    ):
        for line in lines:
            line = prefixes.sub("", line)
            line = host.sub('"host_name": "localhost"', line)
            line = name.sub(f'"traceName": "{trace_name}"', line)
            out.write(line.encode())


def main() -> None:
    args = parse_args()
    if args.device == "cuda" and not torch.cuda.is_available():
        sys.exit("no CUDA device: run with --device cpu")
    output: Path = args.output
    output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=output.parent, prefix=".capture-") as folder:
        packed = Path(folder, output.name)
        scrub(record(args, Path(folder)), packed, output.name.removesuffix(".gz"))
        packed.replace(output)  # appears only when it is whole
    print(f"{output}: {output.stat().st_size / 1000:.0f} KB")


if __name__ == "__main__":
    main()
