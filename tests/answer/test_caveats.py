"""Traces that show no run: recorded graphs, compilation, first launches, launches without work."""

from pathlib import Path

import pytest

import hotline_analysis as ha
from hotline_analysis import Trace
from tests.answer.graph_capture import captured
from tests.answer.steps import step_frame
from tests.trace_builder import TraceBuilder


def caveats(trace: Trace) -> list[tuple[str, int, float | None, float]]:
    rows = trace.query("caveats").select("caveat", "count", "time_ns", "share_pct").rows()
    return [(name, count, None if time is None else time / 1000, round(share, 6)) for name, count, time, share in rows]


def test_the_capture_of_a_graph_is_no_run(tmp_path: Path) -> None:
    trace = captured(6, 4).load(tmp_path)
    assert caveats(trace) == [("graph_capture", 6, None, 60)]
    finding = ha.gpu_or_cpu_bound(trace)
    assert finding.answer == "no-run"
    assert "capture of a CUDA graph" in finding.statement
    assert "6 launches" in finding.statement
    assert ha.optimizer_bottleneck(trace).answer == "no-run"
    report = ha.report(trace)
    assert report.headline == finding.statement
    assert not report.advice
    assert not report.caveats


def test_a_capture_beside_a_run_is_said(tmp_path: Path) -> None:
    trace = captured(4, 6).load(tmp_path)
    assert ha.gpu_or_cpu_bound(trace).answer != "no-run"
    assert ha.report(trace).caveats[0].startswith("4 launches (40.0 %) were recorded into a CUDA graph")


def test_launches_on_another_thread_are_not_captured(tmp_path: Path) -> None:
    trace = captured(1, 6).on(2).op("other", 0, 100).runtime("cudaLaunchKernel", 20, 21, correlation=900)
    assert caveats(trace.load(tmp_path)) == [("graph_capture", 1, None, 12.5), ("lost_work", 1, None, 12.5)]


def test_a_share_is_at_most_all(tmp_path: Path) -> None:
    """Two threads compile all the time, one of them for longer than the step."""
    trace = TraceBuilder().op("_compile.compile_inner (dynamo_timed)", 0, 1000)
    trace.on(2).op("_compile.compile_inner (dynamo_timed)", 0, 3000).on(1).step(3, 0, 1000)
    assert caveats(trace.load(tmp_path)) == [("compilation", 2, 4000, 100)]


def test_a_share_of_no_time_is_unknown(tmp_path: Path) -> None:
    opened = TraceBuilder().op("_compile.compile_inner (dynamo_timed)", 5, 5).load(tmp_path)
    assert opened.query("caveats")["share_pct"].to_list() == [None]
    assert not ha.report(opened).caveats


def test_compilation_is_no_training(tmp_path: Path) -> None:
    """Two spans, one in the other: 600 of 1,000 us."""
    trace = TraceBuilder().step(3, 0, 1000).op("_compile.compile_inner (dynamo_timed)", 100, 700)
    trace.op("GraphLowering.run (dynamo_timed)", 200, 300).op("mm", 800, 900).launches("k", 810, 900)
    opened = trace.load(tmp_path)
    assert caveats(opened) == [("compilation", 1, 600, 60)]
    assert "torch.compile takes 600 µs (60.0 % of it)" in ha.gpu_or_cpu_bound(opened).statement


def test_steps_after_the_compilation_have_a_length(tmp_path: Path) -> None:
    """The first of three steps compiles for 4,900 of 5,200 us of the trace; the two others take 100 us."""
    trace = TraceBuilder().step(0, 0, 5000).op("_compile.compile_inner (dynamo_timed)", 50, 4950)
    for number in (1, 2):
        at = 4900 + 100 * number
        trace.step(number, at, at + 100).op("aten::mm", at, at + 80)
    statement = ha.gpu_or_cpu_bound(trace.load(tmp_path)).statement
    assert "torch.compile takes 4.90 ms (94.2 % of it). Profile later steps." in statement
    assert "The 2 steps after it take 100 µs each on average" in statement


