"""The model alone finds what frames, sequence numbers and flows say: on our captures and on real GPU traces."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.accuracy.hide import captured_model, compare
from tests.real_traces import TRACES
from tests.runs import opened

PAIRS = Path(__file__).parents[1] / "data" / "pairs"
MODELS = sorted(path.name.removesuffix("_frames.json.gz") for path in PAIRS.glob("*_frames.json.gz"))
REAL = ("training/resnet18_ddp_checkpoint_mi300", "inference/bert_small_h100", "inference/qwen_h100")


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.sampled
def test_our_models_with_the_table_of_the_capture(model: str) -> None:
    """The trace with frames is the truth; the model-op table comes from the other capture, which had none."""
    with opened(PAIRS / f"{model}_frames.json.gz") as frames, opened(PAIRS / f"{model}_plain.json.gz") as plain:
        shares = compare(frames, captured_model(plain))
    assert shares.keys() >= {"forward", "backward"}
    assert ("recompute" in shares) == ("checkpoint" in model)
    for name, least in (("forward", 99.5), ("backward", 99.0), ("recompute", 99.0)):
        if name in shares:
            assert shares[name].cpu_ns > 0
            assert shares[name].cpu_pct >= least, name


@pytest.mark.slow
@pytest.mark.traces
@pytest.mark.parametrize("name", REAL)
@pytest.mark.sampled
def test_real_traces_with_frames(name: str) -> None:
    with opened(TRACES / f"{name}.json.gz") as trace:
        shares = compare(trace)
    assert shares["forward"].gpu_ns > 0
    for name_of_pass, share in shares.items():
        least = 99.5 if name_of_pass == "forward" else 99.0
        assert share.cpu_pct >= least, name_of_pass
        assert share.gpu_pct >= least, name_of_pass


@pytest.mark.slow
def test_the_comparison_sees_a_wrong_module() -> None:
    """With the modules of two layers exchanged, the shares fall: the check above can fail."""
    with opened(PAIRS / "cnn_frames.json.gz") as frames, opened(PAIRS / "cnn_plain.json.gz") as plain:
        model = captured_model(plain)
        convolutions = sorted({module for name, module, _ in model.ops if name == "aten::conv2d"})[:2]
        swap = dict(zip(convolutions, reversed(convolutions), strict=True))
        wrong = type(model)(
            model.modules, [(name, swap.get(module, module), call) for name, module, call in model.ops], "wrong"
        )
        shares = compare(frames, wrong)
    assert shares["forward"].cpu_pct < 99.5
    assert shares["backward"].cpu_pct < 99.0
