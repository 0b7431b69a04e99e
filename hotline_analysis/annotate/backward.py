"""Backward without sequence numbers: autograd's nodes aligned with the forward ops that created them.

Autograd runs the nodes of a pass in the reverse order of their creation (torch/csrc/autograd/engine.cpp: the ready
queue pops the highest sequence number first), so on each thread the nodes are a subsequence of the reversed forward
ops. Forward ops are put on a stack as they come; each pass takes its own from the top.
"""

from __future__ import annotations

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hotline_analysis.annotate.align import Aligner, Symbols

_STACK = 400_000  # forward ops that a pass can reach back to
_MATCH = np.int32(4)
_REACH = 0.8  # if less of the way explains nearly as much, the rest is another pass, such as one without gradients
_MARGIN = 1.03  # to what explains nearly as much belongs what explains the rest


def match_backward(connection: duckdb.DuckDBPyConnection) -> pa.Table:
    """Align the items of `autograd_item`; return pairs of a node's `event_id` and its `forward_id`."""
    items = connection.sql(
        "select event_id, track_id, is_node, coalesce(container_id, -1) as container_id,"
        " dense_rank() over (order by token) - 1 as token"
        " from autograd_item order by start_ns, event_id"
    ).to_arrow_table()
    event, track, container, token = (
        items.column(name).to_numpy().astype(np.int64) for name in ("event_id", "track_id", "container_id", "token")
    )
    is_node = items.column("is_node").to_numpy(zero_copy_only=False).astype(bool)
    aligner = Aligner(np.eye(int(token.max(initial=-1)) + 1, dtype=np.int32) * _MATCH)
    pairs: list[tuple[Symbols, Symbols]] = []
    for group in np.unique(container):
        inside = np.flatnonzero(container == group)
        pairs += _match_group(aligner, inside, is_node, track, token)
    nodes = np.concatenate([pair[0] for pair in pairs]) if pairs else np.empty(0, np.int64)
    ops = np.concatenate([pair[1] for pair in pairs]) if pairs else np.empty(0, np.int64)
    return pa.table({"event_id": event[nodes], "forward_id": event[ops]})


def _match_group(
    aligner: Aligner, inside: Symbols, is_node: npt.NDArray[np.bool_], track: Symbols, token: Symbols
) -> list[tuple[Symbols, Symbols]]:
    """Go through runs of ops and runs of nodes in time. Numbers are positions in the list of all items."""
    pairs = []
    stack = np.empty(0, np.int64)
    borders = np.flatnonzero(np.diff(is_node[inside])) + 1
    for run in np.split(inside, borders):
        if not len(run):
            continue
        if not is_node[run[0]]:
            stack = np.concatenate((stack, run))[-_STACK:]
            continue
        lowest = len(stack)
        for thread in np.unique(track[run]):
            nodes = run[track[run] == thread]
            columns = stack[::-1]
            alignment = aligner.align(token[nodes], token[columns])
            enough = int(alignment.nearly * _MARGIN) + 8
            if enough < _REACH * (int(alignment.first.max()) + 1):
                alignment = aligner.align(token[nodes], token[columns[:enough]])
            found = alignment.first
            hit = np.flatnonzero(found >= 0)
            if len(hit):
                pairs.append((nodes[hit], columns[found[hit]]))
                lowest = min(lowest, len(stack) - 1 - int(found[hit].max()))
        stack = stack[:lowest]
    return pairs
