"""The kinds of steps of two runs: count, mean duration, and the effect on the mean step."""

from __future__ import annotations

from typing import Any

import polars as pl

from hotline_analysis.answers import generated as answers
from hotline_analysis.answers.comparison import Chosen
from hotline_analysis.answers.limits import LEAST_PCT
from hotline_analysis.reports.content import Field, Section
from hotline_analysis.text.formats import delta, safe

_VERBS = {"waits for data": "wait for data", "shorter": "are shorter", "more GPU work": "have more GPU work"}


def changed_kinds(a: Chosen, b: Chosen) -> tuple[Section | None, list[str]]:
    """A table of the kinds of steps of both sides, and a sentence on each considerable change.

    The largest effect on the mean step comes first.

    There is no table and no sentence if a side is a single step or has no kinds, or if neither side has two kinds.
    """
    if a.step is not None or b.step is not None:
        return None, []
    left, right = _kinds(a), _kinds(b)
    if max(left.height, right.height) < 2 or min(left.height, right.height) < 1:
        return None, []
    counts = int(left["step_count"].sum()), int(right["step_count"].sum())
    met = left.join(right, on="name", how="full", coalesce=True, suffix="_b").fill_null(0)
    met = met.with_columns(
        # per mean step: time of all steps of the kind over the number of all counted steps
        delta_ns=(pl.col("total_ns_b") / counts[1] - pl.col("total_ns") / counts[0]).round().cast(pl.Int64),
        effect_ns=pl.col("longer_ns_b") * pl.col("step_count_b") / counts[1]
        - pl.col("longer_ns") * pl.col("step_count") / counts[0],
    ).sort(pl.col("effect_ns").abs(), "name", descending=[True, False])
    mean = int(left["total_ns"].sum()) / counts[0]
    said = [_sentence(row, counts) for row in met.to_dicts() if _is_change(row, counts, mean)]
    rows = met.with_columns(pl.col("name").map_elements(safe, return_dtype=pl.String))
    for side, count in (("", counts[0]), ("_b", counts[1])):
        steps = pl.format("{} of {}", f"step_count{side}", pl.lit(count))
        rows = rows.with_columns(
            steps.alias(f"steps{side}"),
            pl.when(pl.col(f"step_count{side}") > 0).then(f"mean_ns{side}").alias(f"mean_ns{side}"),
        )
    section = Section(
        "step_kinds",
        "Kinds of steps",
        "The change is that of a mean step: the time of all steps of the kind over the number of all counted steps.",
        [
            Field("name", "kind", "name"),
            Field("steps", "steps of A", "name"),
            Field("mean_ns", "mean", "time"),
            Field("steps_b", "steps of B", "name"),
            Field("mean_ns_b", "mean", "time"),
            Field("delta_ns", "change", "delta"),
        ],
        rows.select("name", "steps", "mean_ns", "steps_b", "mean_ns_b", "delta_ns"),
    )
    return section, said


def _kinds(chosen: Chosen) -> pl.DataFrame:
    """The kinds of one rank; kinds of the same name are combined."""
    rank = min(chosen.trace.ranks) if chosen.rank is None else chosen.rank
    kinds = answers.step_kinds(chosen.trace, rank=rank)
    longer = (pl.col("longer_ns") * pl.col("step_count")).sum() // pl.col("step_count").sum()
    return kinds.group_by("name", maintain_order=True).agg(
        pl.col("step_count").sum(),
        pl.col("total_ns").sum(),
        mean_ns=pl.col("total_ns").sum() // pl.col("step_count").sum(),
        longer_ns=longer,
    )


def _is_change(row: dict[str, Any], counts: tuple[int, int], mean_ns: float) -> bool:
    """Whether a kind changes the mean step by at least `LEAST_PCT`.

    Counts differing by a single step do not qualify, because the recordings may begin at different steps.
    """
    if row["name"] == "usual" or abs(row["effect_ns"]) < LEAST_PCT / 100 * mean_ns:
        return False
    one_side = not (row["step_count"] and row["step_count_b"])
    rates = row["step_count"] / counts[0], row["step_count_b"] / counts[1]
    longer = row["longer_ns"], row["longer_ns_b"]
    is_longer = abs(longer[1] - longer[0]) > LEAST_PCT / 100 * mean_ns
    return one_side or abs(rates[1] - rates[0]) * min(counts) > 1 or is_longer


def _sentence(row: dict[str, Any], counts: tuple[int, int]) -> str:
    """The number of steps of a kind on both sides, and the extra time over usual steps."""
    verb = _verb(row["name"])
    many = f"{row['step_count_b']:,}" if row["step_count_b"] else "None"
    b = f"{many} of {counts[1]:,} steps of B {verb}{_longer(row['longer_ns_b'])}"
    a = (
        f"{row['step_count']:,} of {counts[0]:,} of A do{_longer(row['longer_ns'])}"
        if row["step_count"]
        else "none of A do"
    )
    return f"{b}; {a}."


def _longer(longer_ns: int) -> str:
    return f", {delta(longer_ns)} each" if longer_ns else ""


def _verb(name: str) -> str:
    """The name of a kind as a verb: steps with the optimizer `have optimizer`."""
    if name in _VERBS:
        return _VERBS[name]
    if name.startswith("with "):
        return f"have {safe(name.removeprefix('with '))}"
    return f"take longer{' in' if name != 'longer' else ''}{safe(name.removeprefix('longer'))}"
