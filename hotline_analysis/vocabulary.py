"""Words with a fixed meaning: phases of a training step, classes of GPU work, causes of idle time.

Each list is defined only here. Query headers use a list as a type, `:param phase PHASE`. The glossary explains each
word.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Literal, get_args

Phase = Literal["load_data", "forward", "loss", "zero_grad", "backward", "clipping", "optimizer", "other"]
PHASES: tuple[Phase, ...] = get_args(Phase)
KernelClass = Literal["computation", "communication", "memory"]
KERNEL_CLASSES: tuple[KernelClass, ...] = get_args(KernelClass)

RECORDER_KEY = "hotline_recorder"
"""Metadata key of a file for the program that recorded it, if not PyTorch's profiler."""

# Causes of GPU idle time, in three cuts of a single taxonomy. A word has the same meaning in each cut, both as a value
# and in a column `<word>_ns`.
HostCause = Literal["load_data", "profiler", "sync", "other_ranks", "other_thread", "cpu_tensor", "op", "python"]
"""Activity of the launching thread."""
IdleCause = Literal[HostCause, "launch", "queued", "unobserved", "unknown"]
"""All causes in full detail: `idle_part`."""
UseCause = Literal[
    "load_data",
    "profiler",
    "sync",
    "other_ranks",
    "other_thread",
    "cpu_tensor",
    "launching",
    "python",
    "queued",
    "unobserved",
    "unknown",
]
"""The same, with `op` and `launch` combined as `launching`: `device_use`, `gpu_parts` and the limits of a step."""
COMBINED_CAUSES: Mapping[str, UseCause] = {"op": "launching", "launch": "launching", "nothing": "python"}
"""The combined cause of a cause in full detail, or of a thread's activity, if the word differs: the macro `use_cause`.

`nothing` is an activity: a thread without any event runs python. For the activity `unrecorded`, of a recorder that does
not show such threads, the cause of idle time is `unknown`.
"""
GapCause = Literal["host", "sync", "communication", "kernel", "other", "unobserved", "unknown"]
"""Causes of a gap (`idle_gap`): `host` is all time until the launch takes effect, less `sync`; `queued` is split."""

IDLE_CAUSES: tuple[IdleCause, ...] = get_args(IdleCause)
USE_CAUSES: tuple[UseCause, ...] = get_args(UseCause)
GAP_CAUSES: tuple[GapCause, ...] = get_args(GapCause)

WORDS: Mapping[str, tuple[str, ...]] = {
    "PHASE": PHASES,
    "KERNEL_CLASS": KERNEL_CLASSES,
    "HOST_CAUSE": get_args(HostCause),
    "IDLE_CAUSE": IDLE_CAUSES,
    "USE_CAUSE": USE_CAUSES,
    "GAP_CAUSE": GAP_CAUSES,
}
"""Types in query headers that mean text, with the allowed words."""

COLUMN_TYPES: Mapping[str, tuple[str, str, str]] = {
    "RANK": ("rank", "BIGINT", "process rank"),
    "STEP": ("step", "BIGINT", "training step"),
    "DEVICE": ("device", "BIGINT", "device number"),
    "PHASE": ("phase", "VARCHAR", "phase"),
    "KERNEL_CLASS": ("class", "VARCHAR", "class of GPU work"),
}
"""Types of columns in query headers: the name of the column, the type in the database, and the description's begin."""

_IDLE: Mapping[IdleCause | UseCause | GapCause, str] = {
    "load_data": "CPU loads data",
    "profiler": "the profiler itself works on the CPU",
    "sync": "CPU in a synchronising call",
    "other_ranks": "CPU waits for other ranks",
    "other_thread": "CPU waits for another thread",
    "cpu_tensor": "CPU computes on CPU tensors",
    "op": "CPU in ops and runtime calls",
    "python": "CPU runs python",
    "launch": "a launch takes effect",
    "launching": "CPU in ops and launch calls",
    "host": "CPU has not launched the work",
    "queued": "between launched kernels",
    "communication": "launched work waits for communication",
    "kernel": "launched work follows a kernel",
    "other": "launched work waits, no work ended before it",
    "unobserved": "launched work waits, unexplained",
    "unknown": "cause not in the file",
}

PEAK_PARTS: Mapping[str, str] = {
    "useful": "useful arithmetic at peak",
    "recompute": "repeated arithmetic at peak",
    "matrix_inefficiency": "matrix products below peak",
    "other_compute_ideal": "other work at best",
    "other_compute_inefficiency": "other work below best",
    "copies": "copies",
    "exposed_communication": "communication alone",
    "launched_before": "launched before the trace",
    "unmodelled": "computation of unknown work",
    "idle": "idle",
}
"""Parts of a GPU's peak, in the order of the answer `peak_loss`, with their labels."""


CATEGORY_WORDS: Mapping[str, str] = {
    "cuda_runtime": "runtime call",
    "cuda_driver": "driver call",
    "cuda_sync": "synchronisation",
    "cuda_event": "event record",
    "gpu_memcpy": "copy",
    "gpu_memset": "memset",
    "cpu_op": "op",
    "user_annotation": "annotation",
    "gpu_user_annotation": "annotation on the GPU",
    "python_function": "python",
}
"""Labels of event categories, valid for all devices, in tables for people. Other categories are shown unchanged."""


def idle_words(cause: str) -> str:
    """The label of a cause of idle time: `CPU loads data`."""
    return _IDLE[cause]  # type: ignore[index]


def idle_title(cause: str) -> str:
    """The label of a cause next to time that is not idle: `idle: CPU loads data`.

    `unobserved` time may not have been idle, so the label has no `idle:`.
    """
    return f"{'unobserved' if cause == 'unobserved' else 'idle'}: {idle_words(cause)}"


_CALLED_NOW: Mapping[str, str] = {"n": "limit", "class": "kernel_class"}
_ASKED_NOW: Mapping[tuple[str, str], str] = {
    ("slowest_ops", "by"): "Ask slowest_kernels for kernels, and slowest_modules for modules and their types.",
}
_WORD_NOW: Mapping[tuple[str, str, str], str] = {("idle_gaps", "cause", "synchronise"): "sync"}


def former_word(answer: str, argument: str, word: object) -> str | None:
    """The replacement of a word that an argument accepted in earlier versions; `None` for other words."""
    now = _WORD_NOW.get((answer, argument, word)) if isinstance(word, str) else None
    return f"Renamed to {now}." if now else None


def former_argument(answer: str, argument: str, known: Collection[str]) -> str | None:
    """The replacement of an argument that an answer had in earlier versions; `None` for other arguments."""
    now = _CALLED_NOW.get(argument)
    if now in known:
        return f"Renamed to {now}."
    return _ASKED_NOW.get((answer, argument))
