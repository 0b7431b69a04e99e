"""The critical path of a step in pieces, each with its place in the code: a region, a function, a module or a phase.

Every moment of the path has exactly one place, so the pieces add up to the step. Work on the GPU counts to the place of
its launching call. Of the following, the one that began last before the moment is the innermost, and names it:

1. the innermost region of the user (`record_function`, `hotline_analysis.annotate`, NVTX, Lightning, Accelerate);
2. the innermost function of the user's code, where the trace has stacks;
3. the module, forward or backward.

A region or function that holds several phases is (part of) the training loop. It does not name the time of the
optimizer, of backward, of zero_grad or of the data loader in it, if an event of the trace shows these. Where none of
the three names a moment, the samples of warm-up steps may (`sampled_frame`), marked as such. Else its phase does, and
outside of all phases the neighbours do: "between Optimizer.step and the next forward".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import polars as pl

from hotline_analysis.answers.limits import LIMIT, StepLoop, TypicalStep, has_host_events, step_loop
from hotline_analysis.answers.place_samples import with_samples
from hotline_analysis.run.trace import Trace

_OF_A_LIBRARY = ("load_data", "backward", "zero_grad", "clipping", "optimizer")
"""Phases that run code of a library, so that the function of the user around them says less than the phase."""
_OF_MODULES = ("forward", "loss", "backward")
"""Phases whose time is usually that of modules."""
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
"""Kinds of edges whose time is that of a thread at their end."""

_OF_AN_EDGE = (
    *("kind", "event_id", "track_id", "start_ns", "end_ns", "weight_ns", "phase", "module_id", "module_path", "limit"),
)
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
KEY = ("kind", "place", "own_source")
"""Columns that tell places apart."""


@dataclass(frozen=True)
class _Kept:
    pieces: pl.DataFrame


def place_pieces(trace: Trace, rank: int) -> pl.DataFrame:
    """The critical paths of the typical steps of a rank, cut where the place changes; kept with the trace.

    `path_ns` is of a mean step, and adds up to it. `kind`, `place` and `source` are those of `slowest_places`, and
    `after_phase` and `before_phase` are the phases around a piece of kind `rest`. `step_kind` is the number of the
    kind of steps. Between two times, a thread is in one piece only.
    """
    kept: dict[int, _Kept] = trace.memo.setdefault(_Kept, {})
    if rank not in kept:
        loop = step_loop(trace, rank)
        kept[rank] = _Kept(pl.DataFrame() if loop is None else _of_loop(trace, rank, loop))
    return kept[rank].pieces


def _of_loop(trace: Trace, rank: int, loop: StepLoop) -> pl.DataFrame:
    found = []
    for kind in loop.kinds:
        pieces = _pieces(trace, rank, kind)
        if pieces.is_empty():
            continue
        share = kind.total_ns / loop.count / max(int(pieces["path_ns"].sum()), 1)
        reached = (pl.col("path_ns").cum_sum() * share).round().cast(pl.Int64)
        found.append(
            pieces.with_columns(path_ns=reached - reached.shift(1, fill_value=0), step_kind=pl.lit(kind.kind, pl.Int64))
        )
    if found and (between := loop.between_ns // loop.count):
        row = {"kind": "rest", "place": "between steps", "phase": "other", "limit": "between", "path_ns": between}
        found.append(pl.DataFrame([row]))
    return pl.concat(found, how="diagonal_relaxed") if found else pl.DataFrame()


def _pieces(trace: Trace, rank: int, typical: TypicalStep) -> pl.DataFrame:
    """The critical path of a typical step, cut where its place changes; times add up to `path_steps` steps."""
    path = (
        typical.replay.path()
        .lazy()
        .with_columns(limit=LIMIT)
        .group_by("row", maintain_order=True)
        .agg(pl.col("path_ns").sum(), pl.col(*_OF_AN_EDGE).first())
        .collect()
    )
    if path.is_empty():
        return pl.DataFrame()
    if not has_host_events(trace, rank):
        path = path.with_columns(pl.col("limit").replace("python", "unrecorded"))
    of_rank = trace.of(rank)
    start, end = of_rank.sql(
        "select min(start_ns), max(end_ns) from step where rank = $rank and step = $step", rank=rank, step=typical.step
    ).row(0)
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
    if has_frames:  # else the edges are cut where the phase or the module changes
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
    has_modules = pl.lit(pieces["module_id"].is_not_null().any())
    is_outside = has_modules & (pl.col("kind") == "phase") & pl.col("phase").is_in(_OF_MODULES)
    pieces = pieces.with_columns(**_place()).with_columns(
        place=pl.when(is_outside).then(pl.format("{}, in no module", "place")).otherwise("place")
    )
    pieces = with_samples(of_rank, rank, _with_patterns(of_rank, rank, pieces))
    return pieces.select(
        *("kind", "place", "own_source", "source", "phase", "limit", "path_ns", "event_id", "named_id"),
        *("module_id", "is_loop", "sampled_pct", "after_phase", "before_phase", "track_id", "start_ns", "end_ns"),
    )


def _with_patterns(trace: Trace, rank: int, pieces: pl.DataFrame) -> pl.DataFrame:
    """The pieces with the pattern of a module's path in place of the path."""
    if not (pieces["kind"] == "module").any():
        return pieces
    patterns = trace.sql("select module_id, pattern from module_pattern where rank = $rank", rank=rank)
    met = pieces.join(patterns, on="module_id", how="left", maintain_order="left")
    is_module = (pl.col("kind") == "module") & pl.col("pattern").is_not_null()
    return met.with_columns(place=pl.when(is_module).then("pattern").otherwise("place")).drop("pattern")


