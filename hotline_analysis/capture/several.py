"""Several models of one training: names, learned tables, and the order of their calls."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hotline_analysis.capture import need
from hotline_analysis.capture.learn import REGION, Learner, Turn, kind_of, model_ops, opaque, plain_model
from hotline_analysis.capture.recording import close_before_recording, closed
from hotline_analysis.capture.table import ModelOps
from hotline_analysis.errors import HotlineError

_WRAPPERS = ("DataParallel", "DistributedDataParallel", "FullyShardedDataParallel")
_MOST_CALLS = 10_000  # limit of recorded calls of all models: a step has few calls, and steps repeat
_HINT = "Give a model, a list of models, or a dict of models by name."


def several(given: Any) -> dict[str, Any] | None:
    """Return the models by name; None for a single model or another object. Raises `HotlineError` for invalid names."""
    nn = need.torch("nn")
    if isinstance(given, type):
        return None
    is_container = getattr(type(given), "forward", None) is nn.Module.forward  # the container itself cannot be called
    if isinstance(given, Mapping) or (is_container and isinstance(given, nn.ModuleDict)):
        models = _with_names(given.items())
        _check([f"model {name!r}" for name in models], list(models.values()))
    elif isinstance(given, list | tuple) or (is_container and isinstance(given, nn.ModuleList)):
        _check([f"model {number} of the list" for number in range(len(given))], list(given))
        models = dict(zip(_class_names(list(given)), given, strict=True))
    else:
        return None
    return models


def _with_names(items: Iterable[tuple[Any, Any]]) -> dict[str, Any]:
    models: dict[str, Any] = {}
    for key, model in items:
        name = str(key) if isinstance(key, str | int) and not isinstance(key, bool) else ""
        if not name.strip() or "." in name or not name.isprintable():
            raise HotlineError(
                f"{key!r} is not a name for a model",
                hint="The name is a prefix of module names (`generator.conv1`): give a text or number without a dot.",
            )
        if name in models:
            raise HotlineError(f"two models have the name {name!r}", hint="Give each model a different name.")
        models[name] = model
    return models


def _class_names(models: Sequence[Any]) -> list[str]:
    """Return the class name of each model, numbered if several models share a class."""
    classes = [type(_unwrapped(model)).__name__ for model in models]
    counts, numbers = Counter(classes), Counter[str]()
    names = []
    for name in classes:
        names.append(f"{name}_{numbers[name]}" if counts[name] > 1 else name)
        numbers[name] += 1
    return names


def _unwrapped(model: Any) -> Any:
    """Return the user's module, without wrappers for compilation or distribution."""
    model = plain_model(model)
    while type(model).__name__ in _WRAPPERS and hasattr(model, "module"):
        model = plain_model(model.module)
    return model


def _check(names: Sequence[str], models: Sequence[Any]) -> None:
    """Raise `HotlineError` if there are no models, or if one is not a module or repeated. Messages use the names."""
    if not models:
        raise HotlineError("the list has no model", hint=_HINT)
    base = need.torch("nn").Module
    name_of: dict[int, str] = {}
    for name, model in zip(names, models, strict=True):
        if not isinstance(model, base):
            raise HotlineError(f"{name} is {kind_of(model)}, not a torch.nn.Module", hint=_HINT)
        if (first := name_of.setdefault(id(plain_model(model)), name)) != name:
            raise HotlineError(f"{name} is the same module as {first}", hint="Give each model once.")


class Learners:
    """Learns several models, each from inputs or from its next forward pass, and records the order of their calls."""

    def __init__(
        self, models: Mapping[str, Any], inputs: Any = None, *, shapes: bool = True, count_zeros: bool = False
    ) -> None:
        self._models = dict(models)
        self._shapes = shapes
        self._learned = {} if inputs is None else _learned_from(models, inputs)
        turn = Turn()
        self._learners = {
            name: Learner(model, shapes=shapes, count_zeros=count_zeros, turn=turn) for name, model in models.items()
        }
        if self._learned:
            for learner in self._learners.values():
                learner.close()
        self._calls = CallOrder(models.values())

    @property
    def hooks(self) -> int:
        """The current number of hooks on all models."""
        return self._calls.hooks + sum(learner.hooks for learner in self._learners.values())

    def close(self) -> None:
        """Stop watching and remove all hooks."""
        self._calls.close()
        for learner in self._learners.values():
            learner.close()

    def result(self) -> ModelOps:
        """Return the combined table of all models."""
        parts = {}
        for name, learner in self._learners.items():
            full_table = self._learned[name] if name in self._learned else learner.result()
            table = full_table if self._shapes else full_table.without_shapes()
            parts[name] = Part(table, learner.modules, is_compiled(self._models[name]))
        return combine(parts, self._calls.result())

    def zeros_pct(self) -> dict[str, float]:
        """Return the percentage of zeros in ReLU outputs, by module path."""
        return {
            _joined(name, path): share
            for name, learner in self._learners.items()
            for path, share in learner.zeros_pct().items()
        }


