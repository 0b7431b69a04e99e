"""Unroll modules that are listed once but run several times: repeat the rows of a model as often as the trace shows.

Two facts distinguish a repeated call from another module of the same kind. First, a recurrent cell is called once per
time step. Second, a backward pass accumulates a parameter's gradient once, however often the parameter was used: right
after the node of the first use, which runs last. An op whose node is followed by a gradient accumulation is therefore
the first call of a module with parameters. Any other op of the same name is a later call, or frozen.
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

_EXPLAINED = 0.75  # minimum share of the first calls explained by modules of the model
_CELLS = 5_000_000  # maximum rows × columns for the search for repeats


@dataclass(frozen=True)
class Unrolled:
    """Row numbers in execution order, and whether each position is unambiguous."""

    rows: RowIndices
    is_sure: Flags


def by_cells(rows: Rows, names: NameCodes, is_first: Flags, copies: int) -> Unrolled | None:
    """The rows, with the rows of a recurrent loop repeated; `None` without such a loop.

    A loop is only accepted if it contains a recurrent cell and explains all ops of modules with parameters, because
    layers of a larger model repeat, too. A loop may seem to begin and end at several places. First calls of modules
    show the right place; without first calls, rows in which the candidates differ are not certain.
    """
    heavy_rows = np.flatnonzero(rows.is_heavy)
    heavy_columns = np.flatnonzero(rows.looks_heavy[names]) if rows.is_cell.any() else names[:0]
    columns = names[heavy_columns]
    candidates: list[RowIndices] = []
    extra = len(columns) // copies - len(heavy_rows)
    if extra <= 0 or len(columns) % copies:
        return None
    fits = rows.aligner.weights >= MAIN
    for length in range(min(extra, len(heavy_rows)), 0, -1):
        if candidates and not is_first[heavy_columns].any():
            break  # the longest loop
        for first in range(len(heavy_rows) - length + 1) if extra % length == 0 else ():
            border = heavy_rows[first + length] if first + length < len(heavy_rows) else heavy_rows[-1] + 1
            block = np.arange(heavy_rows[first], border)
            if not rows.is_cell[block].any():
                continue
            times = extra // length + 1
            row_order = np.concatenate(
                (np.arange(block[0]), np.tile(block, times), np.arange(border, len(rows.symbol)))
            )
            symbols = np.tile(rows.symbol[row_order][rows.is_heavy[row_order]], copies)
            if fits[symbols, columns].all():
                candidates.append(row_order)
    if not candidates:
        return None
    order = np.stack([row_order[rows.is_heavy[row_order]] for row_order in candidates])
    begins = np.zeros(order.shape, bool)
    for number, calls in enumerate(order):
        begins[number, np.unique(calls, return_index=True)[1]] = True
    agree = np.count_nonzero(begins == is_first[heavy_columns[-order.shape[1] :]], axis=1)
    best = int(agree.argmax())
    lengths = np.array([np.count_nonzero(np.bincount(calls) > 1) for calls in order])
    is_sure = np.ones(len(candidates[best]), bool)
    rivals = (agree == agree[best]) & (lengths == lengths[best])
    is_sure[rows.is_heavy[candidates[best]]] = (order[rivals] == order[best]).all(axis=0)
    return Unrolled(candidates[best], is_sure)


class ByGradients:
    """Unroll rows by the first uses of parameters. Results are cached because the steps of a run are mostly alike."""

    def __init__(self, rows: Rows) -> None:
        # Ops of hand-written modules (mul, add) match anywhere, and are therefore placed together with the neighbours.
        self._walked = np.flatnonzero(~rows.is_written_out() & ~rows.is_whole)
        self._count = len(rows.symbol)
        self.rows = rows.take(self._walked)
        # If no op matches the type of a module, the module's ops may look like another call of the previous module.
        is_unknown = (np.count_nonzero(rows.aligner.weights, axis=1) == 0)[rows.symbol] & ~rows.is_optional
        self._beside_unknown = np.append(is_unknown[1:], False)[self._walked]
        self._known = lru_cache(maxsize=256)(self._unroll)
        self.last: Unrolled | None = None

    def unroll(self, names: NameCodes, is_first: Flags) -> Unrolled | None:
        """The rows in execution order in a stretch of ops; `None` if too little of the stretch is this model.

        Without a first use in the stretch, the last result is returned.
        """
        looks_heavy = self.rows.looks_heavy[names]
        if len(self.rows.symbol) * len(names) > _CELLS or not looks_heavy.any():
            return None
        if not (is_first & looks_heavy).any():
            return self.last
        unrolled = self._known(names.tobytes(), is_first.tobytes())
        self.last = unrolled or self.last
        return unrolled

    def _unroll(self, names_key: bytes, first_key: bytes) -> Unrolled | None:
        rows, names, is_first = self.rows, np.frombuffer(names_key, np.int64), np.frombuffer(first_key, bool)
        looks_heavy = rows.looks_heavy[names]
        heavy_rows = np.flatnonzero(rows.is_heavy)
        once = np.flatnonzero(looks_heavy & is_first)
        columns, chosen, _ = cheapest_walk(rows, heavy_rows, names[once])
        first_steps = np.sort(np.unique(chosen, return_index=True)[1])
        if len(first_steps) < _EXPLAINED * len(once):
            return None
        first_call = np.full(len(rows.symbol), -1, np.int64)
        first_call[heavy_rows[chosen[first_steps]]] = once[columns[first_steps]]
        is_known = _is_known(rows, names[once], columns[first_steps], heavy_rows[chosen[first_steps]])
        begin = _begin(rows, names, first_call)
        all_rows = np.arange(len(rows.symbol))
        anchored = (first_call, looks_heavy & is_first)
        columns, walk_rows, is_guess = cheapest_walk(rows, all_rows, names, anchored, begin=begin)
        late_columns, late_rows, _ = cheapest_walk(rows, all_rows, names, anchored, begin=begin, latest=True)
        is_repeat = np.ones(len(walk_rows), bool)
        is_repeat[np.unique(walk_rows, return_index=True)[1]] = False
        keep = ~(is_repeat & rows.is_heavy[walk_rows] & (first_call[walk_rows] < 0))
        keep &= _in_place(rows, walk_rows, is_guess)
        if np.count_nonzero(looks_heavy[columns[keep]]) < _EXPLAINED * np.count_nonzero(looks_heavy[begin:]):
            return None
        is_guess |= _is_new_way(rows, names, columns, walk_rows, is_repeat)
        is_same = np.isin(columns * len(all_rows) + walk_rows, late_columns * len(all_rows) + late_rows)
        is_same &= is_known[walk_rows]
        is_same[1:] &= (np.diff(walk_rows) > 0) | ~self._beside_unknown[walk_rows[:-1]]
        return self._with_written_out(Unrolled(walk_rows[keep], (is_same & ~is_guess)[keep]))

    def _with_written_out(self, walk: Unrolled) -> Unrolled:
        """Add the rows left out of the walk: between two rows, or next to both rows where the walk jumps."""
        heavy_count = np.concatenate(([0], np.cumsum(self.rows.is_heavy)))
        borders = np.concatenate(([-1], self._walked, [self._count]))
        rows = self._walked[walk.rows]
        pieces = [np.arange(borders[walk.rows[0]] + 1, rows[0] + 1)]
        for row, next_row in pairwise(walk.rows.tolist()):
            if row < next_row and heavy_count[row + 1] == heavy_count[next_row]:  # no module with parameters is skipped
                skipped_rows = np.arange(self._walked[row] + 1, self._walked[next_row])
                pieces.append(np.append(np.setdiff1d(skipped_rows, self._walked), self._walked[next_row]))
            else:
                pieces.append(np.arange(self._walked[row] + 1, borders[row + 2]))
                pieces.append(np.arange(borders[next_row] + 1, self._walked[next_row] + 1))
        pieces.append(np.arange(rows[-1] + 1, borders[walk.rows[-1] + 2]))
        all_rows = np.concatenate(pieces)
        sure = np.ones(len(all_rows), bool)
        sure[np.isin(all_rows, self._walked)] = walk.is_sure
        return Unrolled(all_rows, sure)


def _is_known(rows: Rows, names: NameCodes, columns: ColumnIndices, found: RowIndices) -> Flags:
    """By row: whether only one place is possible for its first call, given that first calls follow the list's order."""
    first, last = range_of_columns(rows, names, np.ones(len(names), bool), columns, found)
    answer = np.ones(len(rows.symbol), bool)
    answer[found] = first == last
    return answer


