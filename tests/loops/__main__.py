"""Run the loops: `python -m tests.loops [NAMES] -o FOLDER`."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import sys
import time
import traceback
from pathlib import Path

from tests.loops.stopwatch import Stopwatch

PROGRAMS = Path(__file__).parent / "programs"
NAMES = sorted(path.stem for path in PROGRAMS.glob("*.py") if path.stem != "__init__")
_SKIPPED = 77
"""Exit status of a loop whose framework is not installed."""
_FRAMEWORKS = ("pytorch_lightning", "transformers", "accelerate", "peft")
"""What some loops import: once, before the processes of the loops are forked."""


def capture(name: str, folder: Path, steps: int) -> None:
    """Run one loop in this process, with the profiler and then without, and write what the stopwatch showed."""
    program = importlib.import_module(f"tests.loops.programs.{name}")
    folder.mkdir(parents=True, exist_ok=True)
    os.chdir(folder)  # for files that loops write
    times = {}
    for kind, into in (("recorded", folder), ("plain", None)):
        program.torch.manual_seed(0)
        program.torch.set_num_threads(1)
        watch = Stopwatch(into, steps)
        program.main(watch)
        times[kind] = watch.ranks or [watch.steps]
    (folder / "truth.json").write_text(json.dumps(times, indent=1) + "\n")


def captured_apart(name: str, folder: Path, steps: int) -> int:
    """Run one loop in a process of its own, which prints into a file of the folder; return how it ended."""
    folder.mkdir(parents=True, exist_ok=True)
    process = os.fork()
    if process:
        return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    status = 1
    try:
        with open(folder / "log.txt", "w") as log:
            for stream in (1, 2):
                os.dup2(log.fileno(), stream)
        capture(name, folder, steps)
        status = 0
    except ModuleNotFoundError as error:
        print(error)
        status = _SKIPPED
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def main() -> None:
    """Run each loop in a process of its own."""
    parser = argparse.ArgumentParser(prog="python -m tests.loops", description=__doc__)
    parser.add_argument("names", nargs="*", help="loops, all by default")
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder, with one for each loop")
    parser.add_argument("--steps", type=int, default=5, help="steps to record")
    given = parser.parse_args()
    if unknown := set(given.names) - set(NAMES):
        parser.error(f"no such loop: {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")
    os.environ.update(OMP_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false")
    for module in ("torch", "torch._dynamo", "hotline_analysis.importer", *(() if given.names else _FRAMEWORKS)):
        with contextlib.suppress(ModuleNotFoundError):
            importlib.import_module(module)
    output = given.output.resolve()
    states = {}
    for name in given.names or NAMES:
        began = time.monotonic()
        status = captured_apart(name, output / name, given.steps)
        states[name] = {0: "captured", _SKIPPED: "skipped"}.get(status, "failed")
        print(f"{name:24} {states[name]:8} {time.monotonic() - began:6.1f} s", flush=True)
        if status:
            print("   " + "\n   ".join((output / name / "log.txt").read_text().splitlines()[-8:]), flush=True)
    if failed := [name for name, state in states.items() if state == "failed"]:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
