"""The report's advice on kernels that repeat: what to launch at once, where launching is what the run waits for."""

from __future__ import annotations

import polars as pl

from hotline_analysis.analyze.finding import Finding
from hotline_analysis.analyze.patterns import frequent_kernel_patterns
from hotline_analysis.humane import duration, percent, safe
from hotline_analysis.trace import Trace

# Worth saying if the launches that it would save are at least this share of the steps.
_SAVED_PCT = 5.0


def pattern_advice(trace: Trace, rank: int, bound: Finding, steps: pl.DataFrame) -> list[str]:
    """A sentence on the sequence whose launches cost most, if the run is launch-bound and it is worth it."""
    time = int(steps["dur_ns"].sum())
    if bound.answer != "launch-bound" or not time:
        return []
    found = frequent_kernel_patterns(trace, 1, rank=rank).rows(named=True)
    if not found or 100 * found[0]["saved_launch_ns"] < _SAVED_PCT * time:
        return []
    best = found[0]
    names = best["pattern"].split(" → ")
    shown = " → ".join(safe(name) for name in names[:3]) + (" → …" if len(names) > 3 else "")
    return [
        f"A sequence of {best['length']} kernels ({shown}; first is event {best['first_event_id']}) repeats"
        f" {best['count']:,} times. Launched at once each time, it saves {duration(best['saved_launch_ns'])} in launch"
        f" calls ({percent(100 * best['saved_launch_ns'] / time)} of the steps): compile the module around it"
        " (torch.compile), or capture it in a CUDA graph."
    ]
