"""More ranks, predicted and measured: a model on the CPU, alone, and with DistributedDataParallel over gloo.

    python tests/benchmarks/bench_ranks.py --repeat 3 --steps 8

So many processes first measure what the network is: all-reduces of 4 bytes and of 25 MiB, while they do nothing else.
Then, in turns, one of them trains alone while the others wait; all train at once, each on its own; and all train
together. From a trace of the first and one of the second, the step of the third is predicted. Layers sleep for the time
that they take, as a CPU does that waits for an accelerator: so ranks do not take cores from each other, but where they
update parameters and reduce gradients. It prints a Markdown table; nothing here passes or fails.
"""

# Checked with torch installed and without: then everything from torch is Any.
# mypy: disallow-subclassing-any=False, warn-return-any=False, warn-unused-ignores=False, disallow-untyped-calls=False

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path
from statistics import median
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ProfilerActivity, profile, schedule

import hotline_analysis as ha
from hotline_analysis.prediction.engine.loop import loop_of

WARMUP = 3
DEPTH, SIZE = 12, 2**20
"""Layers, and the parameters of each."""
FORWARD, BACKWARD = 0.002, 0.004
"""Seconds that a layer takes."""
LARGE = 25 * 2**18  # floats of the large all-reduce: a bucket of 25 MiB
KINDS = ("alone", "beside", "together")


def network() -> dict[str, float]:
    """The latency of an all-reduce, its bus bandwidth, and how fast a thread copies, by the median of some."""
    ranks = dist.get_world_size()
    times = []
    for size in (1, LARGE):
        data = torch.ones(size)
        taken = []
        for _ in range(15):
            dist.barrier()
            start = time.perf_counter()
            dist.all_reduce(data)
            taken.append(time.perf_counter() - start)
        times.append(median(taken))
    data, bucket = torch.ones(SIZE), torch.ones(SIZE)
    taken = []
    for _ in range(15):
        dist.barrier()
        start = time.perf_counter()
        bucket.copy_(data)
        taken.append(time.perf_counter() - start)
    moved = 2 * (ranks - 1) / ranks * 4 * LARGE
    return {
        "latency_us": 1e6 * times[0],
        "gb_per_s": moved / max(times[1] - times[0], 1e-9) / 1e9,
        "copy_gb_per_s": 4 * SIZE / median(taken) / 1e9,
    }


class Slow(torch.autograd.Function):
    """A layer that takes its time, and has a gradient for each parameter."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        """Return the input, later."""
        ctx.save_for_backward(weight)
        time.sleep(FORWARD)
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:  # type: ignore[override]
        """Return gradients, later."""
        (weight,) = ctx.saved_tensors
        time.sleep(BACKWARD)
        return gradient, torch.zeros_like(weight)


class Net(torch.nn.Module):
    """Such layers, one after the other."""

    def __init__(self) -> None:
        super().__init__()
        self.weights = torch.nn.ParameterList(torch.zeros(SIZE) for _ in range(DEPTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run all of them."""
        for weight in self.weights:
            x = Slow.apply(x, weight)
        return x


def train(model: Any, steps: int, output: Path | None) -> None:
    """Train a few steps under the profiler, and write their trace."""
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    plan = schedule(wait=0, warmup=WARMUP, active=steps, repeat=1)
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True, schedule=plan) as profiler:
        for _ in range(WARMUP + steps):
            optimizer.zero_grad()
            model(torch.ones(8, 8)).square().mean().backward()
            optimizer.step()
            profiler.step()
    if output is not None:
        profiler.export_chrome_trace(str(output))


