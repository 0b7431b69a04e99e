"""Phases and modules where the optimizer calls the program: `optimizer.step(closure)` in any order of calls.

The programs say what is what in annotations that are hidden before the trace is annotated. What they say is computed
from the events alone: the time of each op, less that of the ops in it, in the innermost annotation around its start.
"""

# Checked with torch installed and without: then everything from torch is Any.
# mypy: disallow-subclassing-any=False, warn-return-any=False, warn-unused-ignores=False, disallow-untyped-calls=False

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import hotline_analysis as ha
from tests.accuracy.marks import mark, marked, shares

torch: Any = pytest.importorskip("torch")
nn: Any = torch.nn
functional: Any = torch.nn.functional

pytestmark = pytest.mark.filterwarnings("ignore:.*Profiler clears events:UserWarning")

STEPS = 4

Run = Callable[[Any, Callable[[], None]], None]


class Net(nn.Module):  # type: ignore[misc]
    """An op between its modules, and a module with a state of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.first = nn.BatchNorm1d(24), nn.Linear(24, 64)
        self.act, self.last = nn.ReLU(), nn.Linear(64, 5)

    def forward(self, x: Any) -> Any:
        x = self.act(self.first(self.norm(x)))
        return self.last(x * 0.5)


def batches() -> Iterator[tuple[Any, Any]]:
    while True:
        with mark("load_data"):
            batch = torch.randn(64, 24), torch.randint(0, 5, (64,))
        yield batch


def zeroed_first(model: Any, ready: Callable[[], None]) -> None:
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    for x, y in batches():

        def closure(x: Any = x, y: Any = y) -> Any:
            with mark("zero_grad"):
                optimizer.zero_grad()
            with mark("forward"):
                out = model(x)
            with mark("loss"):
                loss = functional.cross_entropy(out, y)
            with mark("backward"):
                loss.backward()
            return loss

        with mark("optimizer"):
            optimizer.step(closure)
        ready()


def zeroed_before_backward(model: Any, ready: Callable[[], None]) -> None:
    """As Lightning does; gradients are clipped in the closure, and the loss is read back."""
    optimizer = torch.optim.AdamW(model.parameters())
    for x, y in batches():

        def closure(x: Any = x, y: Any = y) -> Any:
            with mark("forward"):
                out = model(x)
            with mark("loss"):
                loss = functional.cross_entropy(out, y)
            with mark("zero_grad"):
                optimizer.zero_grad(set_to_none=False)
            with mark("backward"):
                loss.backward()
            with mark("clipping"):
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            return loss.item()

        with mark("optimizer"):
            optimizer.step(closure)
        ready()


def zeroed_after_step(model: Any, ready: Callable[[], None]) -> None:
    """The loss is the program's own, and gradients are cleared when they were used."""
    optimizer = torch.optim.Adam(model.parameters(), foreach=True)
    for x, y in batches():

        def closure(x: Any = x, y: Any = y) -> Any:
            with mark("forward"):
                out = model(x)
            with mark("loss"):
                loss = (out - functional.one_hot(y, 5)).pow(2).mean()
            with mark("backward"):
                loss.backward()
            return loss

        with mark("optimizer"):
            optimizer.step(closure)
        with mark("zero_grad"):
            optimizer.zero_grad()
        ready()


def accumulated(model: Any, ready: Callable[[], None]) -> None:
    """Three batches in one closure, which gets them itself."""
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    source = batches()
    while True:

        def closure() -> Any:
            with mark("zero_grad"):
                optimizer.zero_grad()
            for _ in range(3):
                x, y = next(source)
                with mark("forward"):
                    out = model(x)
                with mark("loss"):
                    loss = functional.cross_entropy(out, y)
                with mark("backward"):
                    loss.backward()
            return loss

        with mark("optimizer"):
            optimizer.step(closure)
        ready()


