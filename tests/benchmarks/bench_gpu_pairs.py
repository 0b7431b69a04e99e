"""Predictions against what a GPU did: pairs of programs that `docs/examples/capture_all.py` captured.

    python docs/examples/capture_all.py traces/h100
    python tests/benchmarks/bench_gpu_pairs.py traces/h100
    python tests/benchmarks/bench_gpu_pairs.py traces/h100 --other traces/h200    # from one GPU to another

From the trace of the one, a step of the other is predicted; nothing of the other is known. It prints Markdown tables:
the step of both as recorded, and without the profiler (`<name>.steps.json`); the prediction, its range and its error
against the other as recorded, and which of both measured steps the range holds. Nothing here passes or fails.
"""

from __future__ import annotations

import argparse
import json
import statistics
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path

import hotline_analysis as ha
from hotline_analysis.prediction.engine.loop import loop_of

PAIRS = (
    ("cuda_graph", "small_b32", "small_b32_graphs"),
    ("cuda_graph", "cnn_b8", "cnn_b8_graphs"),
    ("cuda_graph", "transformer_b1_tf32", "transformer_b1_tf32_graphs"),
    ("cuda_graph", "launch-bound", "launch_bound_cured"),
    ("compile", "small_b32", "small_b32_compile"),
    ("compile", "transformer_b4_amp", "transformer_b4_amp_compile"),
    ("compile", "unet_b16", "unet_b16_compile"),
    ("no_sync", "cnn_b8_item", "cnn_b8"),
    ("no_sync", "small_b32_item", "small_b32"),
    ("no_sync", "transformer_b4_amp_item", "transformer_b4_amp"),
    ("no_sync", "sync-bound", "sync_bound_cured"),
    ("fused_optimizer", "transformer_b4_amp_single", "transformer_b4_amp_fused"),
    ("fused_optimizer", "resnet50_b8_amp_single", "resnet50_b8_amp_fused"),
    ("fused_optimizer", "optimizer-bound", "optimizer_bound_cured"),
    ("tf32", "resnet50_b8_fp32", "resnet50_b8_tf32"),
    ("tf32", "resnet50_b32_fp32", "resnet50_b32_tf32"),
    ("tf32", "resnet50_b64_fp32", "resnet50_b64_tf32"),
    ("tf32", "resnet50_b128_fp32", "resnet50_b128_tf32"),
    ("tf32", "resnet50_b256_fp32", "resnet50_b256_tf32"),
    ("tf32", "transformer_b8_fp32", "transformer_b8_tf32"),
    ("tf32", "gpu-bound", "gpu_bound_cured"),
    ("amp", "resnet50_b64_fp32", "resnet50_b64_amp"),
    ("amp", "resnet50_b64_tf32", "resnet50_b64_amp"),
    ("amp", "resnet50_b256_tf32", "resnet50_b256_amp"),
    ("amp", "transformer_b8_fp32", "transformer_b8_amp"),
    ("amp", "transformer_b8_tf32", "transformer_b8_amp"),
    ("amp", "transformer_b32_tf32", "transformer_b32_amp"),
    ("channels_last", "resnet50_b64_tf32", "resnet50_b64_tf32_channels_last"),
    ("channels_last", "resnet50_b64_amp", "resnet50_b64_amp_channels_last"),
    ("loader", "cnn_b32_workers0", "cnn_b32_workers2"),
    ("loader", "cnn_b32_workers0", "cnn_b32_workers4"),
    ("loader", "cnn_b64_workers0", "cnn_b64_workers2"),
    ("loader", "resnet50_b64_amp_workers0", "resnet50_b64_amp_workers4"),
    ("loader", "input-bound", "input_bound_cured"),
    ("pinned", "copy-bound", "copy_bound_cured"),
    ("pinned", "resnet50_b64_amp_pageable", "resnet50_b64_amp_workers0"),
    ("no_recompute", "unet_b16_checkpoint", "unet_b16"),
    ("no_recompute", "transformer_b8_amp_checkpoint", "transformer_b8_amp"),
    ("no_recompute", "resnet50_b64_amp_checkpoint", "resnet50_b64_amp"),
    ("no_recompute", "seq2seq_b32_checkpoint", "seq2seq_b32"),
)
"""The scenario, the program that is known, and the one that is predicted."""
BATCHES = (
    ("resnet50_b{}_amp", (8, 16, 32, 64, 128, 256)),
    ("resnet50_b{}_tf32", (8, 16, 32, 64, 128, 256)),
    ("transformer_b{}_amp", (4, 8, 16, 32)),
    ("transformer_b{}_tf32", (4, 8, 16, 32)),
    ("lstm_b{}", (8, 16, 32)),
    ("dlrm_b{}", (1024, 4096, 16384)),
    ("seq2seq_b{}", (16, 32, 64)),
    ("unet_b{}", (8, 16, 32)),
    ("gnn_b{}", (128, 512, 2048)),
    ("mlp_b{}", (1024, 4096, 8192)),
)
WORKERS = {"cnn_b32_workers2": 2, "cnn_b32_workers4": 4, "cnn_b64_workers2": 2, "resnet50_b64_amp_workers4": 4}
Ask = Callable[[ha.Trace], ha.Prediction]


