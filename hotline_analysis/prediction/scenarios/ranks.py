"""Scenarios of several ranks: a faster network, overlap, and more ranks."""

from __future__ import annotations

from statistics import NormalDist

import polars as pl

from hotline_analysis.prediction.engine.edits import (
    AllReduce,
    AllReduceOnCpu,
    Edit,
    Move,
    Number,
    Scale,
    Transfer,
    at,
)
from hotline_analysis.prediction.engine.loop import HIGH, LOW, MID, Loop
from hotline_analysis.prediction.scenarios.known import (
    COMPUTES,
    Given,
    Made,
    among,
    busy_ns,
    chosen_of,
    made_of,
    scenario,
)
from hotline_analysis.text.formats import percent

_COMMUNICATES = pl.col("class") == "communication"


@scenario(
    "Collectives take their bytes over the slowest link: NCCL tests, “Performance” (bus bandwidth).",
    factor=Given(2.0, "speedup of data transfer", 1e-3),
)
def _bandwidth(loop: Loop, factor: Number) -> Made:
    """The network is faster."""
    kernels = chosen_of(loop, _COMMUNICATES)
    if kernels.is_empty():
        return "No kernel communicates."
    stages = loop.trace.of(loop.rank).sql(
        "select event_id from collective_use where rank = $rank and use = 'stages'", rank=loop.rank
    )
    kernels = kernels.join(stages, on="event_id", how="anti", maintain_order="left")
    if kernels.is_empty():
        return "All communication is sends and receives of a pipeline, which mostly wait for another stage."
    assert isinstance(factor, float)
    split = _transfers(loop, kernels)
    waits = 1 - int(split["transfer_ns"].sum()) / max(busy_ns(kernels), 1)
    faster = Scale(among(kernels), 1 / factor)
    edits: list[Edit] = [Transfer(among(kernels), 1 / factor, split)]
    assumption = (
        f"{percent(100 * waits)} of the time of collectives is waiting for other ranks, not transfer: at the low end it"
        " shrinks alike, else it stays."
    )
    return made_of("bandwidth", edits if waits > 0 else [faster], assumption)


def _transfers(loop: Loop, kernels: pl.DataFrame) -> pl.DataFrame:
    """Return the transfer time of each collective: `event_id` and `transfer_ns`.

    With several ranks, the transfer starts when the last rank has arrived. With one rank, use the shortest time of the
    collective at the same position in any step, because every rank may be late in some steps; in a trace of one step,
    use the shortest time of the same kernel.
    """
    if len(loop.trace.ranks) > 1:
        transfers = loop.trace.sql(  # of all ranks, because ranks wait for each other
            "select event_id, least(transfer_ns, end_ns - start_ns) as transfer_ns from collective_match"
            " where rank = $rank and transfer_ns is not null",
            rank=loop.rank,
        )
        rows = kernels.select("event_id", "dur_ns").join(transfers, on="event_id", how="left")
        return rows.select("event_id", pl.coalesce("transfer_ns", "dur_ns").alias("transfer_ns"))
    collectives = loop.trace.of(loop.rank).sql(
        "select event_id, step, short_name, start_ns, dur_ns from gpu_event where rank = $rank and"
        " class = 'communication' and list_contains($steps, step)",
        rank=loop.rank,
        steps=loop.alike["step"].to_list(),
    )
    sorted_collectives = collectives.sort("start_ns", "event_id").with_columns(
        place=pl.int_range(pl.len()).over("step", "short_name")
    )
    key = ["short_name", "place"] if loop.alike.height > 1 else ["short_name"]
    shortest = sorted_collectives.select("event_id", pl.col("dur_ns").min().over(key).alias("transfer_ns"))
    return (
        kernels.select("event_id", "dur_ns")
        .join(shortest, on="event_id", how="left")
        .select("event_id", pl.coalesce("transfer_ns", "dur_ns").alias("transfer_ns"))
    )


@scenario("Daydream (ATC 2020), “overlapping”; a limit: nothing but data holds communication up.")
def _overlap(loop: Loop) -> Made:
    """Communication runs on a stream of its own."""
    kernels = chosen_of(loop, _COMMUNICATES)
    if kernels.is_empty():
        return "No kernel communicates."
    streams = kernels.select("device", "stream").unique()
    neighbours = chosen_of(loop, COMPUTES).join(streams, on=["device", "stream"], how="semi")
    if neighbours.is_empty():
        return "Communication already has separate streams."
    assumption = "A limit: no other kernel needs what is communicated before the step ends."
    return made_of("overlap", [Move(_COMMUNICATES)], assumption)


