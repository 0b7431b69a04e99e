"""Match backward to forward without sequence numbers: align autograd nodes with the forward ops that created them.

Autograd runs the nodes of a pass in the reverse order of their creation (torch/csrc/autograd/engine.cpp: the ready
queue pops the highest sequence number first). On each thread the nodes are therefore a subsequence of the reversed
forward ops. Forward ops are pushed on a stack in time order; each pass takes its ops from the top.
"""

from __future__ import annotations

import duckdb
import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from hotline_analysis.annotation.align import Aligner, Alignment, Symbols

_Flags = npt.NDArray[np.bool_]

_STACK = 400_000  # maximum number of forward ops within reach of a pass
_TOKENS = 1000  # torch has about 700 kinds of nodes (generated/Functions.h); rarer tokens than these get no op
_MATCH = 4
_UNLIKELY = 2  # score of a match with an op whose result most likely has no gradient
_OF_WEIGHT = "mm$|conv|linear|norm|embed|lstm|gru|rnn"  # tokens of ops with parameters
_RESHAPES = "^(unsafe)?view$|^reshape|^flatten$|squeeze$|^t$|transpose|permute|^alias$"
_REACH = 0.8  # if fewer ops explain nearly as many nodes, the rest is another pass, such as a pass without gradients
_FURTHER = 4  # factor by which the search for unmatched nodes reaches further back
_NEARLY = 0.98  # of the nodes
_MARGIN = 1.03  # the ops that explain all nodes reach at most this much further than the ops that explain nearly all


def match_backward(connection: duckdb.DuckDBPyConnection) -> pa.Table:
    """Align the items of `autograd_item`; return pairs of a node's `event_id` and its `forward_id`."""
    items = connection.sql(
        # Only tokens that both nodes and ops have can match. All other tokens are one symbol per side, which scores 0.
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
        group_items = np.flatnonzero(container == group)
        pairs += _match_group(aligner, group_items, is_node, track, token, of_weight, reshapes)
    nodes = np.concatenate([pair[0] for pair in pairs]) if pairs else np.empty(0, np.int64)
    ops = np.concatenate([pair[1] for pair in pairs]) if pairs else np.empty(0, np.int64)
    return pl.DataFrame({"event_id": event[nodes], "forward_id": event[ops]}).to_arrow()


def _weights(tokens: int) -> npt.NDArray[np.int32]:
    """The score of each pair of symbols. A symbol is twice the token number, plus 1 for an unlikely op.

    The first two token numbers never match.
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
    """Process runs of ops and runs of nodes in time order. Numbers are positions in the list of all items."""
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
        deepest = 0
        by_thread = run[np.argsort(track[run], kind="stable")]
        for nodes in np.split(by_thread, np.flatnonzero(np.diff(track[by_thread])) + 1):
            alignment = _align_with_latest(aligner, token[nodes], stack, fresh)
            positions = _behind_targets(alignment, of_weight[nodes], reshapes[nodes])
            hit = np.flatnonzero(positions >= 0)
            if len(hit):
                depth = int(positions[hit].max()) + 1
                pairs.append((nodes[hit], stack.latest(depth)[positions[hit]]))
                deepest = max(deepest, depth)
        stack.pop(deepest)
    return pairs


class _Stack:
    """Forward ops not yet matched by a pass, in an array with `room` for all ops, and the count of each token."""

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
        """The latest `count` items, or all if there are fewer, the latest first."""
        latest: Symbols = self._items[self._height - min(count, len(self)) : self._height][::-1]
        return latest

    def tokens(self, count: int) -> Symbols:
        """The tokens of the latest items."""
        return self._token[self.latest(count)]

    def has(self, tokens: Symbols) -> bool:
        return bool(self._count[tokens].any())


def _align_with_latest(aligner: Aligner, nodes: Symbols, stack: _Stack, fresh: int) -> Alignment:
    """Align the tokens of a pass with the ops before it, the latest first; `fresh` ops came since the last pass.

    The fresh ops mostly suffice. Other ops, such as the optimizer's, stay on the stack forever. Searching the whole
    stack in each pass would take quadratic time, and no pass would look like the previous one. The search therefore
    reaches further back only for unmatched nodes, as long as it finds more matches or some tokens exist only further
    back. If far fewer ops explain nearly all nodes, only these ops are aligned: the ops further back belong to another
    pass.
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
    """Return each node's place in the stack: the first of its best places, or the last place for some reshapes.

    The last place is for reshapes of the model's outputs, if the node after the reshapes has only one best place. A
    loss often reshapes outputs and targets alike (`loss(out.flatten(), y.flatten())`, in this order), and autograd
    has nodes for the outputs alone. The outputs end with the first node of an op with parameters.
    """
    targets = alignment.first.copy()
    of_outputs = np.flatnonzero(reshapes[: int(np.argmax(of_weight)) if of_weight.any() else 0])
    for run in np.split(of_outputs, np.flatnonzero(np.diff(of_outputs) > 1) + 1):
        after = int(run[-1]) + 1 if len(run) else -1
        if after >= 0 and 0 <= targets[after] == alignment.last[after]:
            targets[run] = alignment.last[run]
    return targets
