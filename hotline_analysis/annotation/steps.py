"""Steps that nobody marked, where the loop shows in what repeats: calls of the model, backward passes, or all ops.

The layers of a model repeat, too, so repetition alone says nothing. Three things tell iterations: a call of the whole
model, a pass of autograd, or, where there is neither, a trace that repeats from its first op to its last with a copy
from the host in every repetition. What happens from one of them to the next must be alike from step to step; if it is
so only from every k-th to the next (gradient accumulation, two models), then k of them are a step. Where that is not
clear, the trace keeps its single step.
"""

from __future__ import annotations

from dataclasses import dataclass

import duckdb
import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from hotline_analysis import catalog
from hotline_analysis.database import rows_of

Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Counts = Numbers | npt.NDArray[np.float64]

_UNLIKE = 0.1  # the largest share of the ops of two steps that may differ
_UNLIKE_BETWEEN = 0.3  # the same, of the ops between a backward pass and the next forward: there stands the optimizer
_AS_GOOD = 3.0, 0.002  # prefer the shortest period whose dissimilarity is at most 3× the best, plus 0.002
_UPDATES_AFTER = 0.25  # the largest share of the updates between two steps that may belong to the later one
_LONGEST = 64  # units in one step
_CELLS = 20_000_000  # the most in the table of units and names of ops
_REPEATS = 3  # the least number of repetitions, where nothing else shows the loop
_TRIED = 256  # lengths of a repetition that are tried


@dataclass(frozen=True)
class _Items:
    """`step_item` as columns, in order of start."""

    start: Numbers
    end: Numbers
    name: Numbers
    forward: Numbers  # start of the op that created a node, -1 for none
    is_op: Flags  # false for a call of the runtime
    is_node: Flags
    is_update: Flags
    is_read: Flags
    is_fetch: Flags
    is_input: Flags


@dataclass(frozen=True)
class _Units:
    """What repeats: calls of the model, each with its backward pass if there is one. They do not overlap."""

    begin: Numbers
    end: Numbers


def infer_steps(connection: duckdb.DuckDBPyConnection) -> pa.Table | None:
    """Steps in the form of the table `step`, if the loop of the main thread shows; else None."""
    items = _read_items(connection)
    if not len(items.start):
        return None
    track, first, last = connection.sql(
        "select main_track.track_id, step.start_ns, step.end_ns from main_track, step"
    ).fetchall()[0]
    calls = pl.DataFrame(rows_of(connection.execute(catalog.parsed(connection, catalog.get("step_unit").sql))))
    begin, end = (calls[name].to_numpy().astype(np.int64) for name in ("start_ns", "end_ns"))
    if len(begin):
        spans, evidence = _steps_of(items, _with_backward(items, begin, end), first, last), "module"
    elif items.is_node.any():
        spans, evidence = _steps_of(items, _passes(items), first, last), "autograd"
    else:
        spans, evidence = _repetitions(items, first, last), "repetition"
    if spans is None or len(spans) < 2:
        return None
    return (
        pl.DataFrame({"start_ns": spans[:, 0], "end_ns": spans[:, 1]})
        .with_row_index("step")
        .select(
            pl.col("step").cast(pl.Int64),
            pl.lit(None, pl.String).alias("name"),
            pl.lit(None, pl.Int64).alias("event_id"),
            pl.lit(track, pl.Int64).alias("track_id"),
            "start_ns",
            "end_ns",
            pl.lit(evidence).alias("evidence"),
        )
        .to_arrow()
    )


def _read_items(connection: duckdb.DuckDBPyConnection) -> _Items:
    items = pl.DataFrame(rows_of(connection.execute(catalog.parsed(connection, catalog.get("step_item").sql))))
    start, end, forward = (
        items[name].fill_null(-1).to_numpy().astype(np.int64) for name in ("start_ns", "end_ns", "forward_ns")
    )
    names = items["name"].fill_null("").rank("dense").to_numpy().astype(np.int64) - 1
    flags = ("is_op", "is_node", "is_update", "is_read", "is_fetch", "is_input")
    told = (items[name].to_numpy().astype(bool) for name in flags)
    return _Items(start, end, names, forward, *told)


# --- what repeats ----------------------------------------------------------------------------------------------------


def _with_backward(items: _Items, begin: Numbers, end: Numbers) -> _Units:
    """Calls of the model, each until the last node before the next call.

    Where some are trained, the others (evaluation, a second view of the batch) lie between units.
    """
    node = np.flatnonzero(items.is_node)
    if not len(node):
        return _Units(begin, end)
    last = np.searchsorted(items.start[node], np.append(begin[1:], np.iinfo(np.int64).max)) - 1
    until = np.where(last >= 0, np.maximum.accumulate(items.end[node])[last], -1)
    trained = until > end
    return _Units(begin[trained], until[trained])


