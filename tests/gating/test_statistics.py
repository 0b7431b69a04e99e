"""The gate's statistics against published tables, and against simulations that know the truth."""

from __future__ import annotations

from statistics import median

import numpy as np
import pytest

from hotline_analysis.gating.statistics import (
    LEVEL,
    between_blocks,
    between_runs,
    between_steps,
    block_length,
    holm,
    mean_of_blocks,
    t_quantile,
    t_tail,
)


@pytest.mark.parametrize(
    ("tail", "df", "expected"),
    [
        # NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.2: upper critical values of Student's t
        (0.05, 1, 6.314),
        (0.05, 2, 2.920),
        (0.025, 2, 4.303),
        (0.05, 8, 1.860),
        (0.025, 10, 2.228),
        (0.01, 3, 4.541),
        (0.005, 5, 4.032),
        (0.001, 7, 4.785),
        (0.01, 100, 2.364),
    ],
)
def test_quantiles_are_those_of_the_table(tail: float, df: int, expected: float) -> None:
    assert t_quantile(tail, df) == pytest.approx(expected, abs=6e-4)
    assert t_tail(t_quantile(tail, df), df) == pytest.approx(tail)
    assert t_tail(-1.0, df) == pytest.approx(1 - t_tail(1.0, df))


def test_a_change_of_two_samples_is_that_of_the_textbook() -> None:
    # By hand: means 12 and 16, squares 8 + 2 over df 3, se = sqrt(10 / 3 * (1 / 3 + 1 / 2)).
    change = between_runs([10.0, 12.0, 14.0], [15.0, 17.0])
    assert (change.estimate, change.df) == (4.0, 3)
    assert change.se == pytest.approx((10 / 3 * (1 / 3 + 1 / 2)) ** 0.5)
    assert change.p == pytest.approx(t_tail(4.0 / change.se, 3))


def test_equal_numbers_have_no_noise() -> None:
    change = between_runs([0.1 + 0.2, 0.3], [0.3])
    assert (change.se, change.p) == (0.0, 1.0) or abs(change.estimate) < 1e-15
    assert between_runs([5.0, 5.0], [6.0]).p == 0.0


def test_one_run_with_three_others_takes_its_noise_from_them() -> None:
    change = between_runs([100.0, 101.0, 99.0], [110.0])
    assert change.df == 2
    assert change.se == pytest.approx((1 + 1 / 3) ** 0.5)  # the spread of the three is 1


def test_by_chance_it_fails_as_often_as_the_level_says() -> None:
    random = np.random.default_rng(3)
    count = 3000
    p = [between_runs(random.normal(100, 2, 7).tolist(), random.normal(100, 2, 3).tolist()).p for _ in range(count)]
    for level in (0.01, 0.05, 0.2):
        # within four standard errors of a binomial count
        assert abs(sum(each <= level for each in p) - level * count) < 4 * (level * count) ** 0.5


def test_what_is_called_detectable_is_found_in_eight_of_ten() -> None:
    random = np.random.default_rng(4)
    sd, base, new = 2.0, 10, 3
    se = sd * (1 / base + 1 / new) ** 0.5
    df = base + new - 2
    shift = (t_quantile(LEVEL, df) + t_quantile(0.2, df)) * se
    found = [
        between_runs(random.normal(0, sd, base).tolist(), random.normal(shift, sd, new).tolist()).p <= LEVEL
        for _ in range(2000)
    ]
    assert 0.76 < sum(found) / len(found) < 0.84


def test_steps_of_one_run_are_resampled() -> None:
    random = np.random.default_rng(5)
    base, new = random.normal(100, 3, 30).tolist(), random.normal(120, 3, 30).tolist()
    change = between_steps(base, new)
    assert change.estimate == pytest.approx(median(new) - median(base))
    below, above = change.margins(0.05)
    # The standard error of a median of normal values is sqrt(pi / 2 / n) times their spread.
    assert below + above == pytest.approx(2 * 1.645 * 3 * (2 * np.pi / 2 / 30) ** 0.5, rel=0.4)
    assert change.p < 0.001 < 0.4 < between_steps(base, base).p
    assert between_steps(base, new) == change  # nothing is left to chance


def test_the_mean_of_steps_has_the_noise_of_its_blocks() -> None:
    # By hand: blocks of two have the means 1.5, 3.5, 5.5 and 7.5 or 2.5, 4.5, 6.5 and 8.5, whose variance is 20 / 3.
    steps = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]
    mean, error, df = mean_of_blocks(steps)
    assert block_length(len(steps)) == 2  # the cube root of 9, rounded down
    assert (mean, df) == (5.0, 3)
    assert error == pytest.approx((20 / 3 * 2 / 9) ** 0.5)
    assert between_blocks(steps[:1], steps) is None


