"""What a gate knows of a run: what it is, and the values of each metric in each of its steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from hotline_analysis.answers.generated import cpu_parts, gpu_parts, step_lengths, throughput, utilisation
from hotline_analysis.answers.recorded import has_gpu_work
from hotline_analysis.gating.rules import WHOLE, Unit
from hotline_analysis.run.trace import Trace
from hotline_analysis.text.formats import safe


@dataclass(frozen=True)
class Measured:
    """One run: its name, what must be the same for a comparison, and each metric's value in each step.

    Several ranks are one: a time is their mean, memory and utilisation those of the rank that has most and least.
    `kinds` is the kind of each step (`step_kinds`), of the lowest rank; empty if it is unknown.
    """

    name: str
    identity: Mapping[str, str]
    values: Mapping[str, Sequence[float]]
    kinds: Sequence[int] = ()

    @property
    def step_count(self) -> int:
        """How many steps it has."""
        return len(self.values.get("step", ()))

    def unit(self, metric: str) -> Unit:
        """The unit of a metric."""
        return WHOLE[metric][0] if metric in WHOLE else "ns"


def measure(trace: Trace, name: str | None = None) -> Measured:
    """Read the values of all metrics from a run.

    Only steps that count (`step_lengths`) are measured. Times of parts are those of `diff`: on the GPU, busy and
    idle, if the run has GPU work; else on the main thread. A part that a step does not have takes 0 in it.
    """
    lengths = step_lengths(trace).filter(pl.col("kind").is_not_null())
    steps = (
        lengths.sort("rank", "begin_ns")
        .group_by("step", maintain_order=True)
        .agg(pl.col("length_ns").mean().alias("value"), pl.col("kind").first(), pl.col("begin_ns").min())
        .sort("begin_ns", "step")
    )
    order = steps.select("step")
    on_gpu = has_gpu_work(trace)
    parts = gpu_parts(trace) if on_gpu else cpu_parts(trace).with_columns(kernel=pl.lit(None, pl.String))
    rank_count = max(1, lengths["rank"].n_unique())
    timed = parts.filter(pl.col("step").is_in(order["step"].implode()))
    # The time of no step counts to none, and what one rank lacks is 0 there.
    frames = [
        frame.group_by("step", "metric").agg((pl.col("time_ns").sum() / rank_count).alias("value"))
        for frame in _by_metric(timed, on_gpu)
    ]
    values: dict[str, list[float]] = {"step": steps["value"].to_list()}
    for metric, found in (("memory_peak", _memory(trace)), ("mfu", _mfu(trace) if on_gpu else None)):
        if found is not None:
            kept = order.join(found, on="step", how="inner", maintain_order="left")["value"].drop_nulls()
            if len(kept):
                values[metric] = kept.to_list()
    placed = pl.concat(frames).join(order.with_row_index("place"), on="step").sort("metric", "place")
    kinds = steps["kind"].to_list()
    return Measured(name or trace.path.name, _identity(trace), StepValues(values, placed, order.height), kinds)


class StepValues(Mapping[str, Sequence[float]]):
    """The values of each metric in each step. Those of parts are kept where they take time: most do so in few steps.

    `whole` has the values of the metrics that are none of parts, and `parts` a row for each `metric`, in order, and
    `place` of a step among so many: its `value`.
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
        found: list[float] = values.tolist()
        return found

    def __contains__(self, metric: object) -> bool:
        return metric in self._rows or metric in self._whole

    def __iter__(self) -> Iterator[str]:
        yield from self._whole
        yield from self._rows

    def __len__(self) -> int:
        return len(self._whole) + len(self._rows)


def _by_metric(parts: pl.DataFrame, on_gpu: bool) -> list[pl.DataFrame]:
    """The rows of parts, once for each kind of metric, with the metric's name."""

    def named(kind: str, column: str, rows: pl.DataFrame = parts) -> pl.DataFrame:
        known = rows.filter(pl.col(column).is_not_null())
        return known.select("step", pl.concat_str(pl.lit(f"{kind}:"), column).alias("metric"), "time_ns")

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
    """The time of each module in each step with that of the modules in it: `path`, `step` and `time_ns`."""
    own = (
        parts.filter(pl.col("module_path").is_not_null())
        .group_by("step", "module_path")
        .agg(pl.col("time_ns").sum())
        .with_columns(name=pl.col("module_path").cast(pl.Categorical))
    )
    # Each path once, with the paths of all modules around it, as numbers: of a deep model, their texts are long.
    around = (
        own.select(pl.col("name").unique())
        .with_columns(words=pl.col("name").cast(pl.String).str.split("."))
        .with_columns(depth=pl.int_ranges(1, pl.col("words").list.len() + 1))
        .explode("depth")
        .select("name", path=pl.col("words").list.head(pl.col("depth")).list.join(".").cast(pl.Categorical))
    )
    return (
        own.select("step", "name", "time_ns")
        .join(around, on="name")
        .group_by("step", "path")
        .agg(pl.col("time_ns").sum())
        .with_columns(pl.col("path").cast(pl.String))
    )


def _memory(trace: Trace) -> pl.DataFrame:
    """The most that a device has allocated in each step; of GPUs, if there is memory of one."""
    return trace.sql(
        "select step, max(allocated_bytes)::double as value from memory_change where step is not null"
        " and (device >= 0) = (select bool_or(device >= 0) from memory_change) group by step"
    )


def _mfu(trace: Trace) -> pl.DataFrame:
    found = utilisation(trace, by="step").filter(pl.col("step").is_not_null())
    return found.group_by("step").agg(pl.col("mfu_pct").min().alias("value"))


def _identity(trace: Trace) -> dict[str, str]:
    """What a comparison asks to be the same: an absent entry is not known."""
    info = trace.sql("from rank_info order by rank").to_dicts()
    gpus = trace.sql("select coalesce(model, name) as name from gpu_model order by all")["name"].drop_nulls()
    known: dict[str, Any] = {
        "device": ", ".join(sorted(set(gpus))) if len(gpus) else None if has_gpu_work(trace) else "CPU only",
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
    # PyTorch's exporter and Kineto write the versions that a file names under such keys.
    known |= {safe(row["key"]).replace("_", " "): row["value"] for row in versions.to_dicts() if row["value"]}
    return {what: str(value) for what, value in known.items() if value is not None}


def _yes(info: Sequence[Mapping[str, Any]], flag: str) -> str:
    return "recorded" if any(row[flag] for row in info) else "not recorded"