def _launches(trace: Trace, path: pl.DataFrame, times: Mapping[str, int]) -> pl.DataFrame:
    """Where each GPU event of the step was launched: a thread, and a time."""
    if (path["kind"].is_in(["host", "end", *_ON_THREADS])).all():
        return pl.DataFrame(schema={"event_id": pl.Int64, "call_track_id": pl.Int64, "call_ns": pl.Int64})
    return trace.sql(
        "select launch.event_id, min(nesting.track_id) as call_track_id, min(nesting.start_ns) as call_ns from launch"
        " inner join nesting on launch.rank = nesting.rank"
        " and coalesce(launch.runtime_id, launch.op_id) = nesting.event_id"
        " where launch.rank = $rank and nesting.start_ns >= $start_ns and nesting.start_ns < $end_ns"
        " group by launch.event_id",
        **times,
    )


def _on_threads(path: pl.DataFrame, launches: pl.DataFrame) -> pl.DataFrame:
    """The path with the time on a thread that tells its place: its own, or that of the launching call."""
    is_host = pl.col("kind") == "host"
    is_thread = pl.col("kind").is_in(_ON_THREADS)
    met = path.join(launches, on="event_id", how="left", maintain_order="left")
    return met.with_columns(
        track_id=pl.when(is_host | is_thread).then("track_id").otherwise("call_track_id"),
        # Of a wait, the end counts; of an edge that takes less than the time observed, its last part.
        start_ns=pl.when(is_host)
        .then(pl.col("end_ns") - pl.col("weight_ns"))
        .when(is_thread)
        .then(pl.col("end_ns") - 1)
        .otherwise("call_ns"),
        end_ns=pl.when(is_host & (pl.col("weight_ns") > 0)).then("end_ns"),
    ).drop("call_track_id", "call_ns")


def _cut(pieces: pl.DataFrame, segments: pl.DataFrame) -> pl.DataFrame:
    """The pieces, cut where a segment of their thread begins, with the columns of the segments; times add up as before.

    `segments` have `track_id` and `start_ns`, in order, and each lasts until the next one of its thread. A piece
    without `end_ns` is a moment.
    """
    columns = [name for name in segments.columns if name not in ("track_id", "number", "start_ns", "end_ns")]
    last_ns = pieces.select(pl.coalesce(pl.col("end_ns") - 1, "start_ns")).to_series()
    first = _begun(pieces["track_id"], pieces["start_ns"], segments)
    last = _begun(pieces["track_id"], last_ns, segments)
    numbered = pieces.with_columns(first=first, last=last).with_row_index("piece")
    # One segment before the first one of a thread stands for the time without any.
    numbers = pl.int_ranges("first", pl.col("last") + 1)
    is_whole = pl.col("first") == pl.col("last")
    whole = numbered.filter(is_whole).with_columns(segment="first")
    parts = numbered.filter(~is_whole).with_columns(segment=numbers).explode("segment")
    own = segments.select("track_id", pl.col("start_ns").alias("from_ns"), *columns).with_row_index("segment")
    own = own.with_columns(pl.col("segment").cast(pl.Int64))
    starts = parts.join(own.select("segment", "from_ns"), on="segment", how="left", maintain_order="left")["from_ns"]
    since = pl.max_horizontal("start_ns", pl.lit(starts))
    parts = parts.with_columns(since=pl.when(pl.col("segment") == pl.col("first")).then("start_ns").otherwise(since))
    until = pl.col("since").shift(-1).over("piece").fill_null(pl.col("end_ns"))
    parts = parts.with_columns(until=until).with_columns(
        path_ns=_share(pl.col("until")) - _share(pl.col("since")), start_ns="since", end_ns="until"
    )
    each = pl.concat([whole, parts.select(whole.columns)])
    known = own.drop("from_ns").rename({"track_id": "segment_track_id"})
    met = each.join(known, on="segment", how="left", maintain_order="left")
    is_own = (pl.col("segment_track_id") == pl.col("track_id")).fill_null(False)
    return met.with_columns(pl.when(is_own).then(name).alias(name) for name in columns).drop(
        "piece", "first", "last", "segment", "segment_track_id"
    )


