"""The report's section on several ranks: which one keeps the others waiting, and what made it late."""

from __future__ import annotations

import polars as pl

from hotline_analysis.answers.generated import ranks, straggler_causes, stragglers
from hotline_analysis.reports.content import Field, Section
from hotline_analysis.reports.sections.tables import ROWS
from hotline_analysis.run.trace import Trace
from hotline_analysis.text.formats import duration, percent, safe

# One rank is worth naming if the others in its collectives wait for it at least this share of the steps.
_WAIT_PCT = 5.0
# And if they wait mostly for it: by chance, one of n ranks causes one n-th of the waiting, and a rank that alone is
# late all of it. The bound is half-way between.
_BLAME = 0.5


def straggler_section(trace: Trace) -> Section | None:
    """A table of the ranks; if one keeps the others waiting, its note names it, the cause and a remedy.

    No table without collectives that can be matched between ranks.
    """
    rows = stragglers(trace) if len(trace.ranks) > 1 else pl.DataFrame()
    if rows.is_empty():
        return None
    note = "".join(f"{sentence} " for sentence in _late(trace, rows) if sentence)
    if rows.height > ROWS:
        note += f"Shown: the {ROWS} of {rows.height:,} ranks that others wait for longest. "
        rows = rows.head(ROWS)
    return Section(
        "stragglers",
        "Who waits for whom in collectives",
        f"{note}Clocks are aligned by the ends of collectives. Waited: until the last rank arrived. Made others wait:"
        " their waiting time where this rank arrived last.",
        [
            Field("rank", "rank", "count"),
            Field("collective_count", "collectives", "count"),
            Field("last_count", "came last", "count"),
            Field("caused_wait_ns", "made others wait", "time"),
            Field("wait_ns", "waited", "time"),
            Field("transfer_ns", "transfer", "time"),
        ],
        rows,
    )


def late_rank(trace: Trace) -> str:
    """Which rank keeps the others waiting, in a sentence; empty if none does."""
    rows = stragglers(trace) if len(trace.ranks) > 1 else pl.DataFrame()
    return "" if rows.is_empty() else _late(trace, rows)[0]


def _late(trace: Trace, rows: pl.DataFrame) -> tuple[str, str]:
    """The rank that keeps the others waiting, and what makes it late, in sentences; empty if none does."""
    worst = rows.row(0, named=True)
    # Only those in its collectives can wait for it: of a job with process groups, the ranks of its groups.
    met, ranks_in_each, all_waits = trace.sql(
        "select count(distinct rank) - 1, count(*) / count(distinct match_id), sum(wait_ns)::bigint"
        " from collective_match where match_id in (select match_id from collective_match where rank = $rank)",
        rank=worst["rank"],
    ).row(0)
    by_chance = 1 / ranks_in_each
    least_blame = by_chance + _BLAME * (1 - by_chance)
    # The wait of each of them, against the time of its steps.
    mean_wait = worst["caused_wait_ns"] / max(1, met)
    pace = ranks(trace).row(by_predicate=pl.col("rank") == worst["rank"], named=True)
    time = pace["step_count"] * (pace["step_ns"] or 0)
    if not time or 100 * mean_wait < _WAIT_PCT * time or worst["caused_wait_ns"] < least_blame * all_waits:
        return "", ""
    text = (
        f"Rank {worst['rank']} is last to reach {worst['last_count']:,} of {worst['collective_count']:,} collectives;"
        f" {_others(met, rows.height - 1)} {duration(mean_wait)} for it ({percent(100 * mean_wait / time)} of its step"
        " time, with overlapping calls counted one by one)."
    )
    cause_text = ""
    causes = straggler_causes(trace, rank=worst["rank"]).filter(pl.col("excess_ns") > 0)
    if causes.height:
        cause = causes.row(0, named=True)
        where = cause["module_path"] or cause["region"]
        place = " in " + ", ".join(safe(part) for part in (cause["phase"], where) if part) if cause["phase"] else ""
        cause_text = (
            f"Most of its delay is {_ACTIVITY[cause['activity']]}{place} ({duration(cause['excess_ns'])} more)."
        )
        cause_text += f" {_REMEDY[cause['activity']]}"
    return text, cause_text


def _others(met: int, all_others: int) -> str:
    """Those that wait: so many ranks that a rank meets in collectives, of all others."""
    if met == all_others:
        return "each other rank waits"
    return "the rank that it meets there waits" if met == 1 else f"each of the {met:,} ranks that it meets there waits"


_ACTIVITY = {
    "host": "time on the CPU",
    "idle": "its GPU waiting for work",
    "computation": "computing",
    "communication": "other communication",
    "memory": "copies",
}
_REMEDY = {
    "host": "Look at what only this rank does there: data, logging, checkpoints, a busy host.",
    "idle": "Look at its host: data loading, logging, a busy CPU.",
    "computation": "Balance the work between ranks (sequence lengths, embedding tables, experts), or check its clocks.",
    "communication": "Look at the collectives before: they may be late or slow themselves.",
    "memory": "Look at its copies and its PCIe link.",
}
