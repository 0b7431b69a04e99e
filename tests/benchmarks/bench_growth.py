"""Which work grows faster than its input? CPU time and memory on odd traces of n, 2n and 4n events of one kind.

    python tests/benchmarks/bench_growth.py                      # every shape; an hour or more
    python tests/benchmarks/bench_growth.py launch/nested op     # one shape, or all of a kind
    python tests/benchmarks/bench_growth.py --sample 12          # so many shapes, spread over all

Each shape of `odd_traces.py` is imported, annotated, and asked everything, in a process of its own. For each part of
the work (a derived table, an answer, a report, an export) the exponent p of `n^p` is estimated, apart from the time and
memory that a tiny trace takes. Exit status 1 says that a part grows with an exponent above 1.3, does not end in time,
or needs more than 1.5 GB. Figures are those of the tiny trace, n, 2n and 4n.

A part that takes little at 4n is not fitted: there, noise is more than growth.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.benchmarks.odd_traces import SHAPES, write

SIZES = (5_000, 10_000, 20_000)
TINY = 10
MOST = 1.3
LEAST_S = 1.5  # of CPU at 4n, beyond that of a tiny trace
LEAST_MB = 300
LIMIT_MB = 1500
LIMIT_S = 240
_STATUS = Path("/proc/self/status")
_NONE = (0.0, 0.0, 0.0)

Figures = dict[str, tuple[float, float, float]]  # CPU seconds, peak memory in MB, seconds


class Meter:
    """CPU seconds, peak memory in MB and seconds of each named part of the work; parts may lie in each other."""

    def __init__(self) -> None:
        self.figures: Figures = {}

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Measure what is done here; several times of one name are added."""
        _forget_peak()
        cpu_before, wall_before = process_time(), perf_counter()
        yield
        cpu, wall = process_time() - cpu_before, perf_counter() - wall_before
        cpu_so_far, peak, wall_so_far = self.figures.get(name, _NONE)
        self.figures[name] = (cpu_so_far + cpu, max(peak, _peak_mb()), wall_so_far + wall)

    def around(self, module: Any, function: str, name: Callable[..., str]) -> None:
        """Measure a function of a module wherever it is called; `name` gives the part of a call."""
        called = getattr(module, function)

        def measured(*args: Any, **options: Any) -> Any:
            with self.part(name(*args)):
                return called(*args, **options)

        setattr(module, function, measured)


def _forget_peak() -> None:
    """Start the peak anew; freed memory is given back first, or it would count for what comes next."""
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")


