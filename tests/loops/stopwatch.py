"""A stopwatch for the phases of a training loop. It reads a clock, and leaves nothing in the trace."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

WAIT, WARMUP = 1, 2
"""Steps before the recording: in the first, the model is learned; the second compiles what is to be compiled."""

OTHER = "other"

Steps = list[dict[str, int]]


class Stopwatch:
    """Times the phases of each step; what no phase has is `other`.

    Phases may be nested: a phase then has its time without the phases in it. One named `forward+loss` is both.
    """

    def __init__(self, folder: Path | None = None, steps: int = 5) -> None:
        self.folder = folder
        self.active = steps
        self.steps: Steps = []  # nanoseconds of each phase in each step that counts
        self.ranks: list[Steps] = []  # of each process, where a loop has several
        self._step: dict[str, int] = {}
        self._open = [OTHER]
        self._since = 0
        self._number = 0
        self._profiler: Any = None
        self._has_schedule = True

    @property
    def total(self) -> int:
        """The number of steps that a loop runs."""
        return WAIT + WARMUP + self.active

    @contextmanager
    def __call__(self, phase: str) -> Iterator[None]:
        """Time a phase."""
        self._switch(self._open[-1])
        self._open.append(phase)
        try:
            yield
        finally:
            self._switch(self._open.pop())

    def timed(self, function: Callable[..., Any], phase: str) -> Callable[..., Any]:
        """Return the function with its calls timed: for frameworks that call what the loop consists of."""

        def call(*arguments: Any, **settings: Any) -> Any:
            with self(phase):
                return function(*arguments, **settings)

        return call

    def next_of(self, batches: Any, phase: str = "load_data") -> Iterator[Any]:
        """Iterate, with the time of each `next` in a phase."""
        iterator = iter(batches)
        while True:
            with self(phase):
                try:
                    batch = next(iterator)
                except StopIteration:
                    return
            yield batch

    @contextmanager
    def recording(self, model: Any, *, schedule: bool = True, **settings: Any) -> Iterator[None]:
        """Record the steps in it as a user would, if this is the run with the profiler."""
        self._has_schedule = schedule
        if self.folder is None:
            self.restart()
            yield
            return
        import torch

        import hotline_analysis as ha

        plan = torch.profiler.schedule(wait=WAIT, warmup=WARMUP, active=self.active, repeat=1) if schedule else None
        handler = ha.analyze(model, self.folder / "run.hotline", report_format=None, when="later", **settings)
        activities = [torch.profiler.ProfilerActivity.CPU]
        with torch.profiler.profile(activities=activities, schedule=plan, on_trace_ready=handler) as self._profiler:
            self.restart()
            yield
            self._switch(OTHER)

    def restart(self) -> None:
        """Forget what was timed since the last step."""
        self._step.clear()
        self._since = time.perf_counter_ns()

    def step(self) -> None:
        """End a step of the loop, as `profiler.step()` does."""
        self._switch(self._open[-1])
        if self._number >= WAIT + WARMUP or not self._has_schedule:
            self.steps.append(dict(self._step))
        self._number += 1
        if self._profiler is not None and self._has_schedule:
            self._profiler.step()
        self.restart()

    def _switch(self, phase: str) -> None:
        """Count the time since the last change to a phase."""
        now = time.perf_counter_ns()
        self._step[phase] = self._step.get(phase, 0) + now - self._since
        self._since = now


@contextmanager
def quiet() -> Iterator[None]:
    """Drop what frameworks print."""
    import os

    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
        yield
