"""How much of what takes place on threads lies in given times: for all threads at once, by as-of joins."""

from __future__ import annotations

import polars as pl


def within(times: pl.DataFrame, spans: pl.DataFrame, amount: str) -> pl.Series:
    """How much of an amount of the spans lies in each time, rounded; 0 where none does.

    Both frames have `track_id`, `start_ns` and `end_ns`, and times only share with spans of their own track. Spans of
    one track do not overlap, unless they are the same; each has its amount spread evenly over its length.
    """
    alone = spans.group_by("track_id", "start_ns", "end_ns").agg(pl.col(amount).sum().alias("amount"))
    ordered = alone.sort("start_ns", "end_ns").with_columns(
        length=pl.col("end_ns") - pl.col("start_ns"),
        before=pl.col("amount").cum_sum().over("track_id") - pl.col("amount"),
    )
    asked = times.select("track_id", "start_ns", "end_ns").with_row_index("row")
    both = _until(asked, "end_ns", ordered).join(_until(asked, "start_ns", ordered), on="row", suffix="_before")
    return both.sort("row").select((pl.col("so_far") - pl.col("so_far_before")).round().cast(pl.Int64)).to_series()


def _until(asked: pl.DataFrame, border: str, spans: pl.DataFrame) -> pl.DataFrame:
    """The amount on each track up to a border of each time."""
    at = asked.select("row", "track_id", pl.col(border).alias("at_ns")).sort("at_ns")
    found = at.join_asof(spans, left_on="at_ns", right_on="start_ns", by="track_id", check_sortedness=False)
    passed = (pl.col("at_ns") - pl.col("start_ns")).clip(0, pl.col("length"))
    part = pl.when(pl.col("length") > 0).then(passed / pl.col("length")).otherwise(1.0)
    return found.select("row", so_far=(pl.col("before") + pl.col("amount") * part).fill_null(0))
