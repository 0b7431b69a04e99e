from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from types import FunctionType
from typing import Any

import polars as pl
import pytest

import hotline_analysis as ha
from docs import generate_api
from hotline_analysis import HotlineError, QueryParameterError, Trace, charts
from hotline_analysis.answers.recorded import has_gpu_work
from tests.trace_builder import TraceBuilder

# Every trace below has one step, from 0 to 1000 us.


def one_kernel(busy: int, name: str = "gemm", category: str = "kernel") -> TraceBuilder:
    """The GPU is busy for the last `busy` us of the step, and the host waits for it."""
    trace = TraceBuilder().step(0, 0, 1000).op("op", 0, 1000)
    trace.launches(name, 1000 - busy, 1000, at=0, until=1000 - busy, category=category)
    return trace.runtime("cudaDeviceSynchronize", 1000 - busy, 1000, correlation=900)


def launch_bound() -> TraceBuilder:
    """Ops without a break, each with a short kernel."""
    trace = TraceBuilder().step(0, 0, 1000)
    for at in range(0, 1000, 50):
        trace.op("op", at, at + 50).launches("small", at + 42, at + 50, at=at + 40, until=at + 42)
    return trace


def python_bound() -> TraceBuilder:
    """Short ops with python between them."""
    trace = TraceBuilder().step(0, 0, 1000)
    for at in range(0, 1000, 50):
        trace.op("op", at + 38, at + 45).launches("small", at + 42, at + 50, at=at + 40, until=at + 42)
    return trace


def input_bound() -> TraceBuilder:
    trace = TraceBuilder().step(0, 0, 1000)
    for at in (0, 500):
        trace.annotation("enumerate(DataLoader)#x", at, at + 400)
        trace.op("op", at + 400, at + 420).launches("k", at + 410, at + 500, at=at + 405)
    return trace


def cpu_tensor_bound() -> TraceBuilder:
    trace = TraceBuilder().step(0, 0, 1000).annotation("## forward ##", 0, 1000)
    trace.op("aten::max", 0, 800).op("aten::mm", 800, 1000)
    return trace.launches("k", 810, 900, at=805)


def sync_bound() -> TraceBuilder:
    """The host waits for each result before it goes on, longer than the result takes."""
    trace = TraceBuilder().step(0, 0, 1000)
    for at in range(0, 1000, 100):
        trace.op("op", at, at + 5).launches("k", at + 2, at + 20, at=at, until=at + 1)
        trace.op("aten::item", at + 5, at + 90).runtime("cudaStreamSynchronize", at + 6, at + 89, correlation=5000 + at)
    return trace


def gpu_wait_bound() -> TraceBuilder:
    """All is launched at once, but the GPU starts each piece 30 us after the last."""
    trace = TraceBuilder().step(0, 0, 1000).op("op", 0, 30)
    for number in range(25):
        trace.launches("k", 40 * number + 1, 40 * number + 11, at=number, until=number + 1)
    return trace.runtime("cudaDeviceSynchronize", 30, 1000, correlation=900)


def unobserved() -> TraceBuilder:
    """Launched at once, too, but it starts 200 us after the last: nothing says why."""
    trace = TraceBuilder().step(0, 0, 1000).op("op", 0, 30)
    for number in range(5):
        trace.launches("k", 200 * number + 1, 200 * number + 11, at=number, until=number + 1)
    return trace.runtime("cudaDeviceSynchronize", 30, 1000, correlation=900)


def unknown() -> TraceBuilder:
    """Kernels and nothing else: 12 of 10 us, 80 us apart."""
    trace = TraceBuilder()
    for at in range(0, 1000, 90):
        trace.kernel("k", at, at + 10)
    return trace


VERDICTS = {
    "gpu-bound": (one_kernel(900), "computing", 900),
    "communication-bound": (one_kernel(900, "ncclDevKernel_AllReduce_Sum_f32_RING_LL"), "communication", 900),
    "copy-bound": (one_kernel(900, "Memcpy DtoD (Device -> Device)", "gpu_memcpy"), "copying", 900),
    "launch-bound": (launch_bound(), "launching", 1000),
    "python-bound": (python_bound(), "python", 20 * 43),
    "input-bound": (input_bound(), "load_data", 800),
    "cpu-tensor-bound": (cpu_tensor_bound(), "cpu_tensor", 800),
    "sync-bound": (sync_bound(), "sync", 10 * 69),
    "gpu-wait-bound": (gpu_wait_bound(), "queued", 24 * 30),
    "unobserved": (unobserved(), "unobserved", 4 * 190),
    "unknown": (unknown(), "unknown", 11 * 80),
}


