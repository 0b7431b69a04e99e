"""The longest paths of a dependency graph, found again and again with other weights.

A thread's time has a node wherever an event starts or ends, and most of them wait for one thing and make one thing
wait. Such nodes are left out: what remains are chains of edges, between nodes where paths part or meet. Finding them
takes a few passes over whole columns; the loop in Python runs over the chains, not over events.
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
    """The chains of a graph, in an order in which each comes after all that lead to its first node.

    `chain_of` gives each edge its chain, and `place` its place in it, from 0. `first` and `last` are the nodes of each
    chain, numbered from 0 as in `nodes`, which has the numbers that the graph gave them.
    """

    nodes: Numbers
    chain_of: Numbers
    place: Numbers
    first: list[int]
    last: list[int]

    def node(self, number: int) -> int:
        """The place in `nodes` of a node of the graph, which must be at the end of a chain."""
        return int(np.searchsorted(self.nodes, number))

    def weights(self, edge_weights: Numbers) -> list[int]:
        """How long each chain is, if its edges have these weights."""
        total = np.zeros(len(self.first), np.int64)
        np.add.at(total, self.chain_of, edge_weights)
        found: list[int] = total.tolist()
        return found

    def edges(self, path: Iterable[int]) -> Numbers:
        """The edges of chains that are given from the last to the first, from the first to the last."""
        order, bounds = self._sorted
        pieces = [order[bounds[chain] : bounds[chain + 1]] for chain in path]
        return np.concatenate(pieces[::-1]) if pieces else np.zeros(0, np.int64)

    @cached_property
    def _sorted(self) -> tuple[Numbers, Numbers]:
        """All edges chain by chain, and where each chain begins."""
        order = np.lexsort((self.place, self.chain_of))
        return order, np.searchsorted(self.chain_of[order], np.arange(len(self.first) + 1))

    def times(self, weights: list[int], earliest: list[int]) -> list[int]:
        """When each node is reached: no earlier than `earliest` says, and no earlier than its chains allow."""
        times = list(earliest)
        for first, last, weight in zip(self.first, self.last, weights, strict=True):
            at = times[first] + weight
            if at > times[last]:
                times[last] = at
        return times


def chains(source: Numbers, target: Numbers, kept: Numbers) -> Chains:
    """Join edges, given by their nodes, to chains. The nodes `kept` are not left out.

    Raises `HotlineError` if the edges lead in circles.
    """
    every, ends = np.unique(np.concatenate([source, target, kept]), return_inverse=True)
    source, target = ends[: len(source)], ends[len(source) : 2 * len(source)]
    inner = (np.bincount(source, minlength=len(every)) == 1) & (np.bincount(target, minlength=len(every)) == 1)
    inner[ends[2 * len(source) :]] = False
    own = np.arange(len(source))
    follower = np.full(len(every), -1)
    follower[source] = own
    # Each edge's last one of its chain, by pointer doubling, and how many edges there are up to it.
    following = np.where(inner[target], follower[target], own)
    ahead = (following != own).astype(np.int64)
    for _ in range(len(own).bit_length()):
        further = following[following]
        if np.array_equal(further, following):
            break
        ahead = ahead + ahead[following]
        following = further
    final = ~inner[target]
    if not final[following].all():
        raise HotlineError("the graph goes in circles", hint="An added edge leads back to what it waits for.")
    used, at = np.unique(np.concatenate([source[~inner[source]], target[final]]), return_inverse=True)
    begins = np.flatnonzero(~inner[source])
    number = np.full(len(own), -1)
    number[following[begins]] = np.arange(len(begins))
    chain_of = number[following]
    length = np.zeros(len(begins), np.int64)
    np.maximum.at(length, chain_of, ahead)
    first = at[: len(begins)]
    last = np.empty(len(begins), np.int64)
    last[chain_of[final]] = at[len(begins) :]
    order = _in_order(first.tolist(), last.tolist(), len(used))
    rank = np.empty(len(begins), np.int64)
    rank[order] = np.arange(len(begins))
    return Chains(
        every[used],
        rank[chain_of],
        length[chain_of] - ahead,
        first[order].tolist(),
        last[order].tolist(),
    )


def _in_order(first: list[int], last: list[int], size: int) -> list[int]:
    """The chains, each after all that end where it begins (Kahn's algorithm)."""
    leaving: list[list[int]] = [[] for _ in range(size)]
    missing = [0] * size
    for chain, (begin, end) in enumerate(zip(first, last, strict=True)):
        leaving[begin].append(chain)
        missing[end] += 1
    ready = [node for node in range(size) if not missing[node]]
    order: list[int] = []
    while ready:
        node = ready.pop()
        for chain in leaving[node]:
            order.append(chain)
            missing[last[chain]] -= 1
            if not missing[last[chain]]:
                ready.append(last[chain])
    if len(order) < len(first):
        raise HotlineError("the graph goes in circles", hint="An added edge leads back to what it waits for.")
    return order


@dataclass(frozen=True)
class Incoming:
    """The chains into each node, those that were seen to bind first."""

    into: list[list[int]]

    @classmethod
    def of(cls, found: Chains, binds: npt.NDArray[np.bool_]) -> Incoming:
        """Take a chain to bind if all its edges do."""
        loose = np.zeros(len(found.first), np.int64)
        np.add.at(loose, found.chain_of, ~binds)
        into: list[list[int]] = [[] for _ in range(len(found.nodes))]
        for chain in np.argsort(loose, kind="stable").tolist():
            into[found.last[chain]].append(chain)
        return cls(into)

    def back(self, found: Chains, weights: list[int], times: list[int], node: int) -> tuple[list[int], int]:
        """The chains that a node waited for, the last one first, and the node where they begin."""
        path: list[int] = []
        while True:
            for chain in self.into[node]:
                if times[found.first[chain]] + weights[chain] == times[node]:
                    path.append(chain)
                    node = found.first[chain]
                    break
            else:
                return path, node
