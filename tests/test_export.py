"""Trace files for Perfetto: nothing of the original is lost, and what is added is as the viewer wants it."""

from __future__ import annotations

import gzip
import json
import os
from collections import defaultdict
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner

import hotline_analysis as ha
from hotline_analysis import Trace
from hotline_analysis.cli import app
from hotline_analysis.errors import ExportExistsError, HotlineError, HotlineWarning, QueryParameterError
from hotline_analysis.export import perfetto
from hotline_analysis.schema import READ_TABLES, derived_tables
from tests.runs import opened
from tests.trace_builder import TraceBuilder

Event = dict[str, Any]
TRACES = Path(os.environ.get("HOTLINE_TRACES", "/nowhere"))
REAL = [
    "inference/bert_small_h100.json.gz",
    "inference/sglang_graph_replay_mi300.json.gz",
    "counters/alexnet_cupti_a100.json.gz",
    "robustness/gpu_only_mi210.json.gz",
]


def read(path: Path) -> dict[str, Any]:
    data = path.read_bytes()
    text = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    content: dict[str, Any] = json.loads(text, parse_float=Decimal)
    return content


def exported(trace: Trace, folder: Path, **options: Any) -> list[Event]:
    events: list[Event] = read(ha.export_perfetto(trace, folder / "out.json", overwrite=True, **options))["traceEvents"]
    return events


def added(events: list[Event]) -> list[Event]:
    return [event for event in events if event.get("cat") == "hotline"]


def training() -> TraceBuilder:
    """Two steps with a module, a copy and a collective, on two threads and two streams; memory; hostile names."""
    trace = TraceBuilder(rank=2, world_size=4, deviceProperties=[{"id": 0, "name": 'a "GPU"'}], odd=[1.25, None])
    trace.process_name("python").thread_name("main \u2028 thread")
    for number in range(2):
        at = 1000 * number
        trace.on(1).step(number, at, at + 900)
        trace.module("Net", 0, at + 100, at + 300).module('Lin"ear\\', 0, at + 110, at + 200)
        shapes: dict[str, Any] = {"Input Dims": [[2, 3], []], "Call stack": "a;\n\tb"}
        trace.op("aten::mm", f"{at + 120}.125", at + 180, seq=5, **shapes)
        grid: dict[str, Any] = {"grid": [1, 2, 3], "est. achieved occupancy %": 12.5}
        trace.launches("</script>", f"{at + 500}.001", at + 600, **grid)
        trace.op("aten::copy_", at + 210, at + 250).launches(
            "Memcpy HtoD (Pageable -> Device)", at + 600, at + 650, category="gpu_memcpy", bytes=64_000, stream=8
        )
        trace.flow("fwdbwd", f"0x{number}f", (f"{at + 120}.125", 1), (at + 400, 2))
        trace.memory(512, at + 130, total=2048, device=0, address=7)
        trace.on(2).backward("MmBackward0", at + 400, at + 450, seq=5).launches("ncclKernel", at + 700, at + 750)
    return trace


def odd_events() -> TraceBuilder:
    """What few traces have: begin and end, texts for numbers, unknown fields and args, counters, damage."""
    trace = TraceBuilder()
    trace.event(ph="B", name="old", cat="Operator", pid=1, tid="a thread", ts=Decimal("5.5"))
    trace.event(ph="E", name="old", cat="Operator", pid=1, tid="a thread", ts=Decimal("9.5"))
    trace.event(ph="X", name="nul \x00 \u202e \U0001f600", cat="X", pid="Spans", tid=-1, ts=1, dur=2, args={})
    trace.event(
        ph="X", name="more", cat="kernel", pid=0, tid=7, ts=3, dur=1, args={"device": 0, "new": [1, {"a": None}]}
    )
    trace.event(ph="X", name="top", cat="cpu_op", pid=1, tid=1, ts=4, dur=1, tts=3, id={"local": "x"})
    trace.event(ph="i", name="mark", s="g", pid="Traces", tid="t", ts=Decimal("123456789.001"))
    trace.event(ph="C", name="count", pid=1, ts=4, args={"a": 1, "b": Decimal("2.5")})
    trace.event(ph="C", name="text", pid=1, ts=4, args={"a": "x"})
    trace.event(ph="X", name="negative", cat="cpu_op", pid=1, tid=1, ts=Decimal("-5.25"), dur=Decimal("0.001"))
    trace.event(
        ph="X", name="huge", cat="cpu_op", pid=1, tid=1, ts=1669783687464181, dur=4, args={"Sequence number": 1}
    )
    trace.event(ph="N", name="object", id="0x1", pid=1, tid=1, ts=7)
    return trace


