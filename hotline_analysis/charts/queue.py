"""The queue of launches over time.

Each function takes the frame of the answer with the same name. It returns an Altair chart titled with the finding.
"""

from __future__ import annotations

from typing import Any

import polars as pl

from hotline_analysis.charts.parts import (
    lines_of,
    nothing,
    over_time,
    rank_of,
)


def queue_length(frame: pl.DataFrame) -> Any:
    """Number of launches waiting on each stream over time, from the answer `queue_length`."""
    stream = pl.col("stream").cast(pl.String).fill_null("unknown")
    rows = frame.with_columns(line=rank_of(frame) + pl.format("device {} stream {}", "device", stream))
    points = over_time(rows, "queue_length", by="line")
    if points.is_empty():
        return nothing()
    most = rows.sort("queue_length", descending=True).row(0, named=True)
    launches = "launch" if most["queue_length"] == 1 else "launches"
    title = f"At most {most['queue_length']:,} {launches} in the queue, on {most['line']}"
    return lines_of(points, "launches in the queue", title, legend="stream")
