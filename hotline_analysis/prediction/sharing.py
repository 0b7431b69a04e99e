"""What several copies of a program gain on one GPU: taking turns, at the same time, or fused into one."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from hotline_analysis.errors import HotlineError, QueryParameterError
from hotline_analysis.prediction.batch import blocks_of, peak_of, samples_of
from hotline_analysis.prediction.edits import Edit, Pace, Scale
from hotline_analysis.prediction.loop import HIGH, LOW, Loop, loop_of
from hotline_analysis.prediction.predict import Scenario, edited
from hotline_analysis.prediction.scenarios import KNOWN
from hotline_analysis.run.trace import Trace
from hotline_analysis.text.formats import percent

_COPIES = (1, 2, 4, 8)
_KNOWN_PCT = 80.0  # of the kernels' time: with less, how full they leave the GPU would be a guess

# Ops that HFTA fuses over models (Wang et al., MLSys 2021, table of operators), forward and backward.
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
    """What so many copies of this program, with other data or other settings, would gain on the same GPU.

    One row for each number of copies and each `way`: `time_sliced` (processes take turns, as they do by default), `mps`
    (processes run at the same time: NVIDIA's Multi-Process Service), and `fused` (one program computes all, as HFTA
    does: a kernel has the blocks of all copies). Beside them, `larger_batch` is one program with so many times the
    samples in a step, as the scenario `batch` predicts it: whether that does the same; it has no row where the trace
    does not tell the batch, or where it is too far from the recorded one. A step of all copies takes `low_ns` to
    `high_ns`; `gain_low` to `gain_high` times as much gets done as by one copy. The bounds are: no process is faster
    than alone; what is busy on the GPU adds up when processes take turns; with MPS, a kernel that has fewer blocks than
    there are multiprocessors leaves the others free; fused, a kernel takes as much longer as its blocks take more turns
    on all multiprocessors, at most as many times as there are copies, and ops that HFTA does not fuse run once for each
    copy. `limit` says what allows no more (`GPU`, `CPU`), and `fits` whether the memory of one copy is there so many
    times: NULL if the trace has no memory events. What does not fit has no times.

    Every process has CPUs of its own, and a context on the GPU whose memory is not counted. `rank` is the lowest of the
    run by default. Raises `HotlineError` for a trace from which nothing can be predicted, or that does not tell the GPU
    or the grids of its kernels, and `QueryParameterError` for numbers of copies that make no sense.
    """
    for number in copies:
        if number != int(number) or number < 1:
            raise QueryParameterError(f"copies must be whole numbers from 1 on, not {number!r}")
    loop = loop_of(trace, rank)
    loop.check_explained()
    if not loop.has_gpu_work:
        raise HotlineError("the steps of this trace have no GPU work", hint="Record it with ProfilerActivity.CUDA.")
    size, memory = _gpu(loop)
    traits = loop.kernel_traits
    _check_grids(traits)
    needed = loop.memory_needed
    rows: list[tuple[object, ...]] = []
    for number in copies:
        fits = None if needed is None or memory is None else number * needed <= memory
        for way, (low, high, limit) in _ways(loop, traits, size, number).items():
            if fits is False:
                rows.append((number, way, None, None, None, None, "memory", False))
            else:
                rows.append((number, way, low, high, *_gains(loop, number, low, high), limit, fits))
        rows += _larger_batch(loop, number, memory)
    return pl.DataFrame(rows, COLUMNS, orient="row")


def _gains(loop: Loop, number: int, low: int, high: int) -> tuple[float, float]:
    # No copy is faster than alone, also where the range of a step reaches below what was recorded.
    alone = number * loop.baseline_ns
    return min(number, alone / max(high, 1)), min(number, alone / max(low, 1))


def _larger_batch(loop: Loop, number: int, memory: int | None) -> list[tuple[object, ...]]:
    """The row of a batch that is so many times as large, if it can be predicted."""
    samples = samples_of(loop)
    made = "" if samples is None else KNOWN["batch"].made(loop, {"to": number * samples})
    if samples is None or isinstance(made, str):
        return []
    blocks = blocks_of(loop, samples)
    fits = None if blocks.is_empty() or memory is None else peak_of(blocks, number) <= memory
    if fits is False:
        return [(number, "larger_batch", None, None, None, None, "memory", False)]
    low, high = sorted(loop.per_step(loop.ended(edited(loop, made, level))) for level in (LOW, HIGH))
    limit = "CPU" if low <= loop.gpu_free_ns * loop.noise(HIGH)[1] else "GPU"
    return [(number, "larger_batch", low, high, *_gains(loop, number, low, high), limit, fits)]


def _gpu(loop: Loop) -> tuple[int, int | None]:
    """How many multiprocessors the busiest GPU has, and how much memory."""
    found = loop.trace.of(loop.rank).sql(
        "select gpu_model.sm_count, device.memory_bytes from gpu_model left join device using (rank, device_id)"
        " where rank = $rank and device_id = (select device from gpu_event where rank = $rank group by device"
        " order by sum(dur_ns) desc, device limit 1)",
        rank=loop.rank,
    )
    if found.is_empty() or not found["sm_count"][0]:
        raise HotlineError("how many multiprocessors the GPU has is not known", hint="Import with --gpu NAME.")
    return found.row(0)


def _check_grids(traits: pl.DataFrame) -> None:
    kernels = traits.filter(category="kernel")
    total = int(kernels["dur_ns"].sum())
    known = 100 * int(kernels.filter(pl.col("blocks") > 0)["dur_ns"].sum()) / max(total, 1)
    if known < _KNOWN_PCT:
        raise HotlineError(
            f"the grids of kernels are known for {percent(known)} of their time, so how full the GPU is cannot be told",
            hint="Traces of NVIDIA's GPUs have them; AMD's profiler leaves out some.",
        )


def _ways(loop: Loop, traits: pl.DataFrame, size: int, number: int) -> dict[str, tuple[int, int, str]]:
    alone_low, alone_high = loop.plain_ns(LOW), loop.plain_ns(HIGH)
    less, more = loop.noise(LOW)[1], loop.noise(HIGH)[1]
    busy = int(traits["busy_ns"].sum()) / loop.count
    # A kernel with fewer blocks than there are multiprocessors leaves some of them free.
    used = (pl.col("blocks") / size).clip(upper_bound=1.0).fill_null(1.0)
    held = float(traits.select((pl.col("busy_ns") * used).sum()).item()) / loop.count

    def bounded(by_gpu: float, alone: int) -> int:
        return max(alone, round(number * by_gpu))

    def limit(by_gpu: float) -> str:
        return "GPU" if number * by_gpu >= alone_low else "CPU"

    fused = sorted(loop.per_step(loop.ended(edited(loop, _fused(loop, traits, size, number), level)))
                   for level in (LOW, HIGH))  # fmt: skip
    return {
        "time_sliced": (bounded(less * busy, alone_low), number * alone_high, limit(less * busy)),
        "mps": (bounded(less * held, alone_low), bounded(more * busy, alone_high), limit(less * held)),
        "fused": (fused[0], fused[1], "CPU" if fused[0] <= loop.gpu_free_ns * more else "GPU"),
    }


def _fused(loop: Loop, traits: pl.DataFrame, size: int, number: int) -> Scenario:
    """All copies in one program: kernels have more blocks, and ops that cannot be fused run again for each."""
    waves = pl.col("blocks") / (size * pl.col("resident_blocks"))
    turns = ((number * waves).ceil() / waves.ceil()).clip(1.0, number).fill_null(float(number)).fill_nan(float(number))
    ops = loop.events.frame.select("event_id", "op", "runtime_id")
    met = traits.join(ops, on="event_id", how="left", maintain_order="left").with_columns(
        fuses=(pl.col("class") == "computation")
        & (pl.col("op").str.contains(_FUSABLE) | pl.col("name").str.contains("(?i)adam|adadelta")).fill_null(False)
    )
    parts = met.select(
        "event_id",
        part_0=pl.when("fuses").then(turns).otherwise(float(number)),
        part_1=pl.lit(float(number)),
        part_2=pl.lit(float(number)),
    )
    edits: list[Edit] = [Pace(pl.col("class").is_not_null(), parts)]
    again = met.filter(~pl.col("fuses"))["runtime_id"].drop_nulls().unique()
    launching = pl.col("event_id").is_in(again.implode())
    if number > 1 and not loop.events.frame.filter(launching).is_empty():
        edits.append(Scale(launching, float(number)))
    return Scenario(f"{number} fused copies", edits)
