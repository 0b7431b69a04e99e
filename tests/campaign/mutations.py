"""Ways to damage a trace, by class. Each takes the random numbers of its case and changes what it is given.

`STRUCTURE` changes events and what is around them, `TEXT` the text of the file, `FILE` its compression.
"""

from __future__ import annotations

import codecs
import copy
import gzip
import random
from collections.abc import Callable
from typing import Any

from tests import zstd
from tests.campaign.draft import Again, Draft, Event, bare

Structural = Callable[[random.Random, Draft], None]
Textual = Callable[[random.Random, bytes], bytes]

STRUCTURE: dict[str, Structural] = {}
TEXT: dict[str, Textual] = {}
FILE: dict[str, Textual] = {}

_GPU = ("kernel", "gpu_memcpy", "gpu_memset")
_IDS = ("correlation", "External id", "Sequence number", "Fwd thread id", "stream", "device", "Python id")
_MORE_IDS = ("Python parent id", "Python module id", "Ev Idx", "Record function id", "Addr", "context", "graph node id")

ODD_VALUES: list[Any] = [
    None,
    True,
    False,
    0,
    -1,
    1.5,
    2**31,
    2**63 - 1,
    2**63,
    -(2**63) - 1,
    2**64 + 5,
    10**30,
    1e308,
    float("nan"),
    float("inf"),
    float("-inf"),
    bare("-0"),
    bare("1E+5"),
    bare("1e400"),
    bare("12345678901234567890.123456789012345678901234567890"),
    "",
    " ",
    "7",
    " 7 ",
    "1e3",
    "-1",
    "nan",
    "infinity",
    "9223372036854775808",
    "true",
    "null",
    "text",
    "\0",
    [],
    [1],
    [[[]]],
    {},
    {"a": {"b": 1}},
    {"ph": "X"},
]

# No output may hold these unescaped; `asking` looks for the element and for what a formula begins with.
EXOTIC_NAMES: list[str] = [
    "",
    " ",
    "<hotlinexss onerror=alert(1)>",
    "</script><hotlinexss>",
    '"><hotlinexss a="',
    "'><hotlinexss a='",
    "<!--<script><hotlinexss>",
    "]]><hotlinexss>",
    "[click](javascript:alert(1)) | a | b",
    "`code` **bold** | cell\n# heading",
    "=1+1",
    "+1",
    "-1",
    "@SUM(A1)",
    "\t=1+1",
    "\r=1+1",
    '=HYPERLINK("http://example.com","x")',
    "a\x1b[31mred\x1b[0m",
    "\x1b]0;title\x07",
    "\x9b31m",
    "a\u202eb\u202c",
    "\u2066a\u2069\u200e\u200f",
    "line\nbreak\r\nand \u2028 and \u2029",
    "\0nul",
    "\x08\x08\x08back",
    "\ud800 alone",
    "\udc00\ud800 the wrong way",
    "\ufeff\ufffe\uffff",
    "é\u0301\u0301\u0301\u0301",
    "名前 ⚡ 😀",
    "%s%n{0}{{}}$name",
    "'; drop table event; --",
    "../../etc/passwd",
    "a" * 5_000,
    "x" * 200_000,
    "void " + "f<" * 300 + ">" * 300 + "()",
    "((((((((((" * 100,
    "nn.Module: ",
    "nn.Module: _0",
    "nn.Module: A_99999999999999999999",
    "ProfilerStep#",
    "ProfilerStep#-1",
    "ProfilerStep#99999999999999999999",
    "ProfilerStep#1.5",
    "Optimizer.step#",
    "enumerate(DataLoader)#",
    "autograd::engine::evaluate_function: ",
    "torch/nn/modules/module.py(99999999999999999999): f",
    "a.py(0): ",
    "Memcpy HtoD",
    "[memory]",
    "Torch-Compiled Region: 0/0",
    "## forward ##",
    "ncclDevKernel_",
]

_PHASES: list[Any] = ["B", "E", "b", "n", "e", "i", "I", "C", "M", "s", "t", "f", "P", "N", "O", "D", "R", "c", "v"]
_PHASES += ["X", "x", "", "XX", " X", 5, None, ["X"], {}, True]


