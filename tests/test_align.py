"""Alignment of symbol sequences against a slow, obvious calculation of the best score."""

from __future__ import annotations

from functools import cache
from itertools import pairwise, product

import duckdb
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from hotline_analysis.annotation import align as align_module
from hotline_analysis.annotation.align import Aligner, Alignment, Choices, align, align_in_pieces
from hotline_analysis.annotation.backward import match_backward
from hotline_analysis.annotation.placing.certain import range_in_order

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


@given(fitting=st.lists(st.sets(st.integers(0, 7), min_size=1), min_size=1, max_size=3), data=st.data())
def test_the_range_of_places_is_that_of_all_ways(fitting: list[set[int]], data: st.DataObject) -> None:
    kinds = data.draw(st.lists(st.integers(0, len(fitting) - 1), min_size=1, max_size=4))
    ways = [way for way in product(*(fitting[kind] for kind in kinds)) if all(a < b for a, b in pairwise(way))]
    assume(ways)
    places = [np.array(sorted(those), np.int64) for those in fitting]
    first, last = range_in_order(np.array(kinds, np.int64), places, 8)
    assert first.tolist() == [min(place) for place in zip(*ways, strict=True)]
    assert last.tolist() == [max(place) for place in zip(*ways, strict=True)]


@given(rows=sequences, columns=sequences)
def test_the_choices_for_all_columns_hold_for_their_first_ones(rows: list[int], columns: list[int]) -> None:
    choices = Choices(np.array(rows, np.int64), np.array(columns, np.int64), WEIGHTS)
    for length in range(len(columns) + 1):
        found = choices.alignment(length)
        assert found.score == best_score(rows, columns[:length])
        assert score_of(rows, columns[:length], found.last.tolist()) == found.score
        assert choices.first(length).tolist() == found.first.tolist()


def test_columns_that_match_nothing_separate_neighbours() -> None:
    """Of two equally long alignments, the one with neighbours wins, however long the run of other columns is."""
    rows = np.array([0, 1], np.int64)
    for length in (1, 2, 300):
        columns = np.array([0] + [2] * length + [1, 0, 1], np.int64)
        found = align(rows, columns, np.array([[8, 0, 0], [0, 8, 0]], np.int32))
        assert found.first.tolist() == found.last.tolist() == [length + 2, length + 3]
        assert found.nearly == length + 4  # two matches apart score 16, less than 98 % of 17


def test_the_fewest_columns_that_explain_as_much_as_all() -> None:
    aligner = Aligner(np.array([[8, 0, 0], [0, 8, 0]], np.int32))
    rows, columns = np.array([0, 1], np.int64), np.array([2, 0, 2, 1, 2, 2, 0], np.int64)
    assert aligner.enough_columns(rows, columns, np.array([True, True])) == 4
    assert aligner.enough_columns(rows, columns, np.array([True, False])) == 2


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
            "  as token, null::bigint as container_id, false as is_unlikely"
            " from range($last + 4)",
            {"last": count + 2},
        )
        found = match_backward(connection).to_pydict()
    assert dict(zip(found["event_id"], found["forward_id"], strict=True)) == {30_003: 2, 30_004: 1, 30_005: 0}


def matched(*items: str) -> dict[int, int]:
    """What `match_backward` finds among items in order of time: ops by name, `?` for unlikely, `*` for nodes."""
    with duckdb.connect() as connection:
        connection.execute(
            "create table autograd_item as"
            " select number as event_id, 1 as track_id, number as start_ns, starts_with(item, '*') as is_node,"
            " ltrim(item, '*?') as token, null::bigint as container_id, starts_with(item, '?') as is_unlikely"
            " from (select unnest($items) as item, unnest(range(len($items))) as number)",
            {"items": list(items)},
        )
        found = match_backward(connection).to_pydict()
    return dict(zip(found["event_id"], found["forward_id"], strict=True))


def test_an_unlikely_op_has_a_node_only_if_no_other_can() -> None:
    assert matched("add", "?add", "norm", "*norm", "*add") == {3: 2, 4: 0}
    assert matched("add", "?add", "norm", "*norm", "*add", "*add") == {3: 2, 4: 1, 5: 0}


def test_backward_reaches_behind_the_pass_before() -> None:
    """A discriminator's pass comes between the generator's forward and backward; 200 other ops follow the generator."""
    generator, others = ["up", "tanh"], ["print"] * 200
    assert matched(*generator, *others, "conv", "*conv", "conv", "*conv", "*tanh", "*up") == {
        203: 202,
        205: 204,
        206: 1,
        207: 0,
    }


def test_many_alike_steps_are_few_problems(monkeypatch: pytest.MonkeyPatch) -> None:
    """300 steps of 3 ops, their nodes and 4 ops of an optimizer, which nothing takes from the stack."""
    sizes = []

    def spy(rows: npt.NDArray[np.int64], columns: npt.NDArray[np.int64], weights: npt.NDArray[np.int32]) -> Alignment:
        sizes.append(len(columns))
        return align(rows, columns, weights)

    monkeypatch.setattr(align_module, "align", spy)
    found = matched(*["a", "b", "c", "*c", "*b", "*a", "add", "mul", "sqrt", "div"] * 300)
    assert found == {10 * step + 5 - op: 10 * step + op for step in range(300) for op in range(3)}
    assert len(sizes) < 10
    assert max(sizes) < 50
