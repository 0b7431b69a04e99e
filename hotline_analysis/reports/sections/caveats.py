"""What a trace cannot tell, in sentences: recordings that are no run, work that is missing, steps that do not count."""

from __future__ import annotations

from typing import Any

import polars as pl

from hotline_analysis.answers.limits import StepLoop
from hotline_analysis.answers.recorded import no_run
from hotline_analysis.answers.verdicts import CPU_LIMITS, VERDICTS
from hotline_analysis.run.trace import Trace
from hotline_analysis.text.formats import duration, listed, percent, safe

_SPEAK_PCT = 5.0  # what is less does not change what the rest of the report says
_LIMITS = ("limit_before", "limit_after")
_CPU_PCT = 20.0  # from this share of the step on, what slows the CPU down matters


_SAID = {
    "graph_capture": "{count:,} launches ({share}) were recorded into a CUDA graph and did not run: what they will do"
    " is not here.",
    "compilation": "torch.compile compiles for {time} ({share} of the trace), which later steps do not.",
    "first_calls": "{count:,} first calls, which set up the GPU or load code, take {time} ({share} of the trace);"
    " later steps have none.",
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
    """What to know before believing the rest, the gravest first. Of a trace that shows no run, the headline says it.

    `unprofiled` is the row of `whatif` for the run without the profiler, if that makes a difference.
    """
    if no_run(trace, rank):
        return []
    found = trace.query("caveats", rank=rank).sort("share_pct", descending=True, nulls_last=True)
    said = [
        _SAID[row["caveat"]].format(count=row["count"], share=percent(row["share_pct"]), time=duration(row["time_ns"]))
        for row in found.iter_rows(named=True)
        if row["share_pct"] is not None and row["share_pct"] >= _SPEAK_PCT
    ]
    said += _of_the_profiler(loop) + _unobserved(trace, rank, use)
    on_cpu = limits.filter(pl.col("limit").is_in(CPU_LIMITS))["path_pct"].sum()
    if info["with_stack"] and on_cpu >= _CPU_PCT and not use.is_empty() and _has_frames(trace, rank):
        said.append(
            "Python stacks were recorded, which can make the CPU's work two to three times as long. Check the CPU's"
            " part with a trace without them (with_stack=False)."
        )
    if unprofiled is not None and 100 * unprofiled["gain_ns"] >= _SPEAK_PCT * unprofiled["baseline_ns"]:
        said.append(_unprofiled(unprofiled))
    return said + _unknown_gpu(trace, rank) + _steps(trace, rank, loop)


def _of_the_profiler(loop: StepLoop | None) -> list[str]:
    """The profiler's own work in the counted steps, which is left out of their times."""
    if loop is None or 100 * loop.profiler_ns < _SPEAK_PCT * (loop.loop_ns + loop.profiler_ns):
        return []
    share = percent(100 * loop.profiler_ns / (loop.loop_ns + loop.profiler_ns))
    return [
        f"For {share} of the recorded steps, {duration(loop.profiler_ns // loop.count)} in each, the profiler itself"
        " works (buffers and instrumentation). That is left out of the times of steps, the answers and the advice."
        " Tables of ops and runtime calls have it in the calls."
    ]


def _unprofiled(row: dict[str, Any]) -> str:
    """By how much the profiler made a step longer, and whether something else bounds it without."""
    baseline = row["baseline_ns"]
    between = f"{duration(row['low_ns'])} to {duration(min(row['high_ns'], baseline))}"
    text = (
        f"The profiler slows the CPU down: without it, a step, which takes {duration(baseline)} here, is predicted to"
        f" take {between}"
    )
    before, after = (VERDICTS[row[name]].noun if row[name] in VERDICTS else "" for name in _LIMITS)
    if after and after != before:
        text += f". What it then waits for most is {after}"
    return text + ". Time a few steps without it."


def _unobserved(trace: Trace, rank: int, use: pl.DataFrame) -> list[str]:
    """Launched work that waits while the device does nothing in the file."""
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
    """A GPU of which nothing is known, and how to say what it is."""
    found = trace.of(rank).sql(
        "select distinct gpu_model.name from gpu_model inner join gpu_op on gpu_model.rank = gpu_op.rank"
        " and gpu_model.device_id = device_of(gpu_op.device) where gpu_model.rank = $rank and gpu_model.model is null"
        " order by gpu_model.name",
        rank=rank,
    )["name"]
    if found.is_empty():
        return []
    names = [safe(name) for name in found if name is not None]
    which = f"The peaks of the GPU {listed(names)} are not known" if names else "The file does not name its GPU"
    return [f"{which}, so nothing is compared with its peaks. Import the trace with --gpu NAME or --gpus FILE."]


def _has_frames(trace: Trace, rank: int) -> bool:
    return bool(trace.of(rank).sql("select exists (select 1 from python_call where rank = $rank)", rank=rank).item())


_ROLES = {
    "warm_up": "as warm-up",
    "cut_off": "because the recording ended in {them}",
    "empty": "because nothing of the program ran in {them}",
}


def _steps(trace: Trace, rank: int, loop: StepLoop | None) -> list[str]:
    """Steps that do not count, with the reason."""
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