def test_a_period_is_no_noise_and_a_change_of_it_is_found() -> None:
    usual, slow = [98.6] * 16, [98.6, 98.6, 98.6, 398.2] * 4
    change = between_blocks(usual, slow, [0] * 16, [0, 0, 0, 1] * 4, relative=True)
    assert change is not None
    assert change.estimate == pytest.approx(np.log(173.5 / 98.6))
    assert change.p < LEVEL
    # A pattern that is seen once and a half is none yet.
    assert mean_of_blocks(slow[:6], [0, 0, 0, 1, 0, 0])[1] > 0


def test_the_mean_is_of_whole_periods() -> None:
    """Every second step takes 300 instead of 100: 200 on average, whichever comes first, and in 7 steps as in 12."""
    for steps in ([100.0, 300.0] * 6, [300.0, *[100.0, 300.0] * 3], [100.0, *[300.0, 100.0] * 3]):
        kinds = [int(step > 200) for step in steps]
        mean, error, df = mean_of_blocks(steps, kinds)
        assert (mean, error) == (200.0, 0.0)
        assert df >= 1


def test_noise_within_kinds_is_that_of_their_steps() -> None:
    """By hand: the kinds' means are 100 and 300, and the noise of all steps is -3, -1, 1, 3, 3, 1, -1, -3.

    The blocks of two have the noise -2, 2, 2, -2 or, from the second step on, 0, 3, 0: variances 16 / 3 and 3. Of eight
    steps, one is fitted beside the mean.
    """
    steps = [97.0, 299.0, 101.0, 303.0, 103.0, 301.0, 99.0, 297.0]
    mean, error, df = mean_of_blocks(steps, [0, 1] * 4)
    assert (mean, df) == (200.0, 7 // 2 - 1)
    assert error == pytest.approx((((16 / 3 + 3) / 2) * 2 / 8 * 8 / 7) ** 0.5)


def test_so_many_steps_find_a_change() -> None:
    random = np.random.default_rng(11)
    steps = [random.normal(100, 10, 27).tolist() for _ in range(2)]
    change = between_blocks(*steps, relative=True)
    assert change is not None
    times = change.times_steps(LEVEL, 0.03)
    assert times is not None
    assert times > 1
    count, found = int(27 * times), 0
    for _ in range(200):
        base, new = random.normal(100, 10, count), random.normal(103, 10, count)
        more = between_blocks(base.tolist(), new.tolist(), relative=True)
        found += more is not None and more.p <= LEVEL
    assert 0.5 < found / 200 < 0.98  # 80 %, for a spread that 27 steps tell within a fifth
    assert change.times_steps(LEVEL, 10.0) == 1
    assert change.times_steps(LEVEL, 0.0) is None


def test_bursts_are_more_noise_than_single_steps() -> None:
    random = np.random.default_rng(7)
    single = random.permutation([100.0] * 57 + [200.0] * 7).tolist()
    burst = [100.0] * 30 + [200.0] * 7 + [100.0] * 27
    assert mean_of_blocks(burst)[1] > 1.3 * mean_of_blocks(single)[1]


def test_means_fail_by_chance_as_seldom_as_the_level_says() -> None:
    """Steps of which one in ten takes three times as long: skewed, as real ones are."""
    random = np.random.default_rng(9)

    def steps() -> list[float]:
        values: list[float] = (random.normal(100, 3, 40) * np.where(random.uniform(size=40) < 0.1, 3, 1)).tolist()
        return values

    changes = [between_blocks(steps(), steps(), relative=True) for _ in range(2000)]
    failed = sum(change is not None and change.p <= LEVEL for change in changes)
    assert failed <= LEVEL * 2000 + 4 * (LEVEL * 2000) ** 0.5


def test_levels_of_many_checks() -> None:
    # Holm (1979), by hand: 0.05 / 4 > 0.01, 0.05 / 3 > 0.015, 0.05 / 2 < 0.03; from there on all have 0.025.
    assert holm([0.03, 0.01, 0.5, 0.015], 0.05) == pytest.approx([0.025, 0.0125, 0.025, 0.05 / 3])
    assert holm([0.2]) == [LEVEL]
    assert holm([]) == []


def test_many_checks_together_fail_as_seldom_as_one() -> None:
    random = np.random.default_rng(6)
    failed = 0
    for _ in range(1000):
        p = random.uniform(size=40).tolist()
        failed += any(value <= level for value, level in zip(p, holm(p, 0.05), strict=True))
    assert 25 < failed < 75
