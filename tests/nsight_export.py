"""Writes a Kineto trace a second time: as what Nsight Systems would have exported of the same program.

    kineto, export = twins(events, top, folder, schema="2022.4")

`kineto` is a trace file with what both recorders can say: ops with their numbers and shapes, annotations, calls,
GPU work and synchronisations. `export` is an SQLite database with the same events, in the tables and columns of a
version of Nsight Systems: those of 2022.4, or of 2026.2, which have more. Events stand in the order in which the
export holds them, so both number them alike.
"""

from __future__ import annotations

import gzip
import json
import math
import re
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

from hotline_analysis.nsight.enumerations import DEFAULTS
from tests.trace_builder import dumps

Event = dict[str, Any]
SCHEMAS = ("2022.4", "2026.2")


def _names(text: str) -> list[str]:
    return text.split()


_WORK = _names("start end deviceId contextId streamId correlationId globalPid")
_WORK_OF_2026 = _names("start end deviceId contextId greenContextId streamId correlationId globalPid")
_CALL = _names("start end eventClass globalTid correlationId nameId returnValue callchainId")
_KERNEL = _names(
    "demangledName shortName mangledName launchType cacheConfig registersPerThread gridX gridY gridZ blockX blockY"
    " blockZ staticSharedMemory dynamicSharedMemory localMemoryPerThread localMemoryTotal gridId sharedMemoryExecuted"
    " graphNodeId sharedMemoryLimitConfig"
)
_COPY = _names(
    "bytes copyKind deprecatedSrcId srcKind dstKind srcDeviceId srcContextId dstDeviceId dstContextId migrationCause"
    " graphNodeId virtualAddress"
)
_NVTX = _names(
    "start end eventType rangeId category color text globalTid endGlobalTid textId domainId uint64Value int64Value"
    " doubleValue uint32Value int32Value floatValue jsonTextId jsonText"
)
_CUDA_EVENT = _names("deviceId contextId streamId correlationId globalPid eventId")

