"""What each part of the work takes for an event: reading, each derived table, saving, opening, each answer, the report.

    HOTLINE_TRACES=traces python tests/benchmarks/bench_parts.py
    python tests/benchmarks/bench_parts.py --source trace.json.gz --sizes 50MB 200MB --least 0.1

Each trace is repeated to each size, imported and asked everything in a process of its own, and loaded by HTA in another
one. Prints a Markdown table for each trace: microseconds of CPU and of time for an event; of an import, reading, saving
and the tables are parts. An answer is asked once: it opens tables that none before it has read, and may use what others
found. Figures of a small trace are mostly planning. Nothing here passes or fails.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.benchmarks import bench_growth
from tests.benchmarks.bench_growth import Figures
from tests.benchmarks.bench_import import DEMO_TRACE, HTA_LOAD, find_hta, make_trace, say

# One of each kind: memory events; no numbers of autograd, so that backward is aligned; python stacks; no GPU.
SOURCES = (
    "training/ddp_v100_memory.json.gz",
    "labelled/transformer/trace.json.gz",
    "training/resnet18_ddp_checkpoint_mi300.json.gz",
    "robustness/cpu_only.json.gz",
)
SIZES = ("50MB", "150MB", "450MB")
_HTA = f"""{HTA_LOAD}
import json, resource, time
used = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps([used.ru_utime + used.ru_stime, used.ru_maxrss / 1024]))
"""


def sources() -> list[Path]:
    """Those of `HOTLINE_TRACES` that are there, else the demo."""
    folder = os.environ.get("HOTLINE_TRACES")
    found = [Path(folder, name) for name in SOURCES] if folder else []
    return [file for file in found if file.is_file()] or [DEMO_TRACE]


def ours(trace: Path) -> Figures:
    """All figures of a trace, with its number of events as the figure `events`."""
    command = [sys.executable, bench_growth.__file__, "--measure", str(trace)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    figures: Figures = json.loads(done.stdout.splitlines()[-1])
    manifest = json.loads((trace.with_suffix(".hotline") / "manifest.json").read_text())
    return {**figures, "events": (sum(part["event_count"] for part in manifest["parts"]), 0.0, 0.0)}


def of_hta(python: Path, trace: Path) -> tuple[float, float, float]:
    """CPU seconds, peak memory and seconds of loading a trace with HTA, its imports among them."""
    timed = f"import time; start = time.perf_counter()\n{_HTA}\nprint(time.perf_counter() - start)"
    done = subprocess.run([str(python), "-c", timed, str(trace)], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    used, seconds = done.stdout.splitlines()[-2:]
    cpu, peak = json.loads(used)
    return cpu, peak, float(seconds)


def markdown(source: Path, found: dict[str, Figures], least: float) -> Iterator[str]:
    """A table of one trace: parts, and for each size CPU and time for an event; those of HTA's load and ratios last."""
    largest = list(found.values())[-1]
    sizes = [f"{size}, {figures['events'][0]:,.0f} events" for size, figures in found.items()]
    yield f"\n{source.parent.name}/{source.name} repeated; microseconds of CPU / of time for an event.\n"
    yield f"| part | {' | '.join(sizes)} |"
    yield f"|---|{'---:|' * len(found)}"

    def row(name: str) -> str:
        cells = []
        for figures in found.values():
            cpu, _, wall = figures.get(name, (0.0, 0.0, 0.0))
            events = figures["events"][0]
            cells.append(f"{cpu / events * 1e6:.2f} / {wall / events * 1e6:.2f}")
        return f"| {name} | {' | '.join(cells)} |"

    parts = [name for name in largest if name not in ("events", "HTA load")]
    whole = [name for name in parts if " " not in name]
    rest = sorted((name for name in parts if name not in whole), key=lambda name: -largest[name][0])
    for name in (*whole, *rest):
        if name in whole or largest[name][0] / largest["events"][0] * 1e6 >= least:
            yield row(name)
    if "HTA load" in largest:
        yield row("HTA load")
        ratios = [f"{figures['HTA load'][2] / figures['import'][2]:.1f}" for figures in found.values()]
        yield f"| times as fast as HTA | {' | '.join(ratios)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=Path, nargs="+", default=sources(), help="traces to repeat")
    parser.add_argument("--sizes", nargs="+", default=SIZES, help="JSON sizes, smallest first")
    parser.add_argument("--least", type=float, default=0.2, help="microseconds of CPU for an event that are shown")
    parser.add_argument("--hta-python", type=Path, help="a Python with HTA; without it, one is installed and kept")
    parser.add_argument("--no-hta", action="store_true", help="measure only ours")
    chosen = parser.parse_args()
    python = None if chosen.no_hta else find_hta(chosen.hta_python)
    for source in chosen.source:
        found: dict[str, Figures] = {}
        for size in chosen.sizes:
            with tempfile.TemporaryDirectory(prefix="hotline-bench-") as folder:
                trace = make_trace(source, Path(folder, f"{size}.json"), size)
                found[size] = ours(trace)
                if python is not None:
                    found[size]["HTA load"] = of_hta(python, trace)
                say(f"{size}: import {found[size]['import'][2]:.1f} s")
        print("\n".join(markdown(source, found, chosen.least)), flush=True)


if __name__ == "__main__":
    main()
