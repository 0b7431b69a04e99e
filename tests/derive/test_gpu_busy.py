import random
from itertools import accumulate
from pathlib import Path

from hotline_analysis import Trace
from tests.trace_builder import TraceBuilder


def busy(trace: Trace) -> list[tuple[int, float, float]]:
    found: list[tuple[int, float, float]] = trace.sql(
        "select device, start_ns / 1000, end_ns / 1000 from gpu_busy order by device, start_ns"
    ).rows()
    return found


def test_it_is_the_union_over_all_streams_of_a_device(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.kernel("a", 0, 10, stream=7).kernel("inside a", 2, 5, stream=8).kernel("over a's end", 8, 12, stream=9)
    trace.copy(20, 30, stream=7).memset(25, 40, stream=8)
    trace.kernel("on another device", 0, 50, device=1)
    assert busy(trace.load(tmp_path)) == [(0, 0, 12), (0, 20, 40), (1, 0, 50)]


def test_touching_work_is_merged_and_a_nanosecond_is_a_gap(tmp_path: Path) -> None:
    trace = TraceBuilder().kernel("a", 0, 10).kernel("b", 10, 20).kernel("c", "20.001", 30)
    assert busy(trace.load(tmp_path)) == [(0, 0, 20), (0, 20.001, 30)]


def test_a_long_kernel_covers_short_ones_and_gaps_between_them(tmp_path: Path) -> None:
    trace = TraceBuilder().kernel("long", 0, 100, stream=7)
    trace.kernel("a", 10, 20, stream=8).kernel("b", 30, 40, stream=8).kernel("c", 90, 110, stream=8)
    assert busy(trace.load(tmp_path)) == [(0, 0, 110)]


def test_work_that_starts_and_ends_together_on_many_streams(tmp_path: Path) -> None:
    """As a file has it in which events stand twice, in whatever order."""
    chance = random.Random(0)
    edges = list(accumulate(chance.randint(1, 30) for _ in range(80)))
    spans = list(zip(edges[::2], edges[1::2], strict=True))
    twice = [*spans, *chance.sample(spans, 30)]
    chance.shuffle(twice)
    trace = TraceBuilder()
    for stream, (start, end) in enumerate(twice):
        trace.kernel("k", start, end, stream=stream)
    assert busy(trace.load(tmp_path)) == [(0, start, end) for start, end in spans]


def test_what_is_no_work_does_not_count(tmp_path: Path) -> None:
    trace = TraceBuilder().kernel("work", 0, 10).kernel("no time", 50, 50)
    trace.gpu("cuda_sync", "Stream Synchronize", 10, 40).gpu("gpu_user_annotation", "ProfilerStep#1", 0, 100)
    # Triton's ops on the CPU carry the stream that they will launch to.
    trace.op("triton_poi_fused", 20, 30, stream=0)
    assert busy(trace.load(tmp_path)) == [(0, 0, 10)]


def test_work_that_names_no_device(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.event(ph="X", cat="kernel", name="k", pid=0, tid=7, ts=5, dur=5, args={"stream": 7})
    trace.kernel("k", 7, 8)
    assert busy(trace.load(tmp_path)) == [(-1, 5, 10), (0, 7, 8)]