def _learned_from(models: Mapping[str, Any], inputs: Any) -> dict[str, ModelOps]:
    """Learn each model now from its inputs: a mapping by model name, or a sequence in the order of the models."""
    if isinstance(inputs, Mapping) and set(inputs) == set(models):
        inputs_of = dict(inputs)
    elif isinstance(inputs, list | tuple) and len(inputs) == len(models):
        inputs_of = dict(zip(models, inputs, strict=True))
    else:
        raise HotlineError(
            f"the inputs do not fit the {len(models)} models: {', '.join(models)}",
            hint="Give the inputs of each model: a list in the order of the models, or a dict with their names.",
        )
    tables = {}
    for name, model in models.items():
        positional, keywords = arguments_of(inputs_of[name])
        tables[name] = model_ops(model, *positional, **keywords)
    return tables


def arguments_of(inputs: Any) -> tuple[Sequence[Any], Mapping[str, Any]]:
    """Split user inputs into positional and keyword arguments."""
    if isinstance(inputs, Mapping):
        return (), inputs
    return (inputs if isinstance(inputs, tuple | list) else (inputs,)), {}


def is_compiled(model: Any) -> bool:
    """Whether the whole model is compiled with torch.compile."""
    reason = opaque(model)
    return reason is not None and "compile()" in reason


# --- order of calls --------------------------------------------------------------------------------------------------


class CallOrder:
    """Records the calls of several models, until a profiler records or `close` is called.

    A call inside another model's call does not count. Models compiled with their own `compile` method are not watched,
    because the hook would be compiled too.
    """

    def __init__(self, models: Iterable[Any]) -> None:
        self._calls: list[tuple[int, bool]] = []
        self._open: dict[int, int] = {}  # number of open calls by thread
        self._handles: list[Any] = []
        for number, model in enumerate(models):
            if (reason := opaque(model)) is None or plain_model(model) is not model:
                self._watch(number, model, reason)
        if self._handles:
            close_before_recording(self)

    @property
    def hooks(self) -> int:
        """The current number of hooks."""
        return len(self._handles)

    def close(self) -> None:
        """Remove all hooks."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        closed(self)

    def recording_begins(self) -> None:
        """Remove all hooks before anything is measured."""
        self.close()

    def result(self) -> list[tuple[int, bool]]:
        """Return the calls of one period: the model's number, and whether it was trained."""
        return self._calls[: _period(self._calls)]

    def _watch(self, number: int, model: Any, why: str | None) -> None:
        is_compiling = need.torch("compiler").is_compiling
        is_grad_enabled = need.torch().is_grad_enabled

        def enter(*_: Any) -> None:
            if is_compiling():
                return
            thread = threading.get_ident()
            depth = self._open[thread] = self._open.get(thread, 0) + 1
            if depth == 1 and len(self._calls) < _MOST_CALLS:
                is_trained = is_grad_enabled() and any(parameter.requires_grad for parameter in model.parameters())
                self._calls.append((number, is_trained))

        def leave(*_: Any) -> None:
            if not is_compiling():
                thread = threading.get_ident()
                self._open[thread] = max(0, self._open.get(thread, 0) - 1)

        self._handles.append(model.register_forward_pre_hook(enter, prepend=True))
        self._handles.append(model.register_forward_hook(leave, always_call=True))


def _period(calls: Sequence[object]) -> int:
    """Return the length of the shortest prefix whose repetition gives all calls (Knuth, Morris and Pratt, 1977)."""
    border = [0] * len(calls)
    for index in range(1, len(calls)):
        length = border[index - 1]
        while length and calls[index] != calls[length]:
            length = border[length - 1]
        border[index] = length + (calls[index] == calls[length])
    period = len(calls) - border[-1] if calls else 0
    return period if period and len(calls) % period == 0 else len(calls)


# --- the combined table ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Part:
    """The learned table of one model, and its modules by path."""

    learned: ModelOps
    modules: Mapping[str, Any]
    is_compiled: bool = False


