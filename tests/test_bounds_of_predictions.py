"""What no prediction may do, over made-up traces: promise more than there is, or get longer by a better machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hotline_analysis as ha
from hotline_analysis.gpu_models import named_gpu
from hotline_analysis.prediction.engine.edits import Pace, Remove, Scale
from hotline_analysis.prediction.engine.loop import HIGH, LOW, MID, Loop, loop_of
from hotline_analysis.prediction.engine.other_gpu import Move, move_to
from hotline_analysis.prediction.engine.predict import Scenario, edited
from hotline_analysis.prediction.scenarios import KNOWN
from hotline_analysis.prediction.scenarios.known import GPU
from tests.gpu_steps import A100, HALF_GEMM, POINTWISE, shaped
from tests.trace_builder import TraceBuilder

US = 1000
NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)"
KINDS = ("pointwise", "product", "copy", "collective")

# Of a step: each work with its kind, how long it runs, how long the CPU takes for it, its blocks, and whether the CPU
# waits for it.
Work = tuple[str, int, int, int, bool]
works = st.lists(
    st.tuples(st.sampled_from(KINDS), st.integers(1, 300), st.integers(4, 60), st.integers(1, 5000), st.booleans()),
    min_size=1, max_size=6,
)  # fmt: skip


def made(folder: Path, step: list[Work], gradients: bool = False, pause: int = 0) -> ha.Trace:
    """Four equal steps that launch all works in turns, of which the CPU waits for some.

    The third step has a `pause` of the CPU at its end.
    """
    trace = TraceBuilder(rank=0, deviceProperties=[A100])
    at = free = 0
    for number in range(4):
        begin = at
        for place, (kind, length, host, blocks, waits) in enumerate(step):
            phase = "backward" if place else "forward"
            trace.annotation(f"## {phase} ##", at, at + host)
            name, category = {
                "pointwise": (POINTWISE, "kernel"),
                "product": (HALF_GEMM, "kernel"),
                "copy": ("Memcpy HtoD (Pinned -> Device)", "gpu_memcpy"),
                "collective": (NCCL, "kernel"),
            }[kind if not (gradients and kind == "collective") else "pointwise"]
            args: dict[str, Any] = {} if category != "kernel" else shaped(blocks)
            trace.op(f"aten::op{place}", at, at + host, **_DIMS)
            start = max(at + 3, free)
            free = start + length
            trace.launches(name, start, free, at=at + 1, until=at + 2, category=category, **args)
            at += host
            if gradients:
                trace.complete("cpu_op", "torch::autograd::AccumulateGrad", at, at + 1, _WEIGHT)
                at += 1
            if waits:
                end = max(free, at) + 1
                trace.runtime("cudaDeviceSynchronize", at, end, correlation=trace.new_correlation())
                at = end
        trace.annotation("Optimizer.step#SGD.step", at, at + 6).op("aten::add_", at + 1, at + 5)
        start = max(at + 4, free)
        free = start + 2
        trace.launches(POINTWISE, start, free, at=at + 2, until=at + 3, **shaped(10))
        at += 6 + pause * (number == 2)
        trace.step(number, begin, at)
    return trace.annotation("the end", at, max(at, free) + 1).load(folder)


_DIMS: dict[str, Any] = {"Input Dims": [[64, 64], [64, 64]], "Input type": ["float", "float"]}
_WEIGHT: dict[str, Any] = {"Input Dims": [[100_000]], "Input type": ["float"]}


def times(loop: Loop, scenario: Scenario) -> list[int]:
    """The step at the ends of the range and between."""
    return [loop.per_step(loop.ended(edited(loop, scenario, level))) for level in (LOW, MID, HIGH)]


@pytest.mark.slow
@settings(max_examples=6, deadline=None, database=None)
@given(step=works)
def test_more_bandwidth_and_a_faster_gpu_never_make_a_step_longer(
    tmp_path_factory: pytest.TempPathFactory, step: list[Work]
) -> None:
    loop = loop_of(made(tmp_path_factory.mktemp("t"), step))
    before = None
    for factor in (0.5, 1.0, 2.0, 8.0):
        scenario = KNOWN["bandwidth"].made(loop, {"factor": factor})
        if isinstance(scenario, str):
            assert all(kind != "collective" for kind, *_ in step)
            break
        now = times(loop, scenario)
        assert before is None or all(later <= earlier + 1 for later, earlier in zip(now, before, strict=True))
        before = now
    known = dict(named_gpu("A100 SXM4 40GB"))
    faster = [key for key in known if key.endswith("_per_s") or key in ("boost_mhz", "pcie_one_way_gb_per_s")]
    before = None
    for factor in (1.0, 1.7, 3.0):
        better = {**known, **{key: factor * float(str(known[key])) for key in faster if known[key] is not None}}
        found = move_to(loop, {**better, "model": "Better", "sm_count": int(108 * factor)}, [])
        assert isinstance(found, Move)
        now = times(loop, Scenario("gpu", [Pace(GPU, found.parts)]))
        # At the high end, links and other kernels of libraries may be as slow as before.
        assert before is None or all(later <= earlier + 1 for later, earlier in zip(now[:2], before[:2], strict=True))
        before = now


@pytest.mark.long
@settings(max_examples=6, deadline=None, database=None)
@given(step=works)
def test_no_scenario_beats_a_free_gpu_and_a_free_cpu_together(
    tmp_path_factory: pytest.TempPathFactory, step: list[Work]
) -> None:
    """A step takes no less than nothing, and with the GPU for nothing no less than what edits leave of the CPU.

    What a side needs on its own bounds each scenario that does not change it: half the GPU's time leaves the CPU's, and
    half the CPU's the GPU's.
    """
    loop = loop_of(made(tmp_path_factory.mktemp("t"), step))
    assert 0 <= loop.gpu_free_ns <= loop.baseline_ns + 1
    assert 0 <= loop.cpu_free_ns <= loop.baseline_ns + 1
    for part in (0.0, 0.5):
        gpu = times(loop, Scenario("gpu", [Scale("class is not null", part)]))
        cpu = times(loop, Scenario("cpu", [Scale("class is null", part)]))
        assert loop.gpu_free_ns - 1 <= gpu[MID] <= loop.baseline_ns + 1
        assert loop.cpu_free_ns - 1 <= cpu[MID] <= loop.baseline_ns + 1
    # Both sides for nothing: nothing is left but waits that no mechanism explains, and no scenario gets below these.
    least = times(loop, Scenario("nothing", [Remove("true")]))[MID]
    for name in ("amp", "pinned", "bandwidth", "cuda_graph", "no_sync", "overlap"):
        scenario = KNOWN[name].made(loop, {})
        assert isinstance(scenario, str) or times(loop, scenario)[MID] >= least - 1, name


def test_a_long_step_among_few_makes_no_range_begin_at_nothing(tmp_path: Path) -> None:
    """Steps of 150 us, of which one has a pause of 2 ms: no step of another run is much shorter than the others."""
    step: list[Work] = [
        ("pointwise", 40, 30, 500, False),
        ("product", 60, 40, 500, True),
        ("collective", 20, 9, 9, True),
    ]
    trace = made(tmp_path, step, pause=2000)
    loop = loop_of(trace)
    assert loop.shortest is not None
    assert loop.noise(LOW) == (0, 0)
    assert 0.85 * loop.shortest.baseline_ns < loop.plain_ns(LOW) < loop.shortest.baseline_ns
    predicted = ha.whatif(trace).filter(pl.col("low_ns").is_not_null())
    assert predicted.height > 3
    assert (predicted["low_ns"] > 0.3 * loop.shortest.baseline_ns).all()
    assert (predicted["low_ns"] <= predicted["predicted_ns"]).all()


@pytest.mark.long
@settings(max_examples=6, deadline=None, database=None)
@given(step=works, ranks=st.integers(2, 64))
def test_more_ranks_never_pay_more_than_one(
    tmp_path_factory: pytest.TempPathFactory, step: list[Work], ranks: int
) -> None:
    """No step is shorter with other ranks to wait for, more bandwidth never makes it longer, nor do fewer ranks."""
    loop = loop_of(made(tmp_path_factory.mktemp("t"), step, gradients=True))

    def asked(number: int, speed: float) -> list[int]:
        scenario = KNOWN["ddp"].made(loop, {"ranks": number, "gb_per_s": speed})
        assert not isinstance(scenario, str), scenario
        return times(loop, scenario)

    slow, fast, more = asked(ranks, 1), asked(ranks, 50), asked(2 * ranks, 1)
    plain = [loop.plain_ns(level) for level in (LOW, MID, HIGH)]
    for alone, quick, late, later in zip(plain, fast, slow, more, strict=True):
        assert alone - 1 <= quick <= late + 1 <= later + 2
