"""The registry of named scenarios, and helpers to make them.

Three numbers are the values for the shortest step, the expected step, and the longest step. A user's parameter is a
single number that replaces all three.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import polars as pl

from hotline_analysis.errors import QueryParameterError
from hotline_analysis.prediction.engine.edits import (
    Edit,
    Number,
    at,
)
from hotline_analysis.prediction.engine.loop import HIGH, LOW, MID, Loop
from hotline_analysis.prediction.engine.predict import Scenario
from hotline_analysis.run.trace import Trace

GPU = pl.col("class").is_not_null()
COMPUTES = pl.col("class") == "computation"
MATMUL = pl.col("unit").is_not_null()
MODEL = pl.col("phase").is_in(["forward", "loss", "backward"])
HALF = ("fp16", "bf16", "fp8", "fp4", "int8")
NAME = pl.col("name")
# Copies by name, as the macros `is_copy_to_device` and `is_pageable_copy` decide.
TO_GPU = (pl.col("class") == "memory") & NAME.str.contains(r"(?i)HtoD|Host_?To_?Device|Host -> Device")
PAGEABLE = (pl.col("class") == "memory") & NAME.str.contains("(?i)pageable")

Made = Scenario | str
"""A scenario, or a sentence on why it does not apply."""


@dataclass(frozen=True)
class Given:
    """A parameter of a scenario: its default and its meaning."""

    default: Number | None
    meaning: str
    least: float = 0.0
    is_text: bool = False
    is_trace: bool = False


@dataclass(frozen=True)
class Known:
    """A scenario by name."""

    name: str
    summary: str
    source: str
    parameters: Mapping[str, Given]
    make: Callable[..., Made]

    def made(self, loop: Loop, given: Mapping[str, object]) -> Made:
        """Make the scenario with the user's parameters. Raises `QueryParameterError` for invalid parameters."""
        return self.make(loop, **self.values(given))

    def values(self, given: Mapping[str, object]) -> dict[str, Number | str | Trace | None]:
        """Return all parameters, with defaults. Raises `QueryParameterError` for invalid parameters."""
        values: dict[str, Number | str | Trace | None] = {
            name: known.default for name, known in self.parameters.items()
        }
        for name, value in given.items():
            if name not in self.parameters:
                known = ", ".join(self.parameters) or "none"
                raise QueryParameterError(f"{self.name} has no parameter {name!r}", hint=f"Parameters: {known}.")
            values[name] = self.converted(name, value)
        return values

    def converted(self, name: str, value: object) -> float | str | Trace:
        """Convert a parameter to a number, or to a text or trace for parameters of these types.

        Raises `QueryParameterError` for an invalid value.
        """
        if self.parameters[name].is_trace:
            if isinstance(value, Trace):
                return value
            raise QueryParameterError(f"{name} of {self.name} must be an open trace, not {value!r}")
        if self.parameters[name].is_text:
            return str(value)
        try:
            number = float(value)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            raise QueryParameterError(f"{name} of {self.name} must be a number, not {value!r}") from None
        least = self.parameters[name].least
        if not least <= number < float("inf"):
            raise QueryParameterError(f"{name} of {self.name} must be {least:g} or more, not {value!r}")
        return number


KNOWN: dict[str, Known] = {}


def scenario(source: str, **parameters: Given) -> Callable[[Callable[..., Made]], Callable[..., Made]]:
    """Register a function as the scenario of its name.

    The function takes a loop and parameters. The first line of its docstring is the summary.
    """

    def known(make: Callable[..., Made]) -> Callable[..., Made]:
        name = make.__name__.strip("_")
        KNOWN[name] = Known(name, (make.__doc__ or "").splitlines()[0].rstrip("."), source, parameters, make)
        return make

    return known


def made_of(name: str, edits: list[Edit], *assumptions: str, least_ns: Number = 0.0) -> Scenario:
    """Return the scenario of this name, with its edits and assumptions."""
    definition = KNOWN[name]
    return Scenario(name, tuple(edits), f"{definition.summary}.", assumptions, definition.source, least_ns)


def each_end(function: Callable[..., float], *values: Number) -> Number:
    """Apply a function to numbers at the low end, in the middle and at the high end."""
    if not any(isinstance(value, tuple) for value in values):
        return function(*values)
    low, middle, high = (function(*(at(value, level) for value in values)) for level in (LOW, MID, HIGH))
    return low, middle, high


def inverse_of(value: Number) -> Number:
    """Convert factors of speed to factors of time."""
    if isinstance(value, tuple):
        slow, middle, fast = value
        return 1 / fast, 1 / middle, 1 / slow
    return 1 / value


def chosen_of(loop: Loop, condition: pl.Expr) -> pl.DataFrame:
    """Return the events of a loop that meet a condition."""
    return loop.events.frame.filter(condition)


def among(events: pl.DataFrame) -> pl.Expr:
    """Return the condition that an event is one of these events."""
    return pl.col("event_id").is_in(events["event_id"].implode())


def device_property(loop: Loop, name: str) -> float | None:
    """Return a property of the first GPU; None if the file lacks it."""
    frame = loop.trace.of(loop.rank).sql(
        "select try_cast(json_extract_string(properties, $path) as double) as value from device where rank = $rank"
        " order by device_id limit 1",
        path=f"$.{name}",
        rank=loop.rank,
    )
    return None if frame.is_empty() else frame["value"][0]


def is_amd(loop: Loop) -> bool:
    """Return whether the GPU is from AMD, by its name or the runtime calls."""
    devices = loop.trace.of(loop.rank).sql(
        "select 1 from device where rank = $rank and name ilike '%AMD%'", rank=loop.rank
    )
    calls = chosen_of(loop, (pl.col("category") == "cuda_runtime") & NAME.str.starts_with("hip"))
    return not devices.is_empty() or not calls.is_empty()


def busy_ns(events: pl.DataFrame) -> int:
    """Return the total duration of the events."""
    return int(events["dur_ns"].sum())


def calls_that_waited(loop: Loop) -> pl.Series:
    """Return the calls that were recorded waiting for GPU work."""
    edges = loop.table.edges.filter(pl.col("binds"), kind="return")
    return edges["event_id"].drop_nulls().unique()


NO_GPU = "The steps have no GPU work."
NO_MATMUL = "No kernel of the steps is known to multiply matrices or to convolve."
