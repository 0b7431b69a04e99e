"""What bounds the training loop: is it the GPU or the CPU, and is it the optimizer?"""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from hotline_analysis.analyze.finding import Finding
from hotline_analysis.trace import Trace

# Idle time of the GPU by what the host does meanwhile: column of the query → verdict.
_CAUSES = {
    "load_data_ns": "input-bound",
    "sync_ns": "sync-bound",
    "launching_ns": "launch-bound",
    "python_ns": "python-bound",
    "gpu_wait_ns": "gpu-wait-bound",
    "unknown_ns": "unknown",
}
_GPU_SIDE = ("gpu-bound", "communication-bound", "copy-bound", "gpu-wait-bound")

_MEANING = {
    "input-bound": "it waits for the host to load data",
    "sync-bound": "it runs dry because the host waits for it (a synchronise, `.item()`, a blocking copy)",
    "launch-bound": "it waits for the host to run ops and launch work",
    "python-bound": "it waits for the host's python between ops",
    "gpu-wait-bound": "work is launched in time but waits for other work, of this trace or not in it",
    "mixed": "for several reasons, none of which explains most of it",
    "unknown": "before work whose launch is not in the trace",
}
_ADVICE = {
    "gpu-bound": "Make the kernels cheaper: lower precision (AMP, TF32), fused kernels (torch.compile); the slowest "
    "ops and modules say where.",
    "communication-bound": "Overlap communication with backward (bucket sizes, gradient_as_bucket_view), send less "
    "(accumulation, lower precision), or look for a rank that arrives late.",
    "copy-bound": "Keep data on the GPU, use pinned memory with non_blocking=True, and copy on a stream of its own.",
    "input-bound": "Give the DataLoader more workers, pin_memory=True and prefetching, or preprocess on the GPU.",
    "sync-bound": "Avoid `.item()`, `.cpu()`, `print(tensor)`, nonzero and boolean masks inside the step, log every n "
    "steps, and copy with non_blocking=True.",
    "launch-bound": "Launch less and larger work: torch.compile, CUDA graphs, fused or foreach ops, a larger batch.",
    "python-bound": "Take python out of the step: torch.compile, CUDA graphs, vectorised loops, logging every n steps.",
    "gpu-wait-bound": "Look at streams and events: work waits for another stream, or many tiny kernels follow each "
    "other. A long gap in which nothing runs is work that the profiler missed, or another process on the GPU.",
    "mixed": "Start with the largest cause in the evidence.",
    "unknown": "Capture a longer window, with warm-up steps in the schedule.",
    "no-gpu": "",
}


def gpu_or_cpu_bound(
    trace: Trace, *, rank: int | None = None, busy_pct: float = 80.0, class_pct: float = 50.0, cause_pct: float = 40.0
) -> Finding:
    """Is the GPU the bottleneck or the CPU, and why?

    The GPU is, if it is busy for at least `busy_pct` of the time from the first step to the last; then communication
    or copies are named if they are the first thing running for at least `class_pct` of the busy time. Otherwise the CPU
    is, and the largest cause of idle time gives the name if it explains at least `cause_pct` of it. `answer` is one of
    gpu-bound, communication-bound, copy-bound, input-bound, sync-bound, launch-bound, python-bound, gpu-wait-bound,
    mixed, unknown, or no-gpu for a trace without GPU work. `evidence` has a row with a verdict for the run, each step
    and each phase (query `gpu_or_cpu_bound`). With several ranks, the answer is about all of them together. Raises
    `QueryParameterError` for a threshold that is negative.
    """
    thresholds = {"busy_pct": busy_pct, "class_pct": class_pct, "cause_pct": cause_pct}
    evidence = trace.query("gpu_or_cpu_bound", rank=rank, **thresholds)
    question = "Is the GPU or the CPU the bottleneck?"
    # Of several ranks, all together stand above the first.
    total = next(evidence.head(1).iter_rows(named=True), None)
    if total is None or total["gpu_busy_ns"] == 0:
        cut = trace.sql(
            "select coalesce(bool_or(damage is not null), false) as cut from rank_info"
            " where $rank is null or rank = $rank",
            rank=rank,
        )["cut"][0]
        statement = (
            "The part of the file that could be read has no GPU work, so this trace cannot tell."
            if cut
            else "The trace has no GPU work: all the time in it is CPU time."
        )
        return Finding(question, "no-gpu", statement, _ADVICE["no-gpu"], thresholds, evidence)
    numbers = {name: value for name, value in total.items() if name.endswith(("_ns", "_pct"))}
    answer = total["verdict"]
    busy = f"busy {total['gpu_busy_pct']:.1f} % of the time"
    if answer in ("gpu-bound", "communication-bound", "copy-bound"):
        statement = f"The GPU: it is {busy}, {_busy_with(total)} ({answer})."
    elif answer in ("mixed", "unknown"):
        statement = f"Neither alone: the GPU is {busy} and idles {_MEANING[answer]} ({answer})."
    else:
        side = "The GPU: it is only" if answer in _GPU_SIDE else "The CPU: the GPU is only"
        cause = next(column for column, name in _CAUSES.items() if name == answer)
        share = 100 * total[cause] / total["gpu_idle_ns"]
        statement = f"{side} {busy}; for {share:.0f} % of its idle time {_MEANING[answer]} ({answer})."
    return Finding(question, answer, statement, _ADVICE[answer], thresholds, evidence, numbers)


