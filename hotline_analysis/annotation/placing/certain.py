"""Find the matches with only one possible place, even if the list of modules is incomplete.

The alignment prefers neighbours. This is right for a complete list, in which consecutive parts are neighbours. In an
incomplete list, the same preference draws other modules to the ops of the missing modules. A module with parameters is
therefore only certain if the order alone leaves a single place: its column stays the same if all matches move as far as
possible to the front, and then to the back. The check looks at each row and column once, and covers all passes in a row
of ops.
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
    """Matches in a row of ops, in order: `number` is the pass, and `is_sure` means that no other place is as good."""

    column: ColumnIndices
    row: RowIndices
    number: PassNumbers
    is_sure: Flags


def surely_placed(rows: Rows, names: NameCodes, is_first: Flags, matches: Matches, *, repeats: bool) -> Flags:
    """True for an unambiguous match.

    No other column fits it, or the alternatives are plain functions and every nearby layer is matched. If the rows
    contain `repeats` found by their ops, an unambiguous place alone is not enough for a module without parameters.
    """
    column, row = matches.column, matches.row
    width = int(rows.call.max(initial=0)) + 1
    of_call = (matches.number * (int(rows.module.max(initial=0)) + 1) + rows.module[row]) * width + rows.call[row]
    call = np.unique(of_call, return_inverse=True)[1].reshape(-1)
    fixed = np.flatnonzero(~rows.is_optional[row])
    earliest, latest = column.copy(), column.copy()
    earliest[fixed], latest[fixed] = range_of_columns(rows, names, is_first, column[fixed], row[fixed])
    is_pinned = np.zeros(len(row), bool)
    is_pinned[fixed] = ~_has_rival(rows, names, matches, fixed)
    is_pinned &= _is_among_own(rows, names, column, call, earliest, latest)
    is_pinned &= matches.is_sure
    is_heavy = rows.is_heavy[row]
    # An optional part, or a part of a hand-written module, is as certain as the other parts of its call.
    is_part = ~is_heavy & (rows.is_optional | rows.is_written_out())[row]
    is_anchor = is_heavy | (is_part & ~rows.is_optional[row])
    is_part &= np.bincount(call, is_anchor)[call] > 0
    has_pin = np.bincount(call, is_pinned & is_anchor)[call] > 0
    is_settled = np.where(is_heavy, is_pinned, is_part & has_pin)
    is_open = rows.looks_heavy[names]
    is_open[column[is_settled]] = False
    complete = ~_has_any(is_open, np.where(is_heavy, earliest, -1), np.where(is_heavy, latest, len(names)))
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
    """True if all layer-like ops between a match's first and last place belong to the match's call."""
    owner = np.full(len(names), -1, np.int64)
    owner[where] = call
    looks_heavy = rows.looks_heavy[names]
    answer: Flags = earliest == latest
    heavy = np.concatenate(([0], np.cumsum(looks_heavy)))
    few = heavy[latest + 1] - heavy[earliest] <= np.bincount(call)[call]  # no more than the call has matches
    for match in np.flatnonzero(~answer & looks_heavy[where] & few).tolist():
        columns = earliest[match] + np.flatnonzero(looks_heavy[earliest[match] : latest[match] + 1])
        answer[match] = bool((owner[columns] == call[match]).all())
    return answer


def range_of_columns(
    rows: Rows, names: NameCodes, is_first: Flags, where: ColumnIndices, row: RowIndices
) -> tuple[ColumnIndices, ColumnIndices]:
    """First and last possible column of each match, if the same rows are matched with ops that fit as well.

    An op that uses a parameter for the first time is only compared with other first uses.
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
    """True if another row could have the op, given that the same ops are matched with rows that fit as well."""
    weights, row, name = rows.aligner.weights, matches.row[fixed], names[matches.column[fixed]]
    kinds, kind = np.unique(np.stack((name, weights[rows.symbol[row], name])), axis=1, return_inverse=True)
    begins = len(rows.symbol) * np.arange(int(matches.number.max(initial=0)) + 1)[:, None]
    fitting = [
        (np.flatnonzero(weights[rows.symbol, op_name] >= least) + begins).reshape(-1)
        for op_name, least in kinds.T.tolist()
    ]
    first, last = range_in_order(kind.reshape(-1), fitting, begins.size * len(rows.symbol))
    answer: Flags = first != last
    return answer


def range_in_order(kinds: Integers, fitting: list[Integers], count: int) -> tuple[Integers, Integers]:
    """First and last possible place of each element of a sequence, if all elements keep their order.

    `kinds` has the kind of each element, `fitting` the sorted places that fit each kind, and `count` is the number of
    places.
    """
    first = _earliest(kinds, fitting)
    last = count - 1 - _earliest(kinds[::-1], [count - 1 - places[::-1] for places in fitting])[::-1]
    return first, last


def _earliest(kinds: Integers, fitting: list[Integers]) -> Integers:
    """For each element, the first fitting place after the previous element's place."""
    places = [choices.tolist() for choices in fitting]
    first_places = np.empty(len(kinds), np.int64)
    place = -1
    for number, kind in enumerate(kinds.tolist()):
        place = places[kind][bisect_right(places[kind], place)]
        first_places[number] = place
    return first_places


def _has_any(left: Flags, earliest: ColumnIndices, latest: ColumnIndices) -> Flags:
    """True if an op is left between the first place of the previous match and the last place of the next match."""
    count = np.concatenate(([0], np.cumsum(left)))
    begin = np.maximum.accumulate(np.maximum(earliest, 0))
    end = np.minimum.accumulate(np.minimum(latest + 1, len(left))[::-1])[::-1]
    answer: Flags = count[end] > count[begin]
    return answer
