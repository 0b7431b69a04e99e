"""Several questions about open runs at once.

To plan a statement, and to run a short one, keeps one thread busy. With two that ask, a report takes a fifth to a
quarter less time.
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

_MOST_THREADS = 2  # beside that of the caller; the longest question of a report takes a third of it


class Asked(Generic[T]):
    """A question that is being answered, or will be."""

    def __init__(self, question: Callable[[], T], beside: Sequence[Asked[object]], pool: Executor | None) -> None:
        self._question = question
        self._beside = beside
        self._future: Future[T] = pool.submit(question) if pool else Future()

    def result(self) -> T:
        """The answer, or what the question raises. While others find it, this thread asks what none has begun with."""
        for each in self._beside:
            each.ask_here()
        return self._future.result()

    def ask_here(self) -> None:
        """Ask in this thread, unless another has begun."""
        if not self._future.cancel():
            return
        self._future = Future()
        try:
            self._future.set_result(self._question())
        except Exception as error:
            self._future.set_exception(error)

    def is_running(self) -> bool:
        """Whether a thread is asking."""
        return self._future.running()


class Together:
    """Asks questions in other threads while the block goes on. The first to come is the first that is asked.

    An error, or Ctrl-C, in the block stops the questions that run; the others are not asked. With a single processor,
    all are asked when a result is.
    """

    def __init__(self, *traces: Trace) -> None:
        self._traces = traces
        count = min(processors() - 1, _MOST_THREADS)
        self._pool = ThreadPoolExecutor(count, thread_name_prefix="hotline-ask") if count > 0 else None
        self._asked: list[Asked[Any]] = []

    def ask(self, question: Callable[P, T], *args: P.args, **named: P.kwargs) -> Asked[T]:
        """Begin to call a function that asks the traces."""
        asked = Asked(lambda: question(*args, **named), self._asked, self._pool)
        self._asked.append(asked)
        return asked

    def __enter__(self) -> Together:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._pool is None:
            return
        self._pool.shutdown(wait=error is None, cancel_futures=True)
        while error is not None and any(each.is_running() for each in self._asked):
            for trace in self._traces:
                trace.interrupt()
            time.sleep(INTERRUPT_AGAIN_S)