def asking(scenario: str, **parameters: float | str) -> Ask:
    """The question for a scenario."""
    return lambda trace: ha.whatif(trace, scenario, rank=None, **parameters)


@dataclass(frozen=True)
class Measured:
    """A captured program: its step as recorded, and without the profiler, in milliseconds."""

    path: Path
    recorded: float
    plain: float


@cache
def measured(folder: Path, name: str) -> Measured | None:
    """What was measured of a program; None if it was not captured, or its trace tells no step."""
    for path in (there / f"{name}{kind}" for kind in (".hotline", ".json.gz") for there in (folder / "pairs", folder)):
        steps = path.with_name(f"{name}.steps.json")
        if path.exists() and steps.exists():
            found = json.loads(steps.read_text())
            plain = statistics.median(found["block_ns"]) / found["steps_per_block"] / 1e6
            with ha.load(path) as trace:
                return Measured(path, loop_of(trace).baseline_ns / 1e6, plain)
    return None


def row(title: str, before: Measured | None, after: Measured | None, ask: Ask) -> list[str]:
    """One line of a table; none if a program was not captured."""
    if before is None or after is None:
        return []
    line = [title, *(f"{each:.1f}" for each in (before.recorded, after.recorded, before.plain, after.plain))]
    try:
        with ha.load(before.path) as trace:
            found = ask(trace)
    except ha.HotlineError as refused:
        return [*line, refused.message.partition(":")[0], "–", "–", "–", "–"]
    low, middle, high = (ns / 1e6 for ns in (found.low_ns, found.predicted_ns, found.high_ns))
    held = ["yes" if low <= each <= high else "no" for each in (after.recorded, after.plain)]
    error = f"{100 * (middle / after.recorded - 1):+.0f} %"
    return [*line, f"{middle:.1f}", f"{low:.1f} to {high:.1f}", error, *held]


def table(heading: str, lines: Iterable[list[str]]) -> None:
    """Print the lines under a heading, and how often the range holds."""
    names = (
        "before",
        "after",
        "before, plain",
        "after, plain",
        "predicted",
        "range",
        "error",
        "inside",
        "plain inside",
    )
    print(f"\n### {heading}\n\n| | " + " | ".join(names) + " |\n|---|" + "---:|" * len(names))
    told = []
    for line in filter(None, lines):
        print("| " + " | ".join(line) + " |", flush=True)
        told += [line] if line[-1] in ("yes", "no") else []
    errors = [abs(float(line[7].split()[0])) for line in told]
    if told:
        inside = [sum(line[at] == "yes" for line in told) for at in (-2, -1)]
        print(
            f"\nInside: {inside[0]} of {len(told)} as recorded, {inside[1]} without the profiler;"
            f" median error {statistics.median(errors):.0f} %."
        )


def without_profiler(folder: Path) -> Iterable[list[str]]:
    """Each program without the profiler, from its own trace."""
    for steps in sorted(folder.rglob("*.steps.json")):
        name = steps.name.removesuffix(".steps.json")
        found = measured(folder, name)
        if found is not None:
            alone = Measured(found.path, found.plain, found.plain)
            yield row(name, found, alone, asking("no_profiler"))


def scenarios(folder: Path, only: str) -> Iterable[list[str]]:
    """The pairs that one scenario tells apart."""
    for scenario, before, after in PAIRS:
        if only not in scenario:
            continue
        parameters = {"workers": WORKERS[after]} if after in WORKERS else {}
        yield row(
            f"{scenario}: {before} → {after}",
            measured(folder, before),
            measured(folder, after),
            asking(scenario, **parameters),
        )


def batches(folder: Path) -> Iterable[list[str]]:
    """Each batch from the one below it, and from the one above."""
    for pattern, sizes in BATCHES:
        for one, other in [*pairwise(sizes), *pairwise(reversed(sizes))]:
            yield row(
                f"{pattern.format(one)} → {other}",
                measured(folder, pattern.format(one)),
                measured(folder, pattern.format(other)),
                asking("batch", to=other),
            )


def other_gpu(folder: Path, other: Path, model: str) -> Iterable[list[str]]:
    """Each program that was captured on both GPUs."""
    for steps in sorted(folder.rglob("*.steps.json")):
        name = steps.name.removesuffix(".steps.json")
        yield row(
            f"{name} → {model}",
            measured(folder, name),
            measured(other, name),
            asking("gpu", to=model),
        )


def main() -> None:
    """Print the tables of a folder of captures."""
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("folder", type=Path)
    options.add_argument("--other", type=Path, help="the same programs, captured on another GPU")
    options.add_argument("--model", default="H200", help="that GPU")
    options.add_argument("--only", default="", help="only scenarios whose name has this in it, and no other table")
    given = options.parse_args()
    warnings.simplefilter("ignore", ha.HotlineWarning)
    table("Scenarios", scenarios(given.folder, given.only))
    if given.only:
        return
    table("Without the profiler", without_profiler(given.folder))
    table("Batches", batches(given.folder))
    if given.other:
        table(f"On an {given.model}", other_gpu(given.folder, given.other, given.model))


if __name__ == "__main__":
    main()
