"""How much two trees have in common: the measure of whether two runs of a program give the same tree."""

from __future__ import annotations

from collections import defaultdict
from difflib import SequenceMatcher
from typing import Any, NamedTuple

import polars as pl

from hotline_analysis.answers import detail

Node = dict[str, Any]
Children = dict[int | None, list[Node]]


class Agreement(NamedTuple):
    """Shares in per cent of both trees together: of their groups, of all nodes, and of the time spent in nodes."""

    groups: float
    nodes: float
    time: float


def agreement(one: pl.DataFrame, other: pl.DataFrame, *, counting: bool = False) -> Agreement:
    """What is equal in two frames of `level_of_detail`, of one step each.

    Nodes are equal if they have one kind and short name and stand under equal nodes and groups in the same order: the
    children of equal nodes are aligned, so that one more does not make those after it differ. A group may have another
    number of members, as programs poll until something is ready; `counting` takes that for a difference, too. A node's
    time is that of it alone, the longer of CPU and GPU.
    """
    trees = [children(detail.tree_nodes(frame)) for frame in (one, other)]
    equal: list[tuple[Node, Node]] = []
    todo = [tuple(tree[None] for tree in trees)]
    while todo:
        first, second = todo.pop()
        a, b = ([name(node, counting) for node in nodes] for nodes in (first, second))
        for start, at, length in SequenceMatcher(None, a, b, autojunk=False).get_matching_blocks():
            for pair in zip(first[start : start + length], second[at : at + length], strict=True):
                equal.append(pair)
                todo.append(tuple(tree[node["node_id"]] for tree, node in zip(trees, pair, strict=True)))
    nodes = [node for tree in trees for siblings in list(tree.values()) for node in siblings]
    both = [node for pair in equal for node in pair]
    times = {id(node): alone(node, tree) for tree in trees for each in list(tree.values()) for node in each}
    return Agreement(
        share(sum(node["kind"] == "group" for node in both), sum(node["kind"] == "group" for node in nodes)),
        share(len(both), len(nodes)),
        share(sum(times[id(node)] for node in both), sum(times.values())),
    )


def children(nodes: pl.DataFrame) -> Children:
    found: Children = defaultdict(list)
    for node in nodes.iter_rows(named=True):
        found[node["parent_id"]].append(node)
    return found


def name(node: Node, counting: bool) -> tuple[str, str, int]:
    return node["kind"], "" if node["kind"] == "step" else node["short_name"], node["member_count"] if counting else 0


def alone(node: Node, tree: Children) -> int:
    return max(0, longest(node) - sum(longest(child) for child in tree[node["node_id"]]))


def longest(node: Node) -> int:
    return max(int(node["cpu_ns"] or 0), int(node["gpu_ns"]))


def share(part: int, whole: int) -> float:
    return 100 * part / whole if whole else 100.0
