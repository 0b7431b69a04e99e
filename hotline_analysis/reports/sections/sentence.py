"""The first sentence of a report: the main reason for the step time, with one share, and the step without the cause.

All output formats share this sentence: text, Markdown, page, notebook and the log of a capture.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from hotline_analysis.answers.finding import Finding
from hotline_analysis.answers.limits import LEAST_PCT, StepLoop
from hotline_analysis.answers.place_pieces import place_pieces
from hotline_analysis.answers.place_samples import SURELY_PCT
from hotline_analysis.answers.places import place_words, slowest_place, slowest_places
from hotline_analysis.answers.rules import SLOWEST, UNNAMED, shows_loading
from hotline_analysis.answers.verdicts import HEADLINES, VERDICTS
from hotline_analysis.answers.waiting import waiting_noun
from hotline_analysis.reports.content import Action, PhaseTime, Sentence
from hotline_analysis.reports.observed import device_times
from hotline_analysis.run.trace import Trace
from hotline_analysis.text.formats import duration, ordinal, safe, shorten, whole_percent

_OF_USER = ("frame", "region", "sampled")
"""Kinds of places in the user's code, or named by the user."""
_ONE_GPU = ("no-gpu", "one-gpu")  # answers on the balance of the GPUs if there are not several
_LONGEST_NAME = 48
COMPUTING = "Computing"  # the cause of a trace without GPU work, for a card
NO_CHANGE = f"No change is known that saves {LEAST_PCT:g} %."
_HALF_PCT = 50.0
"""Minimum share for "most of it"."""
_APART_PCT = 1.0  # bounds of a share closer than this are shown as one number
_IN_A_PLACE = ("python",)  # for these limits, the sentence names the largest place
_PLACE = "place"  # key of `_REMEDIES` for a place as the cause instead of a limit

_BECAUSE: Mapping[str, str] = {
    "launching": "the CPU launches kernels too slowly",
    "python": "python runs between the kernels",
    "load_data": "it waits for data",
    "cpu_tensor": "the CPU computes on CPU tensors",
    "sync": "the CPU stops to wait for the GPU",
    "other_thread": "the CPU waits for another thread",
    "between": "the CPU does other work between the steps",
    "profiler": "the profiler itself works on the CPU",
}
"""The reason for an idle GPU, by the limit of the step."""
_ON_PATH: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "launching": ("launching kernels", ("launching", "launch", "op", "host")),
    "python": ("python between the kernels", ("python",)),
    "load_data": ("loading data", ("load_data",)),
    "cpu_tensor": ("computing on CPU tensors", ("cpu_tensor",)),
}
"""Work of the CPU in the words of the sentence, and the causes of idle time that are this work, by limit."""
_LOADING: Mapping[str, str] = {
    "loader_in_main_process": "the main process loads the data",
    "loader_too_few_workers": "it waits for the DataLoader",
    "preprocessing_outside_loader": "the loop itself prepares the data",
}
"""The reason for a GPU waiting for data, by the rule with the finding."""
_SPENT: Mapping[str, str] = {
    "other_stage": "another pipeline stage",
    "copying": "copies on the GPU",
    "queued": "other work on the GPU",
    "other_thread": "another thread",
}
"""The cause of waiting steps, by the limit."""
_REMEDIES: Mapping[str, tuple[str, ...]] = {
    "launching": ("host_bound_launching", "compiled_without_graphs"),
    "python": ("python_overhead", "user_stretch", "module_loop", "graph_breaks", "scalar_loops", SLOWEST, UNNAMED),
    "load_data": tuple(_LOADING),
    "sync": ("read_backs", "explicit_synchronise", "gradient_scaler", "pageable_copies"),
    "cpu_tensor": ("cpu_tensors",),
    "other_ranks": ("late_rank", "unseen_rank"),
    "communication": (
        *("exposed_communication", "exposed_collectives", "many_small_collectives", "parameter_gathers"),
        "late_rank",
    ),
    "other_stage": ("pipeline_bubble",),
    "copying": ("pageable_copies", "copies_on_device", "constants_from_cpu"),
    "queued": ("tiny_kernels", "small_grids"),
    "evaluation": ("evaluation_in_step",),
    _PLACE: (SLOWEST, "user_stretch"),
}
"""The rules with remedies for each limit. If an action is by such a rule, the sentence has the action's step time."""


