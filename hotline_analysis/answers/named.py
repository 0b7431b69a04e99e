"""Functions by name, with arguments given as text: what a command line needs to call them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args, get_origin, get_type_hints

import polars as pl

from hotline_analysis import catalog
from hotline_analysis.answers.bottleneck import gpu_or_cpu_bound, optimizer_bottleneck
from hotline_analysis.answers.comparison import diff
from hotline_analysis.answers.detail import detail_size
from hotline_analysis.answers.efficiency import gpu_efficiency, tensor_core_use
from hotline_analysis.answers.finding import Finding
from hotline_analysis.answers.limits import step_limits
from hotline_analysis.answers.path import critical_path, critical_path_breakdown
from hotline_analysis.answers.patterns import frequent_kernel_patterns
from hotline_analysis.answers.places import slowest_places
from hotline_analysis.answers.rules import advice
from hotline_analysis.answers.storage import encodings_total
from hotline_analysis.catalog import Column, Param, ParamType, Query
from hotline_analysis.errors import QueryParameterError
from hotline_analysis.run.trace import Trace

FINDING = ("question", "answer", "statement", "advice")
"""The columns of a finding that are words; its numbers and evidence follow."""
_TRACES = ("trace", "a", "b")
_TYPES: Mapping[type, ParamType] = {bool: "BOOLEAN", int: "BIGINT", float: "DOUBLE"}


@dataclass(frozen=True)
class Computed:
    """An answer that is no query of its own, but a function over queries. `traces` is how many it takes."""

    name: str
    summary: str
    description: str
    traces: int
    parameters: Mapping[str, Param]
    columns: Sequence[Column]
    function: Callable[..., Any]

    def arguments(self, given: Mapping[str, object]) -> dict[str, object]:
        """Return the arguments as the function takes them; see `converted`."""
        return converted(f"the answer {self.name}", self.parameters, given)

    def ask(self, *traces: Trace, **given: object) -> pl.DataFrame:
        """Return the answer as a frame; a finding is one row, with its numbers and evidence."""
        answer = self.function(*traces, **self.arguments(given))
        return _finding_row(answer) if isinstance(answer, Finding) else answer

    def as_query(self) -> Query:
        """What is said of a query, of this answer; it has no SQL of its own."""
        params = tuple(self.parameters.values())
        return Query(
            self.name, "answers", "", self.summary, self.description, params, (), None, tuple(self.columns), ""
        )


def _finding_row(finding: Finding) -> pl.DataFrame:
    # A number has the same type whether there is one or not.
    kinds = {name: pl.Int64 if name.endswith("_ns") else pl.Float64 for name in finding.numbers}
    return pl.DataFrame(
        {
            **{word: [getattr(finding, word)] for word in FINDING},
            "thresholds": [dict(finding.thresholds)],
            "numbers": pl.Series([dict(finding.numbers)], dtype=pl.Struct(kinds)),
            "evidence": [finding.evidence.to_struct()],
        }
    )


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


# What each column is; those of a critical path are its edges'.
_COLUMNS: Mapping[str, str] = {
    "advice": """
        rule VARCHAR name of the rule that found it
        what VARCHAR what was found in the typical step of a kind
        where VARCHAR module and line of the user's code of the longest; empty where the trace tells none
        do VARCHAR what to do about it
        count BIGINT how many were found
        time_ns BIGINT their time
        gain_ns BIGINT how much shorter the step gets at most
        gain_pct DOUBLE the same as a share of the step
        event_id BIGINT the one that takes longest
        """,
    "slowest_places": """
        step BIGINT the typical step of the usual kind
        step_ns BIGINT time of a mean step
        kind VARCHAR what names the place: region, frame, module, sampled, phase or rest (the neighbours name it)
        place VARCHAR the place: name of the region or function, path of the module, the phase, or the neighbours
        source VARCHAR the line of the user's code; NULL where the trace tells none
        phase VARCHAR phase with most of its time
        limit VARCHAR limit with most of its time, as in `step_limits`
        path_ns BIGINT its part of the step
        path_pct DOUBLE the same as a share
        module_count BIGINT modules of this place that have time; NULL but for module
        sampled_pct DOUBLE share of the warm-up samples at this place that show the function; NULL but for sampled
        example_event_id BIGINT event with most of its time; NULL where the trace shows none
        """,
    "step_limits": """
        step BIGINT the step that stands for the run
        step_ns BIGINT its time in a loop of such steps
        limit VARCHAR what is waited for: computing, load_data, launching, …
        path_ns BIGINT its part of the step
        path_pct DOUBLE the same as a share
        without_ns BIGINT how long the step takes without it
        speedup DOUBLE how many times faster that is
        """,
    "critical_path_breakdown": """
        bound_by VARCHAR what bounds these edges; with another `by`, what that names: one column each
        path_ns BIGINT time on the critical path
        path_pct DOUBLE its share of the path
        edge_count BIGINT edges that take time
        """,
    "detail_size": """
        rank BIGINT process rank
        step BIGINT the step of median duration
        event_count BIGINT events of the trace with a duration
        node_count BIGINT nodes of its tree that are no groups
        first_view_count BIGINT slices that the timeline shows at first
        widest_count BIGINT children of the node that has most
        """,
    "diff": """
        part VARCHAR class of the work, or why the device idled; other levels (`by`) have columns of their own here
        op VARCHAR innermost op
        change VARCHAR added, removed, slower, faster, noise or same
        a_ns BIGINT mean time per step of A
        b_ns BIGINT mean time per step of B
        delta_ns BIGINT the difference; all rows add up to that of the steps
        a_sd_ns DOUBLE standard deviation between the steps of A; NULL with a single step
        b_sd_ns DOUBLE likewise of B
        noise_ns DOUBLE a smaller difference is noise; NULL if neither side has two steps
        a_count DOUBLE calls or GPU events per step of A
        b_count DOUBLE likewise of B
        a_graph_count DOUBLE of them, launched by a graph launch
        b_graph_count DOUBLE likewise of B
        """,
    "encodings_total": """
        rank BIGINT process rank
        schemes VARCHAR lossless, or all
        bytes BIGINT what the maps take that are saved for backward, per step
        encoded_bytes BIGINT what they would take; those that get no smaller stay as they are
        ratio DOUBLE how many times smaller that is
        peak_bytes BIGINT allocated at the peak, on a GPU if there is one
        peak_ratio DOUBLE how many times smaller that gets at most; NULL if more is saved in all than lives then
        """,
    "frequent_kernel_patterns": """
        pattern VARCHAR short names of its parts
        length BIGINT how many parts
        count BIGINT how often it occurs
        gpu_ns BIGINT duration of its parts in all occurrences
        gap_ns BIGINT idle time of the stream between the parts
        cpu_ns BIGINT from the start of the first call that launches it to the end of the last
        launch_ns BIGINT time that launching took in these calls
        saved_gap_ns BIGINT what one launch for each would save on the GPU
        saved_launch_ns BIGINT what one launch for each would save on the CPU
        first_rank BIGINT rank of its first occurrence
        first_event_id BIGINT event of its first occurrence
        """,
    "gpu_efficiency": """
        question VARCHAR what was asked
        answer VARCHAR well-used, unknown, or the part of `peak_loss` that loses most
        statement VARCHAR the answer in words
        advice VARCHAR what to do about it; empty when nothing needs doing
        thresholds STRUCT the limit that decided
        numbers STRUCT the numbers of the statement, exact: those of the answer `utilisation`
        evidence STRUCT[] the rows that the numbers come from: those of the answer `peak_loss`
        """,
    "tensor_core_use": """
        question VARCHAR what was asked
        answer VARCHAR eligible, used or none
        statement VARCHAR the answer in words
        advice VARCHAR what to do about it; empty when nothing needs doing
        thresholds STRUCT the limit that decided
        numbers STRUCT the numbers of the statement, exact
        evidence STRUCT[] the rows that the numbers come from: those of the answer `tensor_cores`
        """,
    "gpu_or_cpu_bound": """
        question VARCHAR what was asked
        answer VARCHAR gpu-bound, input-bound, launch-bound, …; see the description
        statement VARCHAR the answer in words
        advice VARCHAR what to do about it in general; empty when nothing needs doing
        thresholds STRUCT the limits that decided
        numbers STRUCT the numbers of the statement, exact
        evidence STRUCT[] the rows that the numbers come from: those of the answer `step_limits`
        """,
    "optimizer_bottleneck": """
        question VARCHAR what was asked
        answer VARCHAR yes, partly, no, no-optimizer or no-run
        statement VARCHAR the answer in words
        advice VARCHAR what to do about it; empty when nothing needs doing
        thresholds STRUCT the limits that decided
        numbers STRUCT the numbers of the statement, exact
        evidence STRUCT[] the rows that the numbers come from: those of the answer `phases`
        """,
}
_MEANINGS: Mapping[str, str] = {
    "by": "what a row is",
    "device": "only this device",
    "frames": "python frames cut a thread's time, too",
    "end_ns": "end of a window, instead of a step",
    "eligible_pct": "the least share of the GPU's busy time that is worth a look",
    "mfu_pct": "the least model FLOP utilisation that is called good",
    "largest_pct": "the least share of the path that names an answer",
    "max_length": "parts of the longest sequence",
    "min_count": "how often a sequence occurs at least",
    "min_length": "parts of the shortest sequence",
    "module": "only this module, by path, and those in it",
    "item_bytes": "bytes of a value",
    "limit": "so many rows; all for NULL",
    "op": "only work that ops of this name launch",
    "partly_pct": "the least share for `partly`",
    "phase": "only this phase",
    "rank": "only this rank; of a critical path, the lowest if none is given",
    "sigmas": "standard errors below which a difference is noise",
    "start_ns": "start of a window, instead of a step",
    "step": "only this step",
    "timeline": "of the devices or of the main thread; by default the devices' if both traces have GPU work",
    "until": "a step ends when its work is done, as the CPU marks it (host), or has all that it launches (launched)",
    "yes_pct": "the least share for `yes`",
    "zeros_pct": "how much of the maps behind a ReLU is 0",
} | {f"{what}_{side}": f"only this {what} of {side.upper()}" for what in ("rank", "step", "device") for side in "ab"}


def _computed(function: Callable[..., Any]) -> Computed:
    name = function.__name__
    # A paragraph is one line, as in a query's description; points of a list stay apart.
    doc = re.sub(r"(?<!\n)\n(?![\n*])", " ", inspect.getdoc(function) or "")
    summary, _, description = doc.partition("\n")
    lines = (line.split(maxsplit=2) for line in _COLUMNS.get(name, "").strip().splitlines())
    columns = [Column(*line) for line in lines] or catalog.get("dependency_edges").columns
    known = {word: replace(param, description=_MEANINGS[word]) for word, param in parameters(function).items()}
    return Computed(name, summary, description.strip(), trace_count(function), known, columns, function)


_FUNCTIONS = (
    advice,
    critical_path,
    critical_path_breakdown,
    detail_size,
    diff,
    encodings_total,
    frequent_kernel_patterns,
    gpu_efficiency,
    gpu_or_cpu_bound,
    optimizer_bottleneck,
    slowest_places,
    step_limits,
    tensor_core_use,
)
COMPUTED: Mapping[str, Computed] = {function.__name__: _computed(function) for function in _FUNCTIONS}
