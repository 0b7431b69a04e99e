"""The period of a loop, from its graph unrolled."""

from __future__ import annotations

from collections import defaultdict

from hotline_analysis.answers.replay import Replay

Node = tuple[int, int]


def unrolled(replay: Replay, copies: int, weights: list[int]) -> dict[Node, int]:
    """When each node of each copy is reached, by relaxing edges until nothing changes."""
    rows = replay.edges.select("from_id", "to_id", "previous_id", "previous_count", "is_carried", "kind").rows()
    host = {target for _, target, *_, kind in rows if kind == "host"}
    main_last = next(source for source, target, *_, kind in rows if kind == "end" and source in host)
    into: dict[Node, list[tuple[Node, int]]] = defaultdict(list)
    for (source, target, previous, count, is_carried, _), weight in zip(rows, weights, strict=True):
        for copy in range(copies):
            if not is_carried:
                into[copy, target].append(((copy, source), weight))
            elif copy >= count:
                into[copy, target].append(((copy - count, previous), weight))
    for copy in range(1, copies):
        into[copy, 0].append(((copy - 1, main_last), 0))
    times: dict[Node, int] = {}
    for root in [(copy, node) for copy in range(copies) for node in {row[1] for row in rows} | {0}]:
        todo = [root]
        while todo:
            node = todo[-1]
            missing = [source for source, _ in into[node] if source not in times]
            todo.extend(missing)
            if not missing:
                times[todo.pop()] = max((times[source] + weight for source, weight in into[node]), default=0)
    return times


def period(replay: Replay, copies: int, weights: list[int] | None = None) -> int:
    """By how much later the slowest node of the last copy is than that of the copy before."""
    times = unrolled(replay, copies, weights or replay.edges["weight_ns"].to_list())
    return max(at - times[copies - 2, node] for (copy, node), at in times.items() if copy == copies - 1)
