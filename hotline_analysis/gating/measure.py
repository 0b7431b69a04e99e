"""Measure a run for a gate: its identity, and the values of each metric in each step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from hotline_analysis.answers.generated import cpu_parts, gpu_parts, step_lengths, throughput, utilisation
from hotline_analysis.answers.recorded import has_gpu_work, without_gpu_work
from hotline_analysis.gating.rules import WHOLE, Unit
from hotline_analysis.run.trace import Trace
from hotline_analysis.text.formats import safe


@dataclass(frozen=True)
class Measured:
    """A measured run: name, identity entries that must match in a comparison, and each metric's value in each step.

    Several ranks are combined: a time is the mean over ranks, memory the maximum, and utilisation the minimum. `kinds`
    is the kind of each step (`step_kinds`) on the lowest rank; empty if unknown.
    """

    name: str
    identity: Mapping[str, str]
    values: Mapping[str, Sequence[float]]
    kinds: Sequence[int] = ()

    @property
    def step_count(self) -> int:
        """Number of steps."""
        return len(self.values.get("step", ()))

    def unit(self, metric: str) -> Unit:
        """The unit of a metric."""
        return WHOLE[metric][0] if metric in WHOLE else "ns"


def measure(trace: Trace, name: str | None = None) -> Measured:
    """Read the values of all metrics from a run.

    Only counted steps (`step_lengths`) are measured, without the profiler's own work. Times of parts are defined as in
    `diff`: busy and idle time on the GPU if the run has GPU work, else time on the main thread. A part missing from a
    step takes 0 ns.
    """
    lengths = step_lengths(trace).filter(pl.col("kind").is_not_null())
    steps = (
        lengths.sort("rank", "begin_ns")
        .group_by("step", maintain_order=True)
        .agg(
            (pl.col("length_ns") - pl.col("profiler_ns")).mean().alias("value"),
            pl.col("kind").first(),
            pl.col("begin_ns").min(),
        )
        .sort("begin_ns", "step")
    )
    order = steps.select("step")
    on_gpu = has_gpu_work(trace)
    parts = gpu_parts(trace) if on_gpu else cpu_parts(trace).with_columns(kernel=pl.lit(None, pl.String))
    rank_count = max(1, lengths["rank"].n_unique())
    step_parts = parts.filter(pl.col("step").is_in(order["step"].implode()))
    # Time outside steps is dropped, and a part missing on one rank counts as 0 there.
    frames = [
        frame.group_by("step", "metric").agg((pl.col("time_ns").sum() / rank_count).alias("value"))
        for frame in _by_metric(step_parts, on_gpu)
    ]
    values: dict[str, list[float]] = {"step": steps["value"].to_list()}
    for metric, measurements in (("memory_peak", _memory(trace)), ("mfu", _mfu(trace) if on_gpu else None)):
        if measurements is not None:
            step_values = order.join(measurements, on="step", how="inner", maintain_order="left")["value"].drop_nulls()
            if len(step_values):
                values[metric] = step_values.to_list()
    rows = pl.concat(frames).join(order.with_row_index("place"), on="step").sort("metric", "place")
    kinds = steps["kind"].to_list()
    return Measured(name or trace.path.name, _identity(trace), StepValues(values, rows, order.height), kinds)


class StepValues(Mapping[str, Sequence[float]]):
    """The values of each metric in each step. Values of parts are stored sparsely: most parts take time in few steps.

    `whole` has the values of metrics other than parts. `parts` has a row for each `metric`, in order, with the `place`
    of a step and its `value`.
    """

    def __init__(self, whole: Mapping[str, Sequence[float]], parts: pl.DataFrame, step_count: int) -> None:
        self._whole, self._step_count = whole, step_count
        self._places, self._values = parts["place"].to_numpy(), parts["value"].to_numpy()
        runs = parts["metric"].rle().struct.unnest()
        ends = runs["len"].cum_sum().to_list()
        self._rows = dict(zip(runs["value"].to_list(), zip([0, *ends], ends, strict=False), strict=True))

    def __getitem__(self, metric: str) -> Sequence[float]:
        if metric not in self._rows:
            return self._whole[metric]
        rows = slice(*self._rows[metric])
        values = np.zeros(self._step_count)
        values[self._places[rows]] = self._values[rows]
        numbers: list[float] = values.tolist()
        return numbers

    def __contains__(self, metric: object) -> bool:
        return metric in self._rows or metric in self._whole

    def __iter__(self) -> Iterator[str]:
        yield from self._whole
        yield from self._rows

    def __len__(self) -> int:
        return len(self._whole) + len(self._rows)


def _by_metric(parts: pl.DataFrame, on_gpu: bool) -> list[pl.DataFrame]:
    """The rows of parts, repeated for each kind of metric, with the metric's name."""

    def named(kind: str, column: str, rows: pl.DataFrame = parts) -> pl.DataFrame:
        rows_with_name = rows.filter(pl.col(column).is_not_null())
        return rows_with_name.select("step", pl.concat_str(pl.lit(f"{kind}:"), column).alias("metric"), "time_ns")

    frames = [named("phase", "phase"), named("op", "op"), named("module", "path", _with_those_inside(parts))]
    if on_gpu:
        is_idle = pl.col("part").str.starts_with("idle: ")
        idle = parts.filter(is_idle).with_columns(part=pl.col("part").str.strip_prefix("idle: "))
        busy = parts.filter(~is_idle)
        frames += [
            named("class", "part", busy),
            named("kernel", "kernel", busy),
            named("idle", "part", idle),
            idle.select("step", pl.lit("gpu_idle").alias("metric"), "time_ns"),
            busy.select("step", pl.lit("gpu_busy").alias("metric"), "time_ns"),
        ]
    return frames


