"""Record the arguments of ops with torch's execution trace observer while no profiler records.

The observer sees the same calls as the profiler, in the same order, and writes its own file. The arguments are
converted to the notation of profiler traces (`Input Dims`, `Input type`, `Input Strides`, `Concrete Inputs`).
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from hotline_analysis.capture import need

ENGINE = "autograd::engine::evaluate_function: "  # prefix of the autograd engine's call of a node
_REGION_SCOPE, _NODE_SCOPE = 7, 1  # scopes of a record_function range and of an autograd node
_LONGEST_LIST = 30  # SCALAR_LIST_LENGTH_LIMIT in torch/csrc/profiler/util.h: longer lists are not recorded
_PART = "hotline part "  # prefix of the region that begins a part of the observation
_MESSAGE = b"Execution Trace Observer"
_SETTLED_S = 0.02  # by then, running ops have ended or will run for long
_UNDEFINED = "nullptr (uninitialized)"
_NUMBERS = ("Int", "Double", "Bool")

Tree = tuple[tuple[str, str | None], ...]
"""A call and all calls inside it, in order of their starts: the name, and the arguments as JSON."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call of an op, a node or a region on one thread."""

    name: str
    depth: int
    arguments: str | None
    thread: int
    sequence: int
    """Sequence number of the autograd node that the call creates or runs; -1 without a node."""
    forward_thread: int
    is_region: bool
    is_node: bool


