"""The head of the report: facts of the run, and a few sentences on the run's limit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from hotline_analysis.answers.finding import Finding
from hotline_analysis.answers.limits import StepLoop
from hotline_analysis.answers.places import place_words, slowest_place
from hotline_analysis.answers.recorded import without_gpu_work
from hotline_analysis.answers.verdicts import VERDICTS
from hotline_analysis.reports.content import OF_A_JOB
from hotline_analysis.reports.sections.given import given
from hotline_analysis.reports.sections.links import slow_link
from hotline_analysis.reports.sections.recapture import INFERRED
from hotline_analysis.reports.sections.recorder import recorder
from hotline_analysis.reports.sections.stragglers import late_rank
from hotline_analysis.run.stored import missing_ranks
from hotline_analysis.run.trace import Trace
from hotline_analysis.text.formats import duration, lost_events, percent, runs, safe

_INCOMPLETE = " Events are missing from the file, so figures and answers may be wrong."
_WRONG = " Some of the file is wrong (see damage), so figures and answers may be wrong."
_SECOND_PCT = 5.0  # minimum share of the step for a sentence on the second largest limit
_APART_PCT = 10.0  # explain a difference of at least this share between a step and its mark
_IN_THE_CODE = ("python", "load_data", "unrecorded")  # limits better described by a place in the code
_UNSHARED = {"unbalanced": "The GPUs do not share the work:", "in-turns": "The GPUs do not work side by side:"}
_OTHERS = 4  # maximum number of processes or recordings to name
_FASTER = 1.02  # smaller speedups are reported as no gain


def facts(
    trace: Trace, info: dict[str, Any], steps: pl.DataFrame, has_gpu: bool, loop: StepLoop | None
) -> dict[str, str]:
    """Facts of the run by name, in order: device, ranks, steps, events, profiler flags, damage."""
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
    no_device = "GPU" if has_gpu else without_gpu_work(trace, rank)
    found = {
        "device": ", ".join(devices) + ("" if has_gpu else ", whose work takes no time") if devices else no_device,
        "ranks": ("rank " if len(trace.ranks) == 1 else "ranks ") + runs(trace.ranks) + world,
        **_places(trace),
        **_processes(trace),
        **_recordings(trace, rank),
        **_of_the_job(trace),
        "steps": _steps(steps, loop),
        "events": f"{info['event_count']:,} in {duration((info['end_ns'] or 0) - (info['start_ns'] or 0))}",
        "recorded": ", ".join(flags) if flags else "times only (no stacks, shapes or memory)",
    }
    if recorded_by := recorder(info["metadata"]):
        found["recorder"] = recorded_by
    found |= given(info["metadata"], loop.mean_ns if loop and loop.loops else None, frozenset(found))
    if info["damage"]:
        lost = lost_events(info["lost_event_count"], info["truncated"])
        if info["rank_source"] == "process" and not info["lost_event_count"]:
            lost = "this rank lacks none"
        found["damage"] = f"{safe(info['damage'])}; {lost}"
    return found


def _places(trace: Trace) -> dict[str, str]:
    """The only rank's position in the parallel groups. Several ranks are listed in the table of ranks instead."""
    if len(trace.ranks) > 1:
        return {}
    (part,) = trace.manifest["parts"]
    told = [f"{name.upper()} {part[name]}" for name in ("tp", "pp", "dp", "ep") if part.get(name) is not None]
    return {"place": ", ".join(told)} if told else {}


def _processes(trace: Trace) -> dict[str, str]:
    """Processes of the job without a rank: front ends, servers, data workers."""
    others = trace.manifest.get("processes", [])
    if not others:
        return {}
    told = [f"{safe(other['name'])} ({other['event_count']:,} events)" for other in others[:_OTHERS]]
    more = f" and {len(others) - _OTHERS:,} more" if len(others) > _OTHERS else ""
    return {"besides": f"{', '.join(told)}{more}: without rank, GPU work and training; not in this report"}


def _recordings(trace: Trace, rank: int) -> dict[str, str]:
    """The recordings combined into a rank; empty for a single recording."""
    found = next(part for part in trace.manifest["parts"] if part["rank"] == rank).get("recordings", [])
    if not found:
        return {}
    told = [f"{safe(each['file'])} ({duration(each['end_ns'] - each['start_ns'])})" for each in found[:_OTHERS]]
    more = f" and {len(found) - _OTHERS:,} more" if len(found) > _OTHERS else ""
    between = f"{'; '.join(told)}{more}, one after the other without the time between them"
    return {"files": f"{len(found)} recordings of one process: {between}"}


