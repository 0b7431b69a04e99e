"""Sections on GPU utilization: losses against the GPU's peak, and the ops with the largest losses."""

from __future__ import annotations

import polars as pl

from hotline_analysis.answers import generated as answers
from hotline_analysis.answers.efficiency import gpu_efficiency, tensor_core_use
from hotline_analysis.reports.content import Field, Section
from hotline_analysis.run.trace import Trace
from hotline_analysis.text.formats import percent, shares
from hotline_analysis.vocabulary import PEAK_PARTS

_ROWS = 10


def peak_section(trace: Trace, rank: int) -> Section:
    """Used and lost parts of the GPU's peak. Shares add up to 100 %."""
    found = gpu_efficiency(trace, rank=rank)
    rows = found.evidence
    first = rows.filter(pl.col("device") == rows["device"][0])
    cores = tensor_core_use(trace, rank=rank)
    said = [found.statement, found.advice, *([cores.statement, cores.advice] if cores.answer == "eligible" else [])]
    return Section(
        "peak_loss",
        "How much of the GPU is used",
        " ".join(text for text in [*said, "Peaks are dense, at boost clock."] if text),
        [
            Field("word", "part of the observed time", "name"),
            Field("ns", "time", "time"),
            Field("pct", "share", "share"),
        ],
        first.with_columns(
            word=pl.col("part").replace_strict(dict(PEAK_PARTS)),
            pct=pl.Series(shares(first["ns"].to_list()), dtype=pl.Float64),
        ),
        chart="peak_loss",
    )


def roofline_section(trace: Trace, rank: int) -> Section | None:
    """The op shapes with the most time lost against the GPU's limits; None without lost time."""
    rows = answers.roofline(trace, by="shape", rank=rank, limit=_ROWS).filter(pl.col("lost_ns") > 0)
    if rows.is_empty():
        return None
    lost = percent(float(rows["lost_pct"].sum()))
    return Section(
        "roofline",
        "Ops that could be faster",
        "Lost: time beyond the minimum that this GPU needs for the arithmetic at its peak, or for the bytes at its"
        f" memory bandwidth. These shapes lose {lost} of all time lost in this way.",
        [
            Field("name", "op", "name"),
            Field("shape", "shapes", "name"),
            Field("work_count", "calls", "count"),
            Field("gpu_time_ns", "GPU time", "time"),
            Field("bound", "limit", "name"),
            Field("efficiency_pct", "of the limit", "share"),
            Field("lost_ns", "lost", "time"),
        ],
        rows,
        chart="roofline",
    )
