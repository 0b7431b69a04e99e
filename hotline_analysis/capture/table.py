"""The model-op table: what a forward pass ran, put in order. Knows nothing of torch."""

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
"""Where a trace file keeps the table."""


@dataclass(frozen=True)
class ModelOps:
    """The modules of a model in the order in which they run, the ops that each calls, and who holds which parameter."""

    content: Mapping[str, Any]
    """The table as it is stored in a trace, under `hotline_model`."""

    @property
    def modules(self) -> pl.DataFrame:
        """One row per module: parents before children, in order of their first calls; never called ones last.

        `calls` is NULL where none could be seen. `param_count` and `param_bytes` include the modules
        inside. `source` is the line of the user's code that makes the first call, or that names the module in the
        `forward` around it if no call was seen.
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
        """One row per op that python code called, in order: its innermost module, and which call of that module it
        belongs to (0-based).

        Ops that other ops call are left out, unless a module is between them (`depth` counts the ops around it).
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
        """What could not be seen, in words."""
        return list(self.content["notes"])

    def without_shapes(self) -> ModelOps:
        """The same without the arguments of the ops."""
        return ModelOps({name: value for name, value in self.content.items() if name != "shapes"})

    def to_json(self) -> str:
        """JSON on one line, as it is stored in a trace."""
        return json.dumps(self.content, separators=(",", ":"))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the table to a file of its own, which appears whole or not at all."""
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
    """A module of the model as registered; its number is its place in `model.named_modules()`."""

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
    """What is known of a module that was called."""

    thread: int
    parent: int | None
    source: str | None
    calls: int = 0


@dataclass(frozen=True, slots=True)
class Op:
    """An op that was called, by the number of its module."""

    name: str
    module: int
    call: int
    depth: int
    at: int = -1
    """Its place among the calls that were observed."""
    tree: Tree | None = None
    """What it calls, with arguments, where that was observed."""


@dataclass(frozen=True, slots=True)
class NodeTree:
    """What an autograd node calls, with arguments, and the call that made it, by its op and its place in the tree."""

    op: int
    place: int
    tree: Tree


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter, by the number of the module that holds it."""

    name: str
    module: int
    shape: list[int]
    numel: int
    requires_grad: bool


@dataclass(slots=True)
class Facts:
    """All that was learned of a model. `seen` is in order of first calls; `hidden` may have been called or not."""

    modules: Sequence[Module]
    parameters: Sequence[Parameter]
    seen: Mapping[int, Seen] = field(default_factory=dict)
    hidden: Collection[int] = ()
    ops: Sequence[Op] = ()
    nodes: Sequence[NodeTree] = ()
    notes: Sequence[str] = ()


def build(facts: Facts) -> ModelOps:
    """Put the modules in order and give them their ids."""
    executed = bool(facts.seen)
    parents = {number: seen.parent for number, seen in facts.seen.items()}
    if not executed:
        parents = {module.number: _enclosing(facts, module.parent, ()) for module in facts.modules if module.callable}
    ordered = _preorder(parents)
    for module in facts.modules:
        if module.callable and module.number not in parents:
            parents[module.number] = _enclosing(facts, module.parent, facts.seen)
            ordered.append(module.number)
    ids = {number: module_id for module_id, number in enumerate(ordered)}
    rows = []
    for number in ordered:
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
    held = (_enclosing(facts, parameter.module, facts.seen) for parameter in facts.parameters)
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
                for parameter, holder in zip(facts.parameters, held, strict=True)
            ],
        }
        | ({"shapes": _shapes(facts)} if any(op.tree for op in facts.ops) else {})
    )


def _shapes(facts: Facts) -> dict[str, Any]:
    """The arguments of all calls, each different one once.

    `trees` are pairs of numbers, of `names` and of `arguments` (-1 if they are not known). `ops` has the tree of each
    of the ops, and `nodes` the number of an op, a place in its tree, and the tree of the autograd node that is made
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
            for name, given in tree
            for number in (
                names.setdefault(name, len(names)),
                -1 if given is None else arguments.setdefault(given, len(arguments)),
            )
        ]
        for tree in trees
    ]
    return {
        "names": list(names),
        "arguments": [json.loads(given) for given in arguments],
        "trees": pairs,
        "ops": [None if op.tree is None else trees[op.tree] for op in facts.ops],
        "nodes": [[node.op, node.place, trees[node.tree]] for node in facts.nodes],
    }


def _enclosing(facts: Facts, number: int | None, called: Iterable[int]) -> int | None:
    """Return the module itself if it is one of those called (or none was, and it could be), else the one around it."""
    while number is not None:
        module = facts.modules[number]
        if number in called or (not called and module.callable):
            return number
        number = module.parent
    return None


def _preorder(parents: Mapping[int, int | None]) -> list[int]:
    """Order the modules so that parents stand before their children, and siblings as given."""
    children: dict[int | None, list[int]] = {}
    for number, parent in parents.items():
        children.setdefault(parent, []).append(number)
    ordered: list[int] = []
    waiting = list(reversed(children.get(None, [])))
    while waiting:
        number = waiting.pop()
        ordered.append(number)
        waiting += reversed(children.get(number, []))
    return ordered
