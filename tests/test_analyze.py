from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from types import FunctionType

import polars as pl
import pytest

import hotline_analysis as ha
from hotline_analysis import HotlineError, QueryParameterError, Trace, charts
from hotline_analysis.analyze import has_gpu_work
from hotline_analysis.analyze.breakdown import Sort
from tests.trace_builder import TraceBuilder

# Every trace below has one step, from 0 to 1000 us.


def one_kernel(busy: int, name: str = "gemm", category: str = "kernel") -> TraceBuilder:
    """The GPU is busy for the last `busy` us of the step."""
    trace = TraceBuilder().step(0, 0, 1000).op("op", 0, 1000)
    return trace.launches(name, 1000 - busy, 1000, at=0, until=1000 - busy, category=category)


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


def sync_bound() -> TraceBuilder:
    """The host waits for each result before it goes on."""
    trace = TraceBuilder().step(0, 0, 1000)
    for at in range(0, 1000, 100):
        trace.op("op", at, at + 5).launches("k", at + 2, at + 20, at=at, until=at + 1)
        trace.op("aten::item", at + 5, at + 90).runtime("cudaStreamSynchronize", at + 6, at + 89, correlation=5000 + at)
    return trace


def gpu_wait_bound() -> TraceBuilder:
    """All is launched at once, but the GPU starts each piece 80 us after the last."""
    trace = TraceBuilder().step(0, 0, 1000).op("op", 0, 20)
    for number in range(10):
        trace.launches("k", 100 * number + 2 * number, 100 * number + 20, at=number, until=number + 1)
    return trace


def unknown() -> TraceBuilder:
    trace = TraceBuilder().step(0, 0, 1000).op("op", 0, 10)
    for at in range(100, 1000, 100):
        trace.kernel("k", at, at + 10)
    return trace


VERDICTS = {
    "gpu-bound": one_kernel(900),
    "communication-bound": one_kernel(900, "ncclDevKernel_AllReduce_Sum_f32_RING_LL"),
    "copy-bound": one_kernel(900, "Memcpy HtoD (Pageable -> Device)", "gpu_memcpy"),
    "launch-bound": launch_bound(),
    "python-bound": python_bound(),
    "input-bound": input_bound(),
    "sync-bound": sync_bound(),
    "gpu-wait-bound": gpu_wait_bound(),
    "unknown": unknown(),
    "no-gpu": TraceBuilder().step(0, 0, 1000).op("op", 0, 900),
}


@pytest.mark.parametrize("answer", VERDICTS)
def test_what_bounds_a_trace(answer: str, tmp_path: Path) -> None:
    finding = ha.gpu_or_cpu_bound(VERDICTS[answer].load(tmp_path))
    assert finding.answer == answer
    assert finding.statement.endswith(".")
    assert bool(finding.advice) == (answer != "no-gpu")
    run = finding.evidence.filter(scope="run")
    assert run["verdict"].to_list() == ([answer] if answer != "no-gpu" else [])


def test_the_statement_has_the_numbers(tmp_path: Path) -> None:
    finding = ha.gpu_or_cpu_bound(one_kernel(900).load(tmp_path))
    assert finding.statement == "The GPU: it is busy 90.0 % of the time, 100 % computing (gpu-bound)."
    run = finding.evidence.filter(scope="run").row(0, named=True)
    assert (run["gpu_busy_ns"], run["gpu_idle_ns"], run["launching_ns"]) == (900_000, 100_000, 100_000)


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
    evidence = ha.gpu_or_cpu_bound(trace.load(tmp_path)).evidence
    assert evidence.filter(scope="run")["communication_ns"].item() == 500_000


def test_the_threshold_of_a_busy_gpu(tmp_path: Path) -> None:
    trace = one_kernel(800).load(tmp_path)
    assert ha.gpu_or_cpu_bound(trace).answer == "gpu-bound"
    assert ha.gpu_or_cpu_bound(trace, busy_pct=80.1).answer == "launch-bound"
    assert ha.gpu_or_cpu_bound(trace, busy_pct=80.1).thresholds["busy_pct"] == 80.1
    assert trace.query("gpu_or_cpu_bound", busy_pct="80.1")["verdict"][0] == "launch-bound"
    with pytest.raises(QueryParameterError, match="busy_pct of query gpu_or_cpu_bound must be 0 or more"):
        ha.gpu_or_cpu_bound(trace, busy_pct=-1)