@dataclass(frozen=True)
class Symptom:
    """The first half of the sentence."""

    text: str
    cause: str = ""
    share_pct: float | None = None
    limit: str = ""
    answer: str = ""
    """The cause in two or three words, for a card."""
    without_ns: int | None = None
    """The step without the cause, if known from another source than the replay without the limit."""
    part: str = ""
    """The cause in the words of a legend, if it is a part of the main thread's time; and the phase with that part."""
    phase: str = ""
    place: tuple[str, str] | None = None
    """Kind and name of the place in `slowest_places`, if the cause is a place."""
    is_beside_gpu: bool = False
    """The cause is the CPU's work while the GPU works too, so the picture of idle time does not show the cause."""


def first_sentence(
    trace: Trace,
    rank: int,
    bound: Finding,
    optimizer: Finding,
    ops: Finding,
    balance: Finding,
    actions: Sequence[Action],
    loop: StepLoop | None,
    phases: Sequence[PhaseTime],
) -> tuple[Sentence, Symptom]:
    """The sentence, and its symptom with a short answer to the first question."""
    symptom = _symptom(trace, rank, bound, optimizer, ops, balance, actions, phases)
    answer = symptom.answer or HEADLINES[bound.answer]
    if not symptom.answer and symptom.limit in VERDICTS and bound.answer not in ("mixed", "balanced", "no-gpu"):
        answer = VERDICTS[symptom.limit].headline  # type: ignore[index]
    symptom = replace(symptom, answer=answer)
    if loop is None or not loop.mean_ns or bound.answer == "no-run" or not symptom.cause:
        return Sentence(symptom.text, symptom.cause, symptom.share_pct), symptom
    step_ns = loop.mean_ns
    first = next((each for each in actions if each.gains), None)
    text = symptom.text
    whole = "a step" if loop.loops else "this recording"
    without: int | None
    if symptom.limit == "computing":
        without = first.after_ns if first is not None else None
        if first is None:
            text += f" {NO_CHANGE}"
        else:
            text += f" Best change: {_lower(first.title)}. Then {whole} would take {_instead(without, step_ns)}."
        return Sentence(text, symptom.cause, symptom.share_pct, step_ns, without), symptom
    without = _without_ns(symptom, bound, actions)
    if without is None or 100 * (step_ns - without) < LEAST_PCT * step_ns:
        return Sentence(text, symptom.cause, symptom.share_pct, step_ns), symptom
    text += f" Without that, {whole} would take {_instead(without, step_ns)}."
    return Sentence(text, symptom.cause, symptom.share_pct, step_ns, without), symptom


def _instead(without_ns: int | None, step_ns: int) -> str:
    return f"{duration(without_ns)} instead of {duration(step_ns)}"


def _lower(title: str) -> str:
    """A title inside a sentence; names such as `FSDP` keep their case."""
    return title if title[1:2].isupper() else f"{title[:1].lower()}{title[1:]}"


def _without_ns(symptom: Symptom, bound: Finding, actions: Sequence[Action]) -> int | None:
    """The step without the cause: after the action against the cause, or else by replay."""
    remedies = _REMEDIES.get(symptom.limit, ())
    # An action on a place may be about another place than the sentence.
    is_at_place = [symptom.limit != _PLACE or symptom.part in each.what for each in actions]
    fitting = zip(actions, is_at_place, strict=True)
    remedy = next((each for each, is_here in fitting if is_here and each.rule in remedies), None)
    if remedy is not None:
        return remedy.after_ns
    if symptom.without_ns is not None:
        return symptom.without_ns
    rows = bound.evidence
    own = rows.filter(pl.col("limit") == symptom.limit) if "limit" in rows.columns else rows.clear()
    return None if own.is_empty() else int(own["without_ns"][0])


