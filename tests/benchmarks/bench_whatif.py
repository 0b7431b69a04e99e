"""Predictions against what was measured: pairs of runs of small models on the CPU, each with one thing changed.

    python tests/benchmarks/bench_whatif.py --repeat 3 --steps 10
    python tests/benchmarks/bench_whatif.py --traces BEFORE AFTER SCENARIO    # a pair of your own

One process (or two or four, with gloo) trains both models under the profiler, a few steps of the one and of the other
in turns, so that a change of the machine's speed meets both. From each trace of the one, the step of the other is
predicted; nothing of the other is known. It prints a Markdown table: both measured steps, the prediction, its range
and error, and whether the range holds. Nothing here passes or fails.
"""

# Checked with torch installed and without: then everything from torch is Any.
# mypy: disallow-subclassing-any=False, warn-return-any=False, warn-unused-ignores=False, disallow-untyped-calls=False
# mypy: disallow-untyped-decorators=False

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.profiler import ProfilerActivity, profile, record_function, schedule
from torch.utils.checkpoint import checkpoint

import hotline_analysis as ha
from hotline_analysis.prediction.engine.loop import HIGH, LOW, loop_of

WARMUP = 3
DELAY = 0.008
"""Seconds of the artificial delay: a good part of a step of 20 to 40 ms."""


class Slow(torch.nn.Module):
    """A module that takes longer than it needs to: it sleeps, or computes for nothing."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the input, late."""
        with record_function("delay"):
            if self.kind in ("sleep", "half"):
                time.sleep(DELAY / (1 + (self.kind == "half")))
            elif self.kind == "busy":
                until = time.perf_counter() + DELAY
                while time.perf_counter() < until:
                    pass
        return x


class Net(torch.nn.Module):
    """Convolutions with normalisation, and a delay in the middle."""

    def __init__(self, delay: str, again: bool) -> None:
        super().__init__()
        self.first = torch.nn.Sequential(*[part for _ in range(4) for part in _block(16)])
        self.delay: torch.nn.Module = Slow(delay) if delay else torch.nn.Identity()
        self.second = torch.nn.Sequential(*[part for _ in range(4) for part in _block(16)])
        self.head = torch.nn.Linear(16, 10)
        self.again = again

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run the parts, the second one again in backward if asked."""
        x = self.delay(self.first(x))
        x = checkpoint(self.second, x, use_reentrant=False) if self.again else self.second(x)
        return self.head(x.mean((2, 3)))


def _block(width: int) -> list[torch.nn.Module]:
    return [torch.nn.Conv2d(width, width, 3, padding=1), torch.nn.BatchNorm2d(width), torch.nn.ReLU()]


class Items(torch.utils.data.Dataset[tuple[torch.Tensor, int]]):
    """Items that take as long to make as an image to read: they sleep, so that workers need no core."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __len__(self) -> int:
        return 10_000

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        time.sleep(self.seconds)
        return torch.full((16, 24, 24), float(index % 7)), index % 10


@dataclass(frozen=True)
class Program:
    """What a run does."""

    delay: str = ""
    workers: int = 0
    load_ms: float = 0.0
    optimizer: str = "foreach"
    depth: int = 0
    again: bool = False
    processes: int = 1
    stacks: bool = False

    def text(self) -> str:
        """As one argument of a command line."""
        return ",".join(str(getattr(self, name)) for name in self.__dataclass_fields__)

    @classmethod
    def of(cls, text: str) -> Program:
        """The program of an argument."""
        delay, workers, load_ms, optimizer, depth, again, processes, stacks = text.split(",")
        flags = again == "True", int(processes), stacks == "True"
        return cls(delay, int(workers), float(load_ms), optimizer, int(depth), *flags)


