"""The arguments of a model's ops, as a capture has stored them with its modules, as tables.

They stand in a file that anybody may have written: what no capture writes is left out as a whole, and
arguments that are damaged alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

import polars as pl
import pyarrow as pa

_COLUMNS = ("input_dims", "input_types", "input_strides", "concrete_inputs")
_TEXTS = ("name", *_COLUMNS)
_DEEPEST = 3  # a list of arguments, of which one is a list of tensors, of which each has a list of sizes


def parse_shapes(stored: object, ops: Sequence[tuple[str, int, int]]) -> Mapping[str, pa.Table] | None:
    """Return what queries read of it; None if there is none, or not what a capture writes.

    `given_op` has each op of the model with its place in the call of its module and the number of its tree,
    `given_call` the calls of each tree, `given_argument` the arguments of a call as the profiler writes them, and
    `given_node` the tree of the autograd node that a call in an op made.
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
    plain = [_plain(name) for name in names]
    return {
        "given_op": _given_ops(ops, of_ops),
        "given_call": _given_calls(trees, plain),
        "given_argument": _given_arguments(arguments),
        "given_node": _table(
            op_number=[op for op, _, _ in nodes],
            place=[place for _, place, _ in nodes],
            tree_id=[tree for _, _, tree in nodes],
            name=[plain[trees[tree][0]] for _, _, tree in nodes],
        ),
    }


def _given_ops(ops: Sequence[tuple[str, int, int]], trees: Sequence[int | None]) -> pa.Table:
    counts: dict[tuple[int, int], int] = {}
    places = []
    for _, module, call in ops:
        counts[module, call] = place = counts.get((module, call), 0) + 1
        places.append(place)
    return _table(
        op_number=range(len(ops)),
        name=[_plain(name) for name, _, _ in ops],
        module_id=[module for _, module, _ in ops],
        call=[call for _, _, call in ops],
        place=places,
        tree_id=trees,
    )


def _given_calls(trees: Sequence[Sequence[int]], names: Sequence[str]) -> pa.Table:
    numbers = [(tree, place) for tree, pairs in enumerate(trees) for place in range(len(pairs) // 2)]
    return _table(
        tree_id=[tree for tree, _ in numbers],
        place=[place for _, place in numbers],
        call_count=[len(trees[tree]) // 2 for tree, _ in numbers],
        name=[names[trees[tree][2 * place]] for tree, place in numbers],
        argument_id=[trees[tree][2 * place + 1] for tree, place in numbers],
    )


def _given_arguments(arguments: Sequence[Any]) -> pa.Table:
    """The arguments that are four lists of one length, of whole numbers and of text; as the reader writes JSON."""
    rows = [
        (number, *(json.dumps(column, separators=(",", ":")) for column in given))
        for number, given in enumerate(arguments)
        if _is_list(given)
        and len(given) == len(_COLUMNS)
        and all(_is_list(column) and len(column) == len(given[0]) for column in given)
        and all(_is_sizes(given[column]) for column in (0, 2))
        and all(isinstance(text, str) and text.isprintable() for column in (1, 3) for text in given[column])
    ]
    columns = list(zip(*rows, strict=True)) or [()] * (1 + len(_COLUMNS))
    return _table(**dict(zip(("argument_id", *_COLUMNS), columns, strict=True)))


def _table(**columns: Sequence[object]) -> pa.Table:
    """A table of texts and whole numbers. Arrow itself would load pandas to look at Python's lists (`table_of`)."""
    return pl.DataFrame(columns, {name: pl.String if name in _TEXTS else pl.Int64 for name in columns}).to_arrow()


def _plain(name: str) -> str:
    """The name as the reader of traces has it: what is no Unicode is replaced."""
    return name.encode("utf-8", "replace").decode()


def _is_list(value: object) -> TypeGuard[list[Any]]:
    return isinstance(value, list)


def _is_number(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and -1 <= value < 2**63


def _is_sizes(value: object, depth: int = 0) -> bool:
    if isinstance(value, list):
        return depth < _DEEPEST and all(_is_sizes(each, depth + 1) for each in value)
    return depth > 0 and _is_number(value) and value >= 0
