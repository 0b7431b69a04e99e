"""Sections on GPU time: GPU activity, causes of idle time, and the CPU's activity during idle time."""

from __future__ import annotations

import polars as pl

from hotline_analysis.answers.finding import Finding
from hotline_analysis.answers.generated import temporal_breakdown
from hotline_analysis.answers.verdicts import VERDICTS
from hotline_analysis.reports.content import Field, Section
from hotline_analysis.run.trace import Trace
from hotline_analysis.text.formats import duration, safe, shares
from hotline_analysis.vocabulary import idle_title

_BUSY = {
    "computation_ns": "computes",
    "communication_alone_ns": "communicates and does not compute",
    "memory_only_ns": "only copies",
}


def gpus_section(balance: Finding) -> Section:
    """Compare the GPUs of a process: busy time, work while the other GPUs are idle, and the limit of each GPU."""
    rows = balance.evidence
    what_to_do = f"{balance.advice} " if balance.advice else ""
    kinds = ("communication_ns", "communicates"), ("copying_ns", "copies")
    words = {limit: verdict.noun for limit, verdict in VERDICTS.items()}
    return Section(
        "devices",
        "The GPUs of this process",
        f"{what_to_do}Alone: while no other GPU of the process works. Mostly: the largest part of the GPU's time, busy"
        " or idle. Communicates, copies: without computing.",
        [
            Field("device", "GPU", "count"),
            Field("gpu_busy_ns", "busy", "time"),
            Field("gpu_busy_pct", "share", "share"),
            Field("alone_ns", "alone", "time"),
            Field("computing_ns", "computes", "time"),
            *[Field(name, title, "time") for name, title in kinds if (rows[name] > 0).any()],
            Field("gpu_idle_ns", "idle", "time"),
            Field("bound_by", "mostly", "name"),
            Field("bound_ns", "for", "time"),
        ],
        rows.with_columns(
            bound_by=pl.when(pl.col("bound_by").is_in(["computing", "communication", "copying"]))
            .then(pl.col("bound_by").replace(words))
            .otherwise(pl.format("idle: {}", pl.col("bound_by").replace(words)))
        ),
        query="devices",
    )


def device_section(trace: Trace, rank: int) -> Section | None:
    """The observed time of a rank's devices by activity or cause of idle time. Shares add up to 100 %."""
    time = temporal_breakdown(trace, rank=rank)
    busy = time.select(
        pl.col("computation_ns").sum(),
        (pl.col("communication_only_ns") + pl.col("communication_memory_ns")).sum().alias("communication_alone_ns"),
        pl.col("memory_only_ns").sum(),
    ).row(0, named=True)
    rows: list[tuple[str, int, str | None, str]] = [
        (words, busy[name], None, "") for name, words in _BUSY.items() if busy[name]
    ]
    phase = trace.of(rank).sql(
        "select cause, phase, sum(end_ns - start_ns)::bigint as idle_ns from idle_part where rank = $rank"
        " group by all order by idle_ns desc, phase",
        rank=rank,
    )
    events = trace.query("idle_events", rank=rank, limit=1)
    held = {row["cause"]: row for row in events.iter_rows(named=True)}
    sampled = {row["cause"]: row for row in trace.query("idle_samples", rank=rank, limit=1).iter_rows(named=True)}
    for cause, parts in phase.group_by("cause", maintain_order=True):
        most = held.get(str(cause[0]))
        sample = sampled.get(str(cause[0]))
        mostly = _held(most) if most else ""
        if sample and (cause[0] == "python" or not most):
            mostly = _sampled(sample)
        rows.append((idle_title(str(cause[0])), int(parts["idle_ns"].sum()), parts["phase"][0], mostly))
    total = sum(row[1] for row in rows)
    if not total:
        return None
    frame = pl.DataFrame(
        rows, {"what": pl.String, "time_ns": pl.Int64, "phase": pl.String, "mostly": pl.String}, orient="row"
    ).sort("time_ns", "what", descending=[True, False])
    frame = frame.with_columns(time_pct=pl.Series(shares(frame["time_ns"].to_list()), dtype=pl.Float64))
    has_phase = frame["phase"].null_count() < frame.height
    has_events = bool((frame["mostly"] != "").any())
    note = "From the first step or GPU work to the last."
    if has_phase:
        note += " Phase: where the CPU is for most of this time."
    if has_events:
        note += " Mostly: the CPU event with most self time meanwhile, as count × mean; `idle_events` lists more."
        if sampled:
            note += " For python: the function with most samples; `idle_samples` lists more."
    return Section(
        "device",
        "What the GPU does, and why it is idle",
        note,
        [
            Field("what", "the GPU", "name"),
            Field("time_ns", "time", "time"),
            Field("time_pct", "share", "share"),
            *([Field("phase", "phase", "name")] if has_phase else []),
            *([Field("mostly", "mostly", "name")] if has_events else []),
        ],
        frame.with_columns(mostly=pl.when(pl.col("mostly") != "").then("mostly")),
    )


def _sampled(row: dict[str, object]) -> str:
    source = f" ({safe(str(row['source']))})" if row["source"] else ""
    return f"{safe(str(row['function']))}{source}: {row['sample_pct']:.0f} % of {row['all_count']:,} samples"


def _held(row: dict[str, object]) -> str:
    count, total = int(row["count"]), int(row["idle_ns"])  # type: ignore[call-overload]
    return f"{safe(str(row['short_name']))}: {count:,} × {duration(total // count)}"