class Training:
    """A program with its model, optimizer and batches."""

    def __init__(self, program: Program) -> None:
        model: torch.nn.Module = Net(program.delay, program.again)
        if program.depth:
            model = torch.nn.Sequential(model, *[torch.nn.Linear(10, 10) for _ in range(program.depth)])
        self.model = torch.nn.parallel.DistributedDataParallel(model) if program.processes > 1 else model
        kind = program.optimizer
        how: dict[str, Any] = {"fused": True} if kind == "fused" else {"foreach": kind == "foreach"}
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-4, **how)
        items = Items(program.load_ms / 8000)
        self.batches = iter(torch.utils.data.DataLoader(items, batch_size=8, num_workers=program.workers))
        self.with_stack = program.again or program.stacks

    def cycle(self, steps: int, output: Path | None) -> None:
        """Train a few steps under the profiler, and write their trace."""

        def save(profiler: profile) -> None:
            if output is not None:
                profiler.export_chrome_trace(str(output))

        plan = schedule(wait=0, warmup=WARMUP, active=steps, repeat=1)
        activities = [ProfilerActivity.CPU]
        with profile(activities=activities, schedule=plan, with_stack=self.with_stack, on_trace_ready=save) as profiler:
            for _ in range(WARMUP + steps):
                inputs, targets = next(self.batches)
                self.optimizer.zero_grad()
                torch.nn.functional.cross_entropy(self.model(inputs), targets).backward()
                self.optimizer.step()
                profiler.step()


def run(programs: Sequence[Program], rank: int, steps: int, cycles: int, output: Path) -> None:
    """Train all programs in turns under the profiler, and write their traces."""
    torch.set_num_threads(1)
    torch.manual_seed(rank)
    processes = programs[0].processes
    if processes > 1:
        dist.init_process_group("gloo", rank=rank, world_size=processes)
    trainings = [Training(program) for program in programs]
    for cycle in range(cycles):
        for number, training in enumerate(trainings):
            name = output.with_name(f"{output.name}_{cycle}_{('before', 'after')[number]}.json")
            training.cycle(steps, name if rank == 0 else None)
    if processes > 1:
        dist.destroy_process_group()


def captured(pair: Pair, steps: int, cycles: int, output: Path) -> None:
    """Write the traces of both programs of a pair, from a process of their own."""
    port = str(20_000 + os.getpid() % 10_000)
    environment = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, __file__, "--steps", str(steps), "--repeat", str(cycles), "--output", str(output)]
    started = [
        subprocess.Popen(
            [*command, "--run", pair.before.text(), pair.after.text(), "--rank", str(rank)],
            env=environment,
            stderr=subprocess.DEVNULL,
        )
        for rank in range(pair.before.processes)
    ]
    if any(process.wait() for process in started):
        raise RuntimeError(f"the runs of {pair.name} failed")


@dataclass(frozen=True)
class Pair:
    """Two programs, and how the second is predicted from a trace of the first."""

    name: str
    before: Program
    after: Program
    ask: Callable[[ha.Trace], ha.Prediction | None]


def _edited(*edits: ha.Scale | ha.Remove | ha.Insert) -> Callable[[ha.Trace], ha.Prediction]:
    return lambda trace: ha.whatif(trace, ha.Scenario("pair", list(edits)))


def _named(scenario: str, **parameters: float) -> Callable[[ha.Trace], ha.Prediction]:
    return lambda trace: ha.whatif(trace, scenario, rank=None, **parameters)


_GONE = ha.Remove("name = 'delay'")
_DELAYED = ha.Insert("category = 'cpu_op' and name = 'aten::mean' and phase = 'forward'", 1e9 * DELAY)
PAIRS = (
    Pair("the same again", Program(), Program(), lambda trace: None),
    Pair("the same again, 2 processes", Program(processes=2), Program(processes=2), lambda trace: None),
    Pair("a module sleeps no more", Program("sleep"), Program(), _edited(_GONE)),
    Pair("a module computes for nothing no more", Program("busy"), Program(), _edited(_GONE)),
    Pair("a module sleeps", Program(), Program("sleep"), _edited(_DELAYED)),
    Pair("a module sleeps half as long", Program("sleep"), Program("half"), _edited(ha.Scale("name = 'delay'", 0.5))),
    Pair("0 to 2 workers", Program(load_ms=20), Program(load_ms=20, workers=2), _named("loader", workers=2)),
    Pair("0 to 1 worker, too slow", Program(load_ms=60), Program(load_ms=60, workers=1), _named("loader", workers=1)),
    Pair(
        "optimizer: loop to fused",
        Program(optimizer="loop", depth=60),
        Program(optimizer="fused", depth=60),
        _named("fused_optimizer"),
    ),
    Pair("checkpointing off", Program(again=True), Program(stacks=True), _named("no_recompute")),
    Pair("2 processes, a module sleeps no more", Program("sleep", processes=2), Program(processes=2), _edited(_GONE)),
    Pair("4 processes, a module sleeps no more", Program("sleep", processes=4), Program(processes=4), _edited(_GONE)),
)


