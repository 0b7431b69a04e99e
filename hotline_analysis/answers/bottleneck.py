"""The bottleneck of the training loop: GPU or CPU, and whether it is the optimizer."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from hotline_analysis.answers.balance import busy_words
from hotline_analysis.answers.finding import Finding
from hotline_analysis.answers.limits import LIMIT, TypicalStep, step_limits, step_loop
from hotline_analysis.answers.recorded import has_gpu_work, lacks_gpu_work, missing_gpu_work, no_run
from hotline_analysis.answers.verdicts import CPU_LIMITS, GPU_LIMITS, NO_RUN, VERDICTS
from hotline_analysis.answers.waiting import waiting_noun
from hotline_analysis.errors import QueryParameterError
from hotline_analysis.run.scope import check_scope
from hotline_analysis.run.trace import Trace
from hotline_analysis.text.formats import listed, percent

_MIXED = "Start with the largest part in the evidence."
_BALANCED = "Shorten the CPU's and the GPU's work together: a step that waits for both gains little from either alone."
_OPTIMIZER = (
    *("step_ns", "without_ns", "gain_pct", "at_most_times_faster"),
    *("optimizer_pct", "clipping_pct", "least_pct", "most_pct"),
)
_GAIN = ("limit", "step_ns", "without_ns")
_SAID = 1.0  # smaller shares are left out of a sentence
_CLIPPING = 0.5  # less clipping is left out of a sentence


def gpu_or_cpu_bound(
    trace: Trace, *, rank: int | None = None, largest_pct: float = 40.0, balanced_pct: float = 10.0
) -> Finding:
    """Is the GPU the bottleneck or the CPU, and why?

    The critical path over the loop decides. `evidence` is the frame of `step_limits`. The largest limit determines the
    answer if it has at least `largest_pct` of the path: gpu-bound, communication-bound, pipeline-bound, copy-bound,
    gpu-wait-bound, input-bound, launch-bound, python-bound, cpu-tensor-bound, sync-bound, between-steps, rank-bound,
    thread-bound, profiler-bound, unobserved or unknown. Otherwise the answer is mixed. `unobserved` time determines the
    answer only above 50 %. Of two limits with at least `largest_pct`, the second determines the answer if the step
    would be less than `balanced_pct` shorter without the first, but more without the second.

    The answer is balanced under two conditions. A step would be less than `balanced_pct` shorter without all GPU work,
    without all CPU work, and without any single limit. And less than `balanced_pct` of the step belongs to neither
    side. `no-gpu` means a trace without GPU work. `no-run` means a trace that does not show a run, such as the capture
    of a graph. `rank` defaults to the lowest rank. Raises `QueryParameterError` for a negative threshold.
    """
    check_scope(trace, {"rank": rank})
    chosen_rank = min(trace.ranks) if rank is None else rank
    thresholds = {"largest_pct": largest_pct, "balanced_pct": balanced_pct}
    _check(thresholds)
    question = "Is the GPU or the CPU the bottleneck?"
    limits = step_limits(trace, rank=chosen_rank)
    if reason := no_run(trace, chosen_rank):
        return Finding(question, "no-run", reason, "", thresholds, limits)
    use = trace.query("device_use", rank=chosen_rank).filter(scope="run")
    numbers = {f"{limit}_pct": share for limit, share in limits.select("limit", "path_pct").iter_rows()}
    if not limits.is_empty():
        numbers |= {"step_ns": limits["step_ns"][0]}
    if not use.is_empty():
        numbers |= dict(use.select("gpu_busy_pct", "gpu_busy_most_pct").row(0, named=True))
    if use.is_empty() or not use["gpu_busy_ns"][0]:
        if lacks_gpu_work(trace, chosen_rank):
            statement = f"{missing_gpu_work(trace, chosen_rank)[0]} This trace cannot tell what limits a step."
            return Finding(question, "no-gpu", statement, "", thresholds, limits.clear())
        statement = "The trace has no GPU work: all the time in it is CPU time."
        waits = numbers.get("other_ranks_pct") or 0.0
        if waits >= _SAID:
            statement += f" {percent(waits)} of the step is {waiting_noun(trace, chosen_rank)}."
        return Finding(question, "no-gpu", statement, "", thresholds, limits, numbers)
    shares = dict(limits.select("limit", "path_pct").rows())
    if shares.get("unobserved", 0.0) <= 50:
        limit_shares = {limit: share for limit, share in shares.items() if limit != "unobserved"}
    else:
        limit_shares = shares
    largest = _largest(limit_shares, limits, thresholds)
    gains = _balanced_gains(trace, chosen_rank, limits, balanced_pct)
    if gains is not None:
        statement = f"{_sides(shares)} {_busy(trace, chosen_rank, use.row(0, named=True))} {_without_sides(gains)}"
        numbers |= {f"without_{side.lower()}_gain_pct": gain for side, gain in gains.items()}
        return Finding(question, "balanced", statement, _BALANCED, thresholds, limits, numbers)
    if largest is None:
        answer, advice = "unknown", VERDICTS["unknown"].advice
    elif 100 * limit_shares[largest] < largest_pct * sum(limit_shares.values()):
        answer, advice = "mixed", _MIXED
    else:
        (verdict,) = (row for limit, row in VERDICTS.items() if limit == largest)
        answer, advice = verdict.answer, verdict.advice
    statement = f"{_sides(shares)} {_busy(trace, chosen_rank, use.row(0, named=True))}"
    return Finding(question, answer, statement, advice, thresholds, limits, numbers)


def _largest(shares: Mapping[str, float], limits: pl.DataFrame, thresholds: Mapping[str, float]) -> str | None:
    """The limit that determines the answer: the largest, or a limit above `largest_pct` whose removal gains more."""
    largest = max(shares, key=lambda limit: shares[limit], default=None)
    if largest is None:
        return None
    gains = {limit: 100 * (step - without_ns) / step for limit, step, without_ns in limits.select(*_GAIN).rows()}
    if gains[largest] >= thresholds["balanced_pct"]:
        return largest
    enough = thresholds["largest_pct"] * sum(shares.values())
    gaining = [limit for limit, share in shares.items() if 100 * share >= enough]
    best = max(gaining, key=lambda limit: gains[limit], default=largest)
    return best if gains[best] >= thresholds["balanced_pct"] else largest


def _balanced_gains(trace: Trace, rank: int, limits: pl.DataFrame, balanced_pct: float) -> dict[str, float] | None:
    """The gain in percent of a step without each side, if neither side bounds the loop; else `None`."""
    loop = step_loop(trace, rank)
    sides = {"GPU": GPU_LIMITS, "CPU": CPU_LIMITS}
    of_neither = limits.filter(pl.col("limit").is_in(["between", "unobserved", "unknown"]))["path_pct"].sum()
    if loop is None or not loop.mean_ns or of_neither >= balanced_pct:
        return None
    step_ns = loop.mean_ns
    if (100 * (step_ns - limits["without_ns"]) >= balanced_pct * step_ns).any():
        return None
    times_without = {side: loop.without_ns(LIMIT.is_in(list(of_side))) for side, of_side in sides.items()}
    gains = {side: max(0.0, 100 * (step_ns - ns) / step_ns) for side, ns in times_without.items()}
    return gains if max(gains.values()) < balanced_pct else None


def _without_sides(gains: Mapping[str, float]) -> str:
    gpu, cpu = percent(gains["GPU"]), percent(gains["CPU"])
    return (
        f"Neither bounds the loop: a step would be {gpu} shorter without the GPU's work, and {cpu} without the CPU's."
    )


def _check(thresholds: Mapping[str, float]) -> None:
    for name, value in thresholds.items():
        if not value >= 0:
            raise QueryParameterError(f"{name} must be 0 or more, not {value!r}")


def _busy(trace: Trace, rank: int, use: Mapping[str, float]) -> str:
    """How busy the GPU is, or each of several GPUs."""
    gpus = trace.query("devices", rank=rank)
    if gpus.filter(pl.col("gpu_busy_ns") > 0).height > 1:
        return f"{busy_words(gpus)}."
    low, high = use["gpu_busy_pct"], use["gpu_busy_most_pct"]
    busy = percent(low) if high - low < _SAID else f"{low:.1f} to {percent(high)}"
    return f"The GPU is busy for {busy} of the time."


def _sides(shares: Mapping[str, float]) -> str:
    """The shares of both sides in the step, the larger first."""
    if not shares:
        return "No step can be judged: no counted step takes time of its own, from work to work."
    sides = [
        (sum(shares.get(limit, 0.0) for limit in limits), name, limits)
        for name, limits in (("GPU", GPU_LIMITS), ("CPU", CPU_LIMITS))
    ]
    sides.sort(key=lambda side: (-side[0], side[1]))
    phrases: list[str] = []
    for number, (share, name, limits) in enumerate(sides):
        if share < _SAID:
            continue
        parts = sorted(((shares[limit], VERDICTS[limit].noun) for limit in limits if limit in shares), reverse=True)
        part_phrases = [f"{noun} {percent(part)}" for part, noun in parts if part >= _SAID]
        share_text = f"{percent(share)} of the step" if not phrases else percent(share)
        phrases.append(f"the {name}, for {share_text}" + (f" ({listed(part_phrases)})" if part_phrases else ""))
        if number == 0 and share > 100 - _SAID:
            break
    rest = [
        f"{VERDICTS[limit].noun}, {percent(shares[limit])}"
        for limit in ("unobserved", "unknown")
        if shares.get(limit, 0) >= _SAID
    ]
    sentence = "; ".join([*phrases, *rest])
    return f"{sentence[:1].upper()}{sentence[1:]}."


def optimizer_bottleneck(
    trace: Trace,
    *,
    rank: int | None = None,
    yes_pct: float = 30.0,
    partly_pct: float = 15.0,
) -> Finding:
    """Is the optimizer the bottleneck?

    The measure is how much shorter the loop gets if all CPU and GPU work of the optimizer takes no time. The answer is
    yes from `yes_pct` of the loop on, partly from `partly_pct` on, and otherwise no. The statement also has the
    optimizer's share of the critical path over the loop, and separately the share of gradient clipping, if notable. If
    the optimizer's share differs between steps, the statement has the minimum and maximum share. For a yes or a partly,
    the statement also mentions communication that takes `yes_pct` or more of the optimizer's GPU time.

    `answer` is `no-optimizer` if the trace shows no optimizer (inference) or no step counts, and `no-run` if the trace
    does not show training. `evidence` is the result of `phases`. `rank` defaults to the lowest rank.
    """
    check_scope(trace, {"rank": rank})
    chosen_rank = min(trace.ranks) if rank is None else rank
    thresholds = {"yes_pct": yes_pct, "partly_pct": partly_pct}
    _check(thresholds)
    question = "Is the optimizer the bottleneck?"
    evidence = trace.query("phases", rank=chosen_rank)
    if no_run(trace, chosen_rank):
        return Finding(question, "no-run", NO_RUN, "", thresholds, evidence)
    optimizer = evidence.filter(phase="optimizer")
    loop = step_loop(trace, chosen_rank)
    if optimizer.is_empty() or loop is None or not loop.mean_ns:
        numbers: dict[str, int | float | None] = dict.fromkeys(_OPTIMIZER)
        statement = "The trace shows no optimizer step."
        if not optimizer.is_empty():
            statement = "No counted step takes time of its own, so the share of the optimizer is unknown."
        return Finding(question, "no-optimizer", statement, "", thresholds, evidence, numbers)
    step_ns = loop.mean_ns
    without_ns = min(step_ns, loop.without_ns(pl.col("phase") == "optimizer"))
    gain = 100 * (step_ns - without_ns) / step_ns
    speedup = step_ns / max(without_ns, 1)
    path = dict(loop.path_by(pl.col("phase")).rows())
    shares = {phase: 100 * path.get(phase, 0) / step_ns for phase in ("optimizer", "clipping")}
    main_pct, clipping, least, most = _on_main_thread(trace, chosen_rank)
    if least is None or most is None or not least <= shares["optimizer"] <= most:
        # The steps wait for the GPU part of the optimizer, or not for the optimizer at all.
        of_kinds = [share for share in map(_share_of_optimizer, loop.kinds) if share]
        least, most = min(of_kinds, default=None), max(of_kinds, default=None)
    if main_pct is not None and shares["optimizer"] and not has_gpu_work(trace, rank=chosen_rank):
        # Without GPU work, the main thread's time over all counted steps is more accurate than the typical steps.
        gain *= main_pct / shares["optimizer"]
        shares = {"optimizer": main_pct, "clipping": clipping or 0.0}
        without_ns = round(step_ns * (1 - gain / 100))
        speedup = step_ns / max(without_ns, 1)
    numbers = dict(zip(_OPTIMIZER, (step_ns, without_ns, gain, speedup, *shares.values(), least, most), strict=True))
    answer = "yes" if gain >= yes_pct else "partly" if gain >= partly_pct else "no"
    statement = _statement(answer, shares, least, most, gain, speedup)
    if answer == "no":
        return Finding(question, answer, statement, "", thresholds, evidence, numbers)
    advice = "Use a fused or foreach implementation (fused=True), fewer and larger parameters, or step every n batches."
    use = trace.query("device_use", rank=chosen_rank).filter(scope="phase", phase="optimizer")
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
    """The answer with the optimizer's share, the share of clipping, and the gain."""
    share = f"the optimizer is {percent(shares['optimizer'])} of the step"
    if least is not None and most is not None and most - least >= _SAID:
        share += f" ({least:.1f} to {percent(most)} in single steps)"
    clipping = f"; clipping gradients is {percent(shares['clipping'])}" if shares["clipping"] >= _CLIPPING else ""
    faster = f"{speedup:,.2f} times faster" if speedup < 1000 else "over 1,000 times faster"
    bound = f"at most {percent(gain)} shorter" + (f" ({faster})" if speedup >= 1.005 else "")
    gain_sentence = (
        f"Without the optimizer, a step would be {bound}." if gain >= 0.05 else "A step gains nothing without it."
    )
    return f"{answer.capitalize()}: {share}{clipping}. {gain_sentence}"


def _share_of_optimizer(kind: TypicalStep) -> float:
    """The optimizer's share of the critical path of a typical step, in percent."""
    path = kind.replay.path()
    total_ns = int(path["path_ns"].sum())
    return 100 * int(path.filter(phase="optimizer")["path_ns"].sum()) / total_ns if total_ns else 0.0


def _on_main_thread(trace: Trace, rank: int) -> tuple[float | None, float | None, float | None, float | None]:
    """The optimizer's and clipping's shares of the main thread's time in counted steps, and the optimizer's range.

    The last two values are the minimum and maximum share in a step with an optimizer.
    """
    frame = trace.of(rank).sql(
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
    row: tuple[float | None, float | None, float | None, float | None] = frame.row(0)
    return row
