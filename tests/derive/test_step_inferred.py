"""Steps that nothing marks: told by calls of the model, backward passes or repetition, or not told at all."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

import hotline_analysis as ha
from hotline_analysis import Trace
from tests.trace_builder import TraceBuilder

Step = tuple[int, float, float, str]


def steps(trace: Trace) -> list[Step]:
    """Number, start, end and evidence; times in microseconds from the first event."""
    found: list[Step] = trace.sql(
        "select step, (start_ns - first) / 1000, (end_ns - first) / 1000, evidence from step,"
        " (select min(start_ns) as first from event where dur_ns is not null) order by start_ns"
    ).rows()
    return found


def whole(trace: Trace) -> bool:
    return [evidence for *_, evidence in steps(trace)] == ["whole_trace"]


def ops(trace: TraceBuilder, names: Sequence[str], at: int) -> int:
    """Ops of 8 us, one every 10 us; returns when the next could start."""
    for number, name in enumerate(names):
        trace.op(name, at + 10 * number, at + 10 * number + 8)
    return at + 10 * len(names)


# --- calls of the model ----------------------------------------------------------------------------------------------


def test_each_call_of_the_model_is_a_step(tmp_path: Path) -> None:
    """20 us of loading, 80 us of the model, 20 us of evaluation; the pause before loading is the longest."""
    trace = TraceBuilder(rank=0)
    for at in (0, 200, 400):
        ops(trace, ["aten::stack", "aten::to"], at)
        trace.module("Net", 0, at + 20, at + 100).module("Linear", 0, at + 25, at + 60)
        ops(trace, ["aten::linear", "aten::relu"], at + 30)
        ops(trace, ["aten::argmax", "aten::item"], at + 110)
    assert steps(trace.load(tmp_path)) == [
        (0, 0, 128, "module"),
        (1, 128, 328, "module"),
        (2, 328, 528, "module"),
    ]


def test_two_calls_before_something_new_are_one_step(tmp_path: Path) -> None:
    """Two sides of a comparison: the distance is computed once, at the end."""
    trace = TraceBuilder(rank=0)
    for at in (0, 100):
        trace.module("Net", 0, at, at + 50)
        ops(trace, ["aten::linear", "aten::relu"], at + 10)
    ops(trace, ["aten::cosine_similarity"], 200)
    assert whole(trace.load(tmp_path))


def test_a_module_among_others_tells_no_steps(tmp_path: Path) -> None:
    """The trace began inside the model: what seems outermost is a part of it that is called in every layer."""
    trace = TraceBuilder(rank=0)
    for number in range(4):
        at = 100 * number
        trace.module("Rotary", 0, at, at + 20).module("Layer", number, at + 30, at + 90)
        ops(trace, ["aten::mul"], at + 5)
        ops(trace, ["aten::linear", "aten::relu"], at + 40)
    assert whole(trace.load(tmp_path))


# --- backward passes -------------------------------------------------------------------------------------------------


def batch(trace: TraceBuilder, at: int, seq: int) -> int:
    """Loading (10 us), forward from 10 to 28 us, backward on another thread from 40 to 60 us."""
    trace.on(1).op("aten::stack", at, at + 8)
    trace.op("aten::addmm", at + 10, at + 18, seq=seq).op("aten::relu", at + 20, at + 28, seq=seq + 1)
    trace.on(2).backward("ReluBackward0", at + 40, at + 50, seq=seq + 1)
    trace.backward("AddmmBackward0", at + 50, at + 60, seq=seq).on(1)
    return at + 60


def update(trace: TraceBuilder, at: int) -> int:
    return ops(trace, ["aten::mul", "aten::sub_"] * 3, at)


def test_a_step_ends_with_the_updates_of_an_optimizer(tmp_path: Path) -> None:
    """The last update ends 128 us after the step's start; the pause before the optimizer is longer than that after."""
    trace = TraceBuilder(rank=0)
    for number in range(3):
        batch(trace, 150 * number, 10 * number)
        update(trace, 150 * number + 70)
    assert steps(trace.load(tmp_path)) == [
        (0, 0, 128, "autograd"),
        (1, 128, 278, "autograd"),
        (2, 278, 428, "autograd"),
    ]