def test_the_threshold_of_a_class_of_work(tmp_path: Path) -> None:
    trace = TraceBuilder().step(0, 0, 1000).op("op", 0, 1000).launches("gemm", 0, 500, at=0)
    trace.launches("ncclDevKernel", 500, 1000, at=1)
    opened = trace.load(tmp_path)
    assert ha.gpu_or_cpu_bound(opened).answer == "communication-bound"
    assert ha.gpu_or_cpu_bound(opened, class_pct=50.1).answer == "gpu-bound"


def test_communication_behind_other_work_costs_nothing(tmp_path: Path) -> None:
    trace = TraceBuilder().step(0, 0, 1000).op("op", 0, 1000).launches("gemm", 0, 1000, at=0)
    trace.launches("ncclDevKernel", 100, 900, at=1, stream=20)
    finding = ha.gpu_or_cpu_bound(trace.load(tmp_path))
    assert finding.answer == "gpu-bound"
    assert finding.evidence["communication_ns"].max() == 0


def test_the_threshold_of_a_cause(tmp_path: Path) -> None:
    """Idle for 900 us: loading 360 (40 %), python 270, ops 270."""
    trace = TraceBuilder().step(0, 0, 1000).annotation("load data", 0, 360).annotation("## forward ##", 360, 1000)
    trace.op("op", 630, 900).runtime("cudaLaunchKernel", 900, 900, correlation=1).kernel("k", 900, 1000, correlation=1)
    opened = trace.load(tmp_path)
    run = ha.gpu_or_cpu_bound(opened).evidence.filter(scope="run").row(0, named=True)
    assert (run["load_data_ns"], run["python_ns"], run["launching_ns"]) == (360_000, 270_000, 270_000)
    assert ha.gpu_or_cpu_bound(opened).answer == "input-bound"
    assert ha.gpu_or_cpu_bound(opened, cause_pct=40.1).answer == "mixed"


def test_a_verdict_for_each_step_and_phase(tmp_path: Path) -> None:
    trace = TraceBuilder().step(0, 0, 1000).annotation("## forward ##", 0, 1000).op("op", 0, 1000)
    trace.launches("gemm", 50, 1000, at=0, until=50)
    trace.step(1, 1000, 2000).annotation("## backward ##", 1000, 2000).op("op", 1000, 2000)
    trace.launches("gemm", 1950, 2000, at=1900, until=1950)
    evidence = ha.gpu_or_cpu_bound(trace.load(tmp_path)).evidence
    assert evidence.select("scope", "step", "phase", "verdict").rows() == [
        ("run", None, None, "launch-bound"),
        ("step", 0, None, "gpu-bound"),
        ("step", 1, None, "launch-bound"),
        ("phase", None, "forward", "gpu-bound"),
        ("phase", None, "backward", "launch-bound"),
    ]


def test_one_rank_of_two(tmp_path: Path) -> None:
    for rank, busy in ((0, 900), (1, 100)):
        builder = one_kernel(busy)
        builder.top["distributedInfo"] = {"rank": rank, "world_size": 2}
        builder.write(tmp_path / f"trace{rank}.json")
    trace = ha.load(tmp_path)
    assert ha.gpu_or_cpu_bound(trace, rank=0).answer == "gpu-bound"
    assert ha.gpu_or_cpu_bound(trace, rank=1).answer == "launch-bound"
    together = ha.gpu_or_cpu_bound(trace)
    assert together.answer == "launch-bound"  # 1000 of 2000 us
    assert "busy 50.0 %" in together.statement or "only busy 50.0 %" in together.statement
    assert together.evidence.filter(scope="run")["rank"].to_list() == [0, 1]
    whole = together.evidence.filter(scope="all").row(0, named=True)
    assert (whole["rank"], whole["gpu_busy_ns"], whole["gpu_idle_ns"]) == (None, 1_000_000, 1_000_000)
    assert ha.gpu_or_cpu_bound(trace, rank=0).evidence.filter(scope="all").is_empty()


# --- the optimizer ---------------------------------------------------------------------------------------------------


def with_optimizer_on_the_gpu(share: int) -> TraceBuilder:
    """The GPU works all the time; the optimizer's kernels take `share` us of 1000."""
    trace = TraceBuilder().step(0, 0, 1000).annotation("## forward ##", 0, 10).op("op", 0, 10)
    trace.launches("gemm", 0, 1000 - share, at=0).annotation("Optimizer.step#SGD.step", 10, 20).op("sgd", 10, 20)
    return trace.launches("sgd", 1000 - share, 1000, at=10)


