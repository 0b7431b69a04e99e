"""`within` against a look at every pair of a time and a span, with exact fractions."""

import random
from fractions import Fraction

import polars as pl

from hotline_analysis.answers.overlap import within


def test_amounts_are_spread_evenly_over_their_spans() -> None:
    pick = random.Random(1)
    spans = []
    for track in range(30):
        at = 1_700_000_000_000_000_000
        for _ in range(pick.randint(0, 12)):
            at += pick.choice([0, 0, 7, 1000])
            length = pick.randint(1, 5000)
            spans.append((track, at, at + length, pick.randint(0, 2 * length)))
            at += length
    times = []
    for _ in range(400):
        start = 1_700_000_000_000_000_000 + pick.randint(-1000, 30_000)
        times.append((pick.randint(0, 32), start, start + pick.choice([0, 1, 300, 10_000])))
    columns = ["track_id", "start_ns", "end_ns"]
    found = within(
        pl.DataFrame(times, columns, orient="row"),
        pl.DataFrame(spans, [*columns, "amount_ns"], orient="row"),
        "amount_ns",
    )
    for (track, start, end), part in zip(times, found, strict=True):
        exact = sum(
            Fraction(amount * max(0, min(end, until) - max(start, since)), until - since)
            for own, since, until, amount in spans
            if own == track
        )
        assert abs(part - exact) <= Fraction(6, 10)
    assert sum(part > 0 for part in found) > 100


def test_the_same_span_twice_counts_twice() -> None:
    spans = pl.DataFrame({"track_id": [1, 1], "start_ns": [10, 10], "end_ns": [20, 20], "amount_ns": [4, 6]})
    times = pl.DataFrame({"track_id": [1, 2], "start_ns": [0, 0], "end_ns": [15, 15]})
    assert within(times, spans, "amount_ns").to_list() == [5, 0]