def structural(function: Structural) -> Structural:
    STRUCTURE[function.__name__] = function
    return function


def textual(function: Textual) -> Textual:
    TEXT[function.__name__] = function
    return function


def of_file(function: Textual) -> Textual:
    FILE[function.__name__] = function
    return function


def _args(event: Event) -> dict[str, Any] | None:
    args = event.get("args")
    return args if isinstance(args, dict) else None


def _odd(rng: random.Random, *others: Any) -> Any:
    """One of the odd values or of others: a copy, as later mutations may change it."""
    return copy.deepcopy(rng.choice([*others, *ODD_VALUES]))


def _some_place(rng: random.Random, event: Event) -> tuple[dict[str, Any], str] | None:
    """An object of the event and a key in it: of the event itself or of its arguments."""
    args = _args(event)
    chosen = args if args and rng.random() < 0.4 else event
    return (chosen, rng.choice(list(chosen))) if chosen else None


# --- keys -------------------------------------------------------------------------------------------------------------


@structural
def dropped_keys(rng: random.Random, draft: Draft) -> None:
    key = rng.choice([None, "ph", "cat", "name", "pid", "tid", "ts", "dur", "args", "id", "bp"])
    for event in draft.pick(rng):
        if key is not None:
            event.pop(key, None)
        elif place := _some_place(rng, event):
            del place[0][place[1]]


@structural
def mistyped_keys(rng: random.Random, draft: Draft) -> None:
    key = rng.choice([None, "ph", "cat", "name", "pid", "tid", "ts", "dur", "args", "id", "bp"])
    value = _odd(rng, None)
    is_same = rng.random() < 0.3
    for event in draft.pick(rng):
        odd = copy.deepcopy(value) if is_same else _odd(rng)
        if key is not None and key in event:
            event[key] = odd
        elif place := _some_place(rng, event):
            place[0][place[1]] = odd


@structural
def doubled_keys(rng: random.Random, draft: Draft) -> None:
    for event in draft.pick(rng):
        if place := _some_place(rng, event):
            chosen, key = place
            value = chosen[key] if rng.random() < 0.3 else _odd(rng)
            if rng.random() < 0.5:
                chosen[Again(key)] = value
            else:  # the odd one comes first, and counts
                items = list(chosen.items())
                chosen.clear()
                chosen[Again(key)] = value
                chosen.update(items)


@structural
def renamed_keys(rng: random.Random, draft: Draft) -> None:
    change = rng.choice(["upper", "title", "{} ", "", "{}\0"])
    for event in draft.pick(rng):
        if place := _some_place(rng, event):
            chosen, key = place
            new = getattr(key, change)() if change in ("upper", "title") else change.format(key)
            chosen[new] = chosen.pop(key)


@structural
def mistyped_args(rng: random.Random, draft: Draft) -> None:
    for event in draft.pick(rng):
        args = _args(event)
        if not args or rng.random() < 0.2:
            event["args"] = _odd(rng)
        else:
            for key in rng.sample(list(args), min(len(args), rng.randint(1, 3))):
                args[key] = _odd(rng)


@structural
def foreign_phases(rng: random.Random, draft: Draft) -> None:
    one = rng.choice(_PHASES)
    is_same = rng.random() < 0.4
    for event in draft.pick(rng):
        event["ph"] = one if is_same else rng.choice(_PHASES)


@structural
def odd_gpu_work(rng: random.Random, draft: Draft) -> None:
    """GPU events without a start, a duration or the phase of complete events."""
    work = [event for event in draft.events if isinstance(event, dict) and event.get("cat") in _GPU]
    for event in work:
        kind = rng.randrange(12)
        if kind == 0:
            event["ph"] = rng.choice(_PHASES)
        elif kind in (1, 2):
            event.pop("ts" if kind == 1 else "dur", None)
        elif kind == 3:
            event["cat"] = rng.choice(
                ["Kernel", "KERNEL", "Memcpy", "memset", "concurrent_kernel", "kernel ", ["kernel"]]
            )
        elif kind == 4:
            event["dur"] = rng.choice([0, -1, "5", "5.5", None, [5], 0.0004])


# --- arrows, counters -------------------------------------------------------------------------------------------------


