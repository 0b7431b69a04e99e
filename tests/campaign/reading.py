"""What a trace file says, read in plain Python: slow, simple, and not by the code that is tested."""

from __future__ import annotations

import codecs
import json
import math
import re
import zlib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from tests import zstd

# Times that a clock can show, in microseconds: a few years before a clock's zero up to about the year 2115, and thirty
# years of duration. Other times are read as none.
FIRST_US, LAST_US, LONGEST_US = -(10**15), 46 * 10**14, 10**15
# A recording is one stretch of time: nothing in it is ten days from its middle, or adds up to three years.
_TEN_DAYS_NS = 864_000 * 10**9
_MOST_NS = 10**17

_NUMBER = re.compile(r"[ \t\r\n]*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?[ \t\r\n]*", re.ASCII)
_SYNCS = ("cuda_sync", "xpu_sync", "hip_sync")
_ON_GPU = ("gpu_user_annotation", "cuda_profiler_range", *_SYNCS)
_GPU = {
    "kernel": "kernel",
    "concurrent_kernel": "kernel",
    "mtia_ccp_events": "kernel",
    "gpu_memcpy": "gpu_memcpy",
    "memcpy": "gpu_memcpy",
    "gpu_memset": "gpu_memset",
    "memset": "gpu_memset",
}


@dataclass
class Reading:
    """What can be read of a file. `is_whole` says that it is a valid document, so that nothing may be missing.

    `events` maps the position in the file to the event; of a damaged file, where positions are a guess, the events that
    have a phase in their order.
    """

    is_whole: bool
    events: dict[int, dict[str, Any]] = field(default_factory=dict)
    foreign_count: int = 0
    is_unpacked: bool = True
    begins_as_json: bool = True
    """A file that begins in another way is no trace, whatever follows."""
    most: int = 0
    """No more events than this can be in the text."""
    has_extra_commas: bool = False
    """It is damaged by nothing but commas with nothing between them, of which nobody has to hear."""


