"""Global alignment of two symbol sequences: which row belongs to which column, in order, with gaps on both sides.

The classic dynamic programme (Needleman and Wunsch, 1970), with two things of our own. A pair of rows that matches a
pair of neighbouring columns scores a little more, so that of two equally long alignments the one with fewer
interruptions wins. And both the leftmost and the rightmost of the best alignments are given: where they agree, the row
can be in one place only.

Rows are computed one after the other, each in a few vector operations over all columns. Choices are kept as bits, so a
10,000 × 10,000 problem takes about 60 MB and a second. Larger ones are cut into pieces that overlap by half, so that
time grows with the length and not with its square; what lies further apart than a piece is then not compared.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Symbols = npt.NDArray[np.int64]

_NEIGHBOUR = 1  # what a pair of neighbours scores beyond its matches; a match must score more
_WHOLE = 100_000_000  # rows × columns up to which a problem is solved in one piece
_PIECE = 1_000  # rows of a piece of a larger problem; half of them are kept
_WIDER = 2  # a piece may reach over so many times its share of the columns
_AT_LEAST = 1_000  # and so many more
_NEARLY = 0.98  # of the score
_LAST = 20_000  # the last piece, which nothing follows, may reach over so many


@dataclass(frozen=True)
class Alignment:
    """For each row the column it is matched with, -1 for none: in the leftmost and the rightmost best alignment."""

    first: Symbols
    last: Symbols
    score: int
    nearly: int
    """Length of the shortest prefix of the columns that scores nearly as much."""

    @property
    def found(self) -> int:
        """How many rows are matched."""
        return int(np.count_nonzero(self.first >= 0))


class Aligner:
    """Aligns with one table of weights, and remembers: the steps of a training run are mostly alike."""

    def __init__(self, weights: npt.NDArray[np.int32]) -> None:
        self.weights = weights
        self._known: dict[tuple[bytes, bytes], Alignment] = {}
        self._lengths: dict[tuple[bytes, bytes, bytes], int] = {}

    def align(self, rows: Symbols, columns: Symbols) -> Alignment:
        """As the function of the same name."""
        key = rows.tobytes(), columns.tobytes()
        if key not in self._known:
            whole = len(rows) * len(columns) <= _WHOLE
            self._known[key] = (align if whole else align_in_pieces)(rows, columns, self.weights)
        return self._known[key]

    def enough_columns(self, rows: Symbols, columns: Symbols, is_counted: npt.NDArray[np.bool_]) -> int:
        """Length of the shortest prefix of the columns in which the rows that count weigh as much as in all columns."""
        key = rows.tobytes(), columns.tobytes(), is_counted.tobytes()
        if key not in self._lengths:
            choices = Choices(rows, columns, self.weights)

            def weight(length: int) -> int:
                places = choices.first(length)
                found = np.flatnonzero((places >= 0) & is_counted)
                return int(self.weights[rows[found], columns[places[found]]].sum())

            most = weight(len(columns))
            low, high = 0, len(columns)
            while low < high:
                middle = (low + high) // 2
                low, high = (low, middle) if weight(middle) >= most else (middle + 1, high)
            self._lengths[key] = high
            self._known[rows.tobytes(), columns[:high].tobytes()] = choices.alignment(high)
        return self._lengths[key]


def align(rows: Symbols, columns: Symbols, weights: npt.NDArray[np.int32], *, may_shift: bool = True) -> Alignment:
    """Align `rows` with `columns`; `weights[r, c]` is what symbol r in a row scores with symbol c in a column, or 0.

    Weights are 0 for symbols that do not match, and more than 1 for those that do. Time grows with rows × columns.
    Unless they `may_shift`, the rightmost alignment must do with the columns of the leftmost.
    """
    return Choices(rows, columns, weights).alignment(len(columns), may_shift=may_shift)


class Choices:
    """All choices of the dynamic programme: they give the alignment of the rows with any prefix of the columns.

    A choice depends only on the columns before it. Columns that match no row are compared once for each run of them:
    a run scores nothing and separates neighbours, however long it is.
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
        # Column 0 of each array stands for no columns at all.
        best = np.zeros(width + 1, np.int32)
        matched = np.full(width + 1, -1, np.int32)
        for row in range(height if width else 0):
            weight = by_symbol[rows[row]]
            plain, joined = best[:-1], matched[:-1] + _NEIGHBOUR
            follow = joined > plain
            found = np.where(weight > 0, np.where(follow, joined, plain) + weight, -1).astype(np.int32)
            new = np.maximum(best[1:], found)
            np.maximum.accumulate(new, out=new)
            before = np.concatenate(([0], new[:-1]))
            from_left[row] = np.packbits(new == before)
            from_above[row] = np.packbits(new == best[1:])
            matches[row] = np.packbits(new == found)
            follows[row] = np.packbits(follow)
            may_follow[row] = np.packbits((joined >= plain) & (joined > 0))
            best[1:] = new
            matched[1:] = found
            matched[0] = -1
        self._best = best
        self._leftmost = _Bits(from_left, from_above, matches, follows)
        self._rightmost = _Bits(from_left, from_above, matches, may_follow)

    def first(self, length: int) -> Symbols:
        """The leftmost best alignment with so many of the columns."""
        return self._in_all_columns(_trace(self._leftmost, self._height, self._width(length), leftmost=True))

    def alignment(self, length: int, *, may_shift: bool = True) -> Alignment:
        """The alignment with so many of the columns."""
        width = self._width(length)
        first = _trace(self._leftmost, self._height, width, leftmost=True)
        end = width if may_shift else int(first.max(initial=-1)) + 1
        last = _trace(self._rightmost, self._height, end, leftmost=False)
        best = self._best[: width + 1]
        nearly = int(np.argmax(best >= _NEARLY * best[-1]))
        nearly = int(self._columns[nearly - 1]) + 1 if nearly else 0
        return Alignment(self._in_all_columns(first), self._in_all_columns(last), int(best[-1]), nearly)

    def _width(self, length: int) -> int:
        """How many of the compared columns the first `length` columns have."""
        return int(np.searchsorted(self._columns, length))

    def _in_all_columns(self, places: Symbols) -> Symbols:
        """Numbers among the compared columns as numbers among all columns."""
        return np.where(places >= 0, self._columns[places], -1) if len(self._columns) else places