def _flows(draft: Draft) -> list[Event]:
    return [event for event in draft.events if isinstance(event, dict) and event.get("ph") in ("s", "t", "f")]


@structural
def shuffled_flows(rng: random.Random, draft: Draft) -> None:
    flows = _flows(draft)
    for key in rng.sample(["id", "ts", "tid", "pid", "ph", "cat"], rng.randint(1, 4)):
        values = [event.get(key) for event in flows]
        rng.shuffle(values)
        for event, value in zip(flows, values, strict=True):
            event[key] = value


@structural
def duplicated_flows(rng: random.Random, draft: Draft) -> None:
    for event in _flows(draft):
        for _ in range(rng.choice([0, 0, 1, 1, 3])):
            draft.events.append({**event, "id": rng.choice([event.get("id"), 1])})


@structural
def dropped_flows(rng: random.Random, draft: Draft) -> None:
    gone = {id(event) for event in _flows(draft) if rng.random() < 0.5}
    draft.events[:] = [event for event in draft.events if id(event) not in gone]


@structural
def mistyped_flows(rng: random.Random, draft: Draft) -> None:
    key = rng.choice(["id", "ts", "tid", "pid", "bp", "cat", "name"])
    for event in _flows(draft):
        if rng.random() < 0.5:
            event[key] = _odd(rng)


@structural
def odd_counters(rng: random.Random, draft: Draft) -> None:
    times = [event["ts"] for event in draft.events if isinstance(event, dict) and "ts" in event] or [0]
    for _ in range(rng.choice([1, 30, 1000])):
        series = {
            rng.choice(["a", "b", "", *EXOTIC_NAMES[:20]]): _odd(rng, rng.random(), 10**18)
            for _ in range(rng.choice([1, 3, 30]))
        }
        name = rng.choice(["counter", "GPU 0 Memory", *EXOTIC_NAMES[:20], None, 5])
        event = {"ph": "C", "name": name, "pid": rng.choice([0, 1, "x"]), "tid": 0, "ts": rng.choice(times)}
        draft.events.append({**event, "args": _odd(rng, series, series, series)})


# --- times ------------------------------------------------------------------------------------------------------------


def _with_time(rng: random.Random, draft: Draft) -> list[Event]:
    return [event for event in draft.pick(rng) if isinstance(event.get("ts"), int | float)]


@structural
def huge_times(rng: random.Random, draft: Draft) -> None:
    times = [1e15, 4.6e15, 4.599999e15, 9.2e18, 2**63, 2**62, 1e18, 1e30, 1e300, 900_000_000_000_000, 10**15 - 1]
    one = rng.choice(times)
    for event in _with_time(rng, draft):
        if rng.random() < 0.5 and "dur" in event:
            event["dur"] = rng.choice([one, one, rng.choice(times)])
        else:
            event["ts"] = rng.choice([one, one, rng.choice(times), event["ts"] + one])


@structural
def negative_times(rng: random.Random, draft: Draft) -> None:
    least = rng.choice([-1, -0.5, -1e6, -1e12, -1e15, -1e16, -(2**63)])
    for event in _with_time(rng, draft):
        if rng.random() < 0.3 and "dur" in event:
            event["dur"] = rng.choice([least, -abs(event["dur"]) if isinstance(event["dur"], int | float) else -1])
        else:
            event["ts"] = rng.choice([least, -abs(event["ts"])])


@structural
def equal_times(rng: random.Random, draft: Draft) -> None:
    chosen = _with_time(rng, draft)
    if chosen:
        start, dur = rng.choice(chosen)["ts"], rng.choice([0, 1, 1000, None])
        for event in chosen:
            event["ts"] = start
            if dur is not None and "dur" in event:
                event["dur"] = dur


@structural
def overlapping_times(rng: random.Random, draft: Draft) -> None:
    longer = rng.choice([1.5, 10, 1000, 10**6])
    for event in _with_time(rng, draft):
        if isinstance(event.get("dur"), int | float):
            event["dur"] = event["dur"] * longer + rng.choice([0, 0, 7])