def _of_the_job(trace: Trace) -> dict[str, str]:
    """Problems of the job rather than of one rank: missing ranks, a slow link, and a late rank."""
    said = missing_ranks(trace.manifest["parts"]), slow_link(trace), late_rank(trace)
    return {name: text for name, text in zip(OF_A_JOB, said, strict=True) if text}


def _steps(steps: pl.DataFrame, loop: StepLoop | None) -> str:
    """The number of steps and the mean duration, measured from work to work."""
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
    """Sentences on the longest phase and on the place with most of the step's limit; empty if ops are more specific."""
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
    return f"{phase} {_in_words(row, is_part=in_code and bound.answer != 'balanced')}".lstrip()


def _in_words(row: Mapping[str, Any], *, is_part: bool) -> str:
    """The place and the share of the step, as a sentence. With `is_part`, the sentence continues the previous one."""
    where, share = place_words(row), f"{percent(row['path_pct'])} of the step"
    subject = "The largest part of that" if is_part else "The slowest place"
    if row["kind"] == "rest":
        return f"{subject} has no name in the trace: {where}, {share}."
    if not is_part:
        return f"The slowest place is {where}: {share}."
    certain = where.removeprefix("most likely ")
    likely = "most likely " if certain != where else ""
    return f"The largest part of that is {likely}in {certain}: {share}."


def headline(
    bound: Finding, place: str, info: Mapping[str, Any], *, waiting: str = "", balance: Finding | None = None
) -> str:
    """A few sentences: the largest parts of the step, the speedup without each part, and the slowest place.

    `info` is the row of `rank_info`: the last sentence describes the file's damage. `waiting` is a noun for the ranks
    that the step waits for, or empty if unknown. `balance` is the finding on work sharing between several GPUs.
    """
    said = _sentences(bound, place, waiting)
    if balance is not None and balance.answer in _UNSHARED and bound.answer != "no-run":
        said += f" {_UNSHARED[balance.answer]} {balance.statement}"
    is_incomplete = info["lost_event_count"] or info["truncated"]
    damage = (_INCOMPLETE if is_incomplete else _WRONG) if info["damage"] else ""
    return said + damage


def _sentences(bound: Finding, place: str, waiting: str) -> str:
    limits = bound.evidence.filter(pl.col("path_pct") > 0)
    if bound.answer == "no-run":
        return bound.statement
    first = limits.filter(pl.col("limit") != "unobserved") if bound.answer != "unobserved" else limits
    if first.is_empty():
        return bound.statement
    if bound.answer == "balanced":
        return f"{_balanced(bound.numbers)} {place}".rstrip()
    largest, *rest = first.rows(named=True)
    # Without a GPU, "CPU tensors" would be redundant: all tensors are on the CPU.
    nouns = {limit: verdict.noun for limit, verdict in VERDICTS.items()}
    if waiting:
        nouns["other_ranks"] = waiting
    if bound.answer == "no-gpu":
        nouns["cpu_tensor"] = "ops on the CPU"
    noun = nouns[largest["limit"]]
    shown = float(first["path_pct"].sum())
    share = 100 * largest["path_pct"] / shown
    most = "Mostly" if share >= 50 else "The largest part is"
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


def _balanced(numbers: Mapping[str, Any]) -> str:
    """A sentence for a balanced loop, with the gain without the GPU's work and without the CPU's work."""
    gains = [
        f"{percent(numbers[f'without_{side.lower()}_gain_pct'])} shorter without the work of the {side}"
        for side in ("GPU", "CPU")
    ]
    return f"The GPU and the CPU take about as long: a step would be only {' and '.join(gains)}."


def _s(noun: str) -> str:
    return "" if noun.startswith(("ops", "copies", "calls")) else "s"


def _faster(speedup: float) -> str:
    """The step's maximum speedup without a part of the step."""
    if speedup < _FASTER:
        return "no faster without it, as other work takes as long"
    return f"{speedup:,.2f} times faster without it" if speedup < 100 else "over 100 times faster without it"
