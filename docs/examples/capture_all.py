"""Capture all GPU traces of `docs/traces.md`: programs with and without frames, twins, and pairs.

    python docs/examples/capture_all.py traces/gpu
    python docs/examples/capture_all.py traces/gpu --only 'pairs/resnet50_b64_' --limit-s 120
    python docs/examples/capture_all.py /tmp/try --device cpu --size tiny --batch-size 2    # tries the script

Each program has two traces: `<name>_frames.json.gz` with python frames, modules and shapes, which show the owner of
each event, and `<name>_plain.json.gz`, the undisturbed run. The traces of `pairs/` differ in one switch each. Next to
each trace of `pairs/`, `<name>.steps.json` has the step times without the profiler. Switches given here go to every
capture and override the capture's own switches. Models are made in parallel, while the steps of one capture run alone.
"""

# Also checked without torch installed; everything from torch is then Any.
# mypy: disallow-subclassing-any=False, warn-return-any=False, warn-unused-ignores=False, disallow-untyped-calls=False

from __future__ import annotations

import argparse
import fcntl
import json
import multiprocessing
import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import capture  # type: ignore[import-not-found]  # the sibling capture.py; its torch has not touched the GPU yet
import torch

PROGRAMS = {
    "resnet50_b64": "resnet50 --batch-size 64 --optimizer sgd",
    "resnet50_b8": "resnet50 --batch-size 8 --optimizer sgd",
    "transformer": "transformer --batch-size 8 --amp",
    "seq2seq": "seq2seq --batch-size 32 --optimizer adam --optimizer-impl fused",
    "lstm": "lstm --batch-size 16 --optimizer adam",
    "dlrm": "dlrm --batch-size 4096 --optimizer sgd",
    "gnn": "gnn --batch-size 512 --optimizer adam --optimizer-impl single",
    "unet": "unet --batch-size 16 --checkpoint",
    "unet_inference": "unet --batch-size 16 --inference",
    "ddp": "resnet50 --size small --batch-size 32 --ddp",
    "cuda_graphs": "resnet50 --size small --batch-size 32 --cuda-graphs",
}
FRAMES = "--with-stack --record-shapes"

