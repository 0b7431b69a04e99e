"""Train a model for a few steps under the PyTorch profiler and save the trace.

    python docs/examples/capture.py transformer -o trace.json.gz --with-stack --record-shapes
    python docs/examples/capture.py --twin sync-bound -o trace.json.gz --device cuda

The switches create situations for the analysis to recognise: a slow data loader, `loss.item()` in every step, a
single-tensor optimizer, activation checkpointing, gradient accumulation, a trace without step marks. A twin is a
program with one known cause of slowness, given as a set of switches. Switches on the command line override the twin's.
"""

# Also checked without torch installed; everything from torch is then Any.
# mypy: disallow-subclassing-any=False, warn-return-any=False, warn-unused-ignores=False, disallow-untyped-calls=False

from __future__ import annotations

import argparse
import gzip
import json
import os
import re
import shlex
import site
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any, get_args

import torch
from models import EXAMPLES, Batch, Example, Size  # type: ignore[import-not-found]  # the sibling models.py
from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import SGD, Adam, AdamW, Optimizer
from torch.profiler import ProfilerActivity, profile, schedule
from torch.utils.data import DataLoader

from hotline_analysis.capture import analyze

OPTIMIZERS: dict[str, Callable[..., Optimizer]] = {"sgd": SGD, "adam": Adam, "adamw": AdamW}


PRECISION_HELP = "of products of float32: all exact, all TF32, or as PyTorch does (TF32 for convolutions alone)"

TWINS = {
    "input-bound": "transformer --size small --batch-size 32 --slow-loader 0.05",
    "launch-bound": "resnet50 --size small --batch-size 1 --optimizer sgd --optimizer-impl single --same-batch",
    "sync-bound": "resnet50 --size large --batch-size 32 --precision tf32 --log-norms --same-batch",
    "optimizer-bound": "transformer --size large --batch-size 1 --optimizer adam --optimizer-impl single --same-batch",
    "copy-bound": "colours --size large --batch-size 128 --pageable --optimizer sgd --same-batch host",
    "gpu-bound": "mlp --size large --batch-size 8192 --optimizer sgd --same-batch",
}
"""Name of a cause → switches for a program slow for this cause on a GPU."""


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
    parser.add_argument("--precision", choices=["default", "fp32", "tf32"], default="default", help=PRECISION_HELP)
    parser.add_argument("--channels-last", action="store_true", help="keep images with their channels last")
    parser.add_argument("--compile", action="store_true", help="train torch.compile(model)")
    parser.add_argument("--cuda-graphs", action="store_true", help="replay forward and backward as CUDA graphs")
    parser.add_argument("--ddp", action="store_true", help="DistributedDataParallel with one rank")
    parser.add_argument("--inference", action="store_true", help="only run the model, without gradients")
    parser.add_argument("--pageable", action="store_true", help="copy to the GPU from memory that is not pinned")
    parser.add_argument("--checkpoint", action="store_true", help="recompute activations in backward")
    parser.add_argument("--accumulate", type=int, default=1, metavar="N", help="micro-batches per optimizer step")
    parser.add_argument("--slow-loader", type=float, default=0.0, metavar="SECONDS", help="delay of every batch")
    parser.add_argument("--workers", type=int, default=0, help="data loader processes; 0 loads in the main one")
    parser.add_argument(
        "--same-batch",
        choices=["device", "host"],
        nargs="?",
        const="device",
        help="train on one batch, which stays on the device, or is copied there in every step",
    )
    parser.add_argument("--item", action="store_true", help="call loss.item() in every step, which waits for the GPU")
    parser.add_argument(
        "--log-norms",
        choices=["item", "keep"],
        nargs="?",
        const="item",
        help="compute the norm of each module's output, and read it at once with .item(), or keep it on the GPU",
    )
    parser.add_argument("--no-steps", action="store_true", help="never call prof.step(): no ProfilerStep in the trace")
    parser.add_argument(
        "--time-steps",
        type=int,
        default=0,
        metavar="N",
        help="first time N steps without the profiler, and write them to OUT.steps.json",
    )
    parser.add_argument("--memory-snapshot", action="store_true", help="write the allocator's OUT.snapshot.pickle, too")
    given = sys.argv[1:] if argv is None else argv
    args = parser.parse_args(given)
    if args.twin:
        args = parser.parse_args([*shlex.split(TWINS[args.twin]), *given])
    unnamed = ("-o", "--output", str(args.output))
    args.switches = shlex.join(switch for switch in given if switch not in unnamed)
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


