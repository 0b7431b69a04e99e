"""Backward without sequence numbers: autograd's nodes aligned with the forward ops that created them.

Autograd runs the nodes of a pass in the reverse order of their creation (torch/csrc/autograd/engine.cpp: the ready
queue pops the highest sequence number first), so on each thread the nodes are a subsequence of the reversed forward
ops. Forward ops are put on a stack as they come; each pass takes its own from the top.
"""

from __future__ import annotations

import duckdb
import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from hotline_analysis.annotation.align import Aligner, Alignment, Symbols

_Flags = npt.NDArray[np.bool_]

_STACK = 400_000  # forward ops that a pass can reach back to
_TOKENS = 1000  # torch has about 700 kinds of nodes (generated/Functions.h); rarer ones than these stay without an op
_MATCH = 4
_UNLIKELY = 2  # score of a match with an op whose result most likely has no gradient
_OF_WEIGHT = "mm$|conv|linear|norm|embed|lstm|gru|rnn"  # tokens of ops that are made of parameters
_RESHAPES = "^(unsafe)?view$|^reshape|^flatten$|squeeze$|^t$|transpose|permute|^alias$"
_REACH = 0.8  # if fewer of the ops explain nearly as much, the rest is another pass, such as one without gradients
_FURTHER = 4  # how many times as far back to look for nodes that are not found
_NEARLY = 0.98  # of the nodes
_MARGIN = 1.03  # how much further than the ops that explain nearly as much lie those that explain the rest


