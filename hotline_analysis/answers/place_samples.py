"""Likely places from samples, where the trace itself has no names.

A capture samples the warm-up steps, and Nsight Systems samples the recorded steps.
"""

from __future__ import annotations

import polars as pl

from hotline_analysis.run.trace import Trace

_LIKELY = 0.5
"""Minimum share of the samples for a function to be the likely place: most of them."""
SURELY_PCT = 80.0
"""Minimum share of the samples to be sure of a sampled function, such as to name ops in modules. Our choice."""
_FEWEST = 5
"""Minimum number of samples at a place. All five are of a function with less than half of the time in 3 % of cases."""
_CALLED = ("forward", "backward", "optimizer")
"""Marks inside which the caller's own samples are time of a library."""
_HOOKS = "hooks"
"""Python inside backward: hooks, and the user's autograd functions. The engine itself needs no python."""


def with_samples(trace: Trace, rank: int, pieces: pl.DataFrame) -> pl.DataFrame:
    """Name pieces without a region or function by the samples at the same place.

    Python time in a module is named this way, too: the samples show the user's function with most of a phase. A place
    is the same mark, or the same two marks before and after. Only marks known to the samples count: a batch made by
    hand, for example, is a phase of the trace but not a mark in the samples. The name is the innermost user function
    with most of the samples, or an enclosing function with at least half of them.

    Time in the phase forward and outside of the modules is between two calls of the model, if the samples show such
    time. There may be many places: the loop's own ops, and a function that runs python for long. A long stretch of
    python without a name is the function with most samples, more than any line of the loop.
    """
    pieces = pieces.with_columns(sampled_pct=pl.lit(None, pl.Float64))
    is_module = pl.col("kind") == "module"
    is_op = is_module & pl.col("limit").is_in(["cpu_tensor", "launching"])
    is_open = pl.col("kind").is_in(["phase", "rest"]) | is_op | (is_module & (pl.col("limit") == "python"))
    samples = _user_samples(trace, rank)
    if samples.is_empty() or pieces.filter(is_open).is_empty():
        return pieces
    of_phase = _of_phases(trace, rank, samples)
    marks = pl.concat([samples[name] for name in ("inside_mark", "after_mark", "before_mark")]).drop_nulls().unique()
    is_between = _is_between(pieces, samples)
    marked = _between_marks(trace, rank, pieces, marks.to_list()).with_columns(
        before_mark=pl.when(is_between).then(pl.lit("forward")).otherwise("before_mark")
    )
    rows = _beside_samples(trace, marked, samples, of_phase)
    is_gap = (pl.col("kind") == "rest") | ~pl.col("phase").is_in(marks.to_list())
    # Between the same marks, a batch made by hand comes next to code of other kinds. The function with most of the
    # samples makes the batch only if the batch takes most of the time.
    gap_ns = pl.col("path_ns").filter(is_gap).sum().over("after_mark", "before_mark")
    batch_ns = (
        pl.col("path_ns").filter(is_gap & (pl.col("phase") == "load_data")).sum().over("after_mark", "before_mark")
    )
    is_side = is_gap & (pl.col("phase") == "load_data") & (2 * batch_ns < gap_ns)
    function, source, share = (
        pl.when(is_between)
        .then(pl.coalesce(f"{name}_of_gap", f"{name}_of_long"))
        .when(is_open & is_gap)
        .then(pl.coalesce(f"{name}_of_gap", f"{name}_of_long", f"{name}_of_after"))
        .when(is_open)
        .then(name)
        for name in ("function_of_samples", "sampled_source", "share_pct")
    )
    # A module describes ops better than the module's own `forward`, or than a function with perhaps half of the time.
    is_vague = is_op & (function.str.ends_with("forward") | (share < SURELY_PCT)).fill_null(True)
    # The function that calls the model, `backward()` or `step()` is not the code that runs inside the call.
    is_call = ~is_gap & ~is_between & pl.col("phase").is_in(_CALLED) & pl.col("is_caller").fill_null(False)
    call_source = pl.coalesce("source", "call_source")
    is_sampled = function.is_not_null() & ~is_vague & ~is_call & ~is_side
    named = rows.with_columns(
        kind=pl.when(is_sampled).then(pl.lit("sampled")).otherwise("kind"),
        place=pl.when(is_sampled).then(function).otherwise("place"),
        source=pl.when(is_sampled).then(source).when(pl.col("kind") == "phase").then(call_source).otherwise("source"),
        own_source=pl.when(is_sampled).then(source).otherwise("own_source"),
        sampled_pct=share,
    )
    return _with_backward_of_loss(named, of_phase).select(pieces.columns)


