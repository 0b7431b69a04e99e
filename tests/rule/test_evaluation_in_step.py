from pathlib import Path

import pytest

from hotline_analysis.answers.rules import find_advice
from tests.rule.loop import found
from tests.trace_builder import TraceBuilder

RULE = "evaluation_in_step"


def training(*, steps: int = 1) -> TraceBuilder:
    """Steps of 1,000 us: forward to 200, the loss to 220, backward to 500, the optimizer to 600."""
    trace = TraceBuilder(rank=0)
    for step in range(steps):
        at = 1000 * step
        trace.step(step, at, at + 1000)
        trace.op("aten::linear", at, at + 200, seq=10 * step + 1)
        trace.op("aten::mse_loss", at + 200, at + 220, seq=10 * step + 2)
        trace.backward("MseLossBackward0", at + 220, at + 240, seq=10 * step + 2)
        trace.backward("AddmmBackward0", at + 240, at + 500, seq=10 * step + 1)
        trace.annotation("Optimizer.step#SGD.step", at + 500, at + 600).op("aten::add_", at + 510, at + 590)
    return trace


def evaluated(trace: TraceBuilder, at: int = 0, **args: int) -> TraceBuilder:
    """Two batches from 650 to 950."""
    trace.op("aten::linear", at + 650, at + 780, **args)
    return trace.op("aten::linear", at + 800, at + 950, **args)


@pytest.mark.slow
def test_forward_passes_after_the_optimizer(tmp_path: Path) -> None:
    trace = training()
    trace.frame("train.py(9): evaluate", 640, 960)
    loaded = evaluated(trace).load(tmp_path)
    assert found(loaded, RULE) == (1, 300, 300)
    (said,) = find_advice(loaded, rules=(RULE,))
    assert "in evaluate (train.py:9)" in said.what


@pytest.mark.slow
def test_a_region_names_them(tmp_path: Path) -> None:
    """The modules in it show that it runs the model; else the region would be the user's own code."""
    trace = training()
    trace.annotation("held-out batches", 640, 960).module("Net", 0, 650, 780).module("Net", 0, 800, 950)
    (said,) = find_advice(evaluated(trace).load(tmp_path), rules=(RULE,))
    assert 'in the region "held-out batches"' in said.what


def test_without_no_grad(tmp_path: Path) -> None:
    """Ops with sequence numbers to which no backward pass comes back."""
    trace = training()
    trace.op("aten::linear", 650, 780, seq=3).op("aten::linear", 800, 950, seq=4)
    assert found(trace.load(tmp_path), RULE) == (1, 300, 300)


def test_no_evaluation(tmp_path: Path) -> None:
    assert found(training(steps=3).load(tmp_path), RULE) is None


def test_marks_in_the_middle_of_an_iteration(tmp_path: Path) -> None:
    """The backward pass of the forward passes at the end is in the next step."""
    trace = TraceBuilder(rank=0)
    for step in range(3):
        at, number = 1000 * step, 10 * step
        trace.step(step, at, at + 1000)
        if step:
            trace.backward("AddmmBackward0", at, at + 150, seq=number - 8)
            trace.backward("AddmmBackward0", at + 150, at + 300, seq=number - 9)
        else:
            trace.op("aten::linear", at, at + 50, seq=-5).backward("AddmmBackward0", at + 50, at + 300, seq=-5)
        trace.annotation("Optimizer.step#SGD.step", at + 300, at + 400).op("aten::add_", at + 310, at + 390)
        trace.op("aten::linear", at + 500, at + 700, seq=number + 1)
        trace.op("aten::linear", at + 700, at + 990, seq=number + 2)
    assert found(trace.load(tmp_path), RULE) is None


def test_inference_trains_nothing(tmp_path: Path) -> None:
    trace = TraceBuilder(rank=0).step(0, 0, 1000)
    assert found(evaluated(trace).load(tmp_path), RULE) is None


def test_a_teacher_before_the_training_pass(tmp_path: Path) -> None:
    trace = TraceBuilder(rank=0).step(0, 0, 1000)
    trace.op("aten::linear", 0, 300).op("aten::linear", 300, 600, seq=1)
    trace.backward("AddmmBackward0", 620, 900, seq=1)
    trace.annotation("Optimizer.step#SGD.step", 900, 990).op("aten::add_", 910, 980)
    assert found(trace.load(tmp_path), RULE) is None
