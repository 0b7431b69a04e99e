"""Estimate the parallelism of backward: the chain of gradients, and the possible gain of a parallel scan.

BPPSA (Wang, Bai and Pekhimenko, MLSys 2020) computes the gradients of a chain of n nodes by a scan over transposed
Jacobians: 2 · log₂ n sequential steps instead of n. A step of the scan multiplies two Jacobians, where backward
multiplies a Jacobian and a vector.

A trace has no edges between autograd nodes, so edges are inferred from shapes. A node's gradient has the shape of the
result of its forward op, and the forward op has read results of earlier ops. Among earlier results with the same shape,
unread results are preferred, because each result is read at least once; among unread results, the latest. Parameters
are known, because their gradients are accumulated right after the node. The length is therefore an estimate, and at
most the number of nodes.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from typing import Any

import polars as pl

from hotline_analysis.errors import HotlineError, QueryParameterError
from hotline_analysis.prediction.engine.edits import Scale
from hotline_analysis.prediction.engine.loop import MID, loop_of
from hotline_analysis.prediction.engine.predict import Scenario, time_with
from hotline_analysis.run.trace import Trace
from hotline_analysis.text.formats import percent

_WEIGHTY_PCT = 1.0  # of the nodes' time: smaller nodes are launching and bookkeeping
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
    """Estimate the length of the chain of gradients in backward, and the maximum gain of a parallel scan (BPPSA).

    One row per usual step. Backward runs `node_count` autograd nodes, of which `length` must run one after another
    according to shapes (`evidence` is `shapes`); without shapes, all nodes count (`evidence` is `order`).
    `weighty_count` nodes each take over 1 % of the nodes' time. Backward takes `backward_ns` of the step's `step_ns`:
    `share_pct`.

    With this many `workers` (by default one per node of the chain), the chain gets at most `chain_gain` times as fast:
    n / (n / p + 2 · log₂ p). A step then gets `step_gain` times as fast by Amdahl's law, and `replayed_gain` times if
    replayed with the shorter backward; NULL if nothing can be predicted. `width` is the number of values per example in
    the median node of the chain. A Jacobian has `width` squared values, so a product of two Jacobians takes `width`
    times as long as a product with a vector. `dense_gain` is `chain_gain` divided by `width`; below 1, the scan is
    slower. Jacobians with many zeros cost less. `reason` is a sentence on why the scan does not pay, NULL if it may
    pay.

    Raises `QueryParameterError` for invalid numbers, and `HotlineError` for a trace without backward.
    """
    if workers is not None and (workers != int(workers) or workers < 1):
        raise QueryParameterError(f"workers must be a whole number from 1 on, not {workers!r}")
    rank = trace.ranks[0] if rank is None else rank
    usual = trace.query("step_lengths", rank=rank).filter(pl.col("role").is_in(["typical", "usual"]))
    if step is not None:
        usual = usual.filter(step=step)
    lengths = dict(usual.select("step", "length_ns").rows())
    node_rows = trace.query("backward_node", rank=rank, step=step).filter(pl.col("step").is_in(list(lengths)))
    rows: list[dict[str, Any]] = [
        {"rank": rank, "step": number, "step_ns": lengths[number], **_chain(nodes, workers)}
        for (number,), nodes in node_rows.partition_by("step", as_dict=True, maintain_order=True).items()
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
    """Return the facts about one backward pass."""
    path = longest_path(nodes)
    length = nodes.height if path is None else len(path)
    gpu_ns = int(nodes["gpu_ns"].sum())
    time = "gpu_ns" if gpu_ns else "cpu_ns"
    total = int(nodes[time].sum())
    worker_count = length if workers is None else min(workers, length)
    # Sequential execution is always possible.
    steps = min(length, length / worker_count + 2 * math.log2(worker_count)) if worker_count > 1 else length
    widths = [] if path is None else [_width(nodes["made_dims"][row]) for row in path]
    sizes = [width for width in widths if width]
    width = int(pl.Series(sizes).median() or 0) if sizes else None  # type: ignore[arg-type]
    gain = length / steps
    return {
        "node_count": nodes.height,
        "length": length,
        "evidence": "order" if path is None else "shapes",
        "weighty_count": nodes.filter(100 * pl.col(time) > _WEIGHTY_PCT * total).height,
        "backward_ns": total,
        "workers": worker_count,
        "chain_gain": gain,
        "width": width,
        "dense_gain": None if width is None else gain / width,
    }


Shape = tuple[int, ...]


def longest_path(nodes: pl.DataFrame) -> list[int] | None:
    """Return the nodes on the longest path through backward, as row numbers; None without shapes.

    The loop is over the nodes of one step in forward order: hundreds, or a few thousand in large models.
    """
    outputs = [_shapes(text) for text in nodes["made_dims"]]
    if nodes["made_dims"].null_count() == nodes.height:
        return None
    unread: dict[Shape, list[int]] = {}
    latest: dict[Shape, int] = {}
    parts: set[int] = set()
    depth = [1] * nodes.height
    previous: list[int | None] = [None] * nodes.height
    rows = nodes.select("read_dims", "read_types", "parameter_dims").rows()
    for row in range(nodes.height - 1, -1, -1):
        reads, types, parameters = rows[row]
        inputs = Counter(_shapes(reads, types)) - Counter(_shapes(parameters))
        for shape, count in inputs.items():
            for _ in range(count):
                source = _taken(unread[shape], parts) if unread.get(shape) else latest.get(shape)
                if source is not None and depth[source] >= depth[row]:
                    depth[row], previous[row] = depth[source] + 1, source
        if len(outputs[row]) > 1:
            parts.add(row)
        for shape in outputs[row]:
            unread.setdefault(shape, []).append(row)
            latest[shape] = row
    node: int | None = max(range(nodes.height), key=depth.__getitem__)
    path: list[int] = []
    while node is not None:
        path.append(node)
        node = previous[node]
    return path


def _taken(waiting: list[int], parts: set[int]) -> int:
    """Take an unread result: a result of an op with several outputs first, else the latest."""
    node = next((number for number in reversed(waiting) if number in parts), waiting[-1])
    waiting.remove(node)
    return node


def _shapes(text: str | None, types: str | None = None) -> list[Shape]:
    """Return the shapes of all tensors in arguments, including tensors in lists. Non-tensors by type are skipped."""
    values, kinds = _list(text), _list(types)
    shapes: list[Shape] = []
    for number, value in enumerate(values):
        if not isinstance(value, list) or (kinds[number : number + 1] or ["float"])[0] in ("Scalar", "ScalarList", ""):
            continue
        parts = value if value and all(isinstance(part, list) for part in value) else [value]
        # Damage can put anything in place of a size.
        shapes += [tuple(part) for part in parts if all(type(size) is int for size in part)]
    return shapes


def _list(text: str | None) -> list[Any]:
    try:
        content = json.loads(text) if text else []
    except (ValueError, RecursionError):  # damaged
        return []
    return content if isinstance(content, list) else []


def _width(text: str | None) -> int:
    """Return the number of values per example, assuming that the first dimension is the batch; 0 if unknown."""
    shapes = _shapes(text)
    return math.prod(shapes[0][1:]) if shapes and len(shapes[0]) > 1 else 0


def _replayed(trace: Trace, rank: int, gains: list[float]) -> list[float | None]:
    """Return the speedup of a step in the loop for each speedup of backward; None if nothing can be predicted."""
    try:
        loop = loop_of(trace, rank)
        loop.check_explained()
    except HotlineError:
        return [None] * len(gains)
    speedups: dict[float, float | None] = {}
    for gain in set(gains):
        scenario = Scenario("parallel scan", [Scale("phase = 'backward'", 1 / gain)])
        step_ns = time_with(loop, scenario, MID)
        speedups[gain] = loop.baseline_ns / max(step_ns, 1)
        loop.forget()
    return [speedups[gain] for gain in gains]


def _reason(row: dict[str, Any]) -> str | None:
    """Return a sentence on why a scan certainly does not pay, or None."""
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
