"""The critical path of a step in pieces, each with its place in the code: a region, a function, a module or a phase.

Every moment of the path has exactly one place, so the pieces add up to the step. GPU work counts to the place of the
launching call. The place is the innermost of the following, the one that began last before the moment:

1. the innermost region of the user (`record_function`, `hotline_analysis.annotate`, NVTX, Lightning, Accelerate);
2. the innermost function of the user's code, if the trace has stacks;
3. the module, forward or backward.

A region or function that contains several phases is the training loop, or a part of it. Inside it, time of the
optimizer, backward, zero_grad or the data loader keeps the name of the phase if an event of the trace shows the phase.
If a moment has no region, function or module, samples of warm-up steps may name it (`sampled_frame`); the piece is then
marked as sampled. Otherwise the phase names it, and outside all phases the neighbours do: "between Optimizer.step and
the next forward". If Nsight Systems recorded a call of the operating system there, its name follows: "…, in fsync".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import polars as pl

from hotline_analysis.answers.limits import LIMIT, StepLoop, step_loop
from hotline_analysis.answers.place_samples import with_samples
from hotline_analysis.run.trace import Trace

_OF_A_LIBRARY = ("load_data", "backward", "zero_grad", "clipping", "optimizer")
"""Phases that run library code: the phase says more than the user's function around it."""
_OF_MODULES = ("forward", "loss", "backward")
"""Phases whose time usually belongs to modules."""
_PHASE_WORDS: Mapping[str, str] = MappingProxyType(
    {
        "load_data": "loading data",
        "forward": "forward",
        "loss": "the loss",
        "zero_grad": "zero_grad",
        "backward": "backward",
        "clipping": "clipping of gradients",
        "optimizer": "the optimizer",
    }
)
_BETWEEN: Mapping[str, str] = MappingProxyType(
    {"load_data": "the batch", "loss": "the loss", "clipping": "clipping", "optimizer": "Optimizer.step"}
)
_NEXT: Mapping[str, str] = MappingProxyType({"load_data": "the next batch", "forward": "the next forward"})
_ENDS_A_STEP = ("optimizer", "clipping", "backward")
_ON_THREADS = ("handoff", "return", "full")
"""Kinds of edges whose time belongs to the thread at the end of the edge."""

_OF_AN_EDGE = (
    *("kind", "event_id", "track_id", "start_ns", "end_ns", "weight_ns", "phase", "module_id", "module_path", "limit"),
)
_READ_OF_AN_EDGE = ("row", *_OF_AN_EDGE[:-1], "bound_by", "activity")  # the last two make `limit`
_OF_A_SPAN = {
    "region": pl.String,
    "region_id": pl.Int64,
    "region_start_ns": pl.Int64,
    "region_holds_phases": pl.Boolean,
    "function": pl.String,
    "source": pl.String,
    "function_id": pl.Int64,
    "function_start_ns": pl.Int64,
    "function_holds_phases": pl.Boolean,
}
BACKWARD_OF_LOSS = "backward of the loss"
"""Place of ops in backward whose forward op is in the loss, in no module."""
KEY = ("kind", "place", "own_source")
"""Columns that identify a place."""


@dataclass(frozen=True)
class _Kept:
    pieces: pl.DataFrame


@dataclass(frozen=True)
class _KeptOfLoop:
    pieces: pl.DataFrame


def place_pieces(trace: Trace, rank: int) -> pl.DataFrame:
    """The critical paths of the typical steps of a rank, cut where the place changes; cached in the trace.

    `path_ns` adds up to a mean step. `kind`, `place` and `source` are the columns of `slowest_places`, and
    `after_phase` and `before_phase` are the phases around a piece of kind `rest`. `step_kind` is the number of the step
    kind. At any time, a thread is in only one piece.
    """
    cache: dict[int, _Kept] = trace.memo.setdefault(_Kept, {})
    if rank not in cache:
        loop = step_loop(trace, rank)
        cache[rank] = _Kept(pl.DataFrame() if loop is None else _of_loop(trace, rank, loop))
    return cache[rank].pieces