@pytest.mark.parametrize("answer", VERDICTS)
@pytest.mark.sampled
def test_what_bounds_a_trace(answer: str, tmp_path: Path) -> None:
    builder, limit, time_us = VERDICTS[answer]
    finding = ha.gpu_or_cpu_bound(builder.load(tmp_path))
    assert finding.answer == answer
    assert finding.statement.endswith(".")
    assert finding.advice
    largest = finding.evidence.row(0, named=True)
    assert (largest["step"], largest["step_ns"]) == (0, 1_000_000)
    assert (largest["limit"], largest["path_ns"]) == (limit, time_us * 1000)
    assert finding.evidence["path_pct"].sum() == pytest.approx(100)


def test_a_trace_without_gpu_work(tmp_path: Path) -> None:
    finding = ha.gpu_or_cpu_bound(TraceBuilder().step(0, 0, 1000).op("op", 0, 900).load(tmp_path))
    assert (finding.answer, finding.advice) == ("no-gpu", "")
    assert dict(finding.evidence.select("limit", "path_ns").rows()) == {"cpu_tensor": 900_000, "python": 100_000}


def test_the_statement_has_the_numbers(tmp_path: Path) -> None:
    finding = ha.gpu_or_cpu_bound(one_kernel(900).load(tmp_path))
    assert finding.statement == (
        "The GPU, for 90.0 % of the step (computing on the GPU 90.0 %); the CPU, for 10.0 % (ops and launch calls on"
        " the CPU 10.0 %). The GPU is busy for 90.0 % of the time."
    )
    without = dict(finding.evidence.select("limit", "without_ns").rows())
    assert without == {"computing": 100_000, "launching": 900_000}


def test_all_reduces_of_other_makers_are_communication(tmp_path: Path) -> None:
    names = [
        "rcclGenericKernel",
        "multimem_all_reduce_kernel",
        "cross_device_reduce_2stage",
        "nvshmem_put",
        "mscclKernel",
    ]
    trace = TraceBuilder().step(0, 0, 1000).op("op", 0, 1000)
    for number, name in enumerate([*names, "reduce_kernel", "gather_scatter"]):
        trace.launches(name, 100 * number, 100 * number + 100, at=number)
    use = ha.device_use(trace.load(tmp_path))
    assert use.filter(scope="run")["communication_ns"].item() == 500_000


def test_the_threshold_of_the_largest_part(tmp_path: Path) -> None:
    trace = one_kernel(800).load(tmp_path)
    assert ha.gpu_or_cpu_bound(trace).answer == "gpu-bound"
    assert ha.gpu_or_cpu_bound(trace, largest_pct=80.1).answer == "mixed"
    assert ha.gpu_or_cpu_bound(trace, largest_pct=80.1).thresholds["largest_pct"] == 80.1
    with pytest.raises(QueryParameterError, match="largest_pct must be 0 or more"):
        ha.gpu_or_cpu_bound(trace, largest_pct=-1)


def test_communication_behind_other_work_costs_nothing(tmp_path: Path) -> None:
    trace = TraceBuilder().step(0, 0, 1000).op("op", 0, 10).launches("gemm", 0, 1000, at=0)
    trace.launches("ncclDevKernel", 100, 900, at=1, stream=20)
    opened = trace.runtime("cudaDeviceSynchronize", 20, 1000, correlation=900).load(tmp_path)
    assert ha.gpu_or_cpu_bound(opened).answer == "gpu-bound"
    assert "communication" not in ha.step_limits(opened)["limit"].to_list()
    assert ha.device_use(opened)["communication_ns"].max() == 0


