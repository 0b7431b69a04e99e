"""Longest paths of a dependency graph, computed repeatedly with different weights.

A thread's time has a node wherever an event starts or ends, and most nodes have a single incoming and a single outgoing
edge. These nodes are contracted: the rest of the graph is chains of edges between nodes where paths split or join.
Contraction takes a few passes over whole columns. The loop in Python runs over chains, not over events.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from hotline_analysis.errors import HotlineError

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Chains:
    """The chains of a graph in topological order.

    `chain_of` gives each edge its chain, and `place` its position in the chain, from 0. `first` and `last` are the end
    nodes of each chain as positions in `nodes`. `nodes` has the node numbers of the graph.
    """

    nodes: Numbers
    chain_of: Numbers
    place: Numbers
    first: list[int]
    last: list[int]

    def node(self, number: int) -> int:
        """The position in `nodes` of a node of the graph. The node must be at the end of a chain."""
        return int(np.searchsorted(self.nodes, number))

    def weights(self, edge_weights: Numbers) -> list[int]:
        """Length of each chain with the given edge weights."""
        total = np.zeros(len(self.first), np.int64)
        np.add.at(total, self.chain_of, edge_weights)
        lengths: list[int] = total.tolist()
        return lengths

    def edges(self, path: Iterable[int]) -> Numbers:
        """The edges of a path in forward order. The chains of the path are given from last to first."""
        order, bounds = self._sorted
        pieces = [order[bounds[chain] : bounds[chain + 1]] for chain in path]
        return np.concatenate(pieces[::-1]) if pieces else np.zeros(0, np.int64)

    @cached_property
    def _sorted(self) -> tuple[Numbers, Numbers]:
        """All edges sorted by chain, and the position where each chain begins."""
        order = np.lexsort((self.place, self.chain_of))
        return order, np.searchsorted(self.chain_of[order], np.arange(len(self.first) + 1))

    def times(self, weights: list[int], earliest: list[int]) -> list[int]:
        """Time of each node: the latest of `earliest` and of all incoming chains."""
        times = list(earliest)
        for first, last, weight in zip(self.first, self.last, weights, strict=True):
            time = times[first] + weight
            if time > times[last]:
                times[last] = time
        return times


def chains(source: Numbers, target: Numbers, kept: Numbers) -> Chains:
    """Contract edges, given by their nodes, to chains. The nodes in `kept` are not contracted.

    Raises `HotlineError` if the edges form a cycle.
    """
    nodes, ends = np.unique(np.concatenate([source, target, kept]), return_inverse=True)
    source, target = ends[: len(source)], ends[len(source) : 2 * len(source)]
    inner = (np.bincount(source, minlength=len(nodes)) == 1) & (np.bincount(target, minlength=len(nodes)) == 1)
    inner[ends[2 * len(source) :]] = False
    edges = np.arange(len(source))
    follower = np.full(len(nodes), -1)
    follower[source] = edges
    # The last edge of each edge's chain, by pointer doubling, and the number of edges up to it.
    following = np.where(inner[target], follower[target], edges)
    ahead = (following != edges).astype(np.int64)
    for _ in range(len(edges).bit_length()):
        further = following[following]
        if np.array_equal(further, following):
            break
        ahead = ahead + ahead[following]
        following = further
    final = ~inner[target]
    if not final[following].all():
        raise HotlineError("the graph has a cycle", hint="An added edge leads back to an earlier node.")
    chain_nodes, positions = np.unique(np.concatenate([source[~inner[source]], target[final]]), return_inverse=True)
    begins = np.flatnonzero(~inner[source])
    number = np.full(len(edges), -1)
    number[following[begins]] = np.arange(len(begins))
    chain_of = number[following]
    length = np.zeros(len(begins), np.int64)
    np.maximum.at(length, chain_of, ahead)
    first = positions[: len(begins)]
    last = np.empty(len(begins), np.int64)
    last[chain_of[final]] = positions[len(begins) :]
    order = _in_order(first.tolist(), last.tolist(), len(chain_nodes))
    rank = np.empty(len(begins), np.int64)
    rank[order] = np.arange(len(begins))
    return Chains(
        nodes[chain_nodes],
        rank[chain_of],
        length[chain_of] - ahead,
        first[order].tolist(),
        last[order].tolist(),
    )


def _in_order(first: list[int], last: list[int], size: int) -> list[int]:
    """The chains in topological order (Kahn's algorithm)."""
    outgoing: list[list[int]] = [[] for _ in range(size)]
    incoming = [0] * size
    for chain, (begin, end) in enumerate(zip(first, last, strict=True)):
        outgoing[begin].append(chain)
        incoming[end] += 1
    ready = [node for node in range(size) if not incoming[node]]
    order: list[int] = []
    while ready:
        node = ready.pop()
        for chain in outgoing[node]:
            order.append(chain)
            incoming[last[chain]] -= 1
            if not incoming[last[chain]]:
                ready.append(last[chain])
    if len(order) < len(first):
        raise HotlineError("the graph has a cycle", hint="An added edge leads back to an earlier node.")
    return order


@dataclass(frozen=True)
class Incoming:
    """The chains into each node, with observed binding chains first."""

    into: list[list[int]]

    @classmethod
    def of(cls, found: Chains, binds: npt.NDArray[np.bool_]) -> Incoming:
        """A chain binds if all its edges bind."""
        loose = np.zeros(len(found.first), np.int64)
        np.add.at(loose, found.chain_of, ~binds)
        into: list[list[int]] = [[] for _ in range(len(found.nodes))]
        for chain in np.argsort(loose, kind="stable").tolist():
            into[found.last[chain]].append(chain)
        return cls(into)

    def back(self, found: Chains, weights: list[int], times: list[int], node: int) -> tuple[list[int], int]:
        """The chains on the longest path to a node, the last chain first, and the node where the path begins."""
        path: list[int] = []
        while True:
            for chain in self.into[node]:
                if times[found.first[chain]] + weights[chain] == times[node]:
                    path.append(chain)
                    node = found.first[chain]
                    break
            else:
                return path, node
