"""`hotline_analysis.nvtx`: modules push their paths, and an export that has them tells time per module."""

from __future__ import annotations

from pathlib import Path

import pytest

import hotline_analysis as ha
from hotline_analysis.errors import HotlineError
from tests.nsight_export import both_know, write_export
from tests.trace_builder import TraceBuilder


@pytest.fixture
def pushed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is pushed and popped, as a build of torch for CUDA would."""
    torch = pytest.importorskip("torch")
    said: list[str] = []

    def push(text: str) -> int:
        said.append(text)
        return 0

    def pop() -> int:
        said.append("pop")
        return 0

    monkeypatch.setattr(torch.cuda.nvtx, "range_push", push)
    monkeypatch.setattr(torch.cuda.nvtx, "range_pop", pop)
    return said


def test_modules_push_their_class_and_path(pushed: list[str]) -> None:
    torch = pytest.importorskip("torch")
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Sequential(torch.nn.ReLU()))
    with ha.nvtx(model):
        pushed.clear()
        model(torch.ones(1, 2))
    assert pushed == [
        "nn.Module: Sequential: ",
        *("nn.Module: Linear: 0", "pop"),
        *("nn.Module: Sequential: 1", "nn.Module: ReLU: 1.0", "pop", "pop"),
        "pop",
    ]
    pushed.clear()
    model(torch.ones(1, 2))
    assert pushed == []


def test_a_module_that_fails_pops_its_range(pushed: list[str]) -> None:
    torch = pytest.importorskip("torch")
    model = torch.nn.Linear(2, 2)
    ha.nvtx(model)
    pushed.clear()
    with pytest.raises(RuntimeError):
        model(torch.ones(1, 3))
    assert pushed == ["nn.Module: Linear: ", "pop"]


def test_a_build_without_nvtx_is_told() -> None:
    torch = pytest.importorskip("torch")
    if torch.version.cuda is not None:
        pytest.skip("this build has NVTX")
    with pytest.raises(HotlineError, match="no NVTX"):
        ha.nvtx(torch.nn.Linear(2, 2))


def test_an_export_with_them_tells_time_per_module(tmp_path: Path) -> None:
    """Backward of a module's op belongs to the module, by the numbers of autograd."""
    trace = TraceBuilder().step(0, 0, 900)
    trace.annotation("nn.Module: Net: ", 10, 200).annotation("nn.Module: Linear: layers.0", 20, 100)
    trace.op("aten::addmm", 30, 50, seq=1).launches("gemm", 60, 160)
    trace.annotation("nn.Module: ReLU: act", 110, 190).op("aten::relu", 120, 140, seq=2).launches("relu", 160, 170)
    trace.on(2).op("ReluBackward0", 300, 320, seq=2).launches("relu_grad", 330, 350)
    trace.op("AddmmBackward0", 330, 360, seq=1).launches("gemm_grad", 400, 700)
    events = both_know(trace.events, {}, "2026.2")
    for event in events:
        if event["cat"] == "user_annotation":
            event["args"].pop("Record function id", None)  # they are pushed without `emit_nvtx`
    found = ha.load(write_export(tmp_path / "report.sqlite", events, {}))
    modules = found.sql("select name, path, type, depth from model_op order by module_id").rows()
    assert modules == [("Net", "", "Net", 0), ("0", "layers.0", "Linear", 1), ("act", "act", "ReLU", 1)]
    times = found.sql(
        "select model_op.path, event.name, label.phase from label inner join model_op using (rank, module_id)"
        " inner join event on label.rank = event.rank and label.event_id = event.event_id"
        " where event.category = 'kernel' order by event.start_ns"
    ).rows()
    assert times == [
        ("layers.0", "gemm", "forward"),
        ("act", "relu", "forward"),
        ("act", "relu_grad", "backward"),
        ("layers.0", "gemm_grad", "backward"),
    ]
