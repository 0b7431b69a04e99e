"""A file without GPU work says why: what was recorded of the GPU, and what did not arrive."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import hotline_analysis as ha
from hotline_analysis.errors import HotlineError
from tests.trace_builder import TraceBuilder

GPU = {"id": 0, "name": "NVIDIA H100", "totalGlobalMem": 2**36}


def program(calls: list[str], *, steps: int = 3, op: str = "aten::mm", **top: Any) -> TraceBuilder:
    """Steps of an op, and in each one call of each name."""
    trace = TraceBuilder(**top)
    for step in range(steps):
        start = 1000 * step
        trace.step(step, start, start + 900)
        trace.op(op, start + 10, start + 800)
        for number, call in enumerate(calls):
            begin = start + 20 + 10 * number
            trace.runtime(call, begin, begin + 5, correlation=trace.new_correlation())
    return trace


@pytest.mark.parametrize(
    ("calls", "steps", "launches"),
    [
        (["cudaLaunchKernel", "cudaLaunchKernel", "cudaDeviceSynchronize"], 5, 10),
        (["cudaLaunchKernel"], 3, 3),
        (["hipLaunchKernel", "hipMemcpyAsync"], 1, 1),
        (["cudaLaunchKernelExC", "cudaGraphLaunch"], 4, 8),
        (["urEnqueueKernelLaunch"], 20, 20),
        (["cuLaunchKernel"] * 6, 2, 12),
    ],
)
@pytest.mark.parametrize("lists_gpu", [True, False])
@pytest.mark.sampled
def test_launches_whose_kernels_did_not_arrive(
    tmp_path: Path, calls: list[str], steps: int, launches: int, *, lists_gpu: bool
) -> None:
    top: dict[str, Any] = {"deviceProperties": [GPU]} if lists_gpu else {}
    with program(calls, steps=steps, **top).load(tmp_path) as trace:
        report = ha.report(trace)
        text = report.to_text()
        verb = "calls are" if launches != 1 else "call is"
        assert report.headline.startswith(f"{launches} launch {verb} in the file, but no kernel arrived in it.")
        assert "ProfilerActivity.CUDA" not in text
        assert "CPU only" not in text
        assert report.advice == []
        assert any("before the profiler stops" in line for line in report.recapture)
        assert "ProfilerActivity" not in ha.gpu_efficiency(trace).statement
        with pytest.raises(HotlineError, match="no kernel arrived") as refused:
            ha.whatif(trace, "compile")
        assert refused.value.hint
        assert "ProfilerActivity" not in refused.value.hint


@pytest.mark.parametrize("calls", [["cudaDeviceSynchronize"], ["cudaMalloc", "cudaFree"], ["hipGetDevice"]])
def test_other_calls_of_the_runtime(tmp_path: Path, calls: list[str]) -> None:
    with program(calls).load(tmp_path) as trace:
        report = ha.report(trace)
    assert report.headline.startswith("Runtime calls of a GPU are in the file, but none of its work arrived in it.")
    assert "ProfilerActivity.CUDA" not in report.to_text()


@pytest.mark.parametrize("steps", [1, 3, 12])
@pytest.mark.sampled
def test_a_gpu_that_is_listed_but_not_called(tmp_path: Path, steps: int) -> None:
    """Here the activity was off, or the program does not use the GPU: figures are about the CPU."""
    with program([], steps=steps, deviceProperties=[GPU]).load(tmp_path) as trace:
        report = ha.report(trace)
    assert report.facts["device"] == "CPU only"
    assert any("if the program uses it, add ProfilerActivity.CUDA" in line for line in report.recapture)


@pytest.mark.parametrize("steps", [1, 3, 12])
@pytest.mark.sampled
def test_a_program_of_the_cpu_is_not_told_to_record_a_gpu(tmp_path: Path, steps: int) -> None:
    with program([], steps=steps).load(tmp_path) as trace:
        report = ha.report(trace)
    assert report.facts["device"] == "CPU only"
    assert not any("ProfilerActivity.CUDA" in line for line in report.recapture)


@pytest.mark.parametrize(
    ("op", "words"),
    [
        ("aten::_mps_convolution", "Apple's GPU (MPS)"),
        ("aten::mps_convolution_backward", "Apple's GPU (MPS)"),
        ("aten::_lstm_mps", "Apple's GPU (MPS)"),
        ("npu::npu_fusion_attention", "a device (NPU)"),
        ("hpu::cast_to_fp8", "a device (HPU)"),
    ],
)
def test_ops_of_a_device_that_is_not_recorded(tmp_path: Path, op: str, words: str) -> None:
    with program([], op=op).load(tmp_path) as trace:
        report = ha.report(trace)
    assert report.headline.startswith(f"Ops run on {words}")
    assert "CPU only" not in report.to_text()
    assert "ProfilerActivity.CUDA" not in report.to_text()
    assert report.advice == []


@pytest.mark.parametrize("op", ["aten::mps", "aten::amps_lstm", "aten::mm", "aten::hpus", "my::npu"])
@pytest.mark.sampled
def test_other_ops_are_ops_of_the_cpu(tmp_path: Path, op: str) -> None:
    with program([], op=op).load(tmp_path) as trace:
        assert ha.report(trace).facts["device"] == "CPU only"


def test_a_cpu_loop_to_which_no_scenario_applies_has_no_second_graph(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The report asks for the graph of a loop only if a scenario can be tried."""
    from hotline_analysis.prediction.asked import worthwhile
    from hotline_analysis.prediction.engine import loop

    asked: list[object] = []
    monkeypatch.setattr(loop, "dependency_graph", lambda *given, **_: asked.append(given))
    with program([]).load(tmp_path) as trace:
        assert worthwhile(trace, least_pct=2.0).is_empty()
    assert not asked
