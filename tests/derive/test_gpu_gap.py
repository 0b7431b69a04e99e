from pathlib import Path

from hotline_analysis import Trace
from tests.trace_builder import TraceBuilder

PARTS = ("load_data", "sync", "op", "python", "launch", "queued", "unknown")
Gap = tuple[int, float, float, str | None, int | None, str | None, dict[str, float]]


def gaps(trace: Trace) -> list[Gap]:
    """Device, start, end, what ends it, its step and phase, and the parts that are not 0, in us."""
    found = []
    columns = ", ".join(f"{part}_ns / 1000" for part in PARTS)
    for device, start, end, name, step, phase, *parts in trace.sql(
        f"select device, gpu_gap.start_ns / 1000, gpu_gap.end_ns / 1000, name, step, phase, {columns}"
        " from gpu_gap left join event on gpu_gap.rank = event.rank and next_id = event_id"
        " order by device, gpu_gap.start_ns"
    ).rows():
        assert sum(parts) == end - start
        found.append(
            (device, start, end, name, step, phase, {k: v for k, v in zip(PARTS, parts, strict=True) if v != 0})
        )
    return found


def test_the_window_reaches_from_the_first_to_the_last_of_steps_and_work(tmp_path: Path) -> None:
    trace = TraceBuilder().step(0, 100, 200).op("mm", 110, 120).launches("k", 150, 160, at=112)
    trace.kernel("before", 50, 60).kernel("after", 300, 310, device=1)
    assert [(device, start, end) for device, start, end, *_ in gaps(trace.load(tmp_path))] == [
        (0, 60, 150),
        (0, 160, 200),
        (1, 100, 300),
    ]


def test_the_host_is_slow(tmp_path: Path) -> None:
    """Until the launch at 70: 10 python, 15 load_data (named), 25 python, 20 in the op; then 5 to take effect."""
    trace = TraceBuilder().step(0, 0, 100).annotation("enumerate(DataLoader)#x", 10, 25).module("Net", 0, 25, 80)
    trace.op("mm", 50, 80).launches("k", 75, 100, at=70, until=72)
    # The time before the loader shows no phase, and is `other`; the forward pass follows the loader at once.
    assert gaps(trace.load(tmp_path)) == [
        (0, 0, 75, "k", 0, "forward", {"load_data": 15, "op": 20, "python": 35, "launch": 5}),
    ]


def test_time_that_the_phases_call_loading_is_loading(tmp_path: Path) -> None:
    trace = TraceBuilder().step(0, 0, 100).op("aten::copy_", 5, 20).module("Net", 0, 30, 80)
    trace.op("mm", 40, 60).launches("k", 50, 100, at=45)
    assert gaps(trace.load(tmp_path)) == [
        (0, 0, 50, "k", 0, "forward", {"load_data": 30, "python": 10, "op": 5, "launch": 5}),
    ]


def test_work_that_was_launched_before_the_gap_waited_on_the_gpu(tmp_path: Path) -> None:
    trace = TraceBuilder().step(0, 0, 100).op("a", 0, 10).launches("k1", 0, 30, at=0).launches("k2", 40, 100, at=5)
    assert gaps(trace.load(tmp_path)) == [(0, 30, 40, "k2", 0, "other", {"queued": 10})]


def test_a_call_that_is_still_launching_when_the_gap_begins(tmp_path: Path) -> None:
    trace = TraceBuilder().step(0, 0, 100).op("a", 0, 60).launches("k1", 0, 30, at=0)
    trace.launches("k2", 52, 100, at=20, until=50)
    assert gaps(trace.load(tmp_path)) == [(0, 30, 52, "k2", 0, "other", {"launch": 22})]


def test_a_launch_takes_effect_for_50_us_and_waits_after_that(tmp_path: Path) -> None:
    trace = TraceBuilder().step(0, 0, 200).op("a", 0, 10).launches("k", 100, 200, at=1, until=4)
    assert gaps(trace.load(tmp_path)) == [(0, 0, 100, "k", 0, "other", {"op": 1, "launch": 53, "queued": 46})]


