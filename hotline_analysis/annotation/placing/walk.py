"""The walk of a pass through the model: the row of each op, where modules may run again and the walk may go back."""

from __future__ import annotations

import numpy as np

from hotline_analysis.annotation.placing.indices import (
    FIRST_COLUMN,
    ChosenIndices,
    ColumnIndex,
    ColumnIndices,
    Integers,
    ModuleId,
    NameCodes,
    RowIndices,
    WalkKeys,
    WalkScores,
)
from hotline_analysis.annotation.placing.rows import MAIN, Flags, Rows

_FITS = 2  # factor on the weight of a match
_SKIP = 2  # cost of skipping modules, and cost per skipped module with parameters
_MANY = 10  # maximum cost of skipping modules
_BACK = 6  # cost of going back to an earlier module
# discount for looping from a container's end to its start; two loops cost as much as one jump back plus one forward
_TURN = 3
_INSIDE = 4  # extra cost of leaving a module before its last part with parameters, or of entering it after the first
_UNLIKE = 8  # cost of continuing over ops that led to another module before this module's first call
_LIGHT = 4  # maximum score of an op explained by a module without parameters, because a function may explain it as well
_GUESSED = 2  # score of an op explained by a repeated call of such a module
_RARELY = 40  # cost of going back if every module runs once: more than two layers have to fit
_SURELY = 1000  # factor on the weight of a first call
_NEVER = -(10**9)


def called_again(rows: Rows) -> RowIndices:
    """By row and op name: the row without parameters that an op after the row may call again, or -1.

    This is the row itself or an earlier row in the innermost container around the row that lists a fitting row,
    provided that only one row there fits. In a `Sequential`, the op must follow immediately, because nothing runs
    between the modules.
    """
    count = len(rows.symbol)
    rows_of: dict[int, list[int]] = {}
    written_out = rows.is_written_out()
    for row in range(count) if not rows.is_learned else ():
        if not rows.is_heavy[row] and not written_out[row]:
            rows_of.setdefault(int(rows.parent[rows.module[row]]), []).append(row)
    answer = np.full((count, rows.aligner.weights.shape[1]), -1, np.int64)
    fits = rows.aligner.weights >= MAIN
    for row in range(count) if rows_of else ():
        container = int(rows.parent[rows.module[row]])
        is_settled = np.zeros(answer.shape[1], bool)
        while True:
            earlier_rows = [other for other in rows_of.get(container, ()) if other <= row]
            if earlier_rows:
                fitting = fits[rows.symbol[earlier_rows]]
                number = fitting.sum(axis=0)
                answer[row] = np.where(
                    ~is_settled & (number == 1), np.array(earlier_rows)[fitting.argmax(axis=0)], answer[row]
                )
                is_settled |= number > 0
            if container < 0:
                break
            container = int(rows.parent[container])
    return answer


