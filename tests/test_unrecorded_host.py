"""Recorders that do not show what the host does between events: that time is not known, and is never called python.

In each file the work of 600 us begins each 1,000 us, six times. Times are in microseconds.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import hotline_analysis as ha
from hotline_analysis import Trace
from hotline_analysis.answers.rules import find_advice
from tests.derive.tables import step_rows
from tests.foreign_traces import Foreign, ibm_aiu, xla_tpu
from tests.trace_builder import TraceBuilder

STARTS = range(0, 6000, 1000)


def xla_stream() -> Foreign:
    trace = Foreign().name(1, "/device:GPU:0", t7="Stream #7(Compute)")
    for at in STARTS:
        trace.does("computation", f"fusion_{at}", 1, 7, at + 60, 600, args={"correlation_id": str(at)})
    return trace


def xla_spans(*, frames: bool = False) -> Foreign:
    trace = xla_stream().name(701, "/host:CPU", t1="python")
    for at in STARTS:
        trace.event("PjitFunction(step)", 701, 1, at, 100)
        trace.event("cuLaunchKernel", 701, 1, at + 20, 30, args={"correlation_id": str(at)})
        if frames:
            trace.event("$train.py:12 step", 701, 1, at, 200)
    return trace


def on_device(process: str, thread: str, name: str, **args: str) -> Foreign:
    trace = Foreign().name(3, process, t1=thread)
    for at in STARTS:
        trace.does("computation", name, 3, 1, at, 600, args=args)
    return trace


def kineto_kernels(*, calls: bool, ops: bool = False) -> TraceBuilder:
    trace = TraceBuilder()
    for number, at in enumerate(STARTS):
        if ops:
            trace.op("aten::mm", at, at + 100)
        if calls:
            trace.runtime("cudaLaunchKernel", at + 20, at + 50, correlation=number + 1)
        trace.kernel("gemm", at + 60, at + 660, correlation=number + 1)
    return trace


def idle(trace: Trace) -> dict[str, int]:
    rows = trace.sql("select cause, sum(end_ns - start_ns)::bigint // 1000 from idle_part group by all").rows()
    return dict(rows)


# Between the end of the work and the next call, 340 us each, no event is on the thread. The first call and each
# further call of a function begin 20 us before the launch, and the launch 40 us before the work.
SPANS = {"op": 120, "launch": 240, "unknown": 1700}
CALLS = {"launch": 240, "unknown": 1800}  # the first call is the file's first event
UNRECORDED: dict[str, tuple[Callable[[], Foreign | TraceBuilder], dict[str, int]]] = {
    "spans of XLA": (xla_spans, SPANS),
    "spans of XLA, shuffled": (lambda: xla_spans().shuffled(3), SPANS),
    "calls of CUDA alone": (lambda: kineto_kernels(calls=True), CALLS),
    "a TPU": (xla_tpu, {"unknown": 2105}),
    "an AIU": (lambda: ibm_aiu(devices=1), {"unknown": 400}),
    "a stream of XLA alone": (xla_stream, {"unknown": 2000}),
    "a TPU alone": (lambda: on_device("/device:TPU:0", "XLA Ops", "fusion.1"), {"unknown": 2000}),
    "a Gaudi alone": (lambda: on_device("Gaudi 0", "MME 0", "gemm"), {"unknown": 2000}),
    "an Ascend NPU alone": (
        lambda: on_device("Ascend Hardware", "Stream 2", "MatMulV3", **{"Task Type": "AI_CORE"}),
        {"unknown": 2000},
    ),
    "kernels alone": (lambda: kineto_kernels(calls=False), {"unknown": 2000}),
}


@pytest.mark.parametrize("case", UNRECORDED)
def test_time_without_host_events_is_unknown(tmp_path: Path, case: str) -> None:
    build, expected = UNRECORDED[case]
    trace = build().load(tmp_path)
    assert idle(trace) == expected
    limits = set(ha.step_limits(trace)["limit"])
    assert not limits & {"python", "cpu_tensor"}
    assert find_advice(trace) == []
    text = ha.report(trace, source_lines=False).to_text()
    assert "cause not in the file" in text
    assert "python" not in text.lower()


def test_the_sentence_says_so_without_a_gain(tmp_path: Path) -> None:
    """Of 5,660 us, the call of each step takes 100 us, and 4,500 us are between the calls."""
    report = ha.report(xla_spans().load(tmp_path), source_lines=False)
    assert report.sentence is not None
    assert report.sentence.text == (
        "For 80 % of the time, the trace has no host events, so it does not tell the cause."
    )
    assert report.sentence.without_ns is None


@pytest.mark.parametrize(
    "build", [lambda: xla_spans(frames=True), lambda: kineto_kernels(calls=True, ops=True)], ids=["frames", "ops"]
)
def test_where_frames_or_ops_are_recorded_the_rest_is_python(
    tmp_path: Path, build: Callable[[], Foreign | TraceBuilder]
) -> None:
    found = idle(build().load(tmp_path))
    assert found == {"op": 120, "launch": 240, "python": 1700}


def test_each_process_needs_its_own_evidence(tmp_path: Path) -> None:
    """Two hosts of XLA: the frames of the second do not tell what the first does between its calls."""
    trace = xla_spans().name(801, "/host:python-tracer", t5="python")
    trace.event("$data.py:3 load", 801, 5, 0, 50)
    loaded = trace.load(tmp_path)
    asked = "select track.pid, is_recorded from loop_thread inner join track using (track_id)"
    rows = step_rows(loaded, "host_activity", asked)
    assert rows == [("701", False)]
    assert idle(loaded) == SPANS
