"""Save less for backward, and compute it again: which modules to checkpoint, what that saves, and what it costs."""

from __future__ import annotations

import re
from collections.abc import Collection

import polars as pl

from hotline_analysis.errors import HotlineError, QueryParameterError
from hotline_analysis.prediction.batch import blocks_of, peak_of
from hotline_analysis.prediction.edits import Scale
from hotline_analysis.prediction.loop import Loop, loop_of
from hotline_analysis.prediction.predict import Scenario
from hotline_analysis.prediction.scenarios import Given, Made, scenario
from hotline_analysis.run.trace import Trace
from hotline_analysis.text.formats import SIZE_UNITS, listed, size

_SOURCE = (
    "Chen et al., Training Deep Nets with Sublinear Memory Cost (2016); ECHO (ISCA 2020) for what to recompute first;"
    " torch.utils.checkpoint."
)
_MOST = 40  # modules of a curve
_MOST_TRIED = 400  # and of those that are tried for it: each runs the allocator's timeline again


def recomputation(
    trace: Trace, *, budget: str | int | None = None, rank: int | None = None, step: int | None = None
) -> pl.DataFrame:
    """Which modules to checkpoint, one after the other: the most bytes per millisecond first.

    Each row adds a module to those above it, in the place of those that are in it; one in another one, and one that
    makes the peak higher, is left out. `net_bytes` and `forward_ns` are those of `recompute`, of which the first 400
    modules are tried, `saved_bytes` and `added_ns` their sums so far, and `peak_bytes` the peak of memory if the
    allocator's timeline is run again without what is no longer saved. `budget` is the peak to reach, in bytes or as
    "4 GiB": there the rows end. Raises `HotlineError` without memory events or modules.
    """
    goal = None if budget is None else _bytes(budget)
    loop = loop_of(trace, rank)
    candidates = trace.query("recompute", rank=loop.rank, step=step, limit=_MOST_TRIED)
    _check(trace, candidates)
    blocks, saved = _blocks(loop)
    # What each chosen module saves and costs.
    chosen: dict[str, tuple[int, int]] = {}
    rows: list[dict[str, object]] = []
    peak = peak_of(blocks, 1.0)
    for row in candidates.iter_rows(named=True):
        if len(rows) == _MOST or (goal is not None and peak <= goal):
            break
        path = row["module_path"]
        if any(_is_in(path, other) for other in chosen):
            continue
        tried = {other: numbers for other, numbers in chosen.items() if not _is_in(other, path)}
        tried[path] = row["net_bytes"], row["forward_ns"] or 0
        lower = peak_of(without(blocks, saved, tried), 1.0)
        # A module that needs as much when it is computed again brings nothing.
        if lower > peak:
            continue
        chosen, peak = tried, lower
        rows.append(
            {
                **{name: row[name] for name in ("module_path", "type", "net_bytes", "forward_ns")},
                "saved_bytes": sum(number for number, _ in chosen.values()),
                "added_ns": sum(number for _, number in chosen.values()),
                "peak_bytes": peak,
            }
        )
    kinds = dict.fromkeys(("net_bytes", "forward_ns", "saved_bytes", "added_ns", "peak_bytes"), pl.Int64)
    return pl.DataFrame(rows, {"module_path": pl.String, "type": pl.String, **kinds})


def _check(trace: Trace, candidates: pl.DataFrame) -> None:
    if not candidates.is_empty():
        return
    if trace.sql("select 1 from memory_block limit 1").is_empty():
        raise HotlineError(
            "the trace has no memory events, so nothing is known of what is saved for backward",
            hint="Capture with profile_memory=True.",
        )
    raise HotlineError(
        "no module of this trace saves anything for backward",
        hint="Capture training with with_stack=True, or with ha.analyze(model), so that there are modules.",
    )


def _bytes(text: str | int) -> int:
    if isinstance(text, int):
        return text
    units = {unit.lower(): scale for scale, unit in SIZE_UNITS}
    found = re.fullmatch(r"\s*([\d.]+)\s*([a-zA-Z]+)\s*", text)
    try:
        return round(float(found[1]) * units[found[2].lower()]) if found else int(text)
    except (KeyError, ValueError):
        raise QueryParameterError(f"{text!r} is no amount of memory", hint="Give bytes, or such as '4 GiB'.") from None


def _is_in(path: str, other: str) -> bool:
    return path == other or path.startswith(f"{other}.")


def _blocks(loop: Loop) -> tuple[pl.DataFrame, pl.DataFrame]:
    window = {"rank": loop.rank, "start_ns": loop.start_ns, "end_ns": int(loop.steps["end_ns"][-1])}
    return blocks_of(loop, 1), loop.trace.query("saved_block", **window)


def without(blocks: pl.DataFrame, saved: pl.DataFrame, modules: Collection[str]) -> pl.DataFrame:
    """The blocks if these modules are checkpointed: what they save lives twice, for a while each time."""
    dropped = saved.filter(pl.col("module_path").is_in(list(modules)) & ~pl.col("is_output")).unique("block_id")
    lives = dropped.select("block_id", "needed_until_ns", "again_ns")
    twice = blocks.join(lives, on="block_id", how="inner")
    first = twice.with_columns(end_ns="needed_until_ns", end_id=pl.lit(-1, pl.Int64))
    again = twice.with_columns(start_ns="again_ns", start_id=pl.lit(-1, pl.Int64))
    rest = blocks.join(lives, on="block_id", how="anti")
    return pl.concat([each.select(blocks.columns) for each in (rest, first, again)])


@scenario(_SOURCE, modules=Given(None, "paths of the modules, with + between them", is_text=True))
def _checkpoint(loop: Loop, modules: str | None) -> Made:
    """What some modules save for backward is dropped, and computed again there."""
    candidates = loop.trace.query("recompute", rank=loop.rank, limit=100_000)
    if candidates.is_empty():
        return "Nothing is known of what modules save for backward: that needs profile_memory=True, and modules."
    if modules is None:
        return f"Say which modules, as in modules={candidates['module_path'][0]}."
    chosen = [each.strip() for each in modules.split("+") if each.strip()]
    known = dict(candidates.select("module_path", "net_bytes").iter_rows())
    missing = [each for each in chosen if each not in known]
    if missing or not chosen:
        return f"{listed(missing)} saves nothing for backward that could be dropped."
    blocks, saved = _blocks(loop)
    now, then = peak_of(blocks, 1.0), peak_of(without(blocks, saved, chosen), 1.0)
    outer = [each for each in chosen if not any(other != each and _is_in(each, other) for other in chosen)]
    inside = pl.any_horizontal(
        [(pl.col("module_path") == each) | pl.col("module_path").str.starts_with(f"{each}.") for each in outer]
    )
    forward = (pl.col("pass") == "forward") & inside
    return Scenario(
        "checkpoint",
        (Scale(forward, 2.0),),
        "What some modules save for backward is dropped, and computed again there.",
        (
            f"{sum(known[each] for each in outer):,} bytes fewer are saved in each step.",
            f"The peak of memory is {size(then)}, instead of {size(now)}.",
            "Forward takes as long the second time, and nothing else of it is needed.",
        ),
        _SOURCE,
    )


__all__ = ["recomputation", "without"]