def cheapest_walk(
    rows: Rows,
    chosen: RowIndices,
    names: NameCodes,
    anchored: tuple[ColumnIndices, Flags] | None = None,
    *,
    begin: ColumnIndex = FIRST_COLUMN,
    latest: bool = False,
) -> tuple[ColumnIndices, ChosenIndices, Flags]:
    """The cheapest walk over `chosen` rows that explains the ops: matched columns, their rows, and flags for guesses.

    This is the classic search for the best sequence of states (Viterbi, 1967). The state is the row matched last.
    Moving on to the next row is free, skipping rows costs something, and going back costs more. Among equally good
    walks, the search takes the walk that moves on as early as possible, or, with `latest`, as late as possible.
    `anchored` has the column of the first call of each row, and flags for the columns of first calls. Without
    `anchored`, every module runs once.
    """
    back_costs = np.full(len(chosen), _RARELY)
    if anchored:
        # modules without a gradient are frozen or share another module's parameters; assume that they run once
        back_costs[~rows.is_heavy | (anchored[0] >= 0)] = _BACK
    best = _Best(rows, chosen, back_costs, latest)
    weights = rows.aligner.weights[rows.symbol[chosen]] * _FITS
    again_rows = called_again(rows) if anchored else np.full((0, weights.shape[1]), -1)
    weights_of_name = {int(name): weights[:, name].astype(np.int64) for name in np.unique(names)}
    number, is_heavy = np.arange(len(chosen)), rows.is_heavy[chosen]
    is_light = ~np.isin(rows.module, rows.module[rows.is_heavy])[chosen]
    ways = _Ways(names, rows.looks_heavy[names], anchored[0][chosen]) if anchored else None
    for column in map(ColumnIndex, range(begin, len(names))):
        name = int(names[column])
        weight = weights_of_name[name]
        if anchored:
            weight = np.where(is_light, np.minimum(weight, _LIGHT), weight)
            first_call, is_first = anchored
            if is_first[column]:
                weight = np.where(is_heavy, (first_call == column) * _SURELY, 1) * weight
            else:
                weight = weight * (~is_heavy | (rows.looks_heavy[name] & (first_call < column)))
        fits = number[weight > 0]
        if len(fits):
            onward, back_again = ways.cost(column, fits) if ways else (fits * 0, fits * 0)
            best.match(column, fits, weight[fits], again_rows[:, name], onward, back_again)
    return best.walk()


def _turns(rows: Rows, chosen: RowIndices) -> tuple[ChosenIndices, Integers, Integers]:
    """Where modules end and start: rows of all ends, offset of each module's ends, and modules starting at each row.

    A module ends at or after its last row with parameters, and starts at or before its first. The number of modules is
    the padding value.
    """
    rows_of: dict[ModuleId, list[int]] = {}
    for row, module in enumerate(rows.module[chosen].tolist()):
        for container in rows.upwards(module):
            rows_of.setdefault(container, []).append(row)
    ends: list[list[int]] = []
    starts: list[list[int]] = [[] for _ in chosen]
    for numbers in rows_of.values():
        heavy_rows = [row for row in numbers if rows.is_heavy[chosen[row]]]
        if len(heavy_rows) > 1:  # a single row that runs again is weak evidence
            for row in numbers:
                if row <= heavy_rows[0]:
                    starts[row].append(len(ends))
            ends.append([row for row in numbers if row >= heavy_rows[-1]])
    ends = ends or [[0]]
    width = max(1, max(map(len, starts), default=1))
    padded = [[*numbers, *[len(ends)] * (width - len(numbers))] for numbers in starts]
    sizes = np.array([len(numbers) for numbers in ends])
    return np.concatenate(ends).astype(np.int64), np.cumsum(sizes) - sizes, np.array(padded, np.int64)


class _Ways:
    """Way: the ops between two ops that look like modules with parameters. The way to a module is the same each time.

    In nested loops, the way shows which loop continues: a way that led to other modules before a module's first call
    leads to the other modules afterwards, too.
    """

    def __init__(self, names: NameCodes, looks_heavy: Flags, first_call: ColumnIndices) -> None:
        number: dict[bytes, int] = {}
        columns = np.flatnonzero(looks_heavy)
        self.way = np.full(len(names), -1, np.int64)
        for column, previous in zip(columns.tolist(), [-1, *columns[:-1].tolist()], strict=True):
            self.way[column] = number.setdefault(names[previous + 1 : column].tobytes(), len(number))
        self.seen = np.full(len(number) + 1, len(names), np.int64)  # the last element is for ops without a way
        np.minimum.at(self.seen, self.way[columns], columns)
        self.first_call = first_call
        self.known = np.where(first_call >= 0, self.way[first_call], -1)
        self.leads = np.isin(np.arange(len(number) + 1), self.known)  # to a first call

    def cost(self, column: ColumnIndex, rows: ChosenIndices) -> tuple[WalkScores, WalkScores]:
        """By row: the cost of moving forward to it at this column, and of going back, if the way leads elsewhere."""
        way = int(self.way[column])
        is_other = self.known[rows] != way
        return _UNLIKE * (is_other & (self.seen[way] < self.first_call[rows])), _SKIP * (is_other & self.leads[way])


