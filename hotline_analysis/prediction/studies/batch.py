"""Predict other batch sizes: step time, memory, and the largest and the most efficient batch.

From one trace, each work item is split into a fixed part and a part that grows with the batch, and the allocator's
timeline is replayed with larger blocks. From several traces, lines are fitted to the measurements, as in Skyline (Yu et
al., UIST 2020): step time and memory peak, each against the batch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from hotline_analysis.errors import HotlineError, QueryParameterError
from hotline_analysis.prediction.engine.edits import Edit, Scale
from hotline_analysis.prediction.engine.loop import Loop, loop_of
from hotline_analysis.prediction.engine.predict import Scenario
from hotline_analysis.prediction.scenarios import Given, Made, scenario
from hotline_analysis.run.arguments import check_traces
from hotline_analysis.run.trace import Trace
from hotline_analysis.text.formats import percent, size

MOST_TIMES = 4.0
"""Maximum ratio between the predicted and the measured batch: further away, libraries choose other kernels."""

MEMORY_SHARE = 0.95
"""Usable share of a device's memory: the rest is used by the context and by libraries."""

KNEE = 0.9
"""Throughput at the knee, as a share of the maximum: beyond the knee, a larger batch gains less than the last tenth."""

_BUSY_PCT = 90.0  # a GPU busy for less of the step waits for the CPU, whose time does not depend on the batch
_PHASES = ("forward", "loss", "backward")
_SOURCE = (
    "Skyline (UIST 2020): the time of a step and the peak of memory are straight lines in the batch. The split of one"
    " trace into what grows and what does not is ours."
)


@dataclass(frozen=True)
class Line:
    """A line through measured points: `at(batch)`, and the maximum deviation of the points in percent."""

    slope: float
    intercept: float
    residual_pct: float

    def at(self, batch: float) -> float:
        """Return the value at a batch size."""
        return self.intercept + self.slope * batch


@dataclass(frozen=True)
class BatchScaling:
    """Step time and memory as functions of the batch, from several traces of one program.

    `frame` has one row per trace: `batch`, `step_ns`, `samples_per_s`, `peak_bytes`, and `busy_pct` of the GPU; the
    fitted values (`fitted_ns`, `fitted_bytes`), their deviations in percent (`off_ns_pct`, `off_bytes_pct`), and
    whether the row was used to fit the times (`is_fitted`). `time` and `memory` are the lines. `time` is None with
    fewer than two traces limited by the GPU. `most_samples_per_s` is the limit of the throughput, `knee` the batch with
    nine tenths of this limit, and `largest` the largest batch that fits into the GPU. Each is None if unknown, with the
    reason in `notes`.
    """

    frame: pl.DataFrame
    time: Line | None
    memory: Line | None
    most_samples_per_s: float | None
    knee: int | None
    largest: int | None
    notes: tuple[str, ...]

    def step_ns(self, batch: float) -> int | None:
        """Return the predicted step time for this number of samples; None if unknown."""
        return None if self.time is None else round(self.time.at(batch))

    def peak_bytes(self, batch: float) -> int | None:
        """Return the predicted memory peak in bytes for this number of samples; None if unknown."""
        return None if self.memory is None else round(self.memory.at(batch))

    def __str__(self) -> str:
        sentences = []
        if self.most_samples_per_s is not None:
            sentences.append(f"No batch trains more than {self.most_samples_per_s:,.0f} samples per second.")
        if self.knee is not None:
            sentences.append(f"Nine tenths of that are reached at {self.knee:,} samples per step.")
        if self.memory is not None:
            sentences.append(f"A sample needs {size(self.memory.slope)}, all else {size(self.memory.intercept)}.")
        if self.largest is not None:
            sentences.append(f"The largest batch that fits is {self.largest:,}.")
        return " ".join([*sentences, *self.notes])


