"""A step as a picture of a few bars: phases of the CPU, and busy time and causes of idle time of each GPU."""

from __future__ import annotations

from typing import Any

import polars as pl

from hotline_analysis.answers.waiting import find_late_rank
from hotline_analysis.run.trace import Trace

_BINS = 1200  # about one for each pixel of a wide window
_IDLE = 1500  # maximum number of idle stretches, visible when zoomed in
_PARTS = 1000  # shares are whole thousandths of a stretch


def picture(trace: Trace, rank: int, detail: pl.DataFrame) -> dict[str, Any]:
    """Bars and idle stretches for the time span of a tree. Times are in nanoseconds from the start of the span.

    `idle` lists the longest stretches of idle time: device, start, duration and the index of the cause in `causes`.
    """
    begin: int = detail["start_ns"].min() or 0  # type: ignore[assignment]
    end: int = detail["end_ns"].max() or begin  # type: ignore[assignment]
    idle = (
        trace.of(rank)
        .sql(
            "select device, greatest(start_ns, $start_ns) - $start_ns as at_ns,"
            " least(end_ns, $end_ns) - greatest(start_ns, $start_ns) as dur_ns,"
            " use_cause(cause) as cause"
            " from idle_part where rank = $rank and start_ns < $end_ns and end_ns > $start_ns",
            rank=rank,
            start_ns=begin,
            end_ns=end,
        )
        .sort("dur_ns", "at_ns", descending=[True, False])
        .head(_IDLE)
        .sort("at_ns")
    )
    causes = idle["cause"].unique().sort().to_list()
    numbers = {cause: number for number, cause in enumerate(causes)}
    return {
        **bars(trace, rank, begin, end),
        "causes": causes,
        "idle": [[device, at, dur, numbers[cause]] for device, at, dur, cause in idle.iter_rows()],
    }


def bars(trace: Trace, rank: int, begin: int, end: int) -> dict[str, Any]:
    """Bars of a time: each is a state of the main thread or of a device.

    A bar has the share of time in the state for each of `bins` stretches of `width` nanoseconds, in thousandths. `late`
    has the rank that the others wait for, and its own bars of the same time; None without such a rank.
    """
    width = max(1, -(-(end - begin) // _BINS))
    return {
        "span": end - begin,
        "bins": _BINS,
        "width": width,
        "bars": _bars(trace, rank, begin, end, width),
        "late": _late(trace, rank, begin, end, width),
    }


def _bars(trace: Trace, rank: int, begin: int, end: int, width: int) -> list[dict[str, Any]]:
    rows = trace.query("step_bars", rank=rank, start_ns=begin, end_ns=end, bins=_BINS)
    return [
        {"device": device, "state": state, "wait": wait, "time": sum(times), "share": _dense(bins, times, width)}
        for device, state, wait, bins, times in rows.group_by("device", "state", "wait", maintain_order=True)
        .agg("bin", "time_ns")
        .iter_rows()
    ]


def _late(trace: Trace, rank: int, begin: int, end: int, width: int) -> dict[str, Any] | None:
    """The main thread of the late rank at the same time. None for that rank itself, or without a common clock."""
    late = find_late_rank(trace) if len(trace.ranks) > 1 else None
    if late is None or late.rank == rank:
        return None
    shifts: dict[int, int | None] = dict(
        trace.sql(
            "select rank, any_value(shift_ns) from collective_match where rank in ($rank, $late) group by rank",
            rank=rank,
            late=late.rank,
        ).rows()
    )
    own, its = shifts.get(rank), shifts.get(late.rank)
    if own is None or its is None:
        return None
    ahead = own - its
    bars = _bars(trace, late.rank, begin + ahead, end + ahead, width)
    return {"rank": late.rank, "bars": [bar for bar in bars if bar["device"] is None]}


def _dense(bins: list[int], times: list[int], width: int) -> list[int]:
    shares = [0] * (max(bins) + 1)
    for at, time in zip(bins, times, strict=True):
        shares[at] = round(_PARTS * time / width)
    return shares
