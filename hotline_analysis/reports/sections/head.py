"""The head of the report: facts of the run, and what limits it in a sentence or two."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from hotline_analysis.answers.finding import Finding
from hotline_analysis.answers.limits import StepLoop
from hotline_analysis.answers.places import place_words, slowest_place
from hotline_analysis.answers.recorded import lacks_gpu_work
from hotline_analysis.answers.verdicts import VERDICTS
from hotline_analysis.reports.content import OF_A_JOB
from hotline_analysis.reports.sections.given import given
from hotline_analysis.reports.sections.links import slow_link
from hotline_analysis.reports.sections.recapture import INFERRED
from hotline_analysis.reports.sections.stragglers import late_rank
from hotline_analysis.run.stored import missing_ranks
from hotline_analysis.run.trace import Trace
from hotline_analysis.text.formats import duration, lost_events, percent, runs, safe

_INCOMPLETE = " Events are missing from the file, so figures and answers may be wrong."
_SECOND_PCT = 5.0  # from here on the second largest limit is worth a sentence
_APART_PCT = 10.0  # a step that differs so much from its mark is explained
_IN_THE_CODE = ("python", "load_data", "unrecorded")  # limits of which a place in the code says more
_FASTER = 1.02  # less is no gain


def facts(
    trace: Trace, info: dict[str, Any], steps: pl.DataFrame, has_gpu: bool, loop: StepLoop | None
) -> dict[str, str]:
    """What the run is: device, ranks, steps, events, flags of the profiler, damage; by name, in order."""
    rank = info["rank"]
    used = trace.of(rank).sql(
        "select distinct gpu_op.device, device.name from gpu_op"
        " left join device on gpu_op.rank = device.rank and gpu_op.device = device.device_id"
        " where gpu_op.rank = $rank order by all",
        rank=rank,
    )
    devices = [
        (safe(name) if name else "GPU") + (f" (device {number})" if number is not None else "")
        for number, name in used.rows()
    ]
    world = f" of {info['world_size']}" if info["world_size"] else ""
    flags = [
        word
        for word, on in (
            ("python stacks", info["with_stack"]),
            ("shapes", info["record_shapes"]),
            ("memory", info["profile_memory"]),
        )
        if on
    ]
    no_device = "GPU" if has_gpu else "no GPU work was read" if lacks_gpu_work(trace, rank) else "CPU only"
    found = {
        "device": ", ".join(devices) + ("" if has_gpu else ", whose work takes no time") if devices else no_device,
        "ranks": ("rank " if len(trace.ranks) == 1 else "ranks ") + runs(trace.ranks) + world,
        **_of_the_job(trace),
        "steps": _steps(steps, loop),
        "events": f"{info['event_count']:,} in {duration((info['end_ns'] or 0) - (info['start_ns'] or 0))}",
        "recorded": ", ".join(flags) if flags else "times only (no stacks, shapes or memory)",
    }
    found |= given(info["metadata"], loop.mean_ns if loop and loop.loops else None, frozenset(found))
    if info["damage"]:
        found["damage"] = f"{safe(info['damage'])}; {lost_events(info['lost_event_count'], info['truncated'])}"
    return found


def _of_the_job(trace: Trace) -> dict[str, str]:
    """What is wrong with the job, not with one rank: ranks that are missing, a slow link, and a rank that is late."""
    said = missing_ranks(trace.manifest["parts"]), slow_link(trace), late_rank(trace)
    return {name: text for name, text in zip(OF_A_JOB, said, strict=True) if text}


def _steps(steps: pl.DataFrame, loop: StepLoop | None) -> str:
    """How many steps there are, and how long they take on average, from work to work."""
    marked = steps.filter(pl.col("evidence") != "whole_trace")
    if marked.is_empty():
        return "none marked; the whole trace counts as one"
    if loop is None:
        return f"{marked.height:,}"
    said = f"{marked.height:,}, {'mean ' if loop.count > 1 else ''}{duration(loop.mean_ns)}"
    if loop.count > 1:
        least, most = min(kind.least_ns for kind in loop.kinds), max(kind.most_ns for kind in loop.kinds)
        between = "" if least <= loop.mean_ns <= most else " and the time between them"
        said += f" ({duration(least)} to {duration(most)}{between})"
    typical = loop.typical
    own_ns = loop.profiler_ns // loop.count
    if 100 * own_ns >= _APART_PCT * loop.mean_ns:
        said += f", without the profiler's own {duration(own_ns)} a step"
    mark = steps.filter(step=typical.step)["dur_ns"][0] - own_ns
    if 100 * abs(mark - typical.median_ns) > _APART_PCT * typical.median_ns:
        said += f" from work to work, {duration(mark)} between its marks on the CPU"
    return said + (f", inferred from {sign}" if (sign := INFERRED.get(marked["evidence"][0])) else "")


def named_place(trace: Trace, rank: int, bound: Finding, phases: pl.DataFrame) -> str:
    """Sentences on the longest phase and on the place with most of what limits the step; empty where ops say more."""
    limits = bound.evidence
    if limits.is_empty() or bound.answer == "no-run":
        return ""
    limit = limits["limit"][0]
    in_code = limit in _IN_THE_CODE
    longest = phases.filter(pl.col("cpu_ns") > 0).sort("cpu_ns", "phase", descending=[True, False])
    phase = ""
    if bound.answer == "no-gpu" and longest.height > 1 and longest["phase"][0] != "other":
        phase = f"The longest phase is {longest['phase'][0]}, {percent(longest['cpu_pct'][0])} of the steps."
    elif not in_code and bound.answer != "no-gpu":
        return ""
    if limit in ("other_ranks", "other_thread"):
        return phase
    row = slowest_place(trace, rank, limit if in_code else None)
    if row is None or row["path_pct"] < _SECOND_PCT or (phase and not in_code and row["kind"] in ("module", "phase")):
        return phase
    if phase and row["kind"] == "phase" and row["phase"] == longest["phase"][0]:
        return phase
    return f"{phase} {_in_words(row, is_part=in_code)}".lstrip()


def _in_words(row: Mapping[str, Any], *, is_part: bool) -> str:
    """The place, with its share of the step; with `is_part`, of what the sentence before is about."""
    where, share = place_words(row), f"{percent(row['path_pct'])} of the step"
    subject = "The largest part of that" if is_part else "The slowest place"
    if row["kind"] == "rest":
        return f"{subject} has no name in the trace: {where}, {share}."
    return f"The largest part of that is in {where}: {share}." if is_part else f"The slowest place is {where}: {share}."


def headline(bound: Finding, place: str, *, damaged: bool, waiting: str = "") -> str:
    """A few sentences: the largest parts of the step, how much faster it would be without, and the slowest place.

    `waiting` says for which ranks the step waits, where that is known.
    """
    return _sentences(bound, place, waiting) + (_INCOMPLETE if damaged else "")


def _sentences(bound: Finding, place: str, waiting: str) -> str:
    limits = bound.evidence.filter(pl.col("path_pct") > 0)
    if bound.answer == "no-run":
        return bound.statement
    first = limits.filter(pl.col("limit") != "unobserved") if bound.answer != "unobserved" else limits
    if first.is_empty():
        return bound.statement
    largest, *rest = first.rows(named=True)
    # Without a GPU, all tensors are on the CPU.
    nouns = {limit: verdict.noun for limit, verdict in VERDICTS.items()}
    if waiting:
        nouns["other_ranks"] = waiting
    if bound.answer == "no-gpu":
        nouns["cpu_tensor"] = "ops on the CPU"
    noun = nouns[largest["limit"]]
    shown = float(first["path_pct"].sum())
    share = 100 * largest["path_pct"] / shown
    most = "Mostly" if share >= 50 else "Above all,"
    if shown < 100 - _SECOND_PCT:
        return f"{most} {noun}: {percent(share)} of what the file explains, which is {percent(shown)} of the step."
    said = [f"{most} {noun}: {percent(largest['path_pct'])} of the step ({_faster(largest['speedup'])})."]
    if bound.answer == "no-gpu":
        said.insert(0, "The trace shows no GPU work.")
    if rest and rest[0]["path_pct"] >= _SECOND_PCT:
        noun = nouns[rest[0]["limit"]]
        adds = f"{noun[:1].upper()}{noun[1:]} add{_s(noun)}"
        said.append(f"{adds} {percent(rest[0]['path_pct'])} ({_faster(rest[0]['speedup'])}).")
    return " ".join([*said, place] if place else said)


def _s(noun: str) -> str:
    return "" if noun.startswith(("ops", "copies", "calls")) else "s"


def _faster(speedup: float) -> str:
    """What the step gains at most without a part of it."""
    if speedup < _FASTER:
        return "no faster without it, as other work takes as long"
    return f"{speedup:,.2f} times faster without it" if speedup < 100 else "over 100 times faster without it"
