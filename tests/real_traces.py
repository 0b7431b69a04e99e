"""Real traces, read as plain JSON and by this package. `HOTLINE_TRACES` is their folder."""

from __future__ import annotations

import functools
import gzip
import json
import os
from decimal import Decimal
from pathlib import Path
from typing import Any

from hotline_analysis import Trace
from tests import runs

TRACES = Path(os.environ.get("HOTLINE_TRACES", "no traces"))
NAMES = sorted(str(path.relative_to(TRACES)) for path in TRACES.rglob("*.json.gz"))
GPU = ("kernel", "gpu_memcpy", "gpu_memset")
SPELLINGS = {"Kernel": "kernel", "Memcpy": "gpu_memcpy", "Memset": "gpu_memset"}
HTA = TRACES.parent / "reference" / "hta.json"
Event = dict[str, Any]


@functools.lru_cache(maxsize=1)
def file(name: str) -> dict[str, Any]:
    """The whole JSON, with its times as exact as they are written."""
    with gzip.open(TRACES / name, "rt", encoding="utf-8") as stream:
        content: dict[str, Any] = json.load(stream, parse_float=Decimal)
    return content


@functools.cache
def opened(name: str) -> Trace:
    return runs.opened(TRACES / name)


def ns(microseconds: Decimal | int) -> int:
    exact = Decimal(microseconds) * 1000
    assert exact == int(exact)
    return int(exact)


def interval(event: Event) -> tuple[int, int]:
    start = ns(event["ts"])
    return start, start + ns(event["dur"])


def gpu_events(name: str) -> list[tuple[int, Event]]:
    """Position and event of all GPU work."""
    return [
        (number, event)
        for number, event in enumerate(file(name)["traceEvents"])
        if SPELLINGS.get(event.get("cat", ""), event.get("cat")) in GPU and "dur" in event
    ]
