"""Repeats in a sequence: every sub-sequence that occurs again and cannot be made longer without occurring less often.

A suffix array, by doubling: what starts at two places is ranked by its first 1, 2, 4, … tokens, each ranking from pairs
of the last one (Manber and Myers, 1990). How far neighbours in that order agree (LCP) comes from the same rankings,
largest first. A repeat is then a stretch of the order whose neighbours all agree at least that far (Abouelhoda, Kurtz,
Ohlebusch, 2004); its borders are found by jumps over ever smaller blocks. All steps work on columns: O(n log n), no
loop over tokens.
"""

from __future__ import annotations

import polars as pl

# How many repeats are looked at in detail, and how many occurrences they may have together.
_MOST_REPEATS = 2_000
_MOST_OCCURRENCES = 1_000_000


def find(
    tokens: pl.Series, begins: pl.Series, cost: pl.Series, *, min_length: int, max_length: int, min_count: int
) -> pl.DataFrame:
    """Return occurrences of repeats that do not overlap: columns `pattern`, `length` and `at` (a position in `tokens`).

    `tokens` are numbers from 0, `begins` marks where a new sequence begins, which no repeat reaches over. Of very many
    repeats, those come first whose first occurrence costs most by `cost`, times their number.
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
    places = repeats.select("pattern", "length", place=pl.int_ranges("first", pl.col("last") + 1)).explode("place")
    places = places.with_columns(at=order.gather(places["place"])).drop("place").sort("pattern", "at")
    return _apart(places, min_length).filter(pl.len().over("pattern") >= min_count)


def _suffix_order(tokens: pl.Series, begins: pl.Series, max_length: int) -> tuple[pl.Series, pl.Series]:
    """Positions in the order of what starts there, and how many tokens each has in common with the one before.

    Exact up to twice `max_length`, beyond which it does not matter.
    """
    size = len(tokens)
    # Each sequence ends in something that occurs nowhere else: a repeat cannot reach over it. `left` tokens remain.
    last = begins.shift(-1, fill_value=True)
    row = pl.int_range(size, eager=True)
    ends = pl.select(pl.when(last).then(row).otherwise(None)).to_series().backward_fill()
    left = ends - row + 1
    ranks = [tokens.rank("dense").cast(pl.Int64)]
    width = 1
    while width < max_length:
        ahead = pl.DataFrame({"here": ranks[-1], "at": row + width, "left": left, "row": row})
        # What is shorter than this is told apart by where it stands, so it equals nothing.
        then = pl.select(
            pl.when(ahead["left"] > width).then(ranks[-1].gather(ahead["at"].clip(0, size - 1))).otherwise(-1 - row)
        ).to_series()
        pair = ahead.select(pl.col("here"), then.alias("then"))
        ranks.append(pair.select(pl.struct("here", "then").rank("dense").cast(pl.Int64)).to_series())
        width *= 2
    order = ranks[-1].to_frame("rank").with_columns(row=row).sort("rank", "row")["row"]
    before = order.shift(1).fill_null(0)
    agree = pl.zeros(size, dtype=pl.Int64, eager=True)
    for rank in reversed(ranks):
        # Equal ranks never reach beyond the end of a sequence, for what is too short is unique.
        fits = (left.gather(order) - agree >= width) & (left.gather(before) - agree >= width)
        here, there = (order + agree).clip(0, size - 1), (before + agree).clip(0, size - 1)
        agree = agree + (fits & (rank.gather(here) == rank.gather(there))).cast(pl.Int64) * width
        width //= 2
    return order, agree.scatter(0, 0)


def _maximal(tokens: pl.Series, begins: pl.Series, order: pl.Series, agree: pl.Series, min_length: int) -> pl.DataFrame:
    """Return stretches `first` to `last` of the order that agree for `length` tokens, and not all for one more."""
    size = len(order)
    blocks = _minima(agree)
    found = pl.DataFrame({"length": agree}).with_row_index("at").filter(pl.col("length") >= min_length)
    length, first = found["length"], found["at"].cast(pl.Int64)
    after = first + 1
    for level in reversed(range(len(blocks))):
        span, block = 2**level, blocks[level]
        fits = (after + span <= size) & (block.gather(after.clip(0, size - 1)) >= length)
        after = after + fits.cast(pl.Int64) * span
        fits = (first >= span) & (block.gather((first - span).clip(0, size - 1)) >= length)
        first = first - fits.cast(pl.Int64) * span
    stretches = pl.DataFrame({"first": first - 1, "last": after - 1, "length": length}).unique(maintain_order=True)
    # What stands before: if that is the same everywhere, a longer repeat starts there.
    row = pl.int_range(size, eager=True)
    earlier = (
        pl.select(pl.when(begins).then(-1 - row).otherwise(tokens.cast(pl.Int64).shift(1))).to_series().gather(order)
    )
    changes = (earlier != earlier.shift(1)).fill_null(True).cast(pl.Int64).cum_sum()
    varied = changes.gather(stretches["last"]) > changes.gather(stretches["first"])
    # Neighbours in the order that lie `near` show a period of at most that, which a shorter repeat tells better.
    near = _least(_minima((order - order.shift(1)).abs().fill_null(size)), stretches["first"] + 1, stretches["last"])
    periodic = (near < stretches["length"]) & (stretches["length"] >= min_length + near)
    return stretches.filter(varied & ~periodic)


def _minima(values: pl.Series) -> list[pl.Series]:
    """Return for 1, 2, 4, … the least of that many values from each position on; -1 where there are not as many."""
    blocks = [values]
    while 2 ** len(blocks) <= len(values):
        later = blocks[-1].shift(-(2 ** (len(blocks) - 1)), fill_value=-1)
        blocks.append(pl.select(pl.min_horizontal(blocks[-1], later)).to_series())
    return blocks


def _least(blocks: list[pl.Series], first: pl.Series, last: pl.Series) -> pl.Series:
    """Return the least value from `first` to `last`: of two blocks that cover them."""
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
    """Keep occurrences that do not overlap, from the first on; leave out what a shorter repeat tells as well.

    `places` is sorted. Something that overlaps itself has a period; it is kept if no whole number of shorter periods
    has the length that is asked for.
    """
    period = pl.col("at").diff().min().over("pattern")
    whole = (min_length + period - 1) // period * period
    kept = places.filter((period >= pl.col("length")) | ((period < min_length) & (pl.col("length") == whole)))
    size = kept.height
    if size == 0:
        return kept
    wide = kept["at"].max() + kept["length"].max() + 1  # type: ignore[operator]
    key = kept["pattern"].cast(pl.Int64) * wide + kept["at"]
    later = key.search_sorted(key + kept["length"]).cast(pl.Int64)
    same = kept["pattern"].gather(later.clip(0, size - 1)) == kept["pattern"]
    jump = pl.select(pl.when(same & (later < size)).then(later).otherwise(size)).to_series()
    jump = pl.concat([jump, pl.Series([size], dtype=jump.dtype)])
    chosen = kept.with_row_index("row").filter(pl.col("pattern").is_first_distinct())["row"].cast(jump.dtype)
    while (jump != size).any():
        chosen = pl.concat([chosen, jump.gather(chosen)]).unique()
        jump = jump.gather(jump)
    row = pl.int_range(pl.len()).cast(jump.dtype)
    return kept.filter(row.is_in(chosen.implode()))
