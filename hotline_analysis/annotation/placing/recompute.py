"""Recomputation in backward (activation checkpointing): forward ops among the ops of an autograd node."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa

from hotline_analysis.annotation.placing.indices import ItemIndices, NameCodes
from hotline_analysis.annotation.placing.rows import Found, Items, Rows

_BEFORE = 8  # maximum number of ops of the node before the recomputation, such as copies of a gradient
_RECOMPUTED = 3  # minimum number of identical consecutive ops to count as recomputation
_SCHEMA = {
    "event_id": pl.Int64,
    "module_id": pl.Int64,
    "call": pl.Int64,
    "pass_number": pl.Int64,
    "root_id": pl.Int64,
    "confidence_pct": pl.Float64,
}


def recomputed(connection: duckdb.DuckDBPyConnection, items: Items, rows: Rows, found: Found) -> pa.Table:
    """All matches as a table, and recomputed ops in backward, with the module of the first computation.

    Recomputed ops are near the start of a node, repeat the forward ops one by one, and include the op that created the
    node.
    """
    fields = (found.items, found.rows, found.calls, found.passes)
    position, row, call, number = (np.concatenate(part) for part in fields)
    confidence = np.concatenate(found.confidence)
    parts: list[dict[str, Any]] = [
        {
            "event_id": items.event[position],
            "module_id": rows.module[row],
            "call": call,
            "pass_number": number,
            "root_id": pl.Series(number).replace_strict(found.roots, default=None, return_dtype=pl.Int64),
            "confidence_pct": confidence,
        }
    ]
    row_of = np.full(len(items.event), -1, np.int64)
    row_of[position] = row
    call_of = np.zeros(len(items.event), np.int64)
    call_of[position] = call
    sure_of = np.zeros(len(items.event))
    sure_of[position] = confidence
    for node_ops, forward, origin, follows in _inside_nodes(connection, items):
        start, length, skipped = max(
            (
                (*_repeat(items.name, forward, node_ops[skipped:], origin, follows), skipped)
                for skipped in range(min(_BEFORE, len(node_ops)))
            ),
            key=lambda repeat: repeat[1],
        )
        if length < _RECOMPUTED:
            continue
        node_ops = node_ops[skipped:]
        source = forward[start : start + length]
        placed_ops = np.flatnonzero(row_of[source] >= 0)
        source_rows = row_of[source][placed_ops]
        parts.append(
            {
                "event_id": items.event[node_ops[:length][placed_ops]],
                "module_id": rows.module[source_rows],
                "call": call_of[source][placed_ops],
                "pass_number": np.full(len(placed_ops), found.next_pass),
                "root_id": pl.repeat(None, len(placed_ops), dtype=pl.Int64, eager=True),
                "confidence_pct": sure_of[source][placed_ops],
            }
        )
        found.next_pass += 1
    return pl.concat(pl.DataFrame(part, _SCHEMA) for part in parts).to_arrow()


def _inside_nodes(
    connection: duckdb.DuckDBPyConnection, items: Items
) -> Iterator[tuple[ItemIndices, ItemIndices, int, bool]]:
    """For each node that may recompute: its ops, the forward ops of its thread, and the position of the creating op.

    The op of a checkpoint itself is transparent and not an item. The last element is then true: the ops follow the
    position.
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
        # A recomputation begins with, or contains, the op that created the node. Few nodes contain an op of this name.
        first = np.minimum(origin + follows, len(forward) - 1)
        width = len(items.names)
        call_names = np.unique(items.call[inner] * width + items.name[inner])
        may_repeat = np.isin(node * width + items.name[forward[first]], call_names)
        for number in np.flatnonzero((track == thread) & (origin >= 0) & may_repeat):
            low, high = borders[:, number]
            yield order[low:high], forward, int(origin[number]), bool(follows[number])


def _repeat(name: NameCodes, forward: ItemIndices, inside: ItemIndices, origin: int, follows: bool) -> tuple[int, int]:
    """Start and length of the longest stretch of forward, around or after `origin`, that is a prefix of `inside`."""
    best = 0, 0
    inside_names = name[inside]
    earliest = origin + 1 if follows else max(0, origin - len(inside) + 1)
    for start in range(earliest, min(earliest + 1 if follows else origin + 1, len(forward))):
        if name[forward[start]] != inside_names[0]:
            continue
        window = name[forward[start : start + len(inside)]]
        differs = np.flatnonzero(window != inside_names[: len(window)])
        length = int(differs[0]) if len(differs) else len(window)
        if start + length > origin and length > best[1] and len(np.unique(inside_names[:length])) > 1:
            best = start, length
    return best
