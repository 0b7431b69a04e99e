"""Read one export of Nsight Systems as a stream of Arrow tables, in the format of `kineto.reader`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib import resources
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from hotline_analysis.database import SETTINGS, rows_of, table_of
from hotline_analysis.errors import EmptyTraceError, TraceFormatError
from hotline_analysis.kineto.split import Damage
from hotline_analysis.nsight.database import Columns, ExportFile, Made
from hotline_analysis.nsight.enumerations import DEFAULTS
from hotline_analysis.nsight.processes import THREAD_BITS, pid_of
from hotline_analysis.vocabulary import RECORDER_KEY

_INT, _REAL, _TEXT = "BIGINT", "DOUBLE", "VARCHAR"
_SPAN: Columns = {"start": _INT, "end": _INT}
_ON_GPU: Columns = {
    **_SPAN,
    **dict.fromkeys(("deviceId", "contextId", "streamId", "correlationId"), _INT),
}
_ON_CPU: Columns = {**_SPAN, "globalTid": _INT, "nameId": _INT}
_NVTX: Columns = {
    **_SPAN,
    **dict.fromkeys(("eventType", "globalTid", "endGlobalTid", "textId", "domainId"), _INT),
    "text": _TEXT,
    "payload": Made(
        _TEXT,
        ("int64Value", "uint64Value", "doubleValue", "int32Value", "uint32Value", "floatValue"),
    ),
    "jsonText": _TEXT,
    "jsonTextId": _INT,
}


@dataclass(frozen=True)
class _Source:
    """A table of the export: the columns to read, the decoding query, and the additional tables to fill."""

    table: str
    columns: Columns
    query: str
    also: Mapping[str, str]
    """Table of the run → the query that fills it from the decoded rows."""
    owner: str = "globalPid"
    """Column with the process."""
    constants: Mapping[str, str | bool] = field(default_factory=dict)

    @property
    def needed(self) -> tuple[str, ...]:
        """Columns without which the table cannot be read."""
        times = [name for name in ("timestamp", "start", "end") if name in self.columns]
        return (*times, "id") if "id" in self.columns else tuple(times)


_SAMPLES, _STACKS = "COMPOSITE_EVENTS", "SAMPLING_CALLCHAINS"
"""Samples of the CPU, and the frames of their stacks.

