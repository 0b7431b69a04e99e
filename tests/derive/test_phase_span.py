from pathlib import Path

import pytest

from hotline_analysis import Trace
from tests.derive.tables import named, phases
from tests.trace_builder import TraceBuilder

BACKWARD = "torch/_tensor.py(525): backward"


def labelled(trace: Trace) -> dict[str, str | None]:
    return {name: row[0] for name, row in named(trace, "annotated_event where category = 'cpu_op'", ["phase"]).items()}


def test_a_step_with_everything_in_it(tmp_path: Path) -> None:
    trace = TraceBuilder().step(3, 0, 100).annotation("enumerate(DataLoader)#_SingleProcess.__next__", 2, 10)
    trace.module("Net", 0, 15, 40).op("aten::mse_loss", 45, 50).frame(BACKWARD, 55, 70)
    trace.annotation("Optimizer.step#SGD.step", 75, 85).annotation("Optimizer.zero_grad#SGD.zero_grad", 88, 92)
    assert phases(trace.load(tmp_path)) == [
        ("other", 0, 2),
        ("load_data", 2, 15),
        ("forward", 15, 40),
        ("loss", 40, 50),
        ("backward", 50, 70),
        ("other", 70, 75),
        ("optimizer", 75, 85),
        ("other", 85, 88),
        ("zero_grad", 88, 92),
        ("other", 92, 100),
    ]


def test_between_nodes_of_one_thread_is_backward(tmp_path: Path) -> None:
    """On the CPU, autograd runs on the main thread. Forward ops between two nodes show another pass."""
    trace = TraceBuilder().step(3, 0, 100).op("aten::mul", 10, 18, seq=1).op("aten::sin", 20, 28, seq=2)
    trace.backward("SinBackward0", 40, 44, seq=2).backward("MulBackward0", 46, 50, seq=1)
    trace.op("aten::cos", 60, 68, seq=3).backward("CosBackward0", 70, 74, seq=3)
    trace.annotation("Optimizer.step#SGD.step", 74, 90)
    assert phases(trace.load(tmp_path)) == [
        ("load_data", 0, 10),
        ("forward", 10, 40),
        ("backward", 40, 50),
        ("load_data", 50, 60),
        ("forward", 60, 70),
        ("backward", 70, 74),
        ("optimizer", 74, 90),
        ("other", 90, 100),
    ]


def test_a_loss_is_averaged_after_its_op(tmp_path: Path) -> None:
    """Up to the last op that backward comes back to; what seeds the gradient is backward."""
    trace = TraceBuilder().step(3, 0, 100).module("Net", 0, 10, 30).op("aten::mse_loss", 32, 38, seq=1)
    trace.op("aten::mean", 40, 44, seq=2).op("aten::ones_like", 46, 48)
    trace.backward("MeanBackward0", 50, 54, seq=2).backward("MseLossBackward0", 54, 60, seq=1)
    assert phases(trace.load(tmp_path)) == [
        ("load_data", 0, 10),
        ("forward", 10, 30),
        ("loss", 30, 44),
        ("backward", 44, 60),
        ("other", 60, 100),
    ]


def test_python_after_a_value_read_back_lasts_until_backward(tmp_path: Path) -> None:
    """A metric counted over lists has no ops; a value read back before the gradients are zeroed is done with there."""
    trace = TraceBuilder().step(3, 0, 200).module("Net", 0, 10, 30).op("aten::mse_loss", 32, 38, seq=1)
    trace.op("aten::item", 40, 42).backward("MseLossBackward0", 90, 100, seq=1)
    assert phases(trace.load(tmp_path)) == [
        ("load_data", 0, 10),
        ("forward", 10, 30),
        ("loss", 30, 38),
        ("other", 38, 90),
        ("backward", 90, 100),
        ("other", 100, 200),
    ]


def after_a_pass(trace: TraceBuilder) -> TraceBuilder:
    """A step of 200 us, with forward from 10 to 40 and backward to 60."""
    return trace.step(3, 0, 200).module("Net", 0, 10, 40).frame(BACKWARD, 40, 60)


def between_backward_and_optimizer(trace: TraceBuilder, tmp_path: Path) -> list[tuple[str, float, float]]:
    return [span for span in phases(trace.load(tmp_path)) if 60 <= span[1] < 150]


def clip(trace: TraceBuilder, at: int) -> TraceBuilder:
    """Clip by norm from `at` to `at + 15`, as `clip_grad_norm_` does with lists of tensors."""
    names = ("_foreach_norm", "stack", "linalg_vector_norm", "add", "reciprocal", "mul", "clamp", "_foreach_mul_")
    for place, name in enumerate(names):
        trace.op(f"aten::{name}", at + 2 * place, at + 2 * place + 1)
    return trace


def test_clipping_goes_from_the_first_norm_to_the_last_product(tmp_path: Path) -> None:
    """A norm that the model takes is no clip, and a value read back before it is not a part of it."""
    trace = TraceBuilder().step(3, 0, 200).module("Net", 0, 10, 40).op("aten::linalg_vector_norm", 20, 30)
    trace.frame(BACKWARD, 40, 60).op("aten::item", 62, 64)
    trace.op("aten::_foreach_norm", 66, 68).op("aten::stack", 68, 69).op("aten::linalg_vector_norm", 70, 72)
    trace.op("aten::add", 72, 73).op("aten::clamp", 74, 75).op("aten::_foreach_mul_", 76, 80)
    trace.annotation("Optimizer.step#SGD.step", 150, 190)
    assert between_backward_and_optimizer(trace, tmp_path) == [
        ("other", 60, 66),
        ("clipping", 66, 80),
        ("other", 80, 150),
    ]


def test_statistics_after_the_clip_are_no_optimizer(tmp_path: Path) -> None:
    """They take norms, too."""
    trace = clip(after_a_pass(TraceBuilder()), 70)
    for at in (100, 110):
        trace.op("aten::linalg_vector_norm", at, at + 2).op("aten::item", at + 2, at + 3).op(
            "aten::histc", at + 4, at + 8
        )
    trace.annotation("Optimizer.step#SGD.step", 150, 190)
    assert [name for name, *_ in between_backward_and_optimizer(trace, tmp_path)] == ["other", "clipping", "other"]


