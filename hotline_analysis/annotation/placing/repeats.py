"""Modules that are listed once and run several times: the rows of a model as often as the trace shows them.

Two things tell a module that runs again from another one of its kind. A recurrent cell is made to be called for each
step in time. And a parameter's gradient is added up once in a backward pass, however often the parameter was used:
right after the node of its first use, which is the last one to run. So an op after whose node a parameter's gradient is
added is the first call of a module with parameters, and another op of the same name is a later call, or frozen.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np

from hotline_analysis.annotation.placing.certain import range_of_columns
from hotline_analysis.annotation.placing.indices import (
    ColumnIndex,
    ColumnIndices,
    ModuleId,
    NameCodes,
    RowIndices,
)
from hotline_analysis.annotation.placing.rows import MAIN, Flags, Rows
from hotline_analysis.annotation.placing.walk import cheapest_walk

_EXPLAINED = 0.75  # of the first calls must be modules of the model
_CELLS = 5_000_000  # rows × columns up to which repeats are searched for


@dataclass(frozen=True)
class Unrolled:
    """Rows in the order in which they run, by number, and whether that is the only good order."""

    rows: RowIndices
    is_sure: Flags


def by_cells(rows: Rows, names: NameCodes, is_first: Flags, copies: int) -> Unrolled | None:
    """The rows with those of a recurrent loop as often as it runs; None if there is no such loop.

    A loop is only believed if it has a recurrent cell, and if all ops of modules with parameters are then explained:
    layers of a larger model repeat, too. A loop may seem to begin and end at several places; first calls of modules
    tell which are right, and without any, rows in which these loops differ are not sure.
    """
    heavy = np.flatnonzero(rows.is_heavy)
    heavy_columns = np.flatnonzero(rows.looks_heavy[names]) if rows.is_cell.any() else names[:0]
    columns = names[heavy_columns]
    found: list[RowIndices] = []
    extra = len(columns) // copies - len(heavy)
    if extra <= 0 or len(columns) % copies:
        return None
    fits = rows.aligner.weights >= MAIN
    for length in range(min(extra, len(heavy)), 0, -1):
        if found and not is_first[heavy_columns].any():
            break  # the longest loop
        for first in range(len(heavy) - length + 1) if extra % length == 0 else ():
            border = heavy[first + length] if first + length < len(heavy) else heavy[-1] + 1
            block = np.arange(heavy[first], border)
            if not rows.is_cell[block].any():
                continue
            times = extra // length + 1
            taken = np.concatenate((np.arange(block[0]), np.tile(block, times), np.arange(border, len(rows.symbol))))
            symbols = np.tile(rows.symbol[taken][rows.is_heavy[taken]], copies)
            if fits[symbols, columns].all():
                found.append(taken)
    if not found:
        return None
    order = np.stack([taken[rows.is_heavy[taken]] for taken in found])
    begins = np.zeros(order.shape, bool)
    for number, calls in enumerate(order):
        begins[number, np.unique(calls, return_index=True)[1]] = True
    agree = np.count_nonzero(begins == is_first[heavy_columns[-order.shape[1] :]], axis=1)
    best = int(agree.argmax())
    lengths = np.array([np.count_nonzero(np.bincount(calls) > 1) for calls in order])
    is_sure = np.ones(len(found[best]), bool)
    rivals = (agree == agree[best]) & (lengths == lengths[best])
    is_sure[rows.is_heavy[found[best]]] = (order[rivals] == order[best]).all(axis=0)
    return Unrolled(found[best], is_sure)


class ByGradients:
    """Unrolls rows by the first uses of parameters, and remembers: the steps of a training run are mostly alike."""

    def __init__(self, rows: Rows) -> None:
        # Ops of hand-written modules (mul, add) match anywhere, so they are placed together with their neighbours.
        self._walked = np.flatnonzero(~rows.is_written_out() & ~rows.is_whole)
        self._count = len(rows.symbol)
        self.rows = rows.take(self._walked)
        # If no op looks like the type of a module, its ops may seem to be a further call of the module before it.
        is_unknown = (np.count_nonzero(rows.aligner.weights, axis=1) == 0)[rows.symbol] & ~rows.is_optional
        self._beside_unknown = np.append(is_unknown[1:], False)[self._walked]
        self._known = lru_cache(maxsize=256)(self._unroll)
        self.last: Unrolled | None = None

    def unroll(self, names: NameCodes, is_first: Flags) -> Unrolled | None:
        """The rows in the order in which they run in a stretch of ops; None if too little of it is this model.

        Without a first use in the stretch, the last result is returned.
        """
        looks_heavy = self.rows.looks_heavy[names]
        if len(self.rows.symbol) * len(names) > _CELLS or not looks_heavy.any():
            return None
        if not (is_first & looks_heavy).any():
            return self.last
        found = self._known(names.tobytes(), is_first.tobytes())
        self.last = found or self.last
        return found

    def _unroll(self, names_key: bytes, first_key: bytes) -> Unrolled | None:
        rows, names, is_first = self.rows, np.frombuffer(names_key, np.int64), np.frombuffer(first_key, bool)
        looks_heavy = rows.looks_heavy[names]
        heavy_rows = np.flatnonzero(rows.is_heavy)
        once = np.flatnonzero(looks_heavy & is_first)
        columns, found, _ = cheapest_walk(rows, heavy_rows, names[once])
        place = np.sort(np.unique(found, return_index=True)[1])
        if len(place) < _EXPLAINED * len(once):
            return None
        first_call = np.full(len(rows.symbol), -1, np.int64)
        first_call[heavy_rows[found[place]]] = once[columns[place]]
        is_known = _is_known(rows, names[once], columns[place], heavy_rows[found[place]])
        begin = _begin(rows, names, first_call)
        every = np.arange(len(rows.symbol))
        anchored = (first_call, looks_heavy & is_first)
        columns, taken, is_guess = cheapest_walk(rows, every, names, anchored, begin=begin)
        late_columns, late, _ = cheapest_walk(rows, every, names, anchored, begin=begin, latest=True)
        repeated = np.ones(len(taken), bool)
        repeated[np.unique(taken, return_index=True)[1]] = False
        keep = ~(repeated & rows.is_heavy[taken] & (first_call[taken] < 0))
        keep &= _in_place(rows, taken, is_guess)
        if np.count_nonzero(looks_heavy[columns[keep]]) < _EXPLAINED * np.count_nonzero(looks_heavy[begin:]):
            return None
        is_guess |= _is_new_way(rows, names, columns, taken, repeated)
        is_same = np.isin(columns * len(every) + taken, late_columns * len(every) + late)
        is_same &= is_known[taken]
        is_same[1:] &= (np.diff(taken) > 0) | ~self._beside_unknown[taken[:-1]]
        return self._with_written_out(Unrolled(taken[keep], (is_same & ~is_guess)[keep]))

    def _with_written_out(self, walk: Unrolled) -> Unrolled:
        """Add the rows that were left out of the walk: between two rows, or beside both where the walk jumps."""
        heavy = np.concatenate(([0], np.cumsum(self.rows.is_heavy)))
        borders = np.concatenate(([-1], self._walked, [self._count]))
        rows = self._walked[walk.rows]
        taken = [np.arange(borders[walk.rows[0]] + 1, rows[0] + 1)]
        for here, there in pairwise(walk.rows.tolist()):
            if here < there and heavy[here + 1] == heavy[there]:  # no module with parameters is left out
                between = np.arange(self._walked[here] + 1, self._walked[there])
                taken.append(np.append(np.setdiff1d(between, self._walked), self._walked[there]))
            else:
                taken.append(np.arange(self._walked[here] + 1, borders[here + 2]))
                taken.append(np.arange(borders[there] + 1, self._walked[there] + 1))
        taken.append(np.arange(rows[-1] + 1, borders[walk.rows[-1] + 2]))
        every = np.concatenate(taken)
        sure = np.ones(len(every), bool)
        sure[np.isin(every, self._walked)] = walk.is_sure
        return Unrolled(every, sure)


def _is_known(rows: Rows, names: NameCodes, columns: ColumnIndices, found: RowIndices) -> Flags:
    """By row: whether its first call has only one possible place, as first calls come in the order of the list."""
    first, last = range_of_columns(rows, names, np.ones(len(names), bool), columns, found)
    answer = np.ones(len(rows.symbol), bool)
    answer[found] = first == last
    return answer


def _in_place(rows: Rows, taken: RowIndices, is_guess: Flags) -> Flags:
    """True for rows of a walk that are no guess, or that lie in the innermost module around those before and after."""
    answer = ~is_guess
    known = np.flatnonzero(~is_guess)
    for guess in np.flatnonzero(is_guess[: known[-1]]).tolist():  # guesses behind it are no part of the model
        after = int(np.searchsorted(known, guess))
        around = known[max(0, after - 1)], known[after]
        answer[guess] = rows.is_inside(*(ModuleId(int(rows.module[taken[row]])) for row in (*around, guess)))
    return answer


def _is_new_way(rows: Rows, names: NameCodes, columns: ColumnIndices, taken: RowIndices, repeated: Flags) -> Flags:
    """True for later calls of modules with parameters whose op fits several, and whose way no call has come before."""
    heavy_columns = np.flatnonzero(rows.looks_heavy[names])
    before = np.append(-1, heavy_columns[:-1])
    begins = dict(zip(heavy_columns.tolist(), before.tolist(), strict=True))
    fitting = (rows.aligner.weights[rows.symbol[rows.is_heavy]] >= MAIN).sum(axis=0)
    seen: set[tuple[int, bytes]] = set()
    answer = np.zeros(len(taken), bool)
    for at in np.flatnonzero(rows.is_heavy[taken]).tolist():
        column = int(columns[at])
        way = int(taken[at]), names[begins.get(column, column) + 1 : column].tobytes()
        answer[at] = repeated[at] and fitting[names[column]] > 1 and way not in seen
        seen.add(way)
    return answer


def _begin(rows: Rows, names: NameCodes, first_call: ColumnIndices) -> ColumnIndex:
    """The column at which the pass with a backward begins: passes without gradients may come before it."""
    heavy_columns = np.flatnonzero(rows.looks_heavy[names])
    row = int(np.flatnonzero(first_call >= 0)[np.argmin(first_call[first_call >= 0])])
    frozen = int(np.count_nonzero(rows.is_heavy[:row] & (first_call[:row] < 0)))
    before = int(np.searchsorted(heavy_columns, first_call[row])) - frozen
    return ColumnIndex(int(heavy_columns[before - 1]) + 1 if before > 0 else 0)