# --- the original ----------------------------------------------------------------------------------------------------


def same_when_read_again(trace: Trace, folder: Path) -> None:
    """Every table of the file and of the annotation is the same, up to what was added behind."""
    path = ha.export_perfetto(trace, folder / "again.json.gz", overwrite=True)
    last = trace.sql("select max(event_id) from event").item()
    with ha.load(path) as again:
        for table in (*READ_TABLES, *derived_tables()):
            if table.name in {"rank_info", "track", "name_info"}:
                continue
            before, after = trace.table(table.name), again.table(table.name)
            if "event_id" in before.columns and (table.kind == "read" or table.name == "lone_event"):
                after = after.filter(pl.col("event_id") <= last)
            if table.name == "phase_span":
                # Of two events with equal times, either may stand for the phase.
                before, after = before.drop("event_id"), after.drop("event_id")
            assert after.sort(after.columns).equals(before.sort(before.columns)), table.name
        tracks = trace.table("track")
        assert again.table("track").head(tracks.height).equals(tracks)
        kept = ["start_ns", "end_ns", "world_size", "with_stack", "profile_memory", "metadata"]
        assert again.table("rank_info").select(kept).equals(trace.table("rank_info").select(kept))


@pytest.mark.filterwarnings("ignore::hotline_analysis.HotlineWarning")  # of the time that is far from the others
@pytest.mark.parametrize("builder", [training(), odd_events()], ids=["training", "odd"])
def test_reading_the_export_gives_the_same_tables(builder: TraceBuilder, tmp_path: Path) -> None:
    same_when_read_again(builder.load(tmp_path), tmp_path)


def test_events_are_those_of_the_file(tmp_path: Path) -> None:
    """Of a captured trace, each event with each of its fields and args, and what stands beside the events."""
    original = read(ha.demo_trace())
    copy = read(ha.export_perfetto(ha.load(ha.demo_trace()), tmp_path / "copy.json"))
    count = len(original["traceEvents"])
    assert copy["traceEvents"][:count] == original["traceEvents"]
    assert {**copy, "traceEvents": []} == {**original, "traceEvents": []}
    assert {event["cat"] for event in copy["traceEvents"][count:]} == {"hotline"}


@pytest.mark.traces
@pytest.mark.parametrize("name", REAL)
def test_real_traces(name: str, tmp_path: Path) -> None:
    trace = opened(TRACES / name)
    same_when_read_again(trace, tmp_path)
    slices_nest(added(exported(trace, tmp_path)))
    follows_the_format(read(tmp_path / "out.json"), ours_only=True)
    step = trace.sql("select event_id from step where event_id is not null order by event_id")["event_id"]
    longest = trace.sql("select event_id from nesting order by end_ns - start_ns desc, event_id")["event_id"]
    for span in (*step.head(1), *longest.head(1)):
        slices_nest(added(exported(trace, tmp_path, span=span)))
        follows_the_format(read(tmp_path / "out.json"), ours_only=False)


def test_an_export_of_an_export_has_the_tracks_once(tmp_path: Path) -> None:
    first = exported(training().load(tmp_path), tmp_path)
    with ha.load(tmp_path / "out.json") as trace:
        again = read(ha.export_perfetto(trace, tmp_path / "second.json"))["traceEvents"]
    assert again == first


