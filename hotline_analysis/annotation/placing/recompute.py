"""What backward computes again (activation checkpointing): forward ops among the ops of an autograd node."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa

from hotline_analysis.annotation.placing.indices import ItemIndices, NameCodes
from hotline_analysis.annotation.placing.rows import Found, Items, Rows

_BEFORE = 8  # ops of the node that may come before what it computes again, such as copying a gradient
_RECOMPUTED = 3  # ops that must be the same, one after the other, to count as computed again
_SCHEMA = {
    "event_id": pl.Int64,
    "module_id": pl.Int64,
    "call": pl.Int64,
    "pass_number": pl.Int64,
    "confidence_pct": pl.Float64,
}


def recomputed(connection: duckdb.DuckDBPyConnection, items: Items, rows: Rows, found: Found) -> pa.Table:
    """All matches as a table, and ops that backward computes again, with the module of their first computation.

    Such ops stand near the start of a node and repeat the forward ops one by one, and the op that created the node is
    among them.
    """
    every = (found.items, found.rows, found.calls, found.passes)
    position, row, call, number = (np.concatenate(part) for part in every)
    confidence = np.concatenate(found.confidence)
    parts: list[dict[str, Any]] = [
        {
            "event_id": items.event[position],
            "module_id": rows.module[row],
            "call": call,
            "pass_number": number,
            "confidence_pct": confidence,
        }
    ]
    row_of = np.full(len(items.event), -1, np.int64)
    row_of[position] = row
    call_of = np.zeros(len(items.event), np.int64)
    call_of[position] = call
    sure_of = np.zeros(len(items.event))
    sure_of[position] = confidence
    for inside, forward, origin, follows in _inside_nodes(connection, items):
        start, length, skipped = max(
            (
                (*_repeat(items.name, forward, inside[skipped:], origin, follows), skipped)
                for skipped in range(min(_BEFORE, len(inside)))
            ),
            key=lambda repeat: repeat[1],
        )
        if length < _RECOMPUTED:
            continue
        inside = inside[skipped:]
        source = forward[start : start + length]
        known = np.flatnonzero(row_of[source] >= 0)
        again = row_of[source][known]
        parts.append(
            {
                "event_id": items.event[inside[:length][known]],
                "module_id": rows.module[again],
                "call": call_of[source][known],
                "pass_number": np.full(len(known), found.next_pass),
                "confidence_pct": sure_of[source][known],
            }
        )
        found.next_pass += 1
    return pl.concat(pl.DataFrame(part, _SCHEMA) for part in parts).to_arrow()


def _inside_nodes(
    connection: duckdb.DuckDBPyConnection, items: Items
) -> Iterator[tuple[ItemIndices, ItemIndices, int, bool]]:
    """For each node that may compute again: its ops, the forward ops of the thread that created it, and which it was.

    The op of a checkpoint itself is looked through and no item; it is then said that its ops follow the item named.
    """
    inner = np.flatnonzero(items.call >= 0)
    calls, counts = np.unique(items.call[inner], return_counts=True)
    busy = calls[counts >= _RECOMPUTED]
    if not len(busy):
        return
    connection.register("busy_call", pl.DataFrame({"event_id": busy}).to_arrow())
    origins = connection.sql(
        "select engine_call.event_id, nesting.start_ns, nesting.track_id from busy_call"
        " inner join engine_call on busy_call.event_id = engine_call.event_id"
        " inner join node on engine_call.event_id = node.event_id"
        " inner join nesting on node.forward_id = nesting.event_id"
        " order by engine_call.start_ns"
    ).pl()
    connection.unregister("busy_call")
    node, start, track = (origins[name].to_numpy() for name in ("event_id", "start_ns", "track_id"))
    order = inner[np.argsort(items.call[inner], kind="stable")]
    borders = np.searchsorted(items.call[order], np.stack((node, node + 1)))
    for thread in np.unique(track):
        forward = np.flatnonzero((items.call < 0) & (items.track == thread))
        if not len(forward):
            continue
        origin = np.searchsorted(items.start[forward], start, side="right") - 1
        follows = items.end[forward[origin]] <= start
        # What is computed again begins with, or has in it, the op that created the node: few nodes have its name.
        first = np.minimum(origin + follows, len(forward) - 1)
        width = len(items.names)
        met = np.unique(items.call[inner] * width + items.name[inner])
        may_repeat = np.isin(node * width + items.name[forward[first]], met)
        for number in np.flatnonzero((track == thread) & (origin >= 0) & may_repeat):
            low, high = borders[:, number]
            yield order[low:high], forward, int(origin[number]), bool(follows[number])


def _repeat(name: NameCodes, forward: ItemIndices, inside: ItemIndices, origin: int, follows: bool) -> tuple[int, int]:
    """Start and length of the longest stretch of forward around `origin`, or after it, that `inside` begins with."""
    best = 0, 0
    again = name[inside]
    earliest = origin + 1 if follows else max(0, origin - len(inside) + 1)
    for start in range(earliest, min(earliest + 1 if follows else origin + 1, len(forward))):
        if name[forward[start]] != again[0]:
            continue
        window = name[forward[start : start + len(inside)]]
        differs = np.flatnonzero(window != again[: len(window)])
        length = int(differs[0]) if len(differs) else len(window)
        if start + length > origin and length > best[1] and len(np.unique(again[:length])) > 1:
            best = start, length
    return best