@pytest.mark.parametrize("is_marked", [True, False])
def test_norms_that_are_logged_are_no_clip(tmp_path: Path, *, is_marked: bool) -> None:
    """Right before an optimizer whose first op on a list multiplies in place, as SGD with momentum does."""
    trace = after_a_pass(TraceBuilder())
    for at in (70, 75, 80):
        trace.op("aten::linalg_vector_norm", at, at + 2).op("aten::item", at + 2, at + 3)
    if is_marked:
        trace.annotation("Optimizer.step#SGD.step", 100, 140)
    trace.op("aten::_foreach_mul_", 100, 110).op("aten::_foreach_add_", 110, 120).op("aten::_foreach_add_", 120, 140)
    assert between_backward_and_optimizer(trace, tmp_path)[:2] == [("other", 60, 100), ("optimizer", 100, 140)]


@pytest.mark.parametrize("is_marked", [True, False])
def test_a_clip_from_tensor_to_tensor(tmp_path: Path, *, is_marked: bool) -> None:
    """Without a mark, too, it ends after as many products as norms: more are the optimizer's."""
    trace = after_a_pass(TraceBuilder()).op("aten::linalg_vector_norm", 70, 71).op("aten::linalg_vector_norm", 72, 73)
    trace.op("aten::stack", 74, 75).op("aten::linalg_vector_norm", 76, 77).op("aten::add", 78, 79)
    trace.op("aten::reciprocal", 80, 81).op("aten::mul", 82, 83).op("aten::clamp", 84, 85)
    trace.op("aten::mul_", 86, 87).op("aten::mul_", 88, 89)
    if is_marked:
        trace.annotation("Optimizer.step#SGD.step", 100, 120)
    for at in (100, 110):
        trace.op("aten::mul_", at, at + 2).op("aten::add_", at + 3, at + 5).op("aten::add_", at + 6, at + 10)
    assert between_backward_and_optimizer(trace, tmp_path)[:4] == [
        ("other", 60, 70),
        ("clipping", 70, 89),
        ("other", 89, 100),
        ("optimizer", 100, 120),
    ]


def test_a_clip_by_hand(tmp_path: Path) -> None:
    """Norms are read back, and the coefficient is a number of python's."""
    trace = after_a_pass(TraceBuilder())
    for at in (70, 75):
        trace.op("aten::linalg_vector_norm", at, at + 2).op("aten::item", at + 2, at + 3)
    trace.op("aten::mul_", 82, 84).op("aten::mul_", 86, 88).annotation("Optimizer.step#SGD.step", 150, 190)
    assert between_backward_and_optimizer(trace, tmp_path) == [
        ("other", 60, 70),
        ("clipping", 70, 88),
        ("other", 88, 150),
    ]


def test_parameters_that_are_clipped_one_by_one_are_one_clip(tmp_path: Path) -> None:
    trace = after_a_pass(TraceBuilder())
    for at in (70, 90):
        trace.op("aten::norm", at, at + 2).op("aten::reciprocal", at + 3, at + 4).op("aten::clamp", at + 5, at + 6)
        trace.op("aten::mul_", at + 7, at + 10)
    trace.annotation("Optimizer.step#SGD.step", 150, 190)
    assert ("clipping", 70, 100) in phases(trace.load(tmp_path))


def test_averages_of_norms_are_no_clip(tmp_path: Path) -> None:
    trace = after_a_pass(TraceBuilder())
    for at in (70, 80):
        trace.op("aten::mul_", at, at + 2).op("aten::linalg_vector_norm", at + 3, at + 5).op(
            "aten::add_", at + 6, at + 8
        )
    trace.annotation("Optimizer.step#SGD.step", 150, 190)
    assert between_backward_and_optimizer(trace, tmp_path) == [("other", 60, 150)]


def test_a_clip_in_a_closure_is_no_optimizer(tmp_path: Path) -> None:
    """Lightning clips at the end of the closure that the optimizer calls."""
    trace = TraceBuilder().step(0, 0, 200).annotation("Optimizer.step#SGD.step", 5, 190)
    trace.op("aten::linear", 10, 20, seq=1).op("aten::mse_loss", 20, 30, seq=2)
    trace.backward("MseLossBackward0", 40, 50, seq=2).backward("LinearBackward0", 50, 60, seq=1)
    clip(trace, 70).op("aten::_foreach_add_", 100, 180)
    assert phases(trace.load(tmp_path))[-4:] == [
        ("optimizer", 60, 70),
        ("clipping", 70, 85),
        ("optimizer", 85, 190),
        ("other", 190, 200),
    ]


def test_norms_inside_an_optimizer_are_the_optimizers(tmp_path: Path) -> None:
    """LAMB divides each update by its norm."""
    trace = after_a_pass(TraceBuilder()).annotation("Optimizer.step#Lamb.step", 70, 140)
    clip(trace, 80)
    assert ("optimizer", 70, 140) in phases(trace.load(tmp_path))


def test_a_user_says_what_clips(tmp_path: Path) -> None:
    trace = after_a_pass(TraceBuilder()).annotation("clip gradients", 70, 100)
    trace.annotation("Optimizer.step#SGD.step", 150, 190)
    assert ("clipping", 70, 100) in phases(trace.load(tmp_path))


def test_clipping_inside_a_users_annotation_of_the_optimizer(tmp_path: Path) -> None:
    trace = clip(after_a_pass(TraceBuilder()).annotation("## optimizer ##", 60, 190), 70)
    trace.annotation("Optimizer.step#SGD.step", 150, 190)
    assert [span for span in phases(trace.load(tmp_path)) if span[1] >= 60] == [
        ("optimizer", 60, 70),
        ("clipping", 70, 85),
        ("optimizer", 85, 190),
        ("other", 190, 200),
    ]


def test_what_shows_a_phase_is_said(tmp_path: Path) -> None:
    trace = TraceBuilder().step(3, 0, 100).module("Net", 0, 15, 40).op("aten::mse_loss", 40, 50)
    trace.frame(BACKWARD, 50, 70).annotation("Optimizer.step#SGD.step", 70, 85).annotation("## load data ##", 85, 100)
    found = trace.load(tmp_path).sql(
        "select phase, phase_span.evidence, name from phase_span left join event using (event_id)"
        " where is_main order by phase_span.start_ns"
    )
    assert found.rows() == [
        ("load_data", "neighbours", None),
        ("forward", "python", "nn.Module: Net_0"),
        ("loss", "op_name", "aten::mse_loss"),
        ("backward", "python", BACKWARD),
        ("optimizer", "profiler", "Optimizer.step#SGD.step"),
        ("load_data", "annotation", "## load data ##"),
    ]


