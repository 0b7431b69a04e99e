"""Words with a fixed meaning, each in one place: phases of a training step, classes of GPU work, causes of idle time.

The headers of queries name such a list as a type, `:param phase PHASE`; the glossary says what each word means.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Literal, get_args

Phase = Literal["load_data", "forward", "loss", "zero_grad", "backward", "clipping", "optimizer", "other"]
PHASES: tuple[Phase, ...] = get_args(Phase)
KernelClass = Literal["computation", "communication", "memory"]
KERNEL_CLASSES: tuple[KernelClass, ...] = get_args(KernelClass)

# Why a GPU idles, in three cuts of one taxonomy. A word means the same in each, as a value and as a column `<word>_ns`.
HostCause = Literal["load_data", "profiler", "sync", "other_ranks", "other_thread", "cpu_tensor", "op", "python"]
"""What the thread does that is to launch the next work."""
IdleCause = Literal[HostCause, "launch", "queued", "unobserved", "unknown"]
"""All causes, one by one: `idle_part`."""
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
"""The same with `op` and `launch` together as `launching`: `device_use`, `gpu_parts` and the limits of a step."""
GapCause = Literal["host", "sync", "communication", "kernel", "other", "unobserved", "unknown"]
"""Of a whole gap: `host` has all until the launch takes effect but `sync`, and `queued` is split: `idle_gap`."""

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
"""Types in the headers of queries that stand for text, with the words that it can be."""

_IDLE: Mapping[IdleCause | UseCause | GapCause, str] = {
    "load_data": "CPU loads data",
    "profiler": "the profiler itself works on the CPU",
    "sync": "CPU in a synchronise",
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
    "unknown": "launch not in the file",
}

PEAK_PARTS: Mapping[str, str] = {
    "useful": "useful arithmetic at peak",
    "recompute": "repeated arithmetic at peak",
    "matrix_inefficiency": "matrix products below peak",
    "other_compute_ideal": "other work at best",
    "other_compute_inefficiency": "other work slower than that",
    "copies": "copies",
    "exposed_communication": "communication alone",
    "launched_before": "launched before the trace",
    "unmodelled": "computation of unknown work",
    "idle": "idle",
}
"""Where the peak of a GPU goes, in the order of the answer `peak_loss`: its parts, and their words for people."""


def idle_words(cause: str) -> str:
    """A cause of idle time in words for people: `CPU loads data`."""
    return _IDLE[cause]  # type: ignore[index]


def idle_title(cause: str) -> str:
    """The same where it stands beside what is no idle time: `idle: CPU loads data`.

    Time that is `unobserved` may not have been idle.
    """
    return f"{'unobserved' if cause == 'unobserved' else 'idle'}: {idle_words(cause)}"


_CALLED_NOW: Mapping[str, str] = {"n": "limit", "class": "kernel_class"}
_ASKED_NOW: Mapping[tuple[str, str], str] = {
    ("slowest_ops", "by"): "Ask slowest_kernels for kernels, and slowest_modules for modules and their types.",
}
_WORD_NOW: Mapping[tuple[str, str, str], str] = {("idle_gaps", "cause", "synchronise"): "sync"}


def former_word(answer: str, argument: str, word: object) -> str | None:
    """What to use instead of a word that an argument could be in earlier versions; None if it never could."""
    now = _WORD_NOW.get((answer, argument, word)) if isinstance(word, str) else None
    return f"It is called {now} now." if now else None


def former_argument(answer: str, argument: str, known: Collection[str]) -> str | None:
    """What to use instead of an argument that an answer had in earlier versions; None if it never had it."""
    now = _CALLED_NOW.get(argument)
    if now in known:
        return f"It is called {now} now."
    return _ASKED_NOW.get((answer, argument))
