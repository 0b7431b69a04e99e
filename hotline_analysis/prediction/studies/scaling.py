"""Predict the scaling of training with more ranks from the gradients of one rank, and the required network."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import polars as pl

from hotline_analysis.answers.longest import Numbers
from hotline_analysis.errors import HotlineError, QueryParameterError
from hotline_analysis.prediction.engine.edits import AllReduce
from hotline_analysis.prediction.engine.loop import HIGH, LOW, MID, Loop, State, loop_of
from hotline_analysis.prediction.engine.predict import Scenario, edited, time_with
from hotline_analysis.prediction.scenarios import KNOWN
from hotline_analysis.run.trace import Trace

# In GB/s: network cards of 10, 100 and 400 Gbit/s, and the GPUs of one machine (NVLink, half of 400 to 450).
_BANDWIDTHS = (1.25, 12.5, 50.0, 200.0)
_RANKS = (2, 4, 8, 16, 64)
# Slower and faster than any network, in GB/s.
_LEAST, _MOST = 0.01, 10_000.0
_STEPS = 10  # bisection in the logarithm, to within 1.4 %
_HIDDEN = 1.01  # a step that is 1 % longer counts as a step without waiting

COLUMNS = {
    "ranks": pl.Int64,
    "gb_per_s": pl.Float64,
    "predicted_ns": pl.Int64,
    "low_ns": pl.Int64,
    "high_ns": pl.Int64,
    "efficiency_pct": pl.Float64,
    "low_efficiency_pct": pl.Float64,
    "high_efficiency_pct": pl.Float64,
    "hidden_gb_per_s": pl.Float64,
    "paying_gb_per_s": pl.Float64,
}


def data_parallel_scaling(
    trace: Trace,
    *,
    ranks: Sequence[int] = _RANKS,
    gb_per_s: Sequence[float] = _BANDWIDTHS,
    rank: int | None = None,
) -> pl.DataFrame:
    """Predict the step time of data-parallel training on more ranks, each with the batch of this trace.

    One row for each of `ranks` and `gb_per_s`. The prediction is the scenario `ddp`: gradients are reduced bucket by
    bucket during backward. `gb_per_s` is the bus bandwidth of the network, and `predicted_ns` the time of a step
    between `low_ns` and `high_ns`. `efficiency_pct`, between `low_efficiency_pct` and `high_efficiency_pct`, is the
    throughput of all ranks divided by the number of ranks and the throughput of one rank. `hidden_gb_per_s` is the
    minimum bandwidth at which a step takes at most 1 % longer than on one rank; NULL if no network is fast enough,
    because latency and waiting for the slowest rank remain. `paying_gb_per_s` is the bandwidth at which all ranks
    together reach the throughput of one rank; NULL if no network is fast enough. With less bandwidth, all ranks
    together are slower than one rank.

    Raises `HotlineError` if the trace allows no prediction or does not show the gradients of one rank, and
    `QueryParameterError` for invalid numbers.
    """
    for number in ranks:
        if number != int(number) or number < 2:
            raise QueryParameterError(f"ranks must be whole numbers from 2 on, not {number!r}")
    for speed in gb_per_s:
        if not 0 < speed < math.inf:
            raise QueryParameterError(f"gb_per_s must be numbers over 0, not {speed!r}")
    loop = loop_of(trace, rank)
    loop.check_explained()
    baseline = loop.baseline_ns
    rows = []
    for number in ranks:
        network = _Network(loop, number)
        hidden, paying = network.least_speed(_HIDDEN * baseline), network.least_speed(number * baseline)
        for speed in gb_per_s:
            times = [network.step_ns(speed, level) for level in (LOW, MID, HIGH)]
            low, predicted, high = min(times), times[1], max(times)
            shares = [100 * baseline / max(ns, 1) for ns in (predicted, high, low)]
            rows.append((number, float(speed), predicted, low, high, *shares, hidden, paying))
        loop.forget()
    return pl.DataFrame(rows, COLUMNS, orient="row")


_BUCKETS = (1.0, 2.0, 5.0, 10.0, 25.0, 50.0, 100.0, 200.0, 500.0)

BUCKET_COLUMNS = {
    "bucket_mb": pl.Float64,
    "is_default": pl.Boolean,
    "bucket_count": pl.Int64,
    "predicted_ns": pl.Int64,
    "low_ns": pl.Int64,
    "high_ns": pl.Int64,
}


def bucket_sizes(
    trace: Trace,
    *,
    ranks: int = 8,
    gb_per_s: float = 50.0,
    latency_us: float = 20.0,
    mb: Sequence[float] = _BUCKETS,
    rank: int | None = None,
) -> pl.DataFrame:
    """Predict the step time on `ranks` ranks with other gradient bucket sizes (`bucket_cap_mb`): the best first.

    Small buckets are sent early, but each costs a latency (`latency_us`); large buckets wait for their last gradient.
    `bucket_mb` is the size at which a bucket is full, in MiB. `is_default` marks DistributedDataParallel's default: 1
    MiB for the first bucket and 25 MiB for the others. `bucket_count` is the number of buckets per backward pass. A
    step takes `predicted_ns`, between `low_ns` and `high_ns`. Sizes that put all gradients into one bucket are a single
    row, with the smallest size. Among equal times, the default comes first, then the larger size.

    Raises `HotlineError` if the trace allows no prediction or does not show the gradients of one rank, and
    `QueryParameterError` for invalid numbers.
    """
    for size in mb:
        if not 0 < size < math.inf:
            raise QueryParameterError(f"mb must be numbers over 0, not {size!r}")
    loop = loop_of(trace, rank)
    loop.check_explained()
    rows: list[tuple[object, ...]] = []
    caps: list[float | None] = [None, *sorted(mb)]
    for cap in caps:
        parameters = {"ranks": ranks, "gb_per_s": gb_per_s, "latency_us": latency_us}
        scenario = _made(loop, parameters if cap is None else {**parameters, "bucket_mb": cap})
        [edit] = scenario.edits
        assert isinstance(edit, AllReduce)
        buckets = edit.buckets
        count = round(buckets.height / buckets.n_unique(["step", "pass_ns"]))
        low, predicted, high = (time_with(loop, scenario, level) for level in (LOW, MID, HIGH))
        rows.append((cap, cap is None, count, predicted, min(low, predicted), max(high, predicted)))
        loop.forget()
        if cap is not None and count == 1:
            break
    frame = pl.DataFrame(rows, BUCKET_COLUMNS, orient="row")
    return frame.sort("predicted_ns", "is_default", "bucket_mb", descending=[False, True, True])


class _Network:
    """The loop with the collectives of this many ranks, on a network of any bandwidth.

    Each collective takes a constant time, plus a time in inverse proportion to the bandwidth. So two graphs, with two
    bandwidths, are enough for each end of the range.
    """

    def __init__(self, loop: Loop, ranks: int) -> None:
        self.loop = loop
        self._lines: dict[int, tuple[State, Numbers]] = {}
        self._times: dict[tuple[float, int], int] = {}
        for level in (LOW, MID, HIGH):
            slow, fast = (edited(loop, _made(loop, {"ranks": ranks, "gb_per_s": speed}), level) for speed in (1.0, 2.0))
            self._lines[level] = fast, 2 * (slow.weight - fast.weight)

    def step_ns(self, gb_per_s: float, level: int) -> int:
        """Return the time of a step at an end of the range."""
        if (gb_per_s, level) not in self._times:
            fast, moving = self._lines[level]
            weight = np.rint(fast.weight + moving * (1 / gb_per_s - 1 / 2)).astype(np.int64)
            run = self.loop.ended(replace(fast, weight=np.maximum(weight, 0)))
            self._times[gb_per_s, level] = self.loop.per_step(run)
        return self._times[gb_per_s, level]

    def least_speed(self, within_ns: float) -> float | None:
        """Return the minimum bandwidth at which a step takes at most this time; None if no bandwidth is enough.

        More bandwidth never makes a step longer.
        """
        if self.step_ns(_MOST, MID) > within_ns:
            return None
        low, high = math.log(_LEAST), math.log(_MOST)
        for _ in range(_STEPS):
            middle = (low + high) / 2
            low, high = (low, middle) if self.step_ns(math.exp(middle), MID) <= within_ns else (middle, high)
        return math.exp(high)


def _made(loop: Loop, given: Mapping[str, object]) -> Scenario:
    scenario = KNOWN["ddp"].made(loop, given)
    if isinstance(scenario, str):
        raise HotlineError(f"more ranks cannot be predicted: {scenario[:1].lower()}{scenario[1:]}".rstrip("."))
    return scenario