def _passes(items: _Items) -> _Units:
    """Runs of nodes with no op of the main thread between them, each from the first op that created one of its nodes.

    The first pass is left out if its forward ops are not known, as they may lie before the trace. A pass that comes
    back to ops before the end of the last one (several losses, a gradient of a gradient) continues it.
    """
    node = np.flatnonzero(items.is_node)
    bounds = np.flatnonzero(np.diff(node, prepend=-2) > 1)
    created = np.where(items.forward[node] >= 0, items.forward[node], np.iinfo(np.int64).max)
    begin = np.minimum.reduceat(created, bounds)
    end = np.maximum.reduceat(items.end[node], bounds)
    whole = slice(int(begin[0] > end[0]), None)
    begin, end = begin[whole], end[whole]
    begin = np.minimum.accumulate(begin[::-1])[::-1]
    opens = np.append(True, begin[1:] >= np.maximum.accumulate(end)[:-1])[: len(begin)]
    return _Units(begin[opens], np.maximum.reduceat(end, np.flatnonzero(opens)) if len(end) else end)


def _steps_of(items: _Items, units: _Units, first: int, last: int) -> Numbers | None:
    """Start and end of each step: from the longest pause before its first unit to that before the next step's."""
    count = len(units.begin)
    if count < 2 or (units.begin > units.end).any() or (units.begin[1:] < units.end[:-1]).any():
        return None
    unit_of = np.searchsorted(units.begin, items.start, side="right") - 1
    between = (unit_of < 0) | (items.start >= units.end[unit_of])
    size = _units_in_a_step(items, unit_of, between, count)
    if size is None:
        return None
    # The ops before unit n lie in gap n; what follows the last unit is the last gap.
    gap_of = unit_of[between] + 1
    bounds = np.searchsorted(gap_of, np.arange(count + 2))
    turn = _turn(np.diff(bounds)[1:count], size)
    heads = np.arange(turn, count, size)
    heads = heads[heads + size <= count]
    update, read, fetch = (flag[between] for flag in (items.is_update, items.is_read, items.is_fetch))
    opens = _Gaps(items.start[between], items.end[between], update, read, fetch, bounds, units)
    inner = heads[heads > 0]
    if not len(inner):
        return None
    after = opens.last_read(inner, opens.longest_pause(inner))
    borders = opens.cut(np.arange(count), after, first)
    tail = opens.tail(inner, after, last)
    return np.stack((borders[heads], np.append(borders, tail)[heads + size]), axis=1)


