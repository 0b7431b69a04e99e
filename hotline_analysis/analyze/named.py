"""Functions by name, with arguments given as text: what a command line needs to call them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin, get_type_hints

import polars as pl

from hotline_analysis.analyze.bottleneck import optimizer_bottleneck
from hotline_analysis.analyze.comparison import diff
from hotline_analysis.analyze.detail import detail_size
from hotline_analysis.analyze.finding import Finding
from hotline_analysis.analyze.path import critical_path, critical_path_breakdown
from hotline_analysis.analyze.patterns import frequent_kernel_patterns
from hotline_analysis.catalog import Param, ParamType
from hotline_analysis.errors import QueryParameterError
from hotline_analysis.trace import Trace

FINDING = ("question", "answer", "statement", "advice")
"""The columns that stand for a finding."""
_TRACES = ("trace", "a", "b")
_TYPES: Mapping[type, ParamType] = {bool: "BOOLEAN", int: "BIGINT", float: "DOUBLE"}


@dataclass(frozen=True)
class Computed:
    """An answer that is no query of its own, but a function over queries. `traces` is how many it takes."""

    name: str
    summary: str
    traces: int
    parameters: Mapping[str, Param]
    function: Callable[..., Any]

    def arguments(self, given: Mapping[str, object]) -> dict[str, object]:
        """Return the arguments as the function takes them; see `converted`."""
        return converted(f"the answer {self.name}", self.parameters, given)

    def ask(self, *traces: Trace, **given: object) -> pl.DataFrame:
        """Return the answer as a frame; of a finding, its words in one row."""
        answer = self.function(*traces, **self.arguments(given))
        if isinstance(answer, pl.DataFrame):
            return answer
        return pl.DataFrame({word: [getattr(answer, word)] for word in FINDING})


def parameters(function: Callable[..., Any], *, without: Iterable[str] = ()) -> dict[str, Param]:
    """Return the arguments of a function that text can give; traces are not among them."""
    found: dict[str, Param] = {}
    hints = get_type_hints(function)
    for name, declared in inspect.signature(function).parameters.items():
        hint = hints.get(name)
        options = (hint, *get_args(hint))
        if name not in (*_TRACES, *without) and Finding not in options:
            literal = next((each for each in options if get_origin(each) is Literal and str not in options), None)
            type_: ParamType = next((_TYPES[kind] for kind in _TYPES if kind in options), "VARCHAR")
            required = declared.default is inspect.Parameter.empty
            default = None if required else declared.default
            found[name] = Param(name, type_, required, default, "", words=get_args(literal))
    return found


def converted(what: str, known: Mapping[str, Param], given: Mapping[str, object]) -> dict[str, object]:
    """Return arguments with the types that a function takes.

    Raises `QueryParameterError` for one that it does not take, of another type, or for a word that is not allowed.
    """
    arguments: dict[str, object] = {}
    for name, value in given.items():
        if name not in known:
            names = ", ".join(known) or "none"
            raise QueryParameterError(f"{what} has no parameter {name!r}", hint=f"It has {names}.")
        try:
            arguments[name] = known[name].convert(value)
        except ValueError as error:
            raise QueryParameterError(f"{name} must be {error}, not {value!r}") from None
    return arguments


def trace_count(function: Callable[..., Any]) -> int:
    """How many traces a function takes."""
    return sum(name in _TRACES for name in inspect.signature(function).parameters)


def _computed(function: Callable[..., Any]) -> Computed:
    summary = (inspect.getdoc(function) or "").splitlines()[0]
    return Computed(function.__name__, summary, trace_count(function), parameters(function), function)


_FUNCTIONS = (
    critical_path,
    critical_path_breakdown,
    detail_size,
    diff,
    frequent_kernel_patterns,
    optimizer_bottleneck,
)
COMPUTED: Mapping[str, Computed] = {function.__name__: _computed(function) for function in _FUNCTIONS}
