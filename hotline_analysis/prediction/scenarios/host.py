"""Scenarios of the CPU: loading batches, copying batches, and waiting for the GPU."""

from __future__ import annotations

import polars as pl

from hotline_analysis.answers.replay import Run
from hotline_analysis.answers.waiting import cpu_waits
from hotline_analysis.prediction.engine.edits import (
    Edit,
    Hasten,
    Number,
    Scale,
    Take,
    Unwait,
)
from hotline_analysis.prediction.engine.loop import MID, Loop
from hotline_analysis.prediction.scenarios.known import (
    GPU,
    KNOWN,
    NAME,
    NO_GPU,
    TO_GPU,
    Given,
    Made,
    among,
    busy_ns,
    calls_that_waited,
    chosen_of,
    each_end,
    made_of,
    scenario,
)
from hotline_analysis.text.formats import duration

_FETCH = (
    (pl.col("category").is_in(["user_annotation", "cpu_op"]) & NAME.str.contains(r"^enumerate\(DataLoader\)")),
    ((pl.col("category") == "user_annotation") & NAME.str.contains(r"^\[pl\].*dataloader_next$")),
    (
        (pl.col("category") == "python_function")
        & NAME.str.contains(r"(^|/)torch/utils/data/dataloader\.py\(\d+\): __next__$")
    ),
)


@scenario(
    "The training loop's thread only takes batches off a queue: torch.utils.data, “Multi-process data loading”.",
    workers=Given(None, "number of loading processes; by default, as many as needed", 0),
    # In recordings with four workers (ResNet-50 on a V100, batches of 19 MB; samples of pytorch/kineto), this took 1.4
    # to 1.7 ms. The range allows twice the time for more data; a small batch only has to pass a pipe.
    batch_ms=Given((0.2, 1.5, 3.0), "milliseconds to take a batch off the queue"),
)
def _loader(loop: Loop, workers: float | None, batch_ms: Number) -> Made:
    """Other processes load the batches."""
    fetches = next((calls for predicate in _FETCH if not (calls := chosen_of(loop, predicate)).is_empty()), None)
    if fetches is None:
        return "The trace has no DataLoader calls."
    each_ns = busy_ns(fetches) / loop.count
    ns = each_end(lambda value: 1e6 * value, batch_ms)
    has_workers = fetches["name"].str.contains("MultiProcess").any()
    if workers == 0:
        if has_workers:
            return "The workers' time per batch is not in the trace: workers are other processes."
        return "The training loop already loads batches itself."
    expected_ns = ns[1] if isinstance(ns, tuple) else ns
    # A wait below twice the time to take a batch off a queue may be nothing more than that.
    if each_ns * loop.count <= 2 * expected_ns * fetches.height:
        clause = "Workers load the batches already" if has_workers else "Batches are there at once"
        return f"{clause}: the loop waits {duration(round(each_ns))} per step for them."
    waits_ns = cpu_waits(loop.trace, loop.rank, loop.steps["step"].to_list())["wait_ns"].sum() / loop.count
    if waits_ns >= each_ns:
        return "A step waits longer for other ranks than for the batch, so faster loading gains nothing."
    assumptions = [
        "Workers do not slow each other or the training loop down: there are cores, and memory, for all of them."
    ]
    least: Number = 0.0
    if has_workers:
        assumptions.append("There are so many workers that a batch is always there.")
    elif workers is None:
        step_ns = loop.per_step(_with(loop, [Take(among(fetches), ns)]))
        assumptions.append(
            f"At least {max(1, -(-round(each_ns) // max(step_ns, 1))):,} workers, or batches come too late."
        )
    else:
        least = each_ns / workers
        assumptions.append(f"{workers:g} workers have a batch every {duration(round(least))}.")
    return made_of("loader", [Take(among(fetches), ns)], *assumptions, least_ns=least)


def _with(loop: Loop, edits: list[Edit]) -> Run:
    state = loop.state(MID)
    for edit in edits:
        edit.apply(loop, state)
    return state.run()


# "On PCIe x16 Gen3 cards, for example, pinned memory can attain roughly 12 GB/s" (CUDA C++ best practices guide,
# "Pinned memory"), out of the link's 15.75; Gen4 has twice that.
_PINNED_BYTES_PER_NS = 12.0
_SHARE_OF_LINK = 12.0 / 15.75