def validated(model: Any, ready: Callable[[], None]) -> None:
    """The closure computes the loss of other data without gradients, too, after the gradients."""
    optimizer = torch.optim.RMSprop(model.parameters())
    x_other, y_other = torch.randn(64, 24), torch.randint(0, 5, (64,))
    for x, y in batches():

        def closure(x: Any = x, y: Any = y) -> Any:
            with mark("zero_grad"):
                optimizer.zero_grad()
            with mark("forward"):
                out = model(x)
            with mark("loss"):
                loss = functional.cross_entropy(out, y)
            with mark("backward"):
                loss.backward()
            with torch.no_grad():
                with mark("forward"):
                    out = model(x_other)
                with mark("loss"):
                    return functional.cross_entropy(out, y_other)

        with mark("optimizer"):
            optimizer.step(closure)
        ready()


class Sharp(torch.optim.Optimizer):  # type: ignore[misc]
    """Moves the weights uphill, calls the closure there, and lets another optimizer make the step (SAM)."""

    def __init__(self, params: Any) -> None:
        super().__init__(params, {})
        self.base = torch.optim.SGD(self.param_groups, 0.1)

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def step(self, closure: Any) -> Any:
        moved = []
        params = [p for group in self.param_groups for p in group["params"] if p.grad is not None]
        norm = torch.stack([p.grad.norm() for p in params]).norm()
        for p in params:
            moved.append(p.grad * (0.05 / (norm + 1e-12)))
            p.add_(moved[-1])
        with torch.enable_grad():
            loss = closure()
        for p, by in zip(params, moved, strict=True):
            p.sub_(by)
        self.base.step()
        return loss


def sharpened(model: Any, ready: Callable[[], None]) -> None:
    optimizer = Sharp(model.parameters())
    for x, y in batches():

        def closure(x: Any = x, y: Any = y) -> Any:
            with mark("zero_grad"):
                optimizer.zero_grad()
            with mark("forward"):
                out = model(x)
            with mark("loss"):
                loss = functional.cross_entropy(out, y)
            with mark("backward"):
                loss.backward()
            return loss

        closure()
        with mark("optimizer"):
            optimizer.step(closure)
        ready()


def lbfgs(model: Any, ready: Callable[[], None], **how: Any) -> None:
    """The closure is called again and again in one step."""
    optimizer = torch.optim.LBFGS(model.parameters(), 0.1, max_iter=6, **how)
    for x, y in batches():

        def closure(x: Any = x, y: Any = y) -> Any:
            with mark("zero_grad"):
                optimizer.zero_grad()
            with mark("forward"):
                out = model(x)
            with mark("loss"):
                loss = functional.cross_entropy(out, y)
            if loss.requires_grad:
                with mark("backward"):
                    loss.backward()
            return loss

        with mark("optimizer"):
            optimizer.step(closure)
        ready()


def line_search(model: Any, ready: Callable[[], None]) -> None:
    lbfgs(model, ready, line_search_fn="strong_wolfe")


def captured(run: Run, folder: Path) -> dict[str, Any]:
    """The trace that the handler writes of a program, which learned its model in the first step."""
    torch.manual_seed(0)
    model = marked(Net())
    plan = torch.profiler.schedule(wait=1, warmup=1, active=STEPS, repeat=1)
    handler = ha.analyze(model, folder / "run.hotline", report_format=None, when="now")
    steps = 0

    def ready() -> None:
        nonlocal steps
        steps += 1
        profiler.step()
        if steps == STEPS + 2:
            raise StopIteration

    activities = [torch.profiler.ProfilerActivity.CPU]
    with (
        torch.profiler.profile(activities=activities, schedule=plan, on_trace_ready=handler) as profiler,
        pytest.raises(StopIteration),
    ):
        run(model, ready)
    with gzip.open(folder / "run.json.gz", "rt") as file:
        trace: dict[str, Any] = json.load(file)
    return trace


PROGRAMS = [
    zeroed_first,
    zeroed_before_backward,
    zeroed_after_step,
    accumulated,
    validated,
    sharpened,
    lbfgs,
    line_search,
]


@pytest.mark.slow
@pytest.mark.parametrize("run", PROGRAMS)
@pytest.mark.sampled
def test_a_closure_has_its_own_phases_and_modules(run: Run, tmp_path: Path) -> None:
    found = shares(captured(run, tmp_path), tmp_path)
    assert min(found[name] for name in ("phases", "modules", "forward", "loss", "backward", "optimizer")) >= 99, found
