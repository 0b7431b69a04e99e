"""Tables of a run for dashboards: its tables, its answers, and rows that need no join, with units and meanings."""

from __future__ import annotations

import hashlib
import json
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import polars as pl

from hotline_analysis import catalog
from hotline_analysis.answers.named import COMPUTED, FINDING
from hotline_analysis.answers.recorded import has_gpu_work
from hotline_analysis.catalog import Column
from hotline_analysis.errors import HotlineError
from hotline_analysis.gating.measure import Measured, measure
from hotline_analysis.reports.sections.subject import model_name
from hotline_analysis.run.trace import Trace
from hotline_analysis.schema import TABLES
from hotline_analysis.text.masking import mask

if TYPE_CHECKING:
    import pyarrow as pa

ANSWERS = (
    "advice",
    "coverage",
    "device_use",
    "idle_breakdown",
    "kernel_breakdown",
    "memory_breakdown",
    "memory_peak",
    "modules",
    "phases",
    "ranks",
    "slowest_kernels",
    "slowest_modules",
    "slowest_ops",
    "slowest_sources",
    "step_lengths",
    "steps",
    "stragglers",
    "temporal_breakdown",
    "throughput",
    "utilisation",
)
"""The answers in every export: the summaries of a run."""
_VERDICTS = ("gpu_or_cpu_bound", "optimizer_bottleneck", "gpu_efficiency", "tensor_core_use")
_ROWS = 1000  # row limit of an answer with a `limit`
_SAID = "hotline_metadata"  # metadata given by the user during capture
# Trace files from before 2024 count from 1970 without a note. A clock of another kind would need an uptime of 45 years
# to reach this value.
_SINCE_1970_NS = 1_420_070_400_000_000_000

_RUN_ID = Column("run_id", "VARCHAR", "id of the run: equal for the same traces, independent of file names")
_TIMES = (
    Column("since_start_ns", "BIGINT", "start, relative to the run's first event with a duration; exact in JavaScript"),
    Column("start_utc", "TIMESTAMPTZ", "start in UTC, to the microsecond; NULL when the file does not say"),
)
_RUN = """
    name VARCHAR name of the run
    commit VARCHAR revision of the program; NULL if unknown
    started_utc TIMESTAMPTZ time of the first event in UTC, or the given start; NULL if unknown
    started_text VARCHAR time of the first event in nanoseconds since 1970, as text for JavaScript; NULL if unknown
    exported_utc TIMESTAMPTZ time of the export
    hotline_version VARCHAR version of hotline_analysis used for the export
    versions JSON versions of CUDA, drivers and libraries in the traces
    model VARCHAR class of the model; NULL if unknown
    device VARCHAR models of the GPUs, or CPU only
    rank_count BIGINT number of recorded ranks
    world_size BIGINT number of ranks in the job; NULL when the files do not say
    batch BIGINT samples per step on one rank; NULL if unknown
    step_count BIGINT number of steps, without warm-up and empty steps
    step_ns DOUBLE median time of a step, from work to work
    gpu_busy_ns DOUBLE median busy time of the GPU in a step; NULL without GPU work
    gpu_idle_ns DOUBLE median idle time of the GPU in a step; NULL without GPU work
    memory_peak_bytes DOUBLE median peak of allocated memory in a step; NULL if not recorded
    mfu_pct DOUBLE median model FLOP utilisation; NULL if the GPU's peak is unknown
    samples_per_s DOUBLE samples of all recorded ranks per second; NULL without `batch`
    bound_by VARCHAR limit of the run: answer of `gpu_or_cpu_bound`
    statement VARCHAR limit of the run, as a sentence
    metadata JSON the user's metadata on the training, given at capture
"""
_MEASURE = """
    metric VARCHAR step, gpu_busy, gpu_idle, memory_peak, mfu, or a kind with a name, such as phase:backward
    unit VARCHAR ns, bytes or %
    step_count BIGINT number of measured steps
    median DOUBLE median of the steps
    mean DOUBLE mean of the steps
    sd DOUBLE standard deviation of the steps; NULL with a single step
    least DOUBLE minimum of the steps
    most DOUBLE maximum of the steps
"""
_VERDICT = """
    rank BIGINT process rank: the lowest rank of the run
    query VARCHAR name of the answer
    question VARCHAR the question
    answer VARCHAR the answer in a word or two
    statement VARCHAR the answer as a sentence
    advice VARCHAR the remedy; empty if no change is needed
"""


@dataclass(frozen=True)
class Labels:
    """Labels of a run beyond the data in the traces."""

    name: str | None = None
    commit: str | None = None
    started: datetime | None = None


@dataclass(frozen=True)
class Exported:
    """A table of an export. `frame` returns the rows, or is None for a table of the run, which is read in batches."""

    name: str
    kind: str
    meaning: str
    columns: Sequence[Column]
    frame: Callable[[], pl.DataFrame] | None = None
    parameters: Mapping[str, object] = field(default_factory=dict)