def _symptom(
    trace: Trace,
    rank: int,
    bound: Finding,
    optimizer: Finding,
    ops: Finding,
    balance: Finding,
    actions: Sequence[Action],
    phases: Sequence[PhaseTime],
) -> Symptom:
    limits = bound.evidence
    if bound.answer == "no-run" or limits.is_empty():
        return Symptom(bound.statement)
    shares: dict[str, float] = dict(limits.select("limit", "path_pct").rows())
    if bound.answer == "no-gpu":
        return _of_cpu(trace, rank, shares, bound, optimizer, ops, phases)
    if bound.answer in ("mixed", "balanced"):
        busy = bound.numbers.get("gpu_busy_pct") or 0.0
        text = f"No single bottleneck: {_gpus(balance)[0]} for {whole_percent(busy)} of the time."
        return Symptom(text, "No single bottleneck", busy, "computing")
    limit = limit_of(bound, shares, actions)
    share = shares.get(limit, 0.0)
    if limit == "computing":
        return _computing(bound, ops, balance)
    if limit == "other_ranks":
        return _other_ranks(trace, rank, share)
    if limit == "unobserved":
        cause = "work that is not in the file"
        text = f"For {whole_percent(share)} of the time, the GPU may do {cause}: launched work waits without a cause."
        return Symptom(text, cause, share, limit)
    if limit == "unknown":
        return Symptom(f"For {whole_percent(share)} of the time, the cause of the wait is not in the trace.", "", share)
    if limit == "unrecorded":
        text = f"For {whole_percent(share)} of the time, the trace has no host events, so it does not tell the cause."
        return Symptom(text, "", share)
    if limit == "communication":
        return _communicating(trace, rank, balance)
    if limit in _SPENT and limit not in _BECAUSE:
        text = f"Steps wait for {_SPENT[limit]} for {whole_percent(share)} of the time."
        return Symptom(text, _SPENT[limit], share, limit)
    return _idle(trace, rank, bound, balance, limit, actions)


def limit_of(bound: Finding, shares: Mapping[str, float], actions: Sequence[Action]) -> str:
    """The largest limit ended by the first action, if large enough for a verdict. Otherwise the verdict's limit."""
    large = [limit for limit in shares if shares[limit] >= bound.thresholds["largest_pct"]]
    if actions and actions[0].gain_pct >= bound.thresholds["balanced_pct"]:
        ended = [limit for limit in large if actions[0].rule in _REMEDIES.get(limit, ())]
        if ended:
            return max(ended, key=lambda limit: shares[limit])
    named = [limit for limit in shares if limit in VERDICTS and VERDICTS[limit].answer == bound.answer]  # type: ignore[index]
    return max(named, key=lambda limit: shares[limit], default="unknown")


def _gpus(balance: Finding) -> tuple[str, str]:
    """Subject and verb for busy GPUs, and for idle GPUs."""
    if balance.answer in _ONE_GPU:
        return "the GPU works", "The GPU is idle"
    return "the GPUs work", "The GPUs are idle"


def _idle(trace: Trace, rank: int, bound: Finding, balance: Finding, limit: str, actions: Sequence[Action]) -> Symptom:
    """The symptom of an idle GPU, with the cause."""
    least, most = bound.numbers.get("gpu_busy_pct") or 0.0, bound.numbers.get("gpu_busy_most_pct") or 0.0
    is_exact = most - least < _APART_PCT
    # Round so that busy and idle time also add up to 100 % in whole percent.
    idle = 100.0 - round(least if is_exact else most)
    share = ("" if is_exact else "at least ") + whole_percent(idle)
    subject = _gpus(balance)[1]
    if limit == "load_data":
        cause = next((_LOADING[each.rule] for each in actions if each.rule in _LOADING), _BECAUSE[limit])
        if waits := _some_steps_wait(trace, rank):
            symptom = f"{waits}; {subject[:1].lower()}{subject[1:]} for {share} of the time."
            return Symptom(symptom, waits, idle, limit)
    else:
        cause = _BECAUSE[limit]
    if _is_beside_gpu(trace, rank, limit):
        cause = _ON_PATH[limit][0]
        subject = f"The CPU takes longer than the GPU{'' if balance.answer in _ONE_GPU else 's'}"
        path = next(iter(bound.evidence.filter(limit=limit)["path_pct"]), 0.0)
        text = f"{subject}: {cause} is {whole_percent(path)} of a step."
        return Symptom(text, cause, path, limit, is_beside_gpu=True)
    text = f"{subject} for {share} of the time, because {cause}"
    if limit in _IN_A_PLACE and (place := _place_of(trace, rank, limit)):
        text += f", {place}"
    return Symptom(f"{text}.", cause, idle, limit)


