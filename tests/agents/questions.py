"""Twenty questions about traces in `tests/data`: how an agent asks them, and the answer by reading the file itself.

The expected values come from the JSON of the trace files and nothing else; those asked come through the tools alone.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any

DATA = Path(__file__).parents[1] / "data"
FILES = {
    "cnn": DATA / "cnn.json.gz",
    "dlrm": DATA / "dlrm.json.gz",
    "lstm": DATA / "lstm.json.gz",
    "gnn_1": DATA / "twice/gnn_1.json.gz",
    "gnn_2": DATA / "twice/gnn_2.json.gz",
    "gloo": DATA / "gloo",
}
"""The runs of the evaluation, by the names that they have in its folder."""

Call = Callable[..., Awaitable[dict[str, Any]]]
"""Calls a tool by name, with arguments, and gives its envelope."""


@dataclass(frozen=True)
class Question:
    """One question: how it is asked, and the known answer."""

    text: str
    ask: Callable[[Call], Awaitable[Any]]
    known: Callable[[], Any]


# --- the files -------------------------------------------------------------------------------------------------------


@cache
def raw(name: str) -> Mapping[str, Any]:
    path = FILES[name] if FILES[name].is_file() else FILES[name] / "rank0.json.gz"
    with gzip.open(path) as file:
        found: Mapping[str, Any] = json.load(file)
    return found


def events(name: str, category: str, of: str = "") -> list[tuple[int, dict[str, Any]]]:
    """The events of a category with their positions; those of one name, or whose name begins so with a `*`."""
    return [
        (place, event)
        for place, event in enumerate(raw(name)["traceEvents"])
        if event.get("cat") == category
        and event.get("ph") == "X"
        and (not of or event["name"] == of or (of.endswith("*") and event["name"].startswith(of[:-1])))
    ]


def ns(event: Mapping[str, Any]) -> int:
    duration: float = event["dur"]
    return round(1000 * duration)


def steps(name: str) -> list[int]:
    return [ns(event) for _, event in events(name, "user_annotation", "ProfilerStep#*")]


def longest(name: str, category: str) -> int:
    return max(events(name, category), key=lambda each: each[1]["dur"])[0]


# --- the questions ---------------------------------------------------------------------------------------------------


async def step_count(call: Call) -> Any:
    return (await call("open_run", run="cnn"))["steps"][0]["step_count"]


async def longest_step(call: Call) -> Any:
    return max(row["dur_ns"] for row in (await call("ask", run="cnn", answer="steps"))["rows"])


async def gpu_work(call: Call) -> Any:
    return (await call("open_run", run="cnn"))["recorded"]["gpu_work"]


async def shapes(call: Call) -> Any:
    return (await call("open_run", run="dlrm"))["rank_info"][0]["record_shapes"]


async def base_time(call: Call) -> Any:
    return (await call("open_run", run="lstm"))["rank_info"][0]["base_time_ns"]


def op_calls(run: str, op: str) -> Callable[[Call], Awaitable[Any]]:
    async def ask(call: Call) -> Any:
        found = await call("ask", run=run, answer="slowest_ops", parameters={"limit": 1000}, limit=1000)
        assert not found["truncation"]["is_truncated"]
        return sum(row["count"] for row in found["rows"] if row["name"] == op)

    return ask


async def most_called(call: Call) -> Any:
    found = await call("ask", run="lstm", answer="slowest_ops", parameters={"limit": 1000}, columns=["name", "count"])
    rows = found["rows"]
    while found["truncation"]["is_truncated"]:  # as an agent reads on
        found = await call(
            "ask",
            run="lstm",
            answer="slowest_ops",
            parameters={"limit": 1000},
            columns=["name", "count"],
            offset=found["truncation"]["offset"] + found["truncation"]["returned"],
        )
        rows = rows + found["rows"]
    return max(rows, key=lambda row: row["count"])["name"]


async def backward_time(call: Call) -> Any:
    found = await call("ask", run="cnn", answer="slowest_ops", parameters={"limit": 1000}, limit=1000)
    return next(row["cpu_total_ns"] for row in found["rows"] if row["name"] == "aten::convolution_backward")


async def first_shape(call: Call) -> Any:
    found = await call(
        "sql",
        run="cnn",
        statement="select event_id from annotated_event where name = 'aten::addmm' and category = 'cpu_op'"
        " order by event_id",
        limit=1,
    )
    event = await call("event", run="cnn", event_id=found["rows"][0]["event_id"])
    return json.loads(event["arguments"]["op"]["input_dims"])


async def longest_op(call: Call) -> Any:
    statement = "select event_id from annotated_event where category = 'cpu_op' order by dur_ns desc, event_id"
    return (await call("sql", run="dlrm", statement=statement, limit=1))["rows"][0]["event_id"]


async def event_name(call: Call) -> Any:
    return (await call("event", run="lstm", event_id=longest("lstm", "python_function")))["event"]["name"]


async def convolution_modules(call: Call) -> Any:
    found = await call("ask", run="cnn", answer="modules", limit=1000)
    return len({row["path"] for row in found["rows"] if row["type"] == "Conv2d"})


async def module_calls(call: Call) -> Any:
    found = await call("ask", run="cnn", answer="modules", limit=1000)
    return sum(row["call_count"] for row in found["rows"] if row["type"] == "Conv2d" and row["pass"] == "forward")


async def rank_count(call: Call) -> Any:
    return len((await call("open_run", run="gloo"))["runs"][0]["parts"])


async def all_events(call: Call) -> Any:
    parts = (await call("open_run", run="gloo"))["runs"][0]["parts"]
    return next(part["event_count"] for part in parts if part["rank"] == 0)


async def slower_by(call: Call) -> Any:
    found = await call("compare", base="gnn_1", new="gnn_2", by="step")
    return found["rows"][0]["delta_ns"]


async def is_slower(call: Call) -> Any:
    found = await call("gate", base=["gnn_1"], new=["gnn_2"], fail_if=["step > +10 %"])
    return found["gate"]["answer"] == "fail"


async def is_slower_the_other_way(call: Call) -> Any:
    found = await call("gate", base=["gnn_2"], new=["gnn_1"], fail_if=["step > +10 %"])
    return found["gate"]["answer"] == "fail"


async def optimizer_marks(call: Call) -> Any:
    statement = "select count(*) as n from annotated_event where name like 'Optimizer.step#%'"
    return (await call("sql", run="dlrm", statement=statement))["rows"][0]["n"]


async def threads(call: Call) -> Any:
    statement = "select count(distinct track_id) as n from annotated_event where category = 'cpu_op'"
    return (await call("sql", run="gnn_1", statement=statement))["rows"][0]["n"]


async def advice_event(call: Call) -> Any:
    """The events that advice and the slowest op lead to are there."""
    report = await call("report", run="cnn")
    ids = [advice["event_id"] for advice in report["report"]["advice"]]
    return [(await call("event", run="cnn", event_id=number))["event"]["event_id"] for number in ids] == ids


def difference() -> int:
    """Means are whole nanoseconds, rounded down."""
    return sum(steps("gnn_2")) // len(steps("gnn_2")) - sum(steps("gnn_1")) // len(steps("gnn_1"))


def conv_frames() -> list[str]:
    found = [event["name"] for _, event in events("cnn", "python_function", "nn.Module: Conv2d*")]
    assert found
    return found


QUESTIONS = (
    Question("How many steps does cnn have?", step_count, lambda: len(steps("cnn"))),
    Question("How long is its longest step?", longest_step, lambda: max(steps("cnn"))),
    Question("Does it have GPU work?", gpu_work, lambda: bool(events("cnn", "kernel"))),
    Question("Has dlrm shapes of inputs?", shapes, lambda: bool(raw("dlrm")["record_shapes"])),
    Question("When was lstm recorded?", base_time, lambda: raw("lstm")["baseTimeNanoseconds"]),
    Question(
        "How often is conv2d called?",
        op_calls("cnn", "aten::conv2d"),
        lambda: len(events("cnn", "cpu_op", "aten::conv2d")),
    ),
    Question(
        "How often does dlrm look up embeddings?",
        op_calls("dlrm", "aten::embedding_bag"),
        lambda: len(events("dlrm", "cpu_op", "aten::embedding_bag")),
    ),
    Question(
        "Which op is called most in lstm?",
        most_called,
        lambda: Counter(event["name"] for _, event in events("lstm", "cpu_op")).most_common(1)[0][0],
    ),
    Question(
        "How long do backward convolutions take in all?",
        backward_time,
        lambda: sum(ns(event) for _, event in events("cnn", "cpu_op", "aten::convolution_backward")),
    ),
    Question(
        "Which shapes has the first addmm?",
        first_shape,
        lambda: events("cnn", "cpu_op", "aten::addmm")[0][1]["args"]["Input Dims"],
    ),
    Question("Which event is the longest op of dlrm?", longest_op, lambda: longest("dlrm", "cpu_op")),
    Question(
        "What is the name of the longest frame of lstm?",
        event_name,
        lambda: raw("lstm")["traceEvents"][longest("lstm", "python_function")]["name"],
    ),
    Question("How many convolution layers ran?", convolution_modules, lambda: len(set(conv_frames()))),
    Question("How often were they called?", module_calls, lambda: len(conv_frames())),
    Question("How many ranks has the job gloo?", rank_count, lambda: len(list(FILES["gloo"].glob("rank*.json.gz")))),
    Question("How much slower are steps of gnn_2 than of gnn_1?", slower_by, difference),
    Question("Is gnn_2 slower by 10 %?", is_slower, lambda: difference() > 0.1 * fmean(steps("gnn_1"))),
    Question("Is gnn_1 slower by 10 %?", is_slower_the_other_way, lambda: -difference() > 0.1 * fmean(steps("gnn_2"))),
    Question(
        "How often does the optimizer of dlrm step?",
        optimizer_marks,
        lambda: len(events("dlrm", "user_annotation", "Optimizer.step#*")),
    ),
    Question(
        "How many threads run ops in gnn_1?",
        threads,
        lambda: len({(event["pid"], event["tid"]) for _, event in events("gnn_1", "cpu_op")}),
    ),
    Question("Are the events of the advice there?", advice_event, lambda: True),
)