# --- what is added ---------------------------------------------------------------------------------------------------


def slices_nest(events: list[Event]) -> None:
    """Slices of a thread lie in each other or apart; numbers fit 32 bits; each thread and process has one name."""
    threads = defaultdict(list)
    for event in events:
        assert 0 <= event["pid"] < 2**32
        if event["ph"] == "X":
            assert event["pid"] < event["tid"] < 2**32
            threads[event["tid"]].append((event["ts"], -event["dur"]))
    for slices in threads.values():
        open_until: list[Decimal] = []
        for start, minus_dur in sorted(slices):
            while open_until and open_until[-1] <= start:
                open_until.pop()
            assert not open_until or start - minus_dur <= open_until[-1]
            open_until.append(start - minus_dur)
    named = [event for event in events if event["ph"] == "M" and event["name"] == "thread_name"]
    assert len({event["tid"] for event in named}) == len(named)
    assert {event["tid"] for event in named} == set(threads)
    processes = [event["pid"] for event in events if event["ph"] == "M" and event["name"] == "process_name"]
    assert len(set(processes)) == len(processes)
    assert {event["pid"] for event in named} == set(processes)


def follows_the_format(content: dict[str, Any], *, ours_only: bool) -> None:
    """What the Trace Event Format asks for, which Perfetto and chrome://tracing read; and of our events, a little more.

    Perfetto drops what breaks these rules, or shows it elsewhere. What the profiler wrote is copied as it is, so that
    of a whole file only the events that we add can be judged; of a part, arrows must have both ends, too.
    """
    events: list[Event] = content["traceEvents"]
    arrows: dict[tuple[Any, ...], list[str]] = defaultdict(list)
    for event in events:
        if ours_only and event.get("cat") != "hotline":
            continue
        kind = event["ph"]
        assert len(kind) == 1
        assert isinstance(event["name"], str)
        assert isinstance(event["pid"], int | str)
        assert kind == "M" or isinstance(event["ts"], int | Decimal)
        if kind == "X":
            assert isinstance(event["tid"], int | str)
            assert event["dur"] >= 0
        elif kind == "C":
            assert event["args"]
            assert all(isinstance(value, int | Decimal) for value in event["args"].values())
        elif kind == "M":
            assert event["name"] in {f"{who}_{what}" for who in ("process", "thread") for what in KNOWN_METADATA}
            assert event["args"]
        elif kind in "stf":
            arrows[event["cat"], event["id"]].append(kind)
    assert all({"s", "f"} <= set(kinds) for kinds in arrows.values())


KNOWN_METADATA = ("name", "labels", "sort_index")


def slices(events: list[Event], process: str, thread: str) -> list[tuple[Any, ...]]:
    """Name, start and end of the slices of one of our tracks, in order."""
    names = {(e["pid"], e.get("tid"), e["name"]): e["args"].get("name") for e in events if e["ph"] == "M"}
    return [
        (event["name"], event["ts"], event["ts"] + event["dur"])
        for event in sorted(events, key=lambda event: (event["ts"], -event.get("dur", 0)))
        if event["ph"] == "X"
        and names[event["pid"], None, "process_name"] == process
        and names[event["pid"], event["tid"], "thread_name"] == thread
    ]


def test_steps_and_modules_of_the_cpu(tmp_path: Path) -> None:
    events = added(exported(training().load(tmp_path), tmp_path))
    slices_nest(events)
    follows_the_format(read(tmp_path / "out.json"), ours_only=True)
    assert slices(events, "hotline: CPU", "steps") == [("step 0", 0, 900), ("step 1", 1000, 1900)]
    modules = slices(events, "hotline: CPU", "modules, main \u2028 thread")
    assert modules[:2] == [("Net_0", 100, 300), ('Lin"ear\\_0', 110, 200)]
    phases = slices(events, "hotline: CPU", "phases, thread 2")
    assert [(name, start) for name, start, _ in phases] == [("backward", 400), ("backward", 1400)]