def loop_pieces(trace: Trace, rank: int) -> pl.DataFrame:
    """The pieces of `place_pieces`, of the critical path over all steps if the loop is replayed whole (`WholeLoop`).

    These have no `step_kind`.
    """
    loop = step_loop(trace, rank)
    if loop is None or loop.whole is None:
        return place_pieces(trace, rank)
    cache: dict[int, _KeptOfLoop] = trace.memo.setdefault(_KeptOfLoop, {})
    if rank not in cache:
        path = loop.whole.replay.path_of_edges((*_READ_OF_AN_EDGE, "counted"))
        path = path.with_columns(path_ns=(pl.col("path_ns") * pl.col("counted")).round().cast(pl.Int64))
        pieces = _pieces(trace, rank, path.filter(pl.col("path_ns") > 0), loop.whole.start_ns, loop.whole.end_ns)
        scaled = _scaled(pieces, loop.loop_ns - loop.between_ns, loop)
        cache[rank] = _KeptOfLoop(_with_between([scaled] if scaled is not None else [], loop))
    return cache[rank].pieces


def _of_loop(trace: Trace, rank: int, loop: StepLoop) -> pl.DataFrame:
    frames = []
    for kind in loop.kinds:
        start, end = (
            trace.of(rank)
            .sql(
                "select min(start_ns), max(end_ns) from step where rank = $rank and step = $step",
                rank=rank,
                step=kind.step,
            )
            .row(0)
        )
        pieces = _pieces(trace, rank, kind.replay.path_of_edges(_READ_OF_AN_EDGE), start, end)
        scaled = _scaled(pieces, kind.total_ns, loop)
        if scaled is not None:
            frames.append(scaled.with_columns(step_kind=pl.lit(kind.kind, pl.Int64)))
    return _with_between(frames, loop)


def _scaled(pieces: pl.DataFrame, total_ns: int, loop: StepLoop) -> pl.DataFrame | None:
    """The pieces with times that add up to their share of a mean step; `None` without pieces."""
    if pieces.is_empty():
        return None
    share = total_ns / loop.count / max(int(pieces["path_ns"].sum()), 1)
    cumulative = (pl.col("path_ns").cum_sum() * share).round().cast(pl.Int64)
    return pieces.with_columns(path_ns=cumulative - cumulative.shift(1, fill_value=0))