def _is_beside_gpu(trace: Trace, rank: int, limit: str) -> bool:
    """Whether the GPU idles mainly during other work of the CPU, so the limit is not the reason for most idle time.

    If the GPU works while the CPU launches, and idles while the CPU does something else, then the steps are as long as
    all the CPU's work. The largest part of this work limits the steps, although the GPU idles during the other parts.
    """
    if limit not in _ON_PATH:
        return False
    times = device_times(trace, rank)
    own = sum(times.get(state, 0) for state in _ON_PATH[limit][1])
    others = [sum(times.get(state, 0) for state in states) for _, states in _ON_PATH.values()]
    return 2 * own < max(others)


def _place_of(trace: Trace, rank: int, limit: str) -> str:
    """The place with the largest part of a limit; empty if this place is not the user's."""
    row = slowest_place(trace, rank, limit)
    if row is None or row["kind"] not in _OF_USER:
        return ""
    if row["kind"] == "sampled":
        return f"most likely in {place_words(row, short=True)}"
    whole = pl.DataFrame(slowest_places(trace, rank=rank)).filter(limit=limit)["path_pct"].sum()
    how = "most of the time in" if row["path_pct"] >= whole / 2 else "the largest part in"
    return f"{how} {place_words(row, short=True)}"


def _some_steps_wait(trace: Trace, rank: int) -> str:
    """A sentence on the steps waiting longer for data, such as every nth step; empty without such a kind of steps."""
    kinds = trace.query("step_kinds", rank=rank)
    slow = kinds.filter((pl.col("kind") > 0) & (pl.col("cause") == "load_data")).sort("total_ns", descending=True)
    if slow.is_empty():
        return ""
    row = slow.row(0, named=True)
    longer = duration(row["cause_ns"])
    if row["every"]:
        return f"Every {ordinal(row['every'])} step waits {longer} longer for data"
    which = f"{row['step_count']:,} of {kinds['step_count'].sum():,} steps"
    return f"{which} {'waits' if row['step_count'] == 1 else 'wait'} {longer} longer for data"


def _computing(bound: Finding, ops: Finding, balance: Finding) -> Symptom:
    """The symptom of a busy GPU, with the largest op or kernel."""
    busy = bound.numbers.get("gpu_busy_pct") or 0.0
    verb = "The GPU is busy" if balance.answer in _ONE_GPU else "The GPUs are busy"
    # Work that is not in the file may make the GPU busier.
    is_exact = (bound.numbers.get("gpu_busy_most_pct") or busy) - busy < _APART_PCT
    text = f"{verb} for {'' if is_exact else 'at least '}{whole_percent(busy)} of the time"
    part = ops.numbers.get("gpu_self_pct", ops.numbers.get("gpu_time_pct"))
    if part is None:
        return Symptom(f"{text}.", verb, busy, "computing")
    cause = f"{'most of it' if part >= _HALF_PCT else 'the largest part'} in {op_name(ops.answer)}"
    return Symptom(f"{text}, {cause}.", cause, busy, "computing")


