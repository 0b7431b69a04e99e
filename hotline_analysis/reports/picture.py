"""The picture of a typical step for text and notebooks: a row for the main thread and for each device.

The shares are those of the page's picture (`charts.step_picture`), for any number of columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hotline_analysis.charts.step_picture import bars
from hotline_analysis.run.trace import Trace

CAUSE = "cause"
"""The state of the main thread in the places of the first change."""
_WHOLE = 1000  # a share is in thousandths of a stretch
LARGE = 0.3  # as on the page: minimum share of a step for the places of a change


@dataclass(frozen=True)
class Row:
    """A row of the picture: the main thread, a device, or the main thread of the rank that all others wait for."""

    name: str
    is_device: bool
    shares: Mapping[str, Sequence[float]]
    """By state: the share of each stretch, in thousandths. The states of a thread are phases and waits."""


@dataclass(frozen=True)
class Picture:
    """The rows of a step on one time axis."""

    title: str
    span_ns: int
    width_ns: int
    """The length of a stretch. The last stretch may end after the step."""
    rows: Sequence[Row]
    hot: str = ""
    """The state in the accent colour, as on the page."""
    cause: str = ""
    """The words for the state `CAUSE`."""

    def columns(self, row: Row, count: int) -> list[dict[str, float]]:
        """The shares of the states in each of `count` equal parts of the step, from 0 to 1."""
        columns: list[dict[str, float]] = [{} for _ in range(count)]
        span, width = max(1, self.span_ns), self.width_ns
        for state, shares in row.shares.items():
            for number, share in enumerate(shares):
                begin, end = number * width, min((number + 1) * width, span)
                if not share or end <= begin:
                    continue
                time = share / _WHOLE * width / (end - begin)  # per nanosecond
                for at in range(begin * count // span, (end * count - 1) // span + 1):
                    common = min(end * count, (at + 1) * span) - max(begin * count, at * span)
                    columns[at][state] = columns[at].get(state, 0.0) + common * time / span
        return columns


def step_picture(
    trace: Trace,
    rank: int,
    *,
    title: str,
    begin_ns: int,
    end_ns: int,
    hot: str,
    spans: Iterable[tuple[int, int, int, int]],
    cause: str,
    least: float = LARGE,
) -> Picture | None:
    """Make the picture of a time; None if there is nothing to show.

    `spans` are the places of the first change, and `cause` names the change. They replace the phases of the main thread
    without a device and without a state `hot`, if they take more than the share `least` of the time.
    """
    drawn = bars(trace, rank, begin_ns, end_ns)
    threads = [bar for bar in drawn["bars"] if bar["device"] is None]
    devices = sorted({bar["device"] for bar in drawn["bars"]} - {None})
    rows = [Row("CPU", False, _by_state(threads))] if threads else []
    for device in devices:
        name = f"GPU {device}" if len(devices) > 1 else "GPU"
        rows.append(Row(name, True, _by_state(bar for bar in drawn["bars"] if bar["device"] == device)))
    if drawn["late"] is not None and drawn["late"]["bars"]:
        rows.append(Row(f"rank {drawn['late']['rank']}", False, _by_state(drawn["late"]["bars"])))
    if not rows or end_ns <= begin_ns:
        return None
    is_caused = False
    if threads and not devices and not hot:
        covered = _covered(spans, begin_ns, end_ns, drawn["width"])
        is_caused = sum(covered) * drawn["width"] > least * _WHOLE * (end_ns - begin_ns)
        if is_caused:
            rows[0] = _overlaid(rows[0], covered)
    return Picture(
        title=title,
        span_ns=end_ns - begin_ns,
        width_ns=drawn["width"],
        rows=rows,
        hot=CAUSE if is_caused else hot,
        cause=cause if is_caused else "",
    )


def _by_state(rows: Iterable[Mapping[str, Any]]) -> dict[str, list[float]]:
    """The shares of each state. A wait is one state in all phases."""
    states: dict[str, list[float]] = {}
    for bar in rows:
        shares = states.setdefault(bar["wait"] or bar["state"], [])
        shares.extend([0.0] * (len(bar["share"]) - len(shares)))
        for number, share in enumerate(bar["share"]):
            shares[number] += share
    return states


def _covered(spans: Iterable[tuple[int, int, int, int]], begin: int, end: int, width: int) -> list[float]:
    """The share of each stretch in the spans on the CPU, in thousandths."""
    covered = [0.0] * -(-(end - begin) // width)
    last = begin
    for start, stop, _, on_gpu in sorted(spans):
        first, until = max(start, last) - begin, min(stop, end) - begin
        if on_gpu or until <= first:
            continue
        last = begin + until
        for number in range(first // width, (until - 1) // width + 1):
            covered[number] += _WHOLE * (min(until, (number + 1) * width) - max(first, number * width)) / width
    return covered


def _overlaid(row: Row, covered: Sequence[float]) -> Row:
    """The row with the places in front of the other states."""
    shares = {
        state: [share * (1 - covered[number] / _WHOLE) for number, share in enumerate(values[: len(covered)])]
        for state, values in row.shares.items()
    }
    return Row(row.name, row.is_device, {CAUSE: covered, **shares})