RESNET, GPT, SMALL = "resnet50 --same-batch", "transformer --same-batch", "resnet50 --size small --same-batch"
LOADED = "cnn --size small --batch-size 32 --slow-loader 0.02"
PAIRS = {
    **{f"resnet50_b{batch}_amp": f"{RESNET} --batch-size {batch} --amp" for batch in (64, 8, 16, 32, 128, 256)},
    **{f"transformer_b{batch}_amp": f"{GPT} --batch-size {batch} --amp" for batch in (8, 4, 16, 32)},
    "resnet50_b64_tf32": f"{RESNET} --batch-size 64 --precision tf32",
    "resnet50_b64_fp32": f"{RESNET} --batch-size 64 --precision fp32",
    "transformer_b8_fp32": f"{GPT} --batch-size 8 --precision fp32",
    "transformer_b8_tf32": f"{GPT} --batch-size 8 --precision tf32",
    "lstm_b16": "lstm --same-batch --batch-size 16",
    "dlrm_b4096": "dlrm --same-batch --batch-size 4096 --optimizer sgd",
    "seq2seq_b32": "seq2seq --same-batch --batch-size 32",
    "unet_b16": "unet --same-batch --batch-size 16",
    "gnn_b512": "gnn --same-batch --batch-size 512",
    "mlp_b4096": "mlp --same-batch --batch-size 4096 --optimizer sgd",
    "transformer_b4_amp_single": f"{GPT} --batch-size 4 --amp --optimizer-impl single",
    "transformer_b4_amp_fused": f"{GPT} --batch-size 4 --amp --optimizer-impl fused",
    "resnet50_b8_amp_single": f"{RESNET} --batch-size 8 --amp --optimizer-impl single",
    "resnet50_b8_amp_fused": f"{RESNET} --batch-size 8 --amp --optimizer-impl fused",
    "small_b32": f"{SMALL} --batch-size 32",
    "small_b32_graphs": f"{SMALL} --batch-size 32 --cuda-graphs",
    "small_b32_compile": f"{SMALL} --batch-size 32 --compile",
    "small_b32_item": f"{SMALL} --batch-size 32 --item",
    "small_b32_single": f"{SMALL} --batch-size 32 --optimizer-impl single",
    "cnn_b32_workers0": f"{LOADED} --workers 0",
    "cnn_b32_workers2": f"{LOADED} --workers 2",
    "cnn_b32_workers4": f"{LOADED} --workers 4",
    "input_bound_cured": "--twin input-bound --slow-loader 0",
    "launch_bound_cured": "--twin launch-bound --cuda-graphs",
    "optimizer_bound_cured": "--twin optimizer-bound --optimizer-impl fused",
    "copy_bound_cured": "colours --batch-size 128 --optimizer sgd --same-batch host",
    "sync_bound_cured": "--twin sync-bound --log-norms keep",
    "gpu_bound_cured": "--twin gpu-bound --precision tf32",
    "resnet50_b64_amp_workers0": "resnet50 --batch-size 64 --amp --workers 0",
    "resnet50_b64_amp_workers4": "resnet50 --batch-size 64 --amp --workers 4",
    "resnet50_b64_amp_pageable": "resnet50 --batch-size 64 --amp --workers 0 --pageable",
    "unet_b16_checkpoint": "unet --same-batch --batch-size 16 --checkpoint",
    "transformer_b8_amp_checkpoint": f"{GPT} --batch-size 8 --amp --checkpoint",
    "resnet50_b64_amp_checkpoint": f"{RESNET} --batch-size 64 --amp --checkpoint",
    "resnet50_b64_amp_channels_last": f"{RESNET} --batch-size 64 --amp --channels-last",
    "resnet50_b64_tf32_channels_last": f"{RESNET} --batch-size 64 --precision tf32 --channels-last",
    "transformer_b4_amp_compile": f"{GPT} --batch-size 4 --amp --compile",
    "transformer_b4_amp_item": f"{GPT} --batch-size 4 --amp --item",
    "cnn_b8": "cnn --size small --same-batch --batch-size 8",
    "cnn_b8_graphs": "cnn --size small --same-batch --batch-size 8 --cuda-graphs",
    "cnn_b8_item": "cnn --size small --same-batch --batch-size 8 --item",
    "transformer_b1_tf32": f"{GPT} --batch-size 1 --precision tf32",
    "transformer_b1_tf32_graphs": f"{GPT} --batch-size 1 --precision tf32 --cuda-graphs",
    **{f"resnet50_b{batch}_{kind}": f"{RESNET} --batch-size {batch} --precision {kind}"
       for batch in (16, 128, 8, 32, 256) for kind in ("tf32", "fp32")},
    **{f"transformer_b{batch}_tf32": f"{GPT} --batch-size {batch} --precision tf32" for batch in (4, 16, 32)},
    **{f"lstm_b{batch}": f"lstm --same-batch --batch-size {batch}" for batch in (8, 32)},
    **{f"dlrm_b{batch}": f"dlrm --same-batch --batch-size {batch} --optimizer sgd" for batch in (1024, 16384)},
    **{f"seq2seq_b{batch}": f"seq2seq --same-batch --batch-size {batch}" for batch in (16, 64)},
    **{f"unet_b{batch}": f"unet --same-batch --batch-size {batch}" for batch in (8, 32)},
    **{f"gnn_b{batch}": f"gnn --same-batch --batch-size {batch}" for batch in (128, 2048)},
    **{f"mlp_b{batch}": f"mlp --same-batch --batch-size {batch} --optimizer sgd" for batch in (1024, 8192)},
    "seq2seq_b32_checkpoint": "seq2seq --same-batch --batch-size 32 --checkpoint",
    "unet_b16_compile": "unet --same-batch --batch-size 16 --compile",
    "cnn_b64_workers0": f"{LOADED} --batch-size 64 --workers 0",
    "cnn_b64_workers2": f"{LOADED} --batch-size 64 --workers 2",
}  # fmt: skip
MEMORY = {
    "resnet50_b32_amp_memory": f"{RESNET} --batch-size 32 --amp",
    "transformer_b4_amp_memory": f"{GPT} --batch-size 4 --amp",
    "unet_b8_memory": "unet --same-batch --batch-size 8",
}
COPIES = {"cnn_b32": "cnn --size small --same-batch --batch-size 32", "small_b8": f"{SMALL} --batch-size 8"}
"""Programs that also run several times at once on the GPU, each in a separate process."""

CPU_LACKS = re.compile(r"--cuda-graphs|--memory-snapshot")
Job = tuple[str, list[str]]
"""Path of a trace in the folder, and the switches for the capture."""