def _communicating(trace: Trace, rank: int, balance: Finding) -> Symptom:
    """The symptom of a GPU that communicates: the time without computing beside it, as in the legend."""
    times = device_times(trace, rank)
    share = 100 * times.get("communication", 0) / max(1, sum(times.values()))
    is_one = balance.answer in _ONE_GPU
    subject, verb = ("The GPU", "communicates") if is_one else ("The GPUs", "communicate")
    cause = f"only {verb}"
    text = f"{subject} {cause} for {whole_percent(share)} of the time."
    return Symptom(text, cause, share, "communication")


def op_name(name: str) -> str:
    """The name of an op without the `aten::` prefix."""
    return shorten(safe(name.removeprefix("aten::")), _LONGEST_NAME)


def _other_ranks(trace: Trace, rank: int, share: float) -> Symptom:
    cause = waiting_noun(trace, rank)
    text = f"Rank {rank} spends {whole_percent(share)} of the time {cause}."
    return Symptom(text, cause, share, "other_ranks", "Waiting for other ranks")


def _of_cpu(
    trace: Trace,
    rank: int,
    shares: Mapping[str, float],
    bound: Finding,
    optimizer: Finding,
    ops: Finding,
    phases: Sequence[PhaseTime],
) -> Symptom:
    """The symptom of a trace without GPU work: a place in the user's code, the optimizer, a wait, or computing."""
    found = [_of_place(trace, rank, phases)]
    optimizer_pct = optimizer.numbers.get("optimizer_pct") or 0.0
    without = optimizer.numbers.get("without_ns")
    cause = "The optimizer"
    text = f"{cause} takes {whole_percent(optimizer_pct)} of the time."
    found.append(Symptom(text, cause, optimizer_pct, "optimizer", cause, None if without is None else int(without)))
    # As in the table of phases: the mean of all counted steps, not the typical step alone.
    loading = float(sum(each.share_pct for each in phases if each.phase == "load_data"))
    found.append(_loading(trace, rank, loading))
    found.append(_evaluating(trace, rank))
    found.append(_other_ranks(trace, rank, shares.get("other_ranks", 0.0)))
    wait = shares.get("other_thread", 0.0)
    cause = "waits for another thread"
    text = f"The CPU {cause} for {whole_percent(wait)} of the time."
    found.append(Symptom(text, cause, wait, "other_thread", "Another thread"))
    largest = max((each for each in found if each is not None), key=lambda each: each.share_pct or 0.0)
    limits = bound.evidence
    compute = sum(shares.get(limit, 0.0) for limit in ("cpu_tensor", "launching"))
    if (largest.share_pct or 0.0) >= min(compute, bound.thresholds.get("largest_pct", compute)):
        return largest
    part = ops.numbers.get("cpu_self_pct")
    slowest = slowest_place(trace, rank)
    is_of_user = slowest is not None and slowest["kind"] in _OF_USER
    # A function with more of the time than any op or module says more than the sum of all ops, unless it has little.
    least = max(compute * (part or 0.0) / 100, bound.thresholds.get("balanced_pct", 0.0))
    if found[0] is not None and is_of_user and (found[0].share_pct or 0.0) > least:
        return found[0]
    python = sum(shares.get(limit, 0.0) for limit in _IN_A_PLACE)
    if python > compute:
        cause = "runs python between the ops"
        text = f"The CPU {cause} for {whole_percent(python)} of the time."
        without_python = limits.filter(pl.col("limit").is_in(_IN_A_PLACE))["without_ns"].min()
        return Symptom(text, cause, python, "", "Python between ops", without_python)  # type: ignore[arg-type]
    text = f"The CPU computes for {whole_percent(compute)} of the time"
    if part is None:
        return Symptom(f"{text}.", "computes", compute, "", COMPUTING)
    cause = f"{'most of it' if part >= _HALF_PCT else 'the largest part'} in {op_name(ops.answer)}"
    return Symptom(f"{text}, {cause}.", cause, compute, "", COMPUTING)


def _is_loop(trace: Trace, rank: int, row: Mapping[str, Any]) -> bool:
    """Whether the function of a row of `slowest_places` is the training loop, or code around it."""
    pieces = place_pieces(trace, rank)
    return bool(pieces.filter(kind=row["kind"], place=row["place"])["is_loop"].any())


