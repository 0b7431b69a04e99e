"""What bounds the training loop: is it the GPU or the CPU, and is it the optimizer?"""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from hotline_analysis.answers.finding import Finding
from hotline_analysis.answers.limits import TypicalStep, step_limits, step_loop
from hotline_analysis.answers.recorded import has_gpu_work, lacks_gpu_work, no_run
from hotline_analysis.answers.verdicts import CPU_LIMITS, GPU_LIMITS, NO_RUN, VERDICTS
from hotline_analysis.answers.waiting import waiting_noun
from hotline_analysis.errors import QueryParameterError
from hotline_analysis.run.scope import check_scope
from hotline_analysis.run.trace import Trace
from hotline_analysis.text.formats import listed, percent

_MIXED = "Start with the largest part in the evidence."
_OPTIMIZER = (
    *("step_ns", "without_ns", "gain_pct", "at_most_times_faster"),
    *("optimizer_pct", "clipping_pct", "least_pct", "most_pct"),
)
_SAID = 1.0  # shares below this stay out of a sentence
_CLIPPING = 0.5  # less clipping is not worth a clause


def gpu_or_cpu_bound(trace: Trace, *, rank: int | None = None, largest_pct: float = 40.0) -> Finding:
    """Is the GPU the bottleneck or the CPU, and why?

    Asked of the critical path of the median step in a loop of such steps: `evidence` is the frame of `step_limits`, and
    its largest limit names the answer if it has at least `largest_pct` of the path: gpu-bound, communication-bound,
    copy-bound, gpu-wait-bound, input-bound, launch-bound, python-bound, cpu-tensor-bound, sync-bound, rank-bound,
    thread-bound, profiler-bound, unobserved or unknown; else it is mixed. Time that is `unobserved` names it only if it
    has more than half. `no-gpu` is a trace without GPU work, and `no-run` one that records something else than a run,
    such as the capture of a graph. `rank` is the lowest of the run by default. Raises `QueryParameterError` for a
    threshold that is negative.
    """
    check_scope(trace, {"rank": rank})
    chosen = min(trace.ranks) if rank is None else rank
    thresholds = {"largest_pct": largest_pct}
    _check(thresholds)
    question = "Is the GPU or the CPU the bottleneck?"
    limits = step_limits(trace, rank=chosen)
    if said := no_run(trace, chosen):
        return Finding(question, "no-run", said, "", thresholds, limits)
    use = trace.query("device_use", rank=chosen).filter(scope="run")
    numbers = {f"{limit}_pct": share for limit, share in limits.select("limit", "path_pct").iter_rows()}
    if not limits.is_empty():
        numbers |= {"step_ns": limits["step_ns"][0]}
    if not use.is_empty():
        numbers |= dict(use.select("gpu_busy_pct", "gpu_busy_most_pct").row(0, named=True))
    if use.is_empty() or not use["gpu_busy_ns"][0]:
        if lacks_gpu_work(trace, chosen):
            statement = "The file has no GPU work, although the run had some or may have: this trace cannot tell."
            return Finding(question, "no-gpu", statement, "", thresholds, limits.clear())
        statement = "The trace has no GPU work: all the time in it is CPU time."
        waits = numbers.get("other_ranks_pct") or 0.0
        if waits >= _SAID:
            statement += f" {percent(waits)} of the step is {waiting_noun(trace, chosen)}."
        return Finding(question, "no-gpu", statement, "", thresholds, limits, numbers)
    shares = dict(limits.select("limit", "path_pct").rows())
    if shares.get("unobserved", 0.0) <= 50:
        named = {limit: share for limit, share in shares.items() if limit != "unobserved"}
    else:
        named = shares
    largest = max(named, key=lambda limit: named[limit], default=None)
    if largest is None:
        answer, advice = "unknown", VERDICTS["unknown"].advice
    elif 100 * named[largest] < largest_pct * sum(named.values()):
        answer, advice = "mixed", _MIXED
    else:
        answer, advice = VERDICTS[largest].answer, VERDICTS[largest].advice
    return Finding(question, answer, _sides(shares, use.row(0, named=True)), advice, thresholds, limits, numbers)


