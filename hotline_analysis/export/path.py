"""The critical path as tracks of a trace file: the bound and the place at each moment."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from hotline_analysis.answers.path import critical_path
from hotline_analysis.export.lines import PATH_PID, PATH_TID, json_text, lines, microseconds, text
from hotline_analysis.run.trace import Trace

_HOST = ("host", "handoff", "return")


def path_tracks(trace: Trace, rank: int, window: tuple[int, int] | None = None) -> Iterator[pl.Series]:
    """The critical path of all steps, or of a window of the CPU, as lines of JSON.

    The first track has slices by bound (`cpu`, `gpu_compute`, …). The second track has the modules or phases of CPU
    parts, and the work of GPU parts. Equal neighbours are merged into one slice. The events themselves are on separate
    tracks.
    """
    first, last = window or (None, None)
    path = critical_path(trace, rank=rank, start_ns=first, end_ns=last).filter(pl.col("weight_ns") > 0)
    if path.is_empty():
        return
    location = pl.coalesce("module_path", "phase", pl.lit("outside steps"))
    label = pl.when(pl.col("kind").is_in(_HOST)).then(location).otherwise(pl.coalesce("name", "kind"))
    path = path.with_columns(what=label, part=pl.when(~pl.col("kind").is_in(_HOST)).then("to_id"))
    yield from _header()
    for number, (name, *columns) in enumerate((("bound_by",), ("what", "kind", "track_id", "part"))):
        run = path.select(pl.struct(name, *columns).rle_id()).to_series()
        slices = path.group_by(run.alias("run"), maintain_order=True).agg(
            pl.col("start_ns").first(),
            pl.col("weight_ns").sum(),
            pl.col(name).first().alias("slice"),
            pl.col("kind", "bound_by", "event_id", "step").first(),
        )
        args = ("bound_by", "step") if number == 0 else ("kind", "bound_by", "event_id", "step")
        yield from lines(
            slices,
            text(f'{{"ph":"X","cat":"hotline","pid":{PATH_PID},"tid":{PATH_TID + number},"ts":'),
            microseconds("start_ns"),
            text(',"dur":'),
            microseconds("weight_ns"),
            text(',"name":'),
            json_text("slice"),
            text(',"args":'),
            pl.struct(args).struct.json_encode(),
            text("}"),
        )


def _header() -> Iterator[pl.Series]:
    begin = f'{{"ph":"M","cat":"hotline","ts":0,"pid":{PATH_PID},'
    yield pl.Series(
        [
            f'{begin}"name":"process_name","args":{{"name":"hotline: critical path"}}}}',
            f'{begin}"name":"process_sort_index","args":{{"sort_index":-1000100}}}}',
            f'{begin}"tid":{PATH_TID},"name":"thread_name","args":{{"name":"bound by"}}}}',
            f'{begin}"tid":{PATH_TID + 1},"name":"thread_name","args":{{"name":"module, phase or GPU work"}}}}',
        ]
    )
