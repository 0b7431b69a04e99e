"""How often the gate fails without a reason, and how often it finds a slow-down: on repeated captures of one program.

    python tests/benchmarks/bench_gate.py capture FOLDER [--runs 10] [--alone]   one process and trace file for each
    python tests/benchmarks/bench_gate.py measure FOLDER                         100 random splits of them
    python tests/benchmarks/bench_gate.py simulate                               400 gates each of made-up runs

With `--alone`, the steps run with real-time priority on one core, so that other programs of the machine do not count
(Linux, needs the right to it). `measure` draws which of the runs are new, and gates them; then it makes one module of
the new runs slower, in each of their steps, and gates them again. `simulate` makes runs whose truth is known: steps
differ by 2 %, 3 % of them take three times as long, and either whole runs differ, or other programs make a share of the
steps longer, another in each run.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean, median, stdev

import numpy as np

import hotline_analysis as ha
from hotline_analysis.gating import Measured, gate, measure

PROGRAM = """
import os, sys, torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, schedule

class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.mix, self.act, self.out = nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.out(self.act(self.mix(x)))

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.proj = nn.Conv2d(3, 8, 5, stride=2), nn.Linear(8 * 6 * 6, 128)
        self.blocks, self.head = nn.Sequential(*(Block(128) for _ in range(3))), nn.Linear(128, 10)

    def forward(self, x):
        return self.head(self.blocks(self.proj(torch.relu(self.stem(x)).flatten(1))))

output, alone = sys.argv[1], sys.argv[2] == "alone"
if alone:
    os.sched_setaffinity(0, {os.cpu_count() - 1})
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))
torch.manual_seed(0)
torch.set_num_threads(1)
model, loss = Net(), nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x, y = torch.randn(64, 3, 16, 16), torch.randint(0, 10, (64,))
steps = schedule(wait=5, warmup=3, active=60, repeat=1)
cpu = [ProfilerActivity.CPU]
with profile(activities=cpu, schedule=steps, record_shapes=True, profile_memory=True, with_stack=True) as profiler:
    for _ in range(68):
        optimizer.zero_grad()
        loss(model(x), y).backward()
        optimizer.step()
        profiler.step()
if alone:
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
profiler.export_chrome_trace(output)
"""
SPLITS = 100
MODULE = "module:Net_0.Sequential_0"


def capture(folder: Path, runs: int, alone: bool) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(runs):
        command = [sys.executable, "-c", PROGRAM, str(folder / f"run{number}.json.gz"), "alone" if alone else "shared"]
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL)


def measured(folder: Path) -> list[Measured]:
    found = []
    for file in sorted(folder.glob("*.json.gz")):
        with ha.load(file) as trace:
            found.append(measure(trace, file.name))
    return found


def slower(run: Measured, module: str, factor: float) -> Measured:
    """The run if a module took so many times as long in each step: it, the modules around it, and the step."""
    own = run.values[module]
    values = dict(run.values)
    for metric in values:
        if metric == "step" or (metric.startswith("module:") and f"{module}.".startswith(f"{metric}.")):
            values[metric] = [value + (factor - 1) * part for value, part in zip(values[metric], own, strict=True)]
    return replace(run, values=values)


def splits(runs: Sequence[Measured], base: int, new: int) -> list[tuple[list[Measured], list[Measured]]]:
    draw = random.Random(27)
    found = []
    for _ in range(SPLITS):
        order = draw.sample(list(runs), base + new)
        found.append((order[:base], order[base:]))
    return found


def made_up(random: np.random.Generator, *, between: float = 0.0, added: float = 0.0, change: float = 0.0) -> Measured:
    """A run of 60 steps that differs from others by `between`, or in which others add `added` to some steps."""
    steps = np.exp(random.normal(0, 0.02, 60)) * np.where(random.random(60) < 0.03, 3, 1) * (1 + change)
    steps *= np.exp(random.normal(0, between))
    is_longer = random.random(60) < random.uniform(0, 0.8)
    steps += np.where(is_longer, random.exponential(added, 60) if added else 0, 0)
    return Measured("run", {}, {"step": (100e6 * steps).tolist()})


def simulate(gates: int = 400) -> None:
    random = np.random.default_rng(27)
    noises = [("runs differ by 0.5 %", {"between": 0.005}), ("runs differ by 1 %", {"between": 0.01})]
    noises += [("runs differ by 2 %", {"between": 0.02}), ("runs differ by 3 %", {"between": 0.03})]
    noises += [("others add 10 %", {"added": 0.1}), ("others add 30 %", {"added": 0.3})]
    for said, noise in noises:
        for base, new in ((1, 1), (5, 1), (5, 3), (10, 3), (10, 5)):
            print(f"{said}  {base} + {new} ", end="")
            for change in (0.0, 0.05, 0.1):
                count = Counter(
                    gate(
                        [made_up(random, **noise) for _ in range(base)],
                        [made_up(random, **noise, change=change) for _ in range(new)],
                    ).answer
                    for _ in range(gates)
                )
                shares = ", ".join(f"{answer} {100 * number / gates:.0f} %" for answer, number in sorted(count.items()))
                print(f" | +{100 * change:.0f} %: {shares}", end="")
            print(flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["capture", "measure", "simulate"])
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--alone", action="store_true")
    given = parser.parse_args()
    if given.what == "simulate":
        simulate()
        return
    if given.folder is None:
        parser.error(f"{given.what} needs a folder")
    if given.what == "capture":
        capture(given.folder, given.runs, given.alone)
        return
    runs = measured(given.folder)
    medians = [median(run.values["step"]) / 1e6 for run in runs]
    print(f"{len(runs)} runs, medians of steps {min(medians):.1f} to {max(medians):.1f} ms")
    print(f"spread between runs {100 * stdev(medians) / fmean(medians):.1f} %, of the steps in a run", end=" ")
    print(f"{100 * median(stdev(run.values['step']) / fmean(run.values['step']) for run in runs):.1f} % (median)")
    share = median(sum(run.values[MODULE]) / sum(run.values["step"]) for run in runs)
    whole_factor = 1 + 0.05 / share
    module_rule, everything = f"{MODULE} > +3 %", "module:* > +1 % of step"
    cases = [
        ("nothing", 1.0, ("step > +3 %",)),
        ("nothing", 1.0, (module_rule,)),
        ("nothing", 1.0, (everything,)),
        (f"{MODULE} +5 %", 1.05, (module_rule,)),
        ("step +5 % by it", whole_factor, ("step > +3 %",)),
        ("step +5 % by it", whole_factor, (everything,)),
    ]
    print(f"{MODULE} has {100 * share:.0f} % of a step")
    for base, new in ((7, 3), (8, 2), (9, 1), (1, 1)):
        for what, factor, rules in cases:
            count = Counter(
                gate(before, [slower(run, MODULE, factor) for run in after], rules).answer
                for before, after in splits(runs, base, new)
            )
            print(f"{base} + {new}  {what:28} {rules[0]:36} {dict(count)}")


if __name__ == "__main__":
    main()