def test_why_the_gpu_is_idle_in_the_run_each_step_and_each_phase(tmp_path: Path) -> None:
    """Step 0 waits 50 us for a launch. In step 1, the GPU waits for the op until 1,900 and 50 us for the launch."""
    trace = TraceBuilder().step(0, 0, 1000).annotation("## forward ##", 0, 1000).op("op", 0, 1000)
    trace.launches("gemm", 50, 1000, at=0, until=50)
    trace.step(1, 1000, 2000).annotation("## backward ##", 1000, 2000).op("op", 1000, 2000)
    trace.launches("gemm", 1950, 2000, at=1900, until=1950)
    use = ha.device_use(trace.load(tmp_path))
    columns = ("scope", "step", "phase", "gpu_busy_ns", "gpu_idle_ns", "launching_ns", "idle_cause")
    assert use.select(columns).rows() == [
        ("run", None, None, 1_000_000, 1_000_000, 1_000_000, "launching"),
        ("step", 0, None, 950_000, 50_000, 50_000, "launching"),
        ("step", 1, None, 50_000, 950_000, 950_000, "launching"),
        ("phase", None, "forward", 950_000, 50_000, 50_000, "launching"),
        ("phase", None, "backward", 50_000, 950_000, 950_000, "launching"),
    ]


def test_idle_time_belongs_to_the_phase_that_the_host_is_in(tmp_path: Path) -> None:
    """The GPU is idle for the 400 us in which data is loaded, and for 10 of forward; its work belongs to forward."""
    trace = TraceBuilder().step(0, 0, 1000).annotation("enumerate(DataLoader)#x", 0, 400)
    trace.annotation("## forward ##", 400, 1000).op("op", 400, 1000).launches("k", 410, 1000, at=405)
    opened = trace.load(tmp_path)
    columns = ("phase", "cpu_ns", "gpu_busy_ns", "gpu_idle_ns")
    assert ha.phases(opened).select(columns).rows() == [
        ("load_data", 400_000, 0, 400_000),
        ("forward", 600_000, 590_000, 10_000),
    ]


def test_the_cpu_waits_for_the_gpu(tmp_path: Path) -> None:
    """A copy of pageable memory in forward waits 300 us for earlier work and 50 for itself, a synchronise 100 us."""
    trace = (
        TraceBuilder().step(0, 0, 1000).annotation("## forward ##", 0, 600).op("op", 0, 10).launches("k", 5, 400, at=0)
    )
    trace.op("aten::copy_", 95, 460).runtime("cudaMemcpyAsync", 100, 450, correlation=900)
    trace.copy(400, 450, kind="DtoH", correlation=900).annotation("## backward ##", 600, 1000)
    trace.op("op", 610, 620).launches("k", 700, 900, at=611).runtime("cudaStreamSynchronize", 790, 950)
    waiting = dict(ha.phases(trace.load(tmp_path)).select("phase", "cpu_waiting_ns").rows())
    assert waiting == {"forward": 350_000, "backward": 110_000}


def test_one_rank_of_two(tmp_path: Path) -> None:
    for rank, busy in ((0, 900), (1, 100)):
        builder = one_kernel(busy)
        builder.top["distributedInfo"] = {"rank": rank, "world_size": 2}
        builder.write(tmp_path / f"trace{rank}.json")
    trace = ha.load(tmp_path)
    assert ha.gpu_or_cpu_bound(trace, rank=0).answer == "gpu-bound"
    assert ha.gpu_or_cpu_bound(trace, rank=1).answer == "launch-bound"
    assert ha.gpu_or_cpu_bound(trace).answer == "gpu-bound"  # of the lowest
    together = ha.device_use(trace)
    assert together.filter(scope="run")["rank"].to_list() == [0, 1]
    whole = together.filter(scope="all").row(0, named=True)
    assert (whole["rank"], whole["gpu_busy_ns"], whole["gpu_idle_ns"]) == (None, 1_000_000, 1_000_000)
    assert ha.device_use(trace, rank=0).filter(scope="all").is_empty()


# --- the optimizer ---------------------------------------------------------------------------------------------------


def with_optimizer_on_the_gpu(share: int) -> TraceBuilder:
    """The GPU works all the time, and the host waits for it; the optimizer's kernels take `share` us of 1000."""
    trace = TraceBuilder().step(0, 0, 1000).annotation("## forward ##", 0, 10).op("op", 0, 10)
    trace.launches("gemm", 0, 1000 - share, at=0).annotation("Optimizer.step#SGD.step", 10, 20).op("sgd", 10, 20)
    trace.launches("sgd", 1000 - share, 1000, at=10)
    return trace.runtime("cudaDeviceSynchronize", 20, 1000, correlation=900)


def with_optimizer_on_the_cpu(share: int) -> TraceBuilder:
    """The GPU does little; the main thread is in the optimizer for `share` us of 1000."""
    trace = TraceBuilder().step(0, 0, 1000).annotation("## forward ##", 0, 1000 - share).op("op", 0, 1000 - share)
    trace.launches("gemm", 10, 20, at=0).annotation("Optimizer.step#SGD.step", 1000 - share, 1000)
    return trace.op("sgd", 1000 - share, 1000).launches("sgd", 1001 - share, 1002 - share, at=1000 - share)