def _with_between(frames: list[pl.DataFrame], loop: StepLoop) -> pl.DataFrame:
    """All pieces, and a row for the time between steps."""
    if frames and (between_ns := loop.between_ns // loop.count):
        row = {"kind": "rest", "place": "between steps", "phase": "other", "limit": "between", "path_ns": between_ns}
        frames.append(pl.DataFrame([row]))
    return pl.concat(frames, how="diagonal_relaxed") if frames else pl.DataFrame()


def _pieces(trace: Trace, rank: int, path: pl.DataFrame, start: int, end: int) -> pl.DataFrame:
    """The edges of a critical path between two times of the main thread, cut where the place changes.

    The sum of `path_ns` is unchanged.
    """
    path = path.with_columns(limit=LIMIT).select("row", "path_ns", *_OF_AN_EDGE)
    if path.is_empty():
        return pl.DataFrame()
    of_rank = trace.of(rank)
    times = {"rank": rank, "start_ns": start, "end_ns": end}
    has_frames, has_names = of_rank.sql(
        "select exists (from python_call where rank = $rank),"
        " exists (from name_info where rank = $rank and category = 'user_annotation' and not is_mark_of_pytorch(name))",
        rank=rank,
    ).row(0)
    pieces = path
    if has_frames or has_names:
        pieces = _on_threads(path, _launches(of_rank, path, times))
        pieces = _cut(pieces, trace.query("place_spans", **times))
    else:
        pieces = path.with_columns(**{name: pl.lit(None, kind) for name, kind in _OF_A_SPAN.items()})
    if has_frames:  # otherwise the edges are already cut where the phase or the module changes
        labels = of_rank.sql(
            "select track_id, start_ns, phase as own_phase, module_id as own_module_id,"
            " model_op.path as own_module_path from label_segment left join model_op using (rank, module_id)"
            " where rank = $rank and start_ns < $end_ns and (end_ns is null or end_ns > $start_ns)"
            " order by track_id, start_ns",
            **times,
        )
        is_own = pl.col("kind") == "host"
        pieces = _cut(pieces, labels).with_columns(
            pl.when(is_own).then(f"own_{name}").otherwise(name).alias(name)
            for name in ("phase", "module_id", "module_path")
        )
    pieces = pieces.with_columns(pl.col("phase").fill_null("other"))
    pieces = _with_modules(of_rank, rank, pieces)
    pieces = _with_marks(of_rank, rank, pieces)
    pieces = _with_neighbours(of_rank, rank, pieces)
    pieces = _with_loss(of_rank, rank, pieces)
    has_modules = pl.lit(pieces["module_id"].is_not_null().any())
    is_outside = has_modules & (pl.col("kind") == "phase") & pl.col("phase").is_in(_OF_MODULES)
    pieces = pieces.with_columns(**_place()).with_columns(
        place=pl.when((pl.col("kind") == "phase") & pl.col("is_of_loss"))
        .then(pl.lit(BACKWARD_OF_LOSS))
        .when(is_outside)
        .then(pl.format("{}, in no module", "place"))
        .otherwise("place")
    )
    pieces = with_samples(of_rank, rank, _with_patterns(of_rank, rank, pieces))
    pieces = _with_os_calls(of_rank, rank, pieces, times)
    return pieces.select(
        *("kind", "place", "own_source", "source", "phase", "limit", "path_ns", "event_id", "named_id"),
        *("module_id", "is_loop", "sampled_pct", "after_phase", "before_phase", "track_id", "start_ns", "end_ns"),
    )


def _with_os_calls(trace: Trace, rank: int, pieces: pl.DataFrame, times: Mapping[str, int]) -> pl.DataFrame:
    """Name the call of the operating system in pieces without another name: `after backward, in fsync`."""
    is_rest = (pl.col("kind") == "rest") & pl.col("track_id").is_not_null()
    if pieces.filter(is_rest).is_empty():
        return pieces
    calls = trace.query("os_calls", **times)
    if calls.is_empty():
        return pieces
    # A call ends where the next one begins, or at a row without a name.
    ends = calls.select("track_id", start_ns="end_ns", os_call=pl.lit(None, pl.String))
    segments = (
        pl.concat([ends, calls.select("track_id", "start_ns", "os_call")])
        .unique(["track_id", "start_ns"], keep="last", maintain_order=True)
        .sort("track_id", "start_ns")
    )
    parts = _cut(pieces.filter(is_rest), segments)
    in_call = pl.when(pl.col("os_call").is_null()).then("place").otherwise(pl.format("{}, in {}", "place", "os_call"))
    named = parts.with_columns(place=in_call).drop("os_call")
    return pl.concat([pieces.filter(is_rest.not_()), named.select(pieces.columns)])


def _with_patterns(trace: Trace, rank: int, pieces: pl.DataFrame) -> pl.DataFrame:
    """Replace the path of a module by the pattern of the path."""
    if not (pieces["kind"] == "module").any():
        return pieces
    patterns = trace.sql("select module_id, pattern from module_pattern where rank = $rank", rank=rank)
    rows = pieces.join(patterns, on="module_id", how="left", maintain_order="left")
    is_module = (pl.col("kind") == "module") & pl.col("pattern").is_not_null()
    return rows.with_columns(place=pl.when(is_module).then("pattern").otherwise("place")).drop("pattern")


def _launches(trace: Trace, path: pl.DataFrame, times: Mapping[str, int]) -> pl.DataFrame:
    """The launch of each GPU event of the step: thread and time."""
    if (path["kind"].is_in(["host", "end", *_ON_THREADS])).all():
        return pl.DataFrame(schema={"event_id": pl.Int64, "call_track_id": pl.Int64, "call_ns": pl.Int64})
    return trace.sql(
        "select event_id, call_track_id, call_start_ns as call_ns from gpu_event"
        " where rank = $rank and call_start_ns >= $start_ns and call_start_ns < $end_ns",
        **times,
    )


def _on_threads(path: pl.DataFrame, launches: pl.DataFrame) -> pl.DataFrame:
    """The path with the thread interval that determines each piece's place: its own, or the launching call's."""
    is_host = pl.col("kind") == "host"
    is_thread = pl.col("kind").is_in(_ON_THREADS)
    rows = path.join(launches, on="event_id", how="left", maintain_order="left")
    return rows.with_columns(
        track_id=pl.when(is_host | is_thread).then("track_id").otherwise("call_track_id"),
        # A wait counts at the end. An edge shorter than the observed time counts at the last part.
        start_ns=pl.when(is_host)
        .then(pl.col("end_ns") - pl.col("weight_ns"))
        .when(is_thread)
        .then(pl.col("end_ns") - 1)
        .otherwise("call_ns"),
        end_ns=pl.when(is_host & (pl.col("weight_ns") > 0)).then("end_ns"),
    ).drop("call_track_id", "call_ns")


def _cut(pieces: pl.DataFrame, segments: pl.DataFrame) -> pl.DataFrame:
    """Cut the pieces at the segments of their thread, and add the segments' columns. The sum of times is unchanged.

    `segments` has `track_id` and `start_ns`, in order. Each segment lasts until the next segment of its thread. A piece
    without `end_ns` is a moment.
    """
    columns = [name for name in segments.columns if name not in ("track_id", "number", "start_ns", "end_ns")]
    last_ns = pieces.select(pl.coalesce(pl.col("end_ns") - 1, "start_ns")).to_series()
    first = _begun(pieces["track_id"], pieces["start_ns"], segments)
    last = _begun(pieces["track_id"], last_ns, segments)
    ranges = pieces.with_columns(first=first, last=last).with_row_index("piece")
    # The segment before a thread's first segment represents the time without a segment.
    numbers = pl.int_ranges("first", pl.col("last") + 1)
    is_whole = pl.col("first") == pl.col("last")
    uncut = ranges.filter(is_whole).with_columns(segment="first")
    parts = ranges.filter(~is_whole).with_columns(segment=numbers).explode("segment")
    segment_rows = segments.select("track_id", pl.col("start_ns").alias("from_ns"), *columns).with_row_index("segment")
    segment_rows = segment_rows.with_columns(pl.col("segment").cast(pl.Int64))
    starts = parts.join(segment_rows.select("segment", "from_ns"), on="segment", how="left", maintain_order="left")[
        "from_ns"
    ]
    since = pl.max_horizontal("start_ns", pl.lit(starts))
    parts = parts.with_columns(since=pl.when(pl.col("segment") == pl.col("first")).then("start_ns").otherwise(since))
    until = pl.col("since").shift(-1).over("piece").fill_null(pl.col("end_ns"))
    parts = parts.with_columns(until=until).with_columns(
        path_ns=_share(pl.col("until")) - _share(pl.col("since")), start_ns="since", end_ns="until"
    )
    cut_pieces = pl.concat([uncut, parts.select(uncut.columns)])
    labels = segment_rows.drop("from_ns").rename({"track_id": "segment_track_id"})
    rows = cut_pieces.join(labels, on="segment", how="left", maintain_order="left")
    is_own = (pl.col("segment_track_id") == pl.col("track_id")).fill_null(False)
    return rows.with_columns(pl.when(is_own).then(name).alias(name) for name in columns).drop(
        "piece", "first", "last", "segment", "segment_track_id"
    )


def _share(moment: pl.Expr) -> pl.Expr:
    """The piece's time on the path before a moment, rounded down."""
    weighted = (moment - pl.col("start_ns")).cast(pl.Int128) * pl.col("path_ns")
    return (weighted // (pl.col("end_ns") - pl.col("start_ns"))).cast(pl.Int64)


def _begun(tracks: pl.Series, times: pl.Series, segments: pl.DataFrame) -> pl.Series:
    """The number of the last segment before each time, on the same or a lower track; -1 without a segment."""
    begins, moments = segments["start_ns"].to_numpy(), times.drop_nulls().to_numpy()
    lowest = min(int(begins.min(initial=0)), int(moments.min(initial=0)))
    span = 1 + max(int(begins.max(initial=0)), int(moments.max(initial=0))) - lowest
    keys = (segments["track_id"] * span + (segments["start_ns"] - lowest)).to_numpy()
    targets = (tracks * span + (times - lowest)).fill_null(-1).to_numpy()
    return pl.Series(np.searchsorted(keys, targets, side="right").astype(np.int64) - 1)


def _with_modules(trace: Trace, rank: int, pieces: pl.DataFrame) -> pl.DataFrame:
    """Add the start of the module call to pieces that also have a region or function."""
    is_asked = pl.col("module_id").is_not_null() & pl.any_horizontal(pl.col("region", "function").is_not_null())
    candidates = pieces.filter(is_asked)
    if candidates.is_empty():
        return pieces.with_columns(module_start_ns=pl.lit(None, pl.Int64))
    calls = trace.sql(
        "select track_id, module_id, start_ns as module_start_ns from module_span where rank = $rank"
        " and start_ns <= $last_ns order by start_ns",
        rank=rank,
        last_ns=candidates["start_ns"].max(),
    )
    rows = candidates.sort("start_ns").join_asof(
        calls, left_on="start_ns", right_on="module_start_ns", by=["track_id", "module_id"], check_sortedness=False
    )
    return pl.concat([pieces.filter(~is_asked), rows], how="diagonal")


def _with_marks(trace: Trace, rank: int, pieces: pl.DataFrame) -> pl.DataFrame:
    """Add `is_marked`: an event of the trace shows the phase of the piece, not only the phases around it."""
    if pieces["region"].is_null().all() and pieces["function"].is_null().all():
        return pieces.with_columns(is_marked=pl.lit(False))
    spans = trace.sql(
        "select track_id, start_ns, end_ns, phase, evidence from phase_span where rank = $rank and end_ns > start_ns"
        " order by track_id, start_ns",
        rank=rank,
    )
    if spans.is_empty():
        return pieces.with_columns(is_marked=pl.lit(False))
    number = _begun(pieces["track_id"], pieces["start_ns"], spans)
    phases = spans.select(pl.all().gather(number.clip(0)))
    is_marked = (
        (number >= 0)
        & (phases["track_id"] == pieces["track_id"])
        & (phases["end_ns"] > pieces["start_ns"])
        & (phases["phase"] == pieces["phase"])
        & (phases["evidence"] != "neighbours")
    )
    return pieces.with_columns(is_marked=is_marked.fill_null(False))


def _with_loss(trace: Trace, rank: int, pieces: pl.DataFrame) -> pl.DataFrame:
    """Add `is_of_loss`: an op of backward, in no module, whose forward op is in the loss. The engine is no such op."""
    is_asked = (pl.col("phase") == "backward") & pl.col("module_id").is_null() & (pl.col("limit") != "python")
    if pieces.filter(is_asked).is_empty():
        return pieces.with_columns(is_of_loss=pl.lit(False))
    events = trace.sql(
        "select event_id from label where rank = $rank and phase = 'backward' and bucket = 'loss'", rank=rank
    )
    is_of_loss = is_asked & pl.col("event_id").is_in(events["event_id"].implode())
    return pieces.with_columns(is_of_loss=is_of_loss.fill_null(False))


def _with_neighbours(trace: Trace, rank: int, pieces: pl.DataFrame) -> pl.DataFrame:
    """Add the named phases before and after each piece on the main thread."""
    phases = trace.sql(
        "select start_ns, end_ns, phase from phase_span where rank = $rank and is_main and phase != 'other'"
        " and end_ns > start_ns order by start_ns",
        rank=rank,
    )
    is_rest = pl.col("phase") == "other"
    rest_pieces = pieces.filter(is_rest).sort("start_ns")
    previous_phases = phases.select(after_phase="phase", started_ns="start_ns")
    next_phases = phases.select(before_phase="phase", starts_ns="start_ns")
    rows = rest_pieces.join_asof(previous_phases, left_on="start_ns", right_on="started_ns").join_asof(
        next_phases, left_on="start_ns", right_on="starts_ns", strategy="forward"
    )
    repeats = trace.sql("select exists (from step where rank = $rank and evidence != 'whole_trace')", rank=rank).item()
    if repeats and not phases.is_empty():
        # Steps repeat, so the first phase of the trace follows the last one.
        rows = rows.with_columns(
            pl.col("after_phase").fill_null(phases["phase"].last()),
            pl.col("before_phase").fill_null(phases["phase"].first()),
        )
    return pl.concat([rows.drop("started_ns", "starts_ns"), pieces.filter(~is_rest)], how="diagonal")


def _place() -> dict[str, pl.Expr]:
    """The columns that name a piece: `kind`, `place`, `source`, and `named_id`, the event of the region or function."""
    in_library = pl.col("phase").is_in(_OF_A_LIBRARY) & pl.col("is_marked")
    region = pl.col("region").is_not_null() & ~(pl.col("region_holds_phases") & in_library).fill_null(False)
    frame = pl.col("function").is_not_null() & ~(pl.col("function_holds_phases") & in_library).fill_null(False)
    since_region = pl.when(region).then("region_start_ns").fill_null(-1)
    since_frame = pl.when(frame).then("function_start_ns").fill_null(-1)
    module_start = pl.when(pl.col("module_path").is_not_null()).then(pl.col("module_start_ns").fill_null(0))
    since_module = module_start.fill_null(-1)
    is_frame = frame & (since_frame >= since_region) & (since_frame >= since_module)
    is_region = region & (since_region >= since_module)
    is_module = pl.col("module_path").is_not_null()
    is_phase = pl.col("phase") != "other"
    kind = (
        pl.when(is_frame)
        .then(pl.lit("frame"))
        .when(is_region)
        .then(pl.lit("region"))
        .when(is_module)
        .then(pl.lit("module"))
        .when(is_phase)
        .then(pl.lit("phase"))
        .otherwise(pl.lit("rest"))
    )
    # A function containing phases (the loop) does not locate the regions and modules inside.
    place = (
        pl.when(is_frame)
        .then("function")
        .when(is_region)
        .then("region")
        .when(is_module)
        .then("module_path")
        .when(is_phase)
        .then(pl.col("phase").replace(_PHASE_WORDS))
        .otherwise(_between())
    )
    source = pl.when(~(is_module & ~is_frame & ~is_region)).then("source")
    event_id = pl.when(is_frame).then("function_id").when(is_region).then("region_id")
    own_source = pl.when(is_frame).then("source")
    is_loop = (is_frame & pl.col("function_holds_phases")) | (~is_frame & is_region & pl.col("region_holds_phases"))
    return {
        "kind": kind,
        "place": place,
        "source": source,
        "own_source": own_source,
        "named_id": event_id,
        "is_loop": is_loop.fill_null(False),
    }


def _between() -> pl.Expr:
    after, before = pl.col("after_phase"), pl.col("before_phase")
    is_next = after.is_in(_ENDS_A_STEP)
    second = pl.when(is_next).then(before.replace({**_BETWEEN, **_NEXT})).otherwise(before.replace(_BETWEEN))
    return (
        pl.when(after.is_null() & before.is_null())
        .then(pl.lit("in no module, region or function"))
        .when(after.is_null())
        .then(pl.format("before {}", second))
        .when(before.is_null())
        .then(pl.format("after {}", after.replace({**_BETWEEN, "load_data": "loading data"})))
        .otherwise(pl.format("between {} and {}", after.replace({**_BETWEEN, "load_data": "loading data"}), second))
    )
