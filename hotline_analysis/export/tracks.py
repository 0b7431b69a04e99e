"""The annotation as tracks of a trace file: steps, phases and modules on the CPU threads and on the GPU streams.

Perfetto requires unique thread numbers in the trace, and nested slices on each thread.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from hotline_analysis.export.lines import CPU_PID, FIRST_TID, gpu_pid, json_text, lines, microseconds, text
from hotline_analysis.run.trace import Trace
from hotline_analysis.text.formats import module_name


class Part:
    """A part of a trace: its events with a duration (event_id, track_id, start_ns, end_ns, role)."""

    def __init__(self, events: pl.DataFrame) -> None:
        on_cpu = events.filter(pl.col("role") == "inside")
        self.tracks = on_cpu["track_id"].unique().implode()
        self.cpu = _window(on_cpu)
        self.gpu = _window(events.filter(pl.col("role") == "launched"))
        self.ids = events["event_id"].implode()


def _window(events: pl.DataFrame) -> tuple[int, int]:
    if events.is_empty():
        return 0, 0
    first, last = events.select(pl.col("start_ns").min(), pl.col("end_ns").max()).row(0)
    return int(first), int(last)


def annotation(trace: Trace, rank: int, part: Part | None = None) -> Iterator[pl.Series]:
    """Steps, phases and modules of the CPU threads and GPU streams, as lines of JSON."""
    slices = pl.concat([_cpu_slices(trace, rank, part), _gpu_slices(trace, rank, part)], how="diagonal")
    key = ["pid", "track_id", "track"]
    tracks = slices.select("process", *key).unique(maintain_order=True).with_row_index("number")
    tracks = tracks.with_columns(tid=pl.col("number").cast(pl.Int64) + FIRST_TID)
    yield from _names(tracks)
    rows = slices.join(tracks.select(*key, "tid"), on=key, nulls_equal=True, maintain_order="left")
    rows = _shown(rows)
    yield from lines(
        rows,
        text('{"ph":"X","cat":"hotline","pid":'),
        pl.col("pid").cast(pl.String),
        text(',"tid":'),
        pl.col("tid").cast(pl.String),
        text(',"ts":'),
        microseconds("start_ns"),
        text(',"dur":'),
        microseconds("dur_ns"),
        text(',"name":'),
        json_text("name"),
        text(',"args":'),
        pl.struct("kind", "path", "type", "pass", "evidence").struct.json_encode(),
        text("}"),
    )


def _shown(slices: pl.DataFrame) -> pl.DataFrame:
    """The slices with display names, because the number of a module in a `Sequential` means nothing by itself."""
    modules = slices.filter(kind="module").select("name", "type").unique()
    names = [module_name(name, kind) for name, kind in modules.iter_rows()]
    named_modules = modules.with_columns(shown=pl.Series(names, dtype=pl.String), kind=pl.lit("module"))
    on = ["kind", "name", "type"]
    return slices.join(named_modules, on=on, how="left", nulls_equal=True, maintain_order="left").with_columns(
        name=pl.coalesce("shown", "name")
    )


def _cpu_slices(trace: Trace, rank: int, part: Part | None) -> pl.DataFrame:
    threads = trace.sql("select track_id, tid, thread_name from track where rank = $rank", rank=rank)
    spans = trace.query("annotation_track", rank=rank)
    if part is not None:
        first, last = part.cpu
        spans = spans.filter((pl.col("kind") == "step") | pl.col("track_id").is_in(part.tracks)).with_columns(
            pl.col("start_ns").clip(lower_bound=first), pl.col("end_ns").clip(upper_bound=last)
        )
    spans = spans.filter(pl.col("end_ns") > pl.col("start_ns"))
    thread = pl.coalesce(pl.col("thread_name").str.strip_chars(), pl.format("thread {}", "tid"))
    plural = {"step": "steps", "phase": "phases", "module": "modules"}
    return spans.join(threads, on="track_id", how="left", maintain_order="left").select(
        pid=pl.lit(CPU_PID),
        process=pl.lit("hotline: CPU"),
        track=pl.when(pl.col("kind") == "step")
        .then(pl.lit("steps"))
        .otherwise(
            pl.concat_str(
                pl.col("kind").replace_strict(plural, return_dtype=pl.String), pl.lit(", "), thread, ignore_nulls=True
            )
        ),
        track_id=pl.when(pl.col("kind") != "step").then("track_id"),
        kind="kind",
        name="name",
        path="path",
        type="type",
        **{"pass": pl.col("pass")},
        evidence="evidence",
        start_ns="start_ns",
        dur_ns=pl.col("end_ns") - pl.col("start_ns"),
    )


def _gpu_slices(trace: Trace, rank: int, part: Part | None) -> pl.DataFrame:
    """Merge neighbours on a stream with the same step, phase and module, level by level, so that slices nest."""
    work = trace.query("gpu_annotation", rank=rank)
    if part is not None:
        work = work.filter(pl.col("event_id").is_in(part.ids))
    stream = ["device", "stream"]
    work = work.with_columns(
        place=pl.int_range(pl.len()).over(stream),
        next_ns=pl.col("start_ns").shift(-1).over(stream),
    )
    in_step = work.filter(pl.col("step").is_not_null())
    modules = in_step.join(trace.sql(_ANCESTORS, rank=rank), on="module_id").with_columns(kind=pl.lit("module"))
    steps = in_step.with_columns(
        kind=pl.lit("step"), level=pl.lit(-2, pl.Int64), name=pl.format("step {}", "step"), phase=None
    )
    phases = in_step.with_columns(kind=pl.lit("phase"), level=pl.lit(-1, pl.Int64), name=pl.col("phase"))
    empty = {
        **{column: pl.lit(None, pl.String) for column in ("path", "type", "pass")},
        "ancestor_id": pl.lit(None, pl.Int64),
    }
    columns = [*stream, "level", "place", "start_ns", "end_ns", "next_ns", "step", "phase", "kind", "name", *empty]
    rows = pl.concat(
        [
            steps.with_columns(**empty).with_columns(pl.col("phase").cast(pl.String)).select(columns),
            phases.with_columns(**empty).select(columns),
            modules.select(columns),
        ]
    ).sort(*stream, "level", "place")
    keys = [*stream, "level", "step", "phase", "pass", "ancestor_id"]
    rows = rows.with_columns(gap=pl.col("place") - pl.int_range(pl.len()).over(*stream, "level"))
    slices = rows.group_by(pl.struct(*keys, "gap").rle_id().alias("slice"), maintain_order=True).agg(
        pl.col(*stream, "kind", "name", "path", "type", "pass", "start_ns").first(),
        pl.min_horizontal(pl.col("end_ns").max(), pl.col("next_ns").last()).alias("end_ns"),
    )
    return slices.filter(pl.col("end_ns") > pl.col("start_ns")).select(
        "kind",
        "name",
        "path",
        "type",
        "pass",
        "start_ns",
        track_id=pl.lit(None, pl.Int64),
        pid=gpu_pid(),
        process=pl.format("hotline: GPU {}", pl.col("device").clip(0)),
        track=pl.format("stream {}: steps, phases, modules", "stream"),
        dur_ns=pl.col("end_ns") - pl.col("start_ns"),
    )


# Every module with each enclosing module, including itself, and the depth of the enclosing module.
_ANCESTORS = """
select above.module_id, above.ancestor_id, above.depth as level, model_op.name, model_op.path, model_op.type
from module_ancestor as above
inner join model_op on above.rank = model_op.rank and above.ancestor_id = model_op.module_id
where above.rank = $rank
order by all
"""


def _names(tracks: pl.DataFrame) -> Iterator[pl.Series]:
    """Names of our processes and threads, and their position in viewers: before all others, in our order."""
    processes = tracks.select("pid", "process").unique(maintain_order=True).with_row_index("number")
    process = (text('","pid":'), pl.col("pid").cast(pl.String))
    thread = (*process, text(',"tid":'), pl.col("tid").cast(pl.String))
    number = (pl.col("number").cast(pl.Int64) - 1_000_000).cast(pl.String)
    for frame, kind, ids, name in ((processes, "process", process, "process"), (tracks, "thread", thread, "track")):
        begin = '{"ph":"M","cat":"hotline","ts":0,"name":"' + kind
        yield from lines(frame, text(f"{begin}_name"), *ids, text(',"args":{"name":'), json_text(name), text("}}"))
        yield from lines(frame, text(f"{begin}_sort_index"), *ids, text(',"args":{"sort_index":'), number, text("}}"))