def batch_scaling(traces: Sequence[Trace], *, samples: Sequence[int] | None = None) -> BatchScaling:
    """Fit time, throughput and memory against the batch, from traces of one program with different batch sizes.

    `samples` is the number of samples per step of each trace, for traces without this number. Times are fitted to
    traces with the GPU busy for 90 % of the step: below, the CPU limits the step, and the step time does not depend on
    the batch. Without any GPU work, all traces are used. Raises `QueryParameterError` for fewer than two traces or two
    batch sizes.
    """
    check_traces("batch_scaling", *traces)
    if samples is not None and len(samples) != len(traces):
        raise QueryParameterError(f"there are {len(traces)} traces, but {len(samples)} values in samples")
    rows = [_measured(trace, None if samples is None else samples[number]) for number, trace in enumerate(traces)]
    frame = pl.DataFrame(rows, _MEASURED).sort("batch")
    if frame["batch"].n_unique() < 2:
        raise QueryParameterError(
            "the fit needs traces with at least two batch sizes",
            hint="Capture one with half the batch, or use whatif(trace, 'batch', to=64) with a single trace.",
        )
    notes = []
    fits = frame["busy_pct"].is_null() | (frame["busy_pct"] >= _BUSY_PCT)
    time = _line(frame.filter(fits), "step_ns")
    if time is None or time.slope <= 0:
        time = None
        notes.append(
            f"Fewer than two traces keep the GPU busy for {percent(_BUSY_PCT)} of the step, so the CPU decides how long"
            " a step takes, whatever the batch."
            if not fits.all()
            else "A step of a larger batch takes no longer, so nothing tells how long one of another size takes."
        )
    memory = _line(frame, "peak_bytes")
    if memory is None:
        notes.append("Without profile_memory=True, nothing is known of the memory.")
    fitted = frame.with_columns(
        _fitted(time, "fitted_ns"),
        _fitted(memory, "fitted_bytes"),
        is_fitted=fits & (time is not None),
    ).with_columns(
        off_ns_pct=100 * (pl.col("fitted_ns") / pl.col("step_ns") - 1),
        off_bytes_pct=100 * (pl.col("fitted_bytes") / pl.col("peak_bytes") - 1),
    )
    largest = None
    if memory is not None and memory.slope > 0:
        room = [_room(trace) for trace in traces]
        if all(limit is not None for limit in room):
            largest = max(
                0, math.floor((min(limit for limit in room if limit is not None) - memory.intercept) / memory.slope)
            )
        else:
            notes.append(
                "The size of the device's memory is not in the traces, so nothing is said of the largest batch."
            )
    return BatchScaling(
        fitted.drop("device_type"),
        time,
        memory,
        1e9 / time.slope if time is not None else None,
        # b / (c + s b) is nine tenths of 1 / s
        math.ceil(KNEE / (1 - KNEE) * max(time.intercept, 0) / time.slope - 1e-6) if time is not None else None,
        largest,
        tuple(notes),
    )


_MEASURED = {
    "batch": pl.Int64,
    "step_ns": pl.Int64,
    "samples_per_s": pl.Float64,
    "peak_bytes": pl.Int64,
    "busy_pct": pl.Float64,
    "device_type": pl.String,
}


def _measured(trace: Trace, given: int | None) -> dict[str, Any]:
    loop = loop_of(trace)
    batch = samples_of(loop, given)
    if batch is None:
        raise HotlineError(
            "the number of samples per step is unknown",
            hint="Give `samples`, or capture with record_shapes=True or batch_size=.",
        )
    lengths = loop.steps["length_ns"]
    blocks = blocks_of(loop, batch)
    step_ns = round(float(lengths.median() or 0))  # type: ignore[arg-type]
    busy = 100 * loop.cpu_free_ns / max(loop.baseline_ns, 1) if loop.has_gpu_work else None
    return {
        "batch": batch,
        "step_ns": step_ns,
        "samples_per_s": 1e9 * batch / max(step_ns, 1),
        "peak_bytes": None if blocks.is_empty() else peak_of(blocks, 1.0),
        "busy_pct": busy,
        "device_type": None if blocks.is_empty() else blocks["device_type"][0],
    }


def _line(rows: pl.DataFrame, value: str) -> Line | None:
    """Fit a line by least squares; None with fewer than two batch sizes with a known value."""
    points = rows.drop_nulls(value)
    if points["batch"].n_unique() < 2:
        return None
    batch, values = points["batch"].to_numpy().astype(float), points[value].to_numpy().astype(float)
    slope, intercept = np.polyfit(batch, values, 1)
    off = np.abs((intercept + slope * batch) / np.maximum(values, 1) - 1)
    return Line(float(slope), float(intercept), float(100 * off.max()))


