"""Statistics of a gate: Student's t, confidence intervals between runs and between steps, and Holm's levels.

Runs of a program differ more than its steps: they have different machines, temperatures and neighbours. Therefore a run
counts as a single value, and the noise is the noise between runs. Only with one run on either side are steps used
instead. They are grouped into blocks, because bursts make steps depend on each other, and differences between step
kinds are removed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hotline_analysis.answers.periods import period

LEVEL = 0.01
"""Probability of a false failure of a gate, over all checks together: once in a hundred gates.

The usual 5 % would cause a false alarm every week at four changes a day.
"""
POWER = 0.8
"""Probability of finding a change of the `detectable` size: the usual 80 % (Cohen 1988)."""
_RESAMPLES = 4000
_SEED = 1  # the same runs always give the same verdict
_MORE_STEPS = 1.1  # step of the search for the number of steps to record; the result is shown with two digits
_MOST_TIMES = 1e6
_Z_POWER = 0.8416212335729143  # quantile of the normal distribution at `POWER`


def t_tail(t: float, df: int) -> float:
    """Probability that a variable with Student's distribution exceeds t.

    For whole degrees of freedom this is a finite sum: Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.3
    and 26.7.4.
    """
    angle = math.atan(t / math.sqrt(df))
    cosine, sine = math.cos(angle), math.sin(angle)
    odd = df % 2
    term = total = cosine if odd else 1.0
    for k in range(2 + odd, df - 1, 2):
        term *= cosine * cosine * (k - 1) / k
        total += term
    central = 2 / math.pi * (angle + (sine * total if df > 1 else 0.0)) if odd else sine * total
    return (1 - central) / 2


def t_quantile(tail: float, df: int) -> float:
    """The t with the given tail probability, for probabilities below one half."""
    low, high = 0.0, 1.0
    while t_tail(high, df) > tail:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if t_tail(middle, df) > tail else (low, middle)
    return (low + high) / 2


@dataclass(frozen=True)
class Change:
    """Increase of the new values: the estimate, and the data for its confidence interval.

    `between` is the source of the noise: `runs`, `blocks` or `steps` of a run, or `nothing` for numbers without noise.
    """

    estimate: float
    between: str
    se: float = 0.0
    df: int = 0
    draws: tuple[float, ...] = ()

    @property
    def p(self) -> float:
        """Probability of such an increase, or a larger increase, by chance."""
        if self.between == "steps":
            below = sum(draw <= 0 for draw in self.draws)
            return (below + 1) / (len(self.draws) + 1)
        if self.se == 0:
            return 0.0 if self.estimate > 0 else 1.0
        return t_tail(self.estimate / self.se, self.df)

    def margins(self, level: float) -> tuple[float, float]:
        """Margins of the true change below and above the estimate, each at the given level."""
        if self.between == "steps":
            low, high = np.quantile(self.draws, [level, 1 - level])
            return max(0.0, self.estimate - float(low)), max(0.0, float(high) - self.estimate)
        margin = 0.0 if self.se == 0 else t_quantile(level, self.df) * self.se
        return margin, margin

    def detectable(self, level: float, times: float = 1) -> float:
        """The change that would be found in 8 of 10 cases: the margin, plus the quantile of the power.

        `times` is the factor on the number of steps.
        """
        if self.between == "steps":
            return self.margins(level)[0] + _Z_POWER * float(np.std(self.draws))
        if self.se == 0:
            return 0.0
        df = max(1, int(self.df * times))
        return (t_quantile(level, df) + t_quantile(1 - POWER, df)) * self.se / math.sqrt(times)

    def times_steps(self, level: float, change: float) -> float | None:
        """Factor on the number of steps to find a change in 8 of 10 cases; `None` if more steps do not help."""
        if self.between != "blocks" or self.se == 0 or change <= 0:
            return None
        times = 1.0
        while self.detectable(level, times) > change:
            times *= _MORE_STEPS
            if times > _MOST_TIMES:
                return None
        return times


def between_runs(base: Sequence[float], new: Sequence[float]) -> Change:
    """The change of the mean of runs, with the pooled noise of both sides (Student's two-sample t).

    It needs three runs in total: a side with a single run is assumed to be as noisy as the other side.
    """
    count, new_count = len(base), len(new)
    df = count + new_count - 2
    estimate = math.fsum(new) / new_count - math.fsum(base) / count
    squares = sum(math.fsum((value - math.fsum(side) / len(side)) ** 2 for value in side) for side in (base, new))
    # A difference from rounding alone counts as none.
    largest = max(map(abs, [*base, *new]))
    spread = math.sqrt(squares / df)
    if spread <= 1e-12 * largest:
        spread = 0.0
    return Change(estimate, "runs", spread * math.sqrt(1 / count + 1 / new_count), df)


def between_steps(base: Sequence[float], new: Sequence[float]) -> Change:
    """The change of the median of steps, with the noise between steps, by resampling them (percentile bootstrap)."""
    random = np.random.default_rng(_SEED)
    medians = [np.median(random.choice(np.asarray(side), (_RESAMPLES, len(side))), axis=1) for side in (base, new)]
    estimate = float(np.median(new) - np.median(base))
    return Change(estimate, "steps", draws=tuple((medians[1] - medians[0]).tolist()))


def block_length(count: int) -> int:
    """Number of steps per block, so that blocks are nearly independent: the cube root of all steps, rounded down.

    This order minimises the error of a variance estimated from blocks (Hall, Horowitz and Jing, "On blocking rules for
    the bootstrap with dependent data", 1995).
    """
    return max(1, int(count ** (1 / 3) + 1e-9))


def mean_of_blocks(steps: Sequence[float], kinds: Sequence[int] = ()) -> tuple[float, float, int]:
    """The mean of steps, its standard error by the spread of block means, and the degrees of freedom.

    The variance of block means is averaged over all ways to cut the steps into blocks. If the kinds of the steps repeat
    exactly and at least twice, a step's noise is the difference from the mean of its kind, and the mean is taken over
    whole periods. Without this, the mean would depend on the start of the recording: of 13 steps with every second step
    longer, either six or seven are longer.
    """
    values = np.asarray(steps, np.float64)
    count, mean = len(values), math.fsum(steps) / len(steps)
    fitted = 1
    if len(kinds) == count and (length := period(kinds)) > 1:
        means = {kind: float(values[np.asarray(kinds) == kind].mean()) for kind in set(kinds)}
        mean = math.fsum(means[kind] for kind in kinds[:length]) / length
        values = values - [means[kind] for kind in kinds]
        fitted = len(means)
    block = block_length(count)
    sums = np.concatenate([[0.0], np.cumsum(values)])
    variances = []
    for offset in range(block):
        blocks = (count - offset) // block
        if blocks < 2:
            continue
        ends = sums[offset : offset + blocks * block + 1 : block]
        variances.append(float(np.var(np.diff(ends) / block, ddof=1)))
    variance = math.fsum(variances) / len(variances) * block / count if variances else math.inf
    # Each fitted mean takes a step's freedom.
    freedom = count - fitted + 1
    return mean, math.sqrt(variance * count / freedom), freedom // block - 1


def between_blocks(
    base: Sequence[float],
    new: Sequence[float],
    base_kinds: Sequence[int] = (),
    new_kinds: Sequence[int] = (),
    *,
    relative: bool = False,
) -> Change | None:
    """The change of the mean of steps, with the noise between blocks of steps (Welch's t); `None` for too few blocks.

    With `relative`, it is the change of the logarithm of the mean, whose standard error is relative (delta method).
    """
    sides = [mean_of_blocks(base, base_kinds), mean_of_blocks(new, new_kinds)]
    if any(df < 1 for *_, df in sides):
        return None
    means, errors, dfs = zip(*sides, strict=True)
    if relative:
        errors = tuple(error / mean for mean, error in zip(means, errors, strict=True))
        means = tuple(math.log(mean) for mean in means)
    # A difference from rounding alone counts as none.
    squares = [
        0.0 if error <= 1e-12 * abs(mean or 1.0) else error**2 for mean, error in zip(means, errors, strict=True)
    ]
    total = sum(squares)
    below = sum(square**2 / df for square, df in zip(squares, dfs, strict=True))
    df = max(1, int(total**2 / below)) if below else min(dfs)
    return Change(means[1] - means[0], "blocks", math.sqrt(total), df)


def holm(p_values: Sequence[float], level: float = LEVEL) -> list[float]:
    """The level of each check, so that all checks together fail by chance with probability `level`.

    Holm's procedure (1979): the smallest p gets `level` divided by the number of checks, the next p gets `level`
    divided by the remaining number, and so on. The first p above its level stops the procedure, and all remaining
    checks get this level.
    """
    order = sorted(range(len(p_values)), key=lambda place: p_values[place])
    levels = [level] * len(p_values)
    remaining, stop_level = len(p_values), None
    for place in order:
        check_level = stop_level if stop_level is not None else level / remaining
        levels[place] = check_level
        if stop_level is None and p_values[place] > check_level:
            stop_level = check_level
        remaining -= 1
    return levels
