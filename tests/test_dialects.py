"""Files of other writers: their device work is recognised, and what is not understood is named with its time.

The queries are `recognised_event`, with its step `asked_work`, and `unknown_track`.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import hotline_analysis as ha
from hotline_analysis import Trace
from hotline_analysis.answers.rules import find_advice
from hotline_analysis.text.formats import duration
from tests.foreign_traces import (
    Foreign,
    ascend,
    forked,
    ibm_aiu,
    labelled,
    streamed,
    tenstorrent,
    xla_gpu,
    xla_tpu,
)

RECOGNISED = {
    "ascend": ascend(),
    "ascend, one step": ascend(steps=1, kernels=2, kernel_us=70, collective_us=40),
    "ascend, marks as annotations": ascend(steps=5, kernels=3, kernel_us=333, marks="user_annotation"),
    "ascend, older words": ascend(steps=2, communication="HCCL", collective_us=4000),
    "ascend, alone": ascend(steps=4, kernels=12, kernel_us=20, collectives=False),
    "ascend, no other tasks": ascend(with_tasks=False, kernel_us=2500),
    "ascend, a task queue": ascend(steps=2, kernels=4, queued=True),
    "ascend, shuffled": ascend(steps=3, kernels=5).shuffled(1),
    "xla": xla_gpu(with_lines=False, copies=False),
    "xla, with derived lines": xla_gpu(steps=7, kernel_us=600),
    "xla, three GPUs": xla_gpu(steps=3, devices=3, kernel_us=300),
    "xla, ids from 1": xla_gpu(steps=2, first=1),
    "xla, shuffled": xla_gpu(steps=9, kernel_us=111, devices=2).shuffled(2),
    "tpu": xla_tpu(),
    "tpu, many ops": xla_tpu(steps=2, ops=8, op_us=60, collective="reduce-scatter.3"),
    "tpu, all-gather": xla_tpu(steps=6, ops=1, collective="all-gather-start.12"),
    "tpu, all-to-all": xla_tpu(steps=3, collective="%all-to-all.1"),
    "tpu, shuffled": xla_tpu(steps=5, ops=5, collective="collective-permute.4").shuffled(3),
    "aiu": ibm_aiu(),
    "aiu, one device": ibm_aiu(devices=1, jobs=9, kernel_us=33),
    "label GPU": labelled(label="GPU 0"),
    "label XPU": labelled(label="XPU 1", device=1, kernels=9),
    "label HPU": labelled(label="HPU", kernel_us=70),
    "label MTIA": labelled(label="MTIA 3", device=3, kernels=2),
    "label NPU": labelled(label="NPU 0", kernels=30, kernel_us=5).shuffled(4),
    "fork gcu": forked(prefix="gcu"),
    "fork musa": forked(prefix="musa", calls=3),
    "fork xpu": forked(prefix="xpu", calls=20),
    "tenstorrent": tenstorrent(),
    "tenstorrent, long": tenstorrent(rounds=15, zone_us=100),
    "streams": streamed(),
}


@pytest.fixture(params=RECOGNISED)
def known(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Foreign, Trace]:
    built = RECOGNISED[request.param]
    return built, built.load(tmp_path)


def test_device_work_is_recognised(known: tuple[Foreign, Trace]) -> None:
    built, trace = known
    sums = trace.sql(
        "select name_info.class, count(*), sum(event.dur_ns)::bigint from event"
        " inner join name_info on (event.rank, event.category, event.name)"
        " = (name_info.rank, name_info.category, name_info.name)"
        " where name_info.class is not null and event.dur_ns is not null group by all"
    )
    assert {kind: (count, time) for kind, count, time in sums.rows()} == built.sums()
    busy = trace.sql("select device, sum(end_ns - start_ns)::bigint from gpu_busy group by all").rows()
    assert dict(busy) == built.busy()
    text = ha.report(trace, source_lines=False).to_text()
    assert "CPU only" not in text
    assert "no GPU work" not in text
    assert "not understood" not in text
    assert trace.query("unknown_tracks").is_empty()
    # Every event of the file is there at its position, with its times.
    rows = trace.sql("select event_id, name, start_ns, dur_ns, ph from event order by event_id").rows()
    assert [row[0] for row in rows] == list(range(len(built.events)))
    for (_, name, start_ns, dur_ns, ph), event in zip(rows, built.events, strict=True):
        assert (name, ph) == (event["name"], event["ph"])
        if ph == "X":
            assert start_ns == 1000 * int(float(event["ts"]))
            assert dur_ns == 1000 * int(float(event["dur"]))


@pytest.mark.parametrize(
    ("steps", "kernels", "kernel_us", "collective_us"), [(3, 8, 1000, 900), (2, 3, 50, 10), (6, 1, 400, 200)]
)
def test_steps_and_launches_of_ascend(
    tmp_path: Path, steps: int, kernels: int, kernel_us: int, collective_us: int
) -> None:
    """Marks that are written as ops are steps; each kernel belongs to the call and the op that asked for it."""
    trace = ascend(steps=steps, kernels=kernels, kernel_us=kernel_us, collective_us=collective_us).load(tmp_path)
    found = ha.steps(trace)
    assert found["step"].to_list() == list(range(steps))
    length = kernels * (kernel_us + 100) + collective_us + 200
    assert found["dur_ns"].to_list() == [1000 * length] * steps
    linked = trace.sql(
        "select call.name as call, op.name as op, count(*) as count from launch"
        " inner join event as call on launch.runtime_id = call.event_id"
        " inner join event as op on launch.op_id = op.event_id"
        " inner join gpu_op on launch.event_id = gpu_op.event_id group by all"
    )
    assert linked.rows() == [("AscendCL@aclnnMatmul", "aten::mm", steps * (kernels + 1))]
    assert ha.slowest_ops(trace)["name"].to_list() == ["aten::mm"]
    collectives = trace.sql("select name, count(*) from collective_call group by all").rows()
    assert collectives == [("allreduce", steps)]


@pytest.mark.parametrize(("steps", "kernels"), [(1, 2), (3, 8), (5, 3)])
@pytest.mark.parametrize("seed", [None, 11])
def test_work_that_another_thread_launches_belongs_to_the_op_that_asked(
    tmp_path: Path, steps: int, kernels: int, seed: int | None
) -> None:
    built = ascend(steps=steps, kernels=kernels, queued=True, collectives=False, with_tasks=False)
    trace = (built if seed is None else built.shuffled(seed)).load(tmp_path)
    linked = trace.sql(
        "select call.name as call, call_track.tid, op.name as op, count(*) as count from launch"
        " inner join event as call on launch.runtime_id = call.event_id"
        " inner join track as call_track on call.track_id = call_track.track_id"
        " inner join event as op on launch.op_id = op.event_id"
        " inner join event as work on launch.event_id = work.event_id"
        " where work.start_ns - op.start_ns = 80000 group by all"
    )
    assert linked.rows() == [("AscendCL@aclnnMatmul", "5002", "aten::mm", steps * kernels)]
    slowest = ha.slowest_ops(trace).row(0, named=True)
    assert (slowest["name"], slowest["gpu_self_ns"]) == ("aten::mm", steps * kernels * 1_000_000)


@pytest.mark.parametrize("first", [0, 1, 1000])
def test_launches_of_xla(tmp_path: Path, first: int) -> None:
    """Correlation ids are texts, and may begin with 0."""
    trace = xla_gpu(steps=4, devices=2, first=first, copies=False).load(tmp_path)
    linked = trace.sql(
        "select count(*) from launch inner join event as call on launch.runtime_id = call.event_id"
        " inner join event as work on launch.event_id = work.event_id"
        " where call.name = 'cuLaunchKernel' and starts_with(work.name, 'gemm') and work.start_ns >= call.start_ns"
    ).item()
    assert linked == 8


@pytest.mark.parametrize(("steps", "kernel_us"), [(5, 850), (9, 300), (3, 20)])
def test_files_of_xla_get_no_advice_on_pytorchs_profiler(tmp_path: Path, steps: int, kernel_us: int) -> None:
    report = ha.report(xla_gpu(steps=steps, kernel_us=kernel_us).load(tmp_path), source_lines=False)
    assert report.recapture == []
    assert "with_stack" not in report.to_text()
    assert "ProfilerActivity" not in report.to_text()


UNKNOWN = {
    "a device of XLA": ("/device:CUSTOM:Foo", [("a", 1, 0, 1000), ("b", 1, 1000, 250)]),
    "a device in words": ("Acme Accelerator 3", [("x", 2, 40, 60)]),
    "many": ("FPGA card", [(f"k{number}", 1, 20 * number, 10) for number in range(300)]),
    "over each other": ("my device queue", [("long", 1, 0, 900), ("short", 1, 100, 100), ("later", 1, 2000, 5)]),
    "two threads": ("LPU", [("m", 1, 0, 400), ("n", 2, 100, 400)]),
    "instants": ("neuroncore", [("now", 1, 5, 0), ("then", 1, 50, 7)]),
}


@pytest.mark.parametrize("case", UNKNOWN)
@pytest.mark.parametrize("with_host", [False, True])
def test_tracks_that_are_not_understood_are_named(tmp_path: Path, case: str, *, with_host: bool) -> None:
    process, events = UNKNOWN[case]
    built = Foreign().name(6, process)
    for name, tid, start_us, dur_us in events:
        built.event(name, 6, tid, start_us, dur_us)
    if with_host:
        for number in range(40):
            built.event("aten::mm", 50, 50, 100 * number, 80, cat="cpu_op")
            built.event("train.py(1): f", 50, 50, 100 * number, 90, cat="python_function")
    trace = built.shuffled(7).load(tmp_path)
    rows = trace.query("unknown_tracks")
    assert int(rows["event_count"].sum()) == len(events)
    assert int(rows["time_ns"].sum()) == 1000 * sum(dur_us for *_, dur_us in events)
    for tid, row in zip(sorted({tid for _, tid, *_ in events}), rows.sort("track").iter_rows(named=True), strict=True):
        moments = {at for _, other, start, dur in events if other == tid for at in range(start, start + dur)}
        assert row["busy_ns"] == 1000 * len(moments)
        assert row["kind"] == "device"
    by_name = trace.query("unknown_spans", limit=1000)
    assert dict(by_name.select("name", "time_ns").iter_rows()) == {name: 1000 * dur for name, _, _, dur in events}
    report = ha.report(trace, source_lines=False)
    text = report.to_text()
    assert "CPU only" not in text
    assert "nothing was recorded" not in text
    assert "ProfilerActivity" not in text
    assert report.advice == []
    assert report.recapture == []
    assert find_advice(trace) == []
    assert f"`{process}`" in report.facts["device"]
    assert duration(int(rows["busy_ns"].sum())) in report.facts["device"]
    assert report.facts["device"].endswith("this kind is not known")
    assert ha.gpu_or_cpu_bound(trace).answer == "no-run"
    assert trace.sql("select count(*) from nesting").item() == (80 if with_host else 0)


def test_a_few_unknown_events_beside_work_of_a_gpu_are_a_caveat(tmp_path: Path) -> None:
    """A track of 0.1 % of the time changes no verdict, but it is named."""
    built = forked(prefix="xpu", calls=50).name(6, "Acme accelerator").event("w", 6, 1, 0, 5)
    report = ha.report(built.load(tmp_path), source_lines=False)
    assert any("`Acme accelerator`, 5.00 µs in 1 event" in text for text in report.caveats)
    assert report.findings[0].answer != "no-run"


def test_much_unknown_work_beside_that_of_a_gpu_leaves_no_verdict(tmp_path: Path) -> None:
    built = forked(prefix="xpu", calls=50).name(6, "Acme accelerator").event("w", 6, 1, 0, 2500)
    report = ha.report(built.load(tmp_path), source_lines=False)
    assert report.findings[0].answer == "no-run"
    assert report.advice == []


def test_categories_of_others_on_a_thread_of_known_events_are_spans_as_before(tmp_path: Path) -> None:
    built = Foreign()
    for number in range(10):
        built.event("aten::mm", 1, 1, 100 * number, 50, cat="cpu_op")
        built.event("mine", 1, 1, 100 * number + 10, 20, cat="my_words")
    trace = built.load(tmp_path)
    assert trace.query("unknown_tracks").is_empty()
    assert trace.sql("select count(*) from nesting").item() == 20


def test_a_track_of_another_writer_beside_the_program_is_a_caveat(tmp_path: Path) -> None:
    """It is no device by its name: the program's own figures stand."""
    built = Foreign()
    for number in range(10):
        built.event("aten::mm", 1, 1, 100 * number, 50, cat="cpu_op")
        built.event("poll", 2, 2, 100 * number, 30, cat="monitor")
    report = ha.report(built.load(tmp_path), source_lines=False)
    assert any("`process 2`, 300 µs in 10 events of category `monitor`" in text for text in report.caveats)
    assert report.facts["device"] == "CPU only"


@pytest.mark.parametrize("label", ["GPU 0", "NPU"])
def test_other_events_on_tracks_of_known_work_are_no_kernels(tmp_path: Path, label: str) -> None:
    """Kineto puts counters and insights of a device on its tracks, with categories of their own."""
    built = forked(prefix="xpu", calls=5).name(0, "python3", label)
    built.event("insight", 0, 3, 0, 1000, cat="mtia_insight").event("odd", 0, 3, 0, 1000, cat="odd_thing")
    trace = built.load(tmp_path)
    assert trace.sql("select count(*) from launch").item() == 10
    assert isinstance(trace.query("unknown_tracks"), pl.DataFrame)
