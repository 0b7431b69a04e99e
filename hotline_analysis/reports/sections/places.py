"""The section on the places in the code with most of the step's time."""

from __future__ import annotations

import polars as pl

from hotline_analysis.answers.limits import step_loop
from hotline_analysis.answers.places import slowest_places
from hotline_analysis.answers.recorded import has_gpu_work
from hotline_analysis.reports.content import Field, Section
from hotline_analysis.reports.sections.tables import ROWS
from hotline_analysis.run.trace import Trace
from hotline_analysis.text.formats import module_name, percent
from hotline_analysis.text.source_lines import Lines

_NAMES = {
    "region": "region",
    "frame": "function",
    "module": "module",
    "sampled": "likely",
    "phase": "phase",
    "rest": "without a name",
}


def places_section(trace: Trace, rank: int, lines: Lines | None) -> Section | None:
    """The places with the largest shares of the step, and a row for the remaining time; None without a step."""
    rows = slowest_places(trace, rank=rank)
    if rows.is_empty():
        return None
    shown = rows.head(ROWS)
    names = [
        module_name(place) if kind == "module" else place for place, kind in shown.select("place", "kind").iter_rows()
    ]
    functions = [place if kind == "frame" else None for place, kind in shown.select("place", "kind").iter_rows()]
    code = [
        lines.at(source, function) if lines else "" for source, function in zip(shown["source"], functions, strict=True)
    ]
    shown = shown.with_columns(
        name=pl.Series(names, dtype=pl.String),
        named_by=pl.col("kind").replace(_NAMES),
        line=pl.Series(code, dtype=pl.String),
    )
    fields = [
        Field("name", "place", "name"),
        Field("named_by", "kind", "name"),
        Field("source", "code", "place"),
        Field("path_ns", "of the step", "time"),
        Field("path_pct", "share", "share"),
        Field("phase", "phase", "name"),
    ]
    if (shown["module_count"] > 1).any():
        fields.insert(2, Field("module_count", "modules", "count"))
    if shown["source"].null_count() == shown.height:
        fields = [field for field in fields if field.column != "source"]
    note = (
        "Share: of the step on average, by what it waits for; all places add up to 100 %. GPU work counts to the place"
        " of its launching call."
    )
    loop = step_loop(trace, rank)
    if loop and loop.whole is None and not has_gpu_work(trace, rank=rank):
        note += " The typical step of each kind stands for its kind; the optimizer's answer counts all steps."
    if rows.height > ROWS:
        rest = percent(float(rows["path_pct"].slice(ROWS).sum()))
        note = f"Shown: the {ROWS} slowest of {rows.height:,} places; the others have {rest} of the step. {note}"
    return Section(
        "places",
        "Slowest places",
        note,
        [*fields, Field("line", "line", "name")] if any(code) else fields,
        shown,
        query="slowest_places",
    )