def _fitted(line: Line | None, name: str) -> pl.Expr:
    value = pl.lit(None, pl.Float64) if line is None else line.intercept + line.slope * pl.col("batch")
    return value.round().cast(pl.Int64).alias(name)


def samples_of(loop: Loop, given: float | None = None) -> int | None:
    """Return the samples per step: as given, as stored by the capture, or from the first op; None if unknown."""
    if given is not None:
        return int(given)
    stored_samples = (
        loop.trace.of(loop.rank)
        .sql(
            "select try_cast(json_extract_string(metadata, '$.hotline_metadata.batch_size') as bigint) as samples"
            " from rank_info where rank = $rank",
            rank=loop.rank,
        )["samples"]
        .drop_nulls()
    )
    if not stored_samples.is_empty() and stored_samples[0] > 0:
        return int(stored_samples[0])
    op_samples = loop.trace.query("throughput", rank=loop.rank)["samples"].drop_nulls()
    return None if op_samples.is_empty() else int(op_samples[0])


def blocks_of(loop: Loop, samples: int) -> pl.DataFrame:
    """Return the memory blocks alive in the steps of a loop: the query `step_block`."""
    start_ns, end_ns = loop.start_ns, int(loop.steps["end_ns"][-1])
    return loop.trace.query("step_block", rank=loop.rank, start_ns=start_ns, end_ns=end_ns, samples=samples)


def peak_of(blocks: pl.DataFrame, times: float) -> int:
    """Return the peak of allocated bytes if all blocks that grow with the batch become `times` as large."""
    sizes = pl.when("grows").then((pl.col("bytes") * times).round()).otherwise("bytes").cast(pl.Int64)
    begins = blocks.select(at_ns="start_ns", at_id="start_id", change=sizes)
    ends = blocks.select(at_ns="end_ns", at_id="end_id", change=-sizes).drop_nulls("at_ns")
    alive = pl.concat([begins, ends]).sort("at_ns", "at_id")["change"].cum_sum()
    return int(blocks["older_bytes"][0]) + int(alive.max() or 0)  # type: ignore[arg-type]


def _room(trace: Trace) -> float | None:
    """Return the usable bytes of the first GPU: its memory, without the allocator's unused reserve."""
    frame = trace.sql(
        "select any_value(device.memory_bytes) as memory_bytes,"
        " max(memory_change.allocated_bytes) / nullif(max(memory_change.reserved_bytes), 0) as allocated_share"
        " from memory_change inner join device"
        " on memory_change.rank = device.rank and memory_change.device = device.device_id"
        " where memory_change.device_type != 'cpu'"
    )
    memory, share = frame.row(0)
    return None if memory is None else MEMORY_SHARE * memory * min(share or 1.0, 1.0)


@scenario(
    _SOURCE,
    to=Given(None, "samples of a step", 1),
    batch=Given(None, "samples per recorded step; by default, from the trace", 1),
)
def _batch(loop: Loop, to: float | None, batch: float | None) -> Made:
    """A step has more samples, or fewer."""
    if to is None:
        return "Give the number of samples per step, as in to=64."
    samples = samples_of(loop, batch)
    if samples is None:
        return "The number of samples per step is unknown: give batch, as in batch=32."
    times = to / samples
    if not 1 / MOST_TIMES <= times <= MOST_TIMES:
        return (
            f"A step has {samples:,} samples here, and one of {to:,.0f} is too far away to be predicted from one trace:"
            f" at most {MOST_TIMES:g} times as many, or a {MOST_TIMES:g}th. Capture another batch, and ask"
            " batch_scaling."
        )
    edits = _edits(loop, times)
    if not edits:
        return "The steps have no known ops or kernels of loading, forward, loss or backward."
    assumptions = [
        f"A step has {to:g} samples instead of {samples:,}. Of each work, what the shortest ones take does not grow"
        " with the batch; the range is from what half of them take to nothing."
        + ("" if loop.has_gpu_work else " Of an op of the CPU, it is from what its shortest calls take."),
        *_said_of_memory(loop, samples, times),
    ]
    return Scenario("batch", tuple(edits), "A step has more samples, or fewer.", tuple(assumptions), _SOURCE)


