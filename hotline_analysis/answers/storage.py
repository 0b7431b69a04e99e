"""What all encodings of saved maps come to: how many times smaller maps get, and the memory at its peak."""

from __future__ import annotations

import polars as pl

from hotline_analysis.answers.generated import encodings, memory_breakdown
from hotline_analysis.run.trace import Trace

_KINDS = {
    "rank": pl.Int64,
    "schemes": pl.String,
    "bytes": pl.Int64,
    "encoded_bytes": pl.Int64,
    "ratio": pl.Float64,
    "peak_bytes": pl.Int64,
    "peak_ratio": pl.Float64,
}


def encodings_total(
    trace: Trace,
    *,
    rank: int | None = None,
    step: int | None = None,
    zeros_pct: float | None = None,
    item_bytes: int = 4,
) -> pl.DataFrame:
    """What all rows of `encodings` come to: first those that lose nothing (`lossless`), then `all` of them.

    `ratio` is how many times smaller the maps that are saved get. Gist (Jain et al., ISCA 2018) tells how much smaller
    the whole footprint gets instead: up to 2 times, and 1.8 on average with lossy encodings. `peak_ratio` is the like
    of that: what is allocated at the peak, over what were left if all the maps lived then, so it is at most so much.
    Maps whose zeros nobody knows (`zeros_pct`) stay as they are.
    """
    rows = encodings(trace, rank=rank, step=step, zeros_pct=zeros_pct, item_bytes=item_bytes)
    if rows.is_empty():
        return pl.DataFrame(schema=_KINDS)
    # GPUs come first, and of each rank the device with most.
    peaks = memory_breakdown(trace, by="category", rank=rank, step=step)
    peak_of = peaks.group_by("rank", maintain_order=True).agg(pl.col("peak_bytes").first())
    shrunk = pl.min_horizontal("bytes", pl.col("encoded_bytes").fill_null(pl.col("bytes")))
    totals = [
        rows.with_columns(left=pl.when(chosen).then(shrunk).otherwise("bytes"))
        .group_by("rank", maintain_order=True)
        .agg(pl.lit(schemes).alias("schemes"), pl.col("bytes").sum(), pl.col("left").sum().alias("encoded_bytes"))
        for schemes, chosen in (("lossless", pl.col("is_lossless")), ("all", pl.lit(True)))
    ]
    left = pl.col("peak_bytes") - pl.col("bytes") + pl.col("encoded_bytes")
    return (
        pl.concat(totals)
        .join(peak_of, on="rank", how="left")
        .with_columns(
            ratio=pl.col("bytes") / pl.col("encoded_bytes").clip(1),
            peak_ratio=pl.when(left > 0).then(pl.col("peak_bytes") / left),
        )
        .sort("rank", pl.col("schemes") == "all")
        .select(pl.col(name).cast(kind) for name, kind in _KINDS.items())
    )