@pytest.mark.parametrize("hidden", [False, True])
def test_hiding_the_users_annotations_changes_nothing(tmp_path: Path, *, hidden: bool) -> None:
    trace = TraceBuilder().step(0, 0, 100)
    if not hidden:
        trace.annotation("## forward ##", 10, 40).annotation("## backward ##", 50, 70).annotation("## optim ##", 70, 90)
    trace.op("aten::copy_", 2, 4).op("aten::addmm", 10, 38, seq=1).op("aten::mse_loss", 42, 48, seq=2)
    trace.frame(BACKWARD, 50, 70).annotation("Optimizer.step#SGD.step", 70, 90).op("aten::add_", 72, 88)
    trace.on(2).backward("MseLossBackward0", 51, 55, seq=2).backward("AddmmBackward0", 55, 69, seq=1)
    opened = trace.load(tmp_path)
    found = labelled(opened)
    assert {name: phase for name, phase in found.items() if "::" in name and "autograd" not in name} == {
        "aten::copy_": "load_data",
        "aten::addmm": "forward",
        "aten::mse_loss": "loss",
        "aten::add_": "optimizer",
    }
    assert found["AddmmBackward0"] == found["MseLossBackward0"] == "backward"
    assert [name for name, *_ in phases(opened)] == ["load_data", "forward", "loss", "backward", "optimizer", "other"]


def test_without_a_shown_forward_it_starts_at_the_first_op_that_backward_comes_back_to(tmp_path: Path) -> None:
    trace = TraceBuilder().step(0, 0, 100).op("aten::to", 5, 10).op("aten::mm", 20, 25, seq=1)
    trace.op("aten::mse_loss", 30, 35, seq=2).frame(BACKWARD, 40, 60)
    trace.on(2).backward("MseLossBackward0", 42, 45, seq=2).backward("MmBackward0", 45, 58, seq=1)
    assert phases(trace.load(tmp_path)) == [
        ("load_data", 0, 20),
        ("forward", 20, 30),
        ("loss", 30, 35),
        ("backward", 35, 60),
        ("other", 60, 100),
    ]


def test_backward_on_a_thread_of_its_own_makes_the_main_thread_wait(tmp_path: Path) -> None:
    trace = TraceBuilder().step(0, 0, 100).op("aten::mm", 20, 25, seq=1).annotation("Optimizer.step#SGD.step", 70, 90)
    trace.on(2).backward("MmBackward0", 40, 60, seq=1).op("aten::hook", 61, 64)
    opened = trace.load(tmp_path)
    assert phases(opened) == [
        ("load_data", 0, 20),
        ("forward", 20, 40),
        ("backward", 40, 64),
        ("other", 64, 70),
        ("optimizer", 70, 90),
        ("other", 90, 100),
    ]
    assert labelled(opened)["aten::hook"] == "backward"


def test_backward_on_the_main_thread(tmp_path: Path) -> None:
    trace = TraceBuilder().step(0, 0, 100).module("Net", 0, 10, 30).op("aten::mm", 12, 25, seq=1)
    trace.backward("MmBackward0", 40, 60, seq=1).annotation("Optimizer.step#SGD.step", 70, 90)
    assert phases(trace.load(tmp_path)) == [
        ("load_data", 0, 10),
        ("forward", 10, 30),
        ("loss", 30, 40),
        ("backward", 40, 60),
        ("other", 60, 70),
        ("optimizer", 70, 90),
        ("other", 90, 100),
    ]


def test_gradient_accumulation(tmp_path: Path) -> None:
    """Two micro-batches and one optimizer step; the gap before the second forward is the loading of its data."""
    trace = TraceBuilder().step(0, 0, 200)
    for at in (0, 80):
        trace.module("Net", 0, at + 10, at + 30).op("aten::mse_loss", at + 35, at + 40).frame(
            BACKWARD, at + 45, at + 70
        )
    trace.annotation("Optimizer.step#SGD.step", 160, 190)
    assert phases(trace.load(tmp_path)) == [
        ("load_data", 0, 10),
        ("forward", 10, 30),
        ("loss", 30, 40),
        ("backward", 40, 70),
        ("load_data", 70, 90),
        ("forward", 90, 110),
        ("loss", 110, 120),
        ("backward", 120, 150),
        ("other", 150, 160),
        ("optimizer", 160, 190),
        ("other", 190, 200),
    ]


def test_two_optimizers_as_in_a_gan(tmp_path: Path) -> None:
    trace = TraceBuilder().step(0, 0, 200)
    for at, name in ((0, "Discriminator"), (100, "Generator")):
        trace.annotation("Optimizer.zero_grad#Adam.zero_grad", at, at + 5).module(name, 0, at + 10, at + 30)
        trace.frame(BACKWARD, at + 40, at + 60).annotation("Optimizer.step#Adam.step", at + 60, at + 100)
    one = ["zero_grad", "load_data", "forward", "loss", "backward", "optimizer"]
    assert [name for name, *_ in phases(trace.load(tmp_path))] == one * 2


def test_several_forwards_in_a_row(tmp_path: Path) -> None:
    trace = TraceBuilder().step(0, 0, 100).module("Encoder", 0, 10, 20).module("Decoder", 0, 30, 40)
    assert phases(trace.load(tmp_path)) == [("load_data", 0, 10), ("forward", 10, 40), ("other", 40, 100)]


@pytest.mark.parametrize(
    ("at", "expected"),
    [
        (0, [("zero_grad", 0, 5), ("load_data", 5, 10), ("forward", 10, 30), ("loss", 30, 50), ("backward", 50, 60)]),
        (
            40,
            [
                ("load_data", 0, 10),
                ("forward", 10, 30),
                ("loss", 30, 40),
                ("zero_grad", 40, 45),
                ("backward", 45, 60),
            ],
        ),
        (
            60,
            [("load_data", 0, 10), ("forward", 10, 30), ("loss", 30, 50), ("backward", 50, 60), ("zero_grad", 60, 65)],
        ),
    ],
)
def test_zero_grad_may_stand_anywhere(tmp_path: Path, at: int, expected: list[tuple[str, float, float]]) -> None:
    trace = TraceBuilder().step(0, 0, 100).module("Net", 0, 10, 30).frame(BACKWARD, 50, 60)
    trace.annotation("Optimizer.zero_grad#SGD.zero_grad", at, at + 5).annotation("Optimizer.step#SGD.step", 70, 100)
    last = expected[-1][2]
    assert phases(trace.load(tmp_path)) == [*expected, ("other", last, 70), ("optimizer", 70, 100)]