@structural
def fractional_times(rng: random.Random, draft: Draft) -> None:
    for event in _with_time(rng, draft):
        event["ts"] += rng.choice([0.001, 0.0005, 0.1234567, 1e-9])
        if isinstance(event.get("dur"), int | float):
            event["dur"] += rng.choice([0.001, 0.0004, 0.4999, 1e-12])


@structural
def times_that_are_no_number(rng: random.Random, draft: Draft) -> None:
    for event in _with_time(rng, draft):
        key = rng.choice(["ts", "dur"])
        if key in event:
            event[key] = rng.choice([float("nan"), float("inf"), None, "", "12:30", [1], {}, str(event[key]), True])


@structural
def shifted_clocks(rng: random.Random, draft: Draft) -> None:
    """One kind of event has another clock, perhaps one that runs backwards."""
    category = rng.choice(["kernel", "cpu_op", "cuda_runtime", "python_function", "user_annotation"])
    by = rng.choice([1, -1, 1e4, -1e4, 1e9, -1e9, 1e14])
    turn = rng.random() < 0.2
    for event in draft.events:
        if isinstance(event, dict) and event.get("cat") == category and isinstance(event.get("ts"), int | float):
            event["ts"] = by - event["ts"] if turn else event["ts"] + by


# --- ids, names -------------------------------------------------------------------------------------------------------


@structural
def changed_ids(rng: random.Random, draft: Draft) -> None:
    keys = rng.sample([*_IDS, *_MORE_IDS], 4)
    for event in draft.pick(rng):
        args = _args(event)
        for key in keys:
            if args and key in args:
                args[key] = rng.choice([0, 1, -1, rng.randrange(1000), 2**63, 2**64, "7", "x", 7.5, None])
        if rng.random() < 0.3:
            event[rng.choice(["pid", "tid"])] = rng.choice([0, 1, -1, 2**64, "x", "1", 1.0, None, rng.randrange(9)])


@structural
def duplicated_correlations(rng: random.Random, draft: Draft) -> None:
    key = rng.choice(["correlation", "correlation", "External id", "Sequence number"])
    most = rng.choice([1, 2, 50])
    for event in draft.pick(rng):
        args = _args(event)
        if args and key in args:
            args[key] = rng.randint(1, most)


@structural
def exotic_names(rng: random.Random, draft: Draft) -> None:
    one = rng.choice(EXOTIC_NAMES)
    is_same = rng.random() < 0.3
    budget = 3_000_000  # characters: files stay small
    for event in draft.pick(rng):
        name = one if is_same else rng.choice(EXOTIC_NAMES)
        name = rng.choice([name, name, f"{event.get('name')}{name}", f"{name}{event.get('name')}"])
        budget -= len(name)
        if budget > 0:
            event[rng.choice(["name"] * 8 + ["cat", "pid", "tid"])] = name


@structural
def exotic_texts_in_args(rng: random.Random, draft: Draft) -> None:
    for event in draft.pick(rng, most=500):
        args = _args(event)
        if args is not None:
            key = rng.choice([*list(args), *EXOTIC_NAMES[:30]])
            args[key] = rng.choice(EXOTIC_NAMES[:33])


@structural
def deep_nesting(rng: random.Random, draft: Draft) -> None:
    depth = rng.choice([50, 900, 3_000, 20_000])
    text = rng.choice(['{"a": ', "["]) * depth + "1"
    text += ("}" if text.startswith("{") else "]") * depth
    for event in draft.pick(rng, most=3):
        event[rng.choice(["args", "args", "name", "ts", "new"])] = bare(text)
    if rng.random() < 0.3:
        draft.top["deep"] = bare(text)


