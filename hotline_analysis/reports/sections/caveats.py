"""Caveats in sentences: missing or unobserved work, the profiler's overhead, and steps excluded from the count."""

from __future__ import annotations

from typing import Any

import polars as pl

from hotline_analysis.answers.limits import StepLoop
from hotline_analysis.answers.recorded import no_run, unknown_tracks, unknown_words
from hotline_analysis.answers.verdicts import CPU_LIMITS, VERDICTS
from hotline_analysis.reports.sections.recorder import CANNOT_TELL, recorder_of
from hotline_analysis.run.trace import Trace
from hotline_analysis.text.formats import duration, listed, percent, safe

_SPEAK_PCT = 5.0  # smaller shares do not change the conclusions of the report
_LIMITS = ("limit_before", "limit_after")
_CPU_PCT = 20.0  # minimum CPU-bound share of the step for a caveat on the cost of Python stacks


_SAID = {
    "graph_capture": "{count:,} launches ({share}) were recorded into a CUDA graph and did not run: what they will do"
    " is not here.",
    "compilation": "torch.compile compiles for {time} ({share} of the trace), which later steps do not.",
    "first_calls": "{count:,} first calls, which set up the GPU or load code, take {time} ({share} of the trace);"
    " later steps have none.",
    "graph_gaps": "The {count:,} gaps between the nodes of replayed CUDA graphs take {time} ({share} of the trace). The"
    " profiler traces the nodes one by one, which costs time between nodes: without it, the gaps are shorter.",
    "lost_work": "{count:,} launch calls ({share}) have no GPU work in the file: the GPU does more than is shown here.",
    "lost_launches": "The file is cut off or damaged: {count:,} calls of ops ({share}) have no GPU work in it, although"
    " the same calls in other steps have. The GPU does more than is shown here.",
}


def caveat_sentences(
    trace: Trace,
    rank: int,
    info: dict[str, Any],
    loop: StepLoop | None,
    limits: pl.DataFrame,
    use: pl.DataFrame,
    unprofiled: dict[str, Any] | None = None,
) -> list[str]:
    """Caveats on the rest of the report, most serious first. Empty if the trace has no run: the headline says so.

    `unprofiled` is the row of `whatif` for the run without the profiler, if the profiler makes a difference.
    """
    if no_run(trace, rank):
        return []
    found = trace.query("caveats", rank=rank).sort("share_pct", descending=True, nulls_last=True)
    tracks = unknown_tracks(trace, rank)
    said = (
        []
        if tracks.is_empty()
        else [f"Tracks that are not understood: {unknown_words(tracks)}. No figure of the GPU includes them."]
    )
    said += [
        _SAID[row["caveat"]].format(count=row["count"], share=percent(row["share_pct"]), time=duration(row["time_ns"]))
        for row in found.iter_rows(named=True)
        # Impossible times are counted in the sentence on the file's damage.
        if row["caveat"] in _SAID and row["share_pct"] is not None and row["share_pct"] >= _SPEAK_PCT
    ]
    said += _of_the_profiler(loop) + _unobserved(trace, rank, use)
    on_cpu = limits.filter(pl.col("limit").is_in(CPU_LIMITS))["path_pct"].sum()
    if info["with_stack"] and on_cpu >= _CPU_PCT and not use.is_empty() and _has_frames(trace, rank):
        said.append(
            "Python stacks were recorded, which can make the CPU's work two to three times as long. Check the CPU's"
            " part with a trace without them (with_stack=False)."
        )
    if unprofiled is not None and 100 * unprofiled["gain_ns"] >= _SPEAK_PCT * unprofiled["baseline_ns"]:
        said.append(_unprofiled(unprofiled, unprofiled["baseline_ns"] if loop is None else loop.mean_ns))
    if recorder_of(info["metadata"]) is not None:
        said.append(CANNOT_TELL)
    return said + _unknown_gpu(trace, rank) + _steps(trace, rank, loop)


def _of_the_profiler(loop: StepLoop | None) -> list[str]:
    """The profiler's own work in the counted steps, which is excluded from the step times."""
    if loop is None or 100 * loop.profiler_ns <= _SPEAK_PCT * (loop.loop_ns + loop.profiler_ns):
        return []
    share = percent(100 * loop.profiler_ns / (loop.loop_ns + loop.profiler_ns))
    return [
        f"For {share} of the recorded steps, {duration(loop.profiler_ns // loop.count)} in each, the profiler itself"
        " works (buffers and instrumentation). That is left out of the times of steps, the answers and the advice."
        " Tables of ops and runtime calls have it in the calls."
    ]


