"""Charts that take either a trace or an answer's frame."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import polars as pl

from hotline_analysis.errors import QueryParameterError
from hotline_analysis.run.trace import Trace
from hotline_analysis.text.formats import listed


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


def answered(given: Trace | pl.DataFrame, answer: Callable[..., pl.DataFrame], **parameters: Any) -> pl.DataFrame:
    """The frame to draw: the given frame, or the answer to a trace with these parameters.

    Raises `QueryParameterError` for a frame with a parameter: the frame is an answer already.
    """
    if isinstance(given, Trace):
        return answer(given, **parameters)
    defaults = inspect.signature(answer).parameters
    names = [name for name, value in parameters.items() if value is not None and value != defaults[name].default]
    if names:
        raise QueryParameterError(
            f"a frame is drawn as it is, without {listed(names)}", hint="Give the parameters to the answer, or a trace."
        )
    return given
