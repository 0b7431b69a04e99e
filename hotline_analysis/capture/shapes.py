"""The arguments of ops, as torch's execution trace observer sees them while no profiler records.

The observer hears of the same calls as the profiler, in the same order, and writes a file of its own. Its notation is
turned into that of the profiler's traces (`Input Dims`, `Input type`, `Input Strides`, `Concrete Inputs`).
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

ENGINE = "autograd::engine::evaluate_function: "  # how the autograd engine's call of a node begins
_REGION_SCOPE, _NODE_SCOPE = 7, 1  # of a record_function range, and of an autograd node
_LONGEST_LIST = 30  # SCALAR_LIST_LENGTH_LIMIT in torch/csrc/profiler/util.h: longer ones are not recorded
_SECOND_PASS = "hotline backward"
_MESSAGE = b"Execution Trace Observer"
_SETTLED_S = 0.02  # ops that had begun are over then, or go on for long
_UNDEFINED = "nullptr (uninitialized)"
_NUMBERS = ("Int", "Double", "Bool")

Tree = tuple[tuple[str, str | None], ...]
"""A call and all calls inside it, in order of their starts: the name, and the arguments as JSON."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call of an op, a node or a region, on one thread."""

    name: str
    depth: int
    arguments: str | None
    thread: int
    sequence: int
    """Sequence number of the autograd node that it makes or is; -1 without one."""
    forward_thread: int
    is_region: bool
    is_node: bool


class Observer:
    """An execution trace observer that is on. There is only one in a process: the user's own is left alone.

    One must hear of both passes, forward and backward: for each node of backward, torch's observer reads the top of the
    stack that it has of the node's forward thread. On a GPU, that is another thread than backward's, and if the
    observer has heard of nothing there, the process dies (`recordOperatorStart` in
    torch/csrc/profiler/standalone/execution_trace_observer.cpp).
    """

    def __init__(self, path: str) -> None:
        self._path = path

    @classmethod
    def started(cls) -> Observer | None:
        """Begin to observe; None if this version of torch cannot, or if another observer is there."""
        profiler = need.torch("_C")._profiler
        folder = tempfile.mkdtemp(prefix="hotline-")
        path = os.path.join(folder, "calls.json")
        try:
            # It says yes where another observer is registered, but then begins no file.
            if profiler._add_execution_trace_observer(path) and os.path.exists(path):
                with _without_messages():
                    profiler._enable_execution_trace_observer()
                return cls(path)
        except (AttributeError, TypeError, RuntimeError):
            pass
        shutil.rmtree(folder, ignore_errors=True)
        return None

    def pause(self) -> None:
        """Hear of nothing until `go_on`."""
        with _without_messages():
            need.torch("_C")._profiler._disable_execution_trace_observer()

    def go_on(self) -> None:
        """Hear again of the calls of all threads, which are those of backward from now on."""
        with _without_messages():
            need.torch("_C")._profiler._enable_execution_trace_observer()
        with need.torch("profiler").record_function(_SECOND_PASS):
            pass

    def stop(self) -> tuple[list[Call], list[Call]]:
        """End it, and return the calls before and after `go_on` in order of their starts.

        There are none if the file is not as expected.
        """
        profiler = need.torch("_C")._profiler
        calls: list[Call] = []
        with suppress(AttributeError, RuntimeError, OSError, ValueError, KeyError, TypeError):
            with _without_messages():
                # An op that ends on another thread just while torch frees the observer is the end of the process.
                profiler._disable_execution_trace_observer()
                time.sleep(_SETTLED_S)
                profiler._remove_execution_trace_observer()
            with open(self._path, encoding="utf-8") as stream:
                calls = _calls(json.load(stream)["nodes"])
        shutil.rmtree(os.path.dirname(self._path), ignore_errors=True)
        second = next((at for at, call in enumerate(calls) if call.name == _SECOND_PASS), len(calls))
        return calls[:second], calls[second + 1 :]


@contextmanager
def _without_messages() -> Iterator[None]:
    """Leave out the lines that torch itself writes to stderr about the observer; all other text is written afterwards.

    Torch writes to the file descriptor, past `sys.stderr`.
    """
    try:
        kept, held = os.dup(2), tempfile.TemporaryFile()  # noqa: SIM115
    except OSError:  # closed, or no more descriptors
        yield
        return
    os.dup2(held.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        with held:
            held.seek(0)
            lines = [line for line in held if _MESSAGE not in line]
        with suppress(OSError):
            os.write(2, b"".join(lines))


def tree_of(calls: Sequence[Call], at: int) -> Tree:
    """The call with all in it but regions of the user."""
    return tuple((calls[place].name, calls[place].arguments) for place in places_of(calls, at))


def places_of(calls: Sequence[Call], at: int) -> list[int]:
    """The places of the call and of all in it but regions of the user."""
    end = at + 1
    while end < len(calls) and calls[end].depth > calls[at].depth:
        end += 1
    return [place for place in range(at, end) if not calls[place].is_region]


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
    """The arguments as the profiler writes them; None where the observer does not tell strides (before torch 2.5)."""
    if "strides" not in inputs:
        return None
    columns = (inputs[name] for name in ("values", "shapes", "types", "strides"))
    rows = [
        _argument(value, shape, kind, strides, schema) for value, shape, kind, strides in zip(*columns, strict=True)
    ]
    return json.dumps([list(column) for column in zip(*rows, strict=True)] or [[], [], [], []], separators=(",", ":"))


def _argument(value: Any, shape: Any, kind: str, strides: Any, schema: str) -> tuple[Any, str, Any, str]:
    """Sizes, type, strides and value of an argument."""
    if kind.startswith("Tensor(") and _UNDEFINED not in kind:
        return shape, kind[len("Tensor(") : -1], strides, ""
    if kind in _NUMBERS:
        return [], "Scalar", [], str(value)
    if kind.startswith("GenericList["):
        parts = kind[len("GenericList[") : -1].split(",")
        # The profiler takes no list for one of tensors if some of them may be missing.
        if all(part.startswith("Tensor(") for part in parts) and "Tensor?[]" not in schema:
            return shape, "TensorList", strides, ""
        if all(part in (*_NUMBERS, "") for part in parts) and len(value) <= _LONGEST_LIST:
            return [], "ScalarList", [], f"[{', '.join(map(str, value))}]"
    return [], "", [], ""