class Source:
    """A run and the tables to export."""

    def __init__(self, trace: Trace, labels: Labels) -> None:
        self.trace = trace
        self.labels = labels
        info = trace.sql(
            "select rank, event_count, base_time_ns, start_ns, end_ns, metadata from rank_info order by rank"
        )
        self._info = info.to_dicts()
        self.base = {row["rank"]: _base(row["base_time_ns"], row["start_ns"]) for row in self._info}
        starts = [row["start_ns"] + (self.base[row["rank"]] or 0) for row in self._info if row["start_ns"] is not None]
        self.start_ns = min(starts, default=0)
        self.knows_time = bool(starts) and None not in self.base.values()
        key_rows = [
            [row[key] for key in ("rank", "event_count", "base_time_ns", "start_ns", "end_ns")] for row in self._info
        ]
        self.run_id = hashlib.sha256(json.dumps(key_rows).encode()).hexdigest()[:16]
        self._measured: Measured | None = None

    def tables(self, names: Sequence[str] | None, *, raw: bool) -> list[Exported]:
        """The named tables, or by default all summaries of a run, and with `raw` also the run's own tables.

        `run`, `measure` and `verdict` are always included. Raises `HotlineError` for an unknown name.
        """
        own_tables = [
            Exported("run", "run", "The run: one row.", _columns(_RUN), self._run),
            Exported(
                "measure",
                "measure",
                "Metrics of a gate: each metric over the steps.",
                _columns(_MEASURE),
                self._measure,
            ),
            Exported("verdict", "verdict", "Questions and answers of a report.", _columns(_VERDICT), self._verdicts),
        ]
        wanted_names = [*ANSWERS, *(TABLES if raw else ())] if names is None else dict.fromkeys(names)
        own_names = {table.name for table in own_tables}
        return own_tables + [self._named(name) for name in wanted_names if name not in own_names]

    def _named(self, name: str) -> Exported:
        if name in TABLES:
            table = TABLES[name]
            columns = [Column("rank", "BIGINT", "process rank"), *table.columns]
            if any(column.name == "start_ns" for column in columns):
                columns += _TIMES
            return Exported(name, "table", table.doc, columns)
        answers = {query.name: query for query in catalog.queries("answers")}
        query = COMPUTED[name].as_query() if name in COMPUTED else answers.get(name)
        if query is None or name in _VERDICTS:
            matches = get_close_matches(name, [*TABLES, *answers, *COMPUTED], n=3, cutoff=0.5)
            suggestion = (
                "The table `verdict` has its answer."
                if query
                else f"Did you mean {' or '.join(matches)}?"
                if matches
                else ""
            )
            raise HotlineError(
                f"{name!r} is not a table or answer for export",
                hint=suggestion or "`hotline schema` lists tables, `hotline queries` answers.",
            )
        if needs := [param.name for param in query.params if param.required]:
            raise HotlineError(
                f"{name} needs {', '.join(needs)} and cannot be a table of a whole run",
                hint=f"`hotline query {name} … -o {name}.parquet` writes one answer.",
            )
        if name in COMPUTED and COMPUTED[name].traces > 1:
            raise HotlineError(
                f"{name} compares two runs and cannot be exported from a single run", hint=f"Leave out {name}."
            )
        limit = next((param for param in query.params if param.name == "limit"), None)
        parameters = {} if limit is None else {"limit": _ROWS}

        def frame() -> pl.DataFrame:
            return (
                COMPUTED[name].ask(self.trace, **parameters)
                if name in COMPUTED
                else self.trace.query(name, **parameters)
            )

        columns = list(query.columns)
        if any(column.name == "start_ns" for column in columns):
            columns += _TIMES
        return Exported(name, "answer", query.summary, columns, frame, parameters)

    def with_times(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Add the run to the rows, and to rows with a start also the start in formats for other programs."""
        frame = frame.select(pl.lit(self.run_id).alias("run_id"), pl.all())
        if "start_ns" not in frame.columns or "rank" not in frame.columns:
            return frame
        base = pl.col("rank").replace_strict(
            list(self.base), [value or 0 for value in self.base.values()], return_dtype=pl.Int64, default=None
        )
        since_1970 = pl.col("start_ns").cast(pl.Int64) + base
        utc = (
            (since_1970 // 1000).cast(pl.Datetime("us", "UTC"))
            if self.knows_time
            else pl.lit(None, pl.Datetime("us", "UTC"))
        )
        return frame.with_columns((since_1970 - self.start_ns).alias("since_start_ns"), utc.alias("start_utc"))

    # --- rows without a join -----------------------------------------------------------------------------------------

    @property
    def measured(self) -> Measured:
        """The measurements used by a gate."""
        if self._measured is None:
            self._measured = measure(self.trace)
        return self._measured

    @property
    def name(self) -> str:
        """The display name of the run."""
        return self.labels.name or self.trace.path.name.removesuffix(".hotline")

    def _run(self) -> pl.DataFrame:
        from importlib.metadata import version

        measured = self.measured
        metadata = self._said()
        identity = dict(measured.identity)
        versions = {key: value for key, value in identity.items() if key.endswith("version")}
        batch_size = metadata.get("batch_size")
        samples = identity.get("samples per step")
        batch = batch_size if type(batch_size) is int and batch_size > 0 else int(float(samples)) if samples else None
        step = _median(measured, "step")
        bound = COMPUTED["gpu_or_cpu_bound"].function(self.trace)
        start_time = self.labels.started or (_utc(self.start_ns) if self.knows_time else None)
        commits = [metadata[key] for key in ("commit", "git_commit", "git_sha") if isinstance(metadata.get(key), str)]
        world = identity.get("world size")
        rank = self.trace.ranks[0]
        row: dict[str, object] = {
            "name": self.name,
            "commit": self.labels.commit or next(iter(commits), None),
            "started_utc": start_time,
            "started_text": str(self.start_ns) if self.knows_time else None,
            "exported_utc": datetime.now(UTC),
            "hotline_version": version("hotline-analysis"),
            "versions": json.dumps(versions),
            "model": metadata["model"]
            if isinstance(metadata.get("model"), str)
            else model_name(self.trace, rank) or None,
            "device": identity.get("device"),
            "rank_count": len(self.trace.ranks),
            "world_size": int(world) if world else None,
            "batch": batch,
            "step_count": measured.step_count,
            "step_ns": step,
            "gpu_busy_ns": _median(measured, "gpu_busy"),
            "gpu_idle_ns": _median(measured, "gpu_idle"),
            "memory_peak_bytes": _median(measured, "memory_peak"),
            "mfu_pct": _median(measured, "mfu"),
            "samples_per_s": 1e9 * batch * len(self.trace.ranks) / step if batch and step else None,
            "bound_by": bound.answer,
            "statement": bound.statement,
            "metadata": json.dumps(metadata),
        }
        return pl.DataFrame([row], schema={column.name: _POLARS[column.type] for column in _columns(_RUN)})

    def _said(self) -> dict[str, Any]:
        """The user's metadata on the training. A run may contain secrets; an export for others hides them."""
        for row in self._info:
            with suppress(ValueError):
                metadata = json.loads(row["metadata"] or "{}").get(_SAID)
                if isinstance(metadata, dict):
                    mask(metadata)
                    return metadata
        return {}

    def _measure(self) -> pl.DataFrame:
        rows = [
            {
                "metric": metric,
                "unit": self.measured.unit(metric),
                "step_count": len(values),
                "median": statistics.median(values),
                "mean": statistics.fmean(values),
                "sd": statistics.stdev(values) if len(values) > 1 else None,
                "least": float(min(values)),
                "most": float(max(values)),
            }
            for metric, values in self.measured.values.items()
            if values
        ]
        return pl.DataFrame(rows, schema={column.name: _POLARS[column.type] for column in _columns(_MEASURE)})

    def _verdicts(self) -> pl.DataFrame:
        rank = self.trace.ranks[0]
        rows = []
        for name in _VERDICTS[: None if has_gpu_work(self.trace, rank=rank) else 2]:
            finding = COMPUTED[name].function(self.trace, rank=rank)
            rows.append({"rank": rank, "query": name, **{word: getattr(finding, word) for word in FINDING}})
        return pl.DataFrame(rows, schema={column.name: _POLARS[column.type] for column in _columns(_VERDICT)})


_POLARS: Mapping[str, Any] = {
    "VARCHAR": pl.String,
    "JSON": pl.String,
    "BIGINT": pl.Int64,
    "DOUBLE": pl.Float64,
    "TIMESTAMPTZ": pl.Datetime("us", "UTC"),
}


def described(columns: Sequence[Column], units: Mapping[str, str]) -> Iterator[dict[str, str | None]]:
    """The description of each column of an exported table, `run_id` first."""
    for column in (_RUN_ID, *columns):
        yield {
            "name": column.name,
            "type": column.type,
            "unit": units.get(column.name),
            "meaning": column.description,
        }


def with_meanings(schema: pa.Schema, described: Sequence[Mapping[str, str | None]], table: str) -> pa.Schema:
    """The schema with unit and meaning in each field's metadata, and the full description in the file's metadata."""
    columns = {str(column["name"]): column for column in described}
    fields = [
        arrow_field.with_metadata(
            {key: str(columns[arrow_field.name][key]) for key in ("unit", "meaning") if columns[arrow_field.name][key]}
        )
        if arrow_field.name in columns
        else arrow_field
        for arrow_field in schema
    ]
    import pyarrow as pa

    return pa.schema(fields, metadata={"hotline": json.dumps({"table": table, "columns": list(described)})})


def _columns(lines: str) -> list[Column]:
    return [Column(*line.split(maxsplit=2)) for line in lines.strip().splitlines()]


def _base(told: int | None, start_ns: int | None) -> int | None:
    """Offset to nanoseconds since 1970; `None` if the file does not have an offset."""
    if told is None and start_ns is not None and start_ns >= _SINCE_1970_NS:
        return 0
    return told


def _utc(ns: int) -> datetime:
    return datetime.fromtimestamp(ns // 10**9, UTC).replace(microsecond=ns % 10**9 // 1000)


def _median(measured: Measured, metric: str) -> float | None:
    values = measured.values.get(metric)
    return float(statistics.median(values)) if values else None