# The columns of the tables by the schema, from `.schema` of exports.
TABLES: Mapping[str, Mapping[str, Sequence[str]]] = {
    "2022.4": {
        "NVTX_EVENTS": _NVTX,
        "CUPTI_ACTIVITY_KIND_RUNTIME": _CALL,
        "CUPTI_ACTIVITY_KIND_KERNEL": [*_WORK, *_KERNEL],
        "CUPTI_ACTIVITY_KIND_MEMCPY": [*_WORK, *_COPY],
        "CUPTI_ACTIVITY_KIND_MEMSET": [*_WORK, "value", "bytes", "graphNodeId", "memKind"],
        "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": [*_WORK, "syncType", "eventId"],
        "CUPTI_ACTIVITY_KIND_CUDA_EVENT": _CUDA_EVENT,
        "PROFILER_OVERHEAD": _names("start end globalTid correlationId nameId returnValue"),
        "OSRT_API": _names("start end eventClass globalTid correlationId nameId returnValue nestingLevel callchainId"),
        "GPU_METRICS": _names("timestamp typeId metricId value"),
    },
    "2026.2": {
        "NVTX_EVENTS": [*_NVTX, "binaryData"],
        "CUPTI_ACTIVITY_KIND_RUNTIME": _CALL,
        "CUPTI_ACTIVITY_KIND_KERNEL": [*_WORK_OF_2026, *_KERNEL, "graphId", "clusterX", "tensorSizeMinusOneElements"],
        "CUPTI_ACTIVITY_KIND_MEMCPY": [*_WORK_OF_2026, *_COPY, "copyCount"],
        "CUPTI_ACTIVITY_KIND_MEMSET": [*_WORK_OF_2026, "value", "bytes", "graphNodeId", "memKind"],
        "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": [
            *_WORK_OF_2026,
            *("deprecatedSyncType", "syncType", "eventId", "eventSyncId"),
        ],
        "CUPTI_ACTIVITY_KIND_CUDA_EVENT": ["timestamp", "greenContextId", *_CUDA_EVENT, "eventSyncId"],
        "CUPTI_ACTIVITY_KIND_OVERHEAD": (_names("start end eventClass globalTid correlationId nameId overheadType")),
        "PROFILER_OVERHEAD": _names("start end globalTid nameId overheadType"),
        "OSRT_API": _names("start end eventClass globalTid correlationId nameId returnValue nestingLevel callchainId"),
        "GPU_METRICS": _names("rawTimestamp timestamp typeId metricId value"),
    },
}
_OTHERS: Mapping[str, Sequence[str]] = {
    "StringIds": ("id", "value"),
    "ThreadNames": ("nameId", "priority", "globalTid"),
    "PROCESSES": ("globalPid", "pid", "name"),
    "TARGET_INFO_GPU": (
        *("vmId", "id", "name", "totalMemory", "smCount", "computeMajor", "computeMinor", "threadsPerWarp"),
        *("maxWarpsPerSm", "maxThreadsPerBlock", "maxRegistersPerBlock", "maxRegistersPerSm", "maxShmemPerBlock"),
        *("maxShmemPerBlockOptin", "maxShmemPerSm"),
    ),
    "TARGET_INFO_CUDA_DEVICE": ("gpuId", "cudaId", "pid", "uuid", "numMultiprocessors"),
    "TARGET_INFO_SESSION_START_TIME": ("utcEpochNs", "utcTime", "localTime"),
    "TARGET_INFO_GPU_METRICS": ("typeId", "sourceId", "typeName", "metricId", "metricName"),
    "META_DATA_EXPORT": ("name", "value"),
    "META_DATA_CAPTURE": ("name", "value"),
    "TARGET_INFO_SYSTEM_ENV": ("globalVid", "devStateName", "name", "nameEnum", "value"),
    # From NVIDIA's user guide, "SQLite Schema Reference": both recordings of samples have these columns.
    "COMPOSITE_EVENTS": ("id", "start", "cpu", "threadState", "globalTid", "cpuCycles"),
    "SAMPLING_CALLCHAINS": (
        *("id", "symbol", "module", "kernelMode", "thumbCode", "unresolved", "specialEntry", "originalIP"),
        *("unresolvedIP", "stackDepth"),
    ),
}
# Kineto's arguments that an export has no column for, but `Fwd thread id`, without which it finds the same.
_KEPT_ARGS = (
    *("Sequence number", "Fwd thread id", "Input Dims", "Record function id", "correlation", "device", "context"),
    *("stream", "grid", "block", "registers per thread", "shared memory", "blocks per SM", "warps per SM", "bytes"),
    *("memory bandwidth (GB/s)", "cuda_sync_kind", "wait_on_stream", "wait_on_cuda_event_id"),
    "wait_on_cuda_event_record_corr_id",
)
_COPY_NAME = re.compile(r"Memcpy (\w)to(\w)(?: \((.*) -> (.*)\))?")
_NONE = 0xFFFFFFFF
_CATEGORIES = (
    ("cpu_op", "user_annotation"),
    ("cuda_runtime", "cuda_driver"),
    ("kernel",),
    ("gpu_memcpy",),
    ("gpu_memset",),
    ("cuda_sync",),
    ("overhead",),
)
_SYNC_TYPES = {"Event Sync": 1, "Stream Wait Event": 2, "Stream Sync": 3, "Context Sync": 4}