@structural
def deep_stacks(rng: random.Random, draft: Draft) -> None:
    """Events inside one another, a thousand deep."""
    category = rng.choice(["cpu_op", "python_function", "user_annotation", "cuda_runtime"])
    name = rng.choice(["aten::mm", "nn.Module: A_0", "a.py(1): f", "ProfilerStep#3", "Optimizer.step#x"])
    for level in range(rng.choice([300, 1000])):
        event = {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": 1, "ts": level, "dur": 10_000 - 2 * level}
        draft.events.append({**event, "args": {"Python id": level, "Python parent id": level - 1}})


# --- events as a whole ------------------------------------------------------------------------------------------------


@structural
def duplicated_events(rng: random.Random, draft: Draft) -> None:
    chosen = draft.pick(rng)
    for event in chosen:
        twin = copy.deepcopy(event)
        if rng.random() < 0.3 and isinstance(twin.get("ts"), int | float):
            twin["ts"] += rng.choice([0.001, 1, 50])
        draft.events.insert(rng.randrange(len(draft.events) + 1), twin)


@structural
def reordered_events(rng: random.Random, draft: Draft) -> None:
    if rng.random() < 0.5:
        draft.events.reverse()
    else:
        rng.shuffle(draft.events)


@structural
def dropped_events(rng: random.Random, draft: Draft) -> None:
    """All of one category, phase or thread, or any."""
    key = rng.choice(["cat", "ph", "tid", "name"])
    values = sorted({str(event.get(key)) for event in draft.events if isinstance(event, dict)})
    gone = rng.choice(values) if values else None
    kept = [event for event in draft.events if not (isinstance(event, dict) and str(event.get(key)) == gone)]
    if rng.random() < 0.3:
        kept = [event for event in draft.events if rng.random() < 0.5]
    draft.events[:] = kept or draft.events


@structural
def foreign_elements(rng: random.Random, draft: Draft) -> None:
    for _ in range(rng.choice([1, 5, 200])):
        draft.events.insert(rng.randrange(len(draft.events) + 1), _odd(rng))


@structural
def odd_steps(rng: random.Random, draft: Draft) -> None:
    marks = [
        event
        for event in draft.events
        if isinstance(event, dict) and str(event.get("name")).startswith("ProfilerStep#")
    ]
    kind = rng.randrange(4)
    for event in marks:
        if kind == 0:
            event["name"] = rng.choice(["ProfilerStep#1", "ProfilerStep#-5", f"ProfilerStep#{2**65}", "ProfilerStep"])
        elif kind == 1 and isinstance(event.get("dur"), int | float):
            event["dur"] *= rng.choice([0, 0.5, 1.7, 100])
        elif kind == 2:
            event["tid"] = rng.choice([1, 2, "3"])
        elif isinstance(event.get("ts"), int | float):
            event["ts"] += rng.choice([-1, 1]) * rng.choice([1, 1000, 10**6])


@structural
def many_times(rng: random.Random, draft: Draft) -> None:
    """The same events again and again, as a longer run has them."""
    once = [event for event in draft.events if isinstance(event, dict)]
    for turn in range(1, rng.choice([2, 3, 6])):
        for event in once:
            twin = copy.deepcopy(event)
            if isinstance(twin.get("ts"), int | float):
                twin["ts"] += turn * 1_000_000
            draft.events.append(twin)


# --- what is around the events ----------------------------------------------------------------------------------------


@structural
def missing_metadata(rng: random.Random, draft: Draft) -> None:
    for key in list(draft.top):
        if rng.random() < 0.6:
            del draft.top[key]
    if rng.random() < 0.5:
        draft.events[:] = [event for event in draft.events if not (isinstance(event, dict) and event.get("ph") == "M")]


@structural
def mistyped_metadata(rng: random.Random, draft: Draft) -> None:
    known = ["schemaVersion", "deviceProperties", "distributedInfo", "baseTimeNanoseconds", "displayTimeUnit"]
    known += ["traceName", "trace_id", "record_shapes", "with_stack", "profile_memory", "hotline_model"]
    for key in rng.sample(known, rng.randint(1, 5)):
        draft.top[key] = rng.choice([*ODD_VALUES, *EXOTIC_NAMES[:33]])
    for key in ("distributedInfo", "deviceProperties"):
        inner = draft.top.get(key)
        inner = inner[0] if isinstance(inner, list) and inner else inner
        if isinstance(inner, dict) and inner:
            for name in rng.sample(list(inner), min(3, len(inner))):
                inner[name] = rng.choice([*ODD_VALUES, *EXOTIC_NAMES[:33]])
    if rng.random() < 0.3:
        draft.top[Again(rng.choice(known))] = _odd(rng)
    for event in draft.events:
        if isinstance(event, dict) and event.get("ph") == "M" and rng.random() < 0.5:
            event["args"] = rng.choice(
                [{"name": rng.choice(EXOTIC_NAMES[:33])}, {"name": 5}, {"sort_index": "x"}, *ODD_VALUES]
            )


# --- worst cases: all events alike but for one thing ------------------------------------------------------------------


@structural
def one_value_for_all(rng: random.Random, draft: Draft) -> None:
    key = rng.choice(["cat", "name", "pid", "tid", "ts", "dur", "ph", "id", *_IDS])
    have = [
        event for event in draft.events if isinstance(event, dict) and (key in event or key in (_args(event) or {}))
    ]
    if have:
        first = rng.choice(have)
        value = first[key] if key in first else (_args(first) or {}).get(key)
        for event in have:
            (event if key in event else event["args"])[key] = value


@structural
def own_value_for_each(rng: random.Random, draft: Draft) -> None:
    key = rng.choice(["cat", "name", "pid", "tid", "ts", "id", *_IDS])
    for number, event in enumerate(draft.events):
        if isinstance(event, dict):
            place = event if key in event else _args(event) or {}
            if key in place:
                place[key] = f"{place[key]} {number}" if key in ("cat", "name") else number


@structural
def one_kind_for_all(rng: random.Random, draft: Draft) -> None:
    """All events with a duration become ops, kernels, steps, modules, collectives, waits, …"""
    kinds = [
        ("cpu_op", "aten::mm"),
        ("cpu_op", "autograd::engine::evaluate_function: MmBackward0"),
        ("kernel", "gemm"),
        ("kernel", "ncclDevKernel_AllReduce"),
        ("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)"),
        ("user_annotation", "ProfilerStep#1"),
        ("user_annotation", "Optimizer.step#SGD.step"),
        ("user_annotation", "enumerate(DataLoader)#x"),
        ("python_function", "nn.Module: Linear_0"),
        ("python_function", "train.py(1): f"),
        ("cuda_runtime", "cudaLaunchKernel"),
        ("cuda_runtime", "cudaDeviceSynchronize"),
        ("cuda_runtime", "cudaGraphLaunch"),
        ("cuda_sync", "Context Sync"),
        ("cpu_instant_event", "[memory]"),
    ]
    category, name = rng.choice(kinds)
    with_name = rng.random() < 0.7
    for event in draft.events:
        if isinstance(event, dict) and "dur" in event:
            event["cat"] = category
            if with_name:
                event["name"] = name


# --- the text ---------------------------------------------------------------------------------------------------------


@textual
def truncated(rng: random.Random, data: bytes) -> bytes:
    return data[: rng.choice([rng.randrange(len(data) + 1), max(0, len(data) - rng.randint(1, 40))])]


@textual
def cut_in_the_middle(rng: random.Random, data: bytes) -> bytes:
    for _ in range(rng.choice([1, 1, 3])):
        at = rng.randrange(len(data) + 1)
        data = data[:at] + data[at + rng.choice([1, 10, 300, 10_000, len(data) // 3]) :]
    return data


@textual
def doubled_piece(rng: random.Random, data: bytes) -> bytes:
    for _ in range(rng.choice([1, 1, 3])):
        at, length = rng.randrange(len(data) + 1), rng.choice([1, 10, 300, 10_000, len(data) // 3])
        data = data[: at + length] + data[at:]
    return data


@textual
def moved_piece(rng: random.Random, data: bytes) -> bytes:
    at, length = rng.randrange(len(data) + 1), rng.choice([10, 300, 10_000])
    piece, rest = data[at : at + length], data[:at] + data[at + length :]
    to = rng.randrange(len(rest) + 1)
    return rest[:to] + piece + rest[to:]


@textual
def flipped_bits(rng: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice([1, 5, 50, len(data) // 2000]) if data else 0):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


@textual
def bad_utf8(rng: random.Random, data: bytes) -> bytes:
    pieces = [
        b"\xff",
        b"\xc0\x80",
        b"\xed\xa0\x80",
        b"\xf4\x90\x80\x80",
        b"\xe2\x82",
        b"\x80" * 50,
        b"\xf8\x88\x80\x80\x80",
    ]
    for _ in range(rng.choice([1, 20])):
        at = rng.randrange(len(data) + 1)
        data = data[:at] + rng.choice(pieces) + data[at + rng.choice([0, 1]) :]
    return data


@textual
def control_characters(rng: random.Random, data: bytes) -> bytes:
    for _ in range(rng.choice([1, 20])):
        at = rng.randrange(len(data) + 1)
        data = data[:at] + bytes([rng.choice([0, 1, 8, 10, 11, 12, 13, 27, 127])]) + data[at:]
    return data


@textual
def byte_order_mark(rng: random.Random, data: bytes) -> bytes:
    text = data.decode("utf-8", "replace")
    return rng.choice(
        [
            codecs.BOM_UTF8 + data,
            codecs.BOM_UTF8 * 3 + data,
            codecs.BOM_UTF16_LE + text.encode("utf-16-le"),
            codecs.BOM_UTF16_BE + text.encode("utf-16-be"),
        ]
    )


@textual
def text_behind(rng: random.Random, data: bytes) -> bytes:
    return data + rng.choice([b"\0" * 5_000, b" \n" * 1_000, b"garbage", b"{}", b"]}", data, data[-500:], b"," + data])


@textual
def foreign_punctuation(rng: random.Random, data: bytes) -> bytes:
    """Commas, brackets and quotes that are too many, missing, or others."""
    for _ in range(rng.choice([1, 3, 30])):
        marks = [at for at, byte in enumerate(data[:200_000]) if byte in b',:{}[]"']
        if marks:
            at = rng.choice(marks)
            data = (
                data[:at]
                + rng.choice([b"", b",", b",,", b"}", b"{", b"]", b"[", b'"', b"'", b"\\", b"//"])
                + data[at + 1 :]
            )
    return data


# --- the file ---------------------------------------------------------------------------------------------------------


@of_file
def gzipped(rng: random.Random, data: bytes) -> bytes:
    return gzip.compress(data, 1, mtime=0)


@of_file
def zstd_packed(rng: random.Random, data: bytes) -> bytes:
    return zstd.with_checksum(data) if rng.random() < 0.5 else zstd.compress(data)


def _packed(rng: random.Random, data: bytes) -> bytes:
    return rng.choice([gzipped, gzipped, zstd_packed])(rng, data)


@of_file
def damaged_compression(rng: random.Random, data: bytes) -> bytes:
    packed = bytearray(_packed(rng, data))
    for _ in range(rng.choice([1, 1, 20])):
        at = rng.randrange(len(packed))
        packed[at] ^= 1 << rng.randrange(8)
    return bytes(packed)


@of_file
def truncated_compression(rng: random.Random, data: bytes) -> bytes:
    packed = _packed(rng, data)
    return packed[: rng.randrange(len(packed))]


@of_file
def junk_behind_compression(rng: random.Random, data: bytes) -> bytes:
    return _packed(rng, data) + rng.choice([b"\0" * 10_000, b"junk", b"\x1f\x8b", b"{}", rng.randbytes(300)])


@of_file
def several_members(rng: random.Random, data: bytes) -> bytes:
    count = rng.choice([2, 3, 50])
    cuts = sorted(rng.randrange(len(data) + 1) for _ in range(count - 1))
    pieces = [data[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]
    return b"".join(_packed(random.Random(0), piece) for piece in pieces)


@of_file
def bomb(rng: random.Random, data: bytes) -> bytes:
    """A small file that unpacks to hundreds of megabytes: of spaces, zeros, one name, or empty objects."""
    filling = rng.choice([b" ", b"\0", b"\n", b"{},", b"[", b'"', b"a"])
    size = rng.choice([20 << 20, 100 << 20, 300 << 20]) if filling != b"{}," else 3 << 20
    at = rng.choice([0, data.find(b"[") + 1, rng.randrange(len(data) + 1), len(data)])
    packer = zstd.ZstdCompressor(level=1)
    block = filling * ((1 << 20) // len(filling))
    parts = [
        packer.compress(data[:at]),
        *(packer.compress(block) for _ in range(size >> 20)),
        packer.compress(data[at:]),
    ]
    return b"".join([*parts, packer.flush()])