def _peak_mb() -> float:
    line = next(line for line in _STATUS.read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def measure(file: Path) -> Figures:
    """Import a file and ask everything of it."""
    import hotline_analysis as ha
    from tests.benchmarks.bench_answers import calls

    meter = Meter()
    one_file = import_module("hotline_analysis.importer.one_file")
    annotating = import_module("hotline_analysis.importer.annotating")
    pipeline = import_module("hotline_analysis.annotation.pipeline")
    meter.around(one_file, "write_raw", lambda *_: "reading")
    meter.around(annotating, "save_derived", lambda *_: "saving")
    meter.around(pipeline, "_derive", lambda _, name: f"table {name}")
    run = file.with_suffix(".hotline")
    with meter.part("import"):
        ha.import_traces(file, run)
    with meter.part("opening"), ha.load(run) as trace:
        trace.sql("select count(*) from step")
    with meter.part("report"), ha.load(run) as trace:
        str(ha.report(trace))
    with ha.load(run) as trace, ha.load(run) as other:
        for name, ask in calls(trace, other).items():
            with meter.part(f"answer {name}"):
                try:
                    ask()
                except ha.HotlineError as error:
                    print(f"{name}: {error}", file=sys.stderr)
        outputs: dict[str, Callable[[], Any]] = {
            "perfetto": lambda: ha.export_perfetto(trace, file.with_suffix(".out.json")),
            "timeline": lambda: ha.charts.timeline(trace).to_html(),
            "timeline of all steps": lambda: ha.level_of_detail(trace),
        }
        for name, make in outputs.items():
            with meter.part(name):
                try:
                    make()
                except ha.HotlineError as error:
                    print(f"{name}: {error}", file=sys.stderr)
    return meter.figures


def _measured(shape: str, n: int, folder: Path) -> Figures | str:
    """The figures of a shape, from a process of its own, or why there are none."""
    file = write(shape, n, folder / f"{shape.replace('/', '.')}.{n}.json")
    try:
        done = subprocess.run(
            [sys.executable, __file__, "--measure", str(file)],
            capture_output=True, text=True, timeout=LIMIT_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"not done after {LIMIT_S} s"
    if done.returncode:
        return done.stderr.strip().splitlines()[-1]
    figures: Figures = json.loads(done.stdout.splitlines()[-1])
    return figures


def _exponent(values: list[float], base: float, sizes: tuple[int, ...]) -> float:
    """By which power of its size something grew: the least of three estimates, as each alone can be noise.

    They are that from n to 4n and that from 2n to 4n, less what a tiny trace takes, and that of the two differences,
    which need none of that.
    """
    n, twice, four_times = values
    grown = (four_times - base) / max(n - base, 1e-9), (four_times - base) / max(twice - base, 1e-9)
    steps = (four_times - twice) / max(twice - n, 1e-9)
    logs = [math.log(max(each, 1e-9)) for each in (*grown, steps)]
    return min(
        logs[0] / math.log(sizes[2] / sizes[0]),
        logs[1] / math.log(sizes[2] / sizes[1]),
        logs[2] / math.log((sizes[2] - sizes[1]) / (sizes[1] - sizes[0])),
    )


def findings(shape: str, folder: Path, tiny: Figures, *, least_s: float, sizes: tuple[int, ...] = SIZES) -> list[str]:
    """What grows too fast in a shape; the smaller sizes are measured only where the largest takes long."""
    largest = _measured(shape, sizes[-1], folder)
    if isinstance(largest, str):
        return [f"{sizes[-1]:,}: {largest}"]
    zero = (0.0, tiny["import"][1], 0.0)
    over = [(name, peak) for name, (_, peak, _) in largest.items() if peak > LIMIT_MB]
    found = [f"{name} needs {peak:,.0f} MB for {sizes[-1]:,}" for name, peak in over]
    heavy = {
        name
        for name, (seconds, peak, _) in largest.items()
        if seconds - tiny.get(name, zero)[0] > least_s or peak - tiny.get(name, zero)[1] > LEAST_MB
    }
    if not heavy:
        return found
    smaller = [_measured(shape, n, folder) for n in sizes[:-1]]
    if any(isinstance(each, str) for each in smaller):
        return [*found, *(each for each in smaller if isinstance(each, str))]
    series = [each for each in (*smaller, largest) if not isinstance(each, str)]
    for name in sorted(heavy):
        base = tiny.get(name, zero)
        for i, unit, least in ((0, "s of CPU", least_s), (1, "MB", LEAST_MB)):
            values = [each.get(name, _NONE)[i] for each in series]
            if values[-1] - base[i] > least and (power := _exponent(values, base[i], sizes)) > MOST:
                shown = ", ".join(f"{value:,.2f}" for value in (base[i], *values))
                found.append(f"{name}: n^{power:.2f} ({shown} {unit})")
    return found


def _chosen(words: list[str], sample: int | None) -> list[str]:
    shapes = [shape for shape in SHAPES if not words or any(shape == w or shape.startswith(f"{w}/") for w in words)]
    return shapes[:: max(1, len(shapes) // sample)] if sample else shapes


def main() -> int:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shapes", nargs="*", help="a kind, or a shape as kind/oddity; all if none")
    parser.add_argument("--sample", type=int, help="only so many shapes, spread over all")
    parser.add_argument("--least", type=float, default=LEAST_S, help="seconds of CPU at 4n that are fitted")
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.measure:
        print(json.dumps(measure(chosen.measure)))
        return 0
    failed = 0
    shapes = _chosen(chosen.shapes, chosen.sample)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tiny = _measured("launch/in_turn", TINY, folder)
        assert not isinstance(tiny, str), tiny
        for shape in shapes:
            with tempfile.TemporaryDirectory(dir=folder) as own:
                found = findings(shape, Path(own), tiny, least_s=chosen.least)
            failed += bool(found)
            print(f"{shape:40} {'; '.join(found) or 'ok'}", flush=True)
    print(f"{len(shapes)} shapes of {' / '.join(f'{n:,}' for n in SIZES)} events, {failed} with findings")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