def match_backward(connection: duckdb.DuckDBPyConnection) -> pa.Table:
    """Align the items of `autograd_item`; return pairs of a node's `event_id` and its `forward_id`."""
    items = connection.sql(
        # Only tokens that nodes and ops both have can match; all others are one symbol per side, which scores nothing.
        "with both_have as (select token, row_number() over (order by count(*) desc, token) as place"
        " from autograd_item group by token having bool_or(is_node) and not bool_and(is_node)"
        " order by count(*) desc, token limit $most)"
        " select event_id, track_id, is_node, coalesce(container_id, -1) as container_id,"
        " 2 * coalesce(1 + place, (not is_node)::bigint) + is_unlikely::integer as token,"
        " regexp_matches(token, $of_weight) as of_weight, regexp_matches(token, $reshapes) as reshapes"
        " from autograd_item left join both_have using (token) order by start_ns, event_id",
        params={"of_weight": _OF_WEIGHT, "reshapes": _RESHAPES, "most": _TOKENS},
    ).pl()
    event, track, container, token = (
        items[name].to_numpy().astype(np.int64) for name in ("event_id", "track_id", "container_id", "token")
    )
    is_node, of_weight, reshapes = (
        items[name].to_numpy().astype(bool) for name in ("is_node", "of_weight", "reshapes")
    )
    aligner = Aligner(_weights(int(token.max(initial=0)) // 2 + 1))
    pairs: list[tuple[Symbols, Symbols]] = []
    for group in np.unique(container):
        inside = np.flatnonzero(container == group)
        pairs += _match_group(aligner, inside, is_node, track, token, of_weight, reshapes)
    nodes = np.concatenate([pair[0] for pair in pairs]) if pairs else np.empty(0, np.int64)
    ops = np.concatenate([pair[1] for pair in pairs]) if pairs else np.empty(0, np.int64)
    return pl.DataFrame({"event_id": event[nodes], "forward_id": event[ops]}).to_arrow()


def _weights(tokens: int) -> npt.NDArray[np.int32]:
    """The score of each pair of symbols: twice the number of a token, and one more for an unlikely op.

    The first two numbers of tokens never match.
    """
    weights = np.eye(2 * tokens, dtype=np.int32) * _MATCH
    likely = np.arange(0, 2 * tokens, 2)
    weights[likely, likely + 1] = _UNLIKELY
    weights[:4] = 0
    return weights


def _match_group(
    aligner: Aligner,
    inside: Symbols,
    is_node: _Flags,
    track: Symbols,
    token: Symbols,
    of_weight: _Flags,
    reshapes: _Flags,
) -> list[tuple[Symbols, Symbols]]:
    """Go through runs of ops and runs of nodes in time. Numbers are positions in the list of all items."""
    pairs = []
    stack = _Stack(token, len(inside))
    fresh = 0  # ops since the last pass
    borders = np.flatnonzero(np.diff(is_node[inside])) + 1
    for run in np.split(inside, borders):
        if not len(run):
            continue
        if not is_node[run[0]]:
            stack.push(run)
            fresh = len(run)
            continue
        taken = 0
        by_thread = run[np.argsort(track[run], kind="stable")]
        for nodes in np.split(by_thread, np.flatnonzero(np.diff(track[by_thread])) + 1):
            alignment = _align_with_latest(aligner, token[nodes], stack, fresh)
            found = _behind_targets(alignment, of_weight[nodes], reshapes[nodes])
            hit = np.flatnonzero(found >= 0)
            if len(hit):
                reached = int(found[hit].max()) + 1
                pairs.append((nodes[hit], stack.latest(reached)[found[hit]]))
                taken = max(taken, reached)
        stack.pop(taken)
    return pairs


class _Stack:
    """Forward ops that no pass has taken, in an array that has `room` for all, with a count of each of their tokens."""

    def __init__(self, token: Symbols, room: int) -> None:
        self._token = token
        self._items = np.empty(room, np.int64)
        self._height = 0
        self._count = np.zeros(int(token.max(initial=-1)) + 1, np.int64)

    def __len__(self) -> int:
        return min(self._height, _STACK)

    def push(self, run: Symbols) -> None:
        self._items[self._height : self._height + len(run)] = run
        self._height += len(run)
        np.add.at(self._count, self._token[run], 1)

    def pop(self, count: int) -> None:
        np.subtract.at(self._count, self._token[self.latest(count)], 1)
        self._height -= count

    def latest(self, count: int) -> Symbols:
        """So many items, or all there are, the latest first."""
        latest: Symbols = self._items[self._height - min(count, len(self)) : self._height][::-1]
        return latest

    def tokens(self, count: int) -> Symbols:
        """The tokens of the latest items."""
        return self._token[self.latest(count)]

    def has(self, tokens: Symbols) -> bool:
        return bool(self._count[tokens].any())


def _align_with_latest(aligner: Aligner, nodes: Symbols, stack: _Stack, fresh: int) -> Alignment:
    """Align the tokens of a pass with the ops before it, the latest first, of which `fresh` came since the last pass.

    Those mostly suffice. Other ops, such as the optimizer's, stay on the stack for ever, so that looking at all of it
    in each pass would take time with the square of their number, and no pass would look like the one before. So it
    looks further back only for nodes that are not found, while that finds more, or there are ops that only lie further
    back.
    """
    reach = int(fresh / _REACH) + 8
    alignment = aligner.align(nodes, stack.tokens(reach))
    grows = True
    while reach < len(stack) and alignment.found < _NEARLY * len(nodes):
        unseen = np.setdiff1d(nodes[alignment.first < 0], stack.tokens(reach))
        if not grows and not stack.has(unseen):
            break
        reach *= _FURTHER
        further = aligner.align(nodes, stack.tokens(reach))
        grows = further.found > alignment.found
        alignment = further if grows else alignment
    enough = int(alignment.nearly * _MARGIN) + 8
    if enough < _REACH * (int(alignment.first.max()) + 1):
        alignment = aligner.align(nodes, stack.tokens(enough))
    return alignment


def _behind_targets(alignment: Alignment, of_weight: _Flags, reshapes: _Flags) -> Symbols:
    """The first of the best places; for what reshapes the outputs of the model, before a sure place, the last one.

    A loss often reshapes outputs and targets alike (`loss(out.flatten(), y.flatten())`, in this order), and autograd
    has nodes for the outputs alone. The outputs end with the first node of an op with parameters.
    """
    found = alignment.first.copy()
    of_outputs = np.flatnonzero(reshapes[: int(np.argmax(of_weight)) if of_weight.any() else 0])
    for run in np.split(of_outputs, np.flatnonzero(np.diff(of_outputs) > 1) + 1):
        after = int(run[-1]) + 1 if len(run) else -1
        if after >= 0 and 0 <= found[after] == alignment.last[after]:
            found[run] = alignment.last[run]
    return found
