"""Detect the start of a recording, so that all observers stop before anything is measured."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Protocol

from hotline_analysis.capture import need


class Watching(Protocol):
    """An object that observes the program until closed."""

    def recording_begins(self) -> None:
        """Stop observing before this returns, or at the latest after the first iteration."""


_watching: weakref.WeakSet[Watching] = weakref.WeakSet()
_replaced: Callable[[], None] | None = None


def close_before_recording(watching: Watching) -> None:
    """Call the observer's `recording_begins` when a profiler starts to record."""
    global _replaced
    _watching.add(watching)
    profiler = need.torch("autograd.profiler")
    if _replaced is None and hasattr(profiler, "_run_on_profiler_start"):
        _replaced = profiler._run_on_profiler_start
        profiler._run_on_profiler_start = _recording_begins


def closed(watching: Watching) -> None:
    """Unregister an observer that is already closed."""
    _watching.discard(watching)
    if not _watching:
        forget_all()


def forget_all() -> None:
    """Unregister all observers and restore torch's own function."""
    global _replaced
    _watching.clear()
    profiler = need.torch("autograd.profiler")
    if _replaced is not None and profiler._run_on_profiler_start is _recording_begins:
        profiler._run_on_profiler_start = _replaced
        _replaced = None


def _recording_begins() -> None:
    """Replacement for torch's function at the start of a recording."""
    original = _replaced
    for watching in list(_watching):
        watching.recording_begins()
    forget_all()
    if original is not None:
        original()
