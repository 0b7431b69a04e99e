"""Maximal repeats in a sequence: every sub-sequence that repeats, if no longer sub-sequence repeats as often.

The suffix array is built by doubling: suffixes are ranked by their first 1, 2, 4, … tokens. Each ranking is computed
from pairs of the previous ranking (Manber and Myers, 1990). The common prefix length (LCP) of neighbours in the suffix
order comes from the same rankings, the largest width first. A repeat is an interval of the order in which all
neighbours share at least the repeat's length (Abouelhoda, Kurtz, Ohlebusch, 2004). The borders of the interval are
found by jumps over ever smaller blocks. All steps work on columns: O(n log n), without a loop over tokens.
"""

from __future__ import annotations

import polars as pl

# Maximum number of repeats examined in detail, and maximum number of their occurrences in total.
_MOST_REPEATS = 2_000
_MOST_OCCURRENCES = 1_000_000


def find(
    tokens: pl.Series, begins: pl.Series, cost: pl.Series, *, min_length: int, max_length: int, min_count: int
) -> pl.DataFrame:
    """Return occurrences of repeats that do not overlap: columns `pattern`, `length` and `at` (a position in `tokens`).

    `tokens` are numbers from 0. `begins` marks the start of each sequence; repeats do not cross these borders. If there
    are too many repeats, the repeats with the largest `cost` of the first occurrence times the number of occurrences
    are kept.
    """
    empty = pl.DataFrame(schema={"pattern": pl.UInt32, "length": pl.Int64, "at": pl.Int64})
    if len(tokens) < 2 * min_length:
        return empty
    order, agree = _suffix_order(tokens, begins, max_length)
    repeats = _maximal(tokens, begins, order, agree, min_length).filter(
        pl.col("length") <= max_length, pl.col("last") - pl.col("first") + 1 >= min_count
    )
    if repeats.is_empty():
        return empty
    total = pl.concat([pl.Series([0], dtype=pl.Int64), cost.cast(pl.Int64).cum_sum()])
    start = order.gather(repeats["first"])
    number = pl.col("last") - pl.col("first") + 1
    repeats = (
        repeats.with_columns(worth=total.gather(start + repeats["length"]) - total.gather(start), start=start)
        .sort(pl.col("worth") * number, "start", "length", descending=[True, False, False])
        .head(_MOST_REPEATS)
        .filter((number.cum_sum() <= _MOST_OCCURRENCES) | (pl.int_range(pl.len()) == 0))
        .with_row_index("pattern")
    )
    occurrences = repeats.select("pattern", "length", place=pl.int_ranges("first", pl.col("last") + 1)).explode("place")
    occurrences = occurrences.with_columns(at=order.gather(occurrences["place"])).drop("place").sort("pattern", "at")
    return _apart(occurrences, min_length).filter(pl.len().over("pattern") >= min_count)


def _suffix_order(tokens: pl.Series, begins: pl.Series, max_length: int) -> tuple[pl.Series, pl.Series]:
    """Suffix positions in sorted order, and the common prefix length of each suffix with the previous suffix.

    Lengths are exact up to twice `max_length`; larger values do not matter.
    """
    size = len(tokens)
    # Each sequence ends in a unique token, so no repeat crosses the border. `left` is the number of remaining tokens.
    last = begins.shift(-1, fill_value=True)
    row = pl.int_range(size, eager=True)
    ends = pl.select(pl.when(last).then(row).otherwise(None)).to_series().backward_fill()
    left = ends - row + 1
    ranks = [tokens.rank("dense").cast(pl.Int64)]
    width = 1
    while width < max_length:
        ahead = pl.DataFrame({"here": ranks[-1], "at": row + width, "left": left, "row": row})
        # A suffix shorter than `width` is identified by position, and equals no other suffix.
        then = pl.select(
            pl.when(ahead["left"] > width).then(ranks[-1].gather(ahead["at"].clip(0, size - 1))).otherwise(-1 - row)
        ).to_series()
        pair = ahead.select(pl.col("here"), then.alias("then"))
        ranks.append(pair.select(pl.struct("here", "then").rank("dense").cast(pl.Int64)).to_series())
        width *= 2
    order = ranks[-1].to_frame("rank").with_columns(row=row).sort("rank", "row")["row"]
    previous = order.shift(1).fill_null(0)
    agree = pl.zeros(size, dtype=pl.Int64, eager=True)
    for rank in reversed(ranks):
        # Equal ranks never extend past the end of a sequence, because short suffixes are unique.
        fits = (left.gather(order) - agree >= width) & (left.gather(previous) - agree >= width)
        position, previous_position = (order + agree).clip(0, size - 1), (previous + agree).clip(0, size - 1)
        agree = agree + (fits & (rank.gather(position) == rank.gather(previous_position))).cast(pl.Int64) * width
        width //= 2
    return order, agree.scatter(0, 0)


