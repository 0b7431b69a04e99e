"""Verdicts: one table of everything that can limit a step, with the texts shown for each limit.

To add a verdict, add one row here and a value of `limit` in `limits.LIMIT`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from hotline_analysis.vocabulary import UseCause

Limit = Literal["computing", "communication", "other_stage", "copying", "unrecorded", "between", UseCause]
"""The `limit` of `step_limits`, to which a part of the critical path counts: work, or a cause of idle time."""


@dataclass(frozen=True)
class Verdict:
    """The texts shown for a step with a given limit."""

    answer: str
    """The word to branch on: `Finding.answer` of `gpu_or_cpu_bound`."""
    side: Literal["GPU", "CPU", ""]
    """The side that the time belongs to; empty if the trace does not show it."""
    headline: str
    """The answer in a few words, as shown on a page."""
    noun: str
    """The limit as a noun phrase for a sentence: `… takes 12 % of the step`."""
    advice: str
    """General advice."""


VERDICTS: Mapping[Limit, Verdict] = {
    "computing": Verdict(
        "gpu-bound",
        "GPU",
        "The GPU: it computes",
        "computing on the GPU",
        "Make the kernels cheaper: the slowest ops and modules say where.",
    ),
    "communication": Verdict(
        "communication-bound",
        "GPU",
        "The GPU: it communicates",
        "communication between GPUs",
        "Overlap communication with backward (bucket sizes, gradient_as_bucket_view), send less (accumulation, lower"
        " precision), or look for a rank that arrives late.",
    ),
    "other_stage": Verdict(
        "pipeline-bound",
        "GPU",
        "The GPU: it waits for another pipeline stage",
        "waiting for another pipeline stage",
        "Use more micro-batches, a schedule with a smaller bubble, or stages that take equally long.",
    ),
    "copying": Verdict(
        "copy-bound",
        "GPU",
        "The GPU: it copies",
        "copies on the GPU",
        "Keep data on the GPU, use pinned memory with non_blocking=True, and copy on a stream of its own.",
    ),
    "queued": Verdict(
        "gpu-wait-bound",
        "GPU",
        "The GPU: its work waits for other work",
        "waiting between kernels on the GPU",
        "Look at streams and events: work waits for another stream, or many tiny kernels follow each other.",
    ),
    "load_data": Verdict(
        "input-bound",
        "CPU",
        "The CPU: it loads data",
        "loading data",
        "Load and preprocess data beside the training: in workers of a DataLoader, ahead of time, or on the GPU.",
    ),
    "launching": Verdict(
        "launch-bound",
        "CPU",
        "The CPU: it launches work too slowly",
        "ops and launch calls on the CPU",
        "Launch less and larger work: fused ops, CUDA graphs, a larger batch.",
    ),
    "python": Verdict(
        "python-bound",
        "CPU",
        "The CPU: it runs python",
        "python on the CPU",
        "Take python out of the step: vectorised loops, logging every n steps, compiled or captured steps.",
    ),
    "unrecorded": Verdict(
        "unknown",
        "CPU",
        "The trace does not tell",
        "CPU time of which nothing was recorded",
        "Add ProfilerActivity.CPU to `activities`, so that ops and python are recorded.",
    ),
    "cpu_tensor": Verdict(
        "cpu-tensor-bound",
        "CPU",
        "The CPU: it computes on CPU tensors",
        "arithmetic on CPU tensors",
        "Move the tensors to the GPU before computing with them.",
    ),
    "sync": Verdict(
        "sync-bound",
        "CPU",
        "The CPU: it stops to wait for the GPU",
        "calls that synchronise",
        "Avoid `.item()`, `.cpu()`, `print(tensor)`, nonzero and boolean masks inside the step.",
    ),
    "between": Verdict(
        "between-steps",
        "CPU",
        "The time between the steps",
        "time between the steps",
        "Call prof.step() once per iteration, and see what runs between the steps: evaluation, checkpoints, logging.",
    ),
    "other_ranks": Verdict(
        "rank-bound",
        "CPU",
        "The CPU: it waits for other ranks",
        "waiting for other ranks",
        "Compare the files of all ranks: find the one that comes last to the collectives, and what it does before.",
    ),
    "other_thread": Verdict(
        "thread-bound",
        "CPU",
        "The CPU: it waits for another thread",
        "waiting for another thread of the process",
        "Start the other thread's work earlier, split it between threads, or make it shorter.",
    ),
    "profiler": Verdict(
        "profiler-bound",
        "CPU",
        "The CPU: the profiler itself works",
        "the profiler's own work",
        "Record less: fewer steps, no stacks, shapes or memory. The program does not do this work without a profiler.",
    ),
    "unobserved": Verdict(
        "unobserved",
        "",
        "The trace does not show all of the GPU's work",
        "time in which the GPU may have done work that is not in the file",
        "Capture again, a few steps later: the profiler missed work, or another process used the GPU.",
    ),
    "unknown": Verdict(
        "unknown",
        "",
        "The trace does not tell",
        "waiting whose cause is not in the trace",
        "Capture a longer window, with warm-up steps in the schedule.",
    ),
}
LIMITS: tuple[Limit, ...] = tuple(VERDICTS)
GPU_LIMITS = tuple(limit for limit in LIMITS if VERDICTS[limit].side == "GPU")
CPU_LIMITS = tuple(limit for limit in LIMITS if VERDICTS[limit].side == "CPU")

NO_RUN = "This trace shows no run that could tell."
HEADLINES: Mapping[str, str] = {
    **{verdict.answer: verdict.headline for verdict in VERDICTS.values()},
    "mixed": "Neither alone",
    "balanced": "Neither: both take as long",
    "no-run": "The trace shows no run",
    "no-gpu": "The CPU: there is no GPU work",
    "shared": "They share the work",
    "unbalanced": "One does most of the work",
    "in-turns": "One works at a time",
    "one-gpu": "A single GPU works",
    "yes": "Yes",
    "partly": "Partly",
    "no": "No",
    "no-optimizer": "The trace has no optimizer",
}
"""Short headline for the answer of every finding."""