def test_gradients_of_two_batches_are_accumulated(tmp_path: Path) -> None:
    trace = TraceBuilder(rank=0)
    for number in range(3):
        at = 300 * number
        batch(trace, at, 20 * number)
        batch(trace, at + 100, 20 * number + 10)
        update(trace, at + 200)
    assert steps(trace.load(tmp_path)) == [
        (0, 0, 258, "autograd"),
        (1, 258, 558, "autograd"),
        (2, 558, 858, "autograd"),
    ]


def test_the_first_step_makes_what_the_optimizer_needs_and_the_last_ends_an_epoch(tmp_path: Path) -> None:
    trace = TraceBuilder(rank=0)
    for number in range(4):
        at = 200 * number
        batch(trace, at, 10 * number)
        ops(trace, ["aten::clone"] * 6 if number == 0 else ["aten::mul_", "aten::add_"] * 3, at + 70)
        ops(trace, ["aten::sub_"] * 3, at + 130)
    trace.op("aten::randperm", 770, 780)
    assert steps(trace.load(tmp_path)) == [
        (0, 0, 158, "autograd"),
        (1, 158, 358, "autograd"),
        (2, 358, 558, "autograd"),
        (3, 558, 758, "autograd"),
    ]


def test_evaluation_between_two_batches_makes_no_other_step(tmp_path: Path) -> None:
    """Four ops are evaluated after the second of four batches."""
    trace = TraceBuilder(rank=0)
    for at, seq in ((0, 0), (150, 10), (400, 20), (550, 30)):
        batch(trace, at, seq)
        update(trace, at + 70)
    ops(trace, ["aten::linear", "aten::argmax", "aten::eq", "aten::item"], 330)
    assert steps(trace.load(tmp_path)) == [
        (0, 0, 128, "autograd"),
        (1, 128, 368, "autograd"),
        (2, 368, 528, "autograd"),
        (3, 528, 678, "autograd"),
    ]


def test_steps_of_different_lengths(tmp_path: Path) -> None:
    """Sequences of 2, 5, 3 and 4 tokens: as many forward ops and nodes, of the same kinds."""
    trace = TraceBuilder(rank=0)
    at = seq = 0
    ends = []
    for length in (2, 5, 3, 4):
        for number in range(length):
            trace.op("aten::lstm_cell", at + 10 * number, at + 10 * number + 8, seq=seq + number)
        at += 10 * length
        for number in reversed(range(length)):
            trace.backward("LstmCellBackward0", at, at + 8, seq=seq + number)
            at += 10
        seq += length
        at = update(trace, at)
        ends.append(at - 2)
        at += 30
    assert [(start, end) for _, start, end, _ in steps(trace.load(tmp_path))] == list(
        zip([0, *ends[:3]], ends, strict=True)
    )


def test_two_losses_of_one_forward_are_one_step(tmp_path: Path) -> None:
    """The second backward pass goes through the ops of the first one again."""
    trace = TraceBuilder(rank=0)
    for number in range(3):
        at, seq = 200 * number, 10 * number
        batch(trace, at, seq)
        trace.op("aten::mse_loss", at + 70, at + 78, seq=seq + 2)
        trace.on(2).backward("MseLossBackward0", at + 80, at + 90, seq=seq + 2)
        trace.backward("AddmmBackward0", at + 90, at + 100, seq=seq).on(1)
        update(trace, at + 110)
    assert steps(trace.load(tmp_path)) == [
        (0, 0, 168, "autograd"),
        (1, 168, 368, "autograd"),
        (2, 368, 568, "autograd"),
    ]


