"""Compare reading an export of Nsight Systems with reading the same events from a Kineto file: time for an event.

    python tests/benchmarks/bench_nsight.py --kernels 100000 1000000

It writes one program twice, as both recorders would: kernels, their launch calls, and the ops around these. Then it
reads each of the two files in a new process, and prints microseconds of CPU and of time for an event, and the peak of
memory. Reading is what `hotline import` does first: the file becomes Arrow tables, which are counted and dropped.
Nothing here passes or fails; the files are in the page cache.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pyarrow as pa

from hotline_analysis.kineto.reader import TraceReader
from hotline_analysis.nsight.reader import NsightReader
from tests.nsight_export import SCHEMAS, Event, twins

_NAMES = 200  # of kernels, as many as a large model has
_STEP = 1_000  # kernels of a step


def program(kernels: int) -> list[Event]:
    """A loop that launches so many kernels, each inside an op."""
    events: list[Event] = []
    for number in range(kernels):
        at, name = 10 * number, number % _NAMES
        if number % _STEP == 0:
            step = number // _STEP
            events.append(_event("user_annotation", f"ProfilerStep#{step}", at, 10 * _STEP - 1, 1))
        events.append(_event("cpu_op", f"aten::op_{name}", at, 8, 1, **{"Sequence number": number}))
        events.append(_event("cuda_runtime", "cudaLaunchKernel", at + 2, 4, 1, correlation=number + 1))
        work = {"device": 0, "context": 1, "stream": 7, "correlation": number + 1, "grid": [64, 1, 1]}
        block = {"block": [128, 1, 1], "registers per thread": 32, "shared memory": 1024}
        events.append(_event("kernel", f"void kernel_{name}<float, 4>(float*, int)", at + 9, 7, 7, **work, **block))
    return events


def _event(category: str, name: str, ts: int, dur: int, tid: int, **args: object) -> Event:
    pid = 0 if category == "kernel" else 1000
    return {"ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}


def _read(reader: str, file: Path) -> tuple[int, float, float, float]:
    """Events, seconds of CPU, seconds and the peak of memory in MB, of reading a file to its end in this process."""
    make: Mapping[str, Callable[[Path], Iterable[Mapping[str, pa.Table]]]] = {
        "Kineto": TraceReader,
        "Nsight Systems": NsightReader,
    }
    cpu, wall = time.process_time(), time.perf_counter()
    count = sum(tables["event"].num_rows for tables in make[reader](file))
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    return count, cpu, wall, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000


def measured(reader: str, file: Path) -> str:
    """A line of the table. Each reading has a new process, so that its memory is its own."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        count, cpu, wall, peak = pool.submit(_read, reader, file).result()
    return f"| {reader} | {count:,} | {1e6 * cpu / count:.2f} | {1e6 * wall / count:.2f} | {peak:,.0f} |"


def main() -> None:
    """Write the files, read them, print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernels", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--repeat", type=int, default=1)
    given = parser.parse_args()
    print("| reader | events | µs of CPU for an event | µs of time | peak of memory, MB |\n|---|---:|---:|---:|---:|")
    for kernels in given.kernels:
        with tempfile.TemporaryDirectory() as folder:
            kineto, export = twins(program(kernels), {}, Path(folder), SCHEMAS[-1])
            for _ in range(given.repeat):
                print(measured("Kineto", kineto), measured("Nsight Systems", export), sep="\n", flush=True)
            sizes = f"Kineto: {kineto.stat().st_size / 1e6:,.0f} MB, export: {export.stat().st_size / 1e6:,.0f} MB"
        print(f"{kernels:,} kernels: {sizes}", file=sys.stderr)


if __name__ == "__main__":
    main()