def test_inference_has_no_backward(tmp_path: Path) -> None:
    trace = TraceBuilder().step(0, 0, 60).module("Net", 0, 10, 50).op("aten::mm", 20, 30)
    assert phases(trace.load(tmp_path)) == [("load_data", 0, 10), ("forward", 10, 50), ("other", 50, 60)]


def test_inference_without_steps_guesses_nothing_between_the_forwards(tmp_path: Path) -> None:
    trace = TraceBuilder().op("aten::empty", 0, 5).module("Net", 0, 10, 50).module("Net", 0, 60, 90)
    trace.op("aten::argmax", 95, 100)
    assert phases(trace.load(tmp_path)) == [
        ("other", 0, 10),
        ("forward", 10, 50),
        ("other", 50, 60),
        ("forward", 60, 90),
        ("other", 90, 100),
    ]


def test_a_graph_that_is_launched_is_the_model(tmp_path: Path) -> None:
    """Not in training, where it may hold all of a step, nor where something tells more."""
    trace = TraceBuilder().step(1, 0, 100).op("aten::copy_", 10, 20).runtime("cudaGraphLaunch", 30, 40)
    trace.module("Sampler", 0, 50, 60)
    assert phases(trace.load(tmp_path, "inference.json")) == [
        ("load_data", 0, 30),
        ("forward", 30, 60),
        ("other", 60, 100),
    ]
    trace.annotation("Optimizer.step#SGD.step", 70, 80)
    assert phases(trace.load(tmp_path, "training.json"))[:2] == [("load_data", 0, 50), ("forward", 50, 60)]
    trace = TraceBuilder().step(1, 0, 100).annotation("get_batch", 10, 50).runtime("cudaGraphLaunch", 30, 40)
    assert phases(trace.load(tmp_path, "loading.json"))[1] == ("load_data", 10, 50)


def test_a_step_of_evaluation_between_steps_of_training(tmp_path: Path) -> None:
    trace = TraceBuilder()
    for number in range(3):
        at = 100 * number
        trace.step(number, at, at + 100).module("Net", 0, at + 10, at + 30)
        if number != 1:
            trace.frame(BACKWARD, at + 40, at + 60)
    training = ["load_data", "forward", "loss", "backward", "other"]
    assert [name for name, *_ in phases(trace.load(tmp_path))] == [
        *training,
        "load_data",
        "forward",
        "other",
        *training,
    ]


def test_steps_put_borders_in_a_phase(tmp_path: Path) -> None:
    """A module around two steps, as when a trainer is one, is forward in both, each with its share."""
    trace = TraceBuilder().module("Trainer", 0, 10, 190).step(0, 20, 100).step(1, 100, 180)
    trace.annotation("Optimizer.step#SGD.step", 150, 160)
    opened = trace.load(tmp_path)
    assert phases(opened) == [
        ("forward", 10, 20),
        ("forward", 20, 100),
        ("forward", 100, 150),
        ("optimizer", 150, 160),
        ("forward", 160, 190),
    ]
    found = opened.query("phases", step=1).select("phase", "cpu_ns").rows()
    assert found == [("forward", 70_000), ("optimizer", 10_000)]


def test_a_loss_inside_the_model_is_loss(tmp_path: Path) -> None:
    trace = TraceBuilder().step(0, 0, 100).module("Net", 0, 10, 60).module("Linear", 0, 12, 30)
    trace.module("CrossEntropyLoss", 0, 40, 50).op("aten::cross_entropy_loss", 42, 48).frame(BACKWARD, 60, 100)
    assert phases(trace.load(tmp_path)) == [
        ("load_data", 0, 10),
        ("forward", 10, 40),
        ("loss", 40, 50),
        ("forward", 50, 60),
        ("backward", 60, 100),
    ]


@pytest.mark.parametrize(
    "shown",
    [
        ("user_annotation", "## loss ##"),
        ("python_function", "nn.Module: BCEWithLogitsLoss_0"),
        ("python_function", "torch/nn/functional.py(3029): cross_entropy"),
        ("cpu_op", "aten::nll_loss_nd"),
        ("cpu_op", "aten::binary_cross_entropy_with_logits"),
    ],
)
def test_a_loss_outside_the_model(tmp_path: Path, shown: tuple[str, str]) -> None:
    trace = TraceBuilder().step(0, 0, 100).module("Net", 0, 10, 30).complete(*shown, 40, 50).frame(BACKWARD, 60, 100)
    assert phases(trace.load(tmp_path)) == [
        ("load_data", 0, 10),
        ("forward", 10, 30),
        ("loss", 30, 50),
        ("backward", 50, 100),
    ]


def test_a_module_that_the_loss_calls_is_loss(tmp_path: Path) -> None:
    """As with a perceptual loss: the user's word decides, not the module inside."""
    trace = TraceBuilder().step(0, 0, 100).module("Net", 0, 10, 30).annotation("compute loss", 30, 60)
    trace.module("VGG", 0, 35, 55).frame(BACKWARD, 60, 100)
    assert phases(trace.load(tmp_path)) == [
        ("load_data", 0, 10),
        ("forward", 10, 30),
        ("loss", 30, 60),
        ("backward", 60, 100),
    ]


def test_an_unknown_annotation_without_a_phase_in_it_is_other(tmp_path: Path) -> None:
    trace = TraceBuilder().step(0, 0, 100).annotation("log metrics", 0, 8).module("Net", 0, 10, 30)
    trace.frame(BACKWARD, 50, 90)
    assert phases(trace.load(tmp_path)) == [
        ("other", 0, 8),
        ("load_data", 8, 10),
        ("forward", 10, 30),
        ("loss", 30, 50),
        ("backward", 50, 90),
        ("other", 90, 100),
    ]


def test_an_unknown_annotation_around_phases_hides_none(tmp_path: Path) -> None:
    trace = (
        TraceBuilder().step(0, 0, 100).annotation("my block", 5, 60).module("Net", 0, 10, 30).frame(BACKWARD, 40, 50)
    )
    assert [name for name, *_ in phases(trace.load(tmp_path))] == ["load_data", "forward", "loss", "backward", "other"]


def test_an_unknown_annotation_around_the_forward_of_a_later_backward_hides_nothing(tmp_path: Path) -> None:
    trace = TraceBuilder().step(0, 0, 100).annotation("my model", 10, 40).op("aten::mm", 15, 35, seq=1)
    trace.frame(BACKWARD, 50, 80).on(2).backward("MmBackward0", 55, 70, seq=1)
    opened = trace.load(tmp_path)
    assert labelled(opened)["aten::mm"] == "forward"


