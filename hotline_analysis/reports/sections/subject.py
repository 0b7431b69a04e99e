"""What a report is about, for titles: the model, the device and how many steps there are."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

import polars as pl

from hotline_analysis.run.trace import Trace
from hotline_analysis.text.formats import listed, safe, shorten

# What torch puts around a model.
_WRAPPERS = ("DistributedDataParallel", "DataParallel", "FullyShardedDataParallel", "OptimizedModule")
_LONGEST = 60


def subject(trace: Trace, rank: int, steps: pl.DataFrame, facts: Mapping[str, str]) -> str:
    """In words: `ResNet on AMD Instinct MI300X, 3 steps`. Without the model where the trace names none."""
    model = model_name(trace, rank)
    marked = steps.filter(pl.col("evidence") != "whole_trace").height
    said = f"{marked:,} step{'s' if marked != 1 else ''}" if marked else "no steps marked"
    named = facts["device"].replace("CPU only", "the CPU").partition(", whose ")[0]
    devices = re.sub(r" \(device -?\d+\)", "", named).split(", ")
    device = listed([f"{count} × {name}" if count > 1 else name for name, count in Counter(devices).items()])
    about = f"{model} on {device}, {said}" if model else f"{device}, {said}"
    return about.removeprefix("the ")


def model_name(trace: Trace, rank: int) -> str:
    """The class of the module that has most of the modules in it, without what torch puts around it; or ""."""
    # By the parents, since the paths of a model that was learned leave its own name out. Each pair once: a damaged run
    # may have parents in a circle.
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
