"""Registry of all charts by name, each with the shown answer. The command line draws from this registry."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from typing import Any

from hotline_analysis.answers import detail, generated, named
from hotline_analysis.answers.finding import Finding
from hotline_analysis.answers.path import critical_path
from hotline_analysis.catalog import Param
from hotline_analysis.errors import QueryNotFoundError, QueryParameterError
from hotline_analysis.run.arguments import check_traces
from hotline_analysis.run.trace import Trace

SUBJECTS = (
    *("breakdown", "comparison", "device_time", "efficiency", "kernels", "limits", "memory", "multi_scale", "path"),
    *("prediction", "queue", "ranks", "trust", "whole_run"),
)
"""Modules of charts. Each public function of a frame or of traces is a chart."""


@dataclass(frozen=True)
class Kind:
    """A chart: `make` draws from `traces` traces (0: any number) and takes `parameters`."""

    name: str
    summary: str
    traces: int
    parameters: Mapping[str, Param]
    make: Callable[..., Any]

    def arguments(self, given: Mapping[str, object]) -> dict[str, object]:
        """Return the arguments converted to the types of the chart's parameters.

        Raises `QueryParameterError` for an unknown argument or a wrong type.
        """
        return named.converted(f"the chart {self.name}", self.parameters, given)


def draw(name: str, *traces: Trace, **parameters: object) -> Any:
    """Draw a chart by name, such as `draw("phases", trace, rank=0)`: an Altair chart, or a `Timeline`.

    `CHARTS` lists all charts with parameters; `diff` takes two traces, `batch` two or more. Raises `QueryNotFoundError`
    for an unknown name. Raises `QueryParameterError` for a wrong number of traces, for unknown parameters, and for
    values missing in the trace.
    """
    kind = get(name)
    check_traces("draw", *traces)
    if kind.traces and len(traces) != kind.traces:
        raise QueryParameterError(f"the chart {name} shows {_traces(kind.traces)}, not {len(traces)}")
    return kind.make(*traces, **kind.arguments(parameters))


def get(name: str) -> Kind:
    """Return the chart with this name. Raises `QueryNotFoundError` for an unknown name."""
    if name not in CHARTS:
        close = get_close_matches(name, CHARTS, n=3, cutoff=0.5)
        hint = f"Did you mean {' or '.join(close)}?" if close else f"There are {', '.join(CHARTS)}."
        raise QueryNotFoundError(f"there is no chart {name!r}", hint=hint)
    return CHARTS[name]


def _traces(count: int) -> str:
    return "one trace or run" if count == 1 else f"{count} traces or runs"


def _answered(chart: Callable[..., Any], answer: Callable[..., Any], *, own: tuple[str, ...] = ()) -> Kind:
    """A chart of an answer's frame. `own` names the parameters of the chart, not of the answer."""

    def make(*traces: Trace, **arguments: Any) -> Any:
        of_chart = {name: arguments.pop(name) for name in own if name in arguments}
        answered = answer(*traces, **arguments)
        return chart(answered.evidence if isinstance(answered, Finding) else answered, **of_chart)

    of_chart = {name: kind for name, kind in named.parameters(chart).items() if name in own}
    return Kind(chart.__name__, _summary(chart), named.trace_count(answer), named.parameters(answer) | of_chart, make)


def _drawn(chart: Callable[..., Any]) -> Kind:
    """A chart that queries the trace itself."""
    return Kind(chart.__name__, _summary(chart), 1, named.parameters(chart), chart)


def _drawn_of_several(chart: Callable[..., Any]) -> Kind:
    """A chart that queries any number of traces."""

    def make(*traces: Trace, **arguments: Any) -> Any:
        return chart(traces, **arguments)

    return Kind(chart.__name__, _summary(chart), 0, named.parameters(chart, without=("traces",)), make)


def _summary(chart: Callable[..., Any]) -> str:
    return re.split(r"[.,] [Ff]rom the ", (inspect.getdoc(chart) or "").splitlines()[0])[0].rstrip(".")


def _path_of_a_step(trace: Trace, *, rank: int | None = None, step: int | None = None) -> Any:
    """The critical path of one step, by default of the step with median duration."""
    chosen = min(trace.ranks) if rank is None else rank
    typical = detail.median_step(trace, chosen) if step is None else step
    return critical_path(trace, rank=chosen, step=typical)


# Charts of an answer with another name, and parameters of the chart that the answer lacks.
_ANSWERS: Mapping[str, Callable[..., Any]] = {"critical_path": _path_of_a_step, "stragglers": generated.collectives}
_OWN = {"modules": ("side",), "stragglers": ("by",)}


def _kind(chart: Callable[..., Any]) -> Kind:
    name = chart.__name__
    first = next(iter(inspect.signature(chart).parameters))
    if first == "trace":
        return _drawn(chart)
    if first == "traces":
        return _drawn_of_several(chart)
    computed = named.COMPUTED.get(name)
    answer = _ANSWERS.get(name) or (computed.function if computed else getattr(generated, name))
    return _answered(chart, answer, own=_OWN.get(name, ()))


def _charts() -> Iterator[Callable[..., Any]]:
    """Every public function of the chart modules that takes a frame, a trace or several traces."""
    for subject in SUBJECTS:
        module = import_module(f"{__package__}.{subject}")
        for name, function in vars(module).items():
            if name.startswith("_") or not inspect.isfunction(function) or function.__module__ != module.__name__:
                continue
            if next(iter(inspect.signature(function).parameters), "") in ("frame", "trace", "traces"):
                yield function


CHARTS: Mapping[str, Kind] = {kind.name: kind for kind in sorted(map(_kind, _charts()), key=lambda kind: kind.name)}