def test_the_innermost_strong_name_counts(tmp_path: Path) -> None:
    trace = TraceBuilder().step(0, 0, 100).annotation("## optimizer ##", 10, 90).annotation("zero_grad", 20, 30)
    assert phases(trace.load(tmp_path)) == [
        ("other", 0, 10),
        ("optimizer", 10, 20),
        ("zero_grad", 20, 30),
        ("optimizer", 30, 90),
        ("other", 90, 100),
    ]


def test_a_step_that_shows_nothing_is_other(tmp_path: Path) -> None:
    trace = TraceBuilder().step(0, 0, 100).op("aten::add", 10, 20)
    assert phases(trace.load(tmp_path)) == [("other", 0, 100)]


def test_spans_outside_the_steps_are_shown_but_not_filled(tmp_path: Path) -> None:
    trace = TraceBuilder().step(0, 100, 200).annotation("## forward ##", 20, 50).op("aten::mm", 60, 70)
    opened = trace.load(tmp_path)
    assert phases(opened) == [("forward", 20, 50), ("other", 100, 200)]
    assert labelled(opened) == {"aten::mm": None}


def test_the_main_thread_is_the_one_with_the_steps(tmp_path: Path) -> None:
    trace = TraceBuilder().on(5).step(0, 0, 100).on(1)
    for at in range(0, 90, 10):
        trace.op(f"decode {at}", at, at + 9)
    found = trace.load(tmp_path).sql("select tid from phase_span inner join track using (track_id) where is_main")
    assert found["tid"].unique().to_list() == ["5"]


def test_without_steps_the_main_thread_is_the_busiest_outside_autograd(tmp_path: Path) -> None:
    trace = TraceBuilder().on(1).op("aten::mm", 0, 10, seq=1).op("aten::sum", 10, 20, seq=2).on(2)
    for at in range(30, 90, 10):
        trace.backward(f"B{at}Backward0", at, at + 9, seq=1)
    found = trace.load(tmp_path).sql("select tid from phase_span inner join track using (track_id) where is_main")
    assert found["tid"].unique().to_list() == ["1"]


def test_of_two_events_that_start_together_the_first_in_the_file_shows_the_phase(tmp_path: Path) -> None:
    """Autograd's call and the node in it start at the same time, for which the main thread waits."""
    trace = TraceBuilder()
    for step in range(40):
        start = 1000 * step
        trace.on(1).step(step, start, start + 900).op("aten::addmm", start + 10, start + 38, seq=step)
        trace.on(1).annotation("Optimizer.step#SGD.step", start + 700, start + 800)
        trace.on(2).backward("AddmmBackward0", start + 100, start + 200, seq=step)
    found = trace.load(tmp_path).sql(
        "select name from phase_span inner join event using (event_id) where phase = 'backward' and is_main"
    )
    assert found["name"].to_list() == ["autograd::engine::evaluate_function: AddmmBackward0"] * 40


# --- plain traces, in which ops tell ---------------------------------------------------------------------------------


def test_loading_before_zero_grad_is_no_forward(tmp_path: Path) -> None:
    trace = TraceBuilder().step(0, 0, 100).op("aten::stack", 5, 10)
    trace.annotation("Optimizer.zero_grad#SGD.zero_grad", 40, 45)
    trace.op("aten::mm", 50, 55, seq=1).op("aten::mse_loss", 60, 65, seq=2)
    trace.backward("MseLossBackward0", 70, 75, seq=2).backward("MmBackward0", 75, 80, seq=1)
    assert phases(trace.load(tmp_path)) == [
        ("load_data", 0, 40),
        ("zero_grad", 40, 45),
        ("load_data", 45, 50),
        ("forward", 50, 60),
        ("loss", 60, 65),
        ("backward", 65, 80),
        ("other", 80, 100),
    ]


@pytest.mark.parametrize("name", ["<built-in function fsync>", "train.py(9): log_metrics"])
def test_files_written_before_a_batch_is_made_are_not_loading(tmp_path: Path, name: str) -> None:
    """A log is written after the last step; then the batch is stacked. Without the write, nothing tells them apart."""
    trace = TraceBuilder().step(0, 0, 100).frame(name, 5, 30).op("aten::stack", 35, 38)
    trace.op("aten::linear", 40, 50, seq=1).op("aten::mse_loss", 60, 65, seq=2)
    trace.backward("MseLossBackward0", 70, 75, seq=2).backward("LinearBackward0", 75, 80, seq=1)
    writes = "fsync" in name
    assert phases(trace.load(tmp_path))[:2] == (
        [("other", 0, 30), ("load_data", 30, 40)] if writes else [("load_data", 0, 40), ("forward", 40, 60)]
    )


@pytest.mark.parametrize(("copies", "is_of_weights"), [(3, True), (2, False)])
@pytest.mark.parametrize("name", ["aten::copy_", "aten::clone"])
def test_weights_copied_before_a_batch_is_made_are_not_loading(
    tmp_path: Path, name: str, copies: int, is_of_weights: bool
) -> None:
    """Three gradients are accumulated, so three copies may be `load_state_dict`; two may be the parts of a batch."""
    trace = TraceBuilder().step(0, 0, 200)
    for number in range(copies):
        trace.op(name, 5 + 10 * number, 10 + 10 * number)
    trace.op("aten::randn", 40, 45).op("aten::linear", 50, 60, seq=1).op("aten::mse_loss", 65, 70, seq=2)
    trace.backward("MseLossBackward0", 80, 85, seq=2).backward("LinearBackward0", 85, 90, seq=1)
    for number in range(3):
        trace.op("torch::autograd::AccumulateGrad", 90 + 5 * number, 95 + 5 * number)
    assert phases(trace.load(tmp_path))[:3] == (
        [("other", 0, 30), ("load_data", 30, 50), ("forward", 50, 65)]
        if is_of_weights
        else [("load_data", 0, 50), ("forward", 50, 65), ("loss", 65, 70)]
    )


def test_forward_starts_with_the_whole_op_and_with_layers_that_are_not_trained(tmp_path: Path) -> None:
    """A teacher's layer runs first, without gradients; what is trained is inside `linear`."""
    trace = TraceBuilder().step(0, 0, 100).op("aten::to", 0, 5)
    trace.op("aten::linear", 10, 20)
    trace.op("aten::linear", 30, 40).op("aten::t", 32, 34, seq=1).op("aten::mse_loss", 50, 60, seq=2)
    trace.backward("MseLossBackward0", 60, 70, seq=2).backward("TBackward0", 70, 80, seq=1)
    assert phases(trace.load(tmp_path))[:3] == [("load_data", 0, 10), ("forward", 10, 50), ("loss", 50, 60)]