def with_optimizer_on_the_cpu(share: int) -> TraceBuilder:
    """The GPU does little; the main thread is in the optimizer for `share` us of 1000."""
    trace = TraceBuilder().step(0, 0, 1000).annotation("## forward ##", 0, 1000 - share).op("op", 0, 1000 - share)
    trace.launches("gemm", 10, 20, at=0).annotation("Optimizer.step#SGD.step", 1000 - share, 1000)
    return trace.op("sgd", 1000 - share, 1000).launches("sgd", 990, 1000, at=980)


@pytest.mark.parametrize("build", [with_optimizer_on_the_gpu, with_optimizer_on_the_cpu])
@pytest.mark.parametrize(
    ("share", "answer"), [(400, "yes"), (300, "yes"), (299, "partly"), (150, "partly"), (149, "no")]
)
def test_is_the_optimizer_the_bottleneck(build: object, share: int, answer: str, tmp_path: Path) -> None:
    assert callable(build)
    finding = ha.optimizer_bottleneck(build(share).load(tmp_path))
    assert finding.answer == answer
    assert f"{share / 10:.1f} %" in finding.statement
    assert f"at most {1000 / (1000 - share):.2f} times faster" in finding.statement
    assert bool(finding.advice) == (answer != "no")


@pytest.mark.parametrize(
    ("share", "gain"), [(4, "there would be no measurable gain"), (10, "steps would be at most 1.01 times faster")]
)
def test_a_tiny_optimizer_promises_nothing(share: int, gain: str, tmp_path: Path) -> None:
    """0.4 % less is 1.004 times faster, which two decimals do not show; 1 % less is 1.01 times."""
    finding = ha.optimizer_bottleneck(with_optimizer_on_the_cpu(share).load(tmp_path))
    assert finding.statement.endswith(f"; without it, {gain}.")


def test_it_is_measured_where_the_bottleneck_is(tmp_path: Path) -> None:
    """10 us of 1000 on the CPU but 400 on the GPU, which is busy; and the other way round."""
    on_gpu = ha.optimizer_bottleneck(with_optimizer_on_the_gpu(400).load(tmp_path, "gpu.json"))
    on_cpu = ha.optimizer_bottleneck(with_optimizer_on_the_cpu(400).load(tmp_path, "cpu.json"))
    assert "GPU time of the steps" in on_gpu.statement
    assert "CPU time" in on_cpu.statement


def test_the_thresholds_of_the_optimizer(tmp_path: Path) -> None:
    trace = with_optimizer_on_the_cpu(200).load(tmp_path)
    assert ha.optimizer_bottleneck(trace).answer == "partly"
    assert ha.optimizer_bottleneck(trace, yes_pct=20).answer == "yes"
    assert ha.optimizer_bottleneck(trace, partly_pct=20.1).answer == "no"


@pytest.mark.parametrize("build", [with_optimizer_on_the_gpu, with_optimizer_on_the_cpu])
def test_the_numbers_of_a_finding(build: Callable[[int], TraceBuilder], tmp_path: Path) -> None:
    """Of 1000 µs, the optimizer has 200: without it, steps would take 800."""
    numbers = ha.optimizer_bottleneck(build(200).load(tmp_path)).numbers
    times = {"optimizer_ns": 200_000, "total_ns": 1_000_000}
    assert numbers == times | {"optimizer_pct": 20.0, "at_most_times_faster": 1.25}


def test_a_trace_without_an_optimizer(tmp_path: Path) -> None:
    finding = ha.optimizer_bottleneck(one_kernel(900).load(tmp_path))
    assert finding.answer == "no-optimizer"
    assert (finding.numbers["optimizer_ns"], finding.numbers["optimizer_pct"]) == (0, None)


