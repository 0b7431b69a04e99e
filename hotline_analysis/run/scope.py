"""Whether a trace has the rank, device, stream, step, module and op that a question is about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Protocol, SupportsIndex
from weakref import WeakKeyDictionary

import polars as pl

from hotline_analysis.errors import QueryParameterError
from hotline_analysis.text.formats import one_of, runs

_CLOSE = 3  # so many names that may have been meant
_STEPS = "select distinct step from step where $rank is null or rank = $rank order by step"
# A device or stream that the trace does not name is -1; of memory, that is the CPU.
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
        """Its ranks, ascending."""

    def sql(self, query: str, **parameters: object) -> pl.DataFrame:
        """Answer a statement."""


def check_scope(
    trace: Asked, asked: Mapping[str, object], called: str = "the trace", *, of_memory: bool = False
) -> None:
    """Raise `QueryParameterError`, with what there is, if the trace, or the rank asked for, lacks what is asked for.

    That is `rank`, `device`, `stream` (of that device), `step`, `module` and `op`; what is missing or None is not
    checked. A module is there by its path, or by that of one in it. `called` is the name of the trace in the message.
    `of_memory` says that the question is about memory, whose devices are those of the memory events.
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
        raise QueryParameterError(f"{called} has no rank {rank}", hint=f"It has {runs(trace.ranks)}.")
    whose = called if rank is None or len(trace.ranks) == 1 else f"rank {rank} of {called}"
    of_device = ("memory events of device", _MEMORIES) if of_memory else ("device", _DEVICES)
    for number, what, statement in ((asked.get("step"), "step", _STEPS), (device, *of_device)):
        if number is not None and number not in (known := _there(trace, statement, rank=rank)):
            raise QueryParameterError(f"{whose} has no {what} {number}", hint=f"It has {runs(known)}.")
    if stream is not None and stream not in (known := _there(trace, _STREAMS, rank=rank, device=device)):
        where = whose if device is None else f"device {device} of {whose}"
        raise QueryParameterError(f"{where} has no stream {stream}", hint=f"It has {runs(known)}.")
    if isinstance(module := asked.get("module"), str) and not has_module(trace, module, rank=rank):
        raise QueryParameterError(f"{whose} has no module {module!r}", hint=_like_module(module, _paths(trace, rank)))
    if isinstance(op := asked.get("op"), str) and op not in (ops := _there(trace, _OPS, rank=rank)):
        raise QueryParameterError(f"{whose} has no op {op!r}", hint=_like_op(op, ops))


def has_module(trace: Asked, module: str, *, rank: object = None) -> bool:
    """Whether there is a module of this path, or one in it."""
    return any(path == module or path.startswith(f"{module}.") for path in _paths(trace, rank))


def _paths(trace: Asked, rank: object) -> list[str]:
    return _there(trace, _PATHS, rank=rank)


# What there is in an open run, by statement and scope, as every question about a step asks which there are.
_found: WeakKeyDictionary[Asked, dict[tuple[object, ...], list[Any]]] = WeakKeyDictionary()


def _there(trace: Asked, statement: str, **scope: object) -> list[Any]:
    found = _found.setdefault(trace, {})
    asked = (statement, *scope.values())
    if asked not in found:
        found[asked] = trace.sql(statement, **scope).to_series().to_list()
    return found[asked]


def _like_module(module: str, paths: Sequence[str]) -> str:
    if not paths:
        return (
            "It tells no modules. Give them as `model` (--model): hotline_analysis.model_ops(model, inputs).save(FILE)"
            " writes the file."
        )
    # Who gives a part of a path means the modules at its end.
    ends = [path for path in paths if path.endswith(f".{module}")]
    close = ends[:_CLOSE] or get_close_matches(module, paths, n=_CLOSE, cutoff=0.5)
    return f"Did you mean {one_of(close)}?" if close else f"The answer `modules` lists them: {paths[0]} is one."


def _like_op(op: str, ops: Sequence[str]) -> str:
    if not ops:
        return "It has none."
    # Who leaves out a namespace or a prefix means the names that contain the rest.
    close = [name for name in ops if op in name][:_CLOSE] or get_close_matches(op, ops, n=_CLOSE, cutoff=0.5)
    return f"Did you mean {one_of(close)}?" if close else "The answer `slowest_ops` lists them."
