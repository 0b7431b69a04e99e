from pathlib import Path

from hotline_analysis.answers.rules import find_advice
from tests.rule.loop import found
from tests.trace_builder import TraceBuilder

RULE = "preprocessing_outside_loader"


def prepared(*, copy: str = "HtoD") -> TraceBuilder:
    """A step of 500 us, which begins with 300 us of python; then a copy and a kernel are launched."""
    trace = TraceBuilder(rank=0).step(0, 0, 500).frame("train.py(3): main", 0, 500)
    trace.frame("video.py(30): decode", 0, 300).module("Net", 0, 300, 400).op("aten::mm", 300, 320)
    trace.launches(f"Memcpy {copy} (Pinned -> Device)", 310, 320, call="cudaMemcpyAsync", category="gpu_memcpy")
    return trace.launches("gemm", 330, 500)


def test_the_data_is_there_when_it_is_asked_for(tmp_path: Path) -> None:
    assert found(prepared().load(tmp_path), RULE) == (1, 300, 300)


def test_what_a_loader_gives_is_another_finding(tmp_path: Path) -> None:
    """Of the 300 us in which the program loads data, the loader takes 100 in the middle."""
    trace = prepared().annotation("load batch", 0, 300)
    trace.annotation("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", 100, 200)
    assert found(trace.load(tmp_path), RULE) == (2, 200, 200)


def pause(us: int) -> TraceBuilder:
    """Three steps without modules and stacks, each with python of so many us after the optimizer, and 1,000 us of ops.

    The first ops of the trace have no python before them, so the steps 1 and 2 begin with python.
    """
    trace = TraceBuilder(rank=0)
    for number in range(3):
        at = (1000 + us) * number
        trace.op("aten::conv2d", at, at + 300, seq=number + 1)
        trace.op("autograd::engine::evaluate_function: ConvolutionBackward0", at + 300, at + 800, seq=number + 1)
        trace.annotation("Optimizer.step#SGD.step", at + 800, at + 980).op("aten::add_", at + 800, at + 980)
        trace.annotation("Optimizer.zero_grad#SGD.zero_grad", at + 980, at + 1000)
    return trace


def test_the_python_of_any_loop_prepares_no_data(tmp_path: Path) -> None:
    """The 80 us after `zero_grad` have no event. Nothing tells that they are data."""
    assert found(pause(80).load(tmp_path), RULE) is None


def test_a_millisecond_before_the_model_is_data(tmp_path: Path) -> None:
    """The zero_grad that ended before is not the work: no event is in the 2,000 us."""
    trace = pause(2000).load(tmp_path)
    (advice,) = [each for each in find_advice(trace) if each.rule == RULE]
    assert "most of it in python" in advice.what
    assert "zero_grad" not in advice.what


def test_the_profiler_prepares_no_data(tmp_path: Path) -> None:
    """`prof.step()` takes 200 of the 300 us before the model; the user's function takes 100."""
    trace = TraceBuilder(rank=0).step(0, 0, 500).frame("train.py(3): main", 0, 500)
    trace.frame("torch/profiler/profiler.py(1150): step", 0, 200).frame("video.py(30): decode", 200, 300)
    trace.module("Net", 0, 300, 400).op("aten::mm", 300, 320)
    trace.launches("Memcpy HtoD (Pinned -> Device)", 310, 320, call="cudaMemcpyAsync", category="gpu_memcpy")
    trace.launches("gemm", 330, 500)
    assert found(trace.load(tmp_path), RULE) == (1, 100, 100)


def test_what_never_gets_to_the_gpu_is_no_data(tmp_path: Path) -> None:
    assert found(prepared(copy="DtoD").load(tmp_path), RULE) is None


def test_preparing_that_no_step_waits_for_costs_nothing(tmp_path: Path) -> None:
    """The GPU is busy all the time."""
    trace = TraceBuilder(rank=0)
    for number in range(3):
        start = number * 1000
        trace.step(number, start, start + 400).frame("video.py(30): decode", start, start + 300)
        trace.module("Net", 0, start + 300, start + 400).op("aten::mm", start + 300, start + 320)
        trace.launches("Memcpy HtoD (Pinned -> Device)", start + 320, start + 330, category="gpu_memcpy")
        trace.launches("gemm", start + 330, start + 1320)
    assert found(trace.load(tmp_path), RULE) is None


def test_python_that_prepares_data_has_the_function_that_samples_show(tmp_path: Path) -> None:
    """Each step draws a batch for 10 us, and prepares it for 390 in python before the copy: no op has that time."""
    trace = TraceBuilder(rank=0)
    sampled = {"file": "/home/me/train.py", "line": 7, "first_line": 5, "module": "__main__", "is_user": True}
    sampled |= {"after": "optimizer", "before": "forward", "inside": None, "function": "mask_tokens", "count": 90}
    sampled |= {"inclusive": 95, "gap": 100, "is_loop": False, "is_caller": False}
    trace.top["hotline_samples"] = {
        "version": 1,
        "interval_ns": 1_000_000,
        "samples": 100,
        "notes": [],
        "frames": [sampled],
    }
    for number in range(3):
        at = 1000 * number
        trace.step(number, at, at + 1000).op("aten::stack", at, at + 10).op("aten::tensor", at + 390, at + 400)
        trace.module("Net", 0, at + 400, at + 700).op("aten::linear", at + 400, at + 700, seq=number + 1)
        trace.op("autograd::engine::evaluate_function: AddmmBackward0", at + 700, at + 900, seq=number + 1)
        trace.annotation("Optimizer.step#SGD.step", at + 900, at + 1000).op("aten::add_", at + 910, at + 1000)
    (advice,) = [each for each in find_advice(trace.load(tmp_path)) if each.rule == RULE]
    assert "most of it in python" in advice.what
    assert "mask_tokens (" in advice.where
    assert "train.py:7" in advice.where
