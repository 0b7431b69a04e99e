"""Predictions against what was measured on a GPU: the traces in `tests/data/gpu`, each with its step beside it.

What a step takes without the profiler is in `<name>.steps.json`. `docs/predictions.md` has all pairs, those that miss
among them.
"""

from __future__ import annotations

import json
import statistics
from functools import cache
from pathlib import Path

import pytest

import hotline_analysis as ha

GPU = Path(__file__).parent / "data" / "gpu"
PLAIN = ("launch-bound", "gpu-bound", "cnn_b8", "cnn_b8_graphs", "gnn_b2048", "unet_b16", "copy_bound_cured")
"""Programs that the GPU bounds, and others that the CPU does."""


def path_of(name: str) -> Path:
    return next(GPU.glob(f"*/{name}.json.gz"))


def step_ns(name: str) -> float:
    """What a step takes without the profiler."""
    [path] = GPU.glob(f"*/{name}.steps.json")
    found = json.loads(path.read_text())
    return float(statistics.median(found["block_ns"]) / found["steps_per_block"])


@cache
def predicted(name: str, scenario: str, **parameters: float) -> ha.Prediction:
    with ha.load(path_of(name)) as trace:
        return ha.whatif(trace, scenario, rank=None, **parameters)


@pytest.mark.parametrize("name", PLAIN)
@pytest.mark.sampled
def test_without_the_profiler(name: str) -> None:
    found = predicted(name, "no_profiler")
    assert found.low_ns <= step_ns(name) <= found.high_ns


def test_what_the_cpu_bounds_is_recorded_far_too_long() -> None:
    """So that the test above does not hold for nothing."""
    assert predicted("launch-bound", "no_profiler").baseline_ns > 1.5 * step_ns("launch-bound")
    assert predicted("cnn_b8", "no_profiler").baseline_ns > 1.5 * step_ns("cnn_b8")


@pytest.mark.parametrize(
    ("before", "scenario", "after"),
    [
        ("gpu-bound", "tf32", "gpu_bound_cured"),
        ("copy-bound", "pinned", "copy_bound_cured"),
        ("launch-bound", "cuda_graph", "launch_bound_cured"),
        ("cnn_b8", "cuda_graph", "cnn_b8_graphs"),
    ],
)
@pytest.mark.sampled
def test_one_thing_changed(before: str, scenario: str, after: str) -> None:
    found = predicted(before, scenario)
    assert found.low_ns <= step_ns(after) <= found.high_ns


@pytest.mark.parametrize(("batch", "other"), [(16, 32), (32, 16)])
def test_another_batch(batch: int, other: int) -> None:
    """The GPU bounds both steps; what they take is known to a tenth."""
    found = predicted(f"unet_b{batch}", "batch", to=other)
    assert found.predicted_ns == pytest.approx(step_ns(f"unet_b{other}"), rel=0.15)
    assert found.low_ns <= step_ns(f"unet_b{other}") <= found.high_ns