@scenario(
    "Daydream (ATC 2020), distributed training, whose predictions were mostly within 10 %, with NCCL 34 % slower than"
    " in theory; NCCL tests, “Performance”: an all-reduce of n ranks moves 2 (n - 1) / n of its bytes.",
    ranks=Given(8.0, "number of ranks", 2),
    gb_per_s=Given((200.0, 50.0, 10.0), "bus bandwidth: from NVLink to one network card", 1e-3),
    mb=Given(None, "megabytes of gradients; by default, from the trace", 1e-6),
    latency_us=Given((5.0, 20.0, 50.0), "latency of a collective in microseconds: NCCL within and between nodes"),
    copy_gb_per_s=Given(
        (20.0, 5.0, 2.0),
        "on CPUs, bandwidth of copying gradients to the bucket and back; our choice, near torch's copy_ on a server"
        " core: 20 GB/s with 1 MB (in cache), and 6 GB/s with 26 MB",
    ),
    bucket_mb=Given(None, "MiB of gradients per bucket (`bucket_cap_mb`); by default 25, and 1 in the first bucket"),
)
def _ddp(
    loop: Loop,
    ranks: Number,
    gb_per_s: Number,
    mb: float | None,
    latency_us: Number,
    copy_gb_per_s: Number,
    bucket_mb: float | None,
) -> Made:
    """More ranks train together (DistributedDataParallel), each with a batch of this size."""
    if not chosen_of(loop, _COMMUNICATES | pl.col("name").str.contains("^(gloo|mpi):")).is_empty():
        return "The run already has several ranks."
    times = {"rank": loop.rank, "start_ns": loop.start_ns, "end_ns": loop.end_ns}
    passes, unknown = loop.trace.sql(
        "select count(distinct (step, pass_ns)), count(*) - count(bytes) from gradient where rank = $rank"
        " and start_ns >= $start_ns and start_ns < $end_ns and step is not null",
        **times,
    ).row(0)
    if not passes:
        return "The trace does not show when gradients are accumulated."
    if mb is None and unknown:
        return "The sizes of the gradients are not in the trace: give mb, or capture with record_shapes=True."
    total = None if mb is None else 1e6 * mb * passes
    gradients = loop.trace.query("gradient_bucket", **times, bucket_mb=bucket_mb, total_bytes=total)
    number = at(ranks, MID)
    buckets = gradients.sort("step", "pass_ns", "bucket")
    if loop.has_gpu_work:
        updates = loop.events.work.filter(pl.col("phase").is_in(["clipping", "optimizer"])).sort("start_ns")
        first = updates.group_by("step").agg(until_id=pl.first("event_id"))
        if first.is_empty():
            return "The optimizer launches no work, so the trace does not show when gradients are needed."
        buckets = buckets.join(first, on="step", maintain_order="left").drop_nulls("ready_id")
        if buckets.is_empty():
            return "No gradient is made on the GPU in a step whose optimizer is seen."
    share = 2 * (number - 1) / number
    # Every rank waits for the slowest: the average wait follows from the variation of the steps here.
    late_ns = _slowest_of(number) * float(loop.alike["length_ns"].std() or 0)  # type: ignore[arg-type]
    waits = (0.0, late_ns, 2 * late_ns)
    buckets = buckets.with_columns(
        (
            pl.lit(1000 * at(latency_us, level))
            + share * pl.col("bytes") / at(gb_per_s, level)
            + pl.when(pl.col("bucket") == 0).then(waits[level]).otherwise(0.0)
        )
        .round()
        .cast(pl.Int64)
        .alias(f"ns_{level}")
        for level in (LOW, MID, HIGH)
    ).with_columns(
        (pl.col("bytes") / at(copy_gb_per_s, level)).round().cast(pl.Int64).alias(f"copy_{level}")
        for level in (LOW, MID, HIGH)
    )
    size = int(buckets["bytes"].sum()) // loop.count
    is_ready = pl.col("event_id").is_in(buckets["ready_id" if loop.has_gpu_work else "event_id"].implode())
    return made_of(
        "ddp",
        [AllReduce(is_ready, buckets) if loop.has_gpu_work else AllReduceOnCpu(is_ready, buckets)],
        f"{number:g} ranks reduce {size:,} bytes of gradients in {buckets.height // loop.count} buckets.",
        "Each rank waits for the slowest, as far as the steps of this trace differ.",
        "What runs at the same time does not slow each other down.",
        "A step has so many times the samples: compare samples per second.",
    )


def _slowest_of(count: float) -> float:
    """Return the expected maximum of this many normal values, in standard deviations above the mean (Blom 1958)."""
    return NormalDist().inv_cdf((count - 0.375) / (count + 0.25))
