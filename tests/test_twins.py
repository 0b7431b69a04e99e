"""Programs that are slow for one known reason: the answers name it, and measured times without the profiler agree.

Each twin is a trace; beside it stands what a step takes without the profiler, with the cause and with the cause cured
(`TWINS` in docs/examples/capture.py).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

import polars as pl
import pytest

import hotline_analysis as ha
from hotline_analysis.answers.finding import Finding
from tests.runs import opened

GPU = Path(__file__).parent / "data" / "gpu"

# cause → the answer to what bounds the step, and the rule that advises what cures it
CAUSES = {
    "input-bound": ("input-bound", "loader_in_main_process"),
    "launch-bound": ("launch-bound", "host_bound_launching"),
    "copy-bound": ("copy-bound", "pageable_copies"),
    "gpu-bound": ("gpu-bound", "fp32_on_cuda_cores"),
    "optimizer-bound": ("launch-bound", "single_tensor_optimizer"),
    "sync-bound": ("launch-bound", "read_backs"),
}
NAMED = 40.0  # percent of the step: what a limit needs to be the answer


@dataclass(frozen=True)
class Said:
    """What a user reads of a twin."""

    bound: Finding
    optimizer: Finding
    advice: pl.DataFrame


@cache
def said(cause: str) -> Said:
    with opened(GPU / "twins" / f"{cause}.json.gz") as trace:
        return Said(ha.gpu_or_cpu_bound(trace), ha.optimizer_bottleneck(trace), ha.advice(trace))


def measured(path: Path) -> tuple[str, list[float]]:
    """The GPU, and the time of a step in each block of steps, in nanoseconds."""
    steps: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return steps["gpu"], [block / steps["steps_per_block"] for block in steps["block_ns"]]


def sick_and_cured(cause: str) -> tuple[list[float], list[float]]:
    """The times of a step with the cause and without it, on the same kind of GPU."""
    (gpu, sick), (same, cured) = (
        measured(GPU / "twins" / f"{cause}.steps.json"),
        measured(GPU / "pairs" / f"{cause.replace('-', '_')}_cured.steps.json"),
    )
    assert gpu == same
    return sick, cured


def cure_pct(cause: str) -> float:
    """How much shorter the cure makes a step, in percent."""
    sick, cured = sick_and_cured(cause)
    return 100 * (1 - median(cured) / median(sick))


def test_these_are_all_twins() -> None:
    assert {path.name.removesuffix(".json.gz") for path in (GPU / "twins").glob("*.json.gz")} == CAUSES.keys()


@pytest.mark.parametrize("cause", CAUSES)
def test_the_cause_makes_the_program_slow(cause: str) -> None:
    """The premise: without the profiler, each block of steps without the cause is shorter than each one with it."""
    sick, cured = sick_and_cured(cause)
    assert max(cured) < min(sick)


@pytest.mark.parametrize("cause", CAUSES)
@pytest.mark.sampled
def test_what_bounds_the_step(cause: str) -> None:
    """The answer is the cause where the cure takes away so much of the step that it may be the answer.

    An optimizer that updates one parameter at a time takes the CPU's time for launching, so that is the answer, and
    the optimizer has a question of its own. Values that are read back after each module keep the GPU waiting, but
    the CPU is slower than the GPU without them, too: the cure takes away no more than a sixth of the step.
    """
    answer, _ = CAUSES[cause]
    assert said(cause).bound.answer == answer
    assert (cure_pct(cause) >= NAMED) == (answer == cause)


@pytest.mark.parametrize("cause", CAUSES)
def test_whether_the_optimizer_is_the_bottleneck(cause: str) -> None:
    """It is for one of them, where the cure brings no more than a step without any optimizer would."""
    found = said(cause).optimizer
    assert found.answer == ("yes" if cause == "optimizer-bound" else "no")
    gain = (found.numbers or {})["gain_pct"]
    assert gain is not None
    if cause == "optimizer-bound":
        assert gain >= cure_pct(cause)


@pytest.mark.parametrize("cause", CAUSES)
def test_the_cure_is_advised(cause: str) -> None:
    """It is the first advice where the cause is the answer, and is said to bring about what it does.

    About: what runs under the profiler takes other shares of a step than what does not.
    """
    answer, rule = CAUSES[cause]
    advice = said(cause).advice
    assert rule in advice["rule"].to_list()
    assert (advice["rule"][0] == rule) == (answer == cause)
    assert advice.filter(rule=rule)["gain_pct"].item() == pytest.approx(cure_pct(cause), abs=12)
