"""What a scenario with a name is, all that are known, and what they are made with.

Three numbers are what makes the step shortest, what is expected, and what makes it longest. A parameter that the user
gives is one number, and takes the place of all three.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import polars as pl

from hotline_analysis.errors import QueryParameterError
from hotline_analysis.prediction.edits import (
    Edit,
    Number,
    at,
)
from hotline_analysis.prediction.loop import HIGH, LOW, MID, Loop
from hotline_analysis.prediction.predict import Scenario
from hotline_analysis.run.trace import Trace

GPU = pl.col("class").is_not_null()
COMPUTES = pl.col("class") == "computation"
MATMUL = pl.col("unit").is_not_null()
MODEL = pl.col("phase").is_in(["forward", "loss", "backward"])
HALF = ("fp16", "bf16", "fp8", "fp4", "int8")
NAME = pl.col("name")

Made = Scenario | str
"""A scenario, or a sentence why it does not apply."""


@dataclass(frozen=True)
class Given:
    """A parameter of a scenario: what it is if nothing is given, and what it means."""

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
        """The scenario with parameters that a user gave. Raises `QueryParameterError` for those that do not fit."""
        return self.make(loop, **self.values(given))

    def values(self, given: Mapping[str, object]) -> dict[str, Number | str | Trace | None]:
        """All parameters, those that a user gave among them. Raises `QueryParameterError` for those that do not fit."""
        values: dict[str, Number | str | Trace | None] = {
            name: known.default for name, known in self.parameters.items()
        }
        for name, value in given.items():
            if name not in self.parameters:
                known = ", ".join(self.parameters) or "none"
                raise QueryParameterError(f"{self.name} has no parameter {name!r}", hint=f"It has {known}.")
            values[name] = self.converted(name, value)
        return values

    def converted(self, name: str, value: object) -> float | str | Trace:
        """A parameter as a number, or as text or a trace where it is one.

        Raises `QueryParameterError` for what does not fit.
        """
        if self.parameters[name].is_trace:
            if isinstance(value, Trace):
                return value
            raise QueryParameterError(f"{name} of {self.name} must be a trace that is open, not {value!r}")
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
    """Make a function a scenario of its name: it takes a loop and parameters, and its first line is the summary."""

    def known(make: Callable[..., Made]) -> Callable[..., Made]:
        name = make.__name__.strip("_")
        KNOWN[name] = Known(name, (make.__doc__ or "").splitlines()[0].rstrip("."), source, parameters, make)
        return make

    return known


def made_of(name: str, edits: list[Edit], *assumptions: str, least_ns: Number = 0.0) -> Scenario:
    """The scenario of that name, with its edits and what they assume."""
    known = KNOWN[name]
    return Scenario(name, tuple(edits), f"{known.summary}.", assumptions, known.source, least_ns)


def each_end(function: Callable[..., float], *values: Number) -> Number:
    """A function of numbers, at each end of their ranges and between."""
    if not any(isinstance(value, tuple) for value in values):
        return function(*values)
    low, middle, high = (function(*(at(value, level) for value in values)) for level in (LOW, MID, HIGH))
    return low, middle, high


def inverse_of(value: Number) -> Number:
    """What times are multiplied by, if speed is."""
    if isinstance(value, tuple):
        slow, middle, fast = value
        return 1 / fast, 1 / middle, 1 / slow
    return 1 / value


def chosen_of(loop: Loop, condition: pl.Expr) -> pl.DataFrame:
    """The events of a loop that meet a condition."""
    return loop.events.frame.filter(condition)


def among(events: pl.DataFrame) -> pl.Expr:
    """The condition to be one of some events."""
    return pl.col("event_id").is_in(events["event_id"].implode())


def device_property(loop: Loop, name: str) -> float | None:
    """A property of the first GPU, if the file has it."""
    found = loop.trace.of(loop.rank).sql(
        "select try_cast(json_extract_string(properties, $path) as double) as value from device where rank = $rank"
        " order by device_id limit 1",
        path=f"$.{name}",
        rank=loop.rank,
    )
    return None if found.is_empty() else found["value"][0]


def is_amd(loop: Loop) -> bool:
    """Whether the GPU is one of AMD's, by its name or the calls."""
    found = loop.trace.of(loop.rank).sql(
        "select 1 from device where rank = $rank and name ilike '%AMD%'", rank=loop.rank
    )
    calls = chosen_of(loop, (pl.col("category") == "cuda_runtime") & NAME.str.starts_with("hip"))
    return not found.is_empty() or not calls.is_empty()


def busy_ns(events: pl.DataFrame) -> int:
    """How long events take in all."""
    return int(events["dur_ns"].sum())


def calls_that_waited(loop: Loop) -> pl.Series:
    """The calls that were seen to wait for GPU work."""
    edges = loop.table.edges.filter(pl.col("binds"), kind="return")
    return edges["event_id"].drop_nulls().unique()


NO_GPU = "The steps have no GPU work."
NO_MATMUL = "No kernel of the steps is known to multiply matrices or to convolve."
