"""Events that a writer spelled wrong: a small writer with these errors, and all that it meant to say as the oracle."""

from __future__ import annotations

import json
import os
import random
import re
import resource
import subprocess
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import hotline_analysis as ha
from hotline_analysis.errors import HotlineWarning
from hotline_analysis.kineto import mend

Event = dict[str, Any]


class Bare(str):
    """A word that the writer puts where JSON wants a value."""


class Raw(str):
    """A text whose backslashes and quotes the writer does not escape."""


def written(value: object, indent: str | None, depth: int = 0) -> str:
    """JSON as Kineto lays it out, and with the errors that `Bare` and `Raw` stand for."""
    if isinstance(value, Bare):
        return str(value)
    if isinstance(value, Raw):
        return f'"{value}"'
    if isinstance(value, dict | list):
        line, end = ("", "") if indent is None else ("\n" + indent * (depth + 1), "\n" + indent * depth)
        if isinstance(value, dict):
            items = [f"{json.dumps(key)}: {written(each, indent, depth + 1)}" for key, each in value.items()]
        else:
            items = [written(each, indent, depth + 1) for each in value]
        opening, closing = "{}" if isinstance(value, dict) else "[]"
        return (
            opening + ("," + (line or " ")).join(["", *items])[len("," + (line or " ")) :].join([line, end]) + closing
        )
    return json.dumps(value)


def meant(value: object) -> Any:
    """The value as it would be without the writer's errors: an unknown word is null."""
    if isinstance(value, Bare):
        return {"True": True, "False": False}.get(value)
    if isinstance(value, dict):
        return {key: meant(each) for key, each in value.items()}
    return [meant(each) for each in value] if isinstance(value, list) else value


