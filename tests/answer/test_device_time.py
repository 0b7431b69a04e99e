"""What devices do with their time: by hand on a built trace, and against a count of nanoseconds on random ones."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from pathlib import Path
from typing import Literal

import polars as pl
import pytest

import hotline_analysis as ha
from hotline_analysis import Trace, catalog
from hotline_analysis.errors import QueryParameterError
from tests.answer.two_steps import NCCL, two_steps
from tests.trace_builder import TraceBuilder

PARTS = (
    "idle_ns",
    "computation_only_ns",
    "communication_only_ns",
    "memory_only_ns",
    "computation_communication_ns",
    "computation_memory_ns",
    "communication_memory_ns",
    "all_three_ns",
)


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    return two_steps().load(tmp_path_factory.mktemp("device_time"))


def us(frame: pl.DataFrame, *columns: str) -> list[tuple[object, ...]]:
    """Rows with times in microseconds."""
    return frame.select(pl.col(name) / 1000 if name.endswith("_ns") else pl.col(name) for name in columns).rows()


def test_temporal_breakdown(trace: Trace) -> None:
    step = ha.temporal_breakdown(trace, step=0)
    # idle: 0-10, 60-80, 90-100; together: 20-30 gemm and nccl, 45-50 nccl and copy
    assert us(step, "step", "window_ns", *PARTS) == [(0, 100, 40, 20, 15, 10, 10, 0, 5, 0)]
    assert us(step, "busy_ns", "computation_ns", "communication_ns", "memory_ns", "edge_ns") == [(60, 30, 30, 15, 10)]
    assert step.select("idle_pct", "exposed_communication_pct").row(0) == (40.0, 20.0)
    # idle: 100-110, 160-162, 170-186, 190-200; 115-120 together
    both = ha.temporal_breakdown(trace, by="step")
    assert us(both, "step", "window_ns", *PARTS)[1] == (1, 100, 38, 5 + 8 + 4, 40, 0, 5, 0, 0, 0)
    run = ha.temporal_breakdown(trace)
    assert run["step"].to_list() == [None]
    for name in (*PARTS, "window_ns", "busy_ns"):
        assert run[name].sum() == both[name].sum(), name
    # before 10 and after 190
    assert run["edge_ns"].item() == 20_000


def test_step_time_breakdown(trace: Trace) -> None:
    columns = ("kernel_ns", "copy_ns", "communication_ns", "runtime_ns", "load_data_ns", "cpu_ns", "other_ns")
    first, second = us(ha.step_time_breakdown(trace), "step", "wall_ns", *columns)
    # runtime: 2-3, 5-6, 7-8, 70-71; load data: 92-98; ops: 0-10 and 62-80 without them; other: 60-62, 90-92, 98-100
    assert first == (0, 100, 30, 15, 15, 4, 6, 24, 6)
    # kernels: 110-120, 162-170, 186-190; nccl alone: 120-160; runtime: 101-104, 170-180 of the synchronise, 182-183;
    # ops: 100-110 without 3, and 180-185 without 1; other: 160-162, 185-186, 190-200
    assert second == (1, 100, 22, 0, 40, 3 + 10 + 1, 0, 7 + 4, 13)


def test_comm_comp_overlap(trace: Trace) -> None:
    columns = ("step", "count", "communication_ns", "overlapped_ns", "exposed_ns", "hideable_ns")
    # 20-50 with 20-30 hidden, of the gemm 10-20 and relu 80-90 run alone; 115-160 with 115-120 hidden
    expected = [(0, 1, 30, 10, 20, 20), (1, 1, 45, 5, 40, 17)]
    assert us(ha.comm_comp_overlap(trace, by="step"), *columns) == expected
    assert us(ha.comm_comp_overlap(trace), *columns) == [(None, 2, 75, 15, 60, 37)]
    assert ha.comm_comp_overlap(trace)["overlap_pct"].item() == 20.0
    named = ha.comm_comp_overlap(trace, by="collective")
    assert us(named, "name", "count", "exposed_ns") == [("nccl_AllReduce_Sum_f32_RING_LL", 2, 60)]
    events = ha.comm_comp_overlap(trace, by="event", step=1)
    names = dict(trace.sql("select event_id, name from event").rows())
    assert [names[number] for number in events["event_id"]] == [NCCL]
    assert us(events, "step", "exposed_ns") == [(1, 40)]


def test_collectives_at_once_share_their_time(tmp_path: Path) -> None:
    trace = TraceBuilder().op("aten::all", 0, 10)
    trace.launches(NCCL, 10, 40, stream=9).launches(NCCL, 20, 50, stream=10).launches(NCCL, 25, 30, stream=11)
    trace.launches("gemm", 35, 60, stream=7)
    events = ha.comm_comp_overlap(trace.load(tmp_path), by="event")
    # 10-40 for the first with 5 hidden, 40-50 for the second, all of it hidden, nothing for the third
    assert sorted(us(events, "communication_ns", "overlapped_ns")) == [(0, 0), (10, 10), (30, 5)]


def test_idle_gaps_of_the_device(trace: Trace) -> None:
    gaps = ha.idle_gaps(trace).sort("start_ns")
    base = trace.sql("select min(start_ns) as t from step")["t"][0]
    gaps = gaps.with_columns(start_ns=pl.col("start_ns") - base)
    columns = ("start_ns", "dur_ns", "cause", "host_ns", "launch_ns", "sync_ns", "queued_ns", "next_name")
    assert us(gaps, *columns) == [
        (0, 10, "host", 10, 8, 0, 0, "gemm"),
        (60, 20, "host", 20, 10, 0, 0, "relu"),
        # 90-101 the host had not launched `mul` yet
        (90, 20, "host", 20, 9, 0, 0, "mul"),
        (160, 2, "kernel", 0, 0, 0, 2, "add"),
        # the queue ran dry while the host was in the synchronise, until 180; launched at 182
        (170, 16, "sync", 6, 4, 10, 0, "exp"),
        (190, 10, "host", 10, 0, 0, 0, None),
    ]
    relu = gaps.row(1, named=True)
    assert (relu["step"], relu["op_name"], relu["cpu_name"], relu["cpu_ns"]) == (0, "aten::relu", "relu", 8_000)
    assert relu["source"] == "train.py(7): step"
    assert ha.idle_gaps(trace, 1)["dur_ns"].to_list() == [20_000]
    assert ha.idle_gaps(trace, None).height == 6
    assert ha.idle_gaps(trace, cause="sync")["next_name"].to_list() == ["exp"]


def test_idle_gaps_of_streams(trace: Trace) -> None:
    gaps = ha.idle_gaps(trace, by="stream")
    base = trace.sql("select min(start_ns) as t from step")["t"][0]
    gaps = gaps.with_columns(start_ns=pl.col("start_ns") - base).sort("stream", "start_ns")
    assert us(gaps, "stream", "start_ns", "dur_ns", "cause", "queued_ns") == [
        (7, 30, 15, "kernel", 15),
        (7, 60, 20, "host", 0),
        (7, 90, 20, "host", 0),
        # until the collective on stream 9 is done
        (7, 120, 42, "communication", 42),
        (7, 170, 16, "sync", 0),
        (9, 50, 65, "host", 0),
    ]


def test_idle_breakdown(trace: Trace) -> None:
    columns = ("cause", "gap_count", "idle_ns", "micro_count", "micro_total_ns", "max_ns", "host_ns", "launch_ns")
    assert us(ha.idle_breakdown(trace), *columns) == [
        ("host", 4, 60, 0, 0, 20, 60, 27),
        ("sync", 1, 16, 0, 0, 16, 6, 4),
        ("kernel", 1, 2, 1, 2, 2, 0, 0),
    ]
    shares = ha.idle_breakdown(trace, by="stream").group_by("stream").agg(pl.col("idle_pct").sum())
    assert shares["idle_pct"].to_list() == pytest.approx([100, 100])
    window = ha.temporal_breakdown(trace)
    assert ha.idle_breakdown(trace)["idle_ns"].sum() == window["idle_ns"].sum()


def test_unlinked_work_is_no_guess(tmp_path: Path) -> None:
    trace = TraceBuilder().op("aten::mm", 0, 10).launches("gemm", 12, 20).kernel("early", 30, 40, correlation=777)
    gaps = ha.idle_gaps(trace.load(tmp_path), by="stream")
    assert us(gaps, "cause", "unknown_ns", "cpu_event_id") == [("unknown", 10, None)]


@pytest.mark.parametrize("answer", [ha.temporal_breakdown, ha.comm_comp_overlap, ha.idle_breakdown, ha.idle_gaps])
def test_by_is_checked(trace: Trace, answer: object) -> None:
    with pytest.raises(QueryParameterError, match=r"by of query .* must be"):
        answer(trace, by="colour")  # type: ignore[operator]


def words(query: str, param: str) -> tuple[str, ...]:
    return next(each.words for each in catalog.get(query).params if each.name == param)


def test_the_cause_of_gaps_is_checked(trace: Trace) -> None:
    assert set(ha.idle_gaps(trace, limit=None)["cause"]) <= set(words("idle_gaps", "cause"))
    with pytest.raises(QueryParameterError, match="cause of query idle_gaps must be host, sync"):
        ha.idle_gaps(trace, cause="foo")  # type: ignore[arg-type]
    with pytest.raises(QueryParameterError, match=r"not 'synchronise'\. Hint: Renamed to sync\."):
        ha.idle_gaps(trace, cause="synchronise")  # type: ignore[arg-type]


# --- random devices against counting every nanosecond ----------------------------------------------------------------

DEVICES = 40


@pytest.fixture(scope="module")
def noise(tmp_path_factory: pytest.TempPathFactory) -> tuple[Trace, dict[int, list[tuple[str, int, int, int]]]]:
    """Random work on many devices, each a case of its own: class, stream, start and end in nanoseconds."""
    dice = random.Random(7)
    trace = TraceBuilder()
    work = defaultdict(list)
    for device in range(DEVICES):
        length = dice.choice([60, 400])
        for _ in range(dice.randint(1, 25)):
            start = dice.randint(1, length)  # the builder's 0 with a length of 0 is no figure
            end = start + dice.choice([0, 1, 3, 10, 50])
            kind, stream = dice.choice(["computation", "communication", "memory"]), dice.randint(0, 2)
            name = {"computation": "gemm", "communication": NCCL, "memory": "Memcpy DtoD (Device -> Device)"}[kind]
            category = "gpu_memcpy" if kind == "memory" else "kernel"
            trace.gpu(category, name, f"{start / 1000:.3f}", f"{end / 1000:.3f}", stream=stream, device=device)
            work[device].append((kind, stream, start, end))
    return trace.load(tmp_path_factory.mktemp("noise")), work


def counted(spans: list[tuple[str, int, int, int]]) -> list[frozenset[str]]:
    """The classes that run in each nanosecond, from the first start to the last end of work that takes time."""
    spans = [span for span in spans if span[3] > span[2]]
    if not spans:
        return []
    first, last = min(span[2] for span in spans), max(span[3] for span in spans)
    return [
        frozenset(kind for kind, _, start, end in spans if start <= instant < end) for instant in range(first, last)
    ]


def test_temporal_breakdown_counts_right(
    noise: tuple[Trace, dict[int, list[tuple[str, int, int, int]]]],
) -> None:
    trace, work = noise
    rows = {row["device"]: row for row in ha.temporal_breakdown(trace).iter_rows(named=True)}
    assert len(rows) > 30
    for device, spans in work.items():
        ticks = counted(spans)
        if not ticks:
            assert device not in rows
            continue
        seen = Counter(ticks)
        a, b, c = "computation", "communication", "memory"
        sets = [(), (a,), (b,), (c,), (a, b), (a, c), (b, c), (a, b, c)]
        row = rows[device]
        found = [row[name] - (row["edge_ns"] if name == "idle_ns" else 0) for name in PARTS]
        assert found == [seen[frozenset(each)] for each in sets], device
        assert row["window_ns"] == sum(row[name] for name in PARTS)


def test_overlap_counts_right(noise: tuple[Trace, dict[int, list[tuple[str, int, int, int]]]]) -> None:
    trace, work = noise
    groupings: tuple[Literal["rank", "collective", "event"], ...] = ("rank", "collective", "event")
    for by in groupings:
        frame = ha.comm_comp_overlap(trace, by=by)
        rows = frame.group_by("device").agg(pl.col("communication_ns", "overlapped_ns").sum())
        found = {row[0]: row[1:] for row in rows.rows() if row[1]}
        expected = {}
        for device, spans in work.items():
            ticks = counted(spans)
            running = sum("communication" in tick for tick in ticks)
            if running:
                expected[device] = (running, sum({"communication", "computation"} <= tick for tick in ticks))
        assert found == expected


def test_stream_gaps_count_right(noise: tuple[Trace, dict[int, list[tuple[str, int, int, int]]]]) -> None:
    trace, work = noise
    rows = ha.idle_breakdown(trace, by="stream")
    found = {(device, stream): idle for device, stream, idle in rows.select("device", "stream", "idle_ns").rows()}
    expected = {}
    for device, spans in work.items():
        for stream in range(3):
            idle = sum(not tick for tick in counted([span for span in spans if span[1] == stream]))
            if idle:
                expected[device, stream] = idle
    assert found == expected
    assert rows["cause"].unique().to_list() == ["unknown"]


def test_idle_events_are_what_the_cpu_does_until_the_launch(tmp_path: Path) -> None:
    """The device waits until 52: 10 us for the step outside of ops, and 40 for the op until it launches at 50."""
    trace = TraceBuilder(rank=0).step(0, 0, 100).op("aten::relu", 10, 60).launches("relu", 52, 100, at=50)
    columns = ("cause", "category", "short_name", "count", "idle_ns", "idle_pct", "max_ns", "event_id")
    with trace.load(tmp_path) as opened:
        assert us(ha.idle_events(opened), *columns) == [
            ("op", "cpu_op", "relu", 1, 40, 100.0, 40, trace.ids("aten::relu")[0]),
            ("python", "user_annotation", "ProfilerStep#0", 1, 10, 100.0, 10, trace.ids("ProfilerStep#0")[0]),
        ]
        assert ha.idle_events(opened, cause="python")["short_name"].to_list() == ["ProfilerStep#0"]
        assert ha.idle_events(opened, cause="sync").is_empty()
