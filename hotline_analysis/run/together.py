"""Run several queries on open runs in parallel.

Planning a statement, or running a short statement, keeps one thread busy. Two parallel queries shorten a report by a
fifth to a quarter.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any, Generic, ParamSpec, TypeVar

from hotline_analysis.database import processors
from hotline_analysis.run.trace import INTERRUPT_AGAIN_S, Trace

P = ParamSpec("P")
T = TypeVar("T")

_MOST_THREADS = 2  # in addition to the caller's thread; the longest query of a report takes a third of its time


class Asked(Generic[T]):
    """A query in progress or in the queue."""

    def __init__(self, question: Callable[[], T], beside: Sequence[Asked[object]], pool: Executor | None) -> None:
        self._question = question
        self._beside = beside
        self._future: Future[T] = pool.submit(question) if pool else Future()

    def result(self) -> T:
        """The result, or the query's exception. While waiting, this thread runs queries that have not started."""
        for call in self._beside:
            call.ask_here()
        return self._future.result()

    def ask_here(self) -> None:
        """Run the query in this thread, unless it has started elsewhere."""
        if not self._future.cancel():
            return
        self._future = Future()
        try:
            self._future.set_result(self._question())
        except Exception as error:
            self._future.set_exception(error)

    def is_running(self) -> bool:
        """Whether a thread of the pool is running the query; false while `ask_here` runs the query."""
        return self._future.running()


class Together:
    """Run queries in other threads while the block continues, in the order of the `ask` calls.

    An error, or Ctrl-C, in the block interrupts the running queries and cancels the others. With a single processor,
    all queries run when the first result is requested.
    """

    def __init__(self, *traces: Trace) -> None:
        self._traces = traces
        count = min(processors() - 1, _MOST_THREADS)
        self._pool = ThreadPoolExecutor(count, thread_name_prefix="hotline-ask") if count > 0 else None
        self._asked: list[Asked[Any]] = []

    def ask(self, question: Callable[P, T], *args: P.args, **named: P.kwargs) -> Asked[T]:
        """Start a call of a function that queries the traces."""
        call = Asked(lambda: question(*args, **named), self._asked, self._pool)
        self._asked.append(call)
        return call

    def __enter__(self) -> Together:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._pool is None:
            return
        self._pool.shutdown(wait=error is None, cancel_futures=True)
        while error is not None and any(call.is_running() for call in self._asked):
            for trace in self._traces:
                trace.interrupt()
            time.sleep(INTERRUPT_AGAIN_S)