def _unprofiled(row: dict[str, Any], step_ns: int) -> str:
    """The slowdown of a step by the profiler, and the limit without the profiler if the limit is different."""
    # The prediction is for usual steps, whose mean may differ from `step_ns`: scale to `step_ns`.
    low, high = (round(min(row[name] / row["baseline_ns"], 1) * step_ns) for name in ("low_ns", "high_ns"))
    between = f"{duration(low)} to {duration(high)}"
    text = (
        f"The profiler slows the CPU down: without it, a step is predicted to take {between} instead of"
        f" {duration(step_ns)}"
    )
    before, after = (VERDICTS[row[name]].noun if row[name] in VERDICTS else "" for name in _LIMITS)
    if after and after != before:
        text += f". What it then waits for most is {after}"
    return text + ". Time a few steps without it."


def _unobserved(trace: Trace, rank: int, use: pl.DataFrame) -> list[str]:
    """Launched work waiting while the file shows no device activity."""
    run = use.row(0, named=True) if not use.is_empty() else None
    if not run or not run["unobserved_ns"] or run["gpu_busy_most_pct"] - run["gpu_busy_pct"] < _SPEAK_PCT:
        return []
    text = (
        f"For {duration(run['unobserved_ns'])}, launched work waits although the GPU does nothing in the file: it may"
        f" have done work that was not recorded. It is busy for {run['gpu_busy_pct']:.1f} to"
        f" {percent(run['gpu_busy_most_pct'])} of the time."
    )
    since = (
        trace.of(rank)
        .sql(
            "select sum(end_ns - start_ns)::bigint as busy_ns, max(end_ns) - min(start_ns) as window_ns"
            " from gpu_busy where rank = $rank",
            rank=rank,
        )
        .row(0, named=True)
    )
    share = 100 * since["busy_ns"] / max(since["window_ns"], 1)
    if share - run["gpu_busy_pct"] >= _SPEAK_PCT:
        text += f" From its first recorded work to the last, it is busy for {percent(share)}."
    return [text]


def _unknown_gpu(trace: Trace, rank: int) -> list[str]:
    """GPUs with unknown peaks, and the options to specify the GPU."""
    found = trace.of(rank).sql(
        "select distinct gpu_model.name from gpu_model inner join gpu_op on gpu_model.rank = gpu_op.rank"
        " and gpu_model.device_id = device_of(gpu_op.device) where gpu_model.rank = $rank and gpu_model.model is null"
        " order by gpu_model.name",
        rank=rank,
    )["name"]
    if found.is_empty():
        return []
    names = [safe(name) for name in found if name is not None]
    which = f"The peaks of {listed(names)} are not known" if names else "The file does not name its GPU"
    return [f"{which}, so nothing is compared with its peaks. Import the trace with --gpu NAME or --gpus FILE."]


def _has_frames(trace: Trace, rank: int) -> bool:
    return bool(trace.of(rank).sql("select exists (select 1 from python_call where rank = $rank)", rank=rank).item())


_ROLES = {
    "warm_up": "as warm-up",
    "cut_off": "because the recording ended in {them}",
    "empty": "because nothing of the program ran in {them}",
}


def _steps(trace: Trace, rank: int, loop: StepLoop | None) -> list[str]:
    """Steps excluded from the count, with the reason."""
    if loop is None or not loop.not_counted:
        return []
    lengths = dict(trace.query("step_lengths", rank=rank).select("step", "length_ns").rows())
    said = []
    for role, why in _ROLES.items():
        steps = [step for step, its in loop.not_counted if its == role]
        if not steps:
            continue
        named = listed([f"{step} ({duration(lengths[step])})" for step in steps[:4]])
        more = f" and {len(steps) - 4} more" if len(steps) > 4 else ""
        reason = why.format(them="it" if len(steps) == 1 else "them")
        said.append(f"Not counted {reason}: step{'s' if len(steps) > 1 else ''} {named}{more}.")
    return said