def read(path: Path) -> tuple[list[Event], Event]:
    """The events of a trace file, and what it says beside them; times are exact."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        document: Event = json.load(file, parse_float=Decimal)
    return document.pop("traceEvents"), document


def ns(microseconds: Decimal | int) -> int:
    """Nanoseconds of a time in a trace file."""
    return int(Decimal(microseconds) * 1000)


def global_id(pid: int, tid: int = 0) -> int:
    """A global id, as Nsight Systems makes it."""
    return 1 << 48 | pid << 24 | tid


def both_know(events: Iterable[Event], top: Mapping[str, Any], schema: str) -> list[Event]:
    """The events that an export has, too, in its order, with the arguments that it has."""
    sm_counts = {device["id"]: device.get("numSms") for device in top.get("deviceProperties", [])}
    groups: list[list[Event]] = [[] for _ in _CATEGORIES]
    number = 0
    for event in events:
        category = str(event.get("cat", ""))
        place = next((place for place, group in enumerate(_CATEGORIES) if category in group), None)
        if event.get("ph") != "X" or place is None or (category == "overhead" and schema == "2022.4"):
            continue
        args = {key: value for key, value in event.get("args", {}).items() if key in _KEPT_ARGS}
        if category in ("cpu_op", "user_annotation"):
            number += 1
            args["Record function id"] = number  # PyTorch numbers them from 1, and an export has no 0
            if not is_numbered(event):
                args.pop("Record function id")
        elif category in ("kernel", "gpu_memcpy", "gpu_memset"):
            args = {"context": 1, **args, **_computed(event, args, sm_counts)}
        name = event["name"]
        if category == "gpu_memcpy" and not _COPY_NAME.fullmatch(name):
            name = "Memcpy HtoD (Pageable -> Device)"
        groups[place].append({**event, "name": name, "args": args})
    return [event for group in groups for event in group]


def _computed(event: Event, args: Event, sm_counts: Mapping[int, int | None]) -> Event:
    """The arguments that follow from others, with all their digits: Kineto rounds them."""
    if event["cat"] != "kernel":
        size, dur = args.get("bytes"), ns(event["dur"])
        return {"memory bandwidth (GB/s)": size / dur if size is not None and dur else None}
    blocks, threads = (math.prod(args[name]) if name in args else None for name in ("grid", "block"))
    count = sm_counts.get(args.get("device", 0))
    each = blocks / count if blocks is not None and count else None
    warps = each * threads / 32 if each is not None and threads is not None else None
    return {"shared memory": args.get("shared memory", 0), "blocks per SM": each, "warps per SM": warps}


def is_numbered(event: Event) -> bool:
    """Whether PyTorch pushes the range with a number; every third annotation is of `torch.cuda.nvtx` instead."""
    return event["cat"] == "cpu_op" or len(event["name"]) % 3 != 0


def twins(
    events: Iterable[Event], top: Mapping[str, Any], folder: Path, schema: str, **more: Sequence[Sequence[object]]
) -> tuple[Path, Path]:
    """Write the same program as both recorders would; `more` are rows of tables of the export."""
    known = both_know(events, top, schema)
    kineto, export = folder / "kineto.json", folder / "nsight.sqlite"
    kept = {key: value for key, value in top.items() if key in ("deviceProperties", "baseTimeNanoseconds")}
    lines = ",\n".join(dumps({key: value for key, value in event.items() if value != {}}) for event in known)
    head = "".join(f"{json.dumps(key)}: {dumps(value)},\n" for key, value in kept.items())
    kineto.write_text(f'{{{head}"traceEvents": [\n{lines}\n]}}\n', encoding="utf-8")
    write_export(export, known, kept, schema, more)
    return kineto, export


class _Strings(dict[str, int]):
    """Numbers of texts, from 1."""

    def __missing__(self, text: str) -> int:
        self[text] = len(self) + 1
        return self[text]


def write_export(
    path: Path,
    events: Iterable[Event],
    top: Mapping[str, Any],
    schema: str = "2026.2",
    more: Mapping[str, Sequence[Sequence[object]]] | None = None,
    pid: int | None = None,
) -> Path:
    """Write events as an export. All are of one process: the one of its CPU events, or `pid`."""
    events = list(events)
    own = pid or next((event["pid"] for event in events if event["cat"] in (*_CATEGORIES[0], *_CATEGORIES[1])), 1000)
    strings = _Strings()
    rows: dict[str, list[dict[str, Any]]] = {}

    def add(table: str, **values: Any) -> None:
        rows.setdefault(table, []).append(values)

    for event in events:
        _add(event, int(own), strings, add, schema)
    for device in top.get("deviceProperties", []):
        _add_device(device, int(own), add)
    add("TARGET_INFO_SESSION_START_TIME", utcEpochNs=top.get("baseTimeNanoseconds", 0))
    add("META_DATA_EXPORT", name="EXPORT_PRODUCT_VERSION", value=f"{schema}.1.1")
    add(
        "META_DATA_CAPTURE", name="PROCESS_0:COMMAND", value="python train.py --token=hf_abcdefghijklmnopqrstuvwxyz0123"
    )
    add("TARGET_INFO_SYSTEM_ENV", name="AWS_SECRET_ACCESS_KEY", value="wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY00")
    add("PROCESSES", globalPid=global_id(int(own)), pid=own, name="python3")
    rows["StringIds"] = [{"id": number, "value": text} for text, number in strings.items()]
    columns = {**TABLES[schema], **_OTHERS}
    with closing(sqlite3.connect(path)) as connection:
        for table in ("StringIds", *rows):
            names = columns[table]
            listed = ", ".join(f'"{name}"' for name in names)
            connection.execute(f'create table if not exists "{table}" ({listed})')
        for table, values in rows.items():
            names = columns[table]
            connection.executemany(
                f'insert into "{table}" values ({", ".join("?" * len(names))})',
                [[row.get(name) for name in names] for row in values],
            )
        for table, given in (more or {}).items():
            listed = ", ".join(f'"{name}"' for name in columns[table])
            connection.execute(f'create table if not exists "{table}" ({listed})')
            connection.executemany(f'insert into "{table}" values ({", ".join("?" * len(columns[table]))})', given)
        if schema != "2022.4":
            for kind, entries in DEFAULTS.items():
                connection.execute(f'create table "{kind}" (id, name, label)')
                connection.executemany(f'insert into "{kind}" values (?, ?, ?)', entries)
        connection.commit()
    return path


def text_of(event: Event) -> str:
    """What PyTorch pushes of an op or annotation (`getNvtxStr` in torch/csrc/profiler/util.cpp)."""
    args = event["args"]
    text = str(event["name"])
    if args.get("Sequence number") is not None:
        text += f", seq = {args['Sequence number']}"
    if args.get("Record function id"):
        text += f", op_id = {args['Record function id']}"
    if "Input Dims" in args:
        text += f", sizes = {json.dumps(args['Input Dims'])}"
    return text


def _add(event: Event, pid: int, strings: _Strings, add: Any, schema: str) -> None:
    category, name, args = event["cat"], event["name"], event["args"]
    start = ns(event["ts"])
    span = {"start": start, "end": start + ns(event["dur"])}
    if category in _CATEGORIES[0]:
        add(
            "NVTX_EVENTS", **span, eventType=59, text=text_of(event), globalTid=global_id(pid, event["tid"]), domainId=0
        )
        return
    if category in _CATEGORIES[1]:
        is_driver = category == "cuda_driver"
        add(
            "CUPTI_ACTIVITY_KIND_RUNTIME",
            **span,
            eventClass=int(is_driver),
            globalTid=global_id(pid, event["tid"]),
            correlationId=args.get("correlation"),
            nameId=strings[name if is_driver else f"{name}_v7000"],
            returnValue=0,
        )
        return
    if category == "overhead":
        kinds = {"Buffer Flush": 3, "Instrumentation": 4, "Resource": 5, "Lazy Function Loading": 7}
        kinds |= {"Command Buffer Full": 8, "Runtime Triggered Module Loading": 6, "Driver Compiler": 2}
        add(
            "CUPTI_ACTIVITY_KIND_OVERHEAD",
            **span,
            eventClass=103,
            globalTid=global_id(pid, pid),
            nameId=strings[name],
            overheadType=kinds.get(name.replace("Activity Buffer Request", "Buffer Flush"), 1),
        )
        return
    work = {
        **span,
        "deviceId": args.get("device"),
        "contextId": args.get("context", 1),
        "streamId": args.get("stream"),
        "correlationId": args.get("correlation"),
        "globalPid": global_id(pid),
    }
    if category == "kernel":
        grid, block = args.get("grid", [None] * 3), args.get("block", [None] * 3)
        add(
            "CUPTI_ACTIVITY_KIND_KERNEL",
            **work,
            demangledName=strings[_nvidia(name)],
            shortName=strings[name.partition("<")[0]],
            registersPerThread=args.get("registers per thread"),
            **dict(zip(("gridX", "gridY", "gridZ"), grid, strict=True)),
            **dict(zip(("blockX", "blockY", "blockZ"), block, strict=True)),
            staticSharedMemory=args["shared memory"],
            dynamicSharedMemory=0,
        )
    elif category == "gpu_memcpy":
        match = _COPY_NAME.fullmatch(name)
        assert match, name
        kinds = {entry[1][-4:]: entry[0] for entry in DEFAULTS["ENUM_CUDA_MEMCPY_OPER"] if "UVM" not in entry[1]}
        add(
            "CUPTI_ACTIVITY_KIND_MEMCPY",
            **work,
            bytes=args.get("bytes"),
            copyKind=kinds[f"{match[1]}TO{match[2]}"],
            srcKind=_memory(match[3]),
            dstKind=_memory(match[4]),
        )
    elif category == "gpu_memset":
        kind = _memory(name.partition("(")[2].rstrip(")"))
        add("CUPTI_ACTIVITY_KIND_MEMSET", **work, value=0, bytes=args.get("bytes"), memKind=kind)
    else:
        _add_sync(work, args, add, schema)


def _add_sync(work: dict[str, Any], args: Event, add: Any, schema: str) -> None:
    """A synchronisation, and the record of the CUDA event that it waits for."""
    event, recorded = args.get("wait_on_cuda_event_id"), args.get("wait_on_cuda_event_record_corr_id")
    stream = args.get("stream")
    use = {"eventSyncId": recorded} if schema != "2022.4" and recorded is not None else {}
    add(
        "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
        **{**work, "streamId": _NONE if stream in (None, -1) else stream},
        syncType=_SYNC_TYPES[args["cuda_sync_kind"]],
        eventId=_NONE if event is None else event,
        **use,
    )
    if recorded is not None:
        record = {name: work[name] for name in ("deviceId", "contextId", "globalPid")}
        waited = {"streamId": args.get("wait_on_stream"), "correlationId": recorded, "eventId": event}
        add("CUPTI_ACTIVITY_KIND_CUDA_EVENT", **record, **waited, **use)


def _nvidia(name: str) -> str:
    """The name of a kernel as NVIDIA's demangler writes an anonymous namespace."""
    return name.replace("(anonymous namespace)", "<unnamed>")


