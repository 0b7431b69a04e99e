"""Export a run as an annotated JSON trace file for Perfetto and chrome://tracing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import polars as pl
from isal import isal_zlib

from hotline_analysis.atomic import check_file, path_of, replace_file
from hotline_analysis.errors import QueryParameterError
from hotline_analysis.export.counters import counters
from hotline_analysis.export.lines import finite, finite_text, printable
from hotline_analysis.export.path import path_tracks
from hotline_analysis.export.tracks import Part, annotation
from hotline_analysis.run.scope import check_scope
from hotline_analysis.run.trace import Trace
from hotline_analysis.text.formats import runs

_CHUNK = 50_000  # events per batch, so memory does not grow with the trace


def export_perfetto(
    trace: Trace,
    path: str | Path,
    *,
    rank: int | None = None,
    span: int | None = None,
    annotate: bool = True,
    overwrite: bool = False,
) -> Path:
    """Write a rank as a trace file for ui.perfetto.dev or chrome://tracing; compressed if its name ends in `.gz`.

    The file contains every event of the original with all args, in the same order, so importing it gives the same
    events with the same ids. Numbers that JSON cannot represent (NaN, infinity) become null. With `annotate`, tracks of
    category `hotline` are appended: steps, phases and modules on the CPU threads and GPU streams, and counters of queue
    length, bandwidth and memory. A further track is the critical path (of all steps together, or of the span).

    `span` is the `event_id` of an event and restricts the file to this event. The file then has the events inside it on
    its thread and in backward, the GPU work launched from there, and the arrows between these events. For the mark of a
    step, it has everything that belongs to the step. The file is written atomically.

    Raises `ExportExistsError` if the file exists and `overwrite` is false. Raises `QueryParameterError` for an unknown
    rank or event, or without `rank` if the run has several ranks.
    """
    target = path_of(path)
    chosen_rank = _chosen_rank(trace, rank)
    check_file(target, overwrite=overwrite)
    span_events = None if span is None else _events_of(trace, chosen_rank, span)

    def write(file: Path) -> None:
        compressor = isal_zlib.compressobj(level=1, wbits=31) if target.suffix.lower() == ".gz" else None
        with file.open("wb") as stream:
            for text in _texts(trace, chosen_rank, span_events, annotate):
                data = text.encode()
                stream.write(compressor.compress(data) if compressor else data)
            if compressor:
                stream.write(compressor.flush())

    return replace_file(target, write)


def _chosen_rank(trace: Trace, rank: int | None) -> int:
    if rank is None and len(trace.ranks) > 1:
        raise QueryParameterError(
            "a file can have only one rank, but the run has several",
            hint=f"Choose a rank (--rank): {runs(trace.ranks)}.",
        )
    check_scope(trace, {"rank": rank})
    return trace.ranks[0] if rank is None else rank


def _events_of(trace: Trace, rank: int, span: int) -> pl.DataFrame:
    events = trace.query("span_event", rank=rank, span=span)
    if events.is_empty():
        raise QueryParameterError(
            f"the trace has no event {span} to export",
            hint="Give the event_id of an event with a duration, as in annotated_event.",
        )
    return events


def _texts(trace: Trace, rank: int, kept: pl.DataFrame | None, annotate: bool) -> Iterator[str]:
    """The file in parts. Our tracks come after the events, so the events keep their positions."""
    metadata = trace.sql("select metadata from rank_info where rank = $rank", rank=rank).item()
    top = json.loads(metadata) if metadata else {}
    yield "{" + "".join(f"{json.dumps(key)}: {finite_text(json.dumps(value))},\n" for key, value in top.items())
    separator = '"traceEvents": [\n'
    tracks = _added(trace, rank, kept) if annotate else iter(())
    for lines in chain(_events(trace, rank, kept), tracks):
        if text := printable(lines).str.join(",\n").item():
            yield separator + text
            separator = ",\n"
    yield ("" if separator == ",\n" else separator) + "\n]}\n"


def _events(trace: Trace, rank: int, kept: pl.DataFrame | None) -> Iterator[pl.Series]:
    last = trace.sql("select max(event_id) from event where rank = $rank", rank=rank).item()
    for first in range(0, (last if last is not None else -1) + 1, _CHUNK):
        ids = None
        if kept is not None:
            ids = kept.filter(pl.col("event_id").is_between(first, first + _CHUNK - 1))["event_id"]
            if ids.is_empty():
                continue
        scope = (first, first + _CHUNK - 1) if ids is None else (ids.min(), ids.max())
        frame = trace.query("perfetto_event", rank=rank, first_id=scope[0], last_id=scope[1])
        yield finite((frame if ids is None else frame.filter(pl.col("event_id").is_in(ids.implode())))["json"])


def _added(trace: Trace, rank: int, kept: pl.DataFrame | None) -> Iterator[pl.Series]:
    part = None
    if kept is not None:
        times = trace.sql(
            "select event_id, track_id, start_ns, end_ns from event where rank = $rank and dur_ns is not null"
            " and event_id between $first and $last",
            rank=rank,
            first=kept["event_id"].min(),
            last=kept["event_id"].max(),
        )
        part = Part(times.join(kept, on="event_id"))
    yield from annotation(trace, rank, part)
    yield from counters(trace, rank, part)
    yield from path_tracks(trace, rank, None if part is None else part.cpu)