def _loading(trace: Trace, rank: int, share: float) -> Symptom:
    """The symptom of a CPU that loads data, with the user's slowest place in loading.

    In a trace of bare ops, only the position before the model tells that the time is loading. A checkpoint or a log has
    the same position.
    """
    cause = "loads data"
    text = f"The CPU {cause} for {whole_percent(share)} of the time"
    if place := _place_of(trace, rank, "load_data"):
        text += f", {place}"
    elif not shows_loading(trace, rank):
        cause = "probably loads data"
        where = "between the steps, before the model"
        text = f"For {whole_percent(share)} of the time, the CPU works {where}: it {cause}"
        return Symptom(f"{text}.", cause, share, "load_data", "Probably loading data")
    return Symptom(f"{text}.", cause, share, "load_data", "Loading data")


def _evaluating(trace: Trace, rank: int) -> Symptom | None:
    """The symptom of evaluations in some steps."""
    kinds = trace.query("step_kinds", rank=rank)
    steps = kinds.filter((pl.col("kind") > 0) & (pl.col("cause") == "evaluation"))
    if steps.is_empty():
        return None
    share = steps.select((pl.col("cause_ns") * pl.col("step_count") / pl.col("total_ns") * pl.col("loop_pct")).sum())
    cause = "Evaluation"
    which = f"{steps['step_count'].sum():,} of {kinds['step_count'].sum():,} steps"
    text = f"{cause} takes {whole_percent(share.item())} of the time, in {which}."
    return Symptom(text, cause, share.item(), "evaluation", cause, part="evaluation")


def _of_place(trace: Trace, rank: int, phases: Sequence[PhaseTime]) -> Symptom | None:
    """The symptom of the user's slowest place, or of unnamed code if the latter takes longer; `None` for loading.

    Ops outside all modules are beside the phases of a loop: unnamed, or of the function or region around them. In a
    trace without phases, such ops are the program's own computing, which nothing holds up.
    """
    rows = slowest_places(trace, rank=rank).filter(pl.col("kind").is_in([*_OF_USER, "rest"]))
    if rows.is_empty() or not rows["path_ns"][0]:
        return None
    row: dict[str, Any] = rows.row(0, named=True)
    if row["phase"] == "load_data":
        return None  # loading is a symptom of its own, which names this place
    share, words = row["path_pct"], place_words(row, short=True)
    has_phases = any(each.phase != "other" for each in phases)
    if row["limit"] not in _IN_A_PLACE and not has_phases:
        return None
    if row["kind"] == "rest":
        if row["limit"] not in _IN_A_PLACE and row["phase"] != "other":
            return None
        cause = f"code that has no name in the trace, {words}"
        text = f"For {whole_percent(share)} of the time, the CPU runs {cause}."
        found = Symptom(text, cause, share, _PLACE, "Code without a name", part="code without a name")
    elif row["kind"] in ("frame", "region"):
        if row["kind"] == "region":
            cause, answer = words.replace("the region", "Your region", 1), "Your region"
        elif _is_loop(trace, rank, row):
            # The function calls the model, too, but the time is of its other lines.
            cause, answer = f"Your code in the loop of {words}", "Code in your loop"
        else:
            cause, answer = f"Your function {words}", "Your function"
        found = Symptom(f"{cause} takes {whole_percent(share)} of the time.", cause, share, _PLACE, answer)
    else:
        takes = "most likely takes" if row["sampled_pct"] >= SURELY_PCT else "likely takes up to"
        text = f"Your function {words} {takes} {whole_percent(share)} of the time."
        found = Symptom(text, f"Your function {words}", share, _PLACE, "Your python")
    without_ns = row["step_ns"] - row["path_ns"]
    part = found.part or shorten(safe(row["place"]), _LONGEST_NAME)
    place = (row["kind"], row["place"])
    return replace(found, part=part, phase=row["phase"] or "other", without_ns=without_ns, place=place)
