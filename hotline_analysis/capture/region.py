"""Named regions of the user's program in a trace."""

from __future__ import annotations

from contextlib import ContextDecorator
from types import TracebackType
from typing import Any

from hotline_analysis.capture import need


class annotate(ContextDecorator):
    """Name a region of the program, so that the trace and its annotation show it.

        with hotline_analysis.annotate("augment"):
            batch = augment(batch)

        @hotline_analysis.annotate("augment")
        def augment(batch): ...

    Internally, this is `torch.profiler.record_function`: a `user_annotation` event around the region's ops, with almost
    no cost when no profiler records. Names like `forward`, `loss` or `optimizer` set the phase. The decorator is safe
    with recursion and threads; each call becomes a region.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._region: Any = None

    def _recreate_cm(self) -> annotate:
        return annotate(self.name)

    def __enter__(self) -> annotate:
        self._region = need.torch("profiler").record_function(self.name)
        self._region.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._region.__exit__(kind, error, traceback)