class Observer:
    """The active execution trace observer. A process can have only one; a user's own observer is left alone.

    The same observer must see both the forward and the backward pass. For each backward node, torch's observer reads
    the top of the stack recorded for the node's forward thread. On a GPU, backward runs on another thread, and if the
    observer has recorded no calls of the forward thread, the process dies (`recordOperatorStart` in
    torch/csrc/profiler/standalone/execution_trace_observer.cpp).

    Several models share the observer, one after the other: each resumption starts a new part. The observer ends when
    the last user who called `join` leaves.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._is_on = True
        self._is_over = False
        self._is_backward = [False]  # by part
        self._parts: list[list[Call]] = []
        self._users: set[int] = set()

    @classmethod
    def started(cls) -> Observer | None:
        """Start observing; None if this version of torch cannot, or if another observer is active."""
        profiler = need.torch("_C")._profiler
        folder = tempfile.mkdtemp(prefix="hotline-")
        path = os.path.join(folder, "calls.json")
        try:
            # Torch also returns True if another observer is registered, but then creates no file.
            if profiler._add_execution_trace_observer(path) and os.path.exists(path):
                with _without_messages():
                    profiler._enable_execution_trace_observer()
                return cls(path)
        except (AttributeError, TypeError, RuntimeError):
            pass
        shutil.rmtree(folder, ignore_errors=True)
        return None

    @property
    def is_over(self) -> bool:
        """Whether the observer has ended."""
        return self._is_over

    @property
    def part(self) -> int:
        """The number of the current part."""
        return len(self._is_backward) - 1

    def join(self, user: object) -> None:
        """Keep the observer active until this user leaves."""
        self._users.add(id(user))

    def leave(self, user: object) -> None:
        """Pause for this user; stop if it was the last user."""
        self._users.discard(id(user))
        if self._users:
            self.pause()
        else:
            self.stop()

    def pause(self) -> None:
        """Pause until `go_on`."""
        if self._is_on and not self._is_over:
            self._is_on = False
            with _without_messages():
                need.torch("_C")._profiler._disable_execution_trace_observer()

    def go_on(self, *, is_backward: bool = True) -> None:
        """Resume for all threads and start a new part. If already active, continue the current part."""
        if self._is_on or self._is_over:
            return
        self._is_on = True
        self._is_backward.append(is_backward)
        with _without_messages():
            need.torch("_C")._profiler._enable_execution_trace_observer()
        with need.torch("profiler").record_function(f"{_PART}{self.part}"):
            pass

    def stop(self) -> None:
        """Stop observing. The calls are empty if the file is not as expected."""
        if self._is_over:
            return
        self._is_over = True
        profiler = need.torch("_C")._profiler
        calls: list[Call] = []
        with suppress(AttributeError, RuntimeError, OSError, ValueError, KeyError, TypeError):
            with _without_messages():
                # The process crashes if an op ends on another thread while torch frees the observer.
                profiler._disable_execution_trace_observer()
                time.sleep(_SETTLED_S)
                profiler._remove_execution_trace_observer()
            with open(self._path, encoding="utf-8") as stream:
                calls = _calls(json.load(stream)["nodes"])
        shutil.rmtree(os.path.dirname(self._path), ignore_errors=True)
        begins = {call.name: index for index, call in enumerate(calls) if call.name.startswith(_PART)}
        borders = [-1, *(begins.get(f"{_PART}{number}", len(calls)) for number in range(1, len(self._is_backward)))]
        self._parts = [calls[begin + 1 : end] for begin, end in zip(borders, [*borders[1:], len(calls)], strict=True)]

    def forward(self, part: int) -> list[Call]:
        """Return the calls of a part in order of their starts, after the observer has stopped."""
        return self._parts[part]

    def backward(self, after: int) -> list[list[Call]]:
        """Return the calls of each backward part after a part, after the observer has stopped."""
        parts = list(zip(self._parts, self._is_backward, strict=True))
        return [calls for calls, is_backward in parts[after + 1 :] if is_backward]


@contextmanager
def _without_messages() -> Iterator[None]:
    """Drop torch's own messages about the observer from stderr; write all other text afterwards.

    Torch writes to the file descriptor, bypassing `sys.stderr`.
    """
    try:
        stderr, buffer = os.dup(2), tempfile.TemporaryFile()  # noqa: SIM115
    except OSError:  # stderr is closed, or no descriptors are left
        yield
        return
    os.dup2(buffer.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
        with buffer:
            buffer.seek(0)
            lines = [line for line in buffer if _MESSAGE not in line]
        with suppress(OSError):
            os.write(2, b"".join(lines))


def tree_of(calls: Sequence[Call], at: int) -> Tree:
    """Return the call and all calls inside it, except user regions."""
    return tuple((calls[index].name, calls[index].arguments) for index in places_of(calls, at))


def places_of(calls: Sequence[Call], at: int) -> list[int]:
    """Return the indices of the call and of all calls inside it, except user regions."""
    end = at + 1
    while end < len(calls) and calls[end].depth > calls[at].depth:
        end += 1
    return [index for index in range(at, end) if not calls[index].is_region]


def _calls(nodes: Sequence[Mapping[str, Any]]) -> list[Call]:
    depths: dict[int, int] = {}
    calls = []
    for node in sorted(nodes, key=lambda node: int(node["id"])):
        depths[node["id"]] = depth = depths.get(node["ctrl_deps"], -1) + 1
        attributes = {attribute["name"]: attribute["value"] for attribute in node["attrs"]}
        calls.append(
            Call(
                name=node["name"],
                depth=depth,
                arguments=_arguments(node["inputs"], attributes.get("op_schema", "")),
                thread=attributes["tid"],
                sequence=attributes["seq_id"],
                forward_thread=attributes["fw_tid"],
                is_region=attributes["scope"] == _REGION_SCOPE,
                is_node=attributes["scope"] == _NODE_SCOPE,
            )
        )
    return calls


def _arguments(inputs: Mapping[str, Sequence[Any]], schema: str) -> str | None:
    """Return the arguments in the profiler's notation; None if the observer records no strides (before torch 2.5)."""
    if "strides" not in inputs:
        return None
    columns = (inputs[name] for name in ("values", "shapes", "types", "strides"))
    rows = [
        _argument(value, shape, kind, strides, schema) for value, shape, kind, strides in zip(*columns, strict=True)
    ]
    return json.dumps([list(column) for column in zip(*rows, strict=True)] or [[], [], [], []], separators=(",", ":"))


def _argument(value: Any, shape: Any, kind: str, strides: Any, schema: str) -> tuple[Any, str, Any, str]:
    """Return size, type, strides and value of an argument."""
    if kind.startswith("Tensor(") and _UNDEFINED not in kind:
        return shape, kind[len("Tensor(") : -1], strides, ""
    if kind in _NUMBERS:
        return [], "Scalar", [], str(value)
    if kind.startswith("GenericList["):
        parts = kind[len("GenericList[") : -1].split(",")
        # The profiler does not record a list as a tensor list if some of its tensors may be missing.
        if all(part.startswith("Tensor(") for part in parts) and "Tensor?[]" not in schema:
            return shape, "TensorList", strides, ""
        if all(part in (*_NUMBERS, "") for part in parts) and len(value) <= _LONGEST_LIST:
            return [], "ScalarList", [], f"[{', '.join(map(str, value))}]"
    return [], "", [], ""