def test_gpu_work_is_marked_with_what_launched_it(tmp_path: Path) -> None:
    """On stream 7: the kernel of the inner module at 500 to 600, that of backward at 700; between them, nothing."""
    events = added(exported(training().load(tmp_path), tmp_path))
    first = [row for row in slices(events, "hotline: GPU 0", "stream 7: steps, phases, modules") if row[1] < 1000]
    start = Decimal("500.001")
    assert first == [
        ("step 0", start, 750),
        ("forward", start, 600),
        ("Net_0", start, 600),
        ('Lin"ear\\_0', start, 600),
        ("backward", 700, 750),
        ("Net_0", 700, 750),
        ('Lin"ear\\_0', 700, 750),
    ]


def test_modules_that_only_have_a_number_show_their_type(tmp_path: Path) -> None:
    """Two layers of a `Sequential`, named by a list: `0` and `1` would say nothing, on the CPU as on the GPU."""
    trace = TraceBuilder()
    trace.on(1).step(0, 0, 900)
    trace.op("aten::linear", 100, 200).launches("gemm", 300, 400)
    trace.op("aten::relu", 210, 250).launches("clamp", 400, 450)
    model = tmp_path / "model.json"
    modules = {"net": "Sequential", "net.0": "Linear", "net.1": "ReLU"}
    model.write_text(json.dumps([{"name": name, "type": kind} for name, kind in modules.items()]))
    loaded = ha.load(trace.write(tmp_path / "trace.json"), model=model)
    shown = [event for event in added(exported(loaded, tmp_path)) if event.get("args", {}).get("kind") == "module"]
    numbered = {(event["name"], event["args"]["path"]) for event in shown if event["args"]["path"] != "net"}
    assert numbered == {("[0] Linear", "net.0"), ("[1] ReLU", "net.1")}
    assert {event["pid"] for event in shown if event["name"] == "[0] Linear"} == {event["pid"] for event in shown}


def test_the_critical_path_has_tracks(tmp_path: Path) -> None:
    """The second step's last kernel ends at 1750, the step at 1900: the main thread is what the run waits for."""
    trace = training().load(tmp_path)
    events = added(exported(trace, tmp_path))
    bounds = slices(events, "hotline: critical path", "bound by")
    places = slices(events, "hotline: critical path", "module, phase or GPU work")
    for rows in (bounds, places):
        assert (rows[0][1], rows[-1][2]) == (0, 1900)
        assert [row[1] for row in rows[1:]] == [row[2] for row in rows[:-1]]
    assert {name for name, *_ in bounds} == set(ha.critical_path_breakdown(trace)["bound_by"])
    # autograd's thread works for the module from 400 to 450, and the main thread waits for it
    assert {("Net_0", 200, 300), ('Net_0.Lin"ear\\_0', 400, 450)} <= set(places)
    inside = added(
        exported(trace, tmp_path, span=trace.sql("from event where name = 'nn.Module: Net_0'")["event_id"][0])
    )
    assert slices(inside, "hotline: critical path", "bound by")[0][1] == 100


def test_counters_are_those_of_the_answers(tmp_path: Path) -> None:
    trace = training().load(tmp_path)
    samples: dict[str, list[tuple[int, Any]]] = defaultdict(list)
    for event in added(exported(trace, tmp_path)):
        if event["ph"] == "C":
            for series, value in event["args"].items():
                assert isinstance(value, int | Decimal)
                samples[f"{event['name']} {series}"].append((int(event["ts"] * 1000), float(value)))
    queue = ha.queue_length(trace, stream=7).select("start_ns", pl.col("queue_length").cast(pl.Float64)).rows()
    assert samples.pop("queue length, stream 7 launches") == queue
    assert len(samples.pop("queue length, stream 8 launches")) == 4
    assert samples.pop("bandwidth, Memcpy HtoD GB/s") == [
        (600_000, 1.28), (650_000, 0), (1_600_000, 1.28), (1_650_000, 0)
    ]  # fmt: skip
    assert samples.pop("memory, cuda allocated") == [(130_000, 2048), (1_130_000, 2048)]
    assert samples.pop("memory, cuda reserved") == [(130_000, 2048), (1_130_000, 2048)]
    assert samples == {}