def align_in_pieces(rows: Symbols, columns: Symbols, weights: npt.NDArray[np.int32]) -> Alignment:
    """As `align`, for sequences so long that only what is near is compared. The score is that of the pieces."""
    first = np.full(len(rows), -1, np.int64)
    last = first.copy()
    score = row = column = 0
    while row < len(rows) and column < len(columns):
        piece = rows[row : row + _PIECE]
        is_last = row + len(piece) == len(rows)
        share = len(columns) / len(rows) if is_last else (len(columns) - column) / (len(rows) - row)
        near = columns[column : column + int(_WIDER * share * len(piece)) + (_LAST if is_last else _AT_LEAST)]
        found = align(piece, near, weights, may_shift=is_last)  # others are followed by what needs the rest
        keep = len(piece) if is_last else _PIECE // 2
        for whole, part in ((first, found.first[:keep]), (last, found.last[:keep])):
            whole[row : row + keep] = np.where(part >= 0, part + column, -1)
        score += found.score
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
    """Walk back from the end along the choices. A step back moves at least one row or column."""
    result = np.full(height, -1, np.int64)
    row, column = height - 1, width - 1
    bound = False  # the row below is a neighbour of this one: it must be matched here
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
    """The first column to the left whose value is not that of its left neighbour (or -1)."""
    column -= 1
    while column >= 0 and bits[row, column >> 3] == 0xFF and column & 7 == 7:
        column -= 8
    return column
