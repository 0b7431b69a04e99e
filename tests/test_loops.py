"""Loops as people write them: their phases against a stopwatch, and the tools that compare them."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest

import hotline_analysis as ha
from tests.loops import score, stopwatch
from tests.loops.__main__ import NAMES, PROGRAMS
from tests.loops.score import Share, compare, named, phases_of, planted, shares_of

ROOT = Path(__file__).parents[1]
QUICK = ["anchor_matching", "checkpoints", "dqn_replay", "moco_queue", "scheduler_code"]
FURTHER = ["autograd_function", "distillation", "gan_samples", "graph_messages", "weight_histograms"]
STEPS = 3


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::hotline_analysis.HotlineWarning")  # models that cannot be placed
@pytest.mark.parametrize("names", [QUICK, pytest.param(FURTHER, marks=pytest.mark.long)], ids=["quick", "further"])
def test_phases_have_the_shares_of_the_stopwatch(names: list[str], tmp_path: Path) -> None:
    """In the median step: in another one, a process may take the CPU between the stopwatch and the mark of the step."""
    pytest.importorskip("torch")
    command = [sys.executable, "-m", "tests.loops", *names, "-o", str(tmp_path), "--steps", str(STEPS)]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    wrong, count = {}, 0
    for name in names:
        truth = json.loads((tmp_path / name / "truth.json").read_text())["recorded"][0]
        with ha.load(tmp_path / name / "run.json.gz") as trace:
            steps = ha.steps(trace)["step"].to_list()
            assert len(steps) == len(truth) == STEPS
            ours = [phases_of(trace, step)[0] for step in steps]
        differences: dict[str, list[float]] = {}
        for measured, found in zip(truth, ours, strict=True):
            for share in compare(found, shares_of([measured]), {}, least=0):
                differences.setdefault(share.phase, []).append(share.difference)
        count += len(differences)
        for phase, points in differences.items():
            if abs(statistics.median(points)) > score.TOLERANCE:
                wrong[f"{name} {phase}"] = points
    assert len(wrong) <= 0.05 * count, wrong


def test_a_stopwatch_counts_nested_phases_once(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0, 10, 30, 60, 100, 150, 150])
    monkeypatch.setattr(time, "perf_counter_ns", lambda: next(clock))
    monkeypatch.setattr(stopwatch, "WAIT", 0)
    monkeypatch.setattr(stopwatch, "WARMUP", 0)
    watch = stopwatch.Stopwatch()
    with watch.recording(None):  # 0
        with watch("optimizer"), watch("forward"):  # 10 and 30, until 60 and 100
            pass
        watch.step()  # 150
    assert watch.steps == [{"other": 10 + 50, "optimizer": 20 + 40, "forward": 30}]


def test_a_stopwatch_leaves_out_the_steps_before_the_recording() -> None:
    watch = stopwatch.Stopwatch(steps=2)
    with watch.recording(None):
        for _ in range(watch.total):
            watch.step()
    assert len(watch.steps) == 2


def test_shares_are_compared_by_phases_of_the_stopwatch() -> None:
    ours = {"forward": 40.0, "loss": 12.0, "optimizer": 44.0, "load_data": 3.4, "zero_grad": 0.6}
    recorded = {"forward+loss": 50.0, "optimizer": 40.0, "clipping": 9.5, "zero_grad": 0.5}
    found = compare(ours, recorded, {"forward+loss": 49.0, "optimizer": 51.0})
    assert found == [
        Share("load_data", 0, 0, 3.4),
        Share("forward+loss", 49, 50, 52),
        Share("clipping", 0, 9.5, 0),
        Share("optimizer", 51, 40, 44),
    ]
    assert [share.is_right for share in found] == [False, True, False, False]


def test_a_cause_is_named_in_one_entry() -> None:
    line = planted("gan_samples")[1]
    place = f"gan_samples.py:{min(line)}"
    assert named("gan_samples", {"advice": ["save_samples is slow", f"something, {place}"], "places": []}).both == ""
    assert named("gan_samples", {"advice": ["-", f"save_samples, /home/{place}"]}).both == "advice 2"
    assert named("gan_samples", {"places": [f"save_samples gan_samples.py:{max(line) + 1}"]}).both == ""
    assert named("gan_samples", {"headline": [f"unsave_samples, {place}"]}).both == ""


@pytest.mark.parametrize("name", NAMES)
def test_each_loop_says_what_is_planted(name: str) -> None:
    names, lines = planted(name)
    assert names
    assert lines
    assert "PLANTED: " in (PROGRAMS / f"{name}.py").read_text().splitlines()[0]
