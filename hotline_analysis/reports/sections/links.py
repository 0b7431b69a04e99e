"""The section on process groups with slower collectives than similar groups."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import polars as pl

from hotline_analysis.answers.generated import process_groups, ranks
from hotline_analysis.reports.content import Field, Section
from hotline_analysis.reports.sections.tables import ROWS
from hotline_analysis.run.trace import Trace
from hotline_analysis.text.formats import duration, percent, runs, safe

# Mention a slow group if the loss is at least this share of a step, as for a late rank.
_STEP_PCT = 5.0


def slow_link(trace: Trace) -> str:
    """Sentences on the slowest process group compared to similar groups; empty without a slow group."""
    rows = _slow(trace)
    if rows.is_empty():
        return ""
    worst = rows.row(0, named=True)
    bandwidth = ""
    if worst["bus_gb_per_s"] is not None:
        usual = worst["bus_gb_per_s"] * worst["slower"]
        bandwidth = f" ({worst['bus_gb_per_s']:,.1f} instead of {usual:,.1f} GB/s)"
    others = worst["alike_count"] - 1
    said = (
        f"{_group(worst)}: {worst['name']} takes {worst['slower']:,.1f} times as long as in the {others:,} groups"
        f" alike{bandwidth}; {duration(worst['excess_ns'])} of each step ({percent(worst['step_pct'])})."
    )
    # A group can be slow in several kinds of collectives, for example an FSDP group in two.
    more = rows["group_ranks"].n_unique() - 1
    if more:
        said += f" {more:,} more group{'s are' if more > 1 else ' is'} slow"
        shared = set.intersection(*map(set, rows["members"].to_list()))
        said += f"; all have rank {shared.pop()} in common." if len(shared) == 1 else "."
    return said + " Check the links of these ranks: network card, cable, switch, NVLink (nccl-tests measures them)."


def link_section(trace: Trace) -> Section | None:
    """A table of the slow process groups and of similar groups; None without a slow group."""
    slow = _slow(trace)
    if slow.is_empty():
        return None
    rows = _of_each_step(trace).head(ROWS)
    rows = rows.with_columns(ranks=pl.Series(map(_ranks, rows["members"].to_list()), dtype=pl.String))
    return Section(
        "links",
        "Process groups whose links are slow",
        f"{slow_link(trace)} Transfer: after the last rank has started. Usual: at the pace of the median group alike,"
        " one of as many ranks in the same distances. Both are of all steps.",
        [
            Field("ranks", "ranks", "name"),
            Field("name", "collective", "name"),
            Field("collective_count", "calls", "count"),
            Field("compared_ns", "transfer", "time"),
            Field("usual_ns", "usual", "time"),
        ],
        rows.select("ranks", "name", "collective_count", "compared_ns", "usual_ns"),
        query="process_groups",
    )


def _slow(trace: Trace) -> pl.DataFrame:
    """Slow groups costing at least `_STEP_PCT` of each step, worst first."""
    return _of_each_step(trace).filter(pl.col("is_slow") & (pl.col("step_pct") >= _STEP_PCT))


def _of_each_step(trace: Trace) -> pl.DataFrame:
    """The process groups with the excess time per step of the group's lowest rank, worst first."""
    if len(trace.ranks) < 2:
        return pl.DataFrame(schema={"is_slow": pl.Boolean, "step_pct": pl.Float64})
    pace = ranks(trace).select("rank", "step_count", "step_ns")
    each_step_ns = (pl.col("compared_ns") - pl.col("usual_ns")) / pl.col("step_count")
    rows = process_groups(trace)
    members = [json.loads(each) for each in rows["group_ranks"].to_list()]
    return (
        rows.with_columns(members=pl.Series(members, dtype=pl.List(pl.Int64)))
        .join(pace, on="rank", how="left", maintain_order="left")
        .with_columns(excess_ns=each_step_ns, step_pct=100 * each_step_ns / pl.col("step_ns"))
    )


def _group(row: dict[str, Any]) -> str:
    name = f"Process group {safe(row['group_name'])}" if row["group_name"] else "A process group"
    return f"{name} (ranks {_ranks(row['members'])})"


def _ranks(members: list[int]) -> str:
    """The ranks of a group: `0 to 7`, `3 to 59 in steps of 8`, or an enumeration."""
    apart = {after - before for before, after in pairwise(members)}
    if len(members) > 2 and len(apart) == 1 and (distance := apart.pop()) > 1:
        return f"{members[0]} to {members[-1]} in steps of {distance}"
    return runs(members, most=4)