@scenario(
    "CUDA C++ best practices guide, “Pinned memory”; a copy from pageable memory waits (CUDA runtime API, “API"
    " synchronization behavior”).",
    factor=Given((0.25, 0.5, 1.0), "factor for the time of copies of unknown size"),
)
def _pinned(loop: Loop, factor: Number) -> Made:
    """Batches are copied from pinned memory, and nobody waits for the copies."""
    if not loop.has_gpu_work:
        return NO_GPU
    copies = chosen_of(loop, TO_GPU & ~NAME.str.contains("(?i)pinned"))
    waits = copies.filter(pl.col("runtime_id").is_in(calls_that_waited(loop).implode()))
    if chosen_of(loop, TO_GPU).is_empty():
        return "The steps copy nothing to the GPU."
    if waits.is_empty():
        return "No copy to the GPU is waited for: the memory is already pinned, or the batch is small."
    size = int(waits["bytes"].fill_null(0).sum())
    if size and factor == KNOWN["pinned"].parameters["factor"].default:
        link = _link_bytes_per_ns(loop)
        fastest = link or 2 * _PINNED_BYTES_PER_NS
        usual = link * _SHARE_OF_LINK if link else _PINNED_BYTES_PER_NS
        low, middle = (min(1.0, size / rate / max(busy_ns(waits), 1)) for rate in (fastest, usual))
        factor = (low, middle, 1.0)
    calls = pl.col("event_id").is_in(waits["runtime_id"].implode())
    return made_of(
        "pinned",
        [Scale(among(waits), factor), Unwait(calls)],
        "The copies are made with pin_memory=True and non_blocking=True.",
        "Copying a batch into pinned memory is done by the loader, and is not counted.",
    )


def _link_bytes_per_ns(loop: Loop) -> float | None:
    """Return the bandwidth from the host to the GPU in bytes per ns; None if the GPU is unknown."""
    frame = loop.trace.of(loop.rank).sql(
        "select host_bytes_per_s / 1e9 from gpu_model where rank = $rank order by device_id limit 1", rank=loop.rank
    )
    return None if frame.is_empty() else frame.item()


@scenario("PyTorch performance tuning guide, “Avoid unnecessary CPU-GPU synchronization”.")
def _no_sync(loop: Loop) -> Made:
    """The CPU waits for the GPU nowhere in the step."""
    if not loop.has_gpu_work:
        return NO_GPU
    waits = chosen_of(loop, pl.col("event_id").is_in(calls_that_waited(loop).implode()) & ~GPU)
    to_gpu = loop.events.work.filter(TO_GPU)
    waits = waits.filter(~pl.col("event_id").is_in(to_gpu["runtime_id"].drop_nulls().implode()))
    if waits.is_empty():
        return "No call waits for the GPU, except copies of batches (see pinned)."
    last = loop.events.work.group_by("step").agg(last_ns=pl.col("call_start_ns").max())
    early_waits = waits.join(last, on="step", how="left").filter(pl.col("start_ns") < pl.col("last_ns"))
    if early_waits.is_empty() and loop.alike.height == 1:
        return "The only calls that wait for the GPU are at the end of the step, after all launches."
    return made_of(
        "no_sync",
        [Unwait(among(waits))],
        "What the calls brought to the CPU (a loss to print, a number to branch on) is not needed, or is asked for"
        " later.",
    )


_WITH_MEMORY_US = (6.0, 4.0, 2.0)
# On the H200, the profiler slowed no program by more than a factor of 2.2: an event costs less if less is done.
_LEAST_PART = 0.4


def _has_memory(loop: Loop) -> bool:
    """Return whether the profiler recorded allocations."""
    frame = loop.trace.of(loop.rank).sql("select profile_memory from rank_info where rank = $rank", rank=loop.rank)
    return bool(frame.item())


@scenario(
    "Measured: programs on an H100 and an H200 (torch 2.11), each with the profiler and without"
    " (tests/benchmarks/bench_gpu_pairs.py).",
    # Of 28 CPU-bound programs on the H200, 27 are in this range. Three programs on the H100 that also recorded memory
    # took 4.0 to 5.0.
    event_us=Given((4.5, 2.5, 1.0), "microseconds of the profiler for each recorded op and call"),
)
def _no_profiler(loop: Loop, event_us: Number) -> Made:
    """The same run without the profiler."""
    if not loop.has_gpu_work:
        return NO_GPU
    events = chosen_of(loop, pl.col("category").is_in(["cpu_op", "cuda_runtime", "cuda_driver"]))
    host = loop.table.of("host")
    host_ns = float(loop.table.weight[host].sum())
    if events.is_empty() or not host_ns:
        return "The launching threads have no events."
    if event_us == KNOWN["no_profiler"].parameters["event_us"].default and _has_memory(loop):
        event_us = _WITH_MEMORY_US
    cost_us = events.height / host_ns * 1e3
    factor = each_end(lambda us: max(_LEAST_PART, 1 - us * cost_us), event_us)
    return made_of(
        "no_profiler",
        [Hasten(~GPU, factor)],
        f"{round(events.height / loop.count):,} ops and calls are recorded in a step.",
        "Threads are slowed by as large a part of all that they do; GPU work is not.",
        "What recording python stacks costs is not counted.",
    )