def _maximal(tokens: pl.Series, begins: pl.Series, order: pl.Series, agree: pl.Series, min_length: int) -> pl.DataFrame:
    """Return intervals `first` to `last` of the order that share `length` tokens and do not all share one more."""
    size = len(order)
    blocks = _minima(agree)
    candidates = pl.DataFrame({"length": agree}).with_row_index("at").filter(pl.col("length") >= min_length)
    length, first = candidates["length"], candidates["at"].cast(pl.Int64)
    end = first + 1
    for level in reversed(range(len(blocks))):
        span, block = 2**level, blocks[level]
        fits = (end + span <= size) & (block.gather(end.clip(0, size - 1)) >= length)
        end = end + fits.cast(pl.Int64) * span
        fits = (first >= span) & (block.gather((first - span).clip(0, size - 1)) >= length)
        first = first - fits.cast(pl.Int64) * span
    stretches = pl.DataFrame({"first": first - 1, "last": end - 1, "length": length}).unique(maintain_order=True)
    # The token before each suffix: if all are the same, a longer repeat starts there.
    row = pl.int_range(size, eager=True)
    earlier = (
        pl.select(pl.when(begins).then(-1 - row).otherwise(tokens.cast(pl.Int64).shift(1))).to_series().gather(order)
    )
    changes = (earlier != earlier.shift(1)).fill_null(True).cast(pl.Int64).cum_sum()
    varied = changes.gather(stretches["last"]) > changes.gather(stretches["first"])
    # The smallest distance `near` between neighbours is a period of the repeat, and a shorter repeat shows it better.
    near = _least(_minima((order - order.shift(1)).abs().fill_null(size)), stretches["first"] + 1, stretches["last"])
    periodic = (near < stretches["length"]) & (stretches["length"] >= min_length + near)
    return stretches.filter(varied & ~periodic)


def _minima(values: pl.Series) -> list[pl.Series]:
    """Return the minimum of 1, 2, 4, … values from each position on; -1 where fewer values remain."""
    blocks = [values]
    while 2 ** len(blocks) <= len(values):
        later = blocks[-1].shift(-(2 ** (len(blocks) - 1)), fill_value=-1)
        blocks.append(pl.select(pl.min_horizontal(blocks[-1], later)).to_series())
    return blocks


def _least(blocks: list[pl.Series], first: pl.Series, last: pl.Series) -> pl.Series:
    """Return the minimum from `first` to `last`: the minimum of two blocks covering the interval."""
    size = len(blocks[0])
    level = pl.zeros(len(first), dtype=pl.Int64, eager=True)
    span = pl.ones(len(first), dtype=pl.Int64, eager=True)
    for number in range(1, len(blocks)):
        longer = (last - first + 1 >= 2**number).cast(pl.Int64)
        level, span = level + longer, span * (1 + longer)
    flat = pl.concat(blocks)
    ends = flat.gather(level * size + last - span + 1)
    return pl.select(pl.min_horizontal(flat.gather(level * size + first), ends)).to_series()


def _apart(places: pl.DataFrame, min_length: int) -> pl.DataFrame:
    """Keep occurrences that do not overlap, from the first on, and drop repeats that a shorter repeat already shows.

    `places` is sorted. A repeat that overlaps itself is periodic. It is kept if its length is the shortest multiple of
    the period that reaches `min_length`.
    """
    period = pl.col("at").diff().min().over("pattern")
    rounded_length = (min_length + period - 1) // period * period
    candidates = places.filter(
        (period >= pl.col("length")) | ((period < min_length) & (pl.col("length") == rounded_length))
    )
    size = candidates.height
    if size == 0:
        return candidates
    wide = candidates["at"].max() + candidates["length"].max() + 1  # type: ignore[operator]
    key = candidates["pattern"].cast(pl.Int64) * wide + candidates["at"]
    later = key.search_sorted(key + candidates["length"]).cast(pl.Int64)
    is_same = candidates["pattern"].gather(later.clip(0, size - 1)) == candidates["pattern"]
    jump = pl.select(pl.when(is_same & (later < size)).then(later).otherwise(size)).to_series()
    jump = pl.concat([jump, pl.Series([size], dtype=jump.dtype)])
    starts = candidates.with_row_index("row").filter(pl.col("pattern").is_first_distinct())["row"].cast(jump.dtype)
    while (jump != size).any():
        starts = pl.concat([starts, jump.gather(starts)]).unique()
        jump = jump.gather(jump)
    row = pl.int_range(pl.len()).cast(jump.dtype)
    return candidates.filter(row.is_in(starts.implode()))
