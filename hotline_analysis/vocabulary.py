"""Words with a fixed meaning, each in one place: the phases of a training step and the classes of GPU work.

The headers of queries name such a list as a type, `:param phase PHASE`; the glossary says what each word means.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Literal, get_args

Phase = Literal["load_data", "forward", "loss", "zero_grad", "backward", "optimizer", "other"]
PHASES: tuple[Phase, ...] = get_args(Phase)
KernelClass = Literal["computation", "communication", "memory"]
KERNEL_CLASSES: tuple[KernelClass, ...] = get_args(KernelClass)

WORDS: Mapping[str, tuple[str, ...]] = {"PHASE": PHASES, "KERNEL_CLASS": KERNEL_CLASSES}
"""Types in the headers of queries that stand for text, with the words that it can be."""

_CALLED_NOW: Mapping[str, str] = {"n": "limit", "class": "kernel_class"}
_ASKED_NOW: Mapping[tuple[str, str], str] = {
    ("slowest_ops", "by"): "Ask slowest_kernels for kernels, and slowest_modules for modules and their types.",
}


def former_argument(answer: str, argument: str, known: Collection[str]) -> str | None:
    """What to use instead of an argument that an answer had in earlier versions; None if it never had it."""
    now = _CALLED_NOW.get(argument)
    if now in known:
        return f"It is called {now} now."
    return _ASKED_NOW.get((answer, argument))
