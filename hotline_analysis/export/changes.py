"""Change points: since which run a metric has another level, and not by chance.

A series is split where the means on both sides differ most in relation to their noise, if hardly any shuffle of the
runs would give such a difference; then each side is looked at in the same way. That is binary segmentation (Scott and
Knott 1974) with a permutation test, which assumes no distribution.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

LEAST = 3
"""Runs on either side of a change, at least: with fewer, one odd run would be one."""
LEVEL = 0.01
"""How often a series without a change may be split by chance."""
LEAST_PCT = 1.0
"""A smaller change is not worth a line."""
_SHUFFLES = 999
_SEED = 1  # the same runs have the same changes


@dataclass(frozen=True)
class ChangePoint:
    """From the run at `at` on, the mean is `after` instead of `before`, each that of its stretch."""

    at: int
    before: float
    after: float

    @property
    def pct(self) -> float:
        """The change in per cent of what was before."""
        return 100 * (self.after - self.before) / self.before if self.before else float("inf")


def change_points(values: Sequence[float]) -> list[ChangePoint]:
    """Where a series changes, in its order."""
    series = np.asarray(values, dtype=np.float64)
    cuts = sorted(_cuts(series, 0, np.random.default_rng(_SEED)))
    edges = [0, *cuts, len(series)]
    means = [float(series[a:b].mean()) for a, b in pairwise(edges) if b > a]
    found = [ChangePoint(cut, before, after) for cut, (before, after) in zip(cuts, pairwise(means), strict=True)]
    return [change for change in found if abs(change.pct) >= LEAST_PCT]


def _cuts(series: NDArray[np.float64], offset: int, random: np.random.Generator) -> Iterator[int]:
    if len(series) < 2 * LEAST:
        return
    statistic = _statistics(series[None, :])[0]
    cut = int(statistic.argmax())
    shuffled = random.permuted(np.tile(series, (_SHUFFLES, 1)), axis=1)
    as_large = (_statistics(shuffled).max(axis=1) >= statistic[cut]).sum()
    if statistic[cut] <= 0 or (1 + as_large) / (1 + _SHUFFLES) > LEVEL:
        return
    at = cut + LEAST
    yield offset + at
    yield from _cuts(series[:at], offset, random)
    yield from _cuts(series[at:], offset + at, random)


def _statistics(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """How far the means before and behind each place differ, in standard errors; places leave `LEAST` on both sides."""
    count = rows.shape[1]
    left = np.arange(1, count)
    sums, squares = rows.cumsum(axis=1), (rows**2).cumsum(axis=1)
    before, after = sums[:, :-1] / left, (sums[:, -1:] - sums[:, :-1]) / (count - left)
    inside = squares[:, -1:] - left * before**2 - (count - left) * after**2
    noise = np.sqrt(np.maximum(inside, 0) / max(count - 2, 1) * (1 / left + 1 / (count - left)))
    # Runs that are alike to the last digit have no noise: what stands out of it does so by any measure.
    least = 1e-9 * np.abs(rows).max()
    kept: NDArray[np.float64] = (np.abs(after - before) / np.maximum(noise, least or 1.0))[:, LEAST - 1 : count - LEAST]
    return kept
