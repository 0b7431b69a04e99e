"""Capture everything that `docs/traces.md` wants from a GPU: six programs, each with and without frames, and six twins.

    python docs/examples/capture_all.py traces/gpu
    python docs/examples/capture_all.py /tmp/try --device cpu --size tiny --batch-size 2    # tries the script

A pair is two traces of one program: `<name>_frames.json.gz` with python frames, modules and shapes tells what belongs
to what, `<name>_plain.json.gz` is the undisturbed run. Switches given here go to every capture, and win over its own.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

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
TWINS = ("input-bound", "launch-bound", "sync-bound", "optimizer-bound", "copy-bound", "gpu-bound")


def commands(folder: Path, device: str) -> list[tuple[Path, list[str]]]:
    """Return each trace with the switches that make it; those of a GPU only are left out on a CPU."""
    wanted = []
    for name, switches in PROGRAMS.items():
        if device == "cuda" or name != "cuda_graphs":
            size = [] if "--size" in switches else ["--size", "large"]
            program = [*switches.split(), *size]
            wanted += [
                (folder / f"{name}_frames.json.gz", [*program, *FRAMES.split()]),
                (folder / f"{name}_plain.json.gz", program),
            ]
    return wanted + [(folder / f"{twin}.json.gz", ["--twin", twin]) for twin in TWINS]


def main() -> int:
    parser = argparse.ArgumentParser(description="Capture the GPU traces of this project.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--steps", type=int, default=2)
    args, others = parser.parse_known_args()
    failed = []
    for trace, switches in commands(args.folder, args.device):
        script = str(Path(__file__).with_name("capture.py"))
        common = ["-o", str(trace), "--device", args.device, "--steps", str(args.steps), *others]
        if subprocess.run([sys.executable, script, *switches, *common], check=False).returncode:
            failed.append(trace.name)
    total = sum(trace.stat().st_size for trace in args.folder.glob("*.json.gz"))
    print(f"{total / 1e6:.1f} MB in {args.folder}")
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
