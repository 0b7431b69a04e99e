"""The model as described by the user, or as stored in the trace by a capture: modules, and the ops they run.

Two formats are supported. The first is a list of `{"name", "type", "ops": [...]}` in execution order, nested or with
PyTorch's paths as names. The second is the object returned by `hotline_analysis.model_ops`, with `modules` and the
recorded `ops` of each module.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from hotline_analysis.annotation.model_shapes import parse_shapes
from hotline_analysis.database import table_of
from hotline_analysis.errors import ModelMismatchError

METADATA_KEY = "hotline_model"
REGION = "Torch-Compiled Region"  # code compiled by torch.compile; the full name ends in a number
_MAX_DEPTH = 200
_CONTAINER = "Module"  # type of a container known only from the paths of its children
_LISTS = ("ModuleList", "ModuleDict")  # containers without code
_MODULE = pa.schema(
    [
        ("module_id", pa.int64()),
        ("parent_id", pa.int64()),
        ("depth", pa.int64()),
        ("name", pa.string()),
        ("path", pa.string()),
        ("type", pa.string()),
        ("param_count", pa.int64()),
        ("param_bytes", pa.int64()),
        ("source", pa.string()),
    ]
)


@dataclass(frozen=True)
class Root:
    """The root of one of several models that a training calls separately: the root module, and the model's ops."""

    name: str
    module_id: int
    first_op: int
    end_op: int
    """The ops from `first_op` to before `end_op` are the forward pass; empty if no pass was recorded."""


@dataclass(frozen=True)
class Model:
    """`modules` has the columns of `model_op`. `ops` are (name, module_id, call) in execution order, if known."""

    modules: pa.Table
    ops: Sequence[tuple[str, int, int]]
    source: str
    stored: bool = False
    """The model is stored in the trace, so no note is shown if it is not needed or does not fit."""
    registered: bool = False
    """The modules are in registration order, and some modules may never run."""
    note: str | None = None
    """A note for the user about the model."""
    shapes: Mapping[str, pa.Table] | None = None
    """The tables of `parse_shapes`; `None` if the capture recorded no shapes."""
    roots: Sequence[Root] = ()
    """The roots of several models in one list, whose paths begin with the model's name; empty for a single model."""
    order: Sequence[tuple[int, bool]] = ()
    """The calls of several models in a step: the number of the root, and whether the call was trained."""


def watched_modules(model: Model) -> pa.Table:
    """The modules, or with several models the recorded modules, and the position of the model's `first_call`."""
    call_order = [number for number, _ in model.order]
    first_calls = {
        root.module_id: call_order.index(number) if number in call_order else len(call_order) + number
        for number, root in enumerate(model.roots)
        if root.first_op < root.end_op
    }
    if not model.roots:
        return model.modules.append_column("first_call", pa.array([0] * len(model.modules), pa.int64()))
    by_module: list[int | None] = []
    parents: list[int | None] = []
    for number, parent in enumerate(model.modules.column("parent_id").to_pylist()):
        parent_call = None if parent is None else by_module[parent]
        by_module.append(first_calls.get(number) if parent_call is None else parent_call)
        parents.append(None if parent_call is None else parent)  # drop the parents of a root
    index = model.modules.schema.get_field_index("parent_id")
    modules = model.modules.set_column(index, "parent_id", pa.array(parents, pa.int64()))
    column = pa.array(by_module, pa.int64())
    return modules.append_column("first_call", column).filter(column.is_valid())


def read_model(path: Path) -> Model:
    """Read a model description from a file. Raises `ModelMismatchError` if the file is not a model description."""
    try:
        content = json.loads(path.read_bytes())
    except OSError as error:
        raise ModelMismatchError(f"{path} cannot be read: {error.strerror}", hint="Check the path.") from error
    except (ValueError, RecursionError) as error:
        raise ModelMismatchError(
            f"{path} is not JSON: {error}", hint='A model is a list of {"name", "type", "ops": [...]}.'
        ) from error
    return parse_model(content, str(path))


