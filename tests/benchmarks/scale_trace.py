"""Make a large Kineto trace out of a small one, to measure how speed and memory grow with size.

    python tests/benchmarks/scale_trace.py trace.json.gz big.json --size 500MB

The events are repeated one window after the other. Each repetition moves the timestamps by the length of the window and
gives every id (correlation, External id, Sequence number, flow id, ...) and every ProfilerStep a new number, so that
the result is what a longer profile would have recorded: nothing links across repetitions. Metadata events are written
once, and the keys of the file stay where they were.

Times keep their form and their digits: whole microseconds stay whole, decimal ones are computed in integer nanoseconds
and printed with three decimals, as Kineto does. Memory depends on the source alone, not on the output.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import IO, Any

Event = dict[str, Any]

ID_ARGS = frozenset(
    {
        "correlation",
        "wait_on_cuda_event_record_corr_id",
        "External id",
        "external id",
        "Sequence number",
        "Ev Idx",
        "Profiler Event Index",
        "Record function id",
        "Python id",
        "Python parent id",
    }
)
"""Numbers that name one event of the file. Zero and below mean "none" and stay."""

FROM_ZERO = frozenset({"Sequence number", "Ev Idx", "Profiler Event Index"})
"""Those of them that count from 0, so that 0 is a name like any other."""

STEP_NAME = re.compile(r"ProfilerStep#(\d+)")
SIZE_UNITS = {"": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9}
CHUNK_EVENTS = 2000
GAP_US = 1000


def parse_size(text: str) -> int:
    """Bytes in `500MB`, `0.5 GB` or `1000`; the units are powers of ten."""
    match = re.fullmatch(r"([\d.]+)\s*([KMG]B|)", text.strip().upper())
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size such as 500MB or 2GB")
    return int(Decimal(match[1]) * SIZE_UNITS[match[2]])


def to_ns(us: int | Decimal) -> int:
    """Nanoseconds in a time of the file, which is in microseconds."""
    return int((us * 1000).to_integral_value()) if isinstance(us, Decimal) else us * 1000


@dataclass(frozen=True)
class Shift:
    """What one repetition adds to each kind of number."""

    time_us: int
    ids: int
    steps: int


@dataclass
class Chunk:
    """The text of some events as a `%` template; number k of repetition i is `starts[k] + i * strides[k]`."""

    template: str = ""
    starts: list[int] = field(default_factory=list)
    strides: list[int] = field(default_factory=list)

    def render(self, repetition: int) -> str:
        numbers = (start + repetition * stride for start, stride in zip(self.starts, self.strides, strict=True))
        return self.template % tuple(numbers)


def measure(events: Iterable[Event]) -> Shift:
    """How far apart repetitions must be so that no time, id or step occurs twice."""
    start_ns, end_ns, top_id = None, 0, 0
    steps: set[int] = set()
    for event in events:
        if event.get("ph") == "M" or "ts" not in event:
            continue
        begin = to_ns(event["ts"])
        if begin < 0:
            raise SystemExit("timestamps before 0 cannot be repeated")
        start_ns = begin if start_ns is None else min(start_ns, begin)
        end_ns = max(end_ns, begin + to_ns(event.get("dur", 0)))
        ids = [value for name, value in event.get("args", {}).items() if is_id(name, value)]
        flow_id = event.get("id")
        top_id = max([top_id, *ids, flow_id if isinstance(flow_id, int) else 0])
        if step := STEP_NAME.fullmatch(str(event.get("name"))):
            steps.add(int(step[1]))
    if start_ns is None:
        raise SystemExit("the source trace has no events with a time")
    window_us = -(-(end_ns - start_ns) // 1000)
    return Shift(window_us + GAP_US, top_id + 1, max(steps) - min(steps) + 1 if steps else 0)


def is_id(name: str, value: Any) -> bool:
    """Whether an argument names an event of this file and so must differ between repetitions."""
    return name in ID_ARGS and type(value) is int and value >= (0 if name in FROM_ZERO else 1)


def dumps(value: Any) -> str:
    """JSON text, with `%` doubled because it becomes part of a template."""
    return json.dumps(value, ensure_ascii=False, default=float).replace("%", "%%")


def make_chunks(events: list[Event], shift: Shift) -> Iterator[Chunk]:
    """The events as templates, in order and laid out as Kineto lays them out."""
    for first in range(0, len(events), CHUNK_EVENTS):
        chunk = Chunk()
        chunk.template = ",\n".join(write_event(event, chunk, shift) for event in events[first : first + CHUNK_EVENTS])
        yield chunk


def write_event(event: Event, chunk: Chunk, shift: Shift) -> str:
    """The template of one event; the numbers that change are appended to `chunk`."""

    def number(start: int, stride: int) -> str:
        chunk.starts.append(start)
        chunk.strides.append(stride)
        return "%d"

    fields: list[str] = []
    for key, value in event.items():
        text = f"{dumps(key)}: "
        if key == "ts":
            us, rest_ns = divmod(to_ns(value), 1000)
            text += number(us, shift.time_us) + (f".{rest_ns:03d}" if isinstance(value, Decimal) else "")
        elif key == "dur" and isinstance(value, Decimal):
            us, rest_ns = divmod(to_ns(value), 1000)
            text += f"{us}.{rest_ns:03d}"
        elif key == "id" and isinstance(value, int):
            text += number(value, shift.ids)
        elif key == "name" and (step := STEP_NAME.fullmatch(str(value))):
            text += f'"ProfilerStep#{number(int(step[1]), shift.steps)}"'
        elif key == "args":
            args = [
                f"{dumps(name)}: " + (number(arg, shift.ids) if is_id(name, arg) else dumps(arg))
                for name, arg in value.items()
            ]
            text += "{\n      " + ", ".join(args) + "\n    }"
        else:
            text += dumps(value)
        fields.append("\n    " + text if key in ("ts", "args") or not fields else " " + text)
    return "  {" + ",".join(fields) + "\n  }"


def read_trace(source: Path) -> dict[str, Any]:
    """The whole source file, with decimal numbers kept exactly."""
    data = source.read_bytes()
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    text = data.decode("utf-8", errors="replace")
    del data
    trace: dict[str, Any] = json.loads(text, parse_float=Decimal, strict=False)
    return trace


def write_trace(trace: dict[str, Any], out: IO[str], stop: Callable[[int, int], bool]) -> int:
    """Write repetitions until `stop(repetitions, bytes so far)`; return how many. Empties the list of events."""
    events: list[Event] = trace["traceEvents"]
    keys = list(trace)
    at = keys.index("traceEvents")
    out.write("{\n")
    for key in keys[:at]:
        out.write(f"  {json.dumps(key)}: {json.dumps(trace[key], ensure_ascii=False, default=float)},\n")
    out.write('  "traceEvents": [\n')

    shift = measure(events)
    metadata = list(make_chunks([event for event in events if event.get("ph") == "M"], shift))
    chunks = list(make_chunks([event for event in events if event.get("ph") != "M"], shift))
    events.clear()

    written, separator = 0, ""
    repetitions = 0
    while repetitions == 0 or not stop(repetitions, written):
        for chunk in chunks if repetitions else metadata + chunks:
            text = separator + chunk.render(repetitions)
            written += out.write(text)
            separator = ",\n"
        repetitions += 1
    out.write("\n  ]")
    for key in keys[at + 1 :]:
        out.write(f",\n  {json.dumps(key)}: {json.dumps(trace[key], ensure_ascii=False, default=float)}")
    out.write("\n}\n")
    return repetitions


def scale(source: Path, target: Path, *, repetitions: int | None = None, size: int | None = None) -> int:
    """Repeat `source` a number of times, or as often as comes closest to `size` bytes of JSON; return how often."""

    def stop(done: int, written: int) -> bool:
        if repetitions is not None:
            return done >= repetitions
        return size is None or written + written // done // 2 > size

    partial = target.with_name(target.name + ".partial")
    with (
        gzip.open(partial, "wt", 1, encoding="utf-8")
        if target.suffix == ".gz"
        else partial.open("w", encoding="utf-8") as out
    ):
        done = write_trace(read_trace(source), out, stop)
    partial.replace(target)
    return done


def main() -> None:
    parser = argparse.ArgumentParser(description="Repeat a Kineto trace with shifted times and ids.")
    parser.add_argument("source", type=Path, help="a .json or .json.gz trace")
    parser.add_argument("target", type=Path, help="the trace to write; compressed if it ends in .gz")
    amount = parser.add_mutually_exclusive_group(required=True)
    amount.add_argument("--repeat", type=int, metavar="N", help="how many times, at least 1")
    amount.add_argument("--size", type=parse_size, help="JSON size to come close to, such as 500MB or 2GB")
    args = parser.parse_args()
    done = scale(args.source, args.target, repetitions=args.repeat, size=args.size)
    print(f"{args.target}: {done} repetitions, {args.target.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