def test_a_loss_of_arithmetic_follows_the_last_layer(tmp_path: Path) -> None:
    trace = TraceBuilder().step(0, 0, 100).op("aten::linear", 10, 30, seq=1)
    trace.op("aten::sub", 35, 38, seq=2).op("aten::mean", 40, 44, seq=3).op("aten::ones_like", 48, 50)
    for at, name, seq in ((50, "Mean", 3), (56, "Sub", 2), (62, "Linear", 1)):
        trace.backward(f"{name}Backward0", at, at + 5, seq=seq)
    assert phases(trace.load(tmp_path)) == [
        ("load_data", 0, 10),
        ("forward", 10, 30),
        ("loss", 30, 44),
        ("backward", 44, 67),
        ("other", 67, 100),
    ]


def test_layers_tell_the_forward_pass_of_an_inference_step(tmp_path: Path) -> None:
    trace = TraceBuilder().step(0, 0, 100).op("aten::to", 5, 8)
    trace.op("aten::linear", 10, 20).op("aten::relu", 25, 30).op("aten::argmax", 35, 40)
    assert phases(trace.load(tmp_path)) == [("load_data", 0, 10), ("forward", 10, 30), ("other", 30, 100)]


def test_without_steps_layers_between_two_losses_are_a_forward_pass(tmp_path: Path) -> None:
    """Validation: what lies between a loss and the next batch's first layer is not known."""
    trace = TraceBuilder()
    for at in (0, 100):
        trace.op("aten::linear", at + 10, at + 30).op("aten::cross_entropy_loss", at + 40, at + 50)
        trace.op("aten::argmax", at + 55, at + 60)
    assert phases(trace.load(tmp_path)) == [
        ("forward", 10, 40),
        ("loss", 40, 50),
        ("other", 50, 110),
        ("forward", 110, 140),
        ("loss", 140, 150),
        ("other", 150, 160),
    ]


def trained(trace: TraceBuilder, parameters: int = 2) -> TraceBuilder:
    """A layer at 10, its loss at 30, backward from 40 to 50 with as many gradients, in a step of 100 us."""
    trace.step(0, 0, 100).op("aten::linear", 10, 30, seq=1).op("aten::mse_loss", 30, 40, seq=2)
    trace.backward("MseLossBackward0", 40, 43, seq=2).backward("LinearBackward0", 43, 46, seq=1)
    for number in range(parameters):
        trace.op("autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", 46 + number, 47 + number)
        trace.op("torch::autograd::AccumulateGrad", 46 + number, 47 + number)
    return trace


def after_backward(trace: TraceBuilder, tmp_path: Path) -> list[tuple[str, float, float]]:
    return [span for span in phases(trace.load(tmp_path)) if span[1] >= 48]


def test_an_optimizer_without_a_name_updates_as_many_tensors_as_have_gradients(tmp_path: Path) -> None:
    trace = trained(TraceBuilder()).op("aten::item", 50, 55)
    trace.op("aten::sub_", 60, 62).op("aten::sub_", 64, 66).op("aten::argmax", 70, 80)
    assert after_backward(trace, tmp_path) == [("other", 48, 60), ("optimizer", 60, 66), ("other", 66, 100)]


@pytest.mark.parametrize(("updates", "parameters"), [(1, 2), (2, 12)])
def test_a_running_loss_is_no_optimizer(tmp_path: Path, updates: int, parameters: int) -> None:
    trace = trained(TraceBuilder(), parameters)
    for number in range(updates):
        trace.op("aten::add_", 70 + 5 * number, 72 + 5 * number)
    assert not [span for span in phases(trace.load(tmp_path)) if span[0] == "optimizer"]


def test_updates_after_a_long_pause_are_metrics(tmp_path: Path) -> None:
    trace = trained(TraceBuilder()).op("aten::add_", 50, 51).op("aten::add_", 52, 53).op("aten::add_", 54, 55)
    trace.op("aten::add_", 90, 91).op("aten::add_", 92, 93)
    assert after_backward(trace, tmp_path) == [("other", 48, 50), ("optimizer", 50, 55), ("other", 55, 100)]


def test_gradients_may_be_clipped_by_value(tmp_path: Path) -> None:
    trace = trained(TraceBuilder()).op("aten::clamp_", 60, 62).op("aten::clamp_", 64, 66)
    trace.annotation("Optimizer.step#SGD.step", 70, 90)
    assert after_backward(trace, tmp_path) == [
        ("other", 48, 60),
        ("clipping", 60, 66),
        ("other", 66, 70),
        ("optimizer", 70, 90),
        ("other", 90, 100),
    ]


def test_metrics_between_the_loss_and_backward(tmp_path: Path) -> None:
    """Backward makes the gradient of the loss first."""
    trace = TraceBuilder().step(0, 0, 100).op("aten::linear", 10, 20, seq=1).op("aten::mse_loss", 20, 30, seq=2)
    trace.op("aten::argmax", 32, 34).op("aten::item", 36, 40).op("aten::ones_like", 45, 48)
    trace.backward("MseLossBackward0", 50, 60, seq=2).backward("LinearBackward0", 60, 70, seq=1)
    assert phases(trace.load(tmp_path))[2:] == [
        ("loss", 20, 30),
        ("other", 30, 45),
        ("backward", 45, 70),
        ("other", 70, 100),
    ]


def test_a_closure_of_an_optimizer(tmp_path: Path) -> None:
    """LBFGS computes model, loss and gradients again inside its step. What comes before them is as in any step."""
    trace = TraceBuilder().step(0, 0, 100).annotation("Optimizer.step#LBFGS.step", 5, 90)
    trace.op("aten::linear", 10, 20, seq=1).op("aten::mse_loss", 20, 30, seq=2)
    trace.backward("MseLossBackward0", 40, 50, seq=2).backward("LinearBackward0", 50, 60, seq=1)
    trace.op("aten::add_", 70, 72)
    assert phases(trace.load(tmp_path)) == [
        ("load_data", 0, 10),
        ("forward", 10, 20),
        ("loss", 20, 30),
        ("backward", 30, 60),
        ("optimizer", 60, 90),
        ("other", 90, 100),
    ]