def _units_in_a_step(items: _Items, unit_of: Numbers, between: Flags, count: int) -> int | None:
    """The shortest period, in units, after which the same ops run again; None if there is none.

    The trace may end within the last unit, so that one may lack ops; but it must not have new ones, such as those of an
    optimizer that ends the only step of a trace. In training, ops between two units only matter if they update:
    evaluation, logging and the end of an epoch make no other step. Nor does the length of a sequence, as names count by
    their share of a unit there.
    """
    trains = bool(items.is_node.any())
    counted = items.is_op & (unit_of >= 0)
    whole: Counts = _table(items, unit_of, counted & ~between if trains else counted, count)
    if trains:
        whole = whole / np.maximum(whole.sum(axis=1, keepdims=True), 1)
    updates = _table(items, unit_of, counted & between & items.is_update, count)
    if not trains and count <= _REPEATS and ((whole[-1] > 0) & (whole[:-1].max(axis=0) == 0)).any():
        return None
    sizes = [size for size in range(1, min(_LONGEST, count // 2) + 1) if not trains or _repeats(updates, size)]
    unlike = [_typical(_unlike(whole, size), size) if trains else _unlike(whole, size).mean() for size in sizes]
    least = _AS_GOOD[0] * min(unlike, default=0) + _AS_GOOD[1]
    return next((size for size, value in zip(sizes, unlike, strict=True) if value <= min(least, _UNLIKE)), None)


def _repeats(updates: Numbers, size: int) -> bool:
    """Whether an optimizer follows every `size`-th unit. The first step may differ: it makes the optimizer's state."""
    unlike = _unlike(updates, size)
    return bool(unlike[size if len(unlike) >= 2 * size else 0 :].max() <= _UNLIKE_BETWEEN)


def _typical(unlike: npt.NDArray[np.float64], size: int) -> float:
    """The mean without the first step and the last unit, where others are left: the trace may begin and end in one."""
    return float(unlike[size:-1].mean() if len(unlike) >= 2 * size + 1 else unlike.mean())


def _table(items: _Items, unit_of: Numbers, chosen: Flags, count: int) -> Numbers:
    """How often each name occurs in each unit; where that would be too large, some names share a column."""
    width = min(int(items.name.max()) + 1, max(16, _CELLS // count))
    cells = unit_of[chosen] * width + items.name[chosen] % width
    return np.bincount(cells, minlength=count * width).reshape(count, width)


def _unlike(table: Counts, size: int) -> npt.NDArray[np.float64]:
    """Share of their ops in which each unit differs from the `size`-th after it; of the last, only new ops count."""
    before, after = table[:-size], table[size:]
    differs = np.abs(before - after).sum(axis=1)
    differs[-1] = np.maximum(after[-1] - before[-1], 0).sum()
    share: npt.NDArray[np.float64] = differs / np.maximum((before + after).sum(axis=1), 1)
    return share


def _turn(ops_before: Numbers, size: int) -> int:
    """The first unit of the first whole step, where most happens between steps and less between units of one."""
    means = [ops_before[(turn - 1) % size :: size].mean() for turn in range(size)]
    return int(np.argmax(means))


# --- where steps begin -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Gaps:
    """The ops between units: those of gap n, from `bounds[n]`, lie before unit n."""

    start: Numbers
    end: Numbers
    is_update: Flags
    is_read: Flags
    is_fetch: Flags
    bounds: Numbers
    units: _Units

    def longest_pause(self, gaps: Numbers) -> int:
        """How many ops follow the longest pause before these units, on average: the one after the optimizer, if any."""
        sizes = self.bounds[gaps + 1] - self.bounds[gaps]
        place = np.repeat(self.bounds[gaps + 1] - np.cumsum(sizes), sizes) + np.arange(sizes.sum())
        after = np.repeat(self.bounds[gaps + 1], sizes) - place
        is_first = after == np.repeat(sizes, sizes)
        before = np.where(is_first, np.repeat(self.units.end[gaps - 1], sizes), self.end[place - 1])
        pauses = np.bincount(after, np.maximum(self.start[place] - before, 0), minlength=1)
        pauses[0] = np.maximum(self.units.begin[gaps] - self.cut(gaps, 0, 0), 0).sum()
        updates = np.bincount(after[~is_first & self.is_update[place - 1]], minlength=len(pauses))
        updates[0] = np.count_nonzero(self.is_update[self.bounds[gaps + 1][sizes > 0] - 1])
        # The optimizer may update in several goes, and loading may normalize in place.
        most = np.cumsum(updates) - updates <= _UPDATES_AFTER * updates.sum()
        followed = np.where((2 * updates >= len(gaps)) & most, pauses, -1)
        return int(np.flatnonzero(2 * followed >= followed.max())[0]) if followed.max() >= 0 else int(np.argmax(pauses))

    def last_read(self, gaps: Numbers, after: int) -> int:
        """How many ops follow the last value (a loss) that is read back between optimizer and next batch."""
        left = []
        for end in self.bounds[gaps + 1].tolist():
            start = max(end - after, 0)
            fetch = np.flatnonzero(self.is_fetch[start:end])
            read = np.flatnonzero(self.is_read[start : start + int(fetch[0]) if len(fetch) else end])
            left.append(end - start - int(read[-1]) - 1 if len(read) else after)
        return int(np.median(left))

    def cut(self, gaps: Numbers, after: int, first: int) -> Numbers:
        """The end of the op before the pause that so many ops follow; without one, the end of the unit before."""
        before = np.where(gaps > 0, self.units.end[np.maximum(gaps, 1) - 1], first)
        place = self.bounds[gaps + 1] - after - 1
        ends = np.append(self.end, 0)
        return np.where(place >= self.bounds[gaps], ends[np.maximum(place, 0)], before)

    def tail(self, gaps: Numbers, after: int, last: int) -> int:
        """The end of the last step: that of the trace, unless more follows than lies before the pause in other gaps."""
        front = int(np.median(np.maximum(self.bounds[gaps + 1] - self.bounds[gaps] - after, 0)))
        place = int(self.bounds[-2]) + front
        if place >= len(self.end):
            return last
        return int(self.end[place - 1]) if front else int(self.units.end[-1])


# --- where nothing but repetition shows the loop ----------------------------------------------------------------------


def _repetitions(items: _Items, first: int, last: int) -> Numbers | None:
    """Steps of a trace that repeats without exception: from one copy from the host to the same one next time."""
    inputs = np.flatnonzero(items.is_input)
    code = items.name * 2 + items.is_input
    for length in (inputs[1 : _TRIED + 1] - inputs[:1]).tolist():
        if length * _REPEATS > len(code):
            return None
        if (code[length:] == code[:-length]).all():
            break
    else:
        return None
    pause = items.start - np.append(items.start[:1], items.end[:-1])
    within = inputs[inputs < inputs[0] + length]
    means = [pause[place::length].mean() for place in within]
    heads = np.arange(within[int(np.argmax(means))] % length, len(code), length)
    borders = np.where(heads > 0, items.end[np.maximum(heads, 1) - 1], first)
    complete = heads[-1] + length == len(code)
    borders = np.append(borders, last) if complete else borders
    return np.stack((borders[:-1], borders[1:]), axis=1)