def compared(name: str, before: Path, after: Path, ask: Callable[[ha.Trace], ha.Prediction | None]) -> list[str]:
    """One line of the table."""
    with ha.load(before) as trace, ha.load(after) as other:
        loop = loop_of(trace)
        measured = float(loop_of(other).alike["length_ns"].mean())  # type: ignore[arg-type]
        try:
            found = ask(trace)
        except ha.HotlineError as refused:
            return [name, _ms(loop.baseline_ns), _ms(measured), "–", "–", "–", refused.message]
        # without edits: the range of the same program, run again
        middle, low, high = (
            (loop.baseline_ns, loop.plain_ns(LOW), loop.plain_ns(HIGH))
            if found is None
            else (found.predicted_ns, found.low_ns, found.high_ns)
        )
    error = 100 * (middle - measured) / measured
    inside = "yes" if low <= measured <= high else "no"
    times = [_ms(loop.baseline_ns), _ms(measured), _ms(middle), f"{_ms(low)} to {_ms(high)}"]
    return [name, *times, f"{error:+.1f} %", inside]


def _ms(ns: float) -> str:
    return f"{ns / 1e6:.1f}"


def main() -> None:
    """Capture all pairs, predict, and print the table."""
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--repeat", type=int, default=3, help="traces of each program")
    options.add_argument("--steps", type=int, default=6, help="steps in each trace")
    options.add_argument("--only", default="", help="pairs whose name has this in it")
    options.add_argument("--keep", type=Path, help="a folder for the traces")
    options.add_argument("--traces", nargs=3, metavar=("BEFORE", "AFTER", "SCENARIO"))
    options.add_argument("--run", nargs=2, help=argparse.SUPPRESS)
    options.add_argument("--rank", type=int, default=0, help=argparse.SUPPRESS)
    options.add_argument("--output", type=Path, help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.run:
        run([Program.of(text) for text in given.run], given.rank, given.steps, given.repeat, given.output)
        return
    header = ("pair", "before, ms", "after, ms", "predicted", "range", "error", "inside")
    print("| " + " | ".join(header) + " |\n|---|" + "---:|" * (len(header) - 1))
    if given.traces:
        before, after, scenario = given.traces
        print("| " + " | ".join(compared(scenario, Path(before), Path(after), _named(scenario))) + " |")
        return
    rows: list[Sequence[str]] = []
    with tempfile.TemporaryDirectory() if given.keep is None else nullcontext(given.keep) as folder:
        for pair in PAIRS:
            if given.only not in pair.name:
                continue
            output = Path(folder) / "".join(letter if letter.isalnum() else "_" for letter in pair.name)
            captured(pair, given.steps, given.repeat, output)
            for cycle in range(given.repeat):
                before, after = (output.with_name(f"{output.name}_{cycle}_{side}.json") for side in ("before", "after"))
                rows.append(compared(pair.name, before, after, pair.ask))
                print("| " + " | ".join(rows[-1]) + " |", flush=True)
    told = [row for row in rows if row[-1] in ("yes", "no")]
    inside = sum(row[-1] == "yes" for row in told)
    print(f"\n{inside} of {len(told)} inside their range; of {len(rows)} pairs, {len(rows) - len(told)} were refused.")
    calm = [row for row in told if _is_calm([other for other in told if other[0] == row[0]])]
    print(
        f"{sum(row[-1] == 'yes' for row in calm)} of {len(calm)} of programs whose turns took about as long each time."
    )


def _is_calm(turns: Sequence[Sequence[str]]) -> bool:
    """Whether each program took at most a quarter longer in one turn than in another: else something else ran, too."""
    times = [[float(turn[place]) for turn in turns] for place in (1, 2)]
    return all(max(each) <= 1.25 * min(each) for each in times)


if __name__ == "__main__":
    main()
