"""Global alignment of two symbol sequences, with gaps on both sides: match rows to columns in order.

The algorithm is the classic dynamic programme (Needleman and Wunsch, 1970) with two additions. First, a pair of
consecutive rows matched to a pair of neighbouring columns scores a little more, so of two equally good alignments the
one with fewer interruptions wins. Second, the result has both the leftmost and the rightmost best alignment. Where the
two agree, a row has only one possible place.

Rows are computed one by one, each in a few vector operations over all columns. Choices are stored as bits, so a 10,000
× 10,000 problem takes about 60 MB and a second. Larger problems are cut into pieces with an overlap of half a piece, so
the time grows linearly with the length. Rows and columns further apart than a piece are then not compared.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Symbols = npt.NDArray[np.int64]

_NEIGHBOUR = 1  # bonus for a pair of neighbours; a match must score more
_WHOLE = 100_000_000  # maximum rows × columns of a problem solved in one piece
_PIECE = 1_000  # rows of a piece of a larger problem; half of them are kept
_WIDER = 2  # columns of a piece, as a multiple of its proportional share
_AT_LEAST = 1_000  # columns added to each piece
_NEARLY = 0.98  # of the score
_LAST = 20_000  # columns added to the last piece, because nothing follows it


@dataclass(frozen=True)
class Alignment:
    """The column matched with each row, or -1: in the leftmost and in the rightmost best alignment."""

    first: Symbols
    last: Symbols
    score: int
    nearly: int
    """Length of the shortest prefix of the columns with nearly the full score."""

    @property
    def found(self) -> int:
        """Number of matched rows."""
        return int(np.count_nonzero(self.first >= 0))


class Aligner:
    """Align with one table of weights and cache the results: the steps of a training run are mostly alike."""

    def __init__(self, weights: npt.NDArray[np.int32]) -> None:
        self.weights = weights
        self._known: dict[tuple[bytes, bytes], Alignment] = {}
        self._lengths: dict[tuple[bytes, bytes, bytes], int] = {}

    def align(self, rows: Symbols, columns: Symbols) -> Alignment:
        """Cached version of the function `align`."""
        key = rows.tobytes(), columns.tobytes()
        if key not in self._known:
            is_small = len(rows) * len(columns) <= _WHOLE
            self._known[key] = (align if is_small else align_in_pieces)(rows, columns, self.weights)
        return self._known[key]

    def enough_columns(self, rows: Symbols, columns: Symbols, is_counted: npt.NDArray[np.bool_]) -> int:
        """Shortest prefix of the columns in which the counted rows reach the same weight as in all columns."""
        key = rows.tobytes(), columns.tobytes(), is_counted.tobytes()
        if key not in self._lengths:
            choices = Choices(rows, columns, self.weights)

            def weight(length: int) -> int:
                matched = choices.first(length)
                hits = np.flatnonzero((matched >= 0) & is_counted)
                return int(self.weights[rows[hits], columns[matched[hits]]].sum())

            full_weight = weight(len(columns))
            low, high = 0, len(columns)
            while low < high:
                middle = (low + high) // 2
                low, high = (low, middle) if weight(middle) >= full_weight else (middle + 1, high)
            self._lengths[key] = high
            self._known[rows.tobytes(), columns[:high].tobytes()] = choices.alignment(high)
        return self._lengths[key]


def align(rows: Symbols, columns: Symbols, weights: npt.NDArray[np.int32], *, may_shift: bool = True) -> Alignment:
    """Align `rows` with `columns`; `weights[r, c]` is the score of row symbol r with column symbol c.

    Weights are 0 for symbols that do not match, and more than 1 for symbols that match. Time grows with rows × columns.
    With `may_shift=False`, the rightmost alignment may only use the columns of the leftmost.
    """
    return Choices(rows, columns, weights).alignment(len(columns), may_shift=may_shift)


class Choices:
    """All choices of the dynamic programme, from which the alignment with any prefix of the columns follows.

    A choice depends only on earlier columns. A run of columns that match no row is compared once, because a run of any
    length scores nothing and separates neighbours.
    """

    def __init__(self, rows: Symbols, columns: Symbols, weights: npt.NDArray[np.int32]) -> None:
        self._height = len(rows)
        matching: npt.NDArray[np.bool_] = weights[np.unique(rows)].any(axis=0).reshape(-1)[columns]
        is_kept = matching.copy()
        is_kept[:1] = True
        is_kept[1:] |= matching[:-1]
        self._columns = np.flatnonzero(is_kept)
        columns = columns[self._columns]
        height, width = self._height, len(columns)
        stride = (width + 7) // 8
        from_left, from_above, matches, follows, may_follow = (np.zeros((height, stride), np.uint8) for _ in range(5))
        by_symbol = weights[:, columns]
        # Column 0 of each array represents the empty prefix.
        best = np.zeros(width + 1, np.int32)
        matched = np.full(width + 1, -1, np.int32)
        for row in range(height if width else 0):
            weight = by_symbol[rows[row]]
            plain, joined = best[:-1], matched[:-1] + _NEIGHBOUR
            follow = joined > plain
            match_score = np.where(weight > 0, np.where(follow, joined, plain) + weight, -1).astype(np.int32)
            new_best = np.maximum(best[1:], match_score)
            np.maximum.accumulate(new_best, out=new_best)
            left_best = np.concatenate(([0], new_best[:-1]))
            from_left[row] = np.packbits(new_best == left_best)
            from_above[row] = np.packbits(new_best == best[1:])
            matches[row] = np.packbits(new_best == match_score)
            follows[row] = np.packbits(follow)
            may_follow[row] = np.packbits((joined >= plain) & (joined > 0))
            best[1:] = new_best
            matched[1:] = match_score
            matched[0] = -1
        self._best = best
        self._leftmost = _Bits(from_left, from_above, matches, follows)
        self._rightmost = _Bits(from_left, from_above, matches, may_follow)

    def first(self, length: int) -> Symbols:
        """The leftmost best alignment with the first `length` columns."""
        return self._in_all_columns(_trace(self._leftmost, self._height, self._width(length), leftmost=True))

    def alignment(self, length: int, *, may_shift: bool = True) -> Alignment:
        """The alignment with the first `length` columns."""
        width = self._width(length)
        first = _trace(self._leftmost, self._height, width, leftmost=True)
        end = width if may_shift else int(first.max(initial=-1)) + 1
        last = _trace(self._rightmost, self._height, end, leftmost=False)
        best = self._best[: width + 1]
        nearly = int(np.argmax(best >= _NEARLY * best[-1]))
        nearly = int(self._columns[nearly - 1]) + 1 if nearly else 0
        return Alignment(self._in_all_columns(first), self._in_all_columns(last), int(best[-1]), nearly)

    def _width(self, length: int) -> int:
        """Number of compared columns among the first `length` columns."""
        return int(np.searchsorted(self._columns, length))

    def _in_all_columns(self, places: Symbols) -> Symbols:
        """Convert positions among the compared columns to positions among all columns."""
        return np.where(places >= 0, self._columns[places], -1) if len(self._columns) else places


def align_in_pieces(rows: Symbols, columns: Symbols, weights: npt.NDArray[np.int32]) -> Alignment:
    """Like `align`, for long sequences: only nearby columns are compared. The score is the sum over the pieces."""
    first = np.full(len(rows), -1, np.int64)
    last = first.copy()
    score = row = column = 0
    while row < len(rows) and column < len(columns):
        piece = rows[row : row + _PIECE]
        is_last = row + len(piece) == len(rows)
        share = len(columns) / len(rows) if is_last else (len(columns) - column) / (len(rows) - row)
        near = columns[column : column + int(_WIDER * share * len(piece)) + (_LAST if is_last else _AT_LEAST)]
        alignment = align(piece, near, weights, may_shift=is_last)  # the next pieces need the rest
        keep = len(piece) if is_last else _PIECE // 2
        for target, piece_columns in ((first, alignment.first[:keep]), (last, alignment.last[:keep])):
            target[row : row + keep] = np.where(piece_columns >= 0, piece_columns + column, -1)
        score += alignment.score
        column = max(column, int(first[: row + keep].max()) + 1)
        row += keep
    return Alignment(first, last, score, len(columns))


@dataclass(frozen=True)
class _Bits:
    from_left: npt.NDArray[np.uint8]
    from_above: npt.NDArray[np.uint8]
    matches: npt.NDArray[np.uint8]
    follows: npt.NDArray[np.uint8]


def _bit(bits: npt.NDArray[np.uint8], row: int, column: int) -> bool:
    return bool(bits[row, column >> 3] >> (7 - (column & 7)) & 1)


def _trace(bits: _Bits, height: int, width: int, *, leftmost: bool) -> Symbols:
    """Walk back along the choices from the end. Each step moves at least one row or column."""
    result = np.full(height, -1, np.int64)
    row, column = height - 1, width - 1
    bound = False  # the row below is a neighbour of this row, so this row must be matched here
    while row >= 0 and column >= 0:
        match = _bit(bits.matches, row, column)
        if not bound:
            if leftmost and _bit(bits.from_left, row, column):
                column = _run_left(bits.from_left, row, column)
                continue
            if not (match and not leftmost) and _bit(bits.from_above, row, column):
                row -= 1
                continue
            if not match:
                column -= 1
                continue
        result[row] = column
        bound = _bit(bits.follows, row, column)
        row, column = row - 1, column - 1
    return result


def _run_left(bits: npt.NDArray[np.uint8], row: int, column: int) -> int:
    """The first column to the left whose value differs from its left neighbour (or -1)."""
    column -= 1
    while column >= 0 and bits[row, column >> 3] == 0xFF and column & 7 == 7:
        column -= 8
    return column
