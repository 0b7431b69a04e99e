"""Overlap of time intervals with spans on the same track."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl

Moments = npt.NDArray[np.int64]
Amounts = npt.NDArray[np.float64]

_NONE = -(1 << 63)  # no track, or a time before all spans


def within(times: pl.DataFrame, spans: pl.DataFrame, amount: str) -> pl.Series:
    """The part of the spans' amount inside each interval, rounded; 0 without an overlap.

    Both frames have `track_id`, `start_ns` and `end_ns`, and only rows of the same track overlap. Spans of one track do
    not overlap unless they are identical. A span's amount is spread evenly over its length.
    """
    totals = spans.group_by("track_id", "start_ns", "end_ns").agg(pl.col(amount).sum().alias("amount"))
    totals = (
        totals.drop_nulls("track_id")
        .sort("track_id", "start_ns", "end_ns")
        .with_columns(
            length=pl.col("end_ns") - pl.col("start_ns"),
            before=pl.col("amount").cum_sum().over("track_id") - pl.col("amount"),
        )
    )
    amounts = np.zeros(times.height)
    tracks, starts, ends = (times[name].fill_null(_NONE).to_numpy() for name in ("track_id", "start_ns", "end_ns"))
    for (track,), of_track in totals.group_by("track_id", maintain_order=True):
        rows = np.flatnonzero(tracks == track)
        amounts[rows] = _until(ends[rows], of_track) - _until(starts[rows], of_track)
    return pl.Series("so_far", amounts).round().cast(pl.Int64)


def _until(moments: Moments, spans: pl.DataFrame) -> Amounts:
    """The cumulative amount up to each moment, of the sorted spans of one track."""
    starts, lengths, before, amount = (spans[name].to_numpy() for name in ("start_ns", "length", "before", "amount"))
    number = np.searchsorted(starts, moments, side="right") - 1
    is_begun = number >= 0
    number = np.maximum(number, 0)
    elapsed = np.clip(moments - starts[number], 0, lengths[number])
    fraction = np.divide(elapsed, lengths[number], out=np.ones(len(moments)), where=lengths[number] > 0)
    so_far: Amounts = np.where(is_begun, before[number] + amount[number] * fraction, 0.0)
    return so_far
