"""Cached answers of an open run, because a report asks several questions more than once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future

import polars as pl

# Maximum size of each answer, and of all answers together.
_BYTES = 1 << 20
_ALL_BYTES = 1 << 26


class KeptAnswers:
    """Answers by question. If another thread is computing an answer, wait for it instead of asking again."""

    def __init__(self) -> None:
        self._kept: dict[tuple[object, ...], pl.DataFrame] = {}
        self._bytes = 0
        self._awaited: dict[tuple[object, ...], Future[pl.DataFrame]] = {}
        self._lock = threading.Lock()

    def get(self, question: tuple[object, ...], ask: Callable[[], pl.DataFrame]) -> pl.DataFrame:
        """The answer to a question, from the cache or from `ask`."""
        try:
            hash(question)
        except TypeError:  # an argument may be a list, which is mutable
            return ask()
        with self._lock:
            if question in self._kept:
                return self._kept[question].clone()
            awaited = self._awaited.get(question)
            if awaited is None:
                future = self._awaited[question] = Future()
        if awaited is not None:
            # If the other thread failed, perhaps only because it was interrupted, ask in this thread.
            return ask() if awaited.exception() else awaited.result().clone()
        try:
            frame = ask()
        except BaseException as error:
            future.set_exception(error)
            raise
        else:
            self._keep(question, frame)
            future.set_result(frame.clone())
            return frame
        finally:
            with self._lock:
                del self._awaited[question]

    def clear(self) -> None:
        """Clear the cache."""
        with self._lock:
            self._kept.clear()
            self._bytes = 0

    def _keep(self, question: tuple[object, ...], frame: pl.DataFrame) -> None:
        size = int(frame.estimated_size())
        if size > _BYTES:
            return
        with self._lock:
            while self._kept and self._bytes > _ALL_BYTES:
                self._bytes -= int(self._kept.pop(next(iter(self._kept))).estimated_size())
            self._kept[question] = frame.clone()
            self._bytes += size