def _share(moment: pl.Expr) -> pl.Expr:
    """How much of a piece's time on the path lies before a moment, rounded down."""
    passed = (moment - pl.col("start_ns")).cast(pl.Int128) * pl.col("path_ns")
    return (passed // (pl.col("end_ns") - pl.col("start_ns"))).cast(pl.Int64)


def _begun(tracks: pl.Series, times: pl.Series, segments: pl.DataFrame) -> pl.Series:
    """The number of the segment that began last before each time on any thread up to its own; -1 without one."""
    begins, at = segments["start_ns"].to_numpy(), times.drop_nulls().to_numpy()
    least = min(int(begins.min(initial=0)), int(at.min(initial=0)))
    span = 1 + max(int(begins.max(initial=0)), int(at.max(initial=0))) - least
    keys = (segments["track_id"] * span + (segments["start_ns"] - least)).to_numpy()
    asked = (tracks * span + (times - least)).fill_null(-1).to_numpy()
    return pl.Series(np.searchsorted(keys, asked, side="right").astype(np.int64) - 1)


def _with_modules(trace: Trace, rank: int, pieces: pl.DataFrame) -> pl.DataFrame:
    """The pieces with the time at which the call of their module began, where a region or function is around them."""
    is_asked = pl.col("module_id").is_not_null() & pl.any_horizontal(pl.col("region", "function").is_not_null())
    asked = pieces.filter(is_asked)
    if asked.is_empty():
        return pieces.with_columns(module_start_ns=pl.lit(None, pl.Int64))
    calls = trace.sql(
        "select track_id, module_id, start_ns as module_start_ns from module_span where rank = $rank"
        " and start_ns <= $last_ns order by start_ns",
        rank=rank,
        last_ns=asked["start_ns"].max(),
    )
    met = asked.sort("start_ns").join_asof(
        calls, left_on="start_ns", right_on="module_start_ns", by=["track_id", "module_id"], check_sortedness=False
    )
    return pl.concat([pieces.filter(~is_asked), met], how="diagonal")


def _with_marks(trace: Trace, rank: int, pieces: pl.DataFrame) -> pl.DataFrame:
    """The pieces with `is_marked`: an event of the trace shows their phase, and not only the phases around it."""
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
    around = spans.select(pl.all().gather(number.clip(0)))
    is_marked = (
        (number >= 0)
        & (around["track_id"] == pieces["track_id"])
        & (around["end_ns"] > pieces["start_ns"])
        & (around["phase"] == pieces["phase"])
        & (around["evidence"] != "neighbours")
    )
    return pieces.with_columns(is_marked=is_marked.fill_null(False))


def _with_neighbours(trace: Trace, rank: int, pieces: pl.DataFrame) -> pl.DataFrame:
    """The pieces with the named phases before and after them on the main thread."""
    phases = trace.sql(
        "select start_ns, end_ns, phase from phase_span where rank = $rank and is_main and phase != 'other'"
        " and end_ns > start_ns order by start_ns",
        rank=rank,
    )
    is_rest = pl.col("phase") == "other"
    ordered = pieces.filter(is_rest).sort("start_ns")
    before = phases.select(after_phase="phase", started_ns="start_ns")
    after = phases.select(before_phase="phase", starts_ns="start_ns")
    met = ordered.join_asof(before, left_on="start_ns", right_on="started_ns").join_asof(
        after, left_on="start_ns", right_on="starts_ns", strategy="forward"
    )
    return pl.concat([met.drop("started_ns", "starts_ns"), pieces.filter(~is_rest)], how="diagonal")


def _place() -> dict[str, pl.Expr]:
    """What names a piece: `kind`, `place`, `source`, and `named_id`, the event of the region or function."""
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
    # A function that holds phases (the loop) says nothing on where in it its region or module is called.
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
    named = pl.when(is_frame).then("function_id").when(is_region).then("region_id")
    own = pl.when(is_frame).then("source")
    is_loop = (is_frame & pl.col("function_holds_phases")) | (~is_frame & is_region & pl.col("region_holds_phases"))
    return {
        "kind": kind,
        "place": place,
        "source": source,
        "own_source": own,
        "named_id": named,
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
