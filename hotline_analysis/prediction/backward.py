"""How far backward could be done side by side: the chain of gradients, and what a parallel scan over it would gain.

BPPSA (Wang, Bai and Pekhimenko, MLSys 2020) computes the gradients of a chain of n nodes by a scan over transposed
Jacobians: 2 · log₂ n steps, one after the other, instead of n. A step of the scan multiplies two Jacobians, where
backward multiplies one with a vector.

A trace has no edges between nodes of autograd. What hands on to what follows from shapes: a node's gradient has the
shape of the result of the op that made it, and this op has read results of ops before it. A result that nobody has read
yet is preferred, as each is read at least once, and of these the latest. Parameters are known: their gradients are
added right behind the node. So a length is an estimate: never more than there are nodes.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from typing import Any

import polars as pl

from hotline_analysis.errors import HotlineError, QueryParameterError
from hotline_analysis.prediction.edits import Scale
from hotline_analysis.prediction.loop import MID, loop_of
from hotline_analysis.prediction.predict import Scenario, edited
from hotline_analysis.run.trace import Trace
from hotline_analysis.text.formats import percent

_WEIGHTY_PCT = 1.0  # of the nodes' time: what is less is launching and bookkeeping
_WORTH = 1.01  # a step that is 1 % shorter

COLUMNS = {
    "rank": pl.Int64,
    "step": pl.Int64,
    "node_count": pl.Int64,
    "length": pl.Int64,
    "evidence": pl.String,
    "weighty_count": pl.Int64,
    "backward_ns": pl.Int64,
    "step_ns": pl.Int64,
    "share_pct": pl.Float64,
    "workers": pl.Int64,
    "chain_gain": pl.Float64,
    "step_gain": pl.Float64,
    "replayed_gain": pl.Float64,
    "width": pl.Int64,
    "dense_gain": pl.Float64,
    "reason": pl.String,
}


def backward_chain(
    trace: Trace, *, workers: int | None = None, rank: int | None = None, step: int | None = None
) -> pl.DataFrame:
    """How long the chain of gradients in backward is, and at most what a parallel scan over it would gain (BPPSA).

    One row per usual step. Backward runs `node_count` nodes of autograd, and `length` of them have to follow each
    other, as far as shapes tell (`evidence` is `shapes`; else it is `order`, and all nodes count). Of these nodes,
    `weighty_count` take over 1 % of the time of all. Backward takes `backward_ns` of the `step_ns` of a step,
    `share_pct`.

    With so many `workers` (by default, one for each node of the chain), the chain gets `chain_gain` times as fast at
    most, n / (n / p + 2 · log₂ p); a step then `step_gain` times by Amdahl's law, and `replayed_gain` times if it is
    replayed with a backward that takes so much less; NULL where nothing can be predicted. `width` is how many numbers
    an example has in the median node of the chain: a Jacobian is the square of that, and a product of two takes that
    much longer than one with a vector. `dense_gain` is what is left of `chain_gain` then, below 1 a loss. Jacobians
    that are mostly zeros cost less. `reason` says in words why it does not pay, NULL where it may.

    Raises `QueryParameterError` for numbers that make no sense, and `HotlineError` for a trace without backward.
    """
    if workers is not None and (workers != int(workers) or workers < 1):
        raise QueryParameterError(f"workers must be a whole number from 1 on, not {workers!r}")
    rank = trace.ranks[0] if rank is None else rank
    usual = trace.query("step_lengths", rank=rank).filter(pl.col("role").is_in(["typical", "usual"]))
    if step is not None:
        usual = usual.filter(step=step)
    lengths = dict(usual.select("step", "length_ns").rows())
    found = trace.query("backward_node", rank=rank, step=step).filter(pl.col("step").is_in(list(lengths)))
    rows: list[dict[str, Any]] = [
        {"rank": rank, "step": each, "step_ns": lengths[each], **_chain(nodes, workers)}
        for (each,), nodes in found.partition_by("step", as_dict=True, maintain_order=True).items()
    ]
    if not rows:
        raise HotlineError(
            "the usual steps of this trace have no backward pass with nodes of autograd",
            hint="Profile training steps.",
        )
    gains = _replayed(trace, rank, [row["chain_gain"] for row in rows])
    for row, gain in zip(rows, gains, strict=True):
        share = min(1.0, row["backward_ns"] / max(row["step_ns"], 1))
        row["share_pct"] = 100 * share
        row["step_gain"] = 1 / (1 - share + share / row["chain_gain"])
        row["replayed_gain"] = gain
        row["reason"] = _reason(row)
    return pl.DataFrame([{name: row.get(name) for name in COLUMNS} for row in rows], COLUMNS)


def _chain(nodes: pl.DataFrame, workers: int | None) -> dict[str, object]:
    """What is known of one backward pass."""
    path = longest_path(nodes)
    length = nodes.height if path is None else len(path)
    gpu_ns = int(nodes["gpu_ns"].sum())
    time = "gpu_ns" if gpu_ns else "cpu_ns"
    total = int(nodes[time].sum())
    many = length if workers is None else min(workers, length)
    # One after the other is always possible.
    steps = min(length, length / many + 2 * math.log2(many)) if many > 1 else length
    widths = [] if path is None else [_width(nodes["made_dims"][place]) for place in path]
    known = [width for width in widths if width]
    width = int(pl.Series(known).median() or 0) if known else None  # type: ignore[arg-type]
    gain = length / steps
    return {
        "node_count": nodes.height,
        "length": length,
        "evidence": "order" if path is None else "shapes",
        "weighty_count": nodes.filter(100 * pl.col(time) > _WEIGHTY_PCT * total).height,
        "backward_ns": total,
        "workers": many,
        "chain_gain": gain,
        "width": width,
        "dense_gain": None if width is None else gain / width,
    }


Shape = tuple[int, ...]


def longest_path(nodes: pl.DataFrame) -> list[int] | None:
    """The nodes that follow each other on the longest way through backward, as rows; None where shapes are missing.

    The loop is over nodes of one step, in the order of forward: hundreds, or a few thousands in large models.
    """
    made = [_shapes(text) for text in nodes["made_dims"]]
    if nodes["made_dims"].null_count() == nodes.height:
        return None
    unread: dict[Shape, list[int]] = {}
    latest: dict[Shape, int] = {}
    parts: set[int] = set()
    depth = [1] * nodes.height
    before: list[int | None] = [None] * nodes.height
    rows = nodes.select("read_dims", "read_types", "parameter_dims").rows()
    for place in range(nodes.height - 1, -1, -1):
        reads, types, parameters = rows[place]
        wanted = Counter(_shapes(reads, types)) - Counter(_shapes(parameters))
        for shape, count in wanted.items():
            for _ in range(count):
                source = _taken(unread[shape], parts) if unread.get(shape) else latest.get(shape)
                if source is not None and depth[source] >= depth[place]:
                    depth[place], before[place] = depth[source] + 1, source
        if len(made[place]) > 1:
            parts.add(place)
        for shape in made[place]:
            unread.setdefault(shape, []).append(place)
            latest[shape] = place
    at: int | None = max(range(nodes.height), key=depth.__getitem__)
    path: list[int] = []
    while at is not None:
        path.append(at)
        at = before[at]
    return path


def _taken(waiting: list[int], parts: set[int]) -> int:
    """Take one of the results that nobody has read: those of an op that splits first, else the latest."""
    found = next((place for place in reversed(waiting) if place in parts), waiting[-1])
    waiting.remove(found)
    return found


def _shapes(text: str | None, types: str | None = None) -> list[Shape]:
    """The shapes of tensors among arguments, also of those in lists; what is no tensor by its type has none."""
    found, kinds = _list(text), _list(types)
    shapes: list[Shape] = []
    for place, each in enumerate(found):
        if not isinstance(each, list) or (kinds[place : place + 1] or ["float"])[0] in ("Scalar", "ScalarList", ""):
            continue
        parts = each if each and all(isinstance(part, list) for part in each) else [each]
        # Damage can put anything in place of a size.
        shapes += [tuple(part) for part in parts if all(type(size) is int for size in part)]
    return shapes


def _list(text: str | None) -> list[Any]:
    try:
        found = json.loads(text) if text else []
    except (ValueError, RecursionError):  # damaged
        return []
    return found if isinstance(found, list) else []


def _width(text: str | None) -> int:
    """How many numbers one example has, if the first dimension is that of examples."""
    shapes = _shapes(text)
    return math.prod(shapes[0][1:]) if shapes and len(shapes[0]) > 1 else 0


def _replayed(trace: Trace, rank: int, gains: list[float]) -> list[float | None]:
    """How much faster a step gets in the loop if backward is so much faster; None if nothing can be predicted."""
    try:
        loop = loop_of(trace, rank)
        loop.check_explained()
    except HotlineError:
        return [None] * len(gains)
    found: dict[float, float | None] = {}
    for gain in set(gains):
        made = Scenario("parallel scan", [Scale("phase = 'backward'", 1 / gain)])
        after = loop.per_step(loop.ended(edited(loop, made, MID)))
        found[gain] = loop.baseline_ns / max(after, 1)
        loop.forget()
    return [found[gain] for gain in gains]


def _reason(row: dict[str, Any]) -> str | None:
    """Why a scan does not pay, if it certainly does not."""
    if row["step_gain"] < _WORTH:
        return f"Backward is {percent(row['share_pct'])} of the step, and its chain has {row['length']:,} nodes."
    if row["width"] is None:
        return None
    if row["dense_gain"] < 1:
        return (
            f"An example has {row['width']:,} numbers between two nodes, so a Jacobian has the square of that, and"
            f" multiplying two takes {row['width']:,} times as long as one and a vector: more than the"
            f" {row['chain_gain']:.1f} times that the scan gains."
        )
    return None
