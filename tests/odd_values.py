"""Traces whose numbers are odd, made from a seed, and all that answers, draws, reports or exports."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import hotline_analysis as ha
from hotline_analysis import HotlineWarning, Trace, catalog
from hotline_analysis.answers.named import COMPUTED
from hotline_analysis.charts import CHARTS, Timeline, draw
from hotline_analysis.reports import diff_report, report
from tests.query_arguments import arguments, training
from tests.trace_builder import TraceBuilder

Event = dict[str, Any]

DAY_US = 86_400_000_000
# Microseconds: around the limits of the reader and of 64 bits, what no clock shows, and what is no number.
STARTS: list[Any] = [0, -1, 5, 10**9, DAY_US, 10**12, -(10**12), 10**15, -(10**15), 46 * 10**14, 2 * 10**18]
STARTS += [2**63, 1e30, -1e30]
STARTS += [Decimal("1e400"), float("nan"), float("inf"), None, True, "7", "soon", [1], {"at": 1}, ""]
DURATIONS: list[Any] = [0, 1, 10**9, DAY_US, 9 * DAY_US, 10**12, 10**15, 2**63]
DURATIONS += [1e30, -1, float("nan"), float("-inf"), None]
DURATIONS += [False, "3", "long", [], {"dur": 3}]
NUMBERS: list[Any] = [0, -1, 1, 2**31, 2**53, 2**62, 2**63 - 1, -(2**63), 2**63, 2**64, 10**30, -(10**30)]
NUMBERS += [0.5, 1e18, 1e300]
NUMBERS += [Decimal("1e400"), float("nan"), float("inf"), float("-inf"), None, True, False, "7", "many", "", "1e400"]
NUMBERS += [[], [1, 2], [[2**62, 2**62], [-1]], [10**30], {}, {"a": 1}, ["x", None], "[9223372036854775807, 2]"]


def _all(key: str, value: Any) -> Callable[[random.Random, list[Event]], None]:
    """Every event has this value."""

    def change(rng: random.Random, events: list[Event]) -> None:
        for event in events:
            if key in event:
                event[key] = value

    return change


def _some(key: str, values: list[Any], share: float) -> Callable[[random.Random, list[Event]], None]:
    """A share of the events have one of these values."""

    def change(rng: random.Random, events: list[Event]) -> None:
        for event in events:
            if key in event and rng.random() < share:
                event[key] = rng.choice(values)

    return change


def _args(share: float, values: list[Any]) -> Callable[[random.Random, list[Event]], None]:
    """A share of the arguments, whatever they are called."""

    def change(rng: random.Random, events: list[Event]) -> None:
        for event in events:
            for name in event.get("args", {}):
                if rng.random() < share:
                    event["args"][name] = rng.choice(values)

    return change


def _two_clocks(rng: random.Random, events: list[Event]) -> None:
    """The GPU takes its times from another clock, and there are many devices."""
    for number, event in enumerate(events):
        if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset"):
            event["ts"] += 4 * 10**15
            event["args"]["device"] = number


def _numbered(rng: random.Random, events: list[Event]) -> None:
    """Numbers in names and ids."""
    for event in events:
        if event.get("name", "").startswith("ProfilerStep#"):
            event["name"] = f"ProfilerStep#{rng.choice([0, 2**31, 2**63 - 1, 2**63, 10**30, -1])}"
        for key in ("pid", "tid", "id"):
            if key in event and rng.random() < 0.3:
                event[key] = rng.choice(NUMBERS)


HUGE = [value for value in NUMBERS if isinstance(value, int) and abs(value) > 2**40]
CHANGES: dict[str, Callable[[random.Random, list[Event]], None]] = {
    "days at one time": _all("dur", 9 * DAY_US),
    "years at one time": _all("dur", 9 * 10**14),
    "all before": _all("ts", -(10**15)),
    "some starts": _some("ts", STARTS, 0.1),
    "most starts": _some("ts", STARTS, 0.8),
    "far apart": _some("ts", [-(10**15), 46 * 10**14], 0.5),
    "days apart": _some("ts", [-9 * DAY_US, 9 * DAY_US], 0.7),
    "two clocks": _two_clocks,
    "some durations": _some("dur", DURATIONS, 0.1),
    "most durations": _some("dur", DURATIONS, 0.8),
    "some arguments": _args(0.2, NUMBERS),
    "all arguments": _args(1, NUMBERS),
    "huge arguments": _args(1, HUGE),
    "greatest arguments": _args(1, [2**63 - 1]),
    "least arguments": _args(1, [-(2**63)]),
    "numbers in names": _numbered,
}


def ranks(change: str, seed: int, folder: Path, count: int = 2) -> Path:
    """A folder with the odd traces of some ranks."""
    rng = random.Random(f"{change} {seed}")
    folder.mkdir(exist_ok=True)
    for rank in range(count):
        trace = full(rank)
        CHANGES[change](rng, trace.events)
        trace.write(folder / f"rank{rank}.json")
    return folder


def full(rank: int) -> TraceBuilder:
    """Everything that a query looks at, and what only some profilers write."""
    trace = training(rank, late=20 * rank)
    grid = {"grid": [4, 1, 1], "block": [128, 1, 1], "registers per thread": 32, "shared memory": 0}
    grid |= {"blocks per SM": 0.5, "warps per SM": 2.0, "est. achieved occupancy %": 12}
    group = {"Collective name": "allreduce", "dtype": "Float", "In msg nelems": 64, "Out msg nelems": 64}
    group |= {"Group size": 2, "Process Group Name": "0", "Process Group Ranks": "[0, 1]"}
    for number, event in enumerate(trace.events):
        if event.get("cat") == "kernel":
            event["args"] = {**event["args"], **grid}
            if "nccl" in event["name"]:
                event["args"] |= group
        elif event.get("cat") == "gpu_memcpy":
            event["args"] = {**event["args"], "memory bandwidth (GB/s)": 1.5}
            event["name"] = "Memcpy HtoD (Pageable -> Device)"
        elif event.get("cat") == "cpu_op":
            shapes = {"Input Dims": [[2, 3], [3, 4]], "Input type": ["float", "float"], "External id": number}
            event["args"] = {**event.get("args", {}), **shapes}
    trace.counter("GPU memory", 100, used=5).counter("GPU memory", 200, used=9)
    trace.flow("fwdbwd", 1, (120, 1), (330, 2))
    trace.top["deviceProperties"] = [{"id": 0, "name": "H100", "totalGlobalMem": 1 << 36, "numSms": 132}]
    return trace


def load(source: Path) -> Trace:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HotlineWarning)
        return ha.load(source)


def everything(trace: Trace, folder: Path) -> Iterator[tuple[str, Callable[[], object]]]:
    """The name of each thing that can be asked of a trace, and how it is asked."""
    for query in catalog.queries("answers", "charts", "export"):
        yield f"query {query.name}", partial(trace.query, query.name, **_with_step(trace, arguments(query)))
    for name, computed in COMPUTED.items():
        given = _with_step(trace, {"step": 0}) if name == "critical_path" else {}
        if None not in given.values():
            yield f"answer {name}", partial(computed.ask, *[trace] * computed.traces, **given)
    # `batch` needs traces with batches of two sizes.
    for name in (name for name, kind in CHARTS.items() if kind.traces):
        yield f"chart {name}", partial(_draw, name, trace)
    yield "report", partial(_report, trace)
    yield "diff", lambda: str(diff_report(trace, trace))
    yield "perfetto", lambda: ha.export_perfetto(trace, folder / "perfetto.json", rank=0, overwrite=True)
    yield "export", lambda: trace.export(folder / "tables", overwrite=True)


def _with_step(trace: Trace, given: dict[str, object]) -> dict[str, object]:
    """The arguments, with a step that there is."""
    if given.get("step") is None:
        return given
    return {**given, "step": trace.sql("select min(step) as step from step where rank = 0")["step"][0]}


def _report(trace: Trace) -> None:
    made = report(trace)
    for form in (made.to_text, made.to_markdown, made.to_html, made.to_json):
        assert form()


def _draw(name: str, trace: Trace) -> object:
    drawn = draw(name, *[trace] * CHARTS[name].traces)
    return drawn.to_html() if isinstance(drawn, Timeline) else drawn.to_dict()
