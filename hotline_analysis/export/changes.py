"""Change points: the run from which a metric has a different level, beyond chance.

A series is split where the means of both sides differ most relative to their noise, if hardly any shuffle of the runs
gives such a difference. Each side is then split in the same way. This is binary segmentation (Scott and Knott 1974)
with a permutation test, which assumes no distribution.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

LEAST = 3
"""Minimum number of runs on either side of a change. With fewer runs, a single outlier would count as a change."""
LEVEL = 0.01
"""Probability of splitting a series without a change."""
LEAST_PCT = 1.0
"""Smaller changes are not listed."""
_SHUFFLES = 999
_SEED = 1  # the same runs always give the same changes


@dataclass(frozen=True)
class ChangePoint:
    """A change at run number `at`: the mean is `after` instead of `before`, each over its stretch of runs."""

    at: int
    before: float
    after: float

    @property
    def pct(self) -> float:
        """The change in percent of the previous mean."""
        return 100 * (self.after - self.before) / self.before if self.before else float("inf")


def change_points(values: Sequence[float]) -> list[ChangePoint]:
    """The change points of a series, in order."""
    series = np.asarray(values, dtype=np.float64)
    cuts = sorted(_cuts(series, 0, np.random.default_rng(_SEED)))
    edges = [0, *cuts, len(series)]
    means = [float(series[a:b].mean()) for a, b in pairwise(edges) if b > a]
    changes = [ChangePoint(cut, before, after) for cut, (before, after) in zip(cuts, pairwise(means), strict=True)]
    return [change for change in changes if abs(change.pct) >= LEAST_PCT]


def _cuts(series: NDArray[np.float64], offset: int, random: np.random.Generator) -> Iterator[int]:
    if len(series) < 2 * LEAST:
        return
    statistic = _statistics(series[None, :])[0]
    cut = int(statistic.argmax())
    shuffled = random.permuted(np.tile(series, (_SHUFFLES, 1)), axis=1)
    as_large = (_statistics(shuffled).max(axis=1) >= statistic[cut]).sum()
    if statistic[cut] <= 0 or (1 + as_large) / (1 + _SHUFFLES) > LEVEL:
        return
    position = cut + LEAST
    yield offset + position
    yield from _cuts(series[:position], offset, random)
    yield from _cuts(series[position:], offset + position, random)


def _statistics(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Difference of the means before and after each position, in standard errors, with `LEAST` runs on both sides."""
    count = rows.shape[1]
    left = np.arange(1, count)
    sums, squares = rows.cumsum(axis=1), (rows**2).cumsum(axis=1)
    before, after = sums[:, :-1] / left, (sums[:, -1:] - sums[:, :-1]) / (count - left)
    residual = squares[:, -1:] - left * before**2 - (count - left) * after**2
    noise = np.sqrt(np.maximum(residual, 0) / max(count - 2, 1) * (1 / left + 1 / (count - left)))
    # Equal runs have no noise, so any deviation is significant.
    least = 1e-9 * np.abs(rows).max()
    scores: NDArray[np.float64] = (np.abs(after - before) / np.maximum(noise, least or 1.0))[
        :, LEAST - 1 : count - LEAST
    ]
    return scores
