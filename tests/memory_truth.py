"""What really holds memory while an example model trains: by hooks of autograd, the parameters and the optimizer.

The trace that is captured meanwhile has the allocations, so tests compare what the analysis says with it.
"""

# Checked with torch installed and without: then everything from torch is Any.
# mypy: disallow-subclassing-any=False, warn-return-any=False, warn-unused-ignores=False, disallow-untyped-calls=False

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile, schedule

FOLDER = Path(__file__).parents[1] / "docs" / "examples"
sys.path.insert(0, str(FOLDER))
import capture  # type: ignore[import-not-found]  # noqa: E402  # of the folder above
from models import EXAMPLES  # type: ignore[import-not-found]  # noqa: E402

__all__ = ["EXAMPLES", "Step", "Truth", "train"]


@dataclass
class Step:
    """Bytes of one step: saved for backward and no parameter, buffer or input; and those of the inputs."""

    saved: dict[int, int] = field(default_factory=dict)
    saved_inputs: dict[int, int] = field(default_factory=dict)
    held: set[int] = field(default_factory=set)

    @property
    def saved_bytes(self) -> int:
        """Storages that autograd keeps, each once."""
        return sum(self.saved.values())

    @property
    def saved_and_held_bytes(self) -> int:
        """Of these, what the program holds after backward: the model's output and the loss."""
        return sum(size for storage, size in self.saved.items() if storage in self.held)


@dataclass
class Truth:
    """A trace, and what is known of the run that it shows."""

    path: Path
    steps: list[Step]
    parameter_bytes: int
    gradient_bytes: int
    state_bytes: int


def _bytes(tensors: Any) -> int:
    storages = {each.untyped_storage().data_ptr(): each.untyped_storage().nbytes() for each in tensors}
    return sum(storages.values())


def train(
    path: Path,
    *switches: str,
    steps: int = 2,
    warmup: int = 0,
    frames: bool = True,
    hooks: bool = True,
    memory: bool = True,
) -> Truth:
    """Train an example model as the capture script does, and keep what autograd saves in each recorded step."""
    args: argparse.Namespace = capture.parse_args([*switches, "-o", str(path)])
    args.warmup, args.steps = max(warmup, 1), steps
    torch.manual_seed(0)
    trainer = capture.Trainer(args)
    own = {each.untyped_storage().data_ptr() for each in trainer.model.parameters()}
    own |= {each.untyped_storage().data_ptr() for each in trainer.model.buffers()}
    found: list[Step] = []
    handler = capture.analyze(
        trainer.model,
        path.with_suffix("").with_suffix(".hotline"),
        report_format=None,
        batch_size=args.batch_size,
        dataset=trainer.dataset,
        optimizer=trainer.optimizer,
    )
    profiler = profile(
        activities=[ProfilerActivity.CPU],
        schedule=schedule(wait=max(warmup - 1, 0), warmup=min(warmup, 1), active=steps, repeat=1),
        on_trace_ready=handler,
        with_stack=frames,
        record_shapes=True,
        profile_memory=memory,
    )
    with profiler:
        for _ in range(warmup + steps):
            found.append(Step())
            _one_step(trainer, found[-1], own, hooks)
            profiler.step()
    state = [each for held in trainer.optimizer.state.values() for each in held.values() if isinstance(each, Tensor)]
    return Truth(
        path.with_suffix("").with_suffix(".json.gz"),
        found[warmup:],
        _bytes(trainer.model.parameters()),
        _bytes(each.grad for each in trainer.model.parameters() if each.grad is not None),
        _bytes(state),
    )


def _one_step(trainer: Any, step: Step, own: set[int], hooks: bool) -> None:
    inputs, targets = trainer.load()
    given = {each.untyped_storage().data_ptr() for each in (*inputs, *targets)}
    trainer.optimizer.zero_grad()

    def pack(saved: Tensor) -> Tensor:
        storage = saved.untyped_storage()
        if storage.data_ptr() in given:
            step.saved_inputs[storage.data_ptr()] = storage.nbytes()
        elif storage.data_ptr() not in own:
            step.saved[storage.data_ptr()] = storage.nbytes()
        return saved.detach()

    unpack: Callable[[Tensor], Tensor] = lambda saved: saved  # noqa: E731
    with torch.autograd.graph.saved_tensors_hooks(pack, unpack) if hooks else contextlib.nullcontext():
        output = trainer.model(*inputs)
        loss = trainer.loss(output, *targets)
    results = output if isinstance(output, tuple) else (output,)
    step.held = {each.untyped_storage().data_ptr() for each in (*results, loss)}
    loss.backward()
    trainer.optimizer.step()
