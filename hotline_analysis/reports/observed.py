"""The time in which a trace shows anything, and the devices' time by state in it."""

from __future__ import annotations

import polars as pl

from hotline_analysis.run.trace import Trace

_ON_DEVICES = (
    "select start_ns, end_ns from gpu_busy where rank = $rank"
    " union all select start_ns, end_ns from idle_part where rank = $rank"
)
_ON_THREAD = "select start_ns, end_ns from phase_span where rank = $rank and is_main"


def observed_time(trace: Trace, rank: int) -> tuple[int, int] | None:
    """Start and end of the time in which a device or the main thread was observed; `None` without such a time."""
    return _bounds(trace, rank, f"{_ON_DEVICES} union all {_ON_THREAD}")


def device_times(trace: Trace, rank: int) -> dict[str, int]:
    """The observed time of all devices by state, the longest first; empty without a device.

    The times agree with `device_use` for the run. Communication is the time without computing beside it.
    """
    observed = _bounds(trace, rank, _ON_DEVICES)
    if observed is None:
        return {}
    begin, end = observed
    rows = trace.query("step_bars", rank=rank, start_ns=begin, end_ns=end).filter(pl.col("device").is_not_null())
    return dict(rows.group_by("state").agg(pl.col("time_ns").sum()).sort("time_ns", "state", descending=True).rows())


def _bounds(trace: Trace, rank: int, spans: str) -> tuple[int, int] | None:
    statement = f"select min(start_ns), max(end_ns) from ({spans})"  # noqa: S608
    begin, end = trace.of(rank).sql(statement, rank=rank).row(0)
    return None if begin is None or end is None else (begin, end)
