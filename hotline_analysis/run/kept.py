"""Answers that an open run keeps, as a report asks for several of them more than once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future

import polars as pl

# Each at most so large, and together.
_BYTES = 1 << 20
_ALL_BYTES = 1 << 26


class KeptAnswers:
    """Answers by their questions. One that another thread is looking for is waited for, and not asked again."""

    def __init__(self) -> None:
        self._kept: dict[tuple[object, ...], pl.DataFrame] = {}
        self._bytes = 0
        self._awaited: dict[tuple[object, ...], Future[pl.DataFrame]] = {}
        self._lock = threading.Lock()

    def get(self, question: tuple[object, ...], ask: Callable[[], pl.DataFrame]) -> pl.DataFrame:
        """The answer to a question, as kept or as `ask` gives it."""
        try:
            hash(question)
        except TypeError:  # a list, which may change
            return ask()
        with self._lock:
            if question in self._kept:
                return self._kept[question].clone()
            awaited = self._awaited.get(question)
            if awaited is None:
                own = self._awaited[question] = Future()
        if awaited is not None:
            # Where another thread fails, perhaps only because it was stopped, this one asks itself.
            return ask() if awaited.exception() else awaited.result().clone()
        try:
            frame = ask()
        except BaseException as error:
            own.set_exception(error)
            raise
        else:
            self._keep(question, frame)
            own.set_result(frame.clone())
            return frame
        finally:
            with self._lock:
                del self._awaited[question]

    def clear(self) -> None:
        """Forget all that is kept."""
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
