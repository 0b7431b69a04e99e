"""Whether a trace shows a run at all: some record the capture of a graph, a compilation, or first calls."""

from __future__ import annotations

import weakref

from hotline_analysis.run.trace import Trace
from hotline_analysis.text.formats import duration, percent

# From this share on, a trace is about nothing else.
_MOST_PCT = 50.0

_SAID = {
    "graph_capture": "This trace records the capture of a CUDA graph, not a run: {count:,} launches were recorded into"
    " a graph, and none of them ran. Profile steps that replay the graph.",
    "compilation": "This trace is about compilation, not training: torch.compile takes {time} ({share} of it). Profile"
    " later steps.",
    "first_calls": "This trace is about first launches, not training: {count:,} calls that set up the GPU or load code"
    " when it is first used take {time} ({share} of it). Profile later steps.",
    "lost_work": "Most of the GPU's work is not in the file: {count:,} launch calls ({share}) have none. Capture again,"
    " with fewer steps, and let the last one finish before the profiler stops.",
    "lost_launches": "The file is cut off or damaged: most of the GPU's work and its launches are not in it ({count:,}"
    " calls of ops, {share}, have none although the same calls in other steps have). Copy or capture it again.",
}


# By trace and rank, what was found: several answers of a report ask.
_no_run: weakref.WeakKeyDictionary[Trace, dict[int, str]] = weakref.WeakKeyDictionary()
_lacks_gpu_work: weakref.WeakKeyDictionary[Trace, dict[int, bool]] = weakref.WeakKeyDictionary()


def no_run(trace: Trace, rank: int) -> str:
    """Say, in a sentence or two, that a rank's trace tells nothing about its training, and what to record instead.

    Empty if it tells something. See the query `caveats` for what is asked.
    """
    known = _no_run.setdefault(trace, {})
    if rank not in known:
        known[rank] = _said_of_no_run(trace, rank)
    return known[rank]


def _said_of_no_run(trace: Trace, rank: int) -> str:
    found = trace.query("caveats", rank=rank).sort("share_pct", "caveat", descending=[True, False], nulls_last=True)
    worst = next(found.iter_rows(named=True), None)
    if worst is None or worst["share_pct"] is None or worst["share_pct"] < _MOST_PCT:
        return ""
    return _SAID[worst["caveat"]].format(
        count=worst["count"], share=percent(worst["share_pct"]), time=duration(worst["time_ns"])
    )


def lacks_gpu_work(trace: Trace, rank: int) -> bool:
    """Whether a trace has no GPU work of a rank that had some or may have: it has calls for it, or is cut."""
    known = _lacks_gpu_work.setdefault(trace, {})
    if rank not in known:
        known[rank] = _has_lost_gpu_work(trace, rank)
    return known[rank]


def _has_lost_gpu_work(trace: Trace, rank: int) -> bool:
    found = trace.of(rank).sql(
        "select damage is not null or exists (select 1 from event where rank = $rank and category like 'cuda%')"
        " from rank_info where rank = $rank and not exists (select 1 from gpu_op where gpu_op.rank = $rank)",
        rank=rank,
    )
    return bool(not found.is_empty() and found.item())


def has_gpu_work(trace: Trace, *, rank: int | None = None) -> bool:
    """Whether the trace holds any kernel, copy or memset that takes time."""
    found = trace.of(rank).sql(
        "select exists (select 1 from launch where busy_ns > 0 and ($rank is null or rank = $rank)) as found", rank=rank
    )
    return bool(found["found"][0])
