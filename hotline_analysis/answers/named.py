"""Computed answers by name, with arguments converted from text, as the command line needs them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args, get_origin, get_type_hints

import polars as pl

from hotline_analysis import catalog
from hotline_analysis.answers.balance import gpu_balance
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
"""The text columns of a finding. The numbers and the evidence follow."""
_TRACES = ("trace", "a", "b")
_TYPES: Mapping[type, ParamType] = {bool: "BOOLEAN", int: "BIGINT", float: "DOUBLE"}


@dataclass(frozen=True)
class Computed:
    """An answer computed by a Python function over queries. `traces` is the number of traces it takes."""

    name: str
    summary: str
    description: str
    traces: int
    parameters: Mapping[str, Param]
    columns: Sequence[Column]
    function: Callable[..., Any]

    def arguments(self, given: Mapping[str, object]) -> dict[str, object]:
        """Return the arguments with the types that the function expects; see `converted`."""
        return converted(f"the answer {self.name}", self.parameters, given)

    def ask(self, *traces: Trace, **given: object) -> pl.DataFrame:
        """Return the answer as a frame. A finding becomes a single row with numbers and evidence."""
        answer = self.function(*traces, **self.arguments(given))
        return _finding_row(answer) if isinstance(answer, Finding) else answer

    def as_query(self) -> Query:
        """Describe the answer as a `Query`, with empty SQL."""
        params = tuple(self.parameters.values())
        return Query(
            self.name, "answers", "", self.summary, self.description, params, (), None, tuple(self.columns), ""
        )


def _finding_row(finding: Finding) -> pl.DataFrame:
    # A number has the same type whether or not it is NULL.
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
    """Return the parameters of a function that can be given as text, without its traces."""
    params: dict[str, Param] = {}
    hints = get_type_hints(function)
    for name, parameter in inspect.signature(function).parameters.items():
        hint = hints.get(name)
        options = (hint, *get_args(hint))
        if name not in (*_TRACES, *without) and Finding not in options:
            literal = next((option for option in options if get_origin(option) is Literal and str not in options), None)
            type_: ParamType = next((_TYPES[kind] for kind in _TYPES if kind in options), "VARCHAR")
            required = parameter.default is inspect.Parameter.empty
            default = None if required else parameter.default
            params[name] = Param(name, type_, required, default, "", words=get_args(literal))
    return params


def converted(what: str, known: Mapping[str, Param], given: Mapping[str, object]) -> dict[str, object]:
    """Return arguments converted to the types that a function expects.

    Raises `QueryParameterError` for an unknown parameter, a wrong type, or a word outside the allowed list.
    """
    arguments: dict[str, object] = {}
    for name, value in given.items():
        if name not in known:
            names = ", ".join(known) or "none"
            raise QueryParameterError(f"{what} has no parameter {name!r}", hint=f"Parameters: {names}.")
        try:
            arguments[name] = known[name].convert(value)
        except ValueError as error:
            raise QueryParameterError(f"{name} must be {error}, not {value!r}") from None
    return arguments


def trace_count(function: Callable[..., Any]) -> int:
    """Number of traces that a function takes."""
    return sum(name in _TRACES for name in inspect.signature(function).parameters)


# Descriptions of the columns. `critical_path` has the columns of `dependency_edges`.
_COLUMNS: Mapping[str, str] = {
    "advice": """
        rule VARCHAR name of the rule
        what VARCHAR the finding in the typical step of a kind
        where VARCHAR module and code line of the longest finding; empty if the trace has neither
        do VARCHAR the remedy
        count BIGINT number of findings
        time_ns BIGINT total time of the findings
        gain_ns BIGINT maximum reduction of the step's time
        gain_pct DOUBLE maximum reduction as a share of the step
        event_id BIGINT event of the longest finding
        """,
    "slowest_places": """
        step BIGINT typical step of the most common kind
        step_ns BIGINT time of the mean step
        kind VARCHAR source of the name: region, frame, module, sampled, phase or rest (named by the neighbours in time)
        place VARCHAR name of the region or function, path of the module, the phase, or the neighbours in time
        source VARCHAR line of the user's code; NULL if the trace has none
        phase VARCHAR phase with most of the place's time
        limit VARCHAR limit with most of the place's time, as in `step_limits`
        path_ns BIGINT time of the place in the mean step
        path_pct DOUBLE time of the place as a share of the step
        module_count BIGINT number of modules with time at this place; NULL for other kinds than module
        sampled_pct DOUBLE share of the place's warm-up samples in the function; NULL for other kinds than sampled
        example_event_id BIGINT event with most of the place's time; NULL without events
        """,
    "step_limits": """
        step BIGINT typical step of the most common kind
        step_ns BIGINT mean time per step of the loop
        limit VARCHAR cause of the waiting: computing, load_data, launching, …
        path_ns BIGINT time of the limit in the step
        path_pct DOUBLE time of the limit as a share of the step
        without_ns BIGINT time of the step without the limit
        speedup DOUBLE speedup factor without the limit
        """,
    "critical_path_breakdown": """
        bound_by VARCHAR resource bounding these edges; other values of `by` give columns of other names
        path_ns BIGINT time on the critical path
        path_pct DOUBLE time as a share of the path
        edge_count BIGINT number of edges with a duration
        """,
    "detail_size": """
        rank BIGINT process rank
        step BIGINT typical step of the rank
        event_count BIGINT number of events with a duration
        node_count BIGINT number of tree nodes, without groups
        first_view_count BIGINT number of slices in the timeline's first view
        widest_count BIGINT maximum number of children of a node
        """,
    "diff": """
        part VARCHAR class of the work, or cause of idle time; other levels (`by`) have other columns
        op VARCHAR innermost op
        change VARCHAR added, removed, slower, faster, noise or same
        a_ns BIGINT mean time per step in A
        b_ns BIGINT mean time per step in B
        delta_ns BIGINT `b_ns - a_ns`; the rows add up to the difference of the steps
        a_sd_ns DOUBLE standard deviation between the steps of A; NULL with a single step
        b_sd_ns DOUBLE standard deviation between the steps of B; NULL with a single step
        noise_ns DOUBLE noise limit for the difference; NULL if neither side has two steps
        a_count DOUBLE calls or GPU events per step in A
        b_count DOUBLE calls or GPU events per step in B
        a_graph_count DOUBLE GPU events per step in A launched by CUDA graphs
        b_graph_count DOUBLE GPU events per step in B launched by CUDA graphs
        """,
    "encodings_total": """
        rank BIGINT process rank
        schemes VARCHAR lossless or all
        bytes BIGINT size of the maps saved for backward, per step
        encoded_bytes BIGINT size of the maps after encoding; a map that would not shrink is not encoded
        ratio DOUBLE `bytes` divided by `encoded_bytes`
        peak_bytes BIGINT memory allocated at the peak, on the GPU if there is one
        peak_ratio DOUBLE maximum reduction factor of `peak_bytes`; NULL if encoding would save more than `peak_bytes`
        """,
    "frequent_kernel_patterns": """
        pattern VARCHAR short names of the parts, joined by ` → `
        length BIGINT number of parts
        count BIGINT number of occurrences
        gpu_ns BIGINT duration of its parts in all occurrences
        gap_ns BIGINT idle time of the stream between the parts
        cpu_ns BIGINT time from the start of the first launching call to the end of the last
        launch_ns BIGINT launch time in these calls
        saved_gap_ns BIGINT GPU time saved by a single launch for each occurrence
        saved_launch_ns BIGINT CPU time saved by a single launch for each occurrence
        first_rank BIGINT rank of the first occurrence
        first_event_id BIGINT event of the first occurrence
        """,
    "gpu_balance": """
        question VARCHAR the question
        answer VARCHAR shared, unbalanced, in-turns, one-gpu or no-gpu
        statement VARCHAR the answer as a sentence
        advice VARCHAR the remedy; empty if no change is needed
        thresholds STRUCT the threshold of the answer
        numbers STRUCT the statement's numbers, unrounded
        evidence STRUCT[] source of the numbers: the rows of the answer `devices`
        """,
    "gpu_efficiency": """
        question VARCHAR the question
        answer VARCHAR well-used, unknown, or the part of `peak_loss` with the largest loss
        statement VARCHAR the answer as a sentence
        advice VARCHAR the remedy; empty if no change is needed
        thresholds STRUCT the threshold of the answer
        numbers STRUCT the statement's numbers, unrounded: from the answer `utilisation`
        evidence STRUCT[] source of the numbers: the rows of the answer `peak_loss`
        """,
    "tensor_core_use": """
        question VARCHAR the question
        answer VARCHAR eligible, used or none
        statement VARCHAR the answer as a sentence
        advice VARCHAR the remedy; empty if no change is needed
        thresholds STRUCT the threshold of the answer
        numbers STRUCT the statement's numbers, unrounded
        evidence STRUCT[] source of the numbers: the rows of the answer `tensor_cores`
        """,
    "gpu_or_cpu_bound": """
        question VARCHAR the question
        answer VARCHAR gpu-bound, input-bound, launch-bound, …; see the description
        statement VARCHAR the answer as a sentence
        advice VARCHAR general remedy; empty if no change is needed
        thresholds STRUCT the thresholds of the answer
        numbers STRUCT the statement's numbers, unrounded
        evidence STRUCT[] source of the numbers: the rows of the answer `step_limits`
        """,
    "optimizer_bottleneck": """
        question VARCHAR the question
        answer VARCHAR yes, partly, no, no-optimizer or no-run
        statement VARCHAR the answer as a sentence
        advice VARCHAR the remedy; empty if no change is needed
        thresholds STRUCT the thresholds of the answer
        numbers STRUCT the statement's numbers, unrounded
        evidence STRUCT[] source of the numbers: the rows of the answer `phases`
        """,
}
_MEANINGS: Mapping[str, str] = {
    "by": "level of the rows",
    "device": "only this device",
    "frames": "also divide a thread's time by python frames",
    "end_ns": "end of a time window, instead of a step",
    "eligible_pct": "minimum share of the GPU's busy time for `eligible`",
    "mfu_pct": "minimum model FLOP utilisation for `well-used`",
    "largest_pct": "minimum share of the path for a limit to determine the answer",
    "balanced_pct": "minimum gain, in per cent of a step, for a limit or a side to bound the loop",
    "max_length": "maximum number of parts in a sequence",
    "min_count": "minimum number of occurrences",
    "min_length": "minimum number of parts in a sequence",
    "module": "only this module, by path, with submodules",
    "item_bytes": "bytes per value",
    "limit": "maximum number of rows; NULL for all",
    "op": "only work launched by ops of this name",
    "partly_pct": "minimum share for `partly`",
    "phase": "only this phase",
    "rank": "only this rank; a critical path defaults to the lowest rank",
    "sigmas": "standard errors below which a difference is noise",
    "start_ns": "start of a time window, instead of a step",
    "step": "only this step",
    "timeline": "gpu (devices) or cpu (main thread); defaults to gpu if both traces have GPU work",
    "until": "end of a step: its GPU work is done (work), the CPU's mark (host), or with all launched work (launched)",
    "uneven_pct": "minimum share of the time lost because GPUs do not share the work",
    "yes_pct": "minimum share for `yes`",
    "zeros_pct": "share of zeros in the maps after a ReLU",
} | {f"{what}_{side}": f"only this {what} of {side.upper()}" for what in ("rank", "step", "device") for side in "ab"}


def _computed(function: Callable[..., Any]) -> Computed:
    name = function.__name__
    # Join each paragraph into one line, as in a query's description. List items keep their own lines.
    doc = re.sub(r"(?<!\n)\n(?![\n*])", " ", inspect.getdoc(function) or "")
    summary, _, description = doc.partition("\n")
    lines = (line.split(maxsplit=2) for line in _COLUMNS.get(name, "").strip().splitlines())
    columns = [Column(*line) for line in lines] or catalog.get("dependency_edges").columns
    params = {word: replace(param, description=_MEANINGS[word]) for word, param in parameters(function).items()}
    return Computed(name, summary, description.strip(), trace_count(function), params, columns, function)


_FUNCTIONS = (
    advice,
    critical_path,
    critical_path_breakdown,
    detail_size,
    diff,
    encodings_total,
    frequent_kernel_patterns,
    gpu_balance,
    gpu_efficiency,
    gpu_or_cpu_bound,
    optimizer_bottleneck,
    slowest_places,
    step_limits,
    tensor_core_use,
)
COMPUTED: Mapping[str, Computed] = {function.__name__: _computed(function) for function in _FUNCTIONS}
