"""Alignment of symbol sequences against a slow, obvious calculation of the best score."""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import duckdb
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotline_analysis.annotate.align import align, align_in_pieces
from hotline_analysis.annotate.backward import match_backward

WEIGHTS = np.array([[8, 0, 4], [0, 8, 0], [4, 0, 8]], np.int32)
sequences = st.lists(st.integers(0, 2), max_size=9)


def best_score(rows: list[int], columns: list[int]) -> int:
    """The best score over all alignments: weights, and one for each neighbour pair in both."""

    @cache
    def best(row: int, column: int, joined: bool) -> int:
        if row == len(rows) or column == len(columns):
            return 0
        options = [best(row + 1, column, False), best(row, column + 1, False)]
        weight = int(WEIGHTS[rows[row], columns[column]])
        if weight:
            options.append(weight + joined + best(row + 1, column + 1, True))
        return max(options)

    return best(0, 0, False)


def score_of(rows: list[int], columns: list[int], places: list[int]) -> int:
    """The score of one alignment; fails if it is none."""
    matched = [(row, place) for row, place in enumerate(places) if place >= 0]
    assert all(a[1] < b[1] for a, b in pairwise(matched)), "not in order"
    total = 0
    for row, place in matched:
        weight = int(WEIGHTS[rows[row], columns[place]])
        assert weight > 0, "does not match"
        total += weight + (row > 0 and place > 0 and places[row - 1] == place - 1)
    return total


@given(rows=sequences, columns=sequences)
def test_both_alignments_are_valid_and_the_best(rows: list[int], columns: list[int]) -> None:
    found = align(np.array(rows, np.int64), np.array(columns, np.int64), WEIGHTS)
    best = best_score(rows, columns)
    assert found.score == best
    assert score_of(rows, columns, found.first.tolist()) == best
    assert score_of(rows, columns, found.last.tolist()) == best


@pytest.mark.parametrize(
    ("rows", "columns", "first", "last"),
    [
        ([0, 1, 2], [0, 1, 2], [0, 1, 2], [0, 1, 2]),
        ([0, 1], [2, 2, 0, 1], [2, 3], [2, 3]),  # an extra op at the front
        ([0, 1, 0], [0, 0], [0, -1, 1], [0, -1, 1]),  # a missing op
        ([1], [1, 0, 1], [0], [2]),  # two places are equally good
        ([0, 1], [0, 1, 1], [0, 1], [0, 1]),  # neighbours stay together
    ],
)
def test_by_hand(rows: list[int], columns: list[int], first: list[int], last: list[int]) -> None:
    exact = np.diag([8, 8, 8]).astype(np.int32)
    found = align(np.array(rows, np.int64), np.array(columns, np.int64), exact)
    assert found.first.tolist() == first
    assert found.last.tolist() == last


def test_nothing_to_align() -> None:
    none = np.empty(0, np.int64)
    some = np.array([0, 1], np.int64)
    assert align(none, some, WEIGHTS).first.tolist() == []
    assert align(some, none, WEIGHTS).last.tolist() == [-1, -1]


def test_long_sequences_in_pieces() -> None:
    """Rows that are a random part of the columns: every one is found, as in one piece."""
    random = np.random.default_rng(7)
    columns = random.integers(0, 12, 6_000)
    rows = columns[np.sort(random.choice(6_000, 3_500, replace=False))]
    exact = (8 * np.eye(12)).astype(np.int32)
    pieces = align_in_pieces(rows, columns, exact)
    assert (pieces.first >= 0).all()
    assert (np.diff(pieces.first) > 0).all()
    assert (columns[pieces.first] == rows).all()
    assert (pieces.first == align(rows, columns, exact).first).mean() > 0.99


def test_backward_reaches_back_to_the_first_of_many_ops() -> None:
    """30,003 ops of a long sequence in time; the nodes of the first three come last."""
    count = 30_000
    with duckdb.connect() as connection:
        connection.execute(
            "create table autograd_item as"
            " select range as event_id, 1 as track_id, range as start_ns, range > $last as is_node,"
            " case when range < 3 then 't' || range when range > $last then 't' || ($last + 3 - range) else 'x' end"
            "  as token, null::bigint as container_id"
            " from range($last + 4)",
            {"last": count + 2},
        )
        found = match_backward(connection).to_pydict()
    assert dict(zip(found["event_id"], found["forward_id"], strict=True)) == {30_003: 2, 30_004: 1, 30_005: 0}
