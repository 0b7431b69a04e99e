"""Compare importing a trace with HTA's loading of it: time, peak memory, and how memory grows with the trace.

    make bench
    python tests/benchmarks/bench_import.py --repeat 3 --hta-python venv-with-hta/bin/python

It makes large traces by repeating a real one, then runs, one after the other and in separate processes,

* ours: `python -m hotline_analysis import TRACE -o RUN`: reads, annotates and writes Parquet;
* HTA:  `TraceAnalysis(trace_files={0: TRACE})`: reads into pandas, the least it does before any answer,

and prints a Markdown table. Times include the start of the interpreter and its imports; the traces are in the page
cache, having just been written. Only the ratios carry over to another machine. Nothing here passes or fails.

Memory is the larger of two readings, because each misses something: the highest sum of resident memory over the process
and its descendants, read from /proc every 20 ms (misses short peaks, counts shared pages twice), and the kernel's own
high-water mark of the largest single process (`ru_maxrss` of `wait4`). Linux only.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter

ROOT = Path(__file__).resolve().parents[2]
DEMO_TRACE = ROOT / "hotline_analysis" / "data" / "demo.json.gz"
LARGEST_REAL_TRACE = Path("training", "ddp_v100_memory.json.gz")
HTA_REQUIREMENTS = ("traceinsight==0.6.1", "pandas<3")
"""HTA 0.6.1 is published as traceinsight and breaks with pandas 3."""

HTA_LOAD = """
import sys
from hta.trace_analysis import TraceAnalysis
TraceAnalysis(trace_files={0: sys.argv[1]}, trace_dir="/")
"""
POLL_S = 0.02
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass
class Runs:
    """Every run of one tool on one trace."""

    tool: str
    trace: Path
    command: list[str]
    wall_s: list[float] = field(default_factory=list)
    peak_bytes: list[int] = field(default_factory=list)

    @property
    def median_s(self) -> float:
        return statistics.median(self.wall_s)

    @property
    def peak(self) -> int:
        return max(self.peak_bytes)

    @property
    def trace_bytes(self) -> int:
        return self.trace.stat().st_size


def children(pid: int) -> list[int]:
    """Process ids of the direct children, of every thread."""
    found: list[int] = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += map(int, path.read_text().split())
        except OSError:
            continue  # the thread has ended
    return found


def tree_rss(pid: int) -> int:
    """Resident bytes of a process and all its descendants, now; 0 once they are gone."""
    total, waiting = 0, [pid]
    while waiting:
        process = waiting.pop()
        try:
            total += int(Path(f"/proc/{process}/statm").read_text().split()[1]) * PAGE_BYTES
            waiting += children(process)
        except (OSError, IndexError):
            continue  # the process has ended
    return total


class MemoryWatch(threading.Thread):
    """Keeps the highest `tree_rss` of a process until told to stop."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.pid = pid
        self.peak = 0
        self.done = threading.Event()

    def run(self) -> None:
        while not self.done.wait(POLL_S):
            self.peak = max(self.peak, tree_rss(self.pid))


def measure(command: list[str]) -> tuple[float, int]:
    """Run a command; its wall seconds and peak bytes. Exits with its output if it fails.

    This process must itself stay small: a child's `ru_maxrss` starts from what its parent had resident.
    """
    with tempfile.TemporaryFile() as log:
        start = perf_counter()
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
        watch = MemoryWatch(process.pid)
        watch.start()
        _, status, usage = os.wait4(process.pid, 0)
        wall_s = perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        watch.done.set()
        watch.join()
        if process.returncode:
            log.seek(0)
            output = log.read().decode(errors="replace")
            sys.exit(f"{' '.join(command)}\nended with status {process.returncode}:\n{output[-4000:]}")
    return wall_s, max(watch.peak, usage.ru_maxrss * 1024)


def say(message: str) -> None:
    """Progress goes to stderr, so that stdout is the table alone."""
    print(message, file=sys.stderr, flush=True)


def default_source() -> Path:
    """The largest real trace if `HOTLINE_TRACES` names the folder that has it, else the demo trace."""
    folder = os.environ.get("HOTLINE_TRACES")
    real = Path(folder, LARGEST_REAL_TRACE) if folder else None
    return real if real is not None and real.is_file() else DEMO_TRACE


def find_hta(given: Path | None) -> Path:
    """A Python that can import HTA: the given one, or one in a virtual environment kept in the user's cache."""
    if given is not None:
        return given
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    venv = cache / "hotline-analysis" / HTA_REQUIREMENTS[0].replace("==", "-")
    python, finished = venv / "bin" / "python", venv / ".finished"
    if not finished.exists():
        say("installing HTA")
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(venv)], check=True, stdout=sys.stderr)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", *HTA_REQUIREMENTS], check=True)
        finished.touch()
    return python


