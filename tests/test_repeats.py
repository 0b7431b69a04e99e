"""The search for repeats against plain Python, which looks at every sub-sequence."""

from __future__ import annotations

import random
from collections import defaultdict
from itertools import pairwise

import polars as pl
import pytest

from hotline_analysis.answers import suffix_array as repeats

Found = dict[tuple[int, ...], list[int]]


def brute_force(sequences: list[list[int]], min_length: int, max_length: int, min_count: int) -> Found:
    """Every repeat that cannot be made longer without occurring less often, and where it occurs without overlaps."""
    occurrences: Found = defaultdict(list)
    start = 0
    before: dict[int, object] = {}
    after: dict[tuple[int, int], object] = {}
    for number, tokens in enumerate(sequences):
        for i in range(len(tokens)):
            before[start + i] = tokens[i - 1] if i else ("start", number)
            for length in range(1, len(tokens) - i + 1):
                occurrences[tuple(tokens[i : i + length])].append(start + i)
                end = i + length
                after[start + i, length] = tokens[end] if end < len(tokens) else ("end", number)
        start += len(tokens)
    found: Found = {}
    for pattern, places in occurrences.items():
        length = len(pattern)
        if not min_length <= length <= max_length or len(places) < min_count:
            continue
        if len({before[at] for at in places}) == 1 or len({after[at, length] for at in places}) == 1:
            continue
        period = min(b - a for a, b in pairwise(places))
        whole = -(-min_length // period) * period
        if period < length and not (period < min_length and length == whole):
            continue
        chosen: list[int] = []
        for at in places:
            if not chosen or at >= chosen[-1] + length:
                chosen.append(at)
        if len(chosen) >= min_count:
            found[pattern] = chosen
    return found


def search(sequences: list[list[int]], min_length: int, max_length: int, min_count: int) -> Found:
    tokens = [token for tokens in sequences for token in tokens]
    begins = [i == 0 for tokens in sequences for i in range(len(tokens))]
    rows = repeats.find(
        pl.Series(tokens, dtype=pl.Int64),
        pl.Series(begins, dtype=pl.Boolean),
        pl.Series([1] * len(tokens), dtype=pl.Int64),
        min_length=min_length,
        max_length=max_length,
        min_count=min_count,
    )
    found: Found = defaultdict(list)
    for _, length, at in rows.select("pattern", "length", "at").sort("pattern", "at").iter_rows():
        found[tuple(tokens[at : at + length])].append(at)
    assert rows.select("pattern", "length").unique().height == rows["pattern"].n_unique() == len(found)
    return dict(found)


@pytest.mark.slow
@pytest.mark.parametrize(("min_length", "max_length", "min_count"), [(2, 64, 2), (3, 64, 2), (2, 5, 3)])
def test_random_sequences(min_length: int, max_length: int, min_count: int) -> None:
    pick = random.Random(min_length + max_length)
    limits = (min_length, max_length, min_count)
    kinds = 0
    for _ in range(40):
        block = [pick.randint(0, 3) for _ in range(pick.randint(1, 6))]
        sequences = []
        for _ in range(pick.randint(1, 4)):
            tokens: list[int] = []
            while len(tokens) < pick.randint(1, 40):
                tokens += block if pick.random() < 0.5 else [pick.randint(0, 4)]
            sequences.append(tokens)
        expected = brute_force(sequences, *limits)
        assert search(sequences, *limits) == expected
        kinds += len(expected)
    assert kinds > 50


@pytest.mark.parametrize(
    ("sequences", "expected"),
    [
        ([[]], {}),
        ([[1, 2, 3]], {}),
        ([[1, 2, 3, 9, 1, 2, 3]], {(1, 2, 3): [0, 4]}),
        # the same twice in two sequences, but not over their border
        ([[8, 1, 2], [3, 1, 2, 7]], {(1, 2): [1, 4]}),
        # a run: the shortest sequence allowed, as often as it fits
        ([[5] * 7], {(5, 5): [0, 2, 4]}),
        # a period of two, which is told once
        ([[1, 2] * 4 + [9]], {(1, 2): [0, 2, 4, 6]}),
    ],
)
def test_small_sequences(sequences: list[list[int]], expected: Found) -> None:
    assert search(sequences, 2, 64, 2) == expected


def test_many_tokens_take_little_time() -> None:
    """A run of one token is the worst case for whoever compares sub-sequences token by token."""
    size = 50_000
    found = repeats.find(
        pl.zeros(size, dtype=pl.Int64, eager=True),
        pl.Series([True] + [False] * (size - 1)),
        pl.ones(size, dtype=pl.Int64, eager=True),
        min_length=3,
        max_length=256,
        min_count=2,
    )
    assert found["length"].unique().to_list() == [3]
    assert found.height == size // 3