def _first_of_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Of a key that is there twice, the first counts."""
    found: dict[str, Any] = {}
    for key, value in pairs:
        found.setdefault(key, value)
    return found


# Python refuses to convert very long integers; as floats they are out of every range.
_decoder = json.JSONDecoder(
    strict=False,
    parse_float=Decimal,
    parse_int=lambda text: int(text) if len(text) < 4000 else math.inf,
    object_pairs_hook=_first_of_each,
)


_FIELDS = ("ph", "name", "cat", "ts", "dur", "pid", "tid")


def read(data: bytes) -> Reading:
    """Read the bytes of a trace file. Of the events, what the figures need is kept."""
    plain, is_unpacked = _unpack(data)
    text = _decode(plain).lstrip(" \t\r\n\ufeff")
    reading = _whole(text)
    if reading is None:
        reading = _damaged(text)
        reading.has_extra_commas = _whole(_EXTRA_COMMA.sub(r"\1", text)) is not None
    reading.is_unpacked = is_unpacked
    reading.begins_as_json = text.startswith(("{", "["))
    reading.is_whole &= is_unpacked
    reading.events = {place: _kept(event) for place, event in reading.events.items()}
    return reading


def _kept(event: dict[str, Any]) -> dict[str, Any]:
    args = event.get("args")
    device = {"device": _flat(args["device"])} if isinstance(args, dict) and "device" in args else {}
    return {name: _flat(event[name]) for name in _FIELDS if name in event} | {"args": device}


def _flat(value: Any) -> Any:
    """A value that is not a list or object, or a list of its text."""
    if not isinstance(value, list | dict):
        return value
    try:
        return [json.dumps(value, default=str)]
    except RecursionError:
        return ["nested deeply"]


def _decode(data: bytes) -> str:
    if data.startswith(codecs.BOM_UTF16_LE):
        return data.decode("utf-16-le", "replace")
    if data.startswith(codecs.BOM_UTF16_BE):
        return data.decode("utf-16-be", "replace")
    return data.decode("utf-8", "replace")


def _unpack(data: bytes) -> tuple[bytes, bool]:
    """The uncompressed bytes, and whether all of them could be had."""
    if data.startswith(b"\x1f\x8b"):
        return _inflate(data, lambda: zlib.decompressobj(wbits=31))
    if data.startswith(b"\x28\xb5\x2f\xfd"):
        return _inflate(data, zstd.ZstdDecompressor)
    return data, True


def _inflate(data: bytes, start: Any) -> tuple[bytes, bool]:
    found: list[bytes] = []
    while data := data.lstrip(b"\0"):
        member = start()
        for at in range(0, len(data), 64):
            try:
                found.append(member.decompress(data[at : at + 64]))
            except (zlib.error, zstd.ZstdError):
                return b"".join(found), False
            if member.eof:
                data = member.unused_data + data[at + 64 :]
                break
        else:
            return b"".join(found), False
    return b"".join(found), True


# A comma before another one, outside of strings; trailing ones are not meant.
_EXTRA_COMMA = re.compile(r'("(?:[^"\\]|\\.)*")|,(?=\s*,)', re.DOTALL)
_DEEP = 300  # levels, below what Python's parser refuses
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)


def _shallow(text: str) -> str:
    """The text with a zero in place of each value that lies `_DEEP` levels deep; ValueError for one that is invalid.

    Python's parser refuses what nests a thousand levels deep, which is no damage: the levels are parsed in turns.
    """
    pieces: list[list[str]] = [[]]  # of the text so far, and of each deep value that is open
    depth = at = 0
    for token in _TOKEN.finditer(text):
        if token[0] in "[{":
            depth += 1
            if depth % _DEEP == 0:
                pieces[-1].append(text[at : token.start()])
                pieces.append([])
                at = token.start()
        elif token[0] in "]}":
            if depth > 0 and depth % _DEEP == 0:
                value = "".join(pieces.pop()) + text[at : token.end()]
                _decoder.decode(value)
                pieces[-1].append("0")
                at = token.end()
            depth -= 1
    if len(pieces) > 1:
        raise ValueError("a deep value has no end")
    return "".join(pieces[0]) + text[at:]


def _whole(text: str) -> Reading | None:
    """Read a valid document: an object that has one array of events, or the array. None for any other text."""
    try:
        try:
            document, end = _decoder.raw_decode(text)
        except RecursionError:
            text = _shallow(text)
            document, end = _decoder.raw_decode(text)
    except ValueError:
        return None
    if text[end:].strip(" \t\r\n\ufeff\0"):
        return None
    events = document.get("traceEvents") if isinstance(document, dict) else document
    if not isinstance(events, list):
        return Reading(True)
    reading = Reading(True, most=len(events))
    for position, event in enumerate(events):
        if isinstance(event, dict) and (event.get("ph") is not None or event.get("name") is not None):
            reading.events[position] = event
        else:
            reading.foreign_count += 1
    return reading


def _damaged(text: str) -> Reading:
    """Find every object that can be parsed and has a phase, whatever is around it."""
    reading = Reading(False, most=text.count('"ph"'))
    at = text.find("{")
    while at >= 0:
        value, end = _object_at(text, at)
        if value is None or isinstance(value.get("traceEvents"), list):
            end = at + 1  # what is in it is looked for
        elif value.get("ph") is not None:
            reading.events[len(reading.events)] = value
        at = text.find("{", end)
    return reading


def _object_at(text: str, at: int) -> tuple[dict[str, Any] | None, int]:
    """Parse the object at a place, in windows, since an error of the parser counts the lines before it."""
    for window in (1 << 14, 1 << 20, 1 << 26):
        piece = text[at : at + window]
        try:
            value, end = _decoder.raw_decode(piece)
        except RecursionError:
            break
        except json.JSONDecodeError as error:
            is_cut = error.msg.startswith("Unterminated string") or error.pos >= len(piece) - 16
            if not is_cut or len(piece) < window:
                break
        else:
            return value, at + end
    return None, at + 1


# --- what events say --------------------------------------------------------------------------------------------------


def number(value: Any) -> Decimal | None:
    """A number, also one that is written as text."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        return Decimal(value.strip()) if _NUMBER.fullmatch(value) else None
    if isinstance(value, float):
        return Decimal(value) if math.isfinite(value) else None
    return Decimal(value) if isinstance(value, int | Decimal) else None


def _ns(value: Any, least: int, most: int) -> Decimal | None:
    us = number(value)
    return us * 1000 if us is not None and least <= us <= most else None


def start_ns(event: Mapping[str, Any]) -> Decimal | None:
    """When an event starts, with what is left behind the nanosecond."""
    return _ns(event.get("ts"), FIRST_US, LAST_US)


def dur_ns(event: Mapping[str, Any]) -> Decimal | None:
    """How long an event says that it takes."""
    return _ns(event.get("dur"), 0, LONGEST_US)


def text_of(value: Any) -> str | None:
    """A process or thread as text, so that 7 and "7" are the same."""
    if isinstance(value, list):
        return str(value[0])
    return value if value is None or isinstance(value, str) else json.dumps(value, default=str)


@dataclass(frozen=True)
class Change:
    """A time that the importer says it has changed: by which rule, and the start and duration that count."""

    rule: str
    start: Decimal
    dur: Decimal | None


Times = dict[int, tuple[Decimal, Decimal]]


def times(events: Mapping[int, Mapping[str, Any]], changed: Mapping[int, Change] | None = None) -> Times:
    """Start and duration of each event that counts, as docs/annotation.md says.

    Which times are changed is not for this reading to say, apart from zeros; `faults` looks whether they may be.
    """
    found: Times = {}
    for place, dur in (_given(events) | _paired(events)).items():
        change = (changed or {}).get(place)
        if change is None and (_start(events[place]) or dur):
            found[place] = _start(events[place]), dur
        elif change is not None and change.dur is not None:
            found[place] = change.start, change.dur
    return found


