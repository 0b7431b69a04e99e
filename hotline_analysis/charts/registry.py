"""Every chart by its name, with the answer that it shows: what the command line draws from."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from hotline_analysis.answers import (
    Finding,
    collectives,
    comm_comp_overlap,
    coverage,
    critical_path,
    device_use,
    diff,
    idle_breakdown,
    kernel_breakdown,
    kernel_duration_distribution,
    launch_stats,
    memory_bandwidth,
    memory_peak,
    memory_timeline,
    modules,
    named,
    phases,
    queue_length,
    slowest_ops,
    step_limits,
    steps,
    temporal_breakdown,
)
from hotline_analysis.answers import detail as tree
from hotline_analysis.catalog import Param
from hotline_analysis.charts import breakdown, kernels, path, ranks, resources
from hotline_analysis.charts.overview import overview
from hotline_analysis.charts.timeline import timeline
from hotline_analysis.errors import QueryNotFoundError, QueryParameterError
from hotline_analysis.run.trace import Trace, check_traces


@dataclass(frozen=True)
class Kind:
    """A chart: `make` draws it from as many traces as `traces` says, and takes `parameters`."""

    name: str
    summary: str
    traces: int
    parameters: Mapping[str, Param]
    make: Callable[..., Any]

    def arguments(self, given: Mapping[str, object]) -> dict[str, object]:
        """Return the arguments with the types that the chart takes.

        Raises `QueryParameterError` for one that it does not take, or of another type.
        """
        return named.converted(f"the chart {self.name}", self.parameters, given)


def draw(name: str, *traces: Trace, **parameters: object) -> Any:
    """Draw a chart by name, such as `draw("phases", trace, rank=0)`: an Altair chart, or a `Timeline`.

    `CHARTS` says which there are and what they take; only `diff` takes two traces. Raises `QueryNotFoundError` for an
    unknown name, and `QueryParameterError` for parameters that the chart does not take or the trace does not have.
    """
    kind = get(name)
    check_traces("draw", *traces)
    if len(traces) != kind.traces:
        raise QueryParameterError(f"the chart {name} shows {_traces(kind.traces)}, not {len(traces)}")
    return kind.make(*traces, **kind.arguments(parameters))


def get(name: str) -> Kind:
    """Return the chart of this name. Raises `QueryNotFoundError`."""
    if name not in CHARTS:
        close = get_close_matches(name, CHARTS, n=3, cutoff=0.5)
        hint = f"Did you mean {' or '.join(close)}?" if close else f"There are {', '.join(CHARTS)}."
        raise QueryNotFoundError(f"there is no chart {name!r}", hint=hint)
    return CHARTS[name]


def _traces(count: int) -> str:
    return "one trace or run" if count == 1 else f"{count} traces or runs"


def _answered(chart: Callable[..., Any], answer: Callable[..., Any], *, own: tuple[str, ...] = ()) -> Kind:
    """A chart of an answer; the parameters `own` are the chart's."""

    def make(*traces: Trace, **arguments: Any) -> Any:
        of_chart = {name: arguments.pop(name) for name in own if name in arguments}
        answered = answer(*traces, **arguments)
        return chart(answered.evidence if isinstance(answered, Finding) else answered, **of_chart)

    of_chart = {name: kind for name, kind in named.parameters(chart).items() if name in own}
    return Kind(chart.__name__, _summary(chart), named.trace_count(answer), named.parameters(answer) | of_chart, make)


def _drawn(chart: Callable[..., Any]) -> Kind:
    """A chart that asks the trace itself."""
    return Kind(chart.__name__, _summary(chart), 1, named.parameters(chart), chart)


def _summary(chart: Callable[..., Any]) -> str:
    return re.split(r"[.,] [Ff]rom the ", (inspect.getdoc(chart) or "").splitlines()[0])[0].rstrip(".")


def _path_of_a_step(trace: Trace, *, rank: int | None = None, step: int | None = None) -> Any:
    """The path of one step: of the one of median duration if none is asked for."""
    chosen = min(trace.ranks) if rank is None else rank
    typical = tree.median_step(trace, chosen) if step is None else step
    return critical_path(trace, rank=chosen, step=typical)


_KINDS = (
    _drawn(timeline),
    _drawn(overview),
    _answered(breakdown.steps, steps),
    _answered(breakdown.phases, phases),
    _answered(breakdown.device_use, device_use),
    _answered(breakdown.step_limits, step_limits),
    _answered(breakdown.modules, modules, own=("side",)),
    _answered(breakdown.slowest_ops, slowest_ops),
    _answered(breakdown.coverage, coverage),
    _answered(path.critical_path, _path_of_a_step),
    _answered(kernels.temporal_breakdown, temporal_breakdown),
    _answered(kernels.idle_breakdown, idle_breakdown),
    _answered(kernels.kernel_breakdown, kernel_breakdown),
    _answered(kernels.kernel_duration_distribution, kernel_duration_distribution),
    _answered(kernels.comm_comp_overlap, comm_comp_overlap),
    _answered(kernels.launch_stats, launch_stats),
    _answered(resources.queue_length, queue_length),
    _answered(resources.memory_timeline, memory_timeline),
    _answered(resources.memory_peak, memory_peak),
    _answered(resources.memory_bandwidth, memory_bandwidth),
    _answered(ranks.stragglers, collectives, own=("by",)),
    _answered(kernels.diff, diff),
)
CHARTS: Mapping[str, Kind] = {kind.name: kind for kind in sorted(_KINDS, key=lambda kind: kind.name)}