@pytest.mark.parametrize("build", [with_optimizer_on_the_gpu, with_optimizer_on_the_cpu])
@pytest.mark.parametrize(
    ("share", "answer"), [(400, "yes"), (300, "yes"), (299, "partly"), (150, "partly"), (149, "no")]
)
@pytest.mark.sampled
def test_is_the_optimizer_the_bottleneck(build: object, share: int, answer: str, tmp_path: Path) -> None:
    assert callable(build)
    finding = ha.optimizer_bottleneck(build(share).load(tmp_path))
    assert finding.answer == answer
    part = f"{share / 10:.1f} %"
    assert finding.statement == (
        f"{answer.capitalize()}: the optimizer is {part} of the step. Without the optimizer, a step would be at most"
        f" {part} shorter ({1000 / (1000 - share):.2f} times faster)."
    )
    assert bool(finding.advice) == (answer != "no")


@pytest.mark.parametrize(
    ("share", "gain"), [(4, "at most 0.4 % shorter"), (10, "at most 1.0 % shorter (1.01 times faster)")]
)
def test_a_tiny_optimizer_promises_nothing(share: int, gain: str, tmp_path: Path) -> None:
    """0.4 % less is 1.004 times faster, which two decimals do not show; 1 % less is 1.01 times."""
    finding = ha.optimizer_bottleneck(with_optimizer_on_the_cpu(share).load(tmp_path))
    part = f"{share / 10:.1f} %"
    assert (
        finding.statement == f"No: the optimizer is {part} of the step. Without the optimizer, a step would be {gain}."
    )


def test_an_optimizer_that_the_gpu_hides_costs_nothing(tmp_path: Path) -> None:
    """The host is done with the optimizer at 400, while the GPU works until 1,000."""
    trace = TraceBuilder().step(0, 0, 1000).annotation("## forward ##", 0, 10).op("op", 0, 10)
    trace.launches("gemm", 2, 1000, at=0, until=2).annotation("Optimizer.step#SGD.step", 10, 400).op("sgd", 10, 400)
    trace.runtime("cudaDeviceSynchronize", 400, 1000, correlation=900)
    finding = ha.optimizer_bottleneck(trace.load(tmp_path))
    assert finding.statement == "No: the optimizer is 0.0 % of the step. A step gains nothing without it."


def test_the_thresholds_of_the_optimizer(tmp_path: Path) -> None:
    trace = with_optimizer_on_the_cpu(200).load(tmp_path)
    assert ha.optimizer_bottleneck(trace).answer == "partly"
    assert ha.optimizer_bottleneck(trace, yes_pct=20).answer == "yes"
    assert ha.optimizer_bottleneck(trace, partly_pct=20.1).answer == "no"


@pytest.mark.parametrize("build", [with_optimizer_on_the_gpu, with_optimizer_on_the_cpu])
def test_the_numbers_of_a_finding(build: Callable[[int], TraceBuilder], tmp_path: Path) -> None:
    """Of 1000 µs, the optimizer has 200: without it, steps take 800."""
    numbers = ha.optimizer_bottleneck(build(200).load(tmp_path)).numbers
    times = {"step_ns": 1_000_000, "without_ns": 800_000}
    shares = {"optimizer_pct": 20.0, "clipping_pct": 0.0, "least_pct": 20.0, "most_pct": 20.0}
    assert numbers == times | shares | {"gain_pct": 20.0, "at_most_times_faster": 1.25}


def test_a_trace_without_an_optimizer(tmp_path: Path) -> None:
    finding = ha.optimizer_bottleneck(one_kernel(900).load(tmp_path))
    assert finding.answer == "no-optimizer"
    assert set(finding.numbers.values()) == {None}


def test_a_step_that_is_all_optimizer(tmp_path: Path) -> None:
    trace = TraceBuilder().step(0, 0, 1000).annotation("Optimizer.step#SGD.step", 0, 1000).op("sgd", 0, 1000)
    finding = ha.optimizer_bottleneck(trace.load(tmp_path))
    assert finding.statement == (
        "Yes: the optimizer is 100.0 % of the step. Without the optimizer, a step would be at most 100.0 % shorter"
        " (over 1,000 times faster)."
    )