def _beside_samples(trace: Trace, pieces: pl.DataFrame, samples: pl.DataFrame, of_phase: pl.DataFrame) -> pl.DataFrame:
    """The pieces with the likely function of their phase, of the gap between their marks, and of long python there."""
    gaps = samples.filter(pl.col("inside_mark").is_null())
    of_gap = _likely(gaps, ["after_mark", "before_mark"])
    # by the mark before alone: for the last step, and for marks too short for the samples
    wholes = gaps.unique(["after_mark", "before_mark"]).group_by("after_mark").agg(pl.col("whole").sum())
    by_mark_before = gaps.group_by("after_mark", "function", "sampled_source", "is_loop", "is_caller").agg(
        pl.col("own", "inclusive").sum()
    )
    of_after = _likely(by_mark_before.join(wholes, on="after_mark"), ["after_mark"])
    long_ns = trace.sql("select long_python_ns() as ns")["ns"][0]
    is_long = pl.col("limit").is_in(["python", "load_data"]) & (pl.col("end_ns") - pl.col("start_ns") >= long_ns)
    is_hook = (pl.col("phase") == "backward") & (pl.col("limit") == "python")
    return (
        pieces.with_columns(mark=pl.when(is_hook).then(pl.lit(_HOOKS)).otherwise("phase"))
        .with_columns(is_long=is_long.fill_null(value=False))
        .join(of_phase, left_on="mark", right_on="inside_mark", how="left", maintain_order="left")
        .join(of_gap, on=["after_mark", "before_mark"], how="left", maintain_order="left", suffix="_of_gap")
        .join(of_after, on="after_mark", how="left", maintain_order="left", suffix="_of_after")
        .join(
            _longest(gaps).with_columns(is_long=pl.lit(value=True)),
            on=["after_mark", "before_mark", "is_long"],
            how="left",
            maintain_order="left",
            suffix="_of_long",
        )
        .join(_callers(samples), left_on="phase", right_on="inside_mark", how="left", maintain_order="left")
    )


def _with_backward_of_loss(pieces: pl.DataFrame, of_phase: pl.DataFrame) -> pl.DataFrame:
    """Name the backward of the loss by the user's function that surely computes the loss."""
    loss = of_phase.filter(pl.col("share_pct") >= SURELY_PCT, ~pl.col("is_caller"), inside_mark="loss")
    if loss.is_empty():
        return pieces
    row = loss.row(0, named=True)
    is_open = (pl.col("kind") == "phase") & pl.col("is_of_loss")
    return pieces.with_columns(
        pl.when(is_open).then(pl.lit(value, dtype)).otherwise(name).alias(name)
        for name, value, dtype in (
            ("kind", "sampled", pl.String),
            ("place", f"backward of {row['function_of_samples']}", pl.String),
            ("source", row["sampled_source"], pl.String),
            ("own_source", row["sampled_source"], pl.String),
            ("sampled_pct", row["share_pct"], pl.Float64),
        )
    )


def _callers(samples: pl.DataFrame) -> pl.DataFrame:
    """The line of the user's code with most of the calls of a phase: of `next(loader)`, `backward()` or `step()`."""
    calls = samples.filter(pl.col("inside_mark").is_not_null() & pl.col("is_caller"))
    return (
        calls.group_by("inside_mark", call_source="sampled_source")
        .agg(pl.col("inclusive").sum())
        .filter(pl.col("inclusive") >= _FEWEST)
        .sort("inclusive", "call_source", descending=[True, False])
        .unique("inside_mark", keep="first", maintain_order=True)
        .drop("inclusive")
    )


def _of_phases(trace: Trace, rank: int, samples: pl.DataFrame) -> pl.DataFrame:
    """The likely function of each phase that the marks in the samples show."""
    # Inside a mark, the enclosing marks do not matter. A loss written by the user is not a mark, but lies between
    # marks. Without modules, the trace shows no end of the model's forward: the phase forward lasts until backward.
    is_inside = pl.col("inside_mark").is_not_null()
    is_loss = pl.col("after_mark").is_in(["forward", "loss"]) & pl.col("before_mark").is_in(["loss", "backward"])
    after_model = samples.filter(~is_inside & is_loss)
    mark_samples = pl.concat([samples.filter(is_inside), after_model.with_columns(inside_mark=pl.lit("loss"))])
    if not trace.sql("select exists (select 1 from model_op where rank = $rank)", rank=rank).item():
        mark_samples = pl.concat([mark_samples, after_model.with_columns(inside_mark=pl.lit("forward"))])
    by_mark = mark_samples.group_by("inside_mark", "function", "sampled_source", "is_loop", "is_caller").agg(
        pl.col("own", "inclusive").sum()
    )
    totals = (
        mark_samples.group_by("inside_mark", "after_mark", "before_mark", "whole")
        .agg()
        .group_by("inside_mark")
        .agg(pl.col("whole").sum())
    )
    likely = _likely(by_mark.join(totals, on="inside_mark").filter(~pl.col("is_loop")), ["inside_mark"])
    # Samples of the loop inside backward show ops, or the engine.
    is_hook = (pl.col("inside_mark") == "backward") & ~pl.col("is_loop") & ~pl.col("is_caller")
    in_hooks = by_mark.filter(is_hook).with_columns(inside_mark=pl.lit(_HOOKS), whole=pl.col("own").sum())
    return pl.concat([likely, _likely(in_hooks, ["inside_mark"])])