def test_annotation_can_be_left_out(tmp_path: Path) -> None:
    builder = training()
    events = exported(builder.load(tmp_path), tmp_path, annotate=False)
    assert len(events) == len(builder.events)


def test_threads_of_the_same_name_have_tracks_of_their_own(tmp_path: Path) -> None:
    trace = TraceBuilder().step(0, 0, 100)
    for tid in (1, 2):
        trace.on(tid).thread_name("worker").annotation("## forward ##", 10 * tid, 10 * tid + 15)
    slices_nest(added(exported(trace.load(tmp_path), tmp_path)))


# --- a part ----------------------------------------------------------------------------------------------------------


def part(trace: Trace, span: int, folder: Path) -> Iterator[str]:
    """Names of the events of a part with a duration, in order of the file."""
    events = exported(trace, folder, span=span)
    slices_nest(added(events))
    follows_the_format(read(folder / "out.json"), ours_only=False)
    return (event["name"] for event in events if event["ph"] == "X" and event["cat"] != "hotline")


def test_a_part_is_what_lies_in_a_span_and_what_it_launched(tmp_path: Path) -> None:
    builder = training()
    trace = builder.load(tmp_path)
    module, op = builder.ids('nn.Module: Lin"ear\\_0')[0], builder.ids("aten::mm")[0]
    inside = ["aten::mm", "cudaLaunchKernel", "</script>"]
    assert list(part(trace, module, tmp_path)) == ['nn.Module: Lin"ear\\_0', *inside]
    assert list(part(trace, op, tmp_path)) == inside
    events = exported(trace, tmp_path, span=op)
    assert [event["ts"] for event in events if event["name"] == "[memory]"] == [130]
    assert {event["name"] for event in events if event["ph"] == "M" and "cat" not in event} == {
        "process_name",
        "thread_name",
    }
    kernel = builder.ids("</script>")[0]
    assert list(part(trace, kernel, tmp_path)) == ["cudaLaunchKernel", "</script>"]
    assert slices(added(exported(trace, tmp_path, span=module)), "hotline: CPU", "steps") == [("step 0", 110, 200)]
    whole, small = (
        ha.export_perfetto(trace, tmp_path / name, span=span).stat().st_size
        for name, span in (("whole.json", None), ("small.json", op))
    )
    assert small < whole / 2


