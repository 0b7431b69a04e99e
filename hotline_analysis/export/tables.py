"""What a dashboard gets of a run: its tables, its answers, and rows that need no join, each with units and meanings."""

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
"""The answers that every export has: those that sum up a run."""
_VERDICTS = ("gpu_or_cpu_bound", "optimizer_bottleneck", "gpu_efficiency", "tensor_core_use")
_ROWS = 1000  # of an answer that has a limit
_SAID = "hotline_metadata"  # what the user said of the training when capturing it
# Trace files of before 2024 count from 1970 and do not say so. No clock of another kind has run for 45 years.
_SINCE_1970_NS = 1_420_070_400_000_000_000

_RUN_ID = Column("run_id", "VARCHAR", "the run: the same for the same traces, whatever their names")
_TIMES = (
    Column(
        "since_start_ns", "BIGINT", "start, since that of the run's first event with a duration; exact in JavaScript"
    ),
    Column("start_utc", "TIMESTAMPTZ", "start in UTC, to the microsecond; NULL when the file does not say"),
)
_RUN = """
    name VARCHAR name of the run
    commit VARCHAR revision of the program; NULL if it is not known
    started_utc TIMESTAMPTZ the first event, in UTC; NULL when the files do not say
    started_text VARCHAR the same in nanoseconds since 1970, as text, since no number of JavaScript holds it
    exported_utc TIMESTAMPTZ when these tables were written
    hotline_version VARCHAR version that wrote them
    versions JSON versions that the traces name: of CUDA, drivers and libraries
    model VARCHAR class of the model; NULL if the traces do not tell
    device VARCHAR models of the GPUs, or CPU only
    rank_count BIGINT ranks that were recorded
    world_size BIGINT ranks of the job; NULL when the files do not say
    batch BIGINT samples of a step on one rank; NULL if they are not known
    step_count BIGINT steps that count: warm-up steps and empty ones do not
    step_ns DOUBLE median step, from work to work
    gpu_busy_ns DOUBLE of a step, the time in which the GPU works; median, NULL without GPU work
    gpu_idle_ns DOUBLE of a step, the time in which it does not
    memory_peak_bytes DOUBLE the most that was allocated in a step; median, NULL if it was not recorded
    mfu_pct DOUBLE model FLOP utilisation; median, NULL if the peak of the GPU is not known
    samples_per_s DOUBLE samples of all recorded ranks per second; NULL without `batch`
    bound_by VARCHAR what limits the run, as `gpu_or_cpu_bound` says it
    statement VARCHAR the same in a sentence
    metadata JSON what the user said of the training when capturing it
"""
_MEASURE = """
    metric VARCHAR step, gpu_busy, gpu_idle, memory_peak, mfu, or a kind with a name, such as phase:backward
    unit VARCHAR ns, bytes or %
    step_count BIGINT steps it was measured in
    median DOUBLE median of the steps
    mean DOUBLE mean of the steps
    sd DOUBLE standard deviation of the steps; NULL with a single one
    least DOUBLE the least
    most DOUBLE the most
"""
_VERDICT = """
    rank BIGINT process rank; the lowest
    query VARCHAR the answer that says it
    question VARCHAR what was asked
    answer VARCHAR a word or two
    statement VARCHAR the answer in words
    advice VARCHAR what to do about it; empty when nothing needs doing
"""


@dataclass(frozen=True)
class Labels:
    """What is said of a run that its traces do not tell."""

    name: str | None = None
    commit: str | None = None
    started: datetime | None = None


@dataclass(frozen=True)
class Exported:
    """One table of an export. `frame` gives its rows, or is None for a table of the run, which is read in pieces."""

    name: str
    kind: str
    meaning: str
    columns: Sequence[Column]
    frame: Callable[[], pl.DataFrame] | None = None
    parameters: Mapping[str, object] = field(default_factory=dict)


