"""Infer unmarked steps from repetition: calls of the model, backward passes, or all ops.

The layers of a model repeat, too, so repetition alone proves nothing. An iteration is recognised by a call of the whole
model or by a pass of autograd. In a trace with neither, all ops must repeat from the first to the last, with a copy
from the host in every repetition. The ops between two such units must be alike from step to step. If only every k-th
unit is alike (gradient accumulation, two models), then k units form a step. If the result is ambiguous, the trace keeps
its single step.
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

_UNLIKE = 0.1  # maximum share of differing ops in two steps
_UNLIKE_BETWEEN = 0.3  # the same for ops between a backward pass and the next forward, where the optimizer runs
_AS_GOOD = 3.0, 0.002  # prefer the shortest period with a dissimilarity of at most 3× the best, plus 0.002
_UPDATES_AFTER = 0.25  # maximum share of updates between two steps that may belong to the later step
_LONGEST = 64  # units in one step
_CELLS = 20_000_000  # maximum size of the table of units and op names
_REPEATS = 3  # minimum number of repetitions if repetition is the only evidence
_TRIED = 256  # number of candidate repetition lengths


@dataclass(frozen=True)
class _Items:
    """`step_item` as columns, ordered by start."""

    start: Numbers
    end: Numbers
    name: Numbers
    forward: Numbers  # start of the op that created a node, or -1
    is_op: Flags  # false for a runtime call
    is_node: Flags
    is_update: Flags
    is_read: Flags
    is_fetch: Flags
    is_input: Flags


@dataclass(frozen=True)
class _Units:
    """The repeated units: calls of the model, including the backward pass if there is one. Units do not overlap."""

    begin: Numbers
    end: Numbers


def infer_steps(connection: duckdb.DuckDBPyConnection) -> pa.Table | None:
    """Steps in the form of the table `step`, if the loop of the main thread is recognised; else `None`."""
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
    arrays = (items[name].to_numpy().astype(bool) for name in flags)
    return _Items(start, end, names, forward, *arrays)


# --- repeated units --------------------------------------------------------------------------------------------------


def _with_backward(items: _Items, begin: Numbers, end: Numbers) -> _Units:
    """Calls of the model, each until the last autograd node before the next call.

    If some calls have a backward pass, the other calls (evaluation, a second view of the batch) lie between units.
    """
    node = np.flatnonzero(items.is_node)
    if not len(node):
        return _Units(begin, end)
    last = np.searchsorted(items.start[node], np.append(begin[1:], np.iinfo(np.int64).max)) - 1
    unit_end = np.where(last >= 0, np.maximum.accumulate(items.end[node])[last], -1)
    trained = unit_end > end
    return _Units(begin[trained], unit_end[trained])


def _passes(items: _Items) -> _Units:
    """Runs of autograd nodes without an op of the main thread in between, each from the first op that created a node.

    The first pass is left out if its forward ops are unknown, because they may lie before the trace. A pass that
    reaches back to ops before the end of the previous pass (several losses, a gradient of a gradient) continues that
    pass.
    """
    node = np.flatnonzero(items.is_node)
    bounds = np.flatnonzero(np.diff(node, prepend=-2) > 1)
    created = np.where(items.forward[node] >= 0, items.forward[node], np.iinfo(np.int64).max)
    begin = np.minimum.reduceat(created, bounds)
    end = np.maximum.reduceat(items.end[node], bounds)
    units = slice(int(begin[0] > end[0]), None)
    begin, end = begin[units], end[units]
    begin = np.minimum.accumulate(begin[::-1])[::-1]
    opens = np.append(True, begin[1:] >= np.maximum.accumulate(end)[:-1])[: len(begin)]
    return _Units(begin[opens], np.maximum.reduceat(end, np.flatnonzero(opens)) if len(end) else end)


def _steps_of(items: _Items, units: _Units, first: int, last: int) -> Numbers | None:
    """Start and end of each step: from the longest pause before the first unit to the same pause of the next step."""
    count = len(units.begin)
    if count < 2 or (units.begin > units.end).any() or (units.begin[1:] < units.end[:-1]).any():
        return None
    unit_of = np.searchsorted(units.begin, items.start, side="right") - 1
    is_between = (unit_of < 0) | (items.start >= units.end[unit_of])
    size = _units_in_a_step(items, unit_of, is_between, count)
    if size is None:
        return None
    # The ops before unit n are in gap n. The ops after the last unit are in the last gap.
    gap_of = unit_of[is_between] + 1
    bounds = np.searchsorted(gap_of, np.arange(count + 2))
    turn = _turn(np.diff(bounds)[1:count], size)
    heads = np.arange(turn, count, size)
    heads = heads[heads + size <= count]
    update, read, fetch = (flag[is_between] for flag in (items.is_update, items.is_read, items.is_fetch))
    opens = _Gaps(items.start[is_between], items.end[is_between], update, read, fetch, bounds, units)
    inner = heads[heads > 0]
    if not len(inner):
        return None
    after = opens.last_read(inner, opens.longest_pause(inner))
    borders = opens.cut(np.arange(count), after, first)
    tail = opens.tail(inner, after, last)
    return np.stack((borders[heads], np.append(borders, tail)[heads + size]), axis=1)


def _units_in_a_step(items: _Items, unit_of: Numbers, between: Flags, count: int) -> int | None:
    """The shortest period, in units, after which the same ops run again; `None` if there is none.

    The trace may end within the last unit, so the last unit may lack ops. It must not have new ops, such as an
    optimizer after the only step of a trace. In training, ops between two units only matter if they update parameters:
    evaluation, logging and the end of an epoch do not change the step. Sequence length does not matter either, because
    op names count by their share of a unit.
    """
    trains = bool(items.is_node.any())
    is_counted = items.is_op & (unit_of >= 0)
    unit_table: Counts = _table(items, unit_of, is_counted & ~between if trains else is_counted, count)
    if trains:
        unit_table = unit_table / np.maximum(unit_table.sum(axis=1, keepdims=True), 1)
    updates = _table(items, unit_of, is_counted & between & items.is_update, count)
    if not trains and count <= _REPEATS and ((unit_table[-1] > 0) & (unit_table[:-1].max(axis=0) == 0)).any():
        return None
    sizes = [size for size in range(1, min(_LONGEST, count // 2) + 1) if not trains or _repeats(updates, size)]
    differences = [
        _typical(_unlike(unit_table, size), size) if trains else _unlike(unit_table, size).mean() for size in sizes
    ]
    limit = _AS_GOOD[0] * min(differences, default=0) + _AS_GOOD[1]
    return next((size for size, value in zip(sizes, differences, strict=True) if value <= min(limit, _UNLIKE)), None)


def _repeats(updates: Numbers, size: int) -> bool:
    """Whether an optimizer follows every `size`-th unit. The first step may differ: it creates the optimizer state."""
    differences = _unlike(updates, size)
    return bool(differences[size if len(differences) >= 2 * size else 0 :].max() <= _UNLIKE_BETWEEN)


def _typical(unlike: npt.NDArray[np.float64], size: int) -> float:
    """The mean without the first step and the last unit if enough units remain: a trace may begin and end mid-step."""
    return float(unlike[size:-1].mean() if len(unlike) >= 2 * size + 1 else unlike.mean())


def _table(items: _Items, unit_of: Numbers, chosen: Flags, count: int) -> Numbers:
    """Count of each name in each unit. If the table would be too large, some names share a column."""
    width = min(int(items.name.max()) + 1, max(16, _CELLS // count))
    cells = unit_of[chosen] * width + items.name[chosen] % width
    return np.bincount(cells, minlength=count * width).reshape(count, width)


def _unlike(table: Counts, size: int) -> npt.NDArray[np.float64]:
    """Share of differing ops between each unit and the `size`-th unit after it. The last unit counts only new ops."""
    before, after = table[:-size], table[size:]
    differs = np.abs(before - after).sum(axis=1)
    differs[-1] = np.maximum(after[-1] - before[-1], 0).sum()
    share: npt.NDArray[np.float64] = differs / np.maximum((before + after).sum(axis=1), 1)
    return share


def _turn(ops_before: Numbers, size: int) -> int:
    """The first unit of the first whole step: more ops run between steps than between units of one step."""
    means = [ops_before[(turn - 1) % size :: size].mean() for turn in range(size)]
    return int(np.argmax(means))


# --- step borders ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Gaps:
    """The ops between units. Gap n lies before unit n and starts at `bounds[n]`."""

    start: Numbers
    end: Numbers
    is_update: Flags
    is_read: Flags
    is_fetch: Flags
    bounds: Numbers
    units: _Units

    def longest_pause(self, gaps: Numbers) -> int:
        """Number of ops after the pause that is longest on average before these units: after the optimizer, if any."""
        sizes = self.bounds[gaps + 1] - self.bounds[gaps]
        op = np.repeat(self.bounds[gaps + 1] - np.cumsum(sizes), sizes) + np.arange(sizes.sum())
        ops_after = np.repeat(self.bounds[gaps + 1], sizes) - op
        is_first = ops_after == np.repeat(sizes, sizes)
        previous_end = np.where(is_first, np.repeat(self.units.end[gaps - 1], sizes), self.end[op - 1])
        pauses = np.bincount(ops_after, np.maximum(self.start[op] - previous_end, 0), minlength=1)
        pauses[0] = np.maximum(self.units.begin[gaps] - self.cut(gaps, 0, 0), 0).sum()
        updates = np.bincount(ops_after[~is_first & self.is_update[op - 1]], minlength=len(pauses))
        updates[0] = np.count_nonzero(self.is_update[self.bounds[gaps + 1][sizes > 0] - 1])
        # The optimizer may update in several batches, and data loading may normalize in place.
        is_after = np.cumsum(updates) - updates <= _UPDATES_AFTER * updates.sum()
        followed = np.where((2 * updates >= len(gaps)) & is_after, pauses, -1)
        return int(np.flatnonzero(2 * followed >= followed.max())[0]) if followed.max() >= 0 else int(np.argmax(pauses))

    def last_read(self, gaps: Numbers, after: int) -> int:
        """Median number of ops after the last value (a loss) read back between the optimizer and the next batch."""
        counts = []
        for end in self.bounds[gaps + 1].tolist():
            start = max(end - after, 0)
            fetch = np.flatnonzero(self.is_fetch[start:end])
            reads = np.flatnonzero(self.is_read[start : start + int(fetch[0]) if len(fetch) else end])
            counts.append(end - start - int(reads[-1]) - 1 if len(reads) else after)
        return int(np.median(counts))

    def cut(self, gaps: Numbers, after: int, first: int) -> Numbers:
        """End of the last op before the final `after` ops of each gap; without such an op, end of the previous unit."""
        fallback = np.where(gaps > 0, self.units.end[np.maximum(gaps, 1) - 1], first)
        op = self.bounds[gaps + 1] - after - 1
        ends = np.append(self.end, 0)
        return np.where(op >= self.bounds[gaps], ends[np.maximum(op, 0)], fallback)

    def tail(self, gaps: Numbers, after: int, last: int) -> int:
        """End of the last step: the end of the trace, unless the last gap has more ops than usual before the pause."""
        front = int(np.median(np.maximum(self.bounds[gaps + 1] - self.bounds[gaps] - after, 0)))
        op = int(self.bounds[-2]) + front
        if op >= len(self.end):
            return last
        return int(self.end[op - 1]) if front else int(self.units.end[-1])


# --- repetition as the only evidence ---------------------------------------------------------------------------------


def _repetitions(items: _Items, first: int, last: int) -> Numbers | None:
    """Steps of an exactly repeating trace: from one copy from the host to the same copy in the next repetition."""
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
    first_inputs = inputs[inputs < inputs[0] + length]
    means = [pause[start::length].mean() for start in first_inputs]
    heads = np.arange(first_inputs[int(np.argmax(means))] % length, len(code), length)
    borders = np.where(heads > 0, items.end[np.maximum(heads, 1) - 1], first)
    complete = heads[-1] + length == len(code)
    borders = np.append(borders, last) if complete else borders
    return np.stack((borders[:-1], borders[1:]), axis=1)