def _check(thresholds: Mapping[str, float]) -> None:
    for name, value in thresholds.items():
        if not value >= 0:
            raise QueryParameterError(f"{name} must be 0 or more, not {value!r}")


def _sides(shares: Mapping[str, float], use: Mapping[str, float]) -> str:
    """The shares of both sides in the step, the larger first, and how busy the GPU is."""
    sides = [
        (sum(shares.get(limit, 0.0) for limit in limits), name, limits)
        for name, limits in (("GPU", GPU_LIMITS), ("CPU", CPU_LIMITS))
    ]
    sides.sort(key=lambda side: (-side[0], side[1]))
    said: list[str] = []
    for at, (share, name, limits) in enumerate(sides):
        if share < _SAID:
            continue
        parts = sorted(((shares[limit], VERDICTS[limit].noun) for limit in limits if limit in shares), reverse=True)
        told = [f"{noun} {percent(part)}" for part, noun in parts if part >= _SAID]
        whole = f"{percent(share)} of the step" if not said else percent(share)
        said.append(f"the {name}, for {whole}" + (f" ({listed(told)})" if told else ""))
        if at == 0 and share > 100 - _SAID:
            break
    rest = [
        f"{VERDICTS[limit].noun}, {percent(shares[limit])}"
        for limit in ("unobserved", "unknown")
        if shares.get(limit, 0) >= _SAID
    ]
    low, high = use["gpu_busy_pct"], use["gpu_busy_most_pct"]
    busy = percent(low) if high - low < _SAID else f"{low:.1f} to {percent(high)}"
    sentence = "; ".join([*said, *rest])
    return f"{sentence[:1].upper()}{sentence[1:]}. The GPU is busy for {busy} of the time."


def optimizer_bottleneck(
    trace: Trace,
    *,
    rank: int | None = None,
    yes_pct: float = 30.0,
    partly_pct: float = 15.0,
) -> Finding:
    """Is the optimizer the bottleneck?

    By how much shorter the loop gets if everything that the optimizer does, on the CPU and on the GPU, takes no time:
    from `yes_pct` of the loop on the answer is yes, from `partly_pct` on partly, else no. The statement also has the
    optimizer's share of the critical path over the loop, with the least and the most in a step, and apart from it the
    share of clipping. `answer` is `no-optimizer` if the trace shows none (inference). `evidence` is the frame of
    `phases`. If communication is `yes_pct` or more of the optimizer's GPU time, the statement says so. `rank` is the
    lowest of the run by default.
    """
    check_scope(trace, {"rank": rank})
    chosen = min(trace.ranks) if rank is None else rank
    thresholds = {"yes_pct": yes_pct, "partly_pct": partly_pct}
    _check(thresholds)
    question = "Is the optimizer the bottleneck?"
    evidence = trace.query("phases", rank=chosen)
    if no_run(trace, chosen):
        return Finding(question, "no-run", NO_RUN, "", thresholds, evidence)
    optimizer = evidence.filter(phase="optimizer")
    loop = step_loop(trace, chosen)
    if optimizer.is_empty() or loop is None or not loop.mean_ns:
        numbers: dict[str, int | float | None] = dict.fromkeys(_OPTIMIZER)
        statement = "The trace shows no optimizer step."
        return Finding(question, "no-optimizer", statement, "", thresholds, evidence, numbers)
    whole = loop.mean_ns
    without = min(whole, loop.without_ns(pl.col("phase") == "optimizer"))
    gain = 100 * (whole - without) / whole
    speedup = whole / max(without, 1)
    path = dict(loop.path().group_by("phase").agg(pl.col("path_ns").sum()).rows())
    shares = {phase: 100 * path.get(phase, 0) / whole for phase in ("optimizer", "clipping")}
    in_all, clipping, least, most = _on_main_thread(trace, chosen)
    if least is None or most is None or not least <= shares["optimizer"] <= most:
        # Steps wait for the GPU's part of the optimizer, or for nothing of it.
        of_kinds = [share for share in map(_share_of_optimizer, loop.kinds) if share]
        least, most = min(of_kinds, default=None), max(of_kinds, default=None)
    if in_all is not None and shares["optimizer"] and not has_gpu_work(trace, rank=chosen):
        # Without GPU work, the main thread's time in all counted steps says more than the typical step of each kind.
        gain *= in_all / shares["optimizer"]
        shares = {"optimizer": in_all, "clipping": clipping or 0.0}
        without = round(whole * (1 - gain / 100))
        speedup = whole / max(without, 1)
    numbers = dict(zip(_OPTIMIZER, (whole, without, gain, speedup, *shares.values(), least, most), strict=True))
    answer = "yes" if gain >= yes_pct else "partly" if gain >= partly_pct else "no"
    statement = _statement(answer, shares, least, most, gain, speedup)
    if answer == "no":
        return Finding(question, answer, statement, "", thresholds, evidence, numbers)
    advice = "Use a fused or foreach implementation (fused=True), fewer and larger parameters, or step every n batches."
    use = trace.query("device_use", rank=chosen).filter(scope="phase", phase="optimizer")
    busy, communication = int(use["gpu_busy_ns"].sum()), int(use["communication_ns"].sum())
    if busy and 100 * communication >= yes_pct * busy:
        statement += f" Communication is {100 * communication / busy:.0f} % of its GPU time."
        advice = (
            "The optimizer communicates, as one does whose state is sharded: let its collectives run beside the"
            f" next forward, or shard less. {advice}"
        )
    return Finding(question, answer, statement, advice, thresholds, evidence, numbers)