def test_first_launches_load_code(tmp_path: Path) -> None:
    """The first call of `a` takes 6 ms and that of `b` 1 ms, no more; a later one of `a` may take as long."""
    trace = TraceBuilder().step(3, 0, 20_000).op("x", 0, 19_000)
    trace.launches("a", 6_010, 6_020, at=10, until=6_010).launches("b", 7_510, 7_520, at=6_510, until=7_510)
    trace.launches("a", 15_010, 15_020, at=9_000, until=15_010)
    opened = trace.load(tmp_path)
    assert caveats(opened) == [("first_calls", 1, 6_000, 30)]
    assert step_frame(opened, "caveats", "loading_call")["launch_dur_ns"].to_list() == [6_000_000]


def test_a_first_copy_waits_for_work_and_loads_nothing(tmp_path: Path) -> None:
    trace = TraceBuilder().step(3, 0, 20_000).op("x", 0, 19_000).launches("a", 10, 9_000, at=1)
    trace.runtime("cudaMemcpyAsync", 20, 9_010, correlation=900).copy(9_000, 9_010, correlation=900)
    assert caveats(trace.load(tmp_path)) == []


@pytest.mark.parametrize("call", ["cudaLaunchKernelExC", "cudaLaunchCooperativeKernel", "urEnqueueKernelLaunch"])
def test_launches_without_work(tmp_path: Path, call: str) -> None:
    trace = TraceBuilder().step(3, 0, 1000).op("x", 0, 500).launches("a", 10, 20, at=1)
    for number in range(3):
        trace.runtime(call, 20 + number, 21 + number, correlation=900 + number)
    opened = trace.load(tmp_path)
    assert caveats(opened) == [("lost_work", 3, None, 75)]
    assert ha.gpu_or_cpu_bound(opened).statement.startswith("Most of the GPU's work is not in the file: 3 launch calls")


@pytest.mark.parametrize("calls", [0, 4])
def test_a_trace_of_the_cpu_alone_lacks_nothing(tmp_path: Path, calls: int) -> None:
    trace = TraceBuilder().step(3, 0, 1000).op("x", 0, 500)
    for number in range(calls):
        trace.runtime("cudaLaunchKernel", 20 + number, 21 + number, correlation=900 + number)
    assert caveats(trace.load(tmp_path)) == []


def test_time_that_nothing_explains_makes_busy_a_range(tmp_path: Path) -> None:
    """Launched at 1, the work starts at 400 of 1,000: 347 us of it are strange. Busy from then on."""
    trace = TraceBuilder().step(3, 0, 1000).op("x", 0, 20).launches("a", 400, 1000, at=1, until=3)
    trace.runtime("cudaDeviceSynchronize", 30, 1000)
    opened = trace.load(tmp_path)
    run = ha.device_use(opened).filter(scope="run").row(0, named=True)
    assert (run["gpu_busy_ns"], run["unobserved_ns"]) == (600_000, 347_000)
    assert (run["gpu_busy_pct"], round(run["gpu_busy_most_pct"], 6)) == (60, 94.7)
    said = ha.report(opened).caveats[0]
    assert "It is busy for 60.0 to 94.7 % of the time." in said
    assert said.endswith("From its first recorded work to the last, it is busy for 100.0 %.")
    assert ha.gpu_or_cpu_bound(opened).answer == "gpu-bound"


def test_stacks_slow_the_cpu_down(tmp_path: Path) -> None:
    trace = TraceBuilder(with_stack=1).step(3, 0, 1000).frame("train.py(1): main", 0, 1000).op("x", 10, 900)
    trace.launches("k", 20, 30)
    assert "Python stacks were recorded" in " ".join(ha.report(trace.load(tmp_path)).caveats)


