"""Train a model for a few steps under the PyTorch profiler and save the trace.

    python docs/examples/capture.py transformer -o trace.json.gz --with-stack --record-shapes
    python docs/examples/capture.py --twin sync-bound -o trace.json.gz --device cuda

The switches make the situations that the analysis should recognise: a slow data loader, `loss.item()` in every step, a
single-tensor optimizer, activation checkpointing, gradient accumulation, a trace without step marks. A twin is a
program that is slow for one known reason, as a set of switches; those given beside it win.
"""

# Checked with torch installed and without: then everything from torch is Any.
# mypy: disallow-subclassing-any=False, warn-return-any=False, warn-unused-ignores=False, disallow-untyped-calls=False

from __future__ import annotations

import argparse
import gzip
import os
import re
import shlex
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
from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import SGD, Adam, AdamW, Optimizer
from torch.profiler import ProfilerActivity, profile, schedule
from torch.utils.data import DataLoader

from hotline_analysis.capture import analyze

OPTIMIZERS: dict[str, Callable[..., Optimizer]] = {"sgd": SGD, "adam": Adam, "adamw": AdamW}


TWINS = {
    "input-bound": "transformer --size small --batch-size 32 --slow-loader 0.05",
    "launch-bound": "resnet50 --size small --batch-size 1 --optimizer sgd --optimizer-impl single",
    "sync-bound": "transformer --size small --batch-size 8 --item",
    "optimizer-bound": "transformer --size large --batch-size 1 --optimizer adam --optimizer-impl single",
    "copy-bound": "colours --size large --batch-size 128 --pageable --optimizer sgd",
    "gpu-bound": "mlp --size large --batch-size 8192 --optimizer sgd",
}
"""Name of the cause → the switches that bring it about on a GPU."""


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Profile the training of a model and save the trace.")
    parser.add_argument("model", choices=sorted(EXAMPLES), nargs="?")
    parser.add_argument("--twin", choices=sorted(TWINS), help="a program that is slow for this reason")
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
    parser.add_argument("--amp", action="store_true", help="run forward and loss under autocast with bfloat16")
    parser.add_argument("--compile", action="store_true", help="train torch.compile(model)")
    parser.add_argument("--cuda-graphs", action="store_true", help="replay forward and backward as CUDA graphs")
    parser.add_argument("--ddp", action="store_true", help="DistributedDataParallel with one rank")
    parser.add_argument("--inference", action="store_true", help="only run the model, without gradients")
    parser.add_argument("--pageable", action="store_true", help="copy to the GPU from memory that is not pinned")
    parser.add_argument("--checkpoint", action="store_true", help="recompute activations in backward")
    parser.add_argument("--accumulate", type=int, default=1, metavar="N", help="micro-batches per optimizer step")
    parser.add_argument("--slow-loader", type=float, default=0.0, metavar="SECONDS", help="delay of every batch")
    parser.add_argument("--workers", type=int, default=0, help="data loader processes; 0 loads in the main one")
    parser.add_argument("--item", action="store_true", help="call loss.item() in every step, which waits for the GPU")
    parser.add_argument("--no-steps", action="store_true", help="never call prof.step(): no ProfilerStep in the trace")
    given = sys.argv[1:] if argv is None else argv
    args = parser.parse_args(given)
    if args.twin:
        args = parser.parse_args([*shlex.split(TWINS[args.twin]), *given])
    if args.model is None:
        parser.error("name a model or a --twin")
    if args.cuda_graphs and (args.device != "cuda" or args.compile or args.ddp):
        parser.error("--cuda-graphs needs --device cuda, and neither --compile nor --ddp")
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
        # More batches than the steps use, so that no step falls on the end of the data.
        batches = (args.warmup + args.steps) * args.accumulate + 2
        example = EXAMPLES[args.model](batches * args.batch_size, args.checkpoint, args.size)
        self.device = torch.device(args.device)
        self.dataset = type(example.dataset).__name__
        self.model = example.model.to(self.device).train(not args.inference)
        self.loss = example.loss
        self.optimizer = make_optimizer(args.optimizer, args.optimizer_impl, self.model)
        self.amp: bool = args.amp
        self.inference: bool = args.inference
        self.pageable: bool = args.pageable
        self.accumulate: int = args.accumulate
        self.item: bool = args.item
        self.batches: Iterator[Batch] = iter(
            DataLoader(
                example.dataset,
                batch_size=args.batch_size,
                collate_fn=SlowCollate(example, args.slow_loader),
                num_workers=args.workers,
                pin_memory=args.device == "cuda" and not args.pageable,
            )
        )
        if args.cuda_graphs:
            self.model = torch.cuda.make_graphed_callables(self.model, self.load()[0])
        if args.ddp:
            self.model = DistributedDataParallel(self.model)
        if args.compile:
            self.model = torch.compile(self.model)

    def load(self) -> Batch:
        inputs, targets = next(self.batches)
        return self.move(inputs), self.move(targets)

    def move(self, tensors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return tuple(tensor.to(self.device, non_blocking=not self.pageable) for tensor in tensors)

    def step(self) -> None:
        if self.inference:
            self.infer()
        else:
            self.train()

    def infer(self) -> None:
        inputs, _ = self.load()
        with torch.inference_mode(), torch.autocast(self.device.type, torch.bfloat16, enabled=self.amp):
            output = self.model(*inputs)
        if self.item:
            output.sum().item()

    def train(self) -> None:
        for micro_batch in range(self.accumulate):
            inputs, targets = self.load()
            if micro_batch == 0:
                self.optimizer.zero_grad()
            with torch.autocast(self.device.type, torch.bfloat16, enabled=self.amp):
                output = self.model(*inputs)
                loss = self.loss(output, *targets) / self.accumulate
            loss.backward()
            if self.item:
                loss.item()
        self.optimizer.step()


def record(args: argparse.Namespace, folder: Path) -> Path:
    """Run the warm-up steps unrecorded and the others recorded; return the trace."""
    torch.manual_seed(0)
    if args.ddp:
        backend = "nccl" if args.device == "cuda" else "gloo"
        distributed.init_process_group(backend, init_method=f"file://{folder / 'store'}", rank=0, world_size=1)
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
    if args.ddp:
        distributed.destroy_process_group()
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
