"""Steps of other batches, predicted from one trace, against what was measured: example models on the CPU.

    python tests/benchmarks/bench_batch.py --steps 10
    python tests/benchmarks/bench_batch.py --only cnn --keep FOLDER

One process trains a model under the profiler, with batches of 8, 16 and 32 in turns, a step of each, so that a change
of the machine's speed meets all of them alike. The trace is then split into one for each batch, whose steps follow each
other. From each, the steps of the other two are predicted; nothing of them is known. It prints a Markdown table: both
measured steps, the prediction, its range and error, and whether the range holds; and how often it holds. Nothing here
passes or fails; on a machine with other work, look at the pairs whose steps are alike.
"""

# Checked with torch installed and without: then everything from torch is Any.
# mypy: disallow-subclassing-any=False, warn-return-any=False, warn-unused-ignores=False, disallow-untyped-calls=False

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
import tempfile
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile, schedule

import hotline_analysis as ha
from hotline_analysis.prediction.engine.loop import loop_of

sys.path.insert(0, str(Path(__file__).parents[2] / "docs" / "examples"))
import capture  # type: ignore[import-not-found]  # of the folder above

BATCHES = (8, 16, 32)
MODELS = ("cnn", "resnet50", "transformer", "lstm", "dlrm", "seq2seq", "unet", "mlp")
WARMUP = 3


def run(name: str, size: str, steps: int, folder: Path) -> None:
    """Train one model with each batch in turns under the profiler, and write a trace of each batch."""
    torch.set_num_threads(1)
    trainers = []
    for batch in BATCHES:
        torch.manual_seed(0)
        switches = [name, "--size", size, "--batch-size", str(batch), "--optimizer", "adam", "-o", "unused.json.gz"]
        trainers.append(capture.Trainer(capture.parse_args([*switches, "--steps", str(WARMUP + steps)])))
    whole = folder / f"{name}.json"
    count = len(BATCHES)
    with profile(
        activities=[ProfilerActivity.CPU],
        record_shapes=True,
        schedule=schedule(wait=0, warmup=WARMUP * count, active=steps * count, repeat=1),
        on_trace_ready=lambda profiler: profiler.export_chrome_trace(str(whole)),
    ) as profiler:
        for trainer in trainers * (WARMUP + steps):
            inputs, targets = trainer.load()
            trainer.optimizer.zero_grad()
            output = trainer.model(*inputs)
            trainer.loss(output, *targets).backward()
            trainer.optimizer.step()
            profiler.step()
    text = json.loads(whole.read_text())
    whole.unlink()
    for number, batch in enumerate(BATCHES):
        part = {**text, "traceEvents": list(_steps_of(text["traceEvents"], number))}
        _file(folder, name, batch).write_text(json.dumps(part))


def _steps_of(events: list[dict[str, Any]], number: int) -> Iterator[dict[str, Any]]:
    """The events of every third step, moved so that each of these steps begins where the one before ends."""
    marks = [event for event in events if str(event.get("name")).startswith("ProfilerStep#")]
    marks = sorted((event for event in marks if event["cat"] == "user_annotation"), key=lambda event: event["ts"])
    begins = [mark["ts"] for mark in marks]
    ends = [*begins[1:], marks[-1]["ts"] + marks[-1]["dur"]]
    kept = range(number, len(marks), len(BATCHES))
    shifts, begin = {}, begins[0]
    for step in kept:
        shifts[step] = begin - begins[step]
        begin += ends[step] - begins[step]
    for event in events:
        if event.get("ph") == "M":
            yield event
        elif event.get("ph") in ("X", "s", "f", "i"):
            step = bisect_right(begins, event["ts"]) - 1
            if step in shifts and event["ts"] < ends[step]:
                moved = {**event, "ts": event["ts"] + shifts[step]}
                if event["name"].startswith("ProfilerStep#"):
                    moved |= {"name": f"ProfilerStep#{step // len(BATCHES)}", "dur": ends[step] - begins[step]}
                yield moved


def _file(folder: Path, name: str, batch: int) -> Path:
    return folder / f"{name}_{batch}.json"


def compared(name: str, folder: Path) -> list[dict[str, object]]:
    """Every batch predicted from every other one."""
    rows = []
    with ExitStack() as opened:
        traces = {batch: opened.enter_context(ha.load(_file(folder, name, batch))) for batch in BATCHES}
        measured = {batch: loop_of(trace).baseline_ns for batch, trace in traces.items()}
        calm = {batch: _is_calm(trace) for batch, trace in traces.items()}
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
                    "calm": calm[batch] and calm[to],
                    "inside": found.low_ns <= measured[to] <= found.high_ns,
                }
            )
    return rows


def _is_calm(trace: ha.Trace) -> bool:
    """Whether the upper quartile of the steps is by at most a quarter above the lower one: else something else ran."""
    question = "select quantile_cont(end_ns - start_ns, [0.25, 0.75]) as quartiles from step"
    lower, upper = trace.sql(question).item()
    return bool(upper <= 1.25 * lower)


def main() -> None:
    """Capture all models, predict, and print the table."""
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--steps", type=int, default=10, help="steps of each batch")
    options.add_argument("--size", default="small", help="size of the models")
    options.add_argument("--only", nargs="*", default=MODELS, help="models")
    options.add_argument("--keep", type=Path, help="a folder for the traces; those that are there are not made again")
    options.add_argument("--run", type=Path, help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.run:
        run(given.only[0], given.size, given.steps, given.run)
        return
    header = ("model", "batch", "to", "before, ms", "measured, ms", "predicted", "range", "error", "inside")
    print("| " + " | ".join(header) + " |\n|---|" + "---:|" * (len(header) - 1))
    rows: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() if given.keep is None else nullcontext(given.keep) as folder:
        for name in given.only:
            if not _file(Path(folder), name, BATCHES[-1]).exists():
                command = [sys.executable, __file__, "--run", str(folder), "--only", name, "--size", given.size]
                command += ["--steps", str(given.steps)]
                subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
            for row in compared(name, Path(folder)):
                rows.append(row)
                print(_line(row), flush=True)
    print(f"\n{sum(bool(row['inside']) for row in rows)} of {len(rows)} inside their range.")
    quiet = [row for row in rows if row["calm"]]
    print(f"{sum(bool(row['inside']) for row in quiet)} of {len(quiet)} where the steps of both batches are alike.")


def _line(row: dict[str, object]) -> str:
    ms = {key: float(str(row[key])) / 1e6 for key in ("before", "measured", "predicted", "low", "high")}
    error = 100 * (ms["predicted"] / ms["measured"] - 1)
    times = f"{ms['before']:.1f} | {ms['measured']:.1f} | {ms['predicted']:.1f} | {ms['low']:.1f} to {ms['high']:.1f}"
    return f"| {row['name']} | {row['batch']} | {row['to']} | {times} | {error:+.1f} % | {_word(row)} |"


def _word(row: dict[str, object]) -> str:
    return "yes" if row["inside"] else "no"


if __name__ == "__main__":
    main()