def parse_model(content: object, source: str, *, stored: bool = False) -> Model:
    """Check a model description, and return the model with numbered modules. `source` names it in error messages.

    Raises `ModelMismatchError` for an invalid description.
    """
    registered = False
    note = None
    shapes = None
    roots: list[Root] = []
    order: list[tuple[int, bool]] = []
    if isinstance(content, Mapping) and isinstance(content.get("modules"), list):
        registered = content.get("order") == "registration"
        rows = [_captured(entry, number, source) for number, entry in enumerate(content["modules"])]
        _check_tree(rows, source)
        ops = [_captured_op(entry, len(rows), source) for entry in content.get("ops") or []]
        shapes = parse_shapes(content.get("shapes"), ops)
        roots = _roots(content.get("models"), len(rows), len(ops), source)
        order = _order(content.get("calls"), len(roots))
    elif isinstance(content, list):
        nested = _nested(content)
        rows = list(_flatten(nested, source))
        ops = []
        never = next(
            (entry["type"] for entry in content if nested is not content and entry.get("type") in _LISTS), None
        )
        if never:
            note = (
                f"{source} lists a {never}, which never runs, so the modules seem to be in the order of registration;"
                " modules running in another order get wrong ops"
            )
    else:
        raise _wrong(source, "neither a list of modules nor an object with `modules`")
    if not rows:
        raise _wrong(source, "without any module")
    return Model(table_of(rows, _MODULE), ops, source, stored, registered, note, shapes, roots, order)


def _wrong(source: str, what: str) -> ModelMismatchError:
    return ModelMismatchError(
        f"{source} is not a model description: it is {what}",
        hint='A model is a list of {"name", "type", "ops": [...]} in execution order.',
    )


def _nested(entries: list[Any]) -> list[Any]:
    """Convert a flat list of PyTorch's paths (`layer1.0.conv1`) to a nested list. Other lists are unchanged.

    A container may be listed before its children, as `named_modules` does, after the children, as hooks do, or not at
    all. If other modules run between its children, it occurs twice, distinguished by an index.
    """
    flat = [entry for entry in entries if isinstance(entry, dict) and not entry.get("ops")]
    names = [name for entry in flat if isinstance(name := entry.get("name"), str) and name.count(".") < _MAX_DEPTH]
    if len(names) < len(entries) or not any(name == "" or "." in name for name in names):
        return entries
    root_entry = next((entry for entry, name in zip(entries, names, strict=True) if name == ""), None)
    root: dict[str, Any] = {**(root_entry or {}), "ops": []}
    open_modules = [root]
    for entry, name in zip(entries, names, strict=True):
        if entry is root_entry:
            continue
        parts = name.split(".")
        depth = 0
        while depth < min(len(parts), len(open_modules) - 1) and open_modules[depth + 1]["name"] == parts[depth]:
            depth += 1
        kind = entry.get("type", parts[-1])
        if depth == len(parts) and open_modules[depth]["type"] is None:
            open_modules[depth]["type"] = kind
            del open_modules[depth:]
            continue
        del open_modules[min(depth, len(parts) - 1) + 1 :]
        for part in parts[len(open_modules) - 1 :]:
            open_modules.append({"name": part, "type": None, "ops": []})
            open_modules[-2]["ops"].append(open_modules[-1])
        open_modules[-1]["type"] = kind
    holding = {name.rpartition(".")[0] for name in names}
    _name_containers(root, ran=not holding.isdisjoint(names))
    return [root] if root_entry else root["ops"]


def _name_containers(module: dict[str, Any], *, ran: bool) -> None:
    """Give unlisted containers a type: no code if other containers are listed, or if their children are numbered."""
    for entry in module["ops"]:
        _name_containers(entry, ran=ran)
        if entry["type"] is None:
            is_list = ran or all(child["name"].isdigit() for child in entry["ops"])
            entry["type"] = _LISTS[0] if is_list else _CONTAINER


def _inlined(entries: list[Any]) -> Iterator[Any]:
    """The modules of a level. Lists of modules run nothing themselves and are replaced by their elements."""
    for entry in entries:
        is_list = isinstance(entry, dict) and entry.get("type") in _LISTS and isinstance(entry.get("ops"), list)
        for child in _inlined(entry["ops"]) if is_list else [entry]:
            in_list = is_list and isinstance(child, dict)
            yield {**child, "name": f"{_name(entry)}.{_name(child)}"} if in_list else child


def _name(entry: dict[str, Any]) -> str:
    return str(entry.get("name") or entry.get("type"))