def _user_samples(trace: Trace, rank: int) -> pl.DataFrame:
    """The samples of each function of the user by the marks around them, and all samples between these marks."""
    return trace.sql(
        "select inside_mark, after_mark, before_mark, function,"
        " file || coalesce(':' || line, '') as sampled_source, is_loop,"
        " is_caller, sum(sample_count)::bigint as own, sum(inclusive_count)::bigint as inclusive,"
        " max(gap_sample_count) as whole from sampled_frame where rank = $rank and is_user and function is not null"
        " group by all",
        rank=rank,
    )


def _between_marks(trace: Trace, rank: int, pieces: pl.DataFrame, marks: list[str]) -> pl.DataFrame:
    """The pieces with the main thread's marks before and after: `after_mark` and `before_mark`.

    Steps repeat, so the last mark of the trace precedes the first mark, and the first mark follows the last.
    """
    spans = trace.sql(
        "select start_ns, phase from phase_span where rank = $rank and is_main and end_ns > start_ns order by start_ns",
        rank=rank,
    ).filter(pl.col("phase").is_in(marks))
    sorted_pieces = pieces.with_row_index("piece").sort("start_ns")
    rows = sorted_pieces.join_asof(
        spans.select(after_mark="phase", started_ns="start_ns"), left_on="start_ns", right_on="started_ns"
    ).join_asof(
        spans.select(before_mark="phase", starts_ns="start_ns"),
        left_on="start_ns",
        right_on="starts_ns",
        strategy="forward",
    )
    first, last = spans["phase"].first(), spans["phase"].last()
    return (
        rows.sort("piece")
        .drop("piece", "started_ns", "starts_ns")
        .with_columns(pl.col("after_mark").fill_null(last), pl.col("before_mark").fill_null(first))
    )


def _is_between(pieces: pl.DataFrame, samples: pl.DataFrame) -> pl.Expr:
    """Whether a piece is between two calls of the model: in the phase forward, and outside of the modules.

    The samples between calls must be likely to explain this time: a model whose ops are not placed in modules has time
    outside of modules, too.
    """
    if pieces["module_id"].is_not_null().sum() == 0:
        return pl.lit(value=False)
    is_forward = pl.col("phase") == "forward"
    is_outside = is_forward & (pl.col("kind") == "phase")
    forward_ns, outside_ns = pieces.select(
        pl.col("path_ns").filter(is_forward).sum().alias("forward"), pl.col("path_ns").filter(is_outside).sum()
    ).row(0)
    wholes = samples.group_by("inside_mark", "after_mark", "before_mark").agg(pl.col("whole").max())
    is_between = pl.col("inside_mark").is_null() & (pl.col("after_mark") == "forward")
    is_between &= pl.col("before_mark") == "forward"
    between, inside = wholes.select(
        pl.col("whole").filter(is_between).sum().alias("between"),
        pl.col("whole").filter(pl.col("inside_mark") == "forward").sum().alias("inside"),
    ).row(0)
    if between < _FEWEST or between * forward_ns < _LIKELY * outside_ns * (between + inside):
        return pl.lit(value=False)
    return is_outside


def _longest(gaps: pl.DataFrame) -> pl.DataFrame:
    """The function that runs longest between two calls of the model, if it has most samples of all functions there.

    It also has more samples than each line of the loop, whose samples are mostly ops and python between ops.
    """
    between = gaps.filter(after_mark="forward", before_mark="forward")
    line = between.filter("is_loop")["own"].max() or 0
    functions = between.filter(~pl.col("is_loop")).with_columns(functions=pl.col("own").sum())
    best = functions.filter(
        pl.col("own") >= _FEWEST, pl.col("own") >= _LIKELY * pl.col("functions"), pl.col("own") > line
    )
    return (
        best.sort("own", "sampled_source", descending=[True, False])
        .head(1)
        .select(
            "after_mark",
            "before_mark",
            "sampled_source",
            "is_caller",
            function_of_samples="function",
            share_pct=100 * pl.col("own") / pl.col("whole"),
        )
    )


def _likely(samples: pl.DataFrame, marks: list[str]) -> pl.DataFrame:
    """The user function with the largest share of the samples at a place; no row if the share is below half."""
    # Own samples first: the innermost function is the most specific.
    # The training loop and its callers are on every stack, so only the loop's own samples count.
    count = pl.when("is_loop").then("own").otherwise(pl.max_horizontal("own", "inclusive"))
    candidates = samples.with_columns(is_own=pl.col("own") >= _LIKELY * pl.col("whole"), count=count).filter(
        pl.col("count") >= _LIKELY * pl.col("whole"), pl.col("whole") >= _FEWEST
    )
    best = candidates.sort("is_own", "is_loop", "own", "sampled_source", descending=[True, False, True, False]).unique(
        marks, keep="first", maintain_order=True
    )
    number = pl.when("is_own").then("own").otherwise("count")
    return best.select(
        *marks,
        "sampled_source",
        "is_caller",
        function_of_samples="function",
        share_pct=(100 * number / pl.col("whole")).clip(0, 100),
    )