def test_steps_that_do_not_count_are_named(tmp_path: Path) -> None:
    trace, at = TraceBuilder(), 0
    for number, length in enumerate((900, 100, 110, 105, 400)):
        trace.step(number, at, at + length).op("op", at, at + 5).launches("k", at + 4, at + 6, at=at)
        at += length
    trace.step(9, at, at + 1)
    report = ha.report(trace.load(tmp_path))
    assert report.caveats[-2:] == [
        "Not counted as warm-up: step 0 (900 µs).",
        "Not counted because nothing of the program ran in it: step 9 (1.00 µs).",
    ]
    # The mean of 100, 110, 105 and 400 us: no step is left out for being long.
    assert report.facts["steps"] == "6, mean 179 µs (100 µs to 400 µs)"


def test_a_file_that_is_cut_off_lacks_launches(tmp_path: Path) -> None:
    """Of three steps only the first kept its launches: two of three calls of `mm`, and two of three of `relu`.

    `add` launches nothing in any step, and the second `relu` of the last step has no like.
    """
    trace = TraceBuilder()
    for start in (0, 100, 200):
        trace.step(start // 100, start, start + 100)
        trace.op("aten::mm", start + 10, start + 20).op("aten::add", start + 20, start + 30)
        trace.op("aten::relu", start + 30, start + 40)
    trace.op("aten::relu", 240, 250).launches("gemm", 12, 18, at=11).launches("act", 32, 38, at=31)
    assert caveats(trace.load(tmp_path)) == []
    file = tmp_path / "cut.json"
    file.write_text(trace.text().removesuffix("\n]}\n"))
    with pytest.warns(ha.HotlineWarning, match="ends inside the events"):
        cut = ha.load(file)
    assert caveats(cut) == [("lost_launches", 4, None, 66.666667)]
    assert ha.gpu_or_cpu_bound(cut).statement.startswith("The file is cut off or damaged: most of the GPU's work")
    # where less than half is missing, the report says so and answers all the same
    for start in (110, 130):
        trace.launches("again", start + 2, start + 8, at=start + 1)
    file.write_text(trace.text().removesuffix("\n]}\n"))
    with pytest.warns(ha.HotlineWarning, match="ends inside the events"):
        cut = ha.load(file)
    assert caveats(cut) == [("lost_launches", 2, None, 33.333333)]
    assert "2 calls of ops (33.3 %) have no GPU work in it" in " ".join(ha.report(cut).caveats)
    assert ha.gpu_or_cpu_bound(cut).answer != "no-run"


def test_gaps_between_the_nodes_of_a_graph(tmp_path: Path) -> None:
    """Nodes at 20-100, 90-140, 150-300 and 330-400 of one device: gaps of 10 and 30 of 1,000 us.

    A second replay has one gap of 60 on another device, whose nodes are no neighbours of the others. Two calls with
    one kernel each have no nodes, so the 500 us between these kernels are no gap of a graph.
    """
    trace = TraceBuilder().step(3, 0, 1000).op("replay", 0, 600)
    trace.runtime("cudaGraphLaunch", 0, 10, correlation=1).runtime("cudaGraphLaunch", 20, 30, correlation=2)
    for start, end, stream in ((20, 100, 7), (90, 140, 8), (150, 300, 7), (330, 400, 7)):
        trace.gpu("kernel", "node", start, end, correlation=1, stream=stream)
    trace.gpu("kernel", "node", 40, 60, correlation=2, device=1).gpu(
        "kernel", "node", 120, 130, correlation=2, device=1
    )
    for number, start in ((3, 410), (4, 920)):
        trace.runtime("cudaLaunchKernel", start - 10, start - 8, correlation=number)
        trace.gpu("kernel", "alone", start, start + 10, correlation=number)
    opened = trace.load(tmp_path)
    assert [row for row in caveats(opened) if row[0] == "graph_gaps"] == [("graph_gaps", 3, 100, 10)]
    assert any(
        "3 gaps between the nodes of replayed CUDA graphs take 100" in text for text in ha.report(opened).caveats
    )