def jobs(device: str) -> list[Job]:
    """Return each trace with its switches, the most important traces first. On a CPU, GPU-only traces are left out."""
    timed = "--steps 3 --time-steps 50"
    memory = f"{timed} --profile-memory --record-shapes --memory-snapshot"
    wanted = [(f"{twin}.json.gz", f"--twin {twin} --steps 3 --time-steps 50") for twin in capture.TWINS]
    for name, switches in PROGRAMS.items():
        wanted += [(f"{name}_plain.json.gz", switches), (f"{name}_frames.json.gz", f"{switches} {FRAMES}")]
    wanted += [(f"pairs/{name}.json.gz", f"{switches} {timed}") for name, switches in PAIRS.items()]
    wanted[40:40] = [(f"memory/{name}.json.gz", f"{switches} {memory}") for name, switches in MEMORY.items()]
    wanted += [(f"copies/{name}.json.gz", f"{switches} {timed}") for name, switches in COPIES.items()]
    sized = [(name, made.split() if "--size" in made or "--twin" in made else [*made.split(), "--size", "large"])
             for name, made in wanted]  # fmt: skip
    return [job for job in sized if device == "cuda" or not CPU_LACKS.search(" ".join(job[1]))]


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Keep other captures away. A process that dies releases the lock."""
    with (folder / ".alone").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def run(name: str, switches: list[str], folder: Path, others: list[str]) -> None:
    """Make one capture; called in a fresh process, without earlier recordings."""
    torch.set_num_threads(2)
    began = time.monotonic()
    capture.capture(capture.parse_args(["-o", str(folder / name), *switches, *others]), alone(folder))
    print(f"  {name}: {time.monotonic() - began:.1f} s", flush=True)


def run_copies(name: str, switches: list[str], folder: Path, others: list[str], counts: tuple[int, ...]) -> None:
    """Train a program several times at once, and write the step times of each process."""
    context = multiprocessing.get_context("fork")
    found: dict[int, list[dict[str, Any]]] = {}
    for count in counts:
        turn, told = context.Barrier(count), context.SimpleQueue()
        started = [context.Process(target=_copy, args=(switches, folder, others, turn, told)) for _ in range(count)]
        with alone(folder):
            for process in started:
                process.start()
            found[count] = [told.get() for _ in started]
            for process in started:
                process.join()
    (folder / f"copies/{name}.copies.json").write_text(json.dumps(found, indent=1) + "\n")


def _copy(switches: list[str], folder: Path, others: list[str], turn: Any, told: Any) -> None:
    torch.set_num_threads(1)
    args = capture.parse_args(["-o", str(folder / "unused.json.gz"), *switches, *others])
    try:
        trainer = capture.Trainer(args)
        for _ in range(10):
            trainer.step()
        if args.device == "cuda":
            torch.cuda.synchronize()
        turn.wait(60)
        before = capture.time_steps(trainer, 10)
        turn.wait(60)
        told.put(capture.time_steps(trainer, 5 * max(10, int(0.3e9 * 10 / max(before["block_ns"][0], 1)))))
        turn.wait(60)  # no process ends while other processes are timed
    except Exception as error:
        turn.abort()
        told.put({"failed": repr(error)})


def main() -> int:
    parser = argparse.ArgumentParser(description="Capture the GPU traces of this project.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--only", default="", metavar="PATTERN", help="captures whose path has it (regular expression)")
    parser.add_argument("--limit-s", type=float, default=3600.0, help="begin no capture after so many seconds")
    parser.add_argument("--grace-s", type=float, default=30.0, help="end what was begun after so many seconds more")
    parser.add_argument("--jobs", type=int, default=8, help="processes that make models and data side by side")
    args, others = parser.parse_known_args()
    until = time.monotonic() + args.limit_s
    others += ["--device", args.device]
    wanted = [job for job in jobs(args.device) if re.search(args.only, job[0])]
    for folder in ("pairs", "memory", "copies"):
        (args.folder / folder).mkdir(parents=True, exist_ok=True)
    context = multiprocessing.get_context("fork")
    waiting = list(wanted)
    running: list[Any] = []
    while running or waiting:
        running = [process for process in running if process.is_alive()]
        if waiting and len(running) < args.jobs and time.monotonic() < until:
            running.append(context.Process(target=run, args=(*waiting.pop(0), args.folder, others)))
            running[-1].start()
        elif time.monotonic() < until + args.grace_s:
            time.sleep(0.05)
        else:
            break
    for process in running:
        process.kill()
    for name, switches in COPIES.items():
        if any(trace == f"copies/{name}.json.gz" for trace, _ in wanted):
            run_copies(name, switches.split(), args.folder, others, (1, 2, 4, 8))
    made = [trace for trace, _ in wanted if (args.folder / trace).exists()]
    failed = [trace for trace, _ in wanted if trace not in made]
    print(f"{len(made)} traces, {sum((args.folder / trace).stat().st_size for trace in made) / 1e6:.1f} MB")
    if failed:
        print(f"missing: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
