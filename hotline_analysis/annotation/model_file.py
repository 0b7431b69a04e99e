"""The model as its user describes it, or as a capture has stored it in the trace: modules, and the ops they run.

Two forms are understood: a list of `{"name", "type", "ops": [...]}` in execution order, nested or with PyTorch's paths
as names, and the object that `hotline_analysis.model_ops` gives, with `modules` and the `ops` that each of them was
seen to run.
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
REGION = "Torch-Compiled Region"  # what runs code that torch.compile made; its name goes on with a number
_MAX_DEPTH = 200
_CONTAINER = "Module"  # the type of a container that only the paths of others tell
_LISTS = ("ModuleList", "ModuleDict")  # they are no code
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
class Model:
    """`modules` has the columns of `model_op`. `ops` are (name, module_id, call) in execution order, if known."""

    modules: pa.Table
    ops: Sequence[tuple[str, int, int]]
    source: str
    stored: bool = False
    """It stands in the trace, where nobody has to be told that it is not needed or does not fit."""
    registered: bool = False
    """The modules are in the order of their registration, and some of them may never run."""
    note: str | None = None
    """What the user has to know about it."""
    shapes: Mapping[str, pa.Table] | None = None
    """The tables of `parse_shapes`; None where the capture saw no shapes."""


def read_model(path: Path) -> Model:
    """Read a model description from a file. Raises `ModelMismatchError` if it is none."""
    try:
        content = json.loads(path.read_bytes())
    except OSError as error:
        raise ModelMismatchError(f"{path} cannot be read: {error.strerror}", hint="Check the path.") from error
    except (ValueError, RecursionError) as error:
        raise ModelMismatchError(
            f"{path} is no JSON: {error}", hint='A model is a list of {"name", "type", "ops": [...]}.'
        ) from error
    return parse_model(content, str(path))


def parse_model(content: object, source: str, *, stored: bool = False) -> Model:
    """Check a model description and number its modules. Raises `ModelMismatchError` if it is none."""
    registered = False
    note = None
    shapes = None
    if isinstance(content, Mapping) and isinstance(content.get("modules"), list):
        registered = content.get("order") == "registration"
        rows = [_captured(entry, number, source) for number, entry in enumerate(content["modules"])]
        _check_tree(rows, source)
        ops = [_captured_op(entry, len(rows), source) for entry in content.get("ops") or []]
        shapes = parse_shapes(content.get("shapes"), ops)
    elif isinstance(content, list):
        nested = _nested(content)
        rows = list(_flatten(nested, source))
        ops = []
        never = next(
            (entry["type"] for entry in content if nested is not content and entry.get("type") in _LISTS), None
        )
        if never:
            note = (
                f"{source} lists a {never}, which never runs, so its modules seem to stand in the order of"
                " registration; those that run in another order get wrong ops"
            )
    else:
        raise _wrong(source, "neither a list of modules nor an object with `modules`")
    if not rows:
        raise _wrong(source, "without any module")
    return Model(table_of(rows, _MODULE), ops, source, stored, registered, note, shapes)


def _wrong(source: str, what: str) -> ModelMismatchError:
    return ModelMismatchError(
        f"{source} is no model description: it is {what}",
        hint='A model is a list of {"name", "type", "ops": [...]} in execution order.',
    )


def _nested(entries: list[Any]) -> list[Any]:
    """A flat list of PyTorch's paths (`layer1.0.conv1`) as a nested one; other lists as they are.

    A container may be listed before what it holds, as `named_modules` does, after that, as hooks see it, or not at all.
    If other modules run between those it holds, it is there twice, which its index will tell.
    """
    flat = [entry for entry in entries if isinstance(entry, dict) and not entry.get("ops")]
    names = [name for entry in flat if isinstance(name := entry.get("name"), str) and name.count(".") < _MAX_DEPTH]
    if len(names) < len(entries) or not any(name == "" or "." in name for name in names):
        return entries
    whole = next((entry for entry, name in zip(entries, names, strict=True) if name == ""), None)
    root: dict[str, Any] = {**(whole or {}), "ops": []}
    open_modules = [root]
    for entry, name in zip(entries, names, strict=True):
        if entry is whole:
            continue
        parts = name.split(".")
        known = 0
        while known < min(len(parts), len(open_modules) - 1) and open_modules[known + 1]["name"] == parts[known]:
            known += 1
        kind = entry.get("type", parts[-1])
        if known == len(parts) and open_modules[known]["type"] is None:
            open_modules[known]["type"] = kind
            del open_modules[known:]
            continue
        del open_modules[min(known, len(parts) - 1) + 1 :]
        for part in parts[len(open_modules) - 1 :]:
            open_modules.append({"name": part, "type": None, "ops": []})
            open_modules[-2]["ops"].append(open_modules[-1])
        open_modules[-1]["type"] = kind
    holding = {name.rpartition(".")[0] for name in names}
    _name_containers(root, ran=not holding.isdisjoint(names))
    return [root] if whole else root["ops"]


def _name_containers(module: dict[str, Any], *, ran: bool) -> None:
    """Give containers that were not listed a type: they are no code if others are listed, or if they hold numbers."""
    for entry in module["ops"]:
        _name_containers(entry, ran=ran)
        if entry["type"] is None:
            is_list = ran or all(child["name"].isdigit() for child in entry["ops"])
            entry["type"] = _LISTS[0] if is_list else _CONTAINER


def _inlined(entries: list[Any]) -> Iterator[Any]:
    """The modules of one level, with those of a list of modules in place of the list, which runs nothing itself."""
    for entry in entries:
        is_list = isinstance(entry, dict) and entry.get("type") in _LISTS and isinstance(entry.get("ops"), list)
        for child in _inlined(entry["ops"]) if is_list else [entry]:
            named = is_list and isinstance(child, dict)
            yield {**child, "name": f"{_name(entry)}.{_name(child)}"} if named else child


def _name(entry: dict[str, Any]) -> str:
    return str(entry.get("name") or entry.get("type"))


def _flatten(nested: list[Any], source: str) -> Iterator[dict[str, Any]]:
    """Number the modules in pre-order. Siblings of one name get an index, so that every path is unique."""
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
        entries, total, seen, parent, path = stack[-1]
        position, entry = next(entries, (-1, None))
        if position < 0:
            stack.pop()
            continue
        if not isinstance(entry, dict) or not isinstance(entry.get("type", entry.get("name")), str):
            raise _wrong(source, f"wrong at module {count}, which has no name or type")
        name = _name(entry)
        own = f"{name}[{seen[name]}]" if total[name] > 1 else name
        seen[name] += 1
        here = f"{path}.{own}" if path else own
        yield {
            "module_id": count,
            "parent_id": parent,
            "depth": len(stack) - 1,
            "name": own,
            "path": here,
            "type": str(entry.get("type") or name),
        }
        count += 1
        children = entry.get("ops") or []
        if not isinstance(children, list):
            raise _wrong(source, f"wrong at module {count - 1}, whose ops are no list")
        if children:
            level(children, count - 1, here if entry.get("name") else path)


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
