"""How long each answer takes from an imported run: the best of five, with the run open and its tables read before.

    python tests/benchmarks/bench_answers.py run.hotline

Prints one line per answer, the slowest first. Answers about a step take the middle one; `diff` reads the run twice, as
if it were two. Wall time is what a user waits; CPU time carries over from a busy machine. An answer that the run has
nothing for is timed until it says so. Nothing here passes or fails.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from inspect import isfunction, signature
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import hotline_analysis as ha
from hotline_analysis import Trace
from hotline_analysis.errors import HotlineError

ANSWERS = [
    name
    for name in ha.__all__
    if isfunction(getattr(ha, name))
    and next(iter(signature(getattr(ha, name)).parameters), "") == "trace"
    and name not in ("append_run", "export_perfetto", "export_tables", "report", "dependency_graph", "detail_size")
    # About one event or window, which has to be named.
    and name not in ("dependency_edges", "event_place", "place_spans")
]
ALL_ROWS = ("idle_gaps", "kernel_launches")
OF_A_STEP = ("critical_path", "critical_path_breakdown", "level_of_detail")


def calls(trace: Trace, other: Trace) -> dict[str, Callable[[], Any]]:
    """Every answer, ready to be asked."""
    steps = trace.sql("select step from step where rank = (select min(rank) from step) order by start_ns")["step"]
    step = steps[len(steps) // 2] if len(steps) else None
    asked = {name: partial(getattr(ha, name), trace) for name in ANSWERS}
    asked |= {f"{name} step": partial(getattr(ha, name), trace, step=step) for name in OF_A_STEP}
    asked |= {f"{name} limit=None": partial(getattr(ha, name), trace, limit=None) for name in ALL_ROWS}
    asked["diff"] = partial(ha.diff, trace, other)
    return {name: call for name, call in asked.items() if name not in OF_A_STEP}


def forget(trace: Trace) -> None:
    """Let a trace forget the answers that it keeps, but not the tables that it has read."""
    trace._kept.clear()
    trace.memo.clear()


def main() -> None:
    """Ask everything and print the times."""
    parser = argparse.ArgumentParser(description="Time every answer on a run.")
    parser.add_argument("run", type=Path)
    parser.add_argument("--repeat", type=int, default=5)
    chosen = parser.parse_args()
    times = []
    with ha.load(chosen.run) as trace, ha.load(chosen.run) as other:
        for name, call in calls(trace, other).items():
            walls, cpus = [], []
            for _ in range(chosen.repeat + 1):
                forget(trace)
                wall, cpu = perf_counter(), process_time()
                with suppress(HotlineError):
                    call()
                walls.append(perf_counter() - wall)
                cpus.append(process_time() - cpu)
            times.append((min(walls[1:]), min(cpus[1:]), name))
    print(f"{'answer':30} {'wall s':>8} {'CPU s':>8}")
    for best_wall, best_cpu, name in sorted(times, reverse=True):
        print(f"{name:30} {best_wall:8.3f} {best_cpu:8.3f}")


if __name__ == "__main__":
    main()
