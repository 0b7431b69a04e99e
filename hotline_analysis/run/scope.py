"""Check that a trace has the rank, device, stream, step, module and op of a query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Protocol, SupportsIndex
from weakref import WeakKeyDictionary

import polars as pl

from hotline_analysis.errors import QueryParameterError
from hotline_analysis.text.formats import one_of, runs

_CLOSE = 3  # maximum number of suggested names
_STEPS = "select distinct step from step where $rank is null or rank = $rank order by step"
# A device or stream without a number in the trace is -1; for memory, -1 is the CPU.
_DEVICES = (
    "select distinct coalesce(device, -1) as device from gpu_op where $rank is null or rank = $rank order by device"
)
_MEMORIES = "select distinct device_id from memory_event where $rank is null or rank = $rank order by device_id"
_STREAMS = """
select distinct coalesce(stream, -1) as stream
from gpu_op
where ($rank is null or rank = $rank) and ($device is null or coalesce(device, -1) = $device)
order by stream
"""
_OPS = "select distinct name from name_info where category = 'cpu_op' and ($rank is null or rank = $rank) order by name"
_PATHS = "select path from model_op where $rank is null or rank = $rank group by path order by min(module_id), path"


class Asked(Protocol):
    """An open run, a `Trace`."""

    @property
    def ranks(self) -> list[int]:
        """The ranks, ascending."""

    def sql(self, query: str, **parameters: object) -> pl.DataFrame:
        """Run a statement."""


def check_scope(
    trace: Asked, asked: Mapping[str, object], called: str = "the trace", *, of_memory: bool = False
) -> None:
    """Raise `QueryParameterError`, with a list of valid values, if the trace or the rank lacks a requested item.

    Checks `rank`, `device`, `stream` (of the device), `step`, `module` and `op`; absent or `None` values are not
    checked. A module exists if the trace has its path, or the path of a submodule. `called` is the name of the trace in
    the message. `of_memory` selects the devices of memory events.
    """
    rank, device, stream = (asked.get(name) for name in ("rank", "device", "stream"))
    for name in ("rank", "device", "stream", "step"):
        number = asked.get(name)
        if number is not None and (isinstance(number, bool) or not isinstance(number, SupportsIndex)):
            raise QueryParameterError(f"{name} must be a whole number, not {number!r}")
    for name in ("module", "op"):
        text = asked.get(name)
        if text is not None and not isinstance(text, str):
            raise QueryParameterError(f"{name} must be text, not {text!r}")
    if rank is not None and rank not in trace.ranks:
        raise QueryParameterError(f"{called} has no rank {rank}", hint=f"Available: {runs(trace.ranks)}.")
    owner = called if rank is None or len(trace.ranks) == 1 else f"rank {rank} of {called}"
    of_device = ("memory events of device", _MEMORIES) if of_memory else ("device", _DEVICES)
    for number, noun, statement in ((asked.get("step"), "step", _STEPS), (device, *of_device)):
        if number is not None and number not in (numbers := _there(trace, statement, rank=rank)):
            raise QueryParameterError(f"{owner} has no {noun} {number}", hint=f"Available: {runs(numbers)}.")
    if stream is not None and stream not in (numbers := _there(trace, _STREAMS, rank=rank, device=device)):
        stream_owner = owner if device is None else f"device {device} of {owner}"
        raise QueryParameterError(f"{stream_owner} has no stream {stream}", hint=f"Available: {runs(numbers)}.")
    if isinstance(module := asked.get("module"), str) and not has_module(trace, module, rank=rank):
        raise QueryParameterError(f"{owner} has no module {module!r}", hint=_like_module(module, _paths(trace, rank)))
    if isinstance(op := asked.get("op"), str) and op not in (ops := _there(trace, _OPS, rank=rank)):
        raise QueryParameterError(f"{owner} has no op {op!r}", hint=_like_op(op, ops))


def has_module(trace: Asked, module: str, *, rank: object = None) -> bool:
    """Whether the trace has a module with this path, or a submodule of it."""
    return any(path == module or path.startswith(f"{module}.") for path in _paths(trace, rank))


def _paths(trace: Asked, rank: object) -> list[str]:
    return _there(trace, _PATHS, rank=rank)


# Cached values of an open run, by statement and scope, because every query about a step checks the steps.
_found: WeakKeyDictionary[Asked, dict[tuple[object, ...], list[Any]]] = WeakKeyDictionary()


def _there(trace: Asked, statement: str, **scope: object) -> list[Any]:
    cache = _found.setdefault(trace, {})
    key = (statement, *scope.values())
    if key not in cache:
        cache[key] = trace.sql(statement, **scope).to_series().to_list()
    return cache[key]


def _like_module(module: str, paths: Sequence[str]) -> str:
    if not paths:
        return (
            "The trace has no modules. Give a `model` (--model): hotline_analysis.model_ops(model, inputs).save(FILE)"
            " writes the file."
        )
    # A partial path means the modules at its end.
    ends = [path for path in paths if path.endswith(f".{module}")]
    close = ends[:_CLOSE] or get_close_matches(module, paths, n=_CLOSE, cutoff=0.5)
    return f"Did you mean {one_of(close)}?" if close else f"The answer `modules` lists all modules, such as {paths[0]}."


def _like_op(op: str, ops: Sequence[str]) -> str:
    if not ops:
        return "Available: none."
    # A name without its namespace or prefix means the names containing it.
    close = [name for name in ops if op in name][:_CLOSE] or get_close_matches(op, ops, n=_CLOSE, cutoff=0.5)
    return f"Did you mean {one_of(close)}?" if close else "The answer `slowest_ops` lists all ops."