def training(
    rng: random.Random, frame: Callable[[], str], argument: Callable[[], object], at: int = 5_000_000
) -> list[Event]:
    """Steps with a frame of Python, ops, launches and kernels."""
    events: list[Event] = []
    for step in range(rng.randint(2, 5)):
        begin = at
        common = {"pid": 41, "tid": 41}
        calls: list[Event] = []
        for _ in range(rng.randint(1, 4)):
            length, number = rng.randint(5, 90), 100 + len(events) + len(calls)
            own = {"cbid": 211, "correlation": number}
            work = {"device": 0, "stream": 7, "correlation": number, "occupancy": argument(), "grid": [1, 2, 3]}
            calls += [
                {"ph": "X", "cat": "python_function", "name": frame(), **common, "ts": at, "dur": length + 9},
                {"ph": "X", "cat": "cpu_op", "name": "aten::mm", **common, "ts": at + 1, "dur": 7},
                {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", **common, "ts": at + 2, "dur": 2},
                {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": at + 5, "dur": length},
            ]
            for event, args in zip(calls[-4:], ({"Python id": number}, {}, own, work), strict=True):
                event["args"] = args
            at += length + rng.randint(10, 40)
        mark = {"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{step}", **common, "ts": begin}
        events += [{**mark, "dur": at - begin, "args": {}}, *calls]
    return events


def document(events: list[str], ending: str = "]}") -> str:
    return '{"schemaVersion": 1, "traceEvents": [' + ",\n".join(events) + ending


def read(folder: Path, text: str) -> tuple[list[tuple[Any, ...]], list[str], dict[str, Any]]:
    """The events of a trace, its warnings, and what it says of damage."""
    path = folder / "trace.json"
    path.write_text(text, encoding="utf-8")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HotlineWarning)
        trace = ha.load(path)
    with trace:
        events = trace.sql("select name, category, start_ns, dur_ns, correlation from event order by event_id").rows()
        info = trace.sql("select damage, lost_event_count, truncated from rank_info").row(0, named=True)
        return events, [each for each in trace.manifest["warnings"] if "ranks" not in each], info


def rows_of(events: list[Event]) -> list[tuple[Any, ...]]:
    return [
        (meant(each["name"]), each["cat"], each["ts"] * 1000, each["dur"] * 1000, each["args"].get("correlation"))
        for each in events
    ]


def repaired(kind: str, count: int) -> str:
    """The one warning of a trace in which only one kind of errors is repaired."""
    return f"trace.json: {mend.sentence(Counter({kind: count}))}"


WORDS = (
    "N/A",
    "nan",
    "-nan",
    "inf",
    "-inf",
    "NaN",
    "-Infinity",
    "nan(ind)",
    "-nan(ind)",
    "1.#INF",
    "None",
    "n/a",
    "True",
)
PATHS = (
    r"torch\nn\modules\module.py(1501): _call_impl",
    r"torch\utils\data\dataloader.py(633): __next__",
    r"C:\work\train\big.py(12): forward",
    r"D:\new\fast\best.py(3): run",  # each is an escape of JSON
    r"torch\nn\functional.py(7): relu",
    r"\\server\share\users\x.py(1): f",
    r"C:\Program Files\new tools\run.py(77): <module>",
    r"E:\u00e9t\u1234\x.py(5): f",
    r"<frozen\runpy>.py(9): g",
)
QUOTED = (
    '{"device": "cpu", "dtype": "float32"}(12): run',
    'print("a", "b")',
    '<string>(1): say "hello"',
    '"all of it"',
    'f({"k": 1, "v": [1, 2]}, {"k": 3})',
    'kernel<"x", true>',
    'a "b" c, "d": {e}',
    'load("data},{x.bin")',
)
LAYOUTS = [None, "", "  "]


@pytest.mark.parametrize("indent", LAYOUTS)
@pytest.mark.parametrize("seed", range(3))
def test_words_in_place_of_values(tmp_path: Path, seed: int, indent: str | None) -> None:
    rng = random.Random(seed)
    chosen: list[Bare] = []

    def argument() -> object:
        chosen.append(Bare(rng.choice(WORDS)))
        return chosen[-1] if rng.random() < 0.5 else [1, chosen[-1]]

    events = training(rng, lambda: "an inf, nan: N/A, frame", argument)
    found, warned, info = read(tmp_path, document([written(each, indent) for each in events]))
    assert found == rows_of(events)
    assert info == {"damage": None, "lost_event_count": 0, "truncated": False}
    assert warned == [repaired(mend.WORDS, len(chosen))]


def test_arguments_beside_a_word_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    args = {"note": "nan, inf: N/A", "x": Bare("-nan"), "y": [Bare("inf"), 2], "z": Bare("False")}
    event = {"ph": "X", "cat": "cpu_op", "name": "op", "pid": 1, "tid": 1, "ts": 1, "dur": 2, "args": args}
    path.write_text(document([written(event, None)]), encoding="utf-8")
    with pytest.warns(HotlineWarning, match="unknown: 3"):
        trace = ha.load(path)
    with trace:
        assert json.loads(trace.sql("select args from event_args").item()) == meant(args) | {"z": False}


@pytest.mark.parametrize("value", [True, False, None, -1.5e-7, "nan", [True, "N/A"]])
def test_right_values_are_no_errors(tmp_path: Path, value: object) -> None:
    """The names look as if a word followed, so that each event is looked at closely."""
    events = training(random.Random(2), lambda: "utils.py(353): infer, nan", lambda: value)
    found, warned, info = read(tmp_path, document([json.dumps(each) for each in events]))
    assert found == rows_of(events)
    assert (warned, info["damage"]) == ([], None)


@pytest.mark.parametrize("indent", LAYOUTS)
@pytest.mark.parametrize("seed", range(3))
def test_single_backslashes(tmp_path: Path, seed: int, indent: str | None) -> None:
    rng = random.Random(seed)
    events = training(rng, lambda: Raw(rng.choice(PATHS)), lambda: 1)
    count = sum(isinstance(each["name"], Raw) for each in events)
    found, warned, info = read(tmp_path, document([written(each, indent) for each in events]))
    assert found == rows_of(events)
    assert info["damage"] is None
    assert warned == [repaired(mend.BACKSLASHES, count)]


@pytest.mark.parametrize(
    "name",
    [
        "torch\\nn\\modules\\module.py(1): f",
        "a\nb",
        'caf\u00e9\t"x"',
        "f.py(3): a\nb",
        "donn\u00e9es/train.py(3): f",
        "\t=1+1torch/nn/modules/module.py(1743): f",
    ],
)
def test_escapes_that_are_right_stay(tmp_path: Path, name: str) -> None:
    events = training(random.Random(1), lambda: name, lambda: 1)
    found, warned, info = read(tmp_path, document([json.dumps(each) for each in events]))
    assert found == rows_of(events)
    assert (warned, info["damage"]) == ([], None)


@pytest.mark.parametrize("indent", LAYOUTS)
def test_unescaped_quotes(tmp_path: Path, indent: str | None) -> None:
    names = cycle(map(Raw, QUOTED))
    events = [
        event
        for seed in range(3)
        for event in training(random.Random(seed), lambda: next(names), lambda: 1, 5_000_000 + 100_000 * seed)
    ]
    count = sum(isinstance(each["name"], Raw) for each in events)
    assert count >= len(QUOTED)
    found, warned, info = read(tmp_path, document([written(each, indent) for each in events]))
    assert found == rows_of(events)
    assert info["damage"] is None
    assert warned == [repaired(mend.QUOTES, count)]


@pytest.mark.parametrize("text", ['{\\"a\\": ' * 200_000, '"a\\n' * 200_000, ": nan, " * 200_000, '"' * 600_000])
def test_the_search_takes_time_in_proportion_to_the_text(text: str) -> None:
    """2 MB take less than a second; a search from each quote to the end takes an hour."""
    limits = (20, 20)
    code = "import sys; from hotline_analysis.kineto import mend; mend.mend('{\"ph\": ' + sys.stdin.read())"
    subprocess.run(
        [sys.executable, "-c", code],
        input=text,
        text=True,
        check=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, limits),
    )