# --- the slowest -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    """Two steps of one module with a nested op of the same name, and an op outside it."""
    builder = TraceBuilder()
    for number in (0, 1):
        at = 1000 * number
        builder.step(number, at, at + 1000).module("Net", 0, at + 5, at + 305).module("Linear", 0, at + 10, at + 200)
        builder.op("aten::to", at + 20, at + 120).op("aten::to", at + 30, at + 70).op("aten::copy_", at + 40, at + 60)
        builder.launches("copy", at + 100, at + 110, at=at + 45, until=at + 50)
        builder.op("aten::mm", at + 130, at + 150).launches("gemm", at + 150, at + 250, at=at + 135)
        builder.annotation("Optimizer.step#SGD.step", at + 400, at + 500)
        builder.op("aten::add_", at + 410, at + 490).launches("add", at + 500, at + 530, at=at + 420)
        builder.launches("add", at + 530, at + 540, at=at + 440)
    return builder.load(tmp_path_factory.mktemp("slowest"))


def test_ops_count_an_op_inside_its_namesake_once_in_the_total(trace: Trace) -> None:
    found = ha.slowest_ops(trace, sort="cpu_total")
    columns = ("name", "count", "cpu_self_ns", "cpu_total_ns", "gpu_self_ns", "gpu_total_ns")
    assert found.select(columns).rows() == [
        # Of 100 us, 60 outside the inner one; of its 40 us, 20 outside the copy.
        ("aten::to", 4, 160_000, 200_000, 0, 20_000),
        ("aten::add_", 2, 160_000, 160_000, 80_000, 80_000),
        ("aten::copy_", 2, 40_000, 40_000, 20_000, 20_000),
        ("aten::mm", 2, 40_000, 40_000, 200_000, 200_000),
    ]
    assert found["cpu_self_pct"].to_list() == [40, 40, 10, 10]
    assert found["gpu_self_pct"].to_list() == pytest.approx([0, 80 / 3, 20 / 3, 200 / 3])


@pytest.mark.parametrize(
    ("sort", "names"),
    [
        ("gpu_self", ["aten::mm", "aten::add_", "aten::copy_", "aten::to"]),
        ("gpu_total", ["aten::mm", "aten::add_", "aten::to", "aten::copy_"]),
        ("cpu_self", ["aten::add_", "aten::to", "aten::copy_", "aten::mm"]),
        ("cpu_total", ["aten::to", "aten::add_", "aten::copy_", "aten::mm"]),
    ],
)
def test_ops_in_the_order_asked_for(trace: Trace, sort: Any, names: list[str]) -> None:
    found = ha.slowest_ops(trace, sort=sort)
    assert found["name"].to_list() == names
    assert ha.slowest_ops(trace, 1, sort=sort).equals(found.head(1))


def test_ops_of_a_step_or_phase(trace: Trace) -> None:
    assert ha.slowest_ops(trace, step=1, sort="cpu_total")["count"].to_list() == [2, 1, 1, 1]
    assert ha.slowest_ops(trace, phase="optimizer")["name"].to_list() == ["aten::add_"]
    assert ha.slowest_ops(trace, phase="loss").is_empty()


def test_without_a_gpu_ops_are_sorted_by_cpu_time(tmp_path: Path) -> None:
    trace = TraceBuilder().op("fast", 0, 10).op("slow", 10, 40).load(tmp_path)
    assert ha.slowest_ops(trace)["name"].to_list() == ["slow", "fast"]
    assert ha.slowest_ops(trace)["gpu_self_pct"].to_list() == [None, None]


def test_kernels(trace: Trace) -> None:
    found = ha.slowest_kernels(trace)
    columns = ("name", "category", "count", "gpu_time_ns", "mean_ns", "min_ns", "max_ns")
    assert found.select(columns).rows() == [
        ("gemm", "kernel", 2, 200_000, 100_000, 100_000, 100_000),
        ("add", "kernel", 4, 80_000, 20_000, 10_000, 30_000),
        ("copy", "kernel", 2, 20_000, 10_000, 10_000, 10_000),
    ]
    assert found["gpu_time_pct"].sum() == pytest.approx(100)
    assert ha.slowest_kernels(trace, step=0, phase="optimizer").select("name", "count").rows() == [("add", 2)]