def make_trace(source: Path, target: Path, size: str) -> Path:
    """The source repeated to about `size`; in its own process, to keep this one small."""
    say(f"making {size} from {source.name}")
    script = Path(__file__).with_name("scale_trace.py")
    subprocess.run(
        [sys.executable, str(script), str(source), str(target), "--size", size], check=True, stdout=sys.stderr
    )
    return target


def run_all(plan: list[Runs], repeat: int, run_directory: Path) -> None:
    """Take turns, so that a slow spell of the machine meets every tool."""
    for turn in range(repeat):
        for runs in plan:
            wall_s, peak_bytes = measure(runs.command)
            runs.wall_s.append(wall_s)
            runs.peak_bytes.append(peak_bytes)
            shutil.rmtree(run_directory, ignore_errors=True)
            say(f"{turn + 1}/{repeat} {runs.tool} {runs.trace.name}: {wall_s:.1f} s, {peak_bytes / 1e6:.0f} MB")


def cpu_name() -> str:
    """The processor's model name, where the system tells it."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def markdown(plan: list[Runs], source: Path) -> Iterator[str]:
    """The results as a Markdown table with a line of context above and the ratios below."""
    cores = len(os.sched_getaffinity(0))
    yield f"{source.name} repeated; {cores} cores of {cpu_name()}, Python {platform.python_version()},"
    yield f"{len(plan[0].wall_s)} runs each, median time and highest memory."
    yield ""
    yield "| trace MB | tool | seconds | MB/s | peak MB | time, HTA = 1 | memory, HTA = 1 |"
    yield "|---:|---|---:|---:|---:|---:|---:|"
    hta = {runs.trace: runs for runs in plan if runs.tool == "HTA"}
    for runs in plan:
        size_mb = runs.trace_bytes / 1e6
        row = f"| {size_mb:.0f} | {runs.tool} | {runs.median_s:.2f} | {size_mb / runs.median_s:.1f} "
        row += f"| {runs.peak / 1e6:.0f} "
        other = hta.get(runs.trace)
        row += f"| {runs.median_s / other.median_s:.3f} | {runs.peak / other.peak:.3f} |" if other else "| | |"
        yield row
    yield ""
    for tool in ("ours", "HTA"):
        mine = sorted((runs for runs in plan if runs.tool == tool), key=lambda runs: runs.trace_bytes)
        if len(mine) > 1:
            small, large = mine[0], mine[-1]
            yield (
                f"{tool}: a trace {large.trace_bytes / small.trace_bytes:.1f} times as large takes "
                f"{large.median_s / small.median_s:.1f} times the time and "
                f"{large.peak / small.peak:.2f} times the peak memory."
            )


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Compare import with HTA's load, as ratios.")
    parser.add_argument("--source", type=Path, default=default_source(), help="trace to repeat (default: %(default)s)")
    parser.add_argument("--sizes", nargs="+", default=["500MB", "2GB"], help="JSON sizes, smallest first")
    parser.add_argument("--repeat", type=int, default=1, help="runs of each")
    parser.add_argument("--hta-python", type=Path, help="a Python with HTA; without it, one is installed and kept")
    parser.add_argument("--hta-large", action="store_true", help="run HTA on every size (minutes, several GB)")
    parser.add_argument("--no-hta", action="store_true", help="measure only ours")
    parser.add_argument("--temp", type=Path, help="folder for the traces (default: the system's)")
    return parser.parse_args()


def main() -> None:
    args = parse_args()
    hta_python = None if args.no_hta else find_hta(args.hta_python)
    plan: list[Runs] = []
    with tempfile.TemporaryDirectory(dir=args.temp, prefix="hotline-bench-") as name:
        folder = Path(name)
        run_directory = folder / "run.hotline"
        for number, size in enumerate(args.sizes):
            trace = make_trace(args.source, folder / f"{size}.json", size)
            ours = [sys.executable, "-m", "hotline_analysis", "import", str(trace), "-o", str(run_directory)]
            plan.append(Runs("ours", trace, ours))
            if hta_python is not None and (number == 0 or args.hta_large):
                plan.append(Runs("HTA", trace, [str(hta_python), "-c", HTA_LOAD, str(trace)]))
        run_all(plan, args.repeat, run_directory)
        print("\n".join(markdown(plan, args.source)))


if __name__ == "__main__":
    main()
