"""Random plans of training loops: the parts of a step, their times, and which steps have which part."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, replace
from typing import Literal

Way = Literal["every step", "every k-th", "one in ten", "heavier tail"]
WAYS: tuple[Way, ...] = ("every step", "every k-th", "one in ten", "heavier tail")


@dataclass(frozen=True)
class Plan:
    """A loop before chance has drawn its times. All times are microseconds.

    `seed` draws the jitter and nothing else. `gpu` is false for a loop on the CPU alone. `ahead` lets the CPU launch
    the next step without waiting for the GPU. A part with an interval (`every`) is in the steps whose number leaves
    `interval - 1` when divided by the interval, counted from `shift`; an interval of 0 leaves the part out.
    """

    seed: int
    gpu: bool
    ahead: bool
    steps: int
    shift: int
    first_number: int
    warm_up: int
    warm_up_us: int
    ops: int
    load_us: int
    forward_us: int
    backward_us: int
    optimizer_us: int
    python_us: int
    kernel_pct: int
    """GPU time of an op in per cent of its time on the CPU."""
    accumulate: int
    late_every: int
    late_us: int
    evaluate_every: int
    evaluate_us: int
    save_every: int
    save_us: int
    slow: frozenset[int]
    slow_us: int
    jitter: float
    """Each time of a step is longer or shorter by up to this share."""
    tail: float
    """Mean of the exponentially distributed extra time of forward, as a share of the step."""
    own_every: int
    own_us: int
    between_us: int
    last: Literal["whole", "cut off", "empty"]

    @property
    def usual_us(self) -> int:
        """The CPU's time of a step with the parts that all steps have."""
        own = self.load_us + self.forward_us + self.backward_us + self.python_us
        return own + (self.optimizer_us if self.accumulate == 1 else 0)

    def has(self, every: int, number: int) -> bool:
        """Whether a counted step has a part with this interval."""
        return every > 0 and (number + self.shift) % every == every - 1


EXAMPLE = Plan(
    seed=1,
    gpu=True,
    ahead=False,
    steps=12,
    shift=0,
    first_number=1,
    warm_up=1,
    warm_up_us=180_000,
    ops=4,
    load_us=2_000,
    forward_us=20_000,
    backward_us=40_000,
    optimizer_us=10_000,
    python_us=3_000,
    kernel_pct=110,
    accumulate=1,
    late_every=4,
    late_us=150_000,
    evaluate_every=6,
    evaluate_us=90_000,
    save_every=0,
    save_us=0,
    slow=frozenset(),
    slow_us=0,
    jitter=0.02,
    tail=0.0,
    own_every=9,
    own_us=30_000,
    between_us=4_000,
    last="cut off",
)
"""The loop of `tests/data/kinds`, which the documentation draws."""


def plan(seed: int) -> Plan:
    """Draw a plan; the same seed gives the same plan."""
    pick = random.Random(seed)
    gpu = pick.random() < 0.6
    step_us = round(math.exp(pick.uniform(math.log(2_000), math.log(200_000))))
    shares = [pick.uniform(0.5, 2) for _ in range(3)]
    forward, backward, optimizer = (round(0.75 * step_us * share / sum(shares)) for share in shares)
    steps = pick.randint(8, 36)
    accumulate = pick.choice([1, 1, 1, 2, 3, 4])

    def sometimes(chance: float, least: float, most: float, fewest: int = 2) -> tuple[int, int]:
        """An interval of steps, and a time as a share of the step; none, or two occurrences at least."""
        every = pick.randint(2, max(2, min(10, steps // fewest))) if pick.random() < chance else 0
        return every, round(step_us * pick.uniform(least, most))

    late_every, late_us = sometimes(0.35, 0.3, 4)
    evaluate_every, evaluate_us = sometimes(0.2, 0.5, 5)
    save_every, save_us = sometimes(0.2, 0.5, 5)
    own_every, own_us = sometimes(0.25 if gpu else 0, 0.1, 3, 1)
    is_slow = pick.random() < 0.2
    slow = frozenset(pick.sample(range(steps), max(1, steps // 12))) if is_slow else frozenset()
    return Plan(
        seed=seed,
        gpu=gpu,
        ahead=gpu and pick.random() < 0.4,
        steps=steps,
        shift=pick.randint(0, 9),
        first_number=pick.choice([0, 1, 3, 10]),
        warm_up=pick.choice([0, 0, 1, 2]),
        warm_up_us=round(step_us * pick.uniform(0.3, 8)),
        ops=pick.randint(2, 8),
        load_us=round(step_us * pick.choice([0.01, 0.05, pick.uniform(0.05, 1)])),
        forward_us=forward,
        backward_us=backward,
        optimizer_us=optimizer,
        python_us=round(step_us * pick.uniform(0.02, 0.3)),
        kernel_pct=pick.choice([20, 60, 95, 130, 250]),
        accumulate=accumulate,
        late_every=late_every,
        late_us=late_us,
        evaluate_every=evaluate_every,
        evaluate_us=evaluate_us,
        save_every=save_every,
        save_us=save_us,
        slow=slow,
        slow_us=round(step_us * pick.uniform(1, 5)),
        jitter=pick.choice([0.0, 0.002, 0.01, 0.03]),
        tail=0.0,
        own_every=own_every,
        own_us=own_us,
        between_us=round(step_us * pick.choice([0, 0, 0, 0.02, 0.3])),
        last=pick.choice(["whole", "whole", "whole", "cut off", "empty"]),
    )


def again(original: Plan, seed: int) -> Plan:
    """The same program, recorded again: other jitter, other steps of the period, other slow steps, another length."""
    pick = random.Random(seed)
    steps = pick.randint(8, 36)
    slow = frozenset(pick.sample(range(steps), max(1, steps // 12))) if original.slow else original.slow
    return replace(original, seed=seed, steps=steps, shift=pick.randint(0, 9), slow=slow)


def slower(original: Plan, way: Way, seed: int, times: int = 1) -> Plan:
    """A plan that takes about 12 to 100 % longer than the original in this way, or so many times as much.

    A GPU that runs far behind hides some of it.
    """
    pick = random.Random(seed)
    changed = again(original, seed)
    more = times * pick.uniform(0.12, 1)
    step_us = original.usual_us
    if way == "every step":
        return replace(changed, forward_us=changed.forward_us + round(more * _mean_us(original)))
    if way == "heavier tail":
        return replace(changed, tail=more * _mean_us(original) / step_us)
    if way == "every k-th":
        every = pick.randint(2, min(8, changed.steps // 2))
        taken = replace(changed, late_every=every)
        return replace(taken, late_us=round(original.late_us + more * _mean_us(original) * every))
    slow = frozenset(pick.sample(range(changed.steps), math.ceil(changed.steps / 10)))
    return replace(changed, slow=slow, slow_us=round(original.slow_us + 10 * more * _mean_us(original)))


def _mean_us(given: Plan) -> float:
    """About the mean time of a step: an upper bound of the CPU's and the GPU's parts."""
    parts = [
        (given.accumulate if given.accumulate > 1 else 0, given.optimizer_us),
        (given.late_every, given.late_us),
        (given.evaluate_every, given.evaluate_us),
        (given.save_every, given.save_us),
    ]
    mean = given.usual_us + sum(time / every for every, time in parts if every)
    mean += len(given.slow) * given.slow_us / given.steps + given.between_us
    return mean * max(1.0, given.kernel_pct / 100 if given.gpu else 1.0)