def faults(events: Mapping[int, Mapping[str, Any]], changed: Mapping[int, Change]) -> list[str]:
    """Sentences on changes of times that no rule allows, and on times that are left although they cannot be."""
    given = _given(events) | _paired(events)
    wrong = []
    for place, change in changed.items():
        start, dur = _start(events[place]), given[place]
        is_same = abs(change.start - start) <= 1 + 2 * slack([start])
        allowed = {
            "zero_time": change.dur is None and not start and not dur,
            "overlap": change.dur is not None and change.dur <= dur + 1 + slack([dur]) and _is_on_gpu(events[place]),
            "other_clock": change.dur is not None and _is_on_gpu(events[place]),
            "before_launch": change.dur is None and is_same and _is_on_gpu(events[place]),
        }
        if not allowed.get(change.rule, change.dur is None and is_same):
            wrong.append(f"event {place} of {start} and {dur} ns is changed to {change}")
    kept = times(events, changed)
    for side in (False, True):
        starts = [start for place, (start, _) in kept.items() if _is_on_gpu(events[place]) == side]
        if starts and max(starts) - min(starts) > 2 * _TEN_DAYS_NS + 2 * slack(starts):
            wrong.append(f"what counts starts from {min(starts)} to {max(starts)} ns")
    if sum(dur for _, dur in kept.values()) > _MOST_NS + len(kept):
        wrong.append("what counts takes over three years")
    return wrong


def _given(events: Mapping[int, Mapping[str, Any]]) -> dict[int, Decimal]:
    """Durations that complete events say themselves."""
    return {
        place: dur
        for place, event in events.items()
        if event.get("ph") == "X" and start_ns(event) is not None and (dur := dur_ns(event)) is not None
    }


def _paired(events: Mapping[int, Mapping[str, Any]]) -> dict[int, Decimal]:
    """Durations from a begin (`B`) up to its end (`E`) on its thread."""
    found = {}
    threads: dict[tuple[str | None, str | None], list[tuple[Decimal, int, str]]] = defaultdict(list)
    for place, event in events.items():
        start = start_ns(event)
        if event.get("ph") in ("B", "E") and start is not None:
            threads[text_of(event.get("pid")), text_of(event.get("tid"))].append((start, place, event["ph"]))
    for edges in threads.values():
        opened: list[tuple[Decimal, int]] = []
        for at, place, ph in sorted(edges):
            if ph == "B":
                opened.append((at, place))
            elif opened:
                begin, opener = opened.pop()
                found[opener] = at - begin
    return found


def _start(event: Mapping[str, Any]) -> Decimal:
    start = start_ns(event)
    assert start is not None, "what has a duration has a start"
    return start


def _is_on_gpu(event: Mapping[str, Any]) -> bool:
    category = str(event.get("cat")).lower()
    return category in _GPU or category in _ON_GPU


@dataclass(frozen=True)
class GpuWork:
    """A kernel, copy or memset that counts."""

    category: str
    name: Any
    device: Any
    start: Decimal
    dur: Decimal


# Categories that PyTorch's profiler gives to events that take time.
_OF_PYTORCH = {
    *("cpu_op", "operator", "hpu_op", "user_annotation", "python_function", "python", "overhead", "trace"),
    *("cuda_runtime", "cuda_driver", "runtime", "driver", "hip_runtime", "xpu_runtime", "hip_api"),
}


def has_other_writer(events: Mapping[int, Mapping[str, Any]]) -> bool:
    """Whether no event of some process has a category of PyTorch's profiler: what they are, names tell the importer."""
    known: dict[str | None, bool] = {}
    for event in events.values():
        if event.get("ph") in ("X", "B"):
            cat, pid = event.get("cat"), text_of(event.get("pid"))
            is_known = isinstance(cat, str) and (cat.lower() in _OF_PYTORCH or _is_on_gpu(event))
            known[pid] = known.get(pid, False) or is_known
    return not all(known.values())


def gpu_work(
    events: Mapping[int, Mapping[str, Any]], changed: Mapping[int, Change] | None = None
) -> dict[int, GpuWork]:
    """The GPU work that counts in every figure."""
    found = {}
    for place, (start, dur) in times(events, changed).items():
        event = events[place]
        cat, args = event.get("cat"), event.get("args")
        category = _GPU.get(cat.lower()) if isinstance(cat, str) else None
        if category is not None:
            device = args.get("device") if isinstance(args, dict) else None
            found[place] = GpuWork(category, event.get("name"), device, start, dur)
    return found


def union(intervals: Iterable[tuple[Decimal, Decimal]]) -> Decimal:
    """The length of the union of intervals."""
    total, reached = Decimal(0), None
    for begin, end in sorted(intervals):
        if reached is None or begin > reached:
            total += end - begin
            reached = end
        elif end > reached:
            total += end - reached
            reached = end
    return total


def slack(values: Iterable[Decimal]) -> Decimal:
    """How far whole nanoseconds may be from exact numbers that a double holds."""
    total = Decimal(0)
    for value in values:
        if value != value.to_integral_value():
            total += 1
        if abs(value) > 2**43 * 1000:
            total += 2 + abs(value) / 2**51
    return total
