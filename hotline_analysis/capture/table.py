"""The model-op table: the modules and ops of a forward pass, in order. Independent of torch."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hotline_analysis.atomic import path_of, replace_file
from hotline_analysis.capture.shapes import Tree

if TYPE_CHECKING:
    import polars as pl

VERSION = 1
KEY = "hotline_model"
"""Key of the table in a trace file."""


@dataclass(frozen=True)
class ModelOps:
    """The modules of a model in execution order, the ops called by each module, and the owner of each parameter."""

    content: Mapping[str, Any]
    """The table as stored in a trace under `hotline_model`."""

    @property
    def modules(self) -> pl.DataFrame:
        """One row per module: parents before children, in order of the first calls; modules never called come last.

        `calls` is NULL if calls could not be observed. `param_count` and `param_bytes` include the modules inside.
        `source` is the user's line with the first call. If no call was seen, `source` is the line naming the module in
        the enclosing `forward`.
        """
        return _frame(
            self.content["modules"],
            {
                "module_id": int,
                "parent_id": int,
                "name": str,
                "path": str,
                "type": str,
                "param_count": int,
                "param_bytes": int,
                "source": str,
                "calls": int,
            },
        )

    @property
    def ops(self) -> pl.DataFrame:
        """One row per op called from Python code, in order: the innermost module and its 0-based call number.

        Ops called by other ops are left out, unless a module lies between them. `depth` counts the enclosing ops.
        """
        rows = [{"depth": 0, **row} for row in self.content["ops"]]
        return _frame(rows, {"name": str, "module_id": int, "call": int, "depth": int})

    @property
    def parameters(self) -> pl.DataFrame:
        """One row per parameter in the order of `model.parameters()`, with the innermost called module around it."""
        kinds = {"name": str, "module_id": int, "shape": list[int], "numel": int, "requires_grad": bool}
        return _frame(self.content["parameters"], kinds)

    @property
    def order(self) -> str:
        """`execution` if a forward pass was watched, else `registration`."""
        return str(self.content["order"])

    @property
    def notes(self) -> list[str]:
        """Sentences about parts of the model that could not be observed."""
        return list(self.content["notes"])

    @property
    def not_seen(self) -> list[str]:
        """Reasons why a model's forward pass was not watched, as sentences; one per model if several are learned."""
        models = self.content.get("models", [])
        if all(model["order"] == "execution" for model in models) and (models or self.order == "execution"):
            return []
        names = tuple(f"{model['name']}: " for model in models if model["order"] != "execution")
        return [note for note in self.notes if not models or note.startswith(names)]

    def without_shapes(self) -> ModelOps:
        """Return the table without op arguments."""
        return ModelOps({name: value for name, value in self.content.items() if name != "shapes"})

    def to_json(self) -> str:
        """Return the table as JSON on one line, as stored in a trace."""
        return json.dumps(self.content, separators=(",", ":"))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the table atomically to a file."""
        replace_file(path_of(path), lambda file: file.write_text(self.to_json() + "\n", encoding="utf-8"))

    def __repr__(self) -> str:
        counts = f"{len(self.content['modules'])} modules, {len(self.content['ops'])} ops"
        return f"<ModelOps: {counts}, in order of {self.order}>"


def _frame(rows: Sequence[Mapping[str, Any]], kinds: Mapping[str, Any]) -> pl.DataFrame:
    import polars as pl

    types: dict[Any, Any] = {
        int: pl.Int64,
        str: pl.String,
        bool: pl.Boolean,
        list[int]: pl.List(pl.Int64),
    }
    return pl.DataFrame(rows, schema={name: types[kind] for name, kind in kinds.items()}, orient="row")


@dataclass(slots=True)
class Module:
    """A registered module of the model, numbered by its position in `model.named_modules()`."""

    number: int
    parent: int | None
    path: str
    type: str
    callable: bool
    param_count: int
    param_bytes: int
    source: str | None


@dataclass(slots=True)
class Seen:
    """Facts about a called module."""

    thread: int
    parent: int | None
    source: str | None
    calls: int = 0


@dataclass(frozen=True, slots=True)
class Op:
    """A called op, with the number of its module."""

    name: str
    module: int
    call: int
    depth: int
    at: int = -1
    """Index among the observed calls; -1 if not observed."""
    tree: Tree | None = None
    """The calls inside the op, with arguments; None if not observed."""


@dataclass(frozen=True, slots=True)
class NodeTree:
    """The calls of an autograd node, with arguments, and the creating call: an op, and a place in the op's tree."""

    op: int
    place: int
    tree: Tree


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter, with the number of its module."""

    name: str
    module: int
    shape: list[int]
    numel: int
    requires_grad: bool


@dataclass(slots=True)
class Facts:
    """Everything learned about a model. `seen` is in order of first calls; calls of `hidden` modules are unknown."""

    modules: Sequence[Module]
    parameters: Sequence[Parameter]
    seen: Mapping[int, Seen] = field(default_factory=dict)
    hidden: Collection[int] = ()
    ops: Sequence[Op] = ()
    nodes: Sequence[NodeTree] = ()
    notes: Sequence[str] = ()


def build(facts: Facts) -> ModelOps:
    """Put the modules in order and assign their ids."""
    executed = bool(facts.seen)
    parents = {number: seen.parent for number, seen in facts.seen.items()}
    if not executed:
        parents = {module.number: _enclosing(facts, module.parent, ()) for module in facts.modules if module.callable}
    order = _preorder(parents)
    for module in facts.modules:
        if module.callable and module.number not in parents:
            parents[module.number] = _enclosing(facts, module.parent, facts.seen)
            order.append(module.number)
    ids = {number: module_id for module_id, number in enumerate(order)}
    rows = []
    for number in order:
        module, seen = facts.modules[number], facts.seen.get(number)
        parent = parents[number]
        rows.append(
            {
                "module_id": ids[number],
                "parent_id": None if parent is None else ids[parent],
                "name": module.path.rpartition(".")[2] or module.type,
                "path": module.path,
                "type": module.type,
                "param_count": module.param_count,
                "param_bytes": module.param_bytes,
                "source": (seen.source if seen else None) or module.source,
                "calls": seen.calls if seen else 0 if executed and number not in facts.hidden else None,
            }
        )
    holders = (_enclosing(facts, parameter.module, facts.seen) for parameter in facts.parameters)
    return ModelOps(
        {
            "version": VERSION,
            "order": "execution" if executed else "registration",
            "notes": list(facts.notes),
            "modules": rows,
            "ops": [
                {"name": op.name, "module_id": ids[op.module], "call": op.call}
                | ({"depth": op.depth} if op.depth else {})
                for op in facts.ops
            ],
            "parameters": [
                {
                    "name": parameter.name,
                    "module_id": None if holder is None else ids[holder],
                    "shape": parameter.shape,
                    "numel": parameter.numel,
                    "requires_grad": parameter.requires_grad,
                }
                for parameter, holder in zip(facts.parameters, holders, strict=True)
            ],
        }
        | ({"shapes": _shapes(facts)} if any(op.tree for op in facts.ops) else {})
    )


def _shapes(facts: Facts) -> dict[str, Any]:
    """Return the arguments of all calls, without duplicates.

    `trees` are alternating indices into `names` and `arguments` (-1 for unknown arguments). `ops` has the tree of each
    op. `nodes` has triples: the number of an op, a place in the op's tree, and the tree of the autograd node created
    there.
    """
    names: dict[str, int] = {}
    arguments: dict[str, int] = {}
    trees: dict[Tree, int] = {}
    for tree in (*(op.tree for op in facts.ops), *(node.tree for node in facts.nodes)):
        if tree is not None:
            trees.setdefault(tree, len(trees))
    pairs = [
        [
            number
            for name, argument in tree
            for number in (
                names.setdefault(name, len(names)),
                -1 if argument is None else arguments.setdefault(argument, len(arguments)),
            )
        ]
        for tree in trees
    ]
    return {
        "names": list(names),
        "arguments": [json.loads(argument) for argument in arguments],
        "trees": pairs,
        "ops": [None if op.tree is None else trees[op.tree] for op in facts.ops],
        "nodes": [[node.op, node.place, trees[node.tree]] for node in facts.nodes],
    }


def _enclosing(facts: Facts, number: int | None, called: Iterable[int]) -> int | None:
    """Return the innermost called module from `number` outward; without called modules, the innermost callable one."""
    while number is not None:
        module = facts.modules[number]
        if number in called or (not called and module.callable):
            return number
        number = module.parent
    return None


def _preorder(parents: Mapping[int, int | None]) -> list[int]:
    """Order the modules so that parents precede their children, and siblings keep their order."""
    children: dict[int | None, list[int]] = {}
    for number, parent in parents.items():
        children.setdefault(parent, []).append(number)
    order: list[int] = []
    waiting = list(reversed(children.get(None, [])))
    while waiting:
        number = waiting.pop()
        order.append(number)
        waiting += reversed(children.get(number, []))
    return order
