"""`cupti_counters` and `cupti_flops`: by hand, and on orders that must not be believed."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import hotline_analysis as ha
from hotline_analysis.errors import HotlineWarning
from tests.trace_builder import TraceBuilder

ADD = "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum"
FMA = "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum"
HALF = "smsp__sass_thread_inst_executed_op_hmul_pred_on.sum"


def profiled(names: list[str], ops: list[str], call: str = "cudaLaunchKernel") -> TraceBuilder:
    """Ops that launch one kernel each, and profiled ranges with these names and made-up times; range i has i FMAs."""
    trace = TraceBuilder()
    for number, op in enumerate(ops):
        trace.op(op, 10 * number, 10 * number + 9).runtime(call, 10 * number + 1, 10 * number + 5)
    for number, name in enumerate(names):
        args = {FMA: number, "dram__bytes.sum": 5}
        trace.event(ph="X", cat="cuda_profiler_range", name=name, pid=0, tid=0, ts=500 + number, dur=1, args=args)
    return trace


@pytest.mark.parametrize("call", ["cudaLaunchKernel", "cudaLaunchCooperativeKernel", "cuLaunchCooperativeKernel"])
def test_order_is_believed_if_names_agree_with_ops(tmp_path: Path, call: str) -> None:
    builder = profiled(["gemm", "relu", "gemm", "relu"], ["aten::mm", "aten::relu", "aten::mm", "aten::relu"], call)
    frame = ha.cupti_counters(builder.load(tmp_path))
    assert frame["counter"].to_list() == ["dram__bytes.sum", FMA] * 4
    assert frame["value"].to_list() == [5, 0, 5, 1, 5, 2, 5, 3]
    assert frame["op"].to_list()[::2] == ["aten::mm", "aten::relu", "aten::mm", "aten::relu"]
    assert frame["launch_id"].to_list()[::2] == builder.ids(call)
    assert set(frame["evidence"]) == {"order_and_name"}


@pytest.mark.parametrize(
    ("names", "ops"),
    [
        (["gemm", "relu", "gemm", "gemm"], ["aten::mm", "aten::relu", "aten::relu", "aten::mm"]),  # names disagree
        (["gemm", "relu"], ["aten::mm", "aten::relu"]),  # no name comes twice, so nothing can be checked
        (["gemm", "gemm"], ["aten::mm", "aten::mm", "aten::mm"]),  # one launch was not profiled
        (["__missing__", "__missing__"], ["aten::mm", "aten::mm"]),
    ],
)
def test_order_alone_is_not_believed(tmp_path: Path, names: list[str], ops: list[str]) -> None:
    frame = ha.cupti_counters(profiled(names, ops).load(tmp_path))
    assert frame.height == 2 * len(names)
    assert set(frame["evidence"]) == {None} == set(frame["op"]) == set(frame["launch_id"])


def test_only_a_single_kernel_of_the_name_at_the_time_is_believed(tmp_path: Path) -> None:
    """Random kernels and ranges of three names, against a look at every pair."""
    pick = random.Random(3)
    trace = TraceBuilder().op("aten::mm", 0, 1)
    times: dict[str, list[tuple[int, int, int]]] = {name: [] for name in "abc"}
    for stream, name in enumerate(pick.choices("abc", k=60)):
        start = pick.randint(10, 900)
        end = start + pick.randint(1, 40)
        trace.kernel(name, start, end, stream=stream)
        times[name].append((start, end, trace.last_id))
    expected = {}
    for name in pick.choices("abc", k=80):
        start = pick.randint(0, 900)
        end = start + pick.randint(1, 30)
        trace.event(
            ph="X", cat="cuda_profiler_range", name=name, pid=0, tid=0, ts=start, dur=end - start, args={FMA: 1}
        )
        there = [kernel for begin, until, kernel in times[name] if begin < end and start < until]
        expected[trace.last_id] = there[0] if len(there) == 1 else None
    found = dict(ha.cupti_counters(trace.load(tmp_path)).select("event_id", "kernel_id").iter_rows())
    assert found == expected
    assert 10 < sum(kernel is not None for kernel in found.values()) < 70


def test_a_kernel_of_the_name_at_the_time_is_better(tmp_path: Path) -> None:
    trace = TraceBuilder().step(0, 0, 90).module("Net", 0, 0, 80)
    trace.op("aten::mm", 5, 20).launches("gemm", 100, 104).op("aten::mm", 30, 40).launches("gemm", 110, 114)
    for start in (109, 99):
        args = {ADD: 8, FMA: 16, HALF: 40}
        trace.event(ph="X", cat="cuda_profiler_range", name="gemm", pid=0, tid=0, ts=start, dur=6, args=args)
    loaded = trace.load(tmp_path)
    frame = ha.cupti_counters(loaded)
    assert set(frame["evidence"]) == {"kernel_time"}
    assert frame["kernel_id"].to_list()[::3] == list(reversed(trace.ids("gemm")[:2]))
    assert set(frame["module_path"]) == {"Net_0"}
    flops = ha.cupti_flops(loaded, module="Net_0").row(0, named=True)
    assert (flops["op"], flops["kernel_count"], flops["kernel_ns"]) == ("aten::mm", 2, 8000)
    assert (flops["fp64_flop"], flops["fp32_flop"], flops["fp16_flop"], flops["flop"]) == (None, 80, 80, 160)
    assert flops["gflop_per_s"] == pytest.approx(160 / 8000)


def test_what_is_no_number_is_no_value(tmp_path: Path) -> None:
    trace = TraceBuilder().op("aten::mm", 0, 9)
    args = {ADD: 3, FMA: "nan", HALF: float("inf"), "other": "text"}
    trace.event(ph="X", cat="cuda_profiler_range", name="k", pid=0, tid=0, ts=5, dur=1, args=args)
    with pytest.warns(HotlineWarning, match=r"values that JSON does not have .* are unknown: 1"):
        opened = trace.load(tmp_path)
    assert ha.cupti_counters(opened).select("counter", "value").rows() == [(ADD, 3)]


def test_a_correlation_is_best(tmp_path: Path) -> None:
    trace = TraceBuilder().op("aten::mm", 0, 9).runtime("cuLaunchKernel", 1, 5, correlation=4)
    trace.op("aten::add", 10, 19).runtime("cuLaunchKernel", 11, 15, correlation=5)
    args = {ADD: 1, "correlation": 5}
    trace.event(ph="X", cat="cuda_profiler_range", name="k", pid=0, tid=0, ts=500, dur=1, args=args)
    frame = ha.cupti_counters(trace.load(tmp_path))
    assert frame["counter"].to_list() == [ADD]  # the correlation is no counter
    row = frame.row(0, named=True)
    assert (row["op"], row["evidence"], row["value"]) == ("aten::add", "correlation", 1)


def test_counter_value_has_the_kernel_of_its_correlation(tmp_path: Path) -> None:
    """What is no finite number, and what only tells the range apart, is no value."""
    trace = TraceBuilder().step(4, 0, 100).op("aten::mm", 10, 40).runtime("cudaLaunchKernel", 20, 25, correlation=5)
    trace.kernel("gemm", 30, 40, correlation=5)
    args = {FMA: 3, ADD: "lost", "correlation": 5, "stream": 7}
    trace.event(ph="X", cat="cuda_profiler_range", name="gemm", pid=0, tid=0, ts=500, dur=1, args=args)
    with trace.load(tmp_path) as opened:
        columns = "kernel, counter, value, kernel_id, kernel_ns, launch_id, op_id, op, step, evidence"
        [kernel, _], [launch], [op] = trace.ids("gemm"), trace.ids("cudaLaunchKernel"), trace.ids("aten::mm")
        assert opened.sql(f"select {columns} from counter_value").rows() == [
            ("gemm", FMA, 3.0, kernel, 10_000, launch, op, "aten::mm", 4, "correlation")
        ]