def test_backward_belongs_to_what_waits_for_it(tmp_path: Path) -> None:
    """It runs on a thread of its own, and GPU work may end after the step."""
    builder = TraceBuilder(rank=0)
    for at in (0, 1000):
        builder.on(1).step(at // 1000, at, at + 500).op("forward", at + 10, at + 100, seq=at)
        builder.annotation("loss.backward", at + 200, at + 390).op("item", at + 400, at + 420)
        builder.on(2).backward("MmBackward0", at + 210, at + 380, seq=at).launches("grad", at + 600, at + 700)
        builder.on(3).op("pin_memory", at + 300, at + 320)
    trace = builder.load(tmp_path)
    backward = ["autograd::engine::evaluate_function: MmBackward0", "MmBackward0"]
    launched = ["cudaLaunchKernel", "grad"]
    step = builder.ids("ProfilerStep#1")[0]
    assert sorted(part(trace, step, tmp_path)) == sorted(
        ["ProfilerStep#1", "forward", "loss.backward", "item", "pin_memory", *backward, *launched]
    )
    waiting = builder.ids("loss.backward")[1]
    assert sorted(part(trace, waiting, tmp_path)) == sorted(["loss.backward", *backward, *launched])
    assert list(part(trace, builder.ids("forward")[0], tmp_path)) == ["forward"]
    # What the engine's thread does has only its own time.
    assert sorted(part(trace, builder.ids("MmBackward0")[1], tmp_path)) == sorted(["MmBackward0", *launched])


def test_arrows_of_a_part_have_both_ends(tmp_path: Path) -> None:
    """The kernel's arrow comes with its op, the arrow to backward does not."""
    trace = TraceBuilder().op("aten::mm", 0, 10).launches("k", 20, 30, at=2)
    trace.flow("ac2g", 1, (2, 1), (20, 7), target_pid=0).flow("fwdbwd", 1, (0, 1), (50, 2))
    trace.on(2).op("MmBackward0", 50, 60)
    events = exported(trace.load(tmp_path), tmp_path, span=trace.ids("aten::mm")[0])
    assert [(event["ph"], event["cat"]) for event in events if event["ph"] in "sf"] == [("s", "ac2g"), ("f", "ac2g")]


# --- the file --------------------------------------------------------------------------------------------------------


def test_it_is_compressed_by_its_name(tmp_path: Path) -> None:
    trace = training().load(tmp_path)
    plain, packed = (ha.export_perfetto(trace, tmp_path / name) for name in ("a.json", "a.json.gz"))
    assert packed.read_bytes()[:2] == b"\x1f\x8b"
    assert gzip.decompress(packed.read_bytes()) == plain.read_bytes()


def test_the_file_appears_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = training().load(tmp_path)
    out = tmp_path / "out" / "trace.json"

    def full(*_: object) -> Iterator[pl.Series]:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(perfetto, "annotation", full)
    with pytest.raises(HotlineError, match="No space left"):
        ha.export_perfetto(trace, out)
    assert list(out.parent.iterdir()) == []
    monkeypatch.undo()
    ha.export_perfetto(trace, out)
    with pytest.raises(ExportExistsError):
        ha.export_perfetto(trace, out)
    with pytest.raises(ExportExistsError, match="is a folder"):
        ha.export_perfetto(trace, out.parent)
    assert [path.name for path in out.parent.iterdir()] == ["trace.json"]


def test_chunks_make_no_difference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = training().load(tmp_path)
    whole = exported(trace, tmp_path)
    some = exported(trace, tmp_path, span=4)
    monkeypatch.setattr(perfetto, "_CHUNK", 3)
    assert exported(trace, tmp_path) == whole
    assert exported(trace, tmp_path, span=4) == some


def test_what_is_not_there_is_an_error(tmp_path: Path) -> None:
    trace = training().load(tmp_path)
    for rank, span in ((0, None), (None, 10_000), (None, -1)):
        with pytest.raises(QueryParameterError):
            ha.export_perfetto(trace, tmp_path / "no.json", rank=rank, span=span)
    assert not (tmp_path / "no.json").exists()
    for rank in (0, 1):
        TraceBuilder(rank=rank).op(f"op{rank}", 0, 1).write(tmp_path / f"rank{rank}.json")
    with ha.load([tmp_path / "rank0.json", tmp_path / "rank1.json"]) as both:
        with pytest.raises(QueryParameterError, match="several"):
            ha.export_perfetto(both, tmp_path / "no.json")
        assert exported(both, tmp_path, rank=1)[0]["name"] == "op1"


def test_the_command(tmp_path: Path) -> None:
    source, out = training().write(tmp_path / "trace.json"), tmp_path / "out.json.gz"
    command = ["export", str(source), "--format", "perfetto", "-o", str(out)]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    assert "ui.perfetto.dev" in done.output
    assert CliRunner().invoke(app, [*command, "--span", "3", "--overwrite"]).exit_code == 0
    assert CliRunner().invoke(app, ["export", str(source), "-o", str(tmp_path / "d"), "--span", "3"]).exit_code == 2


def test_numbers_that_json_does_not_have_are_null(tmp_path: Path) -> None:
    """Viewers refuse a file with one NaN. A text that says so stays."""
    numbers: dict[str, Any] = {
        "a": float("nan"),
        "b": [1, float("-inf")],
        "c": "x: nan, -inf",
        "Input type": "nan",
        "d": 'say "NaN"',
    }
    trace = TraceBuilder(odd=[float("inf"), "inf"]).op("aten::mm", 0, 10, **numbers)
    trace.op("nan", 20, 30, note="nan").counter("c", 5, x=float("inf"), y=2.0)
    with pytest.warns(HotlineWarning, match="values that JSON does not have"):
        opened = trace.load(tmp_path)
    path = ha.export_perfetto(opened, tmp_path / "out.json")

    def refuse(text: str) -> None:
        raise AssertionError(text)

    file = json.loads(path.read_text(), parse_constant=refuse)
    found = {event["name"]: event["args"] for event in file["traceEvents"] if event.get("cat") == "cpu_op"}
    assert {key: found["aten::mm"][key] for key in "abcd"} == {
        "a": None,
        "b": [1, None],
        "c": "x: nan, -inf",
        "d": 'say "NaN"',
    }
    assert found["nan"]["note"] == "nan"
    assert file["odd"] == [None, "inf"]


def test_spans_of_the_annotation_are_numbered_on_their_thread(tmp_path: Path) -> None:
    """`annotation_track`: a module in another, the phases, which fill the step, and the step."""
    trace = TraceBuilder(rank=0).step(3, 0, 100).module("Net", 0, 0, 90).module("Linear", 0, 10, 40)
    trace.op("aten::linear", 15, 35)
    spans = trace.load(tmp_path).query("annotation_track")
    columns = ("place", "depth", pl.col("start_ns") // 1000, pl.col("end_ns") // 1000, "name", "path", "type", "pass")
    assert spans.filter(kind="module").select(columns).rows() == [
        (0, 0, 0, 90, "Net_0", "Net_0", "Net", "forward"),
        (1, 1, 10, 40, "Linear_0", "Net_0.Linear_0", "Linear", "forward"),
    ]
    assert spans.filter(kind="step").select(columns).rows() == [(0, 0, 0, 100, "step 3", None, None, None)]
    phases = spans.filter(kind="phase")
    assert phases["place"].to_list() == list(range(phases.height))
    assert (phases["end_ns"] - phases["start_ns"]).sum() == 100_000


def test_gpu_work_comes_in_the_order_of_its_streams(tmp_path: Path) -> None:
    """`gpu_annotation`: work without a launch has no step."""
    trace = TraceBuilder(rank=0).step(3, 0, 100).op("aten::mm", 0, 20).launches("late", 60, 70, stream=9)
    trace.launches("early", 30, 40, stream=9).kernel("stray", 50, 55, stream=7)
    work = trace.load(tmp_path).query("gpu_annotation")
    [late], [early], [stray] = (trace.ids(name) for name in ("late", "early", "stray"))
    assert work.select("event_id", "device", "stream", pl.col("start_ns") // 1000, "step").rows() == [
        (stray, 0, 7, 50, None),
        (early, 0, 9, 30, 3),
        (late, 0, 9, 60, 3),
    ]


def test_an_event_is_written_with_all_that_the_file_says_of_it(tmp_path: Path) -> None:
    """`perfetto_event`: the same fields and args, in whatever order."""
    trace = TraceBuilder(rank=0).op("aten::mm", "10.125", 20, seq=4).launches("gemm", 30, 40, at=12)
    texts = trace.load(tmp_path).query("perfetto_event", first_id=0, last_id=2)["json"].to_list()
    assert [json.loads(text) for text in texts] == json.loads(trace.text())["traceEvents"][:3]