def _memory(label: str | None) -> int | None:
    return next((number for number, _, its in DEFAULTS["ENUM_CUDA_MEM_KIND"] if its == label), None)


def _add_device(device: Event, pid: int, add: Any) -> None:
    threads = device.get("maxThreadsPerMultiprocessor")
    add(
        "TARGET_INFO_GPU",
        id=device["id"],
        name=device.get("name"),
        totalMemory=device.get("totalGlobalMem"),
        smCount=device.get("numSms"),
        computeMajor=device.get("computeMajor"),
        computeMinor=device.get("computeMinor"),
        threadsPerWarp=device.get("warpSize"),
        maxWarpsPerSm=None if threads is None else threads // 32,
        maxThreadsPerBlock=device.get("maxThreadsPerBlock"),
        maxRegistersPerBlock=device.get("regsPerBlock"),
        maxRegistersPerSm=device.get("regsPerMultiprocessor"),
        maxShmemPerBlock=device.get("sharedMemPerBlock"),
        maxShmemPerBlockOptin=device.get("sharedMemPerBlockOptin"),
        maxShmemPerSm=device.get("sharedMemPerMultiprocessor"),
    )
    add("TARGET_INFO_CUDA_DEVICE", gpuId=device["id"], cudaId=device["id"], pid=pid)
