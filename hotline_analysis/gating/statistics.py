"""The few statistics that a gate needs: Student's t, an interval between runs, one between steps, and Holm's levels.

Runs of one program differ more than their steps do: they have other machines, other temperatures and other neighbours.
So the value of a run is one number, and the noise is that between runs. Only where there is one run on either side do
the steps stand for it, in blocks: what is in every fourth step, or comes in bursts, makes steps depend on each other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hotline_analysis.answers.periods import period

LEVEL = 0.01
"""How often a gate may fail by chance, all of its checks together: once in a hundred runs of it.

The usual 5 % would be a false alarm every week where there are four changes a day.
"""
POWER = 0.8
"""How often a change of the size that is called detectable is found: the usual 80 % (Cohen 1988)."""
_RESAMPLES = 4000
_SEED = 1  # the same runs give the same verdict
_Z_POWER = 0.8416212335729143  # quantile of the normal distribution at `POWER`


def t_tail(t: float, df: int) -> float:
    """How often a variable with Student's distribution exceeds t.

    For whole degrees of freedom it is a finite sum: Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.3
    and 26.7.4.
    """
    angle = math.atan(t / math.sqrt(df))
    cosine, sine = math.cos(angle), math.sin(angle)
    odd = df % 2
    term = total = cosine if odd else 1.0
    for k in range(2 + odd, df - 1, 2):
        term *= cosine * cosine * (k - 1) / k
        total += term
    inside = 2 / math.pi * (angle + (sine * total if df > 1 else 0.0)) if odd else sine * total
    return (1 - inside) / 2


def t_quantile(tail: float, df: int) -> float:
    """The t that is exceeded so often, for less than a half."""
    low, high = 0.0, 1.0
    while t_tail(high, df) > tail:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if t_tail(middle, df) > tail else (low, middle)
    return (low + high) / 2


@dataclass(frozen=True)
class Change:
    """How much larger the new values are: the estimate, and what is needed to say how sure it is.

    `between` is what the noise was taken from: `runs`, `blocks` or `steps` of one run, or `nothing` for numbers that
    have none.
    """

    estimate: float
    between: str
    se: float = 0.0
    df: int = 0
    draws: tuple[float, ...] = ()

    @property
    def p(self) -> float:
        """How often chance alone gives such an increase or a larger one."""
        if self.between == "steps":
            below = sum(draw <= 0 for draw in self.draws)
            return (below + 1) / (len(self.draws) + 1)
        if self.se == 0:
            return 0.0 if self.estimate > 0 else 1.0
        return t_tail(self.estimate / self.se, self.df)

    def margins(self, level: float) -> tuple[float, float]:
        """How far below and above the estimate the true change can be, each with this level."""
        if self.between == "steps":
            low, high = np.quantile(self.draws, [level, 1 - level])
            return max(0.0, self.estimate - float(low)), max(0.0, float(high) - self.estimate)
        margin = 0.0 if self.se == 0 else t_quantile(level, self.df) * self.se
        return margin, margin

    def detectable(self, level: float) -> float:
        """The change that would be found in 8 of 10 cases: that of the margin, and what the power asks for."""
        if self.between == "steps":
            return self.margins(level)[0] + _Z_POWER * float(np.std(self.draws))
        if self.se == 0:
            return 0.0
        return (t_quantile(level, self.df) + t_quantile(1 - POWER, self.df)) * self.se


def between_runs(base: Sequence[float], new: Sequence[float]) -> Change:
    """The change of the mean of runs, with the noise that both sides show together (Student's two samples).

    It needs three runs in all: the side with one run is taken to be as noisy as the other one.
    """
    count, others = len(base), len(new)
    df = count + others - 2
    estimate = math.fsum(new) / others - math.fsum(base) / count
    squares = sum(math.fsum((value - math.fsum(side) / len(side)) ** 2 for value in side) for side in (base, new))
    # What differs by rounding alone does not differ.
    largest = max(map(abs, [*base, *new]))
    spread = math.sqrt(squares / df)
    if spread <= 1e-12 * largest:
        spread = 0.0
    return Change(estimate, "runs", spread * math.sqrt(1 / count + 1 / others), df)


def between_steps(base: Sequence[float], new: Sequence[float]) -> Change:
    """The change of the median of steps, with the noise between steps, by resampling them (percentile bootstrap)."""
    random = np.random.default_rng(_SEED)
    medians = [np.median(random.choice(np.asarray(side), (_RESAMPLES, len(side))), axis=1) for side in (base, new)]
    estimate = float(np.median(new) - np.median(base))
    return Change(estimate, "steps", draws=tuple((medians[1] - medians[0]).tolist()))


def block_length(steps: Sequence[float], kinds: Sequence[int] = ()) -> int:
    """How many steps a block has, so that blocks depend little on each other.

    The period of the steps, if their kinds repeat exactly and at least twice. Otherwise the cube root of their number,
    rounded down: the order that makes the error of a variance from blocks smallest (Hall, Horowitz and Jing, "On
    blocking rules for the bootstrap with dependent data", 1995).
    """
    count = len(steps)
    if len(kinds) == count and (length := period(kinds)) > 1:
        return length
    return max(1, int(count ** (1 / 3) + 1e-9))


def mean_of_blocks(steps: Sequence[float], kinds: Sequence[int] = ()) -> tuple[float, float, int]:
    """The mean of steps, its standard error by the spread of block means, and the degrees of freedom.

    The variance of block means is taken for each way to cut the steps into blocks, and averaged.
    """
    values = np.asarray(steps, np.float64)
    length = block_length(steps, kinds)
    sums = np.concatenate([[0.0], np.cumsum(values)])
    variances = []
    for offset in range(length):
        blocks = (len(values) - offset) // length
        if blocks < 2:
            continue
        ends = sums[offset : offset + blocks * length + 1 : length]
        variances.append(float(np.var(np.diff(ends) / length, ddof=1)))
    mean = math.fsum(steps) / len(steps)
    variance = math.fsum(variances) / len(variances) * length / len(values) if variances else math.inf
    return mean, math.sqrt(variance), len(values) // length - 1


def between_blocks(
    base: Sequence[float],
    new: Sequence[float],
    base_kinds: Sequence[int] = (),
    new_kinds: Sequence[int] = (),
    *,
    relative: bool = False,
) -> Change | None:
    """The change of the mean of steps, with the noise between blocks of steps (Welch's t); None for too few blocks.

    `relative` gives the change of the logarithm of the mean, whose standard error is the relative one (delta method).
    """
    sides = [mean_of_blocks(base, base_kinds), mean_of_blocks(new, new_kinds)]
    if any(df < 1 for *_, df in sides):
        return None
    means, errors, dfs = zip(*sides, strict=True)
    if relative:
        errors = tuple(error / mean for mean, error in zip(means, errors, strict=True))
        means = tuple(math.log(mean) for mean in means)
    # What differs by rounding alone does not differ.
    squares = [
        0.0 if error <= 1e-12 * abs(mean or 1.0) else error**2 for mean, error in zip(means, errors, strict=True)
    ]
    total = sum(squares)
    below = sum(square**2 / df for square, df in zip(squares, dfs, strict=True))
    df = max(1, int(total**2 / below)) if below else min(dfs)
    return Change(means[1] - means[0], "blocks", math.sqrt(total), df)


def holm(p_values: Sequence[float], level: float = LEVEL) -> list[float]:
    """The level of each of many checks, so that all of them together fail by chance as often as `level` says.

    Holm's procedure (1979): the smallest p has the level divided by all checks, the next by one less, until one is not
    below its own; that one and all others have its level.
    """
    order = sorted(range(len(p_values)), key=lambda place: p_values[place])
    levels = [level] * len(p_values)
    left, stopped = len(p_values), None
    for place in order:
        own = stopped if stopped is not None else level / left
        levels[place] = own
        if stopped is None and p_values[place] > own:
            stopped = own
        left -= 1
    return levels
