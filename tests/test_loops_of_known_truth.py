"""A few loops of the campaign of loops (`tests/campaign/loops`), and that its oracle knows the truth."""

from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path

import pytest

from tests.campaign.loops.compared import disagreements
from tests.campaign.loops.oracle import Kind, answers
from tests.campaign.loops.pairs import judged
from tests.campaign.loops.plan import EXAMPLE, Plan, plan
from tests.campaign.loops.record import recorded

SEEDS = [7_000_000 + number for number in range(30)]
# Steps of one kind that are unlike, and a CPU ahead of a GPU that works off a long step during short ones: only the
# path over the whole loop is right.
IN_THEIR_ORDER = [5_100_000_000 + number for number in (1, 19, 32, 40, 60, 72)]
# A CPU ahead of the GPU that catches up after the profiler's own work, in this step or in later ones.
CAUGHT_UP = [5_100_000_000 + number for number in (144, 294, 366, 371)]
PAIRS = SEEDS[:4]  # one of each way to become slower


@pytest.mark.parametrize("seed", SEEDS)
def test_answers_about_a_loop_are_the_oracles(seed: int, tmp_path: Path) -> None:
    assert disagreements(plan(seed), tmp_path) == []


@pytest.mark.parametrize("order", IN_THEIR_ORDER)
def test_limits_follow_the_order_of_steps(order: int, tmp_path: Path) -> None:
    assert disagreements(plan(order), tmp_path) == []


@pytest.mark.parametrize("order", CAUGHT_UP)
def test_the_profilers_work_is_caught_up_with_in_later_steps(order: int, tmp_path: Path) -> None:
    assert disagreements(plan(order), tmp_path) == []


@pytest.mark.parametrize("seed", PAIRS)
def test_the_gate_passes_no_slower_program(seed: int, tmp_path: Path) -> None:
    same, slower = judged(seed, tmp_path)
    assert same.answer in same.right, same.statement
    assert slower.answer in slower.right, slower.statement


def test_the_example_is_the_loop_of_its_plan() -> None:
    file = Path(__file__).parent / "data" / "kinds" / "loop.json.gz"
    assert gzip.decompress(file.read_bytes()).decode() == recorded(EXAMPLE)[0].text()


def test_a_seed_is_one_loop() -> None:
    assert recorded(plan(5))[0].text() == recorded(plan(5))[0].text()
    assert len({plan(seed) for seed in range(50)}) == 50


# --- the oracle, on loops whose answers are derived by hand ----------------------------------------------------------

# On the CPU alone: load 100, forward 2 x 200, backward 2 x 300, the optimizer 2 x 50 and python 100 us.
PLAIN = replace(
    EXAMPLE,
    gpu=False,
    steps=12,
    warm_up=0,
    ops=2,
    load_us=100,
    forward_us=400,
    backward_us=600,
    optimizer_us=100,
    python_us=100,
    late_every=0,
    evaluate_every=0,
    jitter=0.0,
    own_every=0,
    between_us=0,
    last="whole",
)


def test_a_plain_loop() -> None:
    right = answers(PLAIN)
    assert (right.count, right.loop, right.mean) == (12, 12 * 1300, 1300)
    assert right.limits == {"load_data": 12 * 100, "cpu_tensor": 12 * 1100, "python": 12 * 100}
    assert set(right.roles.values()) == {"counted"}
    assert right.kinds == (Kind(frozenset(), frozenset(range(1, 13)), 12 * 1300),)


@pytest.mark.parametrize(
    ("change", "mean", "kinds"),
    [
        # steps 4, 8 and 12 are late by 2,000 us
        ({"late_every": 4, "late_us": 2000}, 1300 + 500, [9, 3]),
        # the optimizer in steps 3, 6, 9 and 12
        ({"accumulate": 3, "optimizer_us": 300}, 1200 + 300 / 3, [8, 4]),
        ({"evaluate_every": 6, "evaluate_us": 600}, 1300 + 100, [10, 2]),
        ({"between_us": 130}, 1300 + 11 * 130 / 12, [12]),
        ({"last": "cut off", "warm_up": 2}, 1300, [12]),
    ],
)
def test_parts_of_some_steps(change: dict[str, int], mean: float, kinds: list[int]) -> None:
    right = answers(replace(PLAIN, **change))  # type: ignore[arg-type]
    assert right.mean == pytest.approx(mean)
    assert right.kinds is not None
    assert [len(kind.steps) for kind in right.kinds] == kinds
    assert sum(right.limits.values()) == right.loop


def gpu(**change: int) -> Plan:
    return replace(PLAIN, gpu=True, **change)  # type: ignore[arg-type]


def test_a_loop_that_the_gpu_bounds() -> None:
    """Kernels of 200 % of their ops: the first of a step starts 4 us after the batch, and all take 2,200 us.

    The synchronise returns 4 us later. So a step takes 100 + 4 + 2,200 + 4 us.
    """
    right = answers(gpu(kernel_pct=200))
    assert right.mean == 100 + 4 + 2200 + 4
    assert right.limits["computing"] == 12 * 2200
    assert right.limits["load_data"] == 12 * 100
    # in each step, until the launch of the first kernel has its effect, and after the last one
    assert right.idle["load_data"] == 12 * 100
    assert right.idle["sync"] == 12 * 4


def test_the_profilers_own_work_counts_to_no_step() -> None:
    """It delays the second launch in steps 5 and 10 by 3,000 us; kernels take 20 % of their ops."""
    own = gpu(kernel_pct=20, own_every=5, own_us=3000)
    assert answers(own).mean == answers(replace(own, own_every=0)).mean
    assert answers(own).idle["profiler"] == 2 * 3000