def test_an_optimizer_updates_between_two_calls_of_its_closure(tmp_path: Path) -> None:
    """Autograd has a thread of its own; the main thread waits, and shows the optimizer only outside of the calls."""
    trace = TraceBuilder().step(0, 0, 200).annotation("Optimizer.step#LBFGS.step", 0, 190)
    for at, seq in ((0, 1), (100, 3)):
        trace.annotation("Optimizer.zero_grad#LBFGS.zero_grad", at, at + 10)
        trace.op("aten::linear", at + 10, at + 20, seq=seq).op("aten::mse_loss", at + 20, at + 30, seq=seq + 1)
        trace.on(2).backward("MseLossBackward0", at + 35, at + 45, seq=seq + 1)
        trace.backward("LinearBackward0", at + 45, at + 60, seq=seq).on(1)
        trace.op("aten::dot", at + 65, at + 70).op("aten::add_", at + 72, at + 80).op("aten::add_", at + 80, at + 99)
    trace.op("aten::argmax", 183, 185)
    expected = [
        ("zero_grad", 0, 10),
        ("forward", 10, 20),
        ("loss", 20, 30),
        ("backward", 30, 60),
        ("optimizer", 60, 99),
    ]
    again = [(phase, start + 100, end + 100) for phase, start, end in expected[:-1]]
    assert phases(trace.load(tmp_path)) == [
        *expected,
        ("forward", 99, 100),  # the batch is there
        *again,
        ("optimizer", 160, 190),
        ("other", 190, 200),
    ]


def test_layers_and_gradients_of_an_optimizer(tmp_path: Path) -> None:
    """An optimizer may multiply matrices, and compute gradients of what ran before it: that is no closure."""
    trace = TraceBuilder().step(0, 0, 100).op("aten::linear", 0, 10, seq=1).op("aten::mse_loss", 10, 20, seq=2)
    trace.backward("MseLossBackward0", 20, 30, seq=2).backward("LinearBackward0", 30, 40, seq=1)
    trace.annotation("Optimizer.step#Second.step", 40, 90).backward("MmBackward0", 45, 50, seq=1)
    trace.op("aten::mm", 52, 60).op("aten::add_", 60, 70).op("aten::mm", 72, 80).op("aten::add_", 80, 85)
    assert phases(trace.load(tmp_path))[2:] == [
        ("backward", 20, 40),
        ("optimizer", 40, 45),
        ("backward", 45, 50),
        ("optimizer", 50, 90),
        ("other", 90, 100),
    ]


def test_a_closure_without_gradients_ends_with_its_loss(tmp_path: Path) -> None:
    """A user's annotation of the optimizer holds PyTorch's own, which is the optimizer's to its end."""
    trace = TraceBuilder().step(0, 0, 100).annotation("optimizer", 0, 95)
    trace.op("aten::linear", 5, 10, seq=1).op("aten::mse_loss", 10, 20, seq=2)
    trace.backward("MseLossBackward0", 20, 30, seq=2).backward("LinearBackward0", 30, 40, seq=1)
    trace.annotation("Optimizer.step#SGD.step", 40, 60).op("aten::add_", 45, 50)
    trace.op("aten::linear", 65, 75).op("aten::mse_loss", 75, 85).op("aten::item", 90, 92)
    assert phases(trace.load(tmp_path)) == [
        ("load_data", 0, 5),
        ("forward", 5, 10),
        ("loss", 10, 20),
        ("backward", 20, 40),
        ("optimizer", 40, 60),
        ("forward", 60, 75),
        ("loss", 75, 85),
        ("optimizer", 85, 95),
        ("other", 95, 100),
    ]


def test_an_optimizer_that_starts_in_one_step_and_ends_in_the_next(tmp_path: Path) -> None:
    """Lightning's profiler ends a step in the closure, after the loss."""
    trace = TraceBuilder().step(0, 0, 100).annotation("enumerate(DataLoader)#_SingleProcess.__next__", 50, 60)
    trace.step(1, 100, 200).annotation("Optimizer.step#SGD.step", 60, 150)
    trace.op("aten::linear", 62, 80, seq=1).op("aten::mse_loss", 80, 98, seq=2)
    trace.backward("MseLossBackward0", 100, 110, seq=2).backward("LinearBackward0", 110, 120, seq=1)
    trace.op("aten::add_", 120, 149)
    assert phases(trace.load(tmp_path)) == [
        ("other", 0, 50),
        ("load_data", 50, 62),
        ("forward", 62, 80),
        ("loss", 80, 98),
        ("other", 98, 100),
        ("backward", 100, 120),
        ("optimizer", 120, 150),
        ("other", 150, 200),
    ]


def test_another_model_between_two_losses(tmp_path: Path) -> None:
    """The discriminator's loss on real images, then the generator and the discriminator again."""
    trace = TraceBuilder().step(0, 0, 100).op("aten::linear", 0, 10, seq=1).op("aten::mse_loss", 10, 20, seq=2)
    trace.op("aten::mul", 22, 24, seq=3).op("aten::linear", 30, 40, seq=4).op("aten::mse_loss", 50, 60, seq=5)
    for at, name, seq in ((60, "MseLoss", 5), (65, "Linear", 4), (70, "Mul", 3), (75, "MseLoss", 2), (80, "Linear", 1)):
        trace.backward(f"{name}Backward0", at, at + 5, seq=seq)
    assert phases(trace.load(tmp_path)) == [
        ("forward", 0, 10),
        ("loss", 10, 30),
        ("forward", 30, 50),
        ("loss", 50, 60),
        ("backward", 60, 85),
        ("other", 85, 100),
    ]


def test_what_is_made_of_a_gradient_is_loss(tmp_path: Path) -> None:
    """A gradient penalty: the norm of a gradient is a part of the loss, and no forward pass."""
    trace = TraceBuilder().step(0, 0, 100).op("aten::linear", 0, 10, seq=1).op("aten::sum", 12, 20, seq=2)
    trace.backward("SumBackward0", 20, 25, seq=2).backward("LinearBackward0", 25, 30, seq=1)
    trace.op("aten::pow", 40, 45, seq=3).op("aten::mean", 46, 50, seq=4)
    trace.backward("MeanBackward0", 55, 60, seq=4).backward("PowBackward0", 60, 65, seq=3)
    assert phases(trace.load(tmp_path)) == [
        ("forward", 0, 10),
        ("loss", 10, 20),
        ("backward", 20, 30),
        ("loss", 30, 50),
        ("backward", 50, 65),
        ("other", 65, 100),
    ]


