"""Steps of other batches, predicted from one trace, against what was measured: example models on the CPU.

    python tests/benchmarks/bench_batch.py --repeat 3 --steps 8
    python tests/benchmarks/bench_batch.py --only cnn --keep FOLDER

One process trains a model with batches of 8, 16 and 32 under the profiler, a few steps of each in turns. Of each batch
the fastest turn counts, as other work on the machine only makes steps longer. From its trace, the steps of the other
two are predicted; nothing of them is known. It prints a Markdown table: both measured steps, the prediction, its range
and error, and whether the range holds; and how often it holds. Nothing here passes or fails.
"""

# Checked with torch installed and without: then everything from torch is Any.
# mypy: disallow-subclassing-any=False, warn-return-any=False, warn-unused-ignores=False, disallow-untyped-calls=False

from __future__ import annotations

import argparse
import itertools
import subprocess
import sys
import tempfile
from contextlib import ExitStack, nullcontext
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile, schedule

import hotline_analysis as ha
from hotline_analysis.prediction.loop import loop_of

sys.path.insert(0, str(Path(__file__).parents[2] / "docs" / "examples"))
import capture  # type: ignore[import-not-found]  # of the folder above

BATCHES = (8, 16, 32)
MODELS = ("cnn", "resnet50", "transformer", "lstm", "dlrm", "seq2seq", "unet", "mlp")
WARMUP = 3


def run(name: str, size: str, steps: int, cycles: int, output: Path) -> None:
    """Train one model with each batch in turns under the profiler, and write the traces."""
    torch.set_num_threads(1)
    trainers = {}
    for batch in BATCHES:
        torch.manual_seed(0)
        switches = [name, "--size", size, "--batch-size", str(batch), "--optimizer", "adam", "-o", "unused.json.gz"]
        switches += ["--warmup", "1", "--steps", str(cycles * (WARMUP + steps))]
        trainers[batch] = capture.Trainer(capture.parse_args(switches))
    for cycle, (batch, trainer) in itertools.product(range(cycles), trainers.items()):
        file = _file(output, name, cycle, batch)
        plan = schedule(wait=0, warmup=WARMUP, active=steps, repeat=1)
        with profile(
            activities=[ProfilerActivity.CPU],
            schedule=plan,
            on_trace_ready=lambda profiler, file=file: profiler.export_chrome_trace(str(file)),
        ) as profiler:
            for _ in range(WARMUP + steps):
                inputs, targets = trainer.load()
                trainer.optimizer.zero_grad()
                output_of = trainer.model(*inputs)
                trainer.loss(output_of, *targets).backward()
                trainer.optimizer.step()
                profiler.step()


def _file(folder: Path, name: str, cycle: int, batch: int) -> Path:
    return folder / f"{name}_{cycle}_{batch}.json"


def fastest(name: str, batch: int, cycles: int, folder: Path) -> Path:
    """The trace of the turn in which the usual step took least: other work on the machine only makes it longer."""
    times = {}
    for cycle in range(cycles):
        file = _file(folder, name, cycle, batch)
        with ha.load(file) as trace:
            times[file] = float(trace.sql("select median(end_ns - start_ns) from step").item())
    return min(times, key=times.__getitem__)


def compared(name: str, cycles: int, folder: Path) -> list[dict[str, object]]:
    """Every batch predicted from every other one."""
    rows = []
    with ExitStack() as opened:
        traces = {batch: opened.enter_context(ha.load(fastest(name, batch, cycles, folder))) for batch in BATCHES}
        measured = {batch: loop_of(trace).baseline_ns for batch, trace in traces.items()}
        for batch, to in itertools.permutations(BATCHES, 2):
            try:
                found = ha.whatif(traces[batch], "batch", to=to, batch=batch)
            except ha.HotlineError as refused:
                print(f"{name}, {batch} to {to}: {refused.message}")
                continue
            rows.append(
                {
                    "name": name,
                    "batch": batch,
                    "to": to,
                    "before": measured[batch],
                    "measured": measured[to],
                    "predicted": found.predicted_ns,
                    "low": found.low_ns,
                    "high": found.high_ns,
                    "inside": found.low_ns <= measured[to] <= found.high_ns,
                }
            )
    return rows


def main() -> None:
    """Capture all models, predict, and print the table."""
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--repeat", type=int, default=3, help="turns of each model")
    options.add_argument("--steps", type=int, default=8, help="steps in each trace")
    options.add_argument("--size", default="small", help="size of the models")
    options.add_argument("--only", nargs="*", default=MODELS, help="models")
    options.add_argument("--keep", type=Path, help="a folder for the traces; those that are there are not made again")
    options.add_argument("--run", type=Path, help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.run:
        run(given.only[0], given.size, given.steps, given.repeat, given.run)
        return
    header = ("model", "batch", "to", "before, ms", "measured, ms", "predicted", "range", "error", "inside")
    print("| " + " | ".join(header) + " |\n|---|" + "---:|" * (len(header) - 1))
    rows: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() if given.keep is None else nullcontext(given.keep) as folder:
        for name in given.only:
            if not _file(Path(folder), name, given.repeat - 1, BATCHES[-1]).exists():
                command = [sys.executable, __file__, "--run", str(folder), "--only", name, "--size", given.size]
                command += ["--steps", str(given.steps), "--repeat", str(given.repeat)]
                subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
            for row in compared(name, given.repeat, Path(folder)):
                rows.append(row)
                print(_line(row), flush=True)
    print(f"\n{sum(bool(row['inside']) for row in rows)} of {len(rows)} inside their range.")


def _line(row: dict[str, object]) -> str:
    ms = {key: float(str(row[key])) / 1e6 for key in ("before", "measured", "predicted", "low", "high")}
    error = 100 * (ms["predicted"] / ms["measured"] - 1)
    times = f"{ms['before']:.1f} | {ms['measured']:.1f} | {ms['predicted']:.1f} | {ms['low']:.1f} to {ms['high']:.1f}"
    return f"| {row['name']} | {row['batch']} | {row['to']} | {times} | {error:+.1f} % | {_word(row)} |"


def _word(row: dict[str, object]) -> str:
    return "yes" if row["inside"] else "no"


if __name__ == "__main__":
    main()
