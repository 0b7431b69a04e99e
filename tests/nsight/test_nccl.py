"""Collectives of an export: the ranges that NCCL pushes name the size of the message and the communicator."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import hotline_analysis as ha
from tests.derive.tables import every_table
from tests.nsight_export import SCHEMAS, both_know, global_id, write_export
from tests.trace_builder import PID, TraceBuilder

MAIN = global_id(PID, 1)
RANKS, ID = 4, 12_345_678_901
Call = tuple[str, int, int, int | None]
"""Name, start and end in microseconds, and bytes of a range of NCCL; None for a range without a size."""


def row(text: str, start: int, end: int | None, **more: Any) -> list[object]:
    """A row of `NVTX_EVENTS`; both schemas begin with these columns."""
    values = {"start": start, "end": end, "eventType": 59, "text": text, "globalTid": MAIN, "domainId": 4, **more}
    names = (
        *("start", "end", "eventType", "rangeId", "category", "color", "text", "globalTid", "endGlobalTid", "textId"),
        *("domainId", "uint64Value", "int64Value", "doubleValue", "uint32Value", "int32Value", "floatValue"),
        *("jsonTextId", "jsonText"),
    )
    return [values.get(name) for name in names]


def payload(**fields: object) -> str:
    """The fields that NCCL declares, as `NVTX_PAYLOAD_SCHEMA_ENTRIES` of a real export names them."""
    names = {
        "id": "NCCL communicator ID",
        "bytes": "Message size [bytes]",
        "ranks": "No. of ranks",
        "peer": "Peer rank",
    }
    return json.dumps({names[key]: value for key, value in fields.items()})


def found(
    folder: Path,
    calls: list[Call],
    launches: list[tuple[int, str]],
    *,
    schema: str = "2026.2",
    has_communicator: bool = True,
) -> list[tuple[str, int | None, str, int | None]]:
    """The collectives of a step with these calls and launches (time in microseconds and name of the kernel)."""
    trace = TraceBuilder().step(0, 0, 900)
    for at, name in launches:
        trace.runtime("cudaLaunchKernelExC", at, at + 1, correlation=at).kernel(name, at + 5, at + 9, correlation=at)
    rows = [row("NCCL", 0, None, eventType=75)]
    if has_communicator:
        rows.append(row("ncclCommInitRank", 1_000, 2_000, jsonText=payload(id=ID, ranks=RANKS)))
    rows += [
        row(name, 1_000 * start, 1_000 * end, jsonText=None if size is None else payload(id=ID, bytes=size))
        for name, start, end, size in calls
    ]
    if schema == "2026.2":
        rows = [[*each, None] for each in rows]
    events = both_know(trace.events, {}, schema)
    path = write_export(folder / "report.sqlite", events, {}, schema, {"NVTX_EVENTS": rows}, pid=PID)
    return ha.load(path).sql("select name, bytes, group_name, group_size from collective_call order by start_ns").rows()


ALL, GATHER, SCATTER, SEND = (
    f"ncclDevKernel_{name}" for name in ("AllReduce_Sum_f32_RING_LL", "AllGather", "ReduceScatter", "SendRecv")
)


@pytest.mark.parametrize("schema", SCHEMAS)
def test_a_call_launches_its_kernel(schema: str, tmp_path: Path) -> None:
    calls: list[Call] = [("ncclAllReduce", 10, 20, 4_096)]
    assert found(tmp_path, calls, [(12, ALL)], schema=schema) == [("allreduce", 4_096, str(ID), RANKS)]


@pytest.mark.parametrize(
    ("name", "kernel", "kind", "size"),
    [
        # a part for each rank
        ("ncclAllGather", GATHER, "allgather", RANKS * 1_000),
        ("ncclReduceScatter", SCATTER, "reducescatter", RANKS * 1_000),
        ("ncclSend", SEND, "send", 1_000),
    ],
)
def test_the_size_is_of_the_whole_message(name: str, kernel: str, kind: str, size: int, tmp_path: Path) -> None:
    assert found(tmp_path, [(name, 10, 20, 1_000)], [(12, kernel)]) == [(kind, size, str(ID), RANKS)]


def test_without_the_number_of_ranks_a_part_does_not_tell_the_whole(tmp_path: Path) -> None:
    calls: list[Call] = [("ncclAllGather", 10, 20, 1_000), ("ncclAllReduce", 30, 40, 8)]
    rows = found(tmp_path, calls, [(12, GATHER), (32, ALL)], has_communicator=False)
    assert rows == [("allgather", None, str(ID), None), ("allreduce", 8, str(ID), None)]


def test_the_end_of_a_group_launches_its_calls(tmp_path: Path) -> None:
    """As torch.distributed calls NCCL: each call is in a group. Groups can be nested; the outermost end launches."""
    calls: list[Call] = [
        ("ncclGroupStart", 10, 11, None),
        ("ncclAllReduce", 12, 13, 100),
        ("ncclGroupEnd", 14, 20, None),
        ("ncclGroupStart", 30, 31, None),
        ("ncclGroupStart", 32, 33, None),
        ("ncclAllReduce", 34, 35, 30),
        ("ncclGroupEnd", 36, 37, None),
        ("ncclAllReduce", 38, 39, 12),
        ("ncclGroupEnd", 40, 50, None),
        ("ncclAllReduce", 60, 70, 5),
    ]
    rows = found(tmp_path, calls, [(15, ALL), (45, ALL), (65, ALL)])
    assert [(name, size) for name, size, _, _ in rows] == [("allreduce", 100), ("allreduce", 42), ("allreduce", 5)]


@pytest.mark.parametrize(
    ("names", "sizes", "kernels", "expected"),
    [
        (("ncclSend", "ncclRecv"), (10, 20), 1, [("sendrecv", 30)]),
        (("ncclAllReduce", "ncclAllReduce"), (10, 10), 2, [("allreduce", 10)] * 2),
        # nobody knows which kernel has which size
        (("ncclAllReduce", "ncclAllReduce"), (10, 20), 2, [("allreduce", None)] * 2),
        (("ncclAllReduce", "ncclAllGather"), (10, 10), 1, [("allreduce", None)]),
    ],
)
def test_a_group_of_several_calls(
    names: tuple[str, ...],
    sizes: tuple[int, ...],
    kernels: int,
    expected: list[tuple[str, int | None]],
    tmp_path: Path,
) -> None:
    calls: list[Call] = [(name, 10 + 2 * at, 11 + 2 * at, sizes[at]) for at, name in enumerate(names)]
    kernel = SEND if names[0] == "ncclSend" else ALL
    launches = [(52 + 10 * number, kernel) for number in range(kernels)]
    rows = found(tmp_path, [*calls, ("ncclGroupEnd", 50, 90, None)], launches)
    assert [(name, size) for name, size, _, _ in rows] == expected


@pytest.mark.parametrize(
    "text", ["", "{", "[1]", '"x"', '{"Message size [bytes]": "many"}', '{"Message size [bytes]": -0.5}']
)
def test_an_odd_payload_is_no_size(text: str, tmp_path: Path) -> None:
    trace = TraceBuilder().step(0, 0, 900)
    trace.runtime("cudaLaunchKernelExC", 12, 13, correlation=12).kernel(ALL, 17, 21, correlation=12)
    rows = [
        [*row("NCCL", 0, None, eventType=75), None],
        [*row("ncclAllReduce", 10_000, 20_000, jsonText=text), None],
    ]
    events = both_know(trace.events, {}, "2026.2")
    path = write_export(tmp_path / "report.sqlite", events, {}, "2026.2", {"NVTX_EVENTS": rows}, pid=PID)
    assert ha.load(path).sql("select name, coalesce(bytes, 0) from collective_call").rows() == [("allreduce", 0)]


def test_calls_of_a_group_on_another_thread_are_apart(tmp_path: Path) -> None:
    """The kernel belongs to the calls of the thread that launched it."""
    trace = TraceBuilder().step(0, 0, 900)
    trace.runtime("cudaLaunchKernelExC", 42, 43, correlation=1).kernel(ALL, 50, 60, correlation=1)
    rows = [
        [*row(name, 1_000 * at, 1_000 * (at + 5), jsonText=size and payload(id=ID, bytes=size), globalTid=tid), None]
        for name, at, size, tid in [
            ("ncclAllReduce", 10, 100, MAIN),
            ("ncclAllReduce", 20, 7, global_id(PID, 2)),
            ("ncclGroupEnd", 40, None, MAIN),
        ]
    ]
    rows.append([*row("NCCL", 0, None, eventType=75), None])
    events = both_know(trace.events, {}, "2026.2")
    path = write_export(tmp_path / "report.sqlite", events, {}, "2026.2", {"NVTX_EVENTS": rows}, pid=PID)
    found = every_table(ha.load(path)).execute("select name, message_bytes, group_name, group_size from nccl_call")
    assert found.fetchall() == [("ncclAllReduce", 100, str(ID), None)]