@dataclass
class _Whole:
    """The combined table of all models, under construction."""

    modules: list[dict[str, Any]] = field(default_factory=list)
    ops: list[dict[str, Any]] = field(default_factory=list)
    parameters: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    models: dict[int, dict[str, Any]] = field(default_factory=dict)
    ids: dict[int, int] = field(default_factory=dict)  # by `id` of the module
    calls: Counter[int] = field(default_factory=Counter)  # number of calls of each module in the ops so far

    def add(self, number: int, name: str, part: Part) -> None:
        """Add a model. Modules shared with an earlier model stay with the earlier model."""
        content = part.learned.content
        ids: list[int] = []
        new_rows: set[int] = set()
        for row in content["modules"]:
            identity = id(part.modules.get(row["path"]))
            if (module_id := self.ids.get(identity)) is None:
                module_id = self.ids[identity] = len(self.modules)
                new_rows.add(len(ids))
                path = _joined(name, row["path"])
                parent = row["parent_id"]
                self.modules.append(
                    {
                        **row,
                        "module_id": module_id,
                        "parent_id": None if parent is None else ids[parent],
                        "name": path.rpartition(".")[2],
                        "path": path,
                    }
                )
            ids.append(module_id)
        begin = len(self.ops)
        calls_before = self.calls.copy()
        for op in _ops_of(part):
            module, call = ids[op["module_id"]], op["call"] + calls_before[ids[op["module_id"]]]
            self.ops.append({**op, "module_id": module, "call": call})
            self.calls[module] = max(self.calls[module], call + 1)
        self.parameters += [
            {**row, "name": _joined(name, row["name"]), "module_id": None if holder is None else ids[holder]}
            for row in content["parameters"]
            if (holder := row["module_id"]) is None or holder in new_rows
        ]
        self.notes += [f"{name}: {note}" for note in content["notes"]]
        self.models[number] = {
            "name": name,
            "module_id": ids[0] if ids else None,
            "order": content["order"],
            "ops": [begin, len(self.ops)],
        }


def combine(parts: Mapping[str, Part], calls: Sequence[tuple[int, bool]]) -> ModelOps:
    """Combine the tables of several models into one, in which each path starts with the model's name.

    `models` has, for each model, its row, whether it was watched, and the range of ops of its forward pass. `calls`
    lists the model numbers in the order of their calls, each with 1 if the model was trained. A module shared by two
    models is listed once, as in `named_modules()` of a module that contains both: under the first model, or under the
    model that contains the other.
    """
    combined = _Whole()
    for number, name in sorted(enumerate(parts), key=lambda each: _outer_count(each[1], parts)):
        combined.add(number, name, parts[name])
    orders = {row["order"] for row in combined.models.values()}
    content = {
        "version": next(iter(parts.values())).learned.content["version"],
        "order": "execution" if "execution" in orders else "registration",
        "notes": combined.notes,
        "modules": combined.modules,
        "ops": combined.ops,
        "parameters": combined.parameters,
        "models": [combined.models[number] for number in range(len(parts))],
        "calls": [[number, int(is_trained)] for number, is_trained in calls],
    }
    shapes = _Shapes()
    for _, row in sorted(combined.models.items(), key=lambda each: each[1]["ops"]):
        shapes.add(parts[row["name"]].learned.content.get("shapes"), *row["ops"])
    return ModelOps(content | ({"shapes": shapes.content} if shapes.content["trees"] else {}))


def _joined(name: str, path: str) -> str:
    """Return the path of a module in the combined table. The path of the model itself is its name."""
    return f"{name}.{path}" if path else name


def _outer_count(name: str, parts: Mapping[str, Part]) -> int:
    """Return the number of other models that contain this model as a module."""
    model_id = id(parts[name].modules.get(""))
    return sum(
        any(id(module) == model_id for path, module in part.modules.items() if path)
        for other, part in parts.items()
        if other != name
    )


def _ops_of(part: Part) -> Iterator[dict[str, Any]]:
    """Return the ops of the forward pass; for a fully compiled model, the call of its code."""
    content = part.learned.content
    if part.is_compiled and not content["ops"]:
        yield from ({"name": name, "module_id": 0, "call": 0} for name in REGION)
    yield from content["ops"]


class _Shapes:
    """The op arguments of several models, in the format described in `table.py`."""

    def __init__(self) -> None:
        self.content: dict[str, list[Any]] = {"names": [], "arguments": [], "trees": [], "ops": [], "nodes": []}
        self._names: dict[str, int] = {}

    def add(self, shapes: Mapping[str, Any] | None, begin: int, end: int) -> None:
        """Add the arguments of a model whose ops are in the range from `begin` to `end`."""
        if shapes is None:
            self.content["ops"] += [None] * (end - begin)
            return
        names = [self._number(name) for name in shapes["names"]]
        first_argument, first_tree = len(self.content["arguments"]), len(self.content["trees"])
        for tree in shapes["trees"]:
            pairs = zip(tree[::2], tree[1::2], strict=True)
            self.content["trees"].append(
                [
                    number
                    for name, argument in pairs
                    for number in (names[name], argument if argument < 0 else argument + first_argument)
                ]
            )
        self.content["arguments"] += shapes["arguments"]
        self.content["ops"] += [None if tree is None else tree + first_tree for tree in shapes["ops"]]
        self.content["nodes"] += [[op + begin, position, tree + first_tree] for op, position, tree in shapes["nodes"]]
        self.content["names"] = list(self._names)

    def _number(self, name: str) -> int:
        return self._names.setdefault(name, len(self._names))