def test_calls_of_the_model_that_are_not_trained_are_no_steps(tmp_path: Path) -> None:
    """Evaluation after the first of three batches calls the model, too."""
    trace = TraceBuilder(rank=0)
    for at, seq in ((0, 0), (300, 10), (450, 20)):
        trace.module("Net", 0, at + 9, at + 30)
        batch(trace, at, seq)
        update(trace, at + 70)
    trace.module("Net", 0, 180, 220)
    ops(trace, ["aten::addmm", "aten::relu"], 185)
    assert steps(trace.load(tmp_path)) == [
        (0, 0, 203, "module"),
        (1, 203, 428, "module"),
        (2, 428, 578, "module"),
    ]


def test_the_batches_of_the_only_step_are_no_steps(tmp_path: Path) -> None:
    trace = TraceBuilder(rank=0)
    for number in range(4):
        batch(trace, 100 * number, 10 * number)
    update(trace, 400)
    assert whole(trace.load(tmp_path))


def test_two_models_in_turn_are_one_step(tmp_path: Path) -> None:
    """Two passes, of which the second is another model's."""
    trace = TraceBuilder(rank=0)
    batch(trace, 0, 0)
    trace.op("aten::conv2d", 100, 110, seq=10).op("aten::tanh", 120, 130, seq=11)
    trace.on(2).backward("TanhBackward0", 140, 150, seq=11).backward("ConvolutionBackward0", 150, 160, seq=10)
    assert whole(trace.load(tmp_path))


# --- repetition ------------------------------------------------------------------------------------------------------

LAYERS = ["aten::linear", "aten::softmax", "aten::linear"] * 4


def replies(ends: Sequence[str] = (), *, count: int = 3, copies: bool = True) -> TraceBuilder:
    """Every 200 us a copy to the device, a model of four layers, and a result."""
    trace = TraceBuilder(rank=0)
    at = 0
    for number in range(count):
        trace.op("aten::to", 200 * number, 200 * number + 8)
        if copies:
            trace.launches(
                "Memcpy HtoD (Pageable -> Device)", 200 * number + 5, 200 * number + 7, category="gpu_memcpy"
            )
        at = ops(trace, [*LAYERS, "aten::argmax"], 200 * number + 10)
    ops(trace, ends, at)
    return trace


def layers_with_copies() -> TraceBuilder:
    """One pass of a model whose four layers copy something each, between an embedding and a head."""
    trace = TraceBuilder(rank=0).op("aten::embedding", 0, 8)
    for at in range(10, 130, 30):
        trace.op("aten::to", at, at + 8)
        trace.launches("Memcpy HtoD (Pageable -> Device)", at + 5, at + 7, category="gpu_memcpy")
        ops(trace, ["aten::linear", "aten::softmax"], at + 10)
    ops(trace, ["aten::linear"], 130)
    return trace


def test_a_trace_of_nothing_but_repetitions(tmp_path: Path) -> None:
    assert steps(replies().load(tmp_path)) == [
        (0, 0, 138, "repetition"),
        (1, 138, 338, "repetition"),
        (2, 338, 538, "repetition"),
    ]


@pytest.mark.parametrize(
    "trace",
    [
        replies(["aten::mean"]),
        replies(count=2),
        replies(copies=False),
        replies(LAYERS, count=1),
        layers_with_copies(),
    ],
    ids=["an exception", "only two", "no input", "layers", "copies in layers"],
)
def test_repetition_that_may_be_something_else(tmp_path: Path, trace: TraceBuilder) -> None:
    assert whole(trace.load(tmp_path))


def test_the_report_says_that_steps_were_inferred(tmp_path: Path) -> None:
    report = ha.report(replies().load(tmp_path))
    assert report.facts["steps"].startswith("3, mean ")
    assert report.facts["steps"].endswith(", inferred from the repetition of all ops")
    assert any("call prof.step() after each batch to be sure" in advice for advice in report.recapture)
