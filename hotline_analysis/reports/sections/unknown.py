"""Sections on tracks of unknown kind: the tracks, and their events by name."""

from __future__ import annotations

import polars as pl

from hotline_analysis.answers import generated as answers
from hotline_analysis.answers.recorded import unknown_tracks
from hotline_analysis.reports.content import Field, Section
from hotline_analysis.run.trace import Trace

_ROWS = 10


def tracks_section(trace: Trace, rank: int) -> Section | None:
    """The tracks of unknown kind, longest time first; None without such tracks."""
    rows = unknown_tracks(trace, rank)
    if rows.is_empty():
        return None
    note = "The kind of their events is not known. Busy: at least one event runs. Sum: of all durations."
    if rows.height > _ROWS:
        note += f" The first {_ROWS} of {rows.height:,}."
    return Section(
        "unknown_tracks",
        "Tracks that are not understood",
        note,
        [
            Field("track", "track", "name"),
            *([Field("category", "category", "name")] if rows["category"].null_count() < rows.height else []),
            Field("event_count", "events", "count"),
            Field("busy_ns", "busy", "time"),
            Field("time_ns", "sum", "time"),
            Field("name", "longest event", "name"),
        ],
        rows.head(_ROWS),
    )


def spans_section(trace: Trace, rank: int) -> Section | None:
    """The events of unknown tracks by name, longest time first; None without such tracks."""
    if unknown_tracks(trace, rank).is_empty():
        return None
    rows = answers.unknown_spans(trace, _ROWS, rank=rank)
    return Section(
        "unknown_spans",
        "Events of tracks that are not understood",
        "By category and name. They may lie inside one another, so their times need not add up.",
        [
            Field("name", "event", "name"),
            *([Field("category", "category", "name")] if rows["category"].null_count() < rows.height else []),
            Field("count", "events", "count"),
            Field("time_ns", "sum", "time"),
            Field("mean_ns", "mean", "time"),
            Field("max_ns", "max", "time"),
        ],
        rows.with_columns(pl.col("name").fill_null("")),
    )