def test_a_synchronise_drains_the_queue(tmp_path: Path) -> None:
    """The host waits from 20 to 62 for the work that ends at 60; until it launches again, the GPU has nothing."""
    trace = TraceBuilder().step(0, 0, 120).op("a", 0, 10).launches("k1", 0, 60, at=0)
    trace.op("aten::item", 15, 65).runtime("cudaStreamSynchronize", 20, 62, correlation=99)
    trace.op("b", 70, 90).launches("k2", 85, 120, at=80, until=82)
    assert gaps(trace.load(tmp_path)) == [(0, 60, 85, "k2", 0, "other", {"sync": 20, "launch": 5})]


def test_a_blocking_copy_is_a_synchronise_up_to_its_own_work(tmp_path: Path) -> None:
    trace = TraceBuilder().step(0, 0, 50).op("copy", 0, 50)
    trace.runtime("cudaMemcpy", 10, 50, correlation=1).copy(30, 50, kind="DtoH", correlation=1)
    assert gaps(trace.load(tmp_path)) == [
        (0, 0, 30, "Memcpy DtoH (Device -> Pageable)", 0, "other", {"op": 10, "sync": 20}),
    ]


def test_work_without_a_launch_has_an_unknown_reason(tmp_path: Path) -> None:
    trace = TraceBuilder().step(0, 0, 100).op("a", 0, 10).launches("k1", 0, 30, at=0).kernel("stray", 50, 100)
    assert gaps(trace.load(tmp_path)) == [(0, 30, 50, "stray", None, None, {"unknown": 20})]


def test_the_gap_after_the_last_work(tmp_path: Path) -> None:
    trace = TraceBuilder().step(0, 0, 100).op("a", 0, 10).launches("k1", 0, 30, at=0)
    trace.op("b", 50, 60).runtime("cudaDeviceSynchronize", 70, 90, correlation=50)
    assert gaps(trace.load(tmp_path)) == [
        (0, 30, 100, None, 0, "other", {"op": 10, "sync": 20, "python": 40}),
    ]


def test_a_gap_belongs_to_the_step_and_phase_of_what_ends_it(tmp_path: Path) -> None:
    trace = TraceBuilder().step(0, 0, 100).op("a", 10, 20).launches("k1", 12, 90, at=10)
    trace.step(1, 100, 200).annotation("## forward ##", 100, 200).op("b", 120, 130).launches("k2", 125, 200, at=120)
    assert gaps(trace.load(tmp_path)) == [
        (0, 0, 12, "k1", 0, "other", {"python": 10, "launch": 2}),
        # Until the launch of step 1 at 120: 30 us of python.
        (0, 90, 125, "k2", 1, "forward", {"python": 30, "launch": 5}),
    ]


def test_the_thread_that_launches_counts(tmp_path: Path) -> None:
    """While the main thread is busy in ops, the autograd thread that launches is in python for 30 us."""
    trace = TraceBuilder().step(0, 0, 100).op("main", 0, 100).on(2).op("node", 30, 60).launches("k", 45, 100, at=40)
    assert gaps(trace.load(tmp_path)) == [(0, 0, 45, "k", 0, "other", {"python": 30, "op": 10, "launch": 5})]


def test_a_gap_on_one_stream_is_none_while_another_works(tmp_path: Path) -> None:
    trace = TraceBuilder().step(0, 0, 100).op("a", 0, 10)
    trace.launches("k1", 0, 60, at=0, stream=7).launches("k2", 40, 100, at=1, stream=8)
    trace.launches("k3", 80, 90, at=2, stream=7)
    assert gaps(trace.load(tmp_path)) == []


def test_no_gpu_no_gaps(tmp_path: Path) -> None:
    assert gaps(TraceBuilder().step(0, 0, 100).op("a", 0, 10).load(tmp_path)) == []
