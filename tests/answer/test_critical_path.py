"""`dependency_edges`, `critical_path` and its breakdown on small traces, with every edge by hand."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import polars as pl
import pytest

import hotline_analysis as ha
from hotline_analysis import DependencyGraph, HotlineError, QueryParameterError, Trace
from tests.trace_builder import TraceBuilder

US = 1000


def path_of(graph: DependencyGraph) -> list[tuple[str, str | None, int, int]]:
    """The path's edges that take time: kind, name, start and end in us."""
    rows = graph.path().filter(pl.col("weight_ns") > 0).select("kind", "name", "start_ns", "end_ns").rows()
    return [(kind, name, start // US, end // US) for kind, name, start, end in rows]


def check(graph: DependencyGraph) -> DependencyGraph:
    """What holds for every graph: one edge into each node binds and is as long as observed, and none is longer."""
    edges = graph.edges
    assert edges.filter(pl.col("weight_ns") > pl.col("end_ns") - pl.col("start_ns")).is_empty()
    assert edges.filter(pl.col("weight_ns") < 0).is_empty()
    binding = edges.filter("binds")
    assert binding.filter(pl.col("weight_ns") != pl.col("end_ns") - pl.col("start_ns")).is_empty()
    assert sorted(binding["to_id"]) == sorted(set(edges["to_id"])), "each node has one binding edge"
    assert set(edges["from_id"]) - {0} <= set(edges["to_id"])
    path = graph.path()
    assert path["weight_ns"].sum() == graph.length_ns == graph.retimed_ns()
    assert path["start_ns"][1:].equals(path["end_ns"][:-1].alias("start_ns"))
    again = graph.retimed_path()
    assert again["weight_ns"].sum() == graph.length_ns
    assert again.filter(pl.col("end_ns") - pl.col("start_ns") != pl.col("weight_ns")).is_empty()
    return graph


def half(graph: DependencyGraph, name: str) -> DependencyGraph:
    """The graph with this work twice as fast."""
    is_it = (pl.col("name") == name) & (pl.col("kind") == "work")
    return graph.reweighted(pl.when(is_it).then(pl.col("weight_ns") // 2).otherwise("weight_ns"))


def waiting() -> TraceBuilder:
    """One step: two kernels on one stream, a synchronise that waits for them, and python before and after."""
    trace = TraceBuilder(rank=0).step(0, 0, 100)
    trace.op("aten::mul", 10, 20).launches("first", 18, 40, at=12, until=14)
    trace.op("aten::add", 20, 30).launches("second", 42, 72, at=24, until=26)
    return trace.runtime("cudaDeviceSynchronize", 35, 75, correlation=90)


@pytest.mark.long
def test_a_graph_of_very_many_kernels(tmp_path: Path) -> None:
    """One launch, 40,000 kernels. With a comparison of each with each, this takes minutes."""
    count = 40_000
    trace = TraceBuilder(rank=0).op("replay", 0, 50).runtime("cudaGraphLaunch", 10, 40, correlation=70)
    for number in range(count):
        trace.kernel("k", 60 + 10 * number, 66 + 10 * number, correlation=70, stream=7)
    last = 56 + 10 * count  # when the last kernel ends
    trace.runtime("cudaDeviceSynchronize", 55, last + 4, correlation=71)
    path = ha.critical_path(trace.load(tmp_path))
    assert path["weight_ns"].sum() == (last + 4) * US
    assert path.filter(kind="work").select(pl.len(), pl.col("weight_ns").sum()).row(0) == (count, 6 * count * US)


def test_a_synchronise_leads_to_the_gpu(tmp_path: Path) -> None:
    graph = check(ha.dependency_graph(waiting().load(tmp_path), step=0))
    assert path_of(graph) == [
        ("host", "ProfilerStep#0", 0, 10),
        ("host", "aten::mul", 10, 12),
        ("launch", "first", 12, 18),
        ("work", "first", 18, 40),
        ("queue", "second", 40, 42),
        ("work", "second", 42, 72),
        ("return", "cudaDeviceSynchronize", 72, 75),
        ("host", "ProfilerStep#0", 75, 100),
    ]
    assert graph.length_ns == 100 * US


@pytest.mark.parametrize(("streams", "waits"), [(3, [700, 701, 702]), (128, range(700, 828)), (129, [828])])
def test_of_very_many_streams_a_synchronise_waits_for_the_last_work(
    tmp_path: Path, streams: int, waits: Sequence[int]
) -> None:
    """PyTorch has at most 128 streams of a device; a damaged trace may have one for each of its calls."""
    trace = TraceBuilder(rank=0).step(0, 0, 2000).op("aten::op", 1, 1900)
    for number in range(streams):
        end = 700 + 37 * number % streams
        trace.launches("kernel", 500 + number, end, at=5 + 2 * number, until=6 + 2 * number, stream=number + 1)
    trace.runtime("cudaDeviceSynchronize", 600, 1000)
    edges = ha.dependency_graph(trace.load(tmp_path), step=0).edges.filter(kind="return")
    assert sorted(edges["start_ns"]) == [at * US for at in waits]
    assert edges.filter("binds")["start_ns"].to_list() == [max(waits) * US]


def test_shorter_work_on_the_path_shortens_the_step(tmp_path: Path) -> None:
    graph = ha.dependency_graph(waiting().load(tmp_path), step=0)
    assert half(graph, "second").retimed_ns() == 85 * US
    assert half(graph, "first").retimed_ns() == 89 * US
    both = half(half(graph, "first"), "second")
    assert both.retimed_ns() == 74 * US
    # Work that takes no time: `first` is over at 18, but `second` is launched at 24, and usually launches take 6 us.
    nothing = graph.reweighted(pl.when(kind="work").then(0).otherwise("weight_ns"))
    # 30 launched, runs at once; the synchronise, reached at 35, takes the 3 us that it needed to return
    assert nothing.retimed_ns() == 63 * US
    path = nothing.retimed_path().filter(pl.col("weight_ns") > 0)
    assert path["kind"].unique().to_list() == ["host"]
    assert path["end_ns"].max() == 63 * US


def test_an_op_that_is_not_on_the_path_gains_nothing(tmp_path: Path) -> None:
    graph = ha.dependency_graph(waiting().load(tmp_path), step=0)
    faster = graph.reweighted(pl.when(name="aten::add").then(0).otherwise("weight_ns"))
    assert faster.retimed_ns() == 100 * US


def test_a_launch_explains_a_start_when_the_stream_was_free(tmp_path: Path) -> None:
    trace = TraceBuilder(rank=0).step(0, 0, 100)
    trace.op("aten::mm", 10, 20).launches("first", 16, 18, at=12, until=14)
    trace.op("aten::mm", 20, 30).launches("second", 26, 60, at=22, until=24)
    trace.runtime("cudaStreamSynchronize", 35, 62, correlation=90)
    graph = check(ha.dependency_graph(trace.load(tmp_path), step=0))
    assert [row for row in path_of(graph) if row[0] != "host"] == [
        ("launch", "second", 22, 26),
        ("work", "second", 26, 60),
        ("return", "cudaStreamSynchronize", 60, 62),
    ]
    assert half(graph, "second").retimed_ns() == 83 * US


def two_streams(record: dict[str, object] | None, start: int = 61, *, calls: bool = True) -> TraceBuilder:
    """`compute` runs until 60 on stream 7; `reduce` on stream 20, launched at 22, starts when it is over."""
    trace = TraceBuilder(rank=0).step(0, 0, 100)
    trace.op("aten::mm", 10, 20).launches("compute", 14, 60, at=12, until=14)
    trace.op("c10d::allreduce_", 20, 30)
    if calls:
        trace.runtime("cudaEventRecord", 20, 21, correlation=50).runtime("cudaStreamWaitEvent", 21, 22, correlation=51)
    trace.launches("ncclDevKernel_AllReduce", start, 90, at=22, until=24, stream=20)
    trace.runtime("cudaDeviceSynchronize", 35, 92, correlation=90)
    if record is not None:
        trace._complete(
            "cuda_sync", "Stream Wait Event", 21, 22, {"stream": 20, "correlation": 51, "device": 0, **record}, 0, 20
        )
    return trace


@pytest.mark.parametrize(
    ("record", "kind"),
    [
        (
            {
                "cuda_sync_kind": "Stream Wait Event",
                "wait_on_stream": 7,
                "wait_on_cuda_event_record_corr_id": 50,
                "wait_on_cuda_event_id": 3,
            },
            "event",
        ),
        ({"cuda_sync_kind": "Stream Wait Event", "wait_on_stream": 7}, "event"),
        (None, "wait"),
    ],
)
def test_streams_wait_for_each_other(tmp_path: Path, record: dict[str, object] | None, kind: str) -> None:
    graph = check(ha.dependency_graph(two_streams(record).load(tmp_path), step=0))
    assert path_of(graph)[2:] == [
        ("launch", "compute", 12, 14),
        ("work", "compute", 14, 60),
        (kind, "ncclDevKernel_AllReduce", 60, 61),
        ("work", "ncclDevKernel_AllReduce", 61, 90),
        ("return", "cudaDeviceSynchronize", 90, 92),
        ("host", "ProfilerStep#0", 92, 100),
    ]
    assert half(graph, "compute").retimed_ns() == 77 * US


def test_without_a_call_that_waits_the_end_of_other_work_just_before_tells(tmp_path: Path) -> None:
    graph = check(ha.dependency_graph(two_streams(None, calls=False).load(tmp_path), step=0))
    assert path_of(graph)[4] == ("inferred", "ncclDevKernel_AllReduce", 60, 61)


def test_a_wait_that_times_contradict_is_none(tmp_path: Path) -> None:
    """The call would have `reduce` wait for `compute`, which runs until 60; it starts at 30."""
    graph = check(ha.dependency_graph(two_streams(None, start=30).load(tmp_path), step=0))
    assert "wait" not in graph.edges["kind"].to_list()


def test_work_that_starts_beside_other_work_waited_for_a_place(tmp_path: Path) -> None:
    graph = check(ha.dependency_graph(two_streams(None, start=50).load(tmp_path), step=0))
    assert path_of(graph)[2:5] == [
        ("launch", "compute", 12, 14),
        ("shared", "compute", 14, 50),
        ("work", "ncclDevKernel_AllReduce", 50, 90),
    ]


def test_work_that_nothing_holds_up_stalls(tmp_path: Path) -> None:
    trace = TraceBuilder(rank=0).step(0, 0, 300).op("aten::mm", 10, 20)
    trace.launches("late", 200, 210, at=12, until=14).runtime("cudaDeviceSynchronize", 20, 220, correlation=90)
    graph = check(ha.dependency_graph(trace.load(tmp_path), step=0))
    assert path_of(graph)[2:4] == [("stall", "late", 12, 200), ("work", "late", 200, 210)]
    assert graph.path().filter(kind="stall")["bound_by"].to_list() == ["unobserved"]


def test_the_main_thread_waits_for_autograd(tmp_path: Path) -> None:
    trace = TraceBuilder(rank=0).step(0, 0, 100).module("Net", 0, 5, 20)
    trace.op("aten::mm", 6, 15, seq=1)
    trace.on(2).backward("MmBackward0", 30, 70, seq=1)
    trace.on(1).annotation("Optimizer.step#SGD.step", 80, 95)
    graph = check(ha.dependency_graph(trace.load(tmp_path), step=0))
    assert path_of(graph)[-5:] == [
        ("host", "ProfilerStep#0", 20, 30),
        ("host", "MmBackward0", 30, 70),
        ("host", "ProfilerStep#0", 70, 80),
        ("host", "Optimizer.step#SGD.step", 80, 95),
        ("host", "ProfilerStep#0", 95, 100),
    ]
    tracks = graph.path().filter(name="MmBackward0")["track_id"].to_list()
    assert tracks != graph.path().filter(name="Optimizer.step#SGD.step")["track_id"].to_list()
    faster = graph.reweighted(pl.when(name="MmBackward0").then(10 * US).otherwise("weight_ns"))
    assert faster.retimed_ns() == 70 * US


def test_backward_that_goes_on_where_it_ends_hands_nothing_over(tmp_path: Path) -> None:
    """Two steps that touch, and backward runs up to their border and on from there: the threads wait in no circle."""
    trace = TraceBuilder(rank=0)
    for step in range(2):
        at = 100 * step
        trace.on(1).step(step, at, at + 100)
        trace.op("aten::mm", at + 1, at + 10, seq=2 * step)
        trace.on(2).backward("MmBackward0", 20 if step == 0 else 100, 100 if step == 0 else 180, seq=2 * step)
    run = trace.load(tmp_path)
    spans = run.sql(
        "select start_ns, end_ns from phase_span where phase = 'backward' and not is_main order by 1"
    ).rows()
    assert spans == [(20 * US, 100 * US), (100 * US, 180 * US)]
    graph = check(ha.dependency_graph(run))
    assert graph.path()["weight_ns"].sum() == 200 * US


def test_every_kernel_of_a_graph_is_on_the_path(tmp_path: Path) -> None:
    """One launch, five kernels of 90 us, and a tail: what the launch's only partner would hide."""
    trace = TraceBuilder(rank=0).step(0, 0, 600).op("graph", 10, 30)
    trace.runtime("cudaGraphLaunch", 12, 20, correlation=70)
    for number in range(5):
        trace.kernel(f"part{number}", 22 + 92 * number, 112 + 92 * number, correlation=70)
    trace.op("aten::add", 40, 50).launches("tail", 485, 500, at=41, until=43)
    trace.runtime("cudaDeviceSynchronize", 60, 505, correlation=90)
    graph = check(ha.dependency_graph(trace.load(tmp_path), step=0))
    work = [(name, end - start) for kind, name, start, end in path_of(graph) if kind == "work"]
    assert work == [*((f"part{number}", 90) for number in range(5)), ("tail", 15)]
    assert half(graph, "part3").retimed_ns() == 555 * US


def test_a_blocking_copy_waits_for_itself(tmp_path: Path) -> None:
    trace = TraceBuilder(rank=0).step(0, 0, 100)
    trace.op("aten::mm", 10, 20).launches("gemm", 15, 50, at=12, until=14)
    trace.op("aten::item", 20, 60)
    trace.runtime("cudaMemcpyAsync", 22, 57, correlation=70).copy(51, 55, kind="DtoH", correlation=70)
    graph = check(ha.dependency_graph(trace.load(tmp_path), step=0))
    assert path_of(graph)[2:] == [
        ("launch", "gemm", 12, 15),
        ("work", "gemm", 15, 50),
        ("queue", "Memcpy DtoH (Device -> Pageable)", 50, 51),
        ("work", "Memcpy DtoH (Device -> Pageable)", 51, 55),
        ("return", "cudaMemcpyAsync", 55, 57),
        ("host", "aten::item", 57, 60),
        ("host", "ProfilerStep#0", 60, 100),
    ]
    assert graph.path()["bound_by"].to_list().count("copy") == 1


def test_a_launch_into_a_full_queue_waits(tmp_path: Path) -> None:
    trace = TraceBuilder(rank=0).step(0, 0, 5000).op("loop", 10, 3000)
    for number in range(1002):
        trace.launches("k", 2000 + 2 * number, 2002 + 2 * number, at=10 + number, until=11 + number)
    # 1002 launches, none has started yet; this one comes back when the first kernels are done.
    trace.launches("last", 4004, 4010, at=1012, until=2005)
    graph = check(ha.dependency_graph(trace.load(tmp_path), step=0, until="host"))
    assert ("return", "cudaLaunchKernel", 2004, 2005) in path_of(graph)
    assert graph.edges.filter(kind="return").height == 1


def behind() -> TraceBuilder:
    """Three steps of 100 us on the CPU, whose kernels take 300 us each."""
    trace = TraceBuilder(rank=0)
    for number in range(3):
        at = 100 * number
        trace.step(number, at, at + 100).op("aten::mm", at + 10, at + 20)
        trace.launches("gemm", 14 + 301 * number, 314 + 301 * number, at=at + 12, until=at + 14)
    return trace


def test_steps_end_when_their_work_is_done(tmp_path: Path) -> None:
    trace = behind().load(tmp_path)
    graphs = [check(ha.dependency_graph(trace, step=step)) for step in range(3)]
    assert [graph.length_ns // US for graph in graphs] == [314, 301, 301]
    assert path_of(graphs[1]) == [("queue", "gemm", 314, 315), ("work", "gemm", 315, 615)]
    assert check(ha.dependency_graph(trace)).length_ns == 916 * US
    on_host = check(ha.dependency_graph(trace, step=1, until="host"))
    assert on_host.length_ns == 100 * US
    assert {row[0] for row in path_of(on_host)} == {"host"}


def test_the_breakdown_adds_up(tmp_path: Path) -> None:
    trace = waiting().load(tmp_path)
    found = ha.critical_path_breakdown(trace, step=0)
    assert found.drop("path_pct").rows() == [
        ("gpu_compute", 52 * US, 2),
        ("cpu", 40 * US, 4),
        ("launch", 6 * US, 1),
        ("kernel_gap", 2 * US, 1),
    ]
    assert found["path_pct"].to_list() == pytest.approx([52, 40, 6, 2])
    by = ha.critical_path_breakdown(trace, by=["phase", "module", "bound_by"], step=0)
    assert by.columns == ["phase", "module_path", "bound_by", "path_ns", "path_pct", "edge_count"]
    assert by["path_ns"].sum() == 100 * US
    assert by["path_pct"].sum() == pytest.approx(100)


def test_loading_data_and_communication_have_names_of_their_own(tmp_path: Path) -> None:
    trace = two_streams(None).annotation("enumerate(DataLoader)#_Iter.__next__", 1, 9)
    found = ha.critical_path_breakdown(trace.load(tmp_path), step=0)
    times = dict(found.select("bound_by", pl.col("path_ns") // US).rows())
    assert times["communication"] == 29
    assert times["data_loading"] >= 8
    assert sum(times.values()) == 100


def test_a_window_is_cut_out_exactly(tmp_path: Path) -> None:
    graph = check(ha.dependency_graph(waiting().load(tmp_path), start_ns=30 * US, end_ns=74 * US, until="host"))
    # The synchronise has not come back at 74, so the main thread is simply inside it.
    assert path_of(graph) == [
        ("host", "ProfilerStep#0", 30, 35),
        ("host", "cudaDeviceSynchronize", 35, 74),
    ]
    assert (
        check(ha.dependency_graph(waiting().load(tmp_path), start_ns=50 * US, end_ns=90 * US, until="host"))
        .path()["name"]
        .to_list()[0]
        == "second"
    )


def test_a_trace_without_cpu_events_has_a_path_on_the_gpu(tmp_path: Path) -> None:
    trace = TraceBuilder(rank=0).kernel("a", 10, 20).kernel("b", 22, 40).kernel("c", 15, 30, stream=8)
    graph = check(ha.dependency_graph(trace.load(tmp_path), start_ns=5 * US, end_ns=45 * US, until="host"))
    assert path_of(graph) == [
        ("untraced", "a", 5, 10),
        ("work", "a", 10, 20),
        ("queue", "b", 20, 22),
        ("work", "b", 22, 40),
        ("end", None, 40, 45),
    ]


def test_a_graph_is_edited_by_edges(tmp_path: Path) -> None:
    graph = ha.dependency_graph(waiting().load(tmp_path), step=0)
    # Without waiting for the GPU, the step takes what the CPU does; the sink still waits for the last work, at 72.
    free = graph.without(pl.col("kind") == "return")
    assert free.retimed_ns() == 72 * US
    start, end = (graph.edges.filter(name="second", kind="work")[column].item() for column in ("from_id", "to_id"))
    slower = graph.with_edges(pl.DataFrame({"from_id": [start], "to_id": [end], "weight_ns": [50 * US]}))
    assert slower.retimed_ns() == 120 * US
    circle = graph.with_edges(pl.DataFrame({"from_id": [end], "to_id": [start], "weight_ns": [1]}))
    with pytest.raises(HotlineError, match="the graph has a cycle"):
        circle.retimed_ns()
    with pytest.raises(HotlineError, match="negative weight"):
        graph.reweighted(pl.col("weight_ns") - 1)


def test_questions_that_cannot_be_asked(tmp_path: Path) -> None:
    trace: Trace = waiting().load(tmp_path)
    for arguments in (
        {"step": 9},
        {"rank": 7},
        {"start_ns": 5},
        {"step": 0, "start_ns": 0, "end_ns": 5},
        {"until": "x"},
    ):
        with pytest.raises(QueryParameterError):
            ha.critical_path(trace, **arguments)
    with pytest.raises(QueryParameterError):
        ha.critical_path_breakdown(trace, by="op")


def test_times_are_found_without_a_graph_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rustworkx", None)
    graph = ha.dependency_graph(waiting().load(tmp_path), step=0)
    assert graph.path()["weight_ns"].sum() == graph.retimed_ns() == 100 * US
    assert graph.retimed_path()["weight_ns"].sum() == 100 * US
    with pytest.raises(HotlineError, match="rustworkx"):
        graph.to_rustworkx()


def test_an_empty_window_has_no_path(tmp_path: Path) -> None:
    graph = ha.dependency_graph(waiting().load(tmp_path), start_ns=50, end_ns=50, until="host")
    assert graph.path().is_empty()
    assert graph.length_ns == graph.retimed_ns() == 0
    assert graph.retimed_path().is_empty()