def _in_place(rows: Rows, taken: RowIndices, is_guess: Flags) -> Flags:
    """True for rows of a walk that are not guesses, or are in the innermost module around the known rows."""
    answer = ~is_guess
    known_steps = np.flatnonzero(~is_guess)
    for guess in np.flatnonzero(is_guess[: known_steps[-1]]).tolist():  # later guesses are outside the model
        next_known = int(np.searchsorted(known_steps, guess))
        neighbours = known_steps[max(0, next_known - 1)], known_steps[next_known]
        answer[guess] = rows.is_inside(*(ModuleId(int(rows.module[taken[row]])) for row in (*neighbours, guess)))
    return answer


def _is_new_way(rows: Rows, names: NameCodes, columns: ColumnIndices, taken: RowIndices, repeated: Flags) -> Flags:
    """True for repeated calls whose op fits several modules with parameters and whose way is new for this row."""
    heavy_columns = np.flatnonzero(rows.looks_heavy[names])
    previous = np.append(-1, heavy_columns[:-1])
    begins = dict(zip(heavy_columns.tolist(), previous.tolist(), strict=True))
    fitting = (rows.aligner.weights[rows.symbol[rows.is_heavy]] >= MAIN).sum(axis=0)
    ways: set[tuple[int, bytes]] = set()
    answer = np.zeros(len(taken), bool)
    for step in np.flatnonzero(rows.is_heavy[taken]).tolist():
        column = int(columns[step])
        way = int(taken[step]), names[begins.get(column, column) + 1 : column].tobytes()
        answer[step] = repeated[step] and fitting[names[column]] > 1 and way not in ways
        ways.add(way)
    return answer


def _begin(rows: Rows, names: NameCodes, first_call: ColumnIndices) -> ColumnIndex:
    """The column at which the pass with a backward begins. Passes without gradients may come before it."""
    heavy_columns = np.flatnonzero(rows.looks_heavy[names])
    row = int(np.flatnonzero(first_call >= 0)[np.argmin(first_call[first_call >= 0])])
    frozen = int(np.count_nonzero(rows.is_heavy[:row] & (first_call[:row] < 0)))
    heavy_number = int(np.searchsorted(heavy_columns, first_call[row])) - frozen
    return ColumnIndex(int(heavy_columns[heavy_number - 1]) + 1 if heavy_number > 0 else 0)