Source of the columns: Nsight Systems' user guide, "SQLite Schema Reference". `SAMPLING_CALLCHAINS.id` is the number of
the sample, and `stackDepth` counts from 0, the innermost function ("Common SQLite Examples", backtraces of OSRT
ranges). `symbol` and `module` are numbers of texts.
"""
_FRAME: Columns = dict.fromkeys(("id", "stackDepth", "symbol", "module", "unresolved"), _INT)
_WORK = {"gpu_op": "gpu_op"}
# Events are numbered in this order.
_SOURCES = (
    _Source(
        "NVTX_EVENTS",
        _NVTX,
        "nvtx",
        {"op": "op", "event_args": "event_args", "collective": "collective"},
        "globalTid",
    ),
    _Source(
        "CUPTI_ACTIVITY_KIND_RUNTIME",
        {**_ON_CPU, "eventClass": _INT, "correlationId": _INT},
        "call",
        {},
        "globalTid",
    ),
    _Source(
        "CUPTI_ACTIVITY_KIND_KERNEL",
        {
            **_ON_GPU,
            "name": Made(_INT, ("demangledName", "mangledName", "shortName")),
            "registersPerThread": _INT,
            **dict.fromkeys(("gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ"), _INT),
            "sharedMemory": Made(_INT, ("staticSharedMemory", "dynamicSharedMemory"), is_sum=True),
        },
        "kernel",
        _WORK,
    ),
    _Source("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", {**_ON_GPU, "graphId": _INT}, "graph", _WORK),
    _Source(
        "CUPTI_ACTIVITY_KIND_MEMCPY",
        {**_ON_GPU, **dict.fromkeys(("bytes", "copyKind", "srcKind", "dstKind"), _INT)},
        "memcpy",
        _WORK,
    ),
    _Source("CUPTI_ACTIVITY_KIND_MEMSET", {**_ON_GPU, "bytes": _INT, "memKind": _INT}, "memset", _WORK),
    _Source(
        "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
        {**_ON_GPU, **dict.fromkeys(("syncType", "deprecatedSyncType", "eventId", "eventSyncId"), _INT)},
        "sync",
        {"sync": "sync_row"},
    ),
    _Source(
        "CUPTI_ACTIVITY_KIND_OVERHEAD",
        {**_ON_CPU, "correlationId": _INT, "overheadType": _INT},
        "overhead",
        {"event_args": "event_args"},
        "globalTid",
        {"is_own": False},
    ),
    _Source(
        "PROFILER_OVERHEAD",
        {**_ON_CPU, "correlationId": _INT, "overheadType": _INT},
        "overhead",
        {"event_args": "event_args"},
        "globalTid",
        {"is_own": True},
    ),
    _Source("OSRT_API", _ON_CPU, "library_call", {}, "globalTid", {"category": "os_call"}),
    _Source(
        _SAMPLES,
        {"start": _INT, "globalTid": _INT, "id": _INT},
        "sample",
        {"event_args": "event_args"},
        "globalTid",
    ),
    _Source("CUDNN_EVENTS", _ON_CPU, "library_call", {}, "globalTid", {"category": "library_call"}),
    _Source("CUBLAS_EVENTS", _ON_CPU, "library_call", {}, "globalTid", {"category": "library_call"}),
    _Source(
        "GPU_METRICS",
        {"timestamp": _INT, "typeId": _INT, "metricId": _INT, "value": _REAL},
        "metric",
        {"counter": "counter"},
        "",
    ),
)
_CUDA_EVENT: Columns = dict.fromkeys(
    ("contextId", "streamId", "correlationId", "globalPid", "eventId", "eventSyncId"), _INT
)
# Besides names and times, an export contains commands, the environment, and program output.
_TOLD = ("EXPORT_PRODUCT_VERSION", "EXPORT_SCHEMA_VERSION")
_SECRETS = ("META_DATA_CAPTURE", "META_DATA_EXPORT", "TARGET_INFO_SYSTEM_ENV")
_DEVICE: Mapping[str, str] = {
    "name": "name",
    "totalMemory": "totalGlobalMem",
    "smCount": "numSms",
    "computeMajor": "computeMajor",
    "computeMinor": "computeMinor",
    "threadsPerWarp": "warpSize",
    "maxThreadsPerBlock": "maxThreadsPerBlock",
    "maxRegistersPerBlock": "regsPerBlock",
    "maxRegistersPerSm": "regsPerMultiprocessor",
    "maxShmemPerBlock": "sharedMemPerBlock",
    "maxShmemPerBlockOptin": "sharedMemPerBlockOptin",
    "maxShmemPerSm": "sharedMemPerMultiprocessor",
}
"""Columns of `TARGET_INFO_GPU` and their names in Kineto."""
COMMAND = "nsys profile --trace=cuda,nvtx,osrt python train.py"


@cache
def _statement(name: str) -> str:
    """Return the text of a query of this package."""
    return (resources.files(__package__) / "sql" / f"{name}.sql").read_text(encoding="utf-8")


class NsightReader:
    """Reads one export. Iterate once; `metadata` and `damage` are complete afterwards.

    Each item maps table names to Arrow tables, like the items of `kineto.reader.TraceReader`. Events are numbered in
    the order of the tables and rows. `process` is the global id, without the thread, of the process to read; None reads
    all processes. `with_unowned` includes events without a process. Commands and the environment are in `metadata` only
    with `keep_secrets`. Raises `TraceFormatError` if the database is not an export, and `EmptyTraceError` if the export
    has no events.
    """

    def __init__(
        self,
        path: Path,
        on_progress: Callable[[float], None] | None = None,
        database: duckdb.DuckDBPyConnection | None = None,
        *,
        process: int | None = None,
        with_unowned: bool = False,
        keep_secrets: bool = False,
    ) -> None:
        self.path = path
        self.damage = Damage()
        self.metadata: dict[str, Any] = {}
        self.event_count = 0
        self._process = process
        self._with_unowned = with_unowned
        self._keep_secrets = keep_secrets
        self._on_progress = on_progress
        self._is_own = database is None
        self._database = database or duckdb.connect(config={**SETTINGS, "threads": 1, "temp_directory": ""})
        self._next_id = 0
        self._name_count = 0
        self._tracks: dict[tuple[str | None, str | None], bool] = {}
        self._file: ExportFile
        self._sql: duckdb.DuckDBPyConnection

    def __iter__(self) -> Iterator[Mapping[str, pa.Table]]:
        """Yield the events of one table after another, so that memory use stays constant."""
        self._file = ExportFile(self.path, self.damage)
        self._sql = self._database.cursor()
        try:
            sources = [source for source in _SOURCES if self._file.has(source.table)]
            if (not sources or not self._file.has("StringIds")) and self._file.unfinished:
                raise TraceFormatError(
                    f"{self.path} is an unfinished database: its content is still in {self._file.unfinished}",
                    hint="Let the export finish and close every program that has the file open, or export again.",
                )
            if not sources or not self._file.has("StringIds"):
                raise TraceFormatError(
                    f"{self.path} is an SQLite database, but not an export of Nsight Systems: all tables of an export"
                    f" are missing ({self._file.some_tables or 'there are no tables'})",
                    hint="Export a report: `nsys export --type sqlite report.nsys-rep`.",
                )
            self._describe()
            self._prepare()
            for number, source in enumerate(sources):
                if source.table == _SAMPLES:
                    self._read_stacks(source)
                yield from self._read(source)
                if self._on_progress:
                    self._on_progress((number + 1) / len(sources))
            yield from self._names()
            self._finish()
        finally:
            self._sql.close()
            self._file.close()
            if self._is_own:
                self._database.close()

    # --- metadata ---------------------------------------------------------------------------------------------------

    def _describe(self) -> None:
        """Fill `metadata`."""
        pairs = self._pairs("META_DATA_EXPORT")
        self.metadata[RECORDER_KEY] = {
            "name": "Nsight Systems",
            "version": pairs.get(_TOLD[0]),
            "schema": pairs.get(_TOLD[1]),
            "tables": [source.table for source in _SOURCES if self._file.has(source.table)],
            "process": None if self._process is None else pid_of(self._process),
        }
        sessions = self._rows("TARGET_INFO_SESSION_START_TIME", {"utcEpochNs": _INT})
        if sessions and sessions[0]["utcEpochNs"] is not None:
            self.metadata["baseTimeNanoseconds"] = sessions[0]["utcEpochNs"]
        if devices := self._devices():
            self.metadata["deviceProperties"] = devices
        if self._keep_secrets:
            self.metadata["nsight"] = {table: self._pairs(table) for table in _SECRETS if self._file.has(table)}

    def _rows(self, table: str, columns: Columns) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self._file.whole(table, columns).to_pylist()
        return rows

    def _pairs(self, table: str) -> dict[str, str]:
        return {
            row["name"]: row["value"]
            for row in self._rows(table, {"name": _TEXT, "value": _TEXT})
            if row["name"] is not None
        }

    def _devices(self) -> list[dict[str, Any]]:
        """Return the GPUs in Kineto's format, by the process's device numbers."""
        gpus = {
            row["id"]: {
                kineto_name: row[column] for column, kineto_name in _DEVICE.items() if row[column] not in (None, "")
            }
            | ({"maxThreadsPerMultiprocessor": 32 * row["maxWarpsPerSm"]} if row["maxWarpsPerSm"] else {})
            for row in self._rows(
                "TARGET_INFO_GPU",
                {"id": _INT, **dict.fromkeys(_DEVICE, _INT), "name": _TEXT, "maxWarpsPerSm": _INT},
            )
        }
        devices = self._cuda_devices
        numbers = {row["cudaId"]: row for row in reversed(devices) if row["cudaId"] is not None}
        if not numbers:
            return [{"id": number, **gpu} for number, gpu in gpus.items()]
        return [
            {
                "id": number,
                **({"numSms": row["numMultiprocessors"]} if row["numMultiprocessors"] else {}),
                **gpus.get(row["gpuId"], {}),
            }
            for number, row in sorted(numbers.items())
        ]

    @cached_property
    def _cuda_devices(self) -> list[dict[str, Any]]:
        """The process's own numbers of the GPUs."""
        devices = self._rows(
            "TARGET_INFO_CUDA_DEVICE", dict.fromkeys(("gpuId", "cudaId", "pid", "numMultiprocessors"), _INT)
        )
        return [row for row in devices if self._process is None or row["pid"] == pid_of(self._process)]

    # --- lookup tables ----------------------------------------------------------------------------------------------

    def _prepare(self) -> None:
        """Create the lookup tables and macros for the queries."""
        self._sql.execute(_statement("macros"))
        self._keep("string_row", self._file.whole("StringIds", {"id": _INT, "value": _TEXT}))
        self._sql.execute(f"create or replace temp table string_value as {_statement('string')}")
        entries = [
            {"kind": kind, "id": number, "name": name, "label": label}
            for kind, default in DEFAULTS.items()
            for number, name, label in self._entries(kind) or default
        ]
        self._keep("enumeration", _table(entries, kind=_TEXT, id=_INT, name=_TEXT, label=_TEXT))
        sizes = [
            {"device_id": device["id"], "sm_count": device.get("numSms")}
            for device in self.metadata.get("deviceProperties", [])
        ]
        self._keep("device_size", _table(sizes, device_id=_INT, sm_count=_INT))
        condition, values = self._owned("globalPid", "CUPTI_ACTIVITY_KIND_CUDA_EVENT")
        self._keep("cuda_event", self._file.whole("CUPTI_ACTIVITY_KIND_CUDA_EVENT", _CUDA_EVENT, condition, values))
        self._keep("nvtx_domain", self._domains())
        numbers = {row["gpuId"]: row["cudaId"] for row in reversed(self._cuda_devices) if row["gpuId"] is not None}
        devices = [{"gpu_id": gpu_id, "device_id": cuda_id} for gpu_id, cuda_id in numbers.items()]
        self._keep("device_number", _table(devices, gpu_id=_INT, device_id=_INT))
        metrics = self._rows(
            "TARGET_INFO_GPU_METRICS", {"typeId": _INT, "metricId": _INT, "metricName": _TEXT, "typeName": _TEXT}
        )
        metric_names = [
            {
                "type_id": row["typeId"],
                "metric_id": row["metricId"],
                "name": row["metricName"],
                "source": row["typeName"],
            }
            for row in metrics
        ]
        self._keep("metric_name", _table(metric_names, type_id=_INT, metric_id=_INT, name=_TEXT, source=_TEXT))

    def _keep(self, name: str, table: pa.Table) -> None:
        self._sql.register("given", table)
        self._sql.execute(f"create or replace temp table {name} as from given")
        self._sql.unregister("given")

    def _entries(self, kind: str) -> list[tuple[int, str, str]]:
        """Return the file's entries of an enumeration."""
        rows = self._rows(kind, {"id": _INT, "name": _TEXT, "label": _TEXT})
        return [(row["id"], row["name"], row["label"]) for row in rows if row["id"] is not None and row["name"]]

    def _domains(self) -> pa.Table:
        """Return the names of NVTX domains by process, from the domain creation events."""
        kinds = self._entries("ENUM_NSYS_EVENT_TYPE") or DEFAULTS["ENUM_NSYS_EVENT_TYPE"]
        creation_kind = next((number for number, name, _ in kinds if name == "NvtxDomainCreate"), None)
        domains = []
        if creation_kind is not None and self._file.has("NVTX_EVENTS", "eventType", "domainId"):
            rows = self._file.whole("NVTX_EVENTS", _NVTX, '"eventType" = ?', [creation_kind]).to_pylist()
            texts = dict(self._sql.execute('select id, "value" from string_value').fetchall()) if rows else {}
            domains = [
                {
                    "process": pid_of(row["globalTid"] >> THREAD_BITS) if row["globalTid"] is not None else None,
                    "domain_id": row["domainId"],
                    "name": row["text"] or texts.get(row["textId"]),
                }
                for row in rows
            ]
        return _table(domains, process=_INT, domain_id=_INT, name=_TEXT)

    def _owned(self, owner: str, table: str) -> tuple[str, tuple[int, ...]]:
        """Return the condition that selects the process, with its parameters."""
        if self._process is None or not owner or not self._file.has(table, owner):
            return "", ()
        null_rows = f' or "{owner}" is null' if self._with_unowned else ""
        return f'("{owner}" >> {THREAD_BITS} = ?{null_rows})', (self._process,)

    def _read_stacks(self, source: _Source) -> None:
        """Create the tables of the samples' stacks: `sample_stack`, and `stack` with each different stack once.

        The export writes the frames of a sample one after the other. The last sample of a batch may continue in the
        next batch, so its frames wait for that batch.
        """
        self._sql.execute(_statement("stack_tables"))
        if not self._file.has(source.table, *source.needed):
            return
        condition, values = self._owned(source.owner, source.table)
        if condition:
            condition = f'"id" in (select "id" from "{source.table}" where {condition})'  # noqa: S608
        waiting = pa.table({name: pa.nulls(0, pa.int64()) for name in _FRAME})
        for rows in self._file.read(_STACKS, _FRAME, condition, values):
            frames = pa.concat_tables([waiting, rows]).filter(pc.is_valid(pc.field("id")))
            if not frames.num_rows:
                continue
            is_last = pc.equal(frames["id"], frames["id"][-1])
            waiting = frames.filter(is_last)
            self._keep_stacks(frames.filter(pc.invert(is_last)))
        self._keep_stacks(waiting)

    def _keep_stacks(self, frames: pa.Table) -> None:
        self._sql.register("frame_row", frames)
        self._sql.execute(f"create or replace temp table new_stack as {_statement('stack')}")
        self._sql.execute("insert into sample_stack select id, stack_id from new_stack")
        self._sql.execute("insert or ignore into stack select stack_id, name, stack from new_stack")
        self._sql.unregister("frame_row")

    # --- events -----------------------------------------------------------------------------------------------------

    def _read(self, source: _Source) -> Iterator[Mapping[str, pa.Table]]:
        if not self._file.has(source.table, *source.needed):
            self.damage.note(f"the table {source.table} has no times and is not read")
            return
        condition, values = self._owned(source.owner, source.table)
        for rows in self._file.read(source.table, source.columns, condition, values):
            yield self._decoded(rows, source)

    def _decoded(self, rows: pa.Table, source: _Source) -> Mapping[str, pa.Table]:
        """Number the rows and decode them."""
        raw = rows.append_column("event_id", _numbers(self._next_id, rows.num_rows))
        for name, value in source.constants.items():
            raw = raw.append_column(name, pa.array([value] * rows.num_rows))
        self._next_id += rows.num_rows
        self._sql.register("raw", raw)
        statement = f"create or replace temp table batch as {_statement(source.query)}"
        self._sql.execute(statement, {"end_ns": self._end_ns} if "$end_ns" in statement else None)
        self._sql.execute(f"create or replace temp table pair as {_statement('pair')}")
        tables = {
            "event": self._table("event"),
            "pair": rows_of(self._sql.execute("from pair")),
            **{table: self._table(query) for table, query in source.also.items()},
        }
        self._sql.unregister("raw")
        count = tables["event"].num_rows
        self.event_count += count
        if source.table:
            for pair in zip(*(tables["pair"].column(name).to_pylist() for name in ("pid", "tid")), strict=True):
                self._tracks.setdefault(pair, source.owner == "globalPid")
        else:
            self._name_count += count
        return tables

    def _table(self, query: str) -> pa.Table:
        return rows_of(self._sql.execute(_statement(query)))

    @cached_property
    def _end_ns(self) -> int:
        """End of the last event; ranges that were never closed end here."""
        return max((self._file.latest(source.table, "end") for source in _SOURCES if source.owner), default=0)

    # --- names ------------------------------------------------------------------------------------------------------

    def _names(self) -> Iterator[Mapping[str, pa.Table]]:
        """Yield metadata events with the names of all processes, threads and devices that have events."""
        self._keep("thread_row", self._file.whole("ThreadNames", {"nameId": _INT, "globalTid": _INT}))
        self._keep("process_row", self._file.whole("PROCESSES", {"globalPid": _INT, "name": _TEXT}))
        tracks = [{"pid": pid, "tid": tid, "is_gpu": is_gpu} for (pid, tid), is_gpu in self._tracks.items()]
        self._keep("used_track", _table(tracks, pid=_TEXT, tid=_TEXT, is_gpu="BOOLEAN"))
        own_pid = None if self._process is None else pid_of(self._process)
        track_names = self._sql.execute(_statement("track_name"), {"own_pid": own_pid})
        yield self._decoded(rows_of(track_names), _Source("", {}, "name", {"event_args": "event_args"}))

    def _finish(self) -> None:
        """Raise an error if the file has no events; the message describes the file."""
        if self.event_count > self._name_count:
            return
        if self.damage.notes:
            raise TraceFormatError(
                f"{self.path} has no readable events: {'; '.join(self.damage.notes)}",
                hint="Copy the file again, or export the report again.",
            )
        raise EmptyTraceError(
            f"{self.path} has no events of CUDA, NVTX or the operating system", hint=f"Record with `{COMMAND}`."
        )


def _numbers(start: int, count: int) -> pa.Array:
    """Return consecutive numbers."""
    return pl.int_range(start, start + count, eager=True).to_arrow()


_ARROW = {_INT: pa.int64(), _REAL: pa.float64(), _TEXT: pa.string(), "BOOLEAN": pa.bool_()}


def _table(rows: list[dict[str, Any]], **columns: str) -> pa.Table:
    """Return a table from a few Python rows."""
    return table_of(rows, pa.schema([(name, _ARROW[kind]) for name, kind in columns.items()]))
