from itertools import pairwise
from pathlib import Path

from hotline_analysis import Trace
from tests.trace_builder import TraceBuilder

PARTS = ("load_data", "sync", "cpu_tensor", "op", "python", "launch", "queued", "unobserved", "unknown")
Gap = tuple[int, float, float, str | None, int | None, str | None, dict[str, float]]
Part = tuple[float, float, str, int | None, str | None]


def gaps(trace: Trace) -> list[Gap]:
    """Device, start, end, what ends it, its step and phase, and the parts that are not 0, in us."""
    found = []
    columns = ", ".join(f"{part}_ns / 1000" for part in PARTS)
    for device, start, end, name, step, phase, *values in trace.sql(
        f"select device, gpu_gap.start_ns / 1000, gpu_gap.end_ns / 1000, name, step, phase, {columns}"
        " from gpu_gap left join event on gpu_gap.rank = event.rank and next_id = event_id"
        " order by device, gpu_gap.start_ns"
    ).rows():
        assert sum(values) == end - start
        told = {name: value for name, value in zip(PARTS, values, strict=True) if value != 0}
        found.append((device, start, end, name, step, phase, told))
    return found


def parts(trace: Trace) -> list[Part]:
    """Start, end, cause, step and phase of each part, in us; parts of a gap must touch."""
    rows = trace.sql(
        "select start_ns / 1000, end_ns / 1000, cause, step, phase, gap_ns from idle_part order by device, start_ns"
    ).rows()
    for before, after in pairwise(rows):
        assert before[5] != after[5] or before[1] == after[0]
    return [row[:5] for row in rows]


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
    opened = trace.load(tmp_path)
    assert gaps(opened) == [(0, 0, 75, "k", 0, "forward", {"load_data": 15, "op": 20, "python": 35, "launch": 5})]
    assert parts(opened) == [
        (0, 10, "python", 0, "other"),
        (10, 25, "load_data", 0, "load_data"),
        (25, 50, "python", 0, "forward"),
        (50, 70, "op", 0, "forward"),
        (70, 75, "launch", 0, "forward"),
    ]


def test_time_that_the_phases_call_loading_is_loading(tmp_path: Path) -> None:
    trace = TraceBuilder().step(0, 0, 100).op("aten::copy_", 5, 20).module("Net", 0, 30, 80)
    trace.op("mm", 40, 60).launches("k", 50, 100, at=45)
    opened = trace.load(tmp_path)
    assert gaps(opened) == [(0, 0, 50, "k", 0, "load_data", {"load_data": 30, "python": 10, "op": 5, "launch": 5})]
    assert [(phase, end - start) for start, end, _, _, phase in parts(opened)] == [
        ("load_data", 30),
        ("forward", 10),
        ("forward", 5),
        ("forward", 5),
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
    """The host waits until 62 for the work that ends at 60: that is 2 us; then it is in ops and python, on its way."""
    trace = TraceBuilder().step(0, 0, 120).op("a", 0, 10).launches("k1", 0, 60, at=0)
    trace.op("aten::item", 15, 65).runtime("cudaStreamSynchronize", 20, 62, correlation=99)
    trace.op("b", 70, 90).launches("k2", 85, 120, at=80, until=82)
    opened = trace.load(tmp_path)
    assert gaps(opened) == [(0, 60, 85, "k2", 0, "other", {"sync": 2, "op": 3 + 10, "python": 5, "launch": 5})]
    assert [part[:3] for part in parts(opened)] == [
        (60, 62, "sync"),
        (62, 65, "op"),
        (65, 70, "python"),
        (70, 80, "op"),
        (80, 85, "launch"),
    ]


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
        (0, 30, 100, None, 0, "other", {"cpu_tensor": 10, "sync": 20, "python": 40}),
    ]


def test_a_gap_belongs_to_the_step_and_phase_in_which_most_of_it_passes(tmp_path: Path) -> None:
    trace = TraceBuilder().step(0, 0, 100).op("a", 10, 20).launches("k1", 12, 90, at=10)
    trace.step(1, 100, 200).annotation("## forward ##", 100, 200).op("b", 120, 130).launches("k2", 125, 200, at=120)
    assert gaps(trace.load(tmp_path)) == [
        (0, 0, 12, "k1", 0, "other", {"python": 10, "launch": 2}),
        # Until the launch of step 1 at 120: 30 us of python.
        (0, 90, 125, "k2", 1, "forward", {"python": 30, "launch": 5}),
    ]


def test_the_thread_that_launches_counts(tmp_path: Path) -> None:
    """Until the autograd thread begins at 30, what the main thread does counts; from then on its own ops."""
    trace = TraceBuilder().step(0, 0, 100).op("main", 10, 100).runtime("cudaEventQuery", 99, 100)
    trace.on(2).op("node", 30, 60).launches("k", 45, 100, at=40)
    opened = trace.load(tmp_path)
    assert gaps(opened) == [(0, 0, 45, "k", 0, "other", {"python": 10, "op": 20 + 10, "launch": 5})]
    tracks = dict(opened.sql("select track_id, tid from track").rows())
    waited_for = opened.sql("select start_ns / 1000 as start, track_id from idle_part order by start").rows()
    assert [(start, tracks[track]) for start, track in waited_for] == [(0, "1"), (10, "1"), (30, "2"), (40, "2")]


def test_work_that_waits_on_a_silent_device_is_unobserved(tmp_path: Path) -> None:
    """Launched at 1, it starts at 100: 53 us are the way of a launch, the rest is not long enough to be strange."""
    trace = TraceBuilder().step(0, 0, 300).op("a", 0, 10).launches("k", 104, 300, at=1, until=4)
    assert gaps(trace.load(tmp_path)) == [(0, 0, 104, "k", 0, "other", {"op": 1, "launch": 53, "queued": 50})]
    trace = TraceBuilder().step(0, 0, 300).op("a", 0, 10).launches("k", 105, 300, at=1, until=4)
    assert gaps(trace.load(tmp_path)) == [(0, 0, 105, "k", 0, "other", {"op": 1, "launch": 53, "unobserved": 51})]


def test_a_device_may_wait_for_another(tmp_path: Path) -> None:
    trace = TraceBuilder().step(0, 0, 300).op("a", 0, 10).launches("k", 200, 300, at=1, until=4)
    trace.launches("other", 10, 160, at=5, until=6, device=1).launches("late", 290, 300, at=7, until=8, device=1)
    found = {(device, start): told for device, start, *_, told in gaps(trace.load(tmp_path))}
    assert found[0, 0]["queued"] == 146  # another device ended work less than 50 us before
    assert found[1, 160] == {"queued": 130}  # that device began what ends later than 50 us before the end


def test_a_gap_on_one_stream_is_none_while_another_works(tmp_path: Path) -> None:
    trace = TraceBuilder().step(0, 0, 100).op("a", 0, 10)
    trace.launches("k1", 0, 60, at=0, stream=7).launches("k2", 40, 100, at=1, stream=8)
    trace.launches("k3", 80, 90, at=2, stream=7)
    assert gaps(trace.load(tmp_path)) == []


def test_no_gpu_no_gaps(tmp_path: Path) -> None:
    assert gaps(TraceBuilder().step(0, 0, 100).op("a", 0, 10).load(tmp_path)) == []
