"""Which matches could stand nowhere else, even if the list of modules is not complete.

The alignment prefers neighbours, which is right for a complete list, where each part stands beside the next. In a list
that lacks layers, the same preference draws other modules to the ops of the missing ones. So a module with parameters
is only sure where the order alone leaves it no other place: if all matches are moved to the front as far as possible,
and then to the back, its column stays the same. That takes one look at each row and column, and holds over all passes
in a row of ops.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

import numpy as np

from hotline_analysis.annotation.placing.indices import (
    CallNumbers,
    ColumnIndices,
    Integers,
    NameCodes,
    PassNumbers,
    RowIndices,
)
from hotline_analysis.annotation.placing.rows import Flags, Rows


@dataclass(frozen=True)
class Matches:
    """Matches in a row of ops, in order: `number` is that of the pass, and `is_sure` says that no place is as good."""

    column: ColumnIndices
    row: RowIndices
    number: PassNumbers
    is_sure: Flags


def surely_placed(rows: Rows, names: NameCodes, is_first: Flags, matches: Matches, *, repeats: bool) -> Flags:
    """True where a match is unambiguous.

    No other column fits it, or the alternatives are plain functions and every layer nearby is matched. Where the rows
    have `repeats`, which were found by their ops, the place of a module without parameters is not enough to be sure.
    """
    where, row = matches.column, matches.row
    width = int(rows.call.max(initial=0)) + 1
    of_call = (matches.number * (int(rows.module.max(initial=0)) + 1) + rows.module[row]) * width + rows.call[row]
    call = np.unique(of_call, return_inverse=True)[1].reshape(-1)
    fixed = np.flatnonzero(~rows.is_optional[row])
    earliest, latest = where.copy(), where.copy()
    earliest[fixed], latest[fixed] = range_of_columns(rows, names, is_first, where[fixed], row[fixed])
    is_pinned = np.zeros(len(row), bool)
    is_pinned[fixed] = ~_has_rival(rows, names, matches, fixed)
    is_pinned &= _is_among_own(rows, names, where, call, earliest, latest)
    is_pinned &= matches.is_sure
    is_heavy = rows.is_heavy[row]
    # An optional part, or a part of a hand-written module, is as sure as the other parts of its call.
    is_part = ~is_heavy & (rows.is_optional | rows.is_written_out())[row]
    is_anchor = is_heavy | (is_part & ~rows.is_optional[row])
    is_part &= np.bincount(call, is_anchor)[call] > 0
    has_pin = np.bincount(call, is_pinned & is_anchor)[call] > 0
    is_settled = np.where(is_heavy, is_pinned, is_part & has_pin)
    left = rows.looks_heavy[names]
    left[where[is_settled]] = False
    complete = ~_has_any(left, np.where(is_heavy, earliest, -1), np.where(is_heavy, latest, len(names)))
    is_light_sure = complete if repeats else complete | is_pinned
    answer: Flags = np.where(is_heavy | is_part, is_settled, is_light_sure)
    return answer & matches.is_sure


def _is_among_own(
    rows: Rows,
    names: NameCodes,
    where: ColumnIndices,
    call: CallNumbers,
    earliest: ColumnIndices,
    latest: ColumnIndices,
) -> Flags:
    """True where all ops like layers between the first and the last place of a match belong to its call."""
    owner = np.full(len(names), -1, np.int64)
    owner[where] = call
    looks_heavy = rows.looks_heavy[names]
    answer: Flags = earliest == latest
    heavy = np.concatenate(([0], np.cumsum(looks_heavy)))
    few = heavy[latest + 1] - heavy[earliest] <= np.bincount(call)[call]  # no more than the call has matches
    for match in np.flatnonzero(~answer & looks_heavy[where] & few).tolist():
        between = earliest[match] + np.flatnonzero(looks_heavy[earliest[match] : latest[match] + 1])
        answer[match] = bool((owner[between] == call[match]).all())
    return answer


def range_of_columns(
    rows: Rows, names: NameCodes, is_first: Flags, where: ColumnIndices, row: RowIndices
) -> tuple[ColumnIndices, ColumnIndices]:
    """The first and the last column that each match can have, if the same rows are matched with ops that fit as well.

    An op that uses a parameter for the first time is only compared with other such ops.
    """
    weights = rows.aligner.weights
    kinds, kind = np.unique(
        np.stack((rows.symbol[row], weights[rows.symbol[row], names[where]], is_first[where])),
        axis=1,
        return_inverse=True,
    )
    fitting = [
        np.flatnonzero((weights[symbol, names] >= least) & (is_first | (first == 0)))
        for symbol, least, first in kinds.T.tolist()
    ]
    return range_in_order(kind.reshape(-1), fitting, len(names))


def _has_rival(rows: Rows, names: NameCodes, matches: Matches, fixed: Integers) -> Flags:
    """True where another row could have the op, if the same ops are matched with rows that fit as well."""
    weights, row, name = rows.aligner.weights, matches.row[fixed], names[matches.column[fixed]]
    kinds, kind = np.unique(np.stack((name, weights[rows.symbol[row], name])), axis=1, return_inverse=True)
    begins = len(rows.symbol) * np.arange(int(matches.number.max(initial=0)) + 1)[:, None]
    fitting = [
        (np.flatnonzero(weights[rows.symbol, one] >= least) + begins).reshape(-1) for one, least in kinds.T.tolist()
    ]
    first, last = range_in_order(kind.reshape(-1), fitting, begins.size * len(rows.symbol))
    answer: Flags = first != last
    return answer


def range_in_order(kinds: Integers, fitting: list[Integers], count: int) -> tuple[Integers, Integers]:
    """Where a sequence of kinds can stand in order: the first and the last place of each, given the places that fit."""
    first = _earliest(kinds, fitting)
    last = count - 1 - _earliest(kinds[::-1], [count - 1 - places[::-1] for places in fitting])[::-1]
    return first, last


def _earliest(kinds: Integers, fitting: list[Integers]) -> Integers:
    """The place of each: the first one that fits after the place of the one before."""
    places = [where.tolist() for where in fitting]
    found = np.empty(len(kinds), np.int64)
    at = -1
    for number, kind in enumerate(kinds.tolist()):
        at = places[kind][bisect_right(places[kind], at)]
        found[number] = at
    return found


def _has_any(left: Flags, earliest: ColumnIndices, latest: ColumnIndices) -> Flags:
    """True where an op is left between the first place of the match before and the last place of the match after."""
    count = np.concatenate(([0], np.cumsum(left)))
    begin = np.maximum.accumulate(np.maximum(earliest, 0))
    end = np.minimum.accumulate(np.minimum(latest + 1, len(left))[::-1])[::-1]
    answer: Flags = count[end] > count[begin]
    return answer