def test_a_path_that_ends_in_a_backslash(tmp_path: Path) -> None:
    args = {"cwd": Raw("C:\\work\\"), "correlation": 4}
    event = {"ph": "X", "cat": "cpu_op", "name": "op", "pid": 1, "tid": 1, "ts": 1, "dur": 2, "args": args}
    found, warned, _ = read(tmp_path, document([written(event, None), written({**event, "ts": 5}, None)]))
    assert found == [("op", "cpu_op", 1000, 2000, 4), ("op", "cpu_op", 5000, 2000, 4)]
    assert warned == [repaired(mend.BACKSLASHES, 2)]


@pytest.mark.parametrize("seed", range(5))
def test_braces_that_are_missing(tmp_path: Path, seed: int) -> None:
    """An event whose last brace is missing takes nothing from the events after it."""
    rng = random.Random(seed)
    events = training(rng, lambda: "f.py(1): g", lambda: 1)
    broken = sorted(rng.sample(range(len(events)), 1 + seed % 3))
    texts = [written(each, None)[: -1 if place in broken else None] for place, each in enumerate(events)]
    found, warned, info = read(tmp_path, document(texts))
    assert found == rows_of(events)
    assert info["damage"] is None
    assert warned == [repaired(mend.ENDS, len(broken))]


@pytest.mark.parametrize("ending", ["", ",", "\n", ",\n  ", "]"])
def test_a_file_without_its_end(tmp_path: Path, ending: str) -> None:
    events = training(random.Random(len(ending)), lambda: "f.py(1): g", lambda: 1)
    found, warned, info = read(tmp_path, document([written(each, None) for each in events], ending))
    assert found == rows_of(events)
    assert (info["lost_event_count"], info["truncated"]) == (0, True)
    assert len(warned) == 1


def test_all_errors_at_once_are_one_warning(tmp_path: Path) -> None:
    rng = random.Random(7)
    names = [Raw(rng.choice((*PATHS, *QUOTED))) for _ in range(100)]
    events = training(rng, lambda: names.pop(), lambda: Bare(rng.choice(WORDS)))
    texts = [written(each, "  ") for each in events]
    texts[3] = texts[3].rstrip().removesuffix("}")
    found, warned, info = read(tmp_path, document(texts))
    assert found == rows_of(events)
    assert info["damage"] is None
    (warning,) = warned
    assert [int(count) for count in re.findall(r"\d+", warning.partition(":")[2])] == [
        sum(each["cat"] == "kernel" for each in events),
        sum("\\" in each["name"] for each in events),
        sum('"' in each["name"] for each in events),
        1,
    ]


CASES = Path(os.environ.get("HOTLINE_TRACES", "no traces")).parent / "cases"


@pytest.mark.traces
@pytest.mark.parametrize(
    ("case", "category", "word", "count", "milliseconds"),
    [
        ("16a", "kernel", "gemm", 30, 21.0),
        ("07_windows_paths", "python_function", "\\", 9, None),
        ("08_quotes", "python_function", '{"device": "cpu", "dtype": "float32"}(12): run', 3, 17.4),
    ],
)
def test_cases_from_reports(case: str, category: str, word: str, count: int, milliseconds: float | None) -> None:
    if not CASES.exists():
        pytest.skip("the cases are not there")
    with pytest.warns(HotlineWarning, match="repaired"):
        trace = ha.load(CASES / f"{case}.json")
    with trace:
        rows = trace.sql("select name, dur_ns from event where category = $category", category=category)
        assert trace.sql("select damage, lost_event_count from rank_info").row(0) == (None, 0)
    assert rows.filter(pl.col("name").str.contains(word, literal=True)).height == count
    if milliseconds is not None:
        assert rows["dur_ns"].sum() == milliseconds * 1e6
