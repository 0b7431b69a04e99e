"""Predict the gain of several copies of a program on one GPU: taking turns, concurrent, or fused."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from hotline_analysis.answers.recorded import how_to_record_gpu_work
from hotline_analysis.errors import HotlineError, QueryParameterError
from hotline_analysis.prediction.engine.edits import Edit, Pace, Scale
from hotline_analysis.prediction.engine.loop import HIGH, LOW, Loop, loop_of
from hotline_analysis.prediction.engine.predict import Scenario, time_with
from hotline_analysis.prediction.scenarios import KNOWN
from hotline_analysis.prediction.studies.batch import blocks_of, peak_of, samples_of
from hotline_analysis.run.trace import Trace
from hotline_analysis.text.formats import percent

_COPIES = (1, 2, 4, 8)
_KNOWN_PCT = 80.0  # of the kernels' time; below, the utilisation of the GPU would be a guess

# Ops fused across models by HFTA (Wang et al., MLSys 2021, table of operators), forward and backward.
_FUSABLE = (
    r"(?i)conv(olution|1d|2d|_transpose)|addmm|::mm$|::bmm$|::linear|max_pool|adaptive_\w*pool|dropout|batch_norm"
    r"|embedding|relu|hardtanh|threshold|attention|adam|adadelta"
)

COLUMNS = {
    "copies": pl.Int64,
    "way": pl.String,
    "low_ns": pl.Int64,
    "high_ns": pl.Int64,
    "gain_low": pl.Float64,
    "gain_high": pl.Float64,
    "limit": pl.String,
    "fits": pl.Boolean,
}


def share_gpu(trace: Trace, *, copies: Sequence[int] = _COPIES, rank: int | None = None) -> pl.DataFrame:
    """Predict the gain of running several copies of this program, with other data or settings, on the same GPU.

    One row for each number of copies and each `way`:

    - `time_sliced`: processes take turns, which is the default.
    - `mps`: processes run at the same time (NVIDIA's Multi-Process Service).
    - `fused`: one program computes all copies, as in HFTA: a kernel has the blocks of all copies.
    - `larger_batch`: for comparison, one program with as many times the samples per step, as predicted by the scenario
      `batch`. This row is missing if the batch is unknown or too far from the recorded batch.

    A step of all copies takes `low_ns` to `high_ns`, and the throughput is `gain_low` to `gain_high` times the
    throughput of one copy. The bounds assume:

    - No process is faster than alone.
    - When processes take turns, busy GPU time adds up.
    - With MPS, a kernel with fewer blocks than multiprocessors leaves the other multiprocessors free.
    - Fused, a kernel's time grows with the number of turns its blocks need on all multiprocessors, at most by the
      number of copies. Ops not fused by HFTA run once for each copy.

    `limit` is the limiting resource (`GPU`, `CPU`, `memory`). `fits` says whether the memory of one copy is available
    as many times; NULL if the trace has no memory events. Copies that do not fit have no times.

    Each process is assumed to have its own CPUs. The memory of its GPU context is not counted. `rank` is by default the
    lowest rank of the run. Raises `HotlineError` if the trace allows no prediction or lacks the GPU or the grids of its
    kernels, and `QueryParameterError` for invalid numbers of copies.
    """
    for number in copies:
        if number != int(number) or number < 1:
            raise QueryParameterError(f"copies must be whole numbers from 1 on, not {number!r}")
    loop = loop_of(trace, rank)
    loop.check_explained()
    if not loop.has_gpu_work:
        raise HotlineError("the steps of this trace have no GPU work", hint=how_to_record_gpu_work(trace, rank))
    size, memory = _gpu(loop)
    traits = loop.kernel_traits
    _check_grids(traits)
    needed_bytes = loop.memory_needed
    rows: list[tuple[object, ...]] = []
    for number in copies:
        fits = None if needed_bytes is None or memory is None else number * needed_bytes <= memory
        for way, (low, high, limit) in _ways(loop, traits, size, number).items():
            if fits is False:
                rows.append((number, way, None, None, None, None, "memory", False))
            else:
                rows.append((number, way, low, high, *_gains(loop, number, low, high), limit, fits))
        rows += _larger_batch(loop, number, memory)
    return pl.DataFrame(rows, COLUMNS, orient="row")


def _gains(loop: Loop, number: int, low: int, high: int) -> tuple[float, float]:
    # No copy is faster than alone, even if the range of a step reaches below the recorded time.
    serial_ns = number * loop.baseline_ns
    return min(number, serial_ns / max(high, 1)), min(number, serial_ns / max(low, 1))


def _larger_batch(loop: Loop, number: int, memory: int | None) -> list[tuple[object, ...]]:
    """Return the row of a batch scaled by the number of copies; empty if it cannot be predicted."""
    samples = samples_of(loop)
    scenario = "" if samples is None else KNOWN["batch"].made(loop, {"to": number * samples})
    if samples is None or isinstance(scenario, str):
        return []
    blocks = blocks_of(loop, samples)
    fits = None if blocks.is_empty() or memory is None else peak_of(blocks, number) <= memory
    if fits is False:
        return [(number, "larger_batch", None, None, None, None, "memory", False)]
    low, high = sorted(time_with(loop, scenario, level) for level in (LOW, HIGH))
    limit = "CPU" if low <= loop.gpu_free_ns * loop.noise(HIGH)[1] else "GPU"
    return [(number, "larger_batch", low, high, *_gains(loop, number, low, high), limit, fits)]


def _gpu(loop: Loop) -> tuple[int, int | None]:
    """Return the number of multiprocessors of the busiest GPU, and its memory in bytes."""
    frame = loop.trace.of(loop.rank).sql(
        "select gpu_model.sm_count, device.memory_bytes from gpu_model left join device using (rank, device_id)"
        " where rank = $rank and device_id = (select device from gpu_event where rank = $rank group by device"
        " order by sum(dur_ns) desc, device limit 1)",
        rank=loop.rank,
    )
    if frame.is_empty() or not frame["sm_count"][0]:
        raise HotlineError("the number of the GPU's multiprocessors is unknown", hint="Import with --gpu NAME.")
    return frame.row(0)


def _check_grids(traits: pl.DataFrame) -> None:
    kernels = traits.filter(category="kernel")
    total = int(kernels["dur_ns"].sum())
    pct = 100 * int(kernels.filter(pl.col("blocks") > 0)["dur_ns"].sum()) / max(total, 1)
    if pct < _KNOWN_PCT:
        raise HotlineError(
            f"the kernels' grids are known for {percent(pct)} of the time, so the GPU's occupancy is unknown",
            hint="Traces of NVIDIA GPUs have grids; AMD's profiler leaves out some.",
        )


def _ways(loop: Loop, traits: pl.DataFrame, size: int, number: int) -> dict[str, tuple[int, int, str]]:
    alone_low, alone_high = loop.plain_ns(LOW), loop.plain_ns(HIGH)
    low_noise, high_noise = loop.noise(LOW)[1], loop.noise(HIGH)[1]
    busy = int(traits["busy_ns"].sum()) / loop.count
    # A kernel with fewer blocks than multiprocessors leaves some of them free.
    share = (pl.col("blocks") / size).clip(upper_bound=1.0).fill_null(1.0)
    held_ns = float(traits.select((pl.col("busy_ns") * share).sum()).item()) / loop.count

    def bounded(by_gpu: float, alone: int) -> int:
        return max(alone, round(number * by_gpu))

    def limit(by_gpu: float) -> str:
        return "GPU" if number * by_gpu >= alone_low else "CPU"

    fused = sorted(time_with(loop, _fused(loop, traits, size, number), level) for level in (LOW, HIGH))
    return {
        "time_sliced": (bounded(low_noise * busy, alone_low), number * alone_high, limit(low_noise * busy)),
        "mps": (
            bounded(low_noise * held_ns, alone_low),
            bounded(high_noise * busy, alone_high),
            limit(low_noise * held_ns),
        ),
        "fused": (fused[0], fused[1], "CPU" if fused[0] <= loop.gpu_free_ns * high_noise else "GPU"),
    }


def _fused(loop: Loop, traits: pl.DataFrame, size: int, number: int) -> Scenario:
    """Return the scenario of all copies in one program.

    Kernels have more blocks, and unfusable ops run once per copy.
    """
    waves = pl.col("blocks") / (size * pl.col("resident_blocks"))
    turns = ((number * waves).ceil() / waves.ceil()).clip(1.0, number).fill_null(float(number)).fill_nan(float(number))
    ops = loop.events.frame.select("event_id", "op", "runtime_id")
    kernels = traits.join(ops, on="event_id", how="left", maintain_order="left").with_columns(
        fuses=(pl.col("class") == "computation")
        & (pl.col("op").str.contains(_FUSABLE) | pl.col("name").str.contains("(?i)adam|adadelta")).fill_null(False)
    )
    parts = kernels.select(
        "event_id",
        part_0=pl.when("fuses").then(turns).otherwise(float(number)),
        part_1=pl.lit(float(number)),
        part_2=pl.lit(float(number)),
    )
    edits: list[Edit] = [Pace(pl.col("class").is_not_null(), parts)]
    call_ids = kernels.filter(~pl.col("fuses"))["runtime_id"].drop_nulls().unique()
    is_launching = pl.col("event_id").is_in(call_ids.implode())
    if number > 1 and not loop.events.frame.filter(is_launching).is_empty():
        edits.append(Scale(is_launching, float(number)))
    return Scenario(f"{number} fused copies", edits)