def test_ddp_copies_gradients_back_at_the_end_of_backward(tmp_path: Path) -> None:
    trace = trained(TraceBuilder()).op("torch.distributed.ddp.reducer::copy_bucket_to_grad", 50, 60)
    assert ("backward", 40, 60) in phases(trace.load(tmp_path))


def test_what_a_model_makes_before_its_first_layer_is_forward(tmp_path: Path) -> None:
    """Positions, masks, noise: from the first of them on. What changes the batch before is loading."""
    trace = TraceBuilder().step(0, 0, 100).annotation("enumerate(DataLoader)#_SingleProcess.__next__", 0, 10)
    trace.op("aten::to", 12, 14).op("aten::slice", 14, 16).op("aten::arange", 20, 24).op("aten::rsub", 24, 26)
    trace.op("aten::linear", 30, 40, seq=1).op("aten::mse_loss", 50, 55, seq=2)
    trace.backward("MseLossBackward0", 60, 65, seq=2).backward("LinearBackward0", 65, 70, seq=1)
    found = labelled(trace.load(tmp_path))
    assert [found[f"aten::{name}"] for name in ("to", "slice", "arange", "rsub")] == 2 * ["load_data"] + 2 * ["forward"]


@pytest.mark.parametrize(
    ("ops", "expected"),
    [
        (("randn", "zeros"), ("load_data", "forward")),
        (("randn", "stack", "zeros"), ("load_data", "load_data", "forward")),
        (("stack", "randint", "mul"), ("load_data", "forward", "forward")),
        (("zeros", "stack"), ("load_data", "load_data")),
    ],
)
def test_a_batch_is_drawn_only_where_none_is_put_together(
    ops: tuple[str, ...], expected: tuple[str, ...], tmp_path: Path
) -> None:
    trace = TraceBuilder().step(0, 0, 100)
    for number, name in enumerate(ops):
        trace.op(f"aten::{name}", 5 * number, 5 * number + 4)
    trace.op("aten::linear", 30, 40, seq=1).op("aten::mse_loss", 50, 55, seq=2)
    trace.backward("MseLossBackward0", 60, 65, seq=2).backward("LinearBackward0", 65, 70, seq=1)
    found = labelled(trace.load(tmp_path))
    assert tuple(found[f"aten::{name}"] for name in ops) == expected


def test_after_zero_grad_the_model_runs_if_the_batch_is_there(tmp_path: Path) -> None:
    trace = TraceBuilder().step(0, 0, 100).annotation("enumerate(DataLoader)#_SingleProcess.__next__", 0, 10)
    trace.op("aten::to", 12, 14).annotation("Optimizer.zero_grad#SGD.zero_grad", 15, 20)
    trace.op("aten::unsqueeze", 24, 26).op("aten::linear", 30, 40, seq=1).op("aten::mse_loss", 50, 55, seq=2)
    trace.backward("MseLossBackward0", 60, 65, seq=2).backward("LinearBackward0", 65, 70, seq=1)
    assert phases(trace.load(tmp_path))[:4] == [
        ("load_data", 0, 15),
        ("zero_grad", 15, 20),
        ("load_data", 20, 24),
        ("forward", 24, 50),
    ]


def test_metrics_between_the_loss_and_zero_grad_are_no_loss(tmp_path: Path) -> None:
    trace = TraceBuilder().step(0, 0, 100).module("Net", 0, 10, 30).op("aten::mse_loss", 32, 38, seq=1)
    trace.op("aten::argmax", 40, 44).annotation("Optimizer.zero_grad#SGD.zero_grad", 46, 48)
    trace.backward("MseLossBackward0", 54, 60, seq=1)
    assert phases(trace.load(tmp_path))[2:6] == [
        ("loss", 30, 38),
        ("other", 38, 46),
        ("zero_grad", 46, 48),
        ("backward", 48, 60),
    ]


def test_unscaling_and_a_new_scale_belong_to_the_optimizer(tmp_path: Path) -> None:
    """Not what is done between them; the last value read back before the optimizer is the scaler's."""
    trace = TraceBuilder().step(3, 0, 100).module("Net", 0, 10, 40).frame(BACKWARD, 40, 60).op("aten::item", 61, 62)
    trace.op("aten::reciprocal", 64, 65).op("aten::_amp_foreach_non_finite_check_and_unscale_", 66, 68)
    trace.op("aten::item", 69, 70).op("aten::item", 72, 73)
    trace.annotation("Optimizer.step#SGD.step", 75, 90).op("aten::_amp_update_scale_", 92, 94)
    assert phases(trace.load(tmp_path))[2:] == [
        ("backward", 40, 60),
        ("other", 60, 64),
        ("optimizer", 64, 68),
        ("other", 68, 72),
        ("optimizer", 72, 94),
        ("other", 94, 100),
    ]


def test_an_average_of_the_weights_is_no_optimizer(tmp_path: Path) -> None:
    """Where nothing names the optimizer: it goes from tensor to tensor with all its ops, the average with fewer."""
    trace = TraceBuilder().step(0, 0, 200).op("aten::linear", 10, 20, seq=1)
    trace.op("aten::mse_loss", 22, 24, seq=2).backward("MseLossBackward0", 30, 35, seq=2)
    trace.backward("LinearBackward0", 35, 40, seq=1)
    for number in range(4):
        trace.op("autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", 40 + number, 41 + number)
        trace.op("torch::autograd::AccumulateGrad", 40 + number, 41 + number)
        for place, name in enumerate(("mul_", "lerp_", "addcmul_", "addcdiv_")):
            trace.op(f"aten::{name}", 50 + 8 * number + 2 * place, 51 + 8 * number + 2 * place)
        for place, name in enumerate(("mul_", "lerp_")):
            trace.op(f"aten::{name}", 90 + 4 * number + 2 * place, 91 + 4 * number + 2 * place)
    assert ("optimizer", 50, 81) in phases(trace.load(tmp_path))


def test_a_value_read_back_before_the_next_batch_is_of_the_last_one(tmp_path: Path) -> None:
    trace = TraceBuilder()
    for step in range(2):
        at = 100 * step
        trace.op("aten::item", at, at + 4).op("aten::stack", at + 10, at + 14).op("aten::linear", at + 30, at + 40)
        trace.op("aten::mse_loss", at + 42, at + 44, seq=step).backward("MseLossBackward0", at + 50, at + 60, seq=step)
        trace.annotation("Optimizer.step#SGD.step", at + 70, at + 80)
    assert phases(trace.load(tmp_path))[7:10] == [
        ("other", 80, 104),
        ("load_data", 104, 130),
        ("forward", 130, 142),
    ]