def _busy_with(total: Mapping[str, int]) -> str:
    """What keeps the GPU busy, in words."""
    parts = {"communication": total["communication_ns"], "copies": total["copy_ns"]}
    parts = {"computing": total["gpu_busy_ns"] - sum(parts.values()), **parts}
    shares = [(100 * time / total["gpu_busy_ns"], name) for name, time in parts.items()]
    return ", ".join(f"{share:.0f} % {name}" for share, name in sorted(shares, reverse=True) if share >= 1)


def optimizer_bottleneck(
    trace: Trace,
    *,
    rank: int | None = None,
    yes_pct: float = 30.0,
    partly_pct: float = 15.0,
    bound: Finding | None = None,
) -> Finding:
    """Is the optimizer the bottleneck?

    Its share is measured on what bounds the loop: on the GPU, the share of the busy and idle time of the work that the
    optimizer launched; on the CPU, the share of the steps' time that the main thread spends in it. From `yes_pct` on
    the answer is yes, from `partly_pct` on partly, else no: by Amdahl's law, removing 30 % makes steps at most 1.43
    times faster, 15 % at most 1.18 times. If communication is `yes_pct` or more of the optimizer's time on the GPU, the
    statement says so. `answer` is `no-optimizer` if the trace shows none (inference). `evidence` is the frame of
    `phases`. `bound` is the answer of `gpu_or_cpu_bound` for the same rank, if it is known already.
    """
    thresholds = {"yes_pct": yes_pct, "partly_pct": partly_pct}
    question = "Is the optimizer the bottleneck?"
    evidence = trace.query("phases", rank=rank)
    bound = bound or gpu_or_cpu_bound(trace, rank=rank)
    on_gpu = bound.answer in _GPU_SIDE
    times = evidence.select(
        "phase",
        time=(pl.col("gpu_busy_ns") + pl.col("gpu_idle_ns")) if on_gpu else pl.col("cpu_ns"),
    )
    total = times["time"].sum()
    optimizer = times.filter(pl.col("phase") == "optimizer")
    taken = int(optimizer["time"].sum())
    numbers: dict[str, int | float | None] = {"optimizer_ns": taken, "total_ns": int(total)}
    if optimizer.is_empty() or not total:
        numbers |= {"optimizer_pct": None, "at_most_times_faster": None}
        statement = "The trace shows no optimizer step."
        return Finding(question, "no-optimizer", statement, "", thresholds, evidence, numbers)
    share = 100 * taken / int(total)
    numbers |= {"optimizer_pct": share, "at_most_times_faster": 100 / (100 - share) if share < 100 else None}
    answer = "yes" if share >= yes_pct else "partly" if share >= partly_pct else "no"
    where = "GPU time of the steps, waiting included" if on_gpu else "steps' CPU time, which is what bounds them"
    speedup = f"{1 / (1 - share / 100):.2f}" if share < 99.5 else "many"
    gain = (
        "there would be no measurable gain" if speedup == "1.00" else f"steps would be at most {speedup} times faster"
    )
    statement = f"{answer.capitalize()}: it takes {share:.1f} % of the {where}; without it, {gain}."
    if answer == "no":
        return Finding(question, answer, statement, "", thresholds, evidence, numbers)
    advice = "Use a fused or foreach implementation (fused=True), fewer and larger parameters, or step every n batches."
    if on_gpu:
        work = bound.evidence.filter((pl.col("scope") == "phase") & (pl.col("phase") == "optimizer"))
        communication = 100 * int(work["communication_ns"].sum()) / taken
        if communication >= yes_pct:
            statement += f" Communication is {communication:.0f} % of it."
            advice = (
                "The optimizer communicates, as one does whose state is sharded: let its collectives run beside the"
                f" next forward, or shard less. {advice}"
            )
    return Finding(question, answer, statement, advice, thresholds, evidence, numbers)
