"""Charts that take a trace instead of an answer's frame."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from hotline_analysis.run.trace import Trace


def of_frame_or_trace(chart: Callable[..., Any]) -> Callable[..., Any]:
    """Let a chart of a frame also take a trace, and compute the answer then. Return other functions unchanged."""
    if next(iter(inspect.signature(chart).parameters), "") != "frame":
        return chart

    @functools.wraps(chart)
    def drawn(frame: Any, *more: Any, **parameters: Any) -> Any:
        if not isinstance(frame, Trace):
            return chart(frame, *more, **parameters)
        from hotline_analysis.charts.registry import draw

        return draw(chart.__name__, frame, *more, **parameters)

    return drawn