def test_modules(trace: Trace) -> None:
    found = ha.slowest_modules(trace)
    columns = ("path", "cpu_self_ns", "cpu_total_ns", "gpu_self_ns", "gpu_total_ns")
    assert found.select(columns).rows() == [
        ("Net_0.Linear_0", 380_000, 380_000, 220_000, 220_000),
        ("Net_0", 220_000, 600_000, 0, 220_000),
    ]
    assert ha.slowest_modules(trace, 1, sort="cpu_total")["path"].to_list() == ["Net_0"]
    assert ha.slowest_modules(trace, step=0)["cpu_total_ns"].to_list() == [190_000, 300_000]


def test_an_optimizer_that_communicates_is_told_so(tmp_path: Path) -> None:
    """Without it, 30 of 100 us are left on the CPU and 35 on the GPU. Of its 60 there, 45 are communication.

    A step is as long as its CPU takes, 100 us, of which 70 are in the optimizer.
    """
    builder = TraceBuilder().step(0, 0, 100).op("aten::mm", 1, 10).launches("gemm", 5, 40)
    builder.annotation("Optimizer.step#AdamW.step", 20, 90).op("aten::_foreach_add_", 21, 30)
    builder.launches("ncclDevKernel_AllGather_RING_LL", 40, 85).launches("add", 85, 100)
    found = ha.optimizer_bottleneck(builder.load(tmp_path))
    assert found.answer == "yes"
    assert found.statement == (
        "Yes: the optimizer is 70.0 % of the step. Without the optimizer, a step would be at most 65.0 % shorter (2.86"
        " times faster). Communication is 75 % of its GPU time."
    )
    assert found.advice.startswith("The optimizer communicates")


def test_module_types(tmp_path: Path) -> None:
    builder = TraceBuilder().module("Net", 0, 0, 200)
    builder.module("Sequential", 0, 10, 110).module("Sequential", 1, 20, 60)
    builder.module("Linear", 0, 25, 35).op("aten::mm", 26, 34).launches("gemm", 300, 340)
    builder.module("Linear", 1, 40, 55).op("aten::mm", 41, 54).launches("gemm", 340, 350)
    builder.module("ReLU", 0, 70, 80).module("Linear", 2, 120, 150)
    trace = builder.load(tmp_path)
    found = ha.slowest_modules(trace, by="type")
    columns = ("type", "module_count", "cpu_self_ns", "cpu_total_ns", "gpu_self_ns", "gpu_total_ns", "gpu_forward_ns")
    assert found.select(columns).rows() == [
        ("Linear", 3, 55_000, 55_000, 50_000, 50_000, 50_000),
        ("Net", 1, 70_000, 200_000, 0, 50_000, 50_000),
        # The inner Sequential is in the total of the outer one: 100 us, of which 40 us are also its own.
        ("Sequential", 2, 65_000, 100_000, 0, 50_000, 50_000),
        ("ReLU", 1, 10_000, 10_000, 0, 0, 0),
    ]
    assert found["gpu_self_pct"].to_list() == [100, 0, 0, 0]
    assert found["cpu_self_pct"].to_list() == pytest.approx([27.5, 35, 32.5, 5])
    assert ha.slowest_modules(trace, 1, by="type", sort="cpu_self")["type"].to_list() == ["Net"]


def test_arguments_that_are_wrong(trace: Trace) -> None:
    with pytest.raises(QueryParameterError, match=r"slowest_ops no longer has an argument by.* slowest_kernels"):
        ha.slowest_ops(trace, by="kernel")  # type: ignore[call-arg]
    with pytest.raises(QueryParameterError, match=r"idle_gaps no longer has an argument n.* limit"):
        ha.idle_gaps(trace, n=3)  # type: ignore[call-arg]
    with pytest.raises(QueryParameterError, match=r"Query kernel_breakdown has no parameter class.* kernel_class"):
        trace.query("kernel_breakdown", **{"class": "memory"})
    with pytest.raises(
        QueryParameterError,
        match="Parameter sort of query slowest_ops must be gpu_self, gpu_total, cpu_self or cpu_total, not 'fastest'",
    ):
        ha.slowest_ops(trace, sort="fastest")  # type: ignore[arg-type]
    with pytest.raises(QueryParameterError, match="limit"):
        ha.slowest_ops(trace, limit="many")  # type: ignore[arg-type]
    with pytest.raises(QueryParameterError, match="step"):
        ha.phases(trace, step="first")  # type: ignore[arg-type]
    with pytest.raises(QueryParameterError, match="no parameter nonsense"):
        trace.query("steps", nonsense=1)


