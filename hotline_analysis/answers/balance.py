"""Whether the GPUs of one process share its work, and how busy each GPU is."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from hotline_analysis.answers.finding import Finding
from hotline_analysis.errors import QueryParameterError
from hotline_analysis.run.scope import check_scope
from hotline_analysis.run.trace import Trace
from hotline_analysis.text.formats import listed, percent, runs

_NAMED = 3  # maximum number of GPUs named in a sentence
_NUMBERS = ("device_count", "busiest_pct", "least_busy_pct", "mean_busy_pct", "any_busy_pct")


def gpu_balance(trace: Trace, *, rank: int | None = None, uneven_pct: float = 5.0) -> Finding:
    """Do the GPUs of a process share its work?

    The process is busy while at least one of its GPUs is busy. Perfect sharing would remove two parts of this time. The
    first is the time in which the GPUs take turns: the busy time of the process beyond the busy time of the busiest
    GPU. The second is imbalance: the work of the busiest GPU beyond the mean. `answer` is `in-turns` or `unbalanced`,
    the larger of the two, if it is at least `uneven_pct` of the observed time, else `shared`. It is `one-gpu` if a
    single GPU works, and `no-gpu` without GPU work. Work is computation and copies, because communication alone is
    mostly waiting. `evidence` is the frame of `devices`. `rank` defaults to the lowest rank. The threshold is our
    choice: a smaller loss does not change the rest of a report.
    """
    check_scope(trace, {"rank": rank})
    chosen_rank = min(trace.ranks) if rank is None else rank
    if not uneven_pct >= 0:
        raise QueryParameterError(f"uneven_pct must be 0 or more, not {uneven_pct!r}")
    question, thresholds = "Do the GPUs share the work?", {"uneven_pct": uneven_pct}
    rows = trace.query("devices", rank=chosen_rank)
    busy_gpus = rows.filter(pl.col("gpu_busy_ns") > 0)
    if busy_gpus.height < 2:
        answer = "no-gpu" if busy_gpus.is_empty() else "one-gpu"
        sentence = "The trace has no GPU work." if busy_gpus.is_empty() else "A single GPU works."
        return Finding(question, answer, sentence, "", thresholds, rows, dict.fromkeys(_NUMBERS))
    window = int((busy_gpus["gpu_busy_ns"] + busy_gpus["gpu_idle_ns"]).max())  # type: ignore[arg-type]
    work = busy_gpus["computing_ns"] + busy_gpus["copying_ns"]
    most, mean = int(work.max()), float(work.mean())  # type: ignore[arg-type]
    any_ns = _any_busy_ns(trace, chosen_rank)
    uneven = 100 * (most - mean) / window
    turns = 100 * (any_ns - int(busy_gpus["gpu_busy_ns"].max())) / window  # type: ignore[arg-type]
    share = busy_gpus["gpu_busy_pct"]
    shares = (share.max(), share.min(), 100 * mean / window, 100 * any_ns / window)
    numbers: dict[str, int | float | None] = dict(zip(_NUMBERS, (busy_gpus.height, *shares), strict=True))  # type: ignore[arg-type]
    statement = f"{busy_words(busy_gpus)}."
    if max(uneven, turns) < uneven_pct:
        return Finding(question, "shared", statement, "", thresholds, rows, numbers)
    if uneven >= uneven_pct:
        statement += f" Spread evenly, the work would keep each busy for {percent(100 * mean / window)}."
    if turns >= uneven_pct:
        alone_pct = 100 * int(busy_gpus["alone_ns"].sum()) / any_ns
        statement += f" They take turns: for {percent(alone_pct)} of the time in which any GPU works, only one does."
    if turns > uneven:
        return Finding(question, "in-turns", statement, _IN_TURNS, thresholds, rows, numbers)
    advice = _ONE_EACH if _is_of_a_job(trace, chosen_rank) else _UNBALANCED
    busiest, *_, least = busy_gpus.sort("gpu_busy_ns", "device", descending=[True, False])["device"].to_list()
    return Finding(question, "unbalanced", statement, advice.format(busiest, least), thresholds, rows, numbers)


# PyTorch's documentation of `DataParallel`: "It is recommended to use DistributedDataParallel, instead of this class".
# `DataParallel` gathers outputs on the first device.
_UNBALANCED = (
    "Give each GPU as much work: move layers or a part of the batch from GPU {0} to GPU {1}. DataParallel keeps the"
    " loss and the optimizer on the first GPU: use DistributedDataParallel, with a process for each GPU."
)
# PyTorch, "CUDA semantics": the first call on a device makes a context there, which `torch.cuda.set_device` avoids.
_ONE_EACH = (
    "Each process of the job has a GPU of its own, and this one works on GPU {0} and GPU {1}: call"
    " torch.cuda.set_device(local_rank) before anything else, and load checkpoints with map_location."
)
# "Each GPU waits for the one before": Huang et al., "GPipe", 2019, figure 2b.
_IN_TURNS = (
    "Layers that are spread over GPUs one after the other work one at a time: split the batch into micro-batches"
    " (torch.distributed.pipelining), split each layer (tensor parallel), or give each GPU a whole copy of the model"
    " (DistributedDataParallel, FSDP)."
)


def busy_words(rows: pl.DataFrame) -> str:
    """How busy each of several GPUs is, as a clause that starts a sentence. `rows` are rows of `devices`."""
    gpus = rows.sort("gpu_busy_pct", "device", descending=[True, False]).select("device", "gpu_busy_pct").rows()
    (first, share), *others = gpus
    start = f"GPU {first} is busy for {percent(share)} of the time, "
    if len(gpus) <= _NAMED:
        return start + listed([f"GPU {device} for {percent(busy)}" for device, busy in others])
    least, most = others[-1][1], others[0][1]
    spread = percent(most) if most - least < 1 else f"{least:.1f} to {percent(most)}"
    return f"{start}GPUs {_numbers([device for device, _ in others])} for {spread}"


def _numbers(found: Sequence[int]) -> str:
    return runs(sorted(found))


def _any_busy_ns(trace: Trace, rank: int) -> int:
    """The time in which at least one GPU works."""
    sql = (
        "with work as (select rank, start_ns, end_ns from gpu_busy where rank = $rank)"
        " select coalesce(sum(end_ns - start_ns), 0)::bigint from merged('work', rank)"
    )
    return int(trace.of(rank).sql(sql, rank=rank).item())


def _is_of_a_job(trace: Trace, rank: int) -> bool:
    """Whether the process belongs to a job of several processes."""
    sizes = [part.get("world_size") or 1 for part in trace.manifest["parts"] if part["rank"] == rank]
    return len(trace.ranks) > 1 or max(sizes, default=1) > 1
