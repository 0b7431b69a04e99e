"""Save less for backward and recompute it: modules to checkpoint, saved memory, and added time."""

from __future__ import annotations

import re
from collections.abc import Collection

import polars as pl

from hotline_analysis.errors import HotlineError, QueryParameterError
from hotline_analysis.prediction.engine.edits import Scale
from hotline_analysis.prediction.engine.loop import Loop, loop_of
from hotline_analysis.prediction.engine.predict import Scenario
from hotline_analysis.prediction.scenarios import Given, Made, scenario
from hotline_analysis.prediction.studies.batch import blocks_of, peak_of
from hotline_analysis.run.trace import Trace
from hotline_analysis.text.formats import SIZE_UNITS, listed, size

_SOURCE = (
    "Chen et al., Training Deep Nets with Sublinear Memory Cost (2016); ECHO (ISCA 2020) for what to recompute first;"
    " torch.utils.checkpoint."
)
_MOST = 40  # modules in the result
_MOST_TRIED = 400  # modules tried for the result; each try replays the allocator's timeline


def recomputation(
    trace: Trace, *, budget: str | int | None = None, rank: int | None = None, step: int | None = None
) -> pl.DataFrame:
    """Choose modules to checkpoint one after another: the most bytes per millisecond first.

    Each row adds a module to the modules above, replacing chosen modules inside the new one. Modules inside a chosen
    module are skipped, and so are modules that would raise the peak. `net_bytes` and `forward_ns` come from
    `recompute`, of which the first 400 modules are tried; `saved_bytes` and `added_ns` are their running sums.
    `peak_bytes` is the memory peak when the allocator's timeline is replayed without the dropped blocks. `budget` is
    the target peak, in bytes or as "4 GiB"; the rows end there. Raises `HotlineError` without memory events or modules.
    """
    goal = None if budget is None else _bytes(budget)
    loop = loop_of(trace, rank)
    candidates = trace.query("recompute", rank=loop.rank, step=step, limit=_MOST_TRIED)
    _check(trace, candidates)
    blocks, saved = _blocks(loop)
    # for each chosen module: saved bytes and added time
    modules: dict[str, tuple[int, int]] = {}
    rows: list[dict[str, object]] = []
    peak = peak_of(blocks, 1.0)
    for row in candidates.iter_rows(named=True):
        if len(rows) == _MOST or (goal is not None and peak <= goal):
            break
        path = row["module_path"]
        if any(_is_in(path, other) for other in modules):
            continue
        attempt = {other: numbers for other, numbers in modules.items() if not _is_in(other, path)}
        attempt[path] = row["net_bytes"], row["forward_ns"] or 0
        lower = peak_of(without(blocks, saved, attempt), 1.0)
        # A module that needs as much memory during recomputation brings no gain.
        if lower > peak:
            continue
        modules, peak = attempt, lower
        rows.append(
            {
                **{name: row[name] for name in ("module_path", "type", "net_bytes", "forward_ns")},
                "saved_bytes": sum(number for number, _ in modules.values()),
                "added_ns": sum(number for _, number in modules.values()),
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
            "the trace has no memory events, so the memory saved for backward is unknown",
            hint="Capture with profile_memory=True.",
        )
    raise HotlineError(
        "no module of this trace saves anything for backward",
        hint="Capture training with with_stack=True or ha.analyze(model) to record modules.",
    )


def _bytes(text: str | int) -> int:
    if isinstance(text, int):
        return text
    units = {unit.lower(): scale for scale, unit in SIZE_UNITS}
    match = re.fullmatch(r"\s*([\d.]+)\s*([a-zA-Z]+)\s*", text)
    try:
        return round(float(match[1]) * units[match[2].lower()]) if match else int(text)
    except (KeyError, ValueError):
        raise QueryParameterError(
            f"{text!r} is not an amount of memory", hint="Give bytes, or a size such as '4 GiB'."
        ) from None


def _is_in(path: str, other: str) -> bool:
    return path == other or path.startswith(f"{other}.")


def _blocks(loop: Loop) -> tuple[pl.DataFrame, pl.DataFrame]:
    window = {"rank": loop.rank, "start_ns": loop.start_ns, "end_ns": int(loop.steps["end_ns"][-1])}
    return blocks_of(loop, 1), loop.trace.query("saved_block", **window)


def without(blocks: pl.DataFrame, saved: pl.DataFrame, modules: Collection[str]) -> pl.DataFrame:
    """Return the blocks if these modules are checkpointed: each dropped block lives twice, for a short time each."""
    saved_blocks = saved.filter(pl.col("module_path").is_in(list(modules)) & ~pl.col("is_output")).unique("block_id")
    lives = saved_blocks.select("block_id", "needed_until_ns", "again_ns")
    twice = blocks.join(lives, on="block_id", how="inner")
    first = twice.with_columns(end_ns="needed_until_ns", end_id=pl.lit(-1, pl.Int64))
    second = twice.with_columns(start_ns="again_ns", start_id=pl.lit(-1, pl.Int64))
    rest = blocks.join(lives, on="block_id", how="anti")
    return pl.concat([frame.select(blocks.columns) for frame in (rest, first, second)])


@scenario(_SOURCE, modules=Given(None, "paths of the modules, with + between them", is_text=True))
def _checkpoint(loop: Loop, modules: str | None) -> Made:
    """Drop the tensors that some modules save for backward, and compute them again in backward."""
    candidates = loop.trace.query("recompute", rank=loop.rank, limit=100_000)
    if candidates.is_empty():
        return "The memory saved by modules for backward is unknown: capture modules with profile_memory=True."
    if modules is None:
        return f"Name the modules, as in modules={candidates['module_path'][0]}."
    paths = [path.strip() for path in modules.split("+") if path.strip()]
    bytes_of = dict(candidates.select("module_path", "net_bytes").iter_rows())
    unknown = [path for path in paths if path not in bytes_of]
    if unknown or not paths:
        return f"{listed(unknown)} saves nothing for backward that could be dropped."
    blocks, saved = _blocks(loop)
    peak, new_peak = peak_of(blocks, 1.0), peak_of(without(blocks, saved, paths), 1.0)
    outer = [path for path in paths if not any(other != path and _is_in(path, other) for other in paths)]
    is_inside = pl.any_horizontal(
        [(pl.col("module_path") == path) | pl.col("module_path").str.starts_with(f"{path}.") for path in outer]
    )
    forward = (pl.col("pass") == "forward") & is_inside
    return Scenario(
        "checkpoint",
        (Scale(forward, 2.0),),
        "What some modules save for backward is dropped, and computed again there.",
        (
            f"{sum(bytes_of[path] for path in outer):,} bytes fewer are saved in each step.",
            f"The peak of memory is {size(new_peak)}, instead of {size(peak)}.",
            "Forward takes as long the second time, and nothing else of it is needed.",
        ),
        _SOURCE,
    )


__all__ = ["recomputation", "without"]