def run(rank: int, ranks: int, steps: int, cycles: int, output: Path, realtime: bool) -> None:
    """One process of a job."""
    torch.set_num_threads(1)
    torch.manual_seed(rank)
    if realtime:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    dist.init_process_group("gloo", rank=rank, world_size=ranks)
    model = Net()
    together = DistributedDataParallel(model)
    for cycle in range(cycles):
        found = network()
        for kind in KINDS:
            dist.barrier()
            if kind != "alone" or rank == 0:
                name = output.with_name(f"{output.name}_{cycle}_{kind}.json")
                train(together if kind == "together" else model, steps, name if rank == 0 else None)
        if rank == 0:
            output.with_name(f"{output.name}_{cycle}_network.json").write_text(json.dumps(found))
    dist.destroy_process_group()


def captured(ranks: int, steps: int, cycles: int, output: Path, realtime: bool) -> None:
    """Write the traces of a job of so many processes."""
    port = str(20_000 + os.getpid() % 10_000)
    environment = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, __file__, "--steps", str(steps), "--repeat", str(cycles), "--output", str(output)]
    command += ["--realtime"] if realtime else []
    started = [
        subprocess.Popen(
            [*command, "--run", str(ranks), "--rank", str(rank)], env=environment, stderr=subprocess.DEVNULL
        )
        for rank in range(ranks)
    ]
    try:
        if any(process.wait(300) for process in started):
            raise RuntimeError(f"the job of {ranks} ranks failed")
    finally:
        for process in started:
            process.kill()


def compared(ranks: int, output: Path, cycle: int, kind: str) -> list[str]:
    """One line of the table: what is predicted from a trace of this kind, and what was measured."""
    said = json.loads(output.with_name(f"{output.name}_{cycle}_network.json").read_text())
    with (
        ha.load(output.with_name(f"{output.name}_{cycle}_{kind}.json")) as trace,
        ha.load(output.with_name(f"{output.name}_{cycle}_together.json")) as other,
    ):
        found = ha.whatif(trace, "ddp", ranks=ranks, **said)
        measured = float(loop_of(other).alike["length_ns"].mean())  # type: ignore[arg-type]
    error = 100 * (found.predicted_ns - measured) / measured
    inside = "yes" if found.low_ns <= measured <= found.high_ns else "no"
    return [
        str(ranks), kind, f"{said['gb_per_s']:.2f} GB/s, {said['latency_us']:.0f} us", _ms(found.baseline_ns),
        _ms(found.predicted_ns), f"{_ms(found.low_ns)} to {_ms(found.high_ns)}", _ms(measured), f"{error:+.1f} %",
        inside,
    ]  # fmt: skip


def _ms(ns: float) -> str:
    return f"{ns / 1e6:.1f}"


def main() -> None:
    """Capture, predict, and print the table."""
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--repeat", type=int, default=3, help="traces of each kind")
    options.add_argument("--steps", type=int, default=8, help="steps in each trace")
    options.add_argument("--ranks", type=int, nargs="+", default=[2, 4], help="processes that train together")
    options.add_argument(
        "--realtime", action="store_true", help="run before what else the machine does (Linux, as root)"
    )
    options.add_argument("--keep", type=Path, help="a folder for the traces")
    options.add_argument("--run", type=int, help=argparse.SUPPRESS)
    options.add_argument("--rank", type=int, default=0, help=argparse.SUPPRESS)
    options.add_argument("--output", type=Path, help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.run:
        run(given.rank, given.run, given.steps, given.repeat, given.output, given.realtime)
        return
    header = ("ranks", "from a trace", "network", "a step, ms", "predicted", "range", "measured", "error", "inside")
    print("| " + " | ".join(header) + " |\n|---:|---|---|" + "---:|" * (len(header) - 4) + "---|")
    with tempfile.TemporaryDirectory() if given.keep is None else nullcontext(given.keep) as folder:
        for ranks in given.ranks:
            output = Path(folder) / f"ranks{ranks}"
            captured(ranks, given.steps, given.repeat, output, given.realtime)
            for cycle in range(given.repeat):
                for kind in KINDS[:2]:
                    print("| " + " | ".join(compared(ranks, output, cycle, kind)) + " |", flush=True)


if __name__ == "__main__":
    main()