def _edits(loop: Loop, times: float) -> list[Edit]:
    """Scale work items by length: the fixed share depends on the length."""
    events = loop.events.frame
    in_model = pl.col("phase").is_in(_PHASES)
    if loop.has_gpu_work:
        works = events.filter(
            pl.col("class").is_in(["computation", "memory"]) & (in_model | (pl.col("phase") == "load_data"))
        )
    else:
        ops = events.filter((pl.col("category") == "cpu_op") & in_model)
        works = _outermost(ops)
    works = works.filter(pl.col("dur_ns") > 0)
    if works.is_empty():
        return []
    shortest, usual = (float(works["dur_ns"].quantile(share) or 0) for share in (0.05, 0.5))
    # The shortest calls of a CPU op show the op's overhead per call, as an upper bound.
    least = pl.col("dur_ns").quantile(0.05).over("name") if not loop.has_gpu_work else pl.lit(usual)
    rows = works.with_columns(least=pl.max_horizontal(least, pl.lit(usual))).with_columns(
        pl.col("dur_ns", "least").log(2).floor().name.suffix("_length")
    )
    edits: list[Edit] = []
    for _, group in rows.group_by("dur_ns_length", "least_length", maintain_order=True):
        middle, most = (float(group[name].median() or 1) for name in ("dur_ns", "least"))  # type: ignore[arg-type]
        low, mid, high = sorted(_grown(middle, floor, times) for floor in (0.0, shortest, most))
        edits.append(Scale(pl.col("event_id").is_in(group["event_id"].implode()), (low, mid, high)))
    loading = events.filter((pl.col("category") == "cpu_op") & (pl.col("phase") == "load_data"))
    if not loading.is_empty():
        is_loading = pl.col("event_id").is_in(loading["event_id"].implode())
        edits.append(Scale(is_loading, (min(1.0, times), (1 + times) / 2, max(1.0, times))))
    return edits


def _grown(length: float, floor: float, times: float) -> float:
    """Return the factor for a work item of this length if `floor` of the time does not grow."""
    fixed = min(floor, length)
    return (fixed + (length - fixed) * times) / length


def _outermost(ops: pl.DataFrame) -> pl.DataFrame:
    """Return library ops outside other library ops, except autograd nodes: `aten::conv2d`, not the ops it calls."""
    library_ops = ops.filter(pl.col("name").str.contains("::") & ~pl.col("name").str.contains(r"^autograd::|^torch::"))
    sorted_ops = library_ops.sort("track_id", "start_ns", "end_ns", descending=[False, False, True])
    previous_end = pl.col("end_ns").cum_max().shift(1).over("track_id")
    return sorted_ops.filter(previous_end.is_null() | (pl.col("start_ns") >= previous_end))


def _said_of_memory(loop: Loop, samples: int, times: float) -> list[str]:
    blocks = blocks_of(loop, samples)
    if blocks.is_empty():
        return ["Nothing is known of the memory: capture with profile_memory=True."]
    peak, new_peak = peak_of(blocks, 1.0), peak_of(blocks, times)
    sentences = [f"The peak of memory is {size(new_peak)}, instead of {size(peak)}."]
    room = _room(loop.trace) if blocks["device_type"][0] != "cpu" else None
    if room is not None:
        largest = largest_batch(blocks, samples, room)
        sentences.append(f"Up to {largest:,} samples fit into {size(room)} of the GPU.")
    return sentences


def largest_batch(blocks: pl.DataFrame, samples: int, room: float) -> int:
    """Return the largest number of samples whose peak fits, by bisection."""
    fits, too_many = 0, samples
    while peak_of(blocks, too_many / samples) <= room:
        fits, too_many = too_many, 2 * too_many
        if too_many > samples * 2**20:
            return fits
    while too_many - fits > 1:
        middle = (fits + too_many) // 2
        if peak_of(blocks, middle / samples) <= room:
            fits = middle
        else:
            too_many = middle
    return fits


__all__ = ["BatchScaling", "Line", "batch_scaling", "blocks_of", "largest_batch", "peak_of", "samples_of"]
