"""The subject of a report, for titles: model, device and number of steps."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

import polars as pl

from hotline_analysis.run.trace import Trace
from hotline_analysis.text.formats import listed, safe, shorten

# Wrappers by torch around a model.
_WRAPPERS = ("DistributedDataParallel", "DataParallel", "FullyShardedDataParallel", "OptimizedModule")
_LONGEST = 60


def subject(trace: Trace, rank: int, steps: pl.DataFrame, facts: Mapping[str, str]) -> str:
    """The subject in words: `ResNet on AMD Instinct MI300X, 3 steps`. No model if the trace has no name for it."""
    model = model_name(trace, rank)
    marked = steps.filter(pl.col("evidence") != "whole_trace").height
    said = f"{marked:,} step{'s' if marked != 1 else ''}" if marked else "no steps marked"
    named = facts["device"].replace("CPU only", "the CPU").partition(", whose ")[0]
    if named.endswith("not known"):
        named = "a device that is not known"
    device = devices_in_words(named)
    about = f"{model} on {device}, {said}" if model else f"{device}, {said}"
    return about.removeprefix("the ")


def devices_in_words(named: str) -> str:
    """The devices of a run without device numbers: `2 × NVIDIA A100`."""
    devices = re.sub(r" \(device -?\d+\)", "", named).split(", ")
    return listed([f"{count} × {name}" if count > 1 else name for name, count in Counter(devices).items()])


def model_name(trace: Trace, rank: int) -> str:
    """The class of the outermost module with at least half of all modules, ignoring torch's wrappers; or ""."""
    # Count by parent IDs, because the paths of a learned model omit the model's own name. `union` keeps each pair once,
    # because a damaged run may have cyclic parents.
    inside = trace.of(rank).sql(
        """
        with recursive part as (
            select module_id as top_id, module_id from model_op where rank = $rank and depth < 3
            union
            select part.top_id, model_op.module_id
            from part
            inner join model_op on model_op.rank = $rank and model_op.parent_id = part.module_id
        )
        select model_op.path, model_op.type, model_op.depth, count(*) - 1 as part_count
        from part
        inner join model_op on model_op.rank = $rank and model_op.module_id = part.top_id
        group by all order by model_op.depth, part_count desc, model_op.path
        """,
        rank=rank,
    )
    total = trace.of(rank).sql("select count(*) from model_op where rank = $rank", rank=rank).item()
    for row in inside.iter_rows(named=True):
        if row["type"] not in _WRAPPERS and row["part_count"] and 2 * (row["part_count"] + 1) >= total:
            return shorten(safe(row["type"] or row["path"]), _LONGEST)
    return ""