def _flatten(nested: list[Any], source: str) -> Iterator[dict[str, Any]]:
    """Number the modules in pre-order. Siblings with the same name get an index, so every path is unique."""
    count = 0
    stack: list[tuple[Iterator[tuple[int, Any]], Counter[str], Counter[str], int | None, str]] = []

    def level(entries: list[Any], parent: int | None, path: str) -> None:
        if len(stack) >= _MAX_DEPTH:
            raise _wrong(source, f"nested more than {_MAX_DEPTH} levels deep")
        entries = list(_inlined(entries))
        names = [str(entry.get("name", "")) if isinstance(entry, dict) else "" for entry in entries]
        stack.append((iter(enumerate(entries)), Counter(names), Counter(), parent, path))

    level(nested, None, "")
    while stack:
        entries, total, counts, parent, path = stack[-1]
        position, entry = next(entries, (-1, None))
        if position < 0:
            stack.pop()
            continue
        if not isinstance(entry, dict) or not isinstance(entry.get("type", entry.get("name")), str):
            raise _wrong(source, f"wrong at module {count}, which has no name or type")
        name = _name(entry)
        own_name = f"{name}[{counts[name]}]" if total[name] > 1 else name
        counts[name] += 1
        module_path = f"{path}.{own_name}" if path else own_name
        yield {
            "module_id": count,
            "parent_id": parent,
            "depth": len(stack) - 1,
            "name": own_name,
            "path": module_path,
            "type": str(entry.get("type") or name),
        }
        count += 1
        children = entry.get("ops") or []
        if not isinstance(children, list):
            raise _wrong(source, f"wrong at module {count - 1}, whose ops are no list")
        if children:
            level(children, count - 1, module_path if entry.get("name") else path)


def _captured(entry: object, number: int, source: str) -> dict[str, Any]:
    if not isinstance(entry, dict) or not isinstance(entry.get("type"), str):
        raise _wrong(source, f"wrong at module {number}, which has no type")
    name = str(entry.get("name") or entry["type"])
    return {
        "module_id": number,
        "parent_id": _whole(entry.get("parent_id")),
        "depth": 0,
        "name": name,
        "path": str(entry.get("path") or name),
        "type": entry["type"],
        "param_count": _whole(entry.get("param_count")),
        "param_bytes": _whole(entry.get("param_bytes")),
        "source": str(entry["source"]) if entry.get("source") else None,
    }


def _captured_op(entry: object, modules: int, source: str) -> tuple[str, int, int]:
    module = _whole(entry.get("module_id")) if isinstance(entry, dict) else None
    if not isinstance(entry, dict) or not isinstance(entry.get("name"), str) or module is None or module >= modules:
        raise _wrong(source, "wrong in its ops: each needs a name and the module_id of a listed module")
    name = REGION if entry["name"].startswith(REGION) else entry["name"]
    return name, module, _whole(entry.get("call")) or 0


def _roots(entries: object, modules: int, ops: int, source: str) -> list[Root]:
    """The roots of a description with several models."""
    roots: list[Root] = []
    for entry in entries if isinstance(entries, list) else []:
        root = _root(entry, modules, ops)
        if root is None:
            raise _wrong(source, f"wrong at model {len(roots)}, which needs a name, the module_id of a module, and ops")
        roots.append(root)
    return roots


def _root(entry: object, modules: int, ops: int) -> Root | None:
    if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
        return None
    module, limits = _whole(entry.get("module_id")), entry.get("ops")
    if module is None or module >= modules or not isinstance(limits, list) or len(limits) != 2:
        return None
    first, end = map(_whole, limits)
    return None if first is None or end is None or not first <= end <= ops else Root(entry["name"], module, first, end)


def _order(entries: object, roots: int) -> list[tuple[int, bool]]:
    """The calls of several models; empty if an entry is invalid."""
    calls = [
        (number, bool(entry[1]))
        for entry in (entries if isinstance(entries, list) else [])
        if isinstance(entry, list) and len(entry) == 2 and (number := _whole(entry[0])) is not None and number < roots
    ]
    return calls if isinstance(entries, list) and len(calls) == len(entries) else []


def _check_tree(rows: list[dict[str, Any]], source: str) -> None:
    for row in rows:
        parent = row["parent_id"]
        if parent is not None:
            if not 0 <= parent < row["module_id"]:
                raise _wrong(source, f"wrong at module {row['module_id']}, whose parent does not come before it")
            row["depth"] = rows[parent]["depth"] + 1
            if row["depth"] >= _MAX_DEPTH:
                raise _wrong(source, f"nested more than {_MAX_DEPTH} levels deep")


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63 else None
