"""The marks of a training loop that times itself, and how much of each phase agrees with them."""

# Checked with torch installed and without: then everything from torch is Any.
# mypy: warn-return-any=False, warn-unused-ignores=False, disallow-untyped-calls=False

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hotline_analysis as ha

TRUTH = "truth:"
MODULE = "truth@"


def mark(name: str) -> Any:
    import torch

    return torch.profiler.record_function(TRUTH + name)


def marked(model: Any) -> Any:
    """Let each module without children be told by an annotation of its own."""
    import torch

    for path, module in model.named_modules():
        if next(module.children(), None) is None:
            marks: list[Any] = []

            def begin(*_: Any, path: str = path, marks: list[Any] = marks) -> None:
                marks.append(torch.profiler.record_function(MODULE + path))
                marks[-1].__enter__()

            def end(*_: Any, marks: list[Any] = marks) -> None:
                marks.pop().__exit__(None, None, None)

            module.register_forward_pre_hook(begin)
            module.register_forward_hook(end)
    return model


def op_times(events: list[dict[str, Any]]) -> dict[int, float]:
    """The time of each op, less that of the ops in it."""
    times: dict[int, float] = {}
    open_ops: list[tuple[int, float]] = []
    last_thread = None
    for number in sorted(
        (number for number, event in enumerate(events) if event.get("cat") == "cpu_op"),
        key=lambda number: (str(events[number]["tid"]), float(events[number]["ts"]), -float(events[number]["dur"])),
    ):
        begin, duration = float(events[number]["ts"]), float(events[number]["dur"])
        if events[number]["tid"] != last_thread:
            open_ops, last_thread = [], events[number]["tid"]
        while open_ops and open_ops[-1][1] <= begin:
            open_ops.pop()
        if open_ops:
            times[open_ops[-1][0]] -= duration
        times[number] = duration
        open_ops.append((number, begin + duration))
    return times


def told(events: list[dict[str, Any]], prefix: str) -> Callable[[dict[str, Any]], str | None]:
    """What the innermost annotation says in which an event starts."""
    spans = sorted(
        (float(event["ts"]), float(event["ts"]) + float(event["dur"]), str(event["name"]).removeprefix(prefix))
        for event in events
        if str(event.get("name")).startswith(prefix)
    )

    def ask(event: dict[str, Any]) -> str | None:
        at = float(event["ts"])
        return next((name for begin, end, name in reversed(spans) if begin <= at < end), None)

    return ask


def shares(trace: dict[str, Any], folder: Path) -> dict[str, float]:
    """By phase, and for modules in forward: the share of op time that is labelled as the program says."""
    phase_of, module_of = told(trace["traceEvents"], TRUTH), told(trace["traceEvents"], MODULE)
    plain = [event for event in trace["traceEvents"] if not str(event.get("name")).startswith((TRUTH, MODULE))]
    (folder / "plain.json").write_text(json.dumps(trace | {"traceEvents": plain}))
    with ha.load(folder / "plain.json") as found:
        rows = found.sql(
            "select event_id, phase, path from annotated_event left join model_op using (rank, module_id)"
            " where category = 'cpu_op' and step is not null"
        ).rows()
    times = op_times(plain)
    right, whole = defaultdict[str, float](float), defaultdict[str, float](float)
    for number, phase, path in rows:
        expected = phase_of(plain[number])
        if expected is not None:
            whole[expected] += times[number]
            right[expected] += times[number] * (phase == expected)
        if module_of(plain[number]) is not None:
            whole["modules"] += times[number]
            right["modules"] += times[number] * (path == module_of(plain[number]))
    return {name: 100 * right[name] / time for name, time in whole.items()} | {
        "phases": 100
        * sum(right[name] for name in whole if name != "modules")
        / sum(time for name, time in whole.items() if name != "modules")
    }