class Source:
    """A run, and the tables that can be exported of it."""

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
        told = [
            [row[key] for key in ("rank", "event_count", "base_time_ns", "start_ns", "end_ns")] for row in self._info
        ]
        self.run_id = hashlib.sha256(json.dumps(told).encode()).hexdigest()[:16]
        self._measured: Measured | None = None

    def tables(self, names: Sequence[str] | None, *, raw: bool) -> list[Exported]:
        """Those of the names, or by default all that sum up a run, and with `raw` its own tables.

        `run`, `measure` and `verdict` are always there. Raises `HotlineError` for a name that is none.
        """
        own = [
            Exported("run", "run", "The run: one row.", _columns(_RUN), self._run),
            Exported(
                "measure",
                "measure",
                "What a gate compares: each metric over the steps.",
                _columns(_MEASURE),
                self._measure,
            ),
            Exported("verdict", "verdict", "The questions that a report answers.", _columns(_VERDICT), self._verdicts),
        ]
        wanted = [*ANSWERS, *(TABLES if raw else ())] if names is None else dict.fromkeys(names)
        known = {each.name for each in own}
        return own + [self._named(name) for name in wanted if name not in known]

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
            close = get_close_matches(name, [*TABLES, *answers, *COMPUTED], n=3, cutoff=0.5)
            where = (
                "The table `verdict` has its answer."
                if query
                else f"Did you mean {' or '.join(close)}?"
                if close
                else ""
            )
            raise HotlineError(
                f"{name!r} is no table or answer that can be exported",
                hint=where or "`hotline schema` and `hotline queries` list them.",
            )
        if needs := [param.name for param in query.params if param.required]:
            raise HotlineError(
                f"{name} needs {', '.join(needs)}, so it is no table of a whole run",
                hint=f"`hotline query {name} … -o {name}.parquet` writes one answer.",
            )
        if name in COMPUTED and COMPUTED[name].traces > 1:
            raise HotlineError(f"{name} compares two runs, so it is no table of one", hint="Leave it out.")
        limit = next((param for param in query.params if param.name == "limit"), None)
        given = {} if limit is None else {"limit": _ROWS}

        def frame() -> pl.DataFrame:
            return COMPUTED[name].ask(self.trace, **given) if name in COMPUTED else self.trace.query(name, **given)

        columns = list(query.columns)
        if any(column.name == "start_ns" for column in columns):
            columns += _TIMES
        return Exported(name, "answer", query.summary, columns, frame, given)

    def with_times(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The rows with their run, and where they have a start, with it in forms that other programs can hold."""
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
        """What a gate knows of the run."""
        if self._measured is None:
            self._measured = measure(self.trace)
        return self._measured

    @property
    def name(self) -> str:
        """What it is called."""
        return self.labels.name or self.trace.path.name.removesuffix(".hotline")

    def _run(self) -> pl.DataFrame:
        from importlib.metadata import version

        measured = self.measured
        said = self._said()
        identity = dict(measured.identity)
        versions = {key: value for key, value in identity.items() if key.endswith("version")}
        told = said.get("batch_size")
        found = identity.get("samples per step")
        batch = told if type(told) is int and told > 0 else int(float(found)) if found else None
        step = _median(measured, "step")
        bound = COMPUTED["gpu_or_cpu_bound"].function(self.trace)
        started = self.labels.started or (_utc(self.start_ns) if self.knows_time else None)
        commits = [said[key] for key in ("commit", "git_commit", "git_sha") if isinstance(said.get(key), str)]
        world = identity.get("world size")
        rank = self.trace.ranks[0]
        row: dict[str, object] = {
            "name": self.name,
            "commit": self.labels.commit or next(iter(commits), None),
            "started_utc": started,
            "started_text": str(self.start_ns) if self.knows_time else None,
            "exported_utc": datetime.now(UTC),
            "hotline_version": version("hotline-analysis"),
            "versions": json.dumps(versions),
            "model": said["model"] if isinstance(said.get("model"), str) else model_name(self.trace, rank) or None,
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
            "metadata": json.dumps(said),
        }
        return pl.DataFrame([row], schema={column.name: _POLARS[column.type] for column in _columns(_RUN)})

    def _said(self) -> dict[str, Any]:
        """What the user said of the training; a run may keep secrets, an export for others shows none."""
        for row in self._info:
            with suppress(ValueError):
                said = json.loads(row["metadata"] or "{}").get(_SAID)
                if isinstance(said, dict):
                    mask(said)
                    return said
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
    """What each column of an exported table is, `run_id` first."""
    for column in (_RUN_ID, *columns):
        yield {
            "name": column.name,
            "type": column.type,
            "unit": units.get(column.name),
            "meaning": column.description,
        }


def with_meanings(schema: pa.Schema, described: Sequence[Mapping[str, str | None]], table: str) -> pa.Schema:
    """The schema with the unit and meaning of each field in its metadata, and all of it in that of the file."""
    known = {str(column["name"]): column for column in described}
    fields = [
        each.with_metadata({key: str(known[each.name][key]) for key in ("unit", "meaning") if known[each.name][key]})
        if each.name in known
        else each
        for each in schema
    ]
    import pyarrow as pa

    return pa.schema(fields, metadata={"hotline": json.dumps({"table": table, "columns": list(described)})})


def _columns(lines: str) -> list[Column]:
    return [Column(*line.split(maxsplit=2)) for line in lines.strip().splitlines()]


def _base(told: int | None, start_ns: int | None) -> int | None:
    """What to add to a time for nanoseconds since 1970; None if the file does not tell."""
    if told is None and start_ns is not None and start_ns >= _SINCE_1970_NS:
        return 0
    return told


def _utc(ns: int) -> datetime:
    return datetime.fromtimestamp(ns // 10**9, UTC).replace(microsecond=ns % 10**9 // 1000)


def _median(measured: Measured, metric: str) -> float | None:
    values = measured.values.get(metric)
    return float(statistics.median(values)) if values else None