def test_a_step_that_is_all_optimizer(tmp_path: Path) -> None:
    trace = TraceBuilder().step(0, 0, 1000).annotation("Optimizer.step#SGD.step", 0, 1000).op("sgd", 0, 1000)
    finding = ha.optimizer_bottleneck(trace.load(tmp_path))
    assert finding.answer == "yes"
    assert "100.0 %" in finding.statement


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
        (None, ["aten::mm", "aten::add_", "aten::copy_", "aten::to"]),
        ("gpu_self", ["aten::mm", "aten::add_", "aten::copy_", "aten::to"]),
        ("gpu_total", ["aten::mm", "aten::add_", "aten::to", "aten::copy_"]),
        ("cpu_self", ["aten::add_", "aten::to", "aten::copy_", "aten::mm"]),
        ("cpu_total", ["aten::to", "aten::add_", "aten::copy_", "aten::mm"]),
    ],
)
def test_ops_in_the_order_asked_for(trace: Trace, sort: Sort | None, names: list[str]) -> None:
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
    found = ha.slowest_ops(trace, by="kernel")
    columns = ("name", "category", "count", "gpu_time_ns", "mean_ns", "min_ns", "max_ns")
    assert found.select(columns).rows() == [
        ("gemm", "kernel", 2, 200_000, 100_000, 100_000, 100_000),
        ("add", "kernel", 4, 80_000, 20_000, 10_000, 30_000),
        ("copy", "kernel", 2, 20_000, 10_000, 10_000, 10_000),
    ]
    assert found["gpu_time_pct"].sum() == pytest.approx(100)
    assert ha.slowest_ops(trace, by="kernel", step=0, phase="optimizer").select("name", "count").rows() == [("add", 2)]


def test_modules(trace: Trace) -> None:
    found = ha.slowest_ops(trace, by="module")
    columns = ("path", "cpu_self_ns", "cpu_total_ns", "gpu_self_ns", "gpu_total_ns")
    assert found.select(columns).rows() == [
        ("Net_0.Linear_0", 380_000, 380_000, 220_000, 220_000),
        ("Net_0", 220_000, 600_000, 0, 220_000),
    ]
    assert ha.slowest_ops(trace, 1, by="module", sort="cpu_total")["path"].to_list() == ["Net_0"]
    assert ha.slowest_ops(trace, by="module", step=0)["cpu_total_ns"].to_list() == [190_000, 300_000]


def test_an_optimizer_that_communicates_is_told_so(tmp_path: Path) -> None:
    """Of 100 µs, 5 of them idle, the optimizer has 60: 45 of communication, 15 of its own."""
    builder = TraceBuilder().step(0, 0, 100).op("aten::mm", 1, 10).launches("gemm", 5, 40)
    builder.annotation("Optimizer.step#AdamW.step", 20, 90).op("aten::_foreach_add_", 21, 30)
    builder.launches("ncclDevKernel_AllGather_RING_LL", 40, 85).launches("add", 85, 100)
    found = ha.optimizer_bottleneck(builder.load(tmp_path))
    assert found.answer == "yes"
    assert found.statement.startswith("Yes: it takes 60.0 % of the GPU time of the steps, waiting included;")
    assert found.statement.endswith("Communication is 75 % of it.")
    assert found.advice.startswith("The optimizer communicates")


def test_module_types(tmp_path: Path) -> None:
    builder = TraceBuilder().module("Net", 0, 0, 200)
    builder.module("Sequential", 0, 10, 110).module("Sequential", 1, 20, 60)
    builder.module("Linear", 0, 25, 35).op("aten::mm", 26, 34).launches("gemm", 300, 340)
    builder.module("Linear", 1, 40, 55).op("aten::mm", 41, 54).launches("gemm", 340, 350)
    builder.module("ReLU", 0, 70, 80).module("Linear", 2, 120, 150)
    trace = builder.load(tmp_path)
    found = ha.slowest_ops(trace, by="module_type")
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
    assert ha.slowest_ops(trace, 1, by="module_type", sort="cpu_self")["type"].to_list() == ["Net"]


def test_arguments_that_are_wrong(trace: Trace) -> None:
    with pytest.raises(QueryParameterError, match="by must be op, kernel, module or module_type, not 'stream'"):
        ha.slowest_ops(trace, by="stream")  # type: ignore[arg-type]
    with pytest.raises(
        QueryParameterError,
        match="Parameter sort of query slowest_ops must be gpu_self, gpu_total, cpu_self or cpu_total, not 'fastest'",
    ):
        ha.slowest_ops(trace, sort="fastest")  # type: ignore[arg-type]
    with pytest.raises(QueryParameterError, match="cannot be restricted to a phase"):
        ha.slowest_ops(trace, by="module", phase="forward")
    with pytest.raises(QueryParameterError, match="limit"):
        ha.slowest_ops(trace, n="many")  # type: ignore[arg-type]
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

PUBLIC = {f"ha.{name}": getattr(ha, name) for name in ha.__all__}
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
