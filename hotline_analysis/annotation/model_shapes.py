"""The arguments of a model's ops, as stored with the modules by a capture, converted to tables.

The file may come from anyone. A structure that no capture writes is rejected as a whole; single invalid arguments are
skipped.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

import polars as pl
import pyarrow as pa

_COLUMNS = ("input_dims", "input_types", "input_strides", "concrete_inputs")
_TEXTS = ("name", *_COLUMNS)
_DEEPEST = 3  # a list of arguments, of lists of tensors, of lists of sizes


def parse_shapes(stored: object, ops: Sequence[tuple[str, int, int]]) -> Mapping[str, pa.Table] | None:
    """Return the tables read by the queries; `None` if no shapes are stored or their structure is invalid.

    `given_op` has each op of the model, its position in the call of its module, and the number of its tree.
    `given_call` has the calls of each tree, and `given_argument` the arguments of a call as the profiler writes them.
    `given_node` has the tree of the autograd node created by a call in an op.
    """
    if not isinstance(stored, Mapping):
        return None
    names, arguments, trees = stored.get("names"), stored.get("arguments"), stored.get("trees")
    of_ops, nodes = stored.get("ops"), stored.get("nodes")
    if not (_is_list(names) and _is_list(arguments) and _is_list(trees) and _is_list(of_ops) and _is_list(nodes)):
        return None
    is_good = (
        all(isinstance(name, str) for name in names)
        and all(_is_list(tree) and len(tree) % 2 == 0 and all(map(_is_number, tree)) for tree in trees)
        and all(0 <= name < len(names) for tree in trees for name in tree[::2])
        and all(tree is None or (_is_number(tree) and 0 <= tree < len(trees)) for tree in of_ops)
        and len(of_ops) == len(ops)
        and all(_is_list(node) and len(node) == 3 and all(map(_is_number, node)) for node in nodes)
        and all(0 <= tree < len(trees) and trees[tree] for _, _, tree in nodes)
    )
    if not is_good:
        return None
    plain_names = [_plain(name) for name in names]
    return {
        "given_op": _given_ops(ops, of_ops),
        "given_call": _given_calls(trees, plain_names),
        "given_argument": _given_arguments(arguments),
        "given_node": _table(
            op_number=[op for op, _, _ in nodes],
            place=[position for _, position, _ in nodes],
            tree_id=[tree for _, _, tree in nodes],
            name=[plain_names[trees[tree][0]] for _, _, tree in nodes],
        ),
    }


def _given_ops(ops: Sequence[tuple[str, int, int]], trees: Sequence[int | None]) -> pa.Table:
    counts: dict[tuple[int, int], int] = {}
    positions = []
    for _, module, call in ops:
        counts[module, call] = position = counts.get((module, call), 0) + 1
        positions.append(position)
    return _table(
        op_number=range(len(ops)),
        name=[_plain(name) for name, _, _ in ops],
        module_id=[module for _, module, _ in ops],
        call=[call for _, _, call in ops],
        place=positions,
        tree_id=trees,
    )


def _given_calls(trees: Sequence[Sequence[int]], names: Sequence[str]) -> pa.Table:
    numbers = [(tree, position) for tree, pairs in enumerate(trees) for position in range(len(pairs) // 2)]
    return _table(
        tree_id=[tree for tree, _ in numbers],
        place=[position for _, position in numbers],
        call_count=[len(trees[tree]) // 2 for tree, _ in numbers],
        name=[names[trees[tree][2 * position]] for tree, position in numbers],
        argument_id=[trees[tree][2 * position + 1] for tree, position in numbers],
    )


def _given_arguments(arguments: Sequence[Any]) -> pa.Table:
    """The valid arguments: four lists of equal length, with integers or text, as JSON in the reader's format."""
    rows = [
        (number, *(json.dumps(column, separators=(",", ":")) for column in argument))
        for number, argument in enumerate(arguments)
        if _is_list(argument)
        and len(argument) == len(_COLUMNS)
        and all(_is_list(column) and len(column) == len(argument[0]) for column in argument)
        and all(_is_sizes(argument[column]) for column in (0, 2))
        and all(isinstance(text, str) and text.isprintable() for column in (1, 3) for text in argument[column])
    ]
    columns = list(zip(*rows, strict=True)) or [()] * (1 + len(_COLUMNS))
    return _table(**dict(zip(("argument_id", *_COLUMNS), columns, strict=True)))


def _table(**columns: Sequence[object]) -> pa.Table:
    """A table of texts and integers. Arrow itself would import pandas to inspect Python lists (`table_of`)."""
    return pl.DataFrame(columns, {name: pl.String if name in _TEXTS else pl.Int64 for name in columns}).to_arrow()


def _plain(name: str) -> str:
    """The name as written by the trace reader, with invalid Unicode replaced."""
    return name.encode("utf-8", "replace").decode()


def _is_list(value: object) -> TypeGuard[list[Any]]:
    return isinstance(value, list)


def _is_number(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and -1 <= value < 2**63


def _is_sizes(value: object, depth: int = 0) -> bool:
    if isinstance(value, list):
        return depth < _DEEPEST and all(_is_sizes(item, depth + 1) for item in value)
    return depth > 0 and _is_number(value) and value >= 0