def _with_those_inside(parts: pl.DataFrame) -> pl.DataFrame:
    """Time of each module in each step, including its submodules: `path`, `step` and `time_ns`."""
    own_times = (
        parts.filter(pl.col("module_path").is_not_null())
        .group_by("step", "module_path")
        .agg(pl.col("time_ns").sum())
        .with_columns(name=pl.col("module_path").cast(pl.Categorical))
    )
    # Each distinct path with the paths of all enclosing modules, as categoricals, because paths of deep models are
    # long.
    ancestors = (
        own_times.select(pl.col("name").unique())
        .with_columns(words=pl.col("name").cast(pl.String).str.split("."))
        .with_columns(depth=pl.int_ranges(1, pl.col("words").list.len() + 1))
        .explode("depth")
        .select("name", path=pl.col("words").list.head(pl.col("depth")).list.join(".").cast(pl.Categorical))
    )
    return (
        own_times.select("step", "name", "time_ns")
        .join(ancestors, on="name")
        .group_by("step", "path")
        .agg(pl.col("time_ns").sum())
        .with_columns(pl.col("path").cast(pl.String))
    )


def _memory(trace: Trace) -> pl.DataFrame:
    """The maximum memory allocated on a device in each step; on GPUs, if the run has GPU memory."""
    return trace.sql(
        "select step, max(allocated_bytes)::double as value from memory_change where step is not null"
        " and (device >= 0) = (select bool_or(device >= 0) from memory_change) group by step"
    )


def _mfu(trace: Trace) -> pl.DataFrame:
    by_step = utilisation(trace, by="step").filter(pl.col("step").is_not_null())
    return by_step.group_by("step").agg(pl.col("mfu_pct").min().alias("value"))


def _identity(trace: Trace) -> dict[str, str]:
    """The entries that must match in a comparison. A missing entry is unknown."""
    info = trace.sql("from rank_info order by rank").to_dicts()
    gpus = trace.sql("select coalesce(model, name) as name from gpu_model order by all")["name"].drop_nulls()
    is_cpu_alone = not has_gpu_work(trace) and all(without_gpu_work(trace, rank) == "CPU only" for rank in trace.ranks)
    entries: dict[str, Any] = {
        "device": ", ".join(sorted(set(gpus))) if len(gpus) else "CPU only" if is_cpu_alone else None,
        "ranks": len(info),
        "world size": next((row["world_size"] for row in info if row["world_size"] is not None), None),
        "python frames": _yes(info, "with_stack"),
        "shapes": _yes(info, "record_shapes"),
        "memory": _yes(info, "profile_memory"),
        "samples per step": next(iter(throughput(trace)["samples"].drop_nulls()), None),
    }
    versions = trace.sql(
        "select distinct key, json_extract_string(metadata, '$.' || key) as value"
        " from (select metadata, unnest(json_keys(metadata)) as key from rank_info)"
        " where regexp_full_match(key, '(\\w*_)?version')"
        " order by all"
    )
    # PyTorch's exporter and Kineto write versions of software under such keys.
    entries |= {safe(row["key"]).replace("_", " "): row["value"] for row in versions.to_dicts() if row["value"]}
    return {name: str(value) for name, value in entries.items() if value is not None}


def _yes(info: Sequence[Mapping[str, Any]], flag: str) -> str:
    return "recorded" if any(row[flag] for row in info) else "not recorded"
