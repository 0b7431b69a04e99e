"""Argument checks of public functions."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection
from inspect import signature
from typing import ParamSpec, TypeVar

import polars as pl

from hotline_analysis.errors import QueryParameterError
from hotline_analysis.run.trace import Trace
from hotline_analysis.vocabulary import former_argument

_EITHER = "Trace | pl.DataFrame"  # the annotation of an argument
Parameters = ParamSpec("Parameters")
Answer = TypeVar("Answer")


def check_traces(what: str, *given: object) -> None:
    """Raise `TypeError`, for the caller of a public function, if an argument is not a `Trace`."""
    for value in given:
        if not isinstance(value, Trace):
            raise TypeError(
                f"{what} takes a Trace, not {type(value).__name__}: hotline_analysis.load(…) opens a run or trace file"
            )


def check_argument(function: str, argument: str, known: Collection[str]) -> None:
    """Raise `QueryParameterError` with the new name for an argument that was renamed."""
    instead = None if argument in known else former_argument(function, argument, known)
    if instead is not None:
        raise QueryParameterError(f"{function} no longer has an argument {argument}", hint=instead)


def takes_traces(function: Callable[Parameters, Answer]) -> Callable[Parameters, Answer]:
    """Wrap a function to check its `Trace` arguments, which come first; without such arguments, return it as is.

    An argument `Trace | pl.DataFrame` may also be a frame.
    """
    kinds = getattr(function, "__annotations__", {})
    names = [name for name, kind in kinds.items() if kind in ("Trace", Trace, _EITHER) and name != "return"]
    takes_frame = _EITHER in kinds.values()
    if not names:
        return function
    parameter_names = frozenset(signature(function).parameters)

    @functools.wraps(function)
    def checked(*args: Parameters.args, **named: Parameters.kwargs) -> Answer:
        given = [*args[: len(names)], *(named[name] for name in names if name in named)]
        traces = [value for value in given if not (takes_frame and isinstance(value, pl.DataFrame))]
        check_traces(function.__name__, *traces)
        for argument in named:
            check_argument(function.__name__, argument, parameter_names)
        return function(*args, **named)

    return checked