def norm(module: nn.Module, inputs: object, output: Tensor) -> None:
    """A forward hook that computes a number on the GPU."""
    output.detach().float().norm()


def log_norm(module: nn.Module, inputs: object, output: Tensor) -> None:
    """A forward hook that reads the computed number, like code for monitoring activations."""
    output.detach().float().norm().item()


def make_optimizer(name: str, implementation: str, model: nn.Module) -> Optimizer:
    """Return the optimizer with exactly one chosen implementation; `single` loops over the parameters."""
    choice = {"foreach": implementation == "foreach", "fused": implementation == "fused"}
    return OPTIMIZERS[name](model.parameters(), lr=1e-3, **choice)


class Trainer:
    """A minimal training loop with one method per phase of a step."""

    def __init__(self, args: argparse.Namespace) -> None:
        # More batches than the steps use, so that the data do not end during a step.
        batches = (2 * args.warmup + args.time_steps + args.steps) * args.accumulate + 2
        if args.same_batch:
            batches = 1
        example = EXAMPLES[args.model](batches * args.batch_size, args.checkpoint, args.size)
        self.same_batch: Batch | None = None
        self.copied = args.same_batch != "device"
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
        self.memory_format = torch.channels_last if args.channels_last else torch.preserve_format
        self.model = self.model.to(memory_format=self.memory_format)
        torch.backends.cuda.matmul.allow_tf32 = args.precision == "tf32"
        torch.backends.cudnn.allow_tf32 = args.precision != "fp32"
        self.batches: Iterator[Batch] = iter(
            DataLoader(
                example.dataset,
                batch_size=args.batch_size,
                collate_fn=SlowCollate(example, args.slow_loader),
                num_workers=args.workers,
                pin_memory=args.device == "cuda" and not args.pageable,
            )
        )
        if args.same_batch:
            self.same_batch = next(self.batches) if args.same_batch == "host" else self.load()
        if args.log_norms:
            for module in self.model.modules():
                if not any(module.children()):
                    module.register_forward_hook(log_norm if args.log_norms == "item" else norm)
        if args.cuda_graphs:
            self.model = torch.cuda.make_graphed_callables(self.model, self.load()[0])
        if args.ddp:
            self.model = DistributedDataParallel(self.model)
        if args.compile:
            self.model = torch.compile(self.model)

    def load(self) -> Batch:
        inputs, targets = self.same_batch or next(self.batches)
        if self.same_batch is not None and not self.copied:
            return self.same_batch
        return self.move(inputs), self.move(targets)

    def move(self, tensors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        moved = tuple(tensor.to(self.device, non_blocking=not self.pageable) for tensor in tensors)
        if self.memory_format == torch.preserve_format:
            return moved
        return tuple(tensor.to(memory_format=self.memory_format) if tensor.dim() == 4 else tensor for tensor in moved)

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


def time_steps(trainer: Trainer, steps: int, at_most_s: float = 2.0) -> dict[str, Any]:
    """Time steps without the profiler, in blocks that end with a wait for the GPU. Stop early if the steps are slow."""

    def block(count: int) -> int:
        began = time.perf_counter_ns()
        for _ in range(count):
            trainer.step()
        if trainer.device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter_ns() - began

    block(1)  # finish earlier work, which must not count
    each = max(1, steps // 5)
    blocks: list[int] = []
    while len(blocks) < 5 and (len(blocks) < 2 or sum(blocks) < at_most_s * 1e9):
        blocks.append(block(each))
    return {"steps_per_block": each, "block_ns": blocks}


def measured(trainer: Trainer, args: argparse.Namespace) -> dict[str, Any]:
    """Duration of the same steps without the profiler, and their peak memory."""
    cuda = args.device == "cuda"
    for _ in range(args.warmup):
        trainer.step()
    if cuda:
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
    found = time_steps(trainer, args.time_steps)
    if cuda:
        found["peak_allocated_bytes"] = torch.cuda.max_memory_allocated()
        found["gpu"] = torch.cuda.get_device_name()
    return {"torch": torch.__version__, **found}


def record(args: argparse.Namespace, folder: Path, alone: AbstractContextManager[object] | None = None) -> Path:
    """Run the warm-up steps without recording, record the remaining steps, and return the trace.

    The steps run within `alone`, which keeps other captures away. The model and data are made before, and the trace is
    written after.
    """
    torch.manual_seed(0)
    if args.memory_snapshot:
        torch.cuda.memory._record_memory_history(context=None)
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
        when="later",
        batch_size=args.batch_size * args.accumulate,
        dataset=trainer.dataset,
        optimizer=trainer.optimizer,
    )
    with ExitStack() as running:

        def write(profiler: profile) -> None:
            running.close()
            handler(profiler)

        profiler = profile(
            activities=activities,
            schedule=None if args.no_steps else schedule(wait=args.warmup - 1, warmup=1, active=args.steps, repeat=1),
            on_trace_ready=write,
            with_stack=args.with_stack,
            record_shapes=args.record_shapes,
            profile_memory=args.profile_memory,
        )
        if args.compile:  # compile before taking the lock, because compiling is slow
            for _ in range(args.warmup):
                trainer.step()
        if alone is not None:
            running.enter_context(alone)
        if args.time_steps:
            found = {"switches": args.switches, **measured(trainer, args)}
            (folder / "steps.json").write_text(json.dumps(found, indent=1) + "\n")
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
    if args.memory_snapshot:
        torch.cuda.memory._dump_snapshot(str(folder / "snapshot.pickle"))
        torch.cuda.memory._record_memory_history(enabled=None)
    if args.ddp:
        distributed.destroy_process_group()
    return folder / "run.json.gz"


def machine_prefixes() -> list[str]:
    """Folders of this machine that can occur in python frames, longest first so that the most specific is cut."""
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
    """Copy a trace without data that identify the machine.

    The profiler writes one field on each line, so `scrub` edits single lines and leaves all other text unchanged, to
    the digit. It cuts the folders of this machine off the names (`/usr/lib/python3.11/enum.py(1): f` becomes
    `enum.py(1): f`), and replaces the host name and the path under `traceName`.
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


def capture(args: argparse.Namespace, alone: AbstractContextManager[object] | None = None) -> None:
    """Write the trace, and next to the trace the other files of the switches. Each file appears only when complete."""
    output: Path = args.output
    output.parent.mkdir(parents=True, exist_ok=True)
    stem = output.name.removesuffix(".json.gz")
    with tempfile.TemporaryDirectory(dir=output.parent, prefix=".capture-") as folder:
        packed = Path(folder, output.name)
        scrub(record(args, Path(folder), alone), packed, output.name.removesuffix(".gz"))
        for beside in ("steps.json", "snapshot.pickle"):
            if (written := Path(folder, beside)).exists():
                written.replace(output.with_name(f"{stem}.{beside}"))
        packed.replace(output)
    print(f"{output}: {output.stat().st_size / 1000:.0f} KB")


def main() -> None:
    args = parse_args()
    if args.device == "cuda" and not torch.cuda.is_available():
        sys.exit("no CUDA device: run with --device cpu")
    capture(args)


if __name__ == "__main__":
    main()
