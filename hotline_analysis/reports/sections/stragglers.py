"""The sections on several ranks: the rank delaying the other ranks, the cause, and pipeline bubbles."""

from __future__ import annotations

import polars as pl

from hotline_analysis.answers.generated import stragglers
from hotline_analysis.answers.waiting import find_late_rank
from hotline_analysis.reports.content import Field, Section
from hotline_analysis.reports.sections.tables import ROWS
from hotline_analysis.run.trace import Trace
from hotline_analysis.text.formats import duration, listed, percent

_TOLD = 7  # maximum number of ranks on a line


def straggler_section(trace: Trace) -> Section | None:
    """A table of the ranks. If a rank delays the other ranks, the note names the rank, the cause and a remedy.

    None if no collectives can be matched between ranks.
    """
    rows = stragglers(trace) if len(trace.ranks) > 1 else pl.DataFrame()
    if rows.is_empty():
        return None
    late = find_late_rank(trace)
    note = "".join(f"{sentence} " for sentence in (late.text, late.cause, late.remedy) if sentence) if late else ""
    note += _begun(rows)
    if rows.height > ROWS:
        note += f"Shown: the {ROWS} of {rows.height:,} ranks that others wait for longest. "
        rows = rows.head(ROWS)
    return Section(
        "stragglers",
        "Who waits for whom in collectives",
        f"{note}Clocks are aligned by the ends of collectives. Waited: until the last rank arrived, also where other"
        " work hides it. Made others wait: their waiting time where this rank arrived last.",
        [
            Field("rank", "rank", "count"),
            Field("collective_count", "collectives", "count"),
            Field("last_count", "came last", "count"),
            Field("caused_wait_ns", "made others wait", "time"),
            Field("wait_ns", "waited", "time"),
            *([Field("start_wait_ns", "waited for the start", "time")] if (rows["start_wait_ns"] > 0).any() else []),
            Field("transfer_ns", "transfer", "time"),
        ],
        rows,
    )


def pipeline_section(trace: Trace, rank: int) -> Section | None:
    """The time each step waits for other pipeline stages, next to the theoretical minimum; None without a pipeline."""
    asked = "select exists (select 1 from collective_call where rank = $rank and name in ('send', 'recv', 'sendrecv'))"
    if not trace.of(rank).sql(asked, rank=rank).item():
        return None
    rows = trace.query("pipeline_bubbles", rank=rank)
    if rows.is_empty():
        return None
    mean = rows["bubble_pct"].mean()
    least = rows["ideal_pct"].mean()
    said = f"Waiting for other stages takes {percent(mean)} of a step. " if isinstance(mean, float) else ""
    if isinstance(least, float):
        said += f"With so many stages and micro-batches, a schedule leaves {percent(least)} at least. "
    return Section(
        "pipeline",
        "How long a stage waits for other stages",
        f"{said}Bubble: time in sends and receives beside which nothing computes. Least: (p - 1) / (m + p - 1) of a"
        " step with p stages and m micro-batches. Micro-batches: calls with one stage in one direction.",
        [
            Field("step", "step", "count"),
            Field("stage", "stage", "count"),
            Field("stage_count", "of", "count"),
            Field("micro_batch_count", "micro-batches", "count"),
            Field("bubble_ns", "bubble", "time"),
            Field("bubble_pct", "share", "share"),
            Field("ideal_pct", "least", "share"),
        ],
        rows.head(ROWS),
    )


def _begun(rows: pl.DataFrame) -> str:
    """A sentence on how much later than the first rank the other ranks began to record; of many ranks, only the last.

    Empty if no rank waited for a rank that began to record later.
    """
    if not (rows["start_wait_ns"] > 0).any():
        return ""
    in_order = rows.sort("began_ns", "rank").select("rank", "began_ns").rows()
    (first, _), *later = in_order
    told = later if len(later) <= _TOLD else later[-1:]
    others = listed([f"rank {rank} {duration(began)} later" for rank, began in told])
    waited = duration(int(rows["start_wait_ns"].max() or 0))  # type: ignore[arg-type]
    all_of = "" if told == later else f", the last of {len(in_order):,}"
    return f"Rank {first} began to record first, {others}{all_of}; waiting for that ({waited}) is nobody's delay. "


def late_rank(trace: Trace) -> str:
    """A sentence on the rank delaying the other ranks; empty without a late rank."""
    late = find_late_rank(trace)
    return late.text if late else ""