class _Best:
    """The best walks so far by their last row, and all matches that belong to a walk."""

    def __init__(self, rows: Rows, chosen: RowIndices, back: WalkScores, latest: bool) -> None:
        parent, is_heavy = rows.parent[rows.module[chosen]], rows.is_heavy[chosen]
        count = len(parent)
        self.back, self.latest = back, latest
        self.score = np.full(count, _NEVER, np.int64)
        self.node = np.full(count, -1, np.int64)  # the last match of each walk
        self.column = np.full(count, -1, np.int64)  # and its column
        self.in_sequence = rows.in_sequence[chosen]
        # column, row, previous match, whether it is a guess
        self.matches: list[tuple[ColumnIndices, ChosenIndices, Integers, Flags]] = []
        self.made = 0
        self.rank = np.arange(count) if latest else np.arange(count)[::-1].copy()  # tie-breaker among equal scores
        self.passed = np.cumsum(is_heavy)  # cumulative count of rows with parameters
        self.order = np.argsort(parent, kind="stable")
        _, self.begin, of_sorted = np.unique(parent[self.order], return_index=True, return_inverse=True)
        self.group = np.empty(count, np.int64)
        self.group[self.order] = of_sorted
        # modules without parameters may be anywhere in their container
        self.enters = np.where(is_heavy, _INSIDE, 0)
        self.leaves = self.enters.copy()
        heavy_rows = self.order[is_heavy[self.order]]
        _, first = np.unique(self.group[heavy_rows], return_index=True)
        _, last = np.unique(self.group[heavy_rows][::-1], return_index=True)
        last_heavy = np.full(len(self.begin), -1, np.int64)
        last_heavy[self.group[heavy_rows]] = heavy_rows
        self.unfinished = np.where(self.in_sequence & (last_heavy[self.group] > np.arange(count)), _BACK, 0)
        self.enters[heavy_rows[first]] = 0
        self.leaves[heavy_rows[::-1][last]] = 0
        # in a `Sequential`, the other rows run after the first
        self.middle = np.where(self.in_sequence, _BACK, 0)
        self.middle[self.order[self.begin]] = 0
        self.enters += self.middle
        self.turning = np.where(back == _BACK, back - _TURN, back)
        self.ends, self.end_of, self.turns = _turns(rows, chosen)
        is_beside = np.append(
            False, parent[1:] == parent[:-1]
        )  # a previous sibling may run more ops after its last part
        self.apart = np.where(is_beside & ~is_heavy, self.middle, 0) * 2
        self.lacking = np.where(np.append(False, is_heavy[:-1]), self.middle, 0)

    def match(
        self,
        column: ColumnIndex,
        rows: ChosenIndices,
        weight: WalkScores,
        again: ChosenIndices,
        onward: WalkScores,
        back_again: WalkScores,
    ) -> None:
        """Extend the walks to `rows` at this column where this is better; other walks stay unchanged.

        `onward` is the cost of reaching each row from an earlier row, and `back_again` the cost from a later row.
        """
        never = _NEVER * len(self.score)
        key = self._pack(self.score)
        skipping = self._pack(self.score - self.unfinished)
        leading = np.maximum.accumulate(skipping)
        passing = np.maximum.accumulate(self._pack(self.score - self.unfinished + self.passed * _SKIP))
        returning = self.score - self.back
        sibling = self._pack(returning)
        siblings = np.maximum.reduceat(sibling[self.order], self.begin)[self.group]
        ended = self._pack(self.score - self.turning)
        turned = np.append(np.maximum.reduceat(ended[self.ends], self.end_of), never)
        left = returning - self.leaves
        leaving = int(self._pack(left).argmax())
        two_before = np.maximum(rows - 2, 0)
        going_on, row_before = self._unpack(np.where(rows > 0, key[rows - 1], never))
        leaving_few, row_before_few = self._unpack(np.where(rows > 1, passing[two_before], never))
        leaving_out, row_before_many = self._unpack(np.where(rows > 1, leading[two_before], never))
        turning, row_of_end = self._unpack(turned[self.turns[rows]].max(axis=1))
        beside, row_beside = self._unpack(siblings[rows])
        scores = (
            np.where(rows > 0, -_SKIP, 0) - self.lacking[rows],
            going_on - onward - self.apart[rows] * (self.column[rows - 1] != column - 1),
            leaving_few - self.passed[rows - 1] * _SKIP - _SKIP - onward - self.lacking[rows],
            leaving_out - _MANY - onward - self.lacking[rows],
            turning - back_again,
            beside - self.middle[rows] - np.where(row_beside < rows, onward, back_again),
            left[leaving] - self.enters[rows] - np.where(leaving < rows, onward, back_again),
        )
        nodes = (
            np.full(len(rows), -1),
            self.node[row_before],
            self.node[row_before_few],
            self.node[row_before_many],
            self.node[row_of_end],
            self.node[row_beside],
            np.full(len(rows), self.node[leaving]),
        )
        stacked = np.stack(scores[::-1] if self.latest else scores)
        choice = stacked.argmax(axis=0)
        chain = np.stack(nodes[::-1] if self.latest else nodes)[choice, np.arange(len(rows))]
        score = stacked[choice, np.arange(len(rows))] + weight
        staying = np.flatnonzero((again >= 0) & (self.score > 0)) if len(again) else rows[:0]
        staying = staying[~self.in_sequence[again[staying]] | (self.column[staying] == column - 1)]
        self._keep(column, staying, again[staying], self.score[staying] + _GUESSED, self.node[staying], True)
        is_better = score >= self.score[rows] if self.latest else score > self.score[rows]
        self._keep(column, rows[is_better], rows[is_better], score[is_better], chain[is_better], False)

    def _keep(
        self,
        column: ColumnIndex,
        ends: ChosenIndices,
        rows: ChosenIndices,
        score: WalkScores,
        before: Integers,
        guess: bool,
    ) -> None:
        self.matches.append((np.full(len(ends), column), rows, before, np.full(len(ends), guess)))
        self.score[ends] = score
        self.column[ends] = column
        self.node[ends] = self.made + np.arange(len(ends))
        self.made += len(ends)

    def _pack(self, score: WalkScores) -> WalkKeys:
        """Pack the score of each row and the row's rank into one number, so a maximum also identifies the row.

        The score counts first; the rank, which is less than the number of rows, breaks ties.
        """
        return score * len(self.score) + self.rank

    def _unpack(self, key: WalkKeys) -> tuple[WalkScores, ChosenIndices]:
        """Unpack scores, possibly maxima of several, and the row of each."""
        score, rank = np.divmod(key, len(self.score))
        return score, rank if self.latest else len(self.score) - 1 - rank

    def walk(self) -> tuple[ColumnIndices, ChosenIndices, Flags]:
        """Columns and rows of the best walk, and flags for guesses."""
        if not self.made:
            return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, bool)
        column, row, previous, guess = (np.concatenate(part) for part in zip(*self.matches, strict=True))
        path = []
        rows_left = self.passed[-1] - self.passed + (np.arange(len(self.score)) < len(self.score) - 1)
        score = self.score - np.maximum(np.minimum(rows_left * _SKIP, _MANY) - 1, 0)  # less than skipping on the way
        node = int(self.node[int(self._pack(score).argmax())])
        while node >= 0:
            path.append(node)
            node = int(previous[node])
        return column[path[::-1]], row[path[::-1]], guess[path[::-1]]