def test_has_gpu_work_is_about_the_rank(trace: Trace) -> None:
    assert has_gpu_work(trace)
    assert has_gpu_work(trace, rank=0)
    assert not has_gpu_work(trace, rank=7)


def test_a_finding_reads_as_question_and_answer(trace: Trace) -> None:
    finding = ha.optimizer_bottleneck(trace)
    assert str(finding) == f"Is the optimizer the bottleneck? {finding.statement}"
    assert isinstance(finding.evidence, pl.DataFrame)


# --- callers ---------------------------------------------------------------------------------------------------------

PUBLIC = {f"ha.{name}": getattr(ha, name) for names in generate_api.public_names().values() for name in names}
PUBLIC |= {f"charts.{name}": getattr(charts, name) for name in charts.__all__}
TAKING = {
    name: [place for place, kind in value.__annotations__.items() if kind == "Trace" and place in ("trace", "a", "b")]
    for name, value in PUBLIC.items()
    if isinstance(value, FunctionType)
}


@pytest.mark.parametrize("name", [name for name, places in TAKING.items() if places])
def test_a_path_in_place_of_a_trace_is_an_error_of_the_caller(name: str) -> None:
    complaint = f"^{name.partition('.')[2]} takes a Trace, not str: .*load"
    paths = ["run.hotline"] * len(TAKING[name])
    with pytest.raises(TypeError, match=complaint):
        PUBLIC[name](*paths)
    with pytest.raises(TypeError, match=complaint):
        PUBLIC[name](**dict(zip(TAKING[name], paths, strict=True)))


def test_all_ways_to_ask_check_their_traces() -> None:
    asking = {"ha.steps", "ha.diff", "ha.report", "ha.diff_report", "ha.export_perfetto", "charts.timeline"}
    assert asking <= {name for name, places in TAKING.items() if places}
    with pytest.raises(TypeError, match="draw takes a Trace, not str"):
        charts.draw("phases", "run.hotline")  # type: ignore[arg-type]


# --- wide integers ---------------------------------------------------------------------------------------------------


def test_integers_of_128_bits_are_exact_or_an_error(trace: Trace) -> None:
    wide = 10**38 - 1
    frame = trace.sql(f"select {wide}::hugeint as a, -{wide}::hugeint as b, [{2**64}::uhugeint] as c, 5::hugeint as d")
    assert frame.rows() == [(Decimal(wide), Decimal(-wide), [Decimal(2**64)], 5)]
    for number in (10**38, 2**128 - 1):
        with pytest.raises(HotlineError, match=f"Could not cast value {number}"):
            trace.sql(f"select {number}::uhugeint as a")
    rows = trace.sql("select -range::hugeint as x from range(3) order by x")
    assert rows["x"].to_list() == [-2, -1, 0]


def test_time_between_calls_is_not_called_python_where_nothing_else_was_recorded(tmp_path: Path) -> None:
    """A call of 10 us each 100 us, and kernels of 20 us: without ops or frames, nobody knows what the CPU does."""
    builder = TraceBuilder(rank=0)
    for number in range(10):
        at = 100 * number
        builder.runtime("cudaLaunchKernel", at, at + 10, correlation=number + 1)
        builder.kernel("gemm", at + 15, at + 35, correlation=number + 1)
    with builder.load(tmp_path) as trace:
        limits = dict(ha.step_limits(trace).select("limit", "path_pct").rows())
        assert "python" not in limits
        assert limits["unrecorded"] > 80
        assert ha.gpu_or_cpu_bound(trace).answer == "unknown"
        assert "CPU time of which nothing was recorded" in ha.report(trace).headline


def test_the_slowest_op_has_its_numbers(tmp_path: Path) -> None:
    """Two ops of 30 us of GPU time in all, beside one of 10."""
    builder = TraceBuilder(rank=0).op("aten::mm", 0, 5).launches("gemm", 10, 30).op("aten::mm", 5, 10)
    builder.launches("gemm", 30, 40).op("aten::relu", 10, 15).launches("relu", 40, 50)
    with builder.load(tmp_path) as trace:
        (said,) = [finding for finding in ha.report(trace).findings if "slowest" in finding.question]
        assert said.answer == "aten::mm"
        assert said.numbers == {"gpu_self_ns": 30_000, "gpu_self_pct": 75.0, "count": 2}
