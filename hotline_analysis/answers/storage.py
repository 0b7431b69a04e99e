"""Total effect of all encodings of saved feature maps: compression ratio, and memory at the peak."""

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
    """Totals of all rows of `encodings`: first the lossless encodings (`lossless`), then all encodings (`all`).

    `ratio` is how many times smaller the saved maps get. Gist (Jain et al., ISCA 2018) reports how much smaller the
    whole footprint gets: up to 2 times, and 1.8 times on average with lossy encodings. `peak_ratio` is comparable to
    this figure: the allocated bytes at the peak, divided by the bytes after encoding, assuming that all maps are alive
    at the peak. `peak_ratio` is an upper bound. Maps with an unknown share of zeros (`zeros_pct`) keep their size.
    """
    rows = encodings(trace, rank=rank, step=step, zeros_pct=zeros_pct, item_bytes=item_bytes)
    if rows.is_empty():
        return pl.DataFrame(schema=_KINDS)
    # GPUs come first, and the device with the most memory is the first of its rank.
    peaks = memory_breakdown(trace, by="category", rank=rank, step=step)
    peak_of = peaks.group_by("rank", maintain_order=True).agg(pl.col("peak_bytes").first())
    shrunk = pl.min_horizontal("bytes", pl.col("encoded_bytes").fill_null(pl.col("bytes")))
    totals = [
        rows.with_columns(left=pl.when(condition).then(shrunk).otherwise("bytes"))
        .group_by("rank", maintain_order=True)
        .agg(pl.lit(schemes).alias("schemes"), pl.col("bytes").sum(), pl.col("left").sum().alias("encoded_bytes"))
        for schemes, condition in (("lossless", pl.col("is_lossless")), ("all", pl.lit(True)))
    ]
    left_bytes = pl.col("peak_bytes") - pl.col("bytes") + pl.col("encoded_bytes")
    return (
        pl.concat(totals)
        .join(peak_of, on="rank", how="left")
        .with_columns(
            ratio=pl.col("bytes") / pl.col("encoded_bytes").clip(1),
            peak_ratio=pl.when(left_bytes > 0).then(pl.col("peak_bytes") / left_bytes),
        )
        .sort("rank", pl.col("schemes") == "all")
        .select(pl.col(name).cast(kind) for name, kind in _KINDS.items())
    )