def _statement(
    answer: str, shares: Mapping[str, float], least: float | None, most: float | None, gain: float, speedup: float
) -> str:
    """The answer with the share of the optimizer, the share of clipping, and the gain."""
    share = f"the optimizer is {percent(shares['optimizer'])} of the step"
    if least is not None and most is not None and most - least >= _SAID:
        share += f" ({least:.1f} to {percent(most)} in single steps)"
    clipping = f"; clipping gradients is {percent(shares['clipping'])}" if shares["clipping"] >= _CLIPPING else ""
    faster = f"{speedup:,.2f} times faster" if speedup < 1000 else "over 1,000 times faster"
    bound = f"at most {percent(gain)} shorter" + (f" ({faster})" if speedup >= 1.005 else "")
    without = f"Without the optimizer, a step would be {bound}." if gain >= 0.05 else "A step gains nothing without it."
    return f"{answer.capitalize()}: {share}{clipping}. {without}"


def _share_of_optimizer(kind: TypicalStep) -> float:
    """The optimizer's share of the critical path of a typical step, in percent."""
    path = kind.replay.path()
    whole = int(path["path_ns"].sum())
    return 100 * int(path.filter(phase="optimizer")["path_ns"].sum()) / whole if whole else 0.0


def _on_main_thread(trace: Trace, rank: int) -> tuple[float | None, float | None, float | None, float | None]:
    """Shares of the main thread's time in counted steps: of the optimizer and of clipping, and of the optimizer in one.

    The last two are the least and the most share in a step with an optimizer.
    """
    found = trace.of(rank).sql(
        """
        select
            100.0 * sum(optimizer_ns) / nullif(sum(step_ns), 0) as optimizer_pct,
            100.0 * sum(clipping_ns) / nullif(sum(step_ns), 0) as clipping_pct,
            min(100.0 * optimizer_ns / nullif(step_ns, 0)) as least_pct,
            max(100.0 * optimizer_ns / nullif(step_ns, 0)) as most_pct
        from (
            select
                sum(step_activity.time_ns) as step_ns,
                sum(step_activity.time_ns) filter (where step_activity.phase = 'optimizer') as optimizer_ns,
                sum(step_activity.time_ns) filter (where step_activity.phase = 'clipping') as clipping_ns
            from step_activity
            inner join step_length
                on step_activity.rank = step_length.rank and step_activity.step = step_length.step
            where step_activity.rank = $rank and step_length.kind is not null and step_activity.region is null
            group by step_activity.step
        )
        """,
        rank=rank,
    )
    row: tuple[float | None, float | None, float | None, float | None] = found.row(0)
    return row
