"""The picture on the first screen of a page, and what stands beside it: marks, the legend and the places of actions.

The figures agree with the sentence. Shares of a device refer to the observed time and add up to 100. Times refer to a
mean step.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from hotline_analysis.answers import generated as answers
from hotline_analysis.answers.detail import median_step
from hotline_analysis.answers.finding import Finding
from hotline_analysis.answers.limits import StepLoop
from hotline_analysis.answers.place_pieces import place_pieces
from hotline_analysis.answers.rules import SLOWEST, UNNAMED, Advice, found_rows
from hotline_analysis.reports.content import Action, PhaseTime
from hotline_analysis.reports.observed import device_times, observed_time
from hotline_analysis.reports.picture import LARGE, Picture, step_picture
from hotline_analysis.reports.sections.actions import OF_A_PLACE
from hotline_analysis.reports.sections.sentence import COMPUTING, Symptom, limit_of
from hotline_analysis.run.trace import Trace
from hotline_analysis.text.formats import duration, readable_unit, safe, shorten, shorten_place
from hotline_analysis.vocabulary import USE_CAUSES, idle_title

_APART = 0.1  # explain a difference of at least this share between a step and its marks
_APART_PCT = 1.0  # as in the sentence: bounds of a share closer than this are shown as one number
_PLACE = 52  # maximum length of a place on a card, in characters
_PLACES = 1500  # distinguishable ticks on a screen; closer neighbours are merged
_ROW_PCT = 2.0  # smaller parts of the step are summed in the last row
_SHORTER = 0.85  # show a chip if a step without the profiler may be below this share
_STATES: Mapping[str, str] = {"computing": "computation", "communication": "communication", "copying": "memory"}
"""States of a device in `step_bars` by limit of a step. Other limits have the same name in both."""
ON_DEVICE: Mapping[str, str] = {
    "computation": "GPU computes",
    "communication": "GPU only communicates",
    "memory": "GPU only copies",
}
ON_THREAD: Mapping[str, str] = {
    "sync": "waits for the GPU",
    "other_ranks": "waits for other ranks",
    "other_thread": "waits for another thread",
    "profiler": "the profiler works",
}
_ON_THREAD = ("load_data", "sync", "other_ranks", "other_thread", "profiler")
"""Limits shown in the timeline's CPU row as a separate phase or wait."""


@dataclass(frozen=True)
class Chip:
    """A label for the recording options or for a caveat. `link` is the anchor of the section with details."""

    text: str
    kind: str = ""
    """Empty, or `warn` for a caveat."""
    link: str = ""


@dataclass(frozen=True)
class Part:
    """A part of the loop: one state of the device or of the main thread. Shares are whole percent and add up to 100."""

    state: str
    words: str
    share: int
    is_hot: bool = False
    is_phase: bool = False


@dataclass(frozen=True)
class Change:
    """An action, with the places where the rule applies in the example step of each kind."""

    action: Action
    hint: str
    """How to record the line of code; empty if the line is known, or if the trace already has stacks."""
    where: str
    """The line, region or module with the largest part; empty if unknown."""
    count: int
    parts: str
    """The phases of the places, after their count: ` in backward`, or `: backward 174, optimizer 169`."""
    spans: Mapping[int, Sequence[tuple[int, int, int, int]]]
    """By step: start, end, number of places, and 0 for the CPU or 1 for a GPU."""

    @property
    def change(self) -> str:
        """The step before and after the change, in the same unit; or the time that a change tells more about."""
        if not self.action.gains:
            return self.action.change
        return _arrow(self.action.step_ns, self.action.after_ns)

    @property
    def range(self) -> str:
        """The predicted range of the step, or `at best` if the gain is an upper bound."""
        if self.action.low_ns is None or self.action.high_ns is None:
            return "at best"
        size, unit = readable_unit(self.action.step_ns)
        return f"{_digits(self.action.low_ns / size)} to {_digits(self.action.high_ns / size)} {unit}"


@dataclass(frozen=True)
class Kind:
    """A kind of steps, with an example step."""

    number: int
    name: str
    step: int
    count: int
    mean_ns: int
    loop_pct: float


@dataclass(frozen=True)
class Screen:
    """The content of the first screen, except the first line, the sentence, the answers and the timeline."""

    chips: Sequence[Chip]
    parts: Sequence[Part]
    whole: str
    """The whole of the shares, before the legend."""
    hot: str
    """The state in the accent colour: the limit of the step. Empty without a single limit."""
    changes: Sequence[Change]
    causes: Mapping[int, Sequence[tuple[int, int, int, int]]] = field(default_factory=dict)
    """The spans of the place that the sentence names, by step, as in `Change.spans`; empty for another cause."""
    kinds: Sequence[Kind] = field(default_factory=tuple)
    lengths: Sequence[tuple[int, int, int]] = field(default_factory=tuple)
    """Counted steps in order: number, length without the profiler's own work, and kind."""
    has_steps: bool = True
    """Whether anything tells steps apart; otherwise step 0 is the whole recording."""
    picture: Picture | None = None
    """The picture of the step for text and notebooks; None if the trace has no time to show."""


def first_screen(
    trace: Trace,
    rank: int,
    info: Mapping[str, Any],
    *,
    loop: StepLoop | None,
    bound: Finding,
    advice: Sequence[Advice],
    actions: Sequence[Action],
    phases: Sequence[PhaseTime],
    symptom: Symptom,
    unprofiled: Mapping[str, Any] | None,
    caveats: int,
) -> Screen:
    """The first screen of the report on a rank."""
    steps = trace.query("step_lengths", rank=rank)
    lengths = steps.filter(pl.col("kind").is_not_null()).sort("start_ns")
    has_steps = steps.filter(pl.col("evidence") != "whole_trace").height > 0
    kinds = _kinds(trace, rank, loop)
    limit = _limit(bound, symptom, actions)
    times = {} if bound.answer == "no-gpu" else device_times(trace, rank)
    is_shown = (times and not symptom.is_beside_gpu) or limit in (*_ON_THREAD, "optimizer")
    hot = _STATES.get(limit, limit) if is_shown else ""
    parts = _of_devices(times, hot, bound) if times else _of_phases(phases, hot, symptom)
    changes = _changes(trace, rank, advice, actions, has_stacks=bool(info["with_stack"]))
    causes = {} if times else _of_place(trace, rank, loop, symptom) or _of_ops(trace, rank, loop, symptom, phases)
    return Screen(
        chips=list(_chips(trace, info, loop, unprofiled, caveats)),
        parts=parts,
        whole="Of all observed time:" if times else "Of a mean step:" if has_steps else "Of the whole recording:",
        hot=hot,
        changes=changes,
        causes=causes,
        kinds=kinds,
        lengths=lengths.select("step", pl.col("length_ns") - pl.col("profiler_ns"), "kind").rows(),
        has_steps=has_steps,
        picture=None if bound.answer == "no-run" else _picture(trace, rank, steps, kinds, hot, changes, causes, parts),
    )


def _picture(
    trace: Trace,
    rank: int,
    steps: pl.DataFrame,
    kinds: Sequence[Kind],
    hot: str,
    changes: Sequence[Change],
    causes: Mapping[int, Sequence[tuple[int, int, int, int]]],
    parts: Sequence[Part],
) -> Picture | None:
    """The picture of the step that a page shows first: typical of the kind with the largest share of the time."""
    kind = max(kinds, key=lambda each: each.loop_pct, default=None)
    step = kind.step if kind is not None else median_step(trace, rank)
    counted = steps.filter(pl.col("kind").is_not_null()).height
    about = f", typical of {counted:,} steps" if counted > 1 else ""
    if kind is not None and len(kinds) > 1:
        about = f", typical of “{kind.name}”"
    row = next(steps.filter(step=step).iter_rows(named=True), None) if step is not None else None
    if row is None or row["evidence"] == "whole_trace":
        observed = observed_time(trace, rank)
        title = f"The whole recording, {{}}{about}"
    else:
        observed = row["start_ns"], row["end_ns"]
        # The sentence is on the step from work to work. Between the marks, a GPU may still do the work of another step.
        length = row["length_ns"]
        apart = length > 0 and abs(length - (row["end_ns"] - row["start_ns"])) > _APART * length
        if apart:
            observed = row["begin_ns"], row["begin_ns"] + length
        title = f"Step {step}, {{}} from work to work{about}" if apart else f"Step {step} of {{}}{about}"
    if observed is None:
        return None
    first = changes[0] if changes else None
    named = next((part.words for part in parts if part.state == "place"), "computes in ops") if causes else ""
    spans = causes or (first.spans if first is not None else {})
    return step_picture(
        trace,
        rank,
        title=title.format(duration(observed[1] - observed[0])),
        begin_ns=observed[0],
        end_ns=observed[1],
        hot=hot,
        spans=spans.get(-1 if step is None else step, ()),
        cause=named or (f"1. {first.action.title}" if first is not None else ""),
        # The sentence's own place is shown however short it is in this step.
        least=0.0 if causes else LARGE,
    )


def _of_place(
    trace: Trace, rank: int, loop: StepLoop | None, symptom: Symptom
) -> dict[int, list[tuple[int, int, int, int]]]:
    """The time of the place that the sentence names, in the typical step of each kind."""
    pieces = place_pieces(trace, rank)
    if loop is None or symptom.place is None or pieces.is_empty():
        return {}
    kind, place = symptom.place
    own = pieces.filter(pl.col("kind") == kind, pl.col("place") == place).with_columns(effect=pl.lit("host"))
    spans = {each.step: _spans(own.filter(step_kind=each.kind)) for each in loop.kinds}
    return {step: found for step, found in spans.items() if found}


def _of_ops(
    trace: Trace, rank: int, loop: StepLoop | None, symptom: Symptom, phases: Sequence[PhaseTime]
) -> dict[int, list[tuple[int, int, int, int]]]:
    """The time in ops, for a recording that computes and has no phases: the picture would be empty."""
    if loop is None or symptom.answer != COMPUTING or any(each.phase != "other" for each in phases):
        return {}
    spans = {}
    for kind in loop.kinds:
        ops = trace.of(rank).sql(
            "select start_ns, end_ns, 'host' as effect from host_activity"
            " where rank = $rank and step = $step and kind in ('cpu_tensor', 'launching')",
            rank=rank,
            step=kind.step,
        )
        spans[kind.step] = _spans(ops)
    return {step: found for step, found in spans.items() if found}


def _limit(bound: Finding, symptom: Symptom, actions: Sequence[Action]) -> str:
    """The limit named as the cause in the sentence; empty without a single limit."""
    limits = bound.evidence
    if bound.answer in ("balanced", "mixed", "no-run") or "limit" not in limits.columns or limits.is_empty():
        return ""
    shares: dict[str, float] = dict(limits.select("limit", "path_pct").rows())
    if bound.answer == "no-gpu":
        return symptom.limit if symptom.limit in (*_ON_THREAD, "optimizer") else ""
    return limit_of(bound, shares, actions)


def _kinds(trace: Trace, rank: int, loop: StepLoop | None) -> list[Kind]:
    if loop is None:
        return []
    examples = {kind.kind: kind.step for kind in loop.kinds}
    rows = answers.step_kinds(trace, rank=rank).filter(pl.col("kind").is_in(list(examples)))
    return [
        Kind(number, safe(name), examples[number], count, mean, share)
        for number, name, count, mean, share in rows.select(
            "kind", "name", "step_count", "mean_ns", "loop_pct"
        ).iter_rows()
    ]


def _chips(
    trace: Trace, info: Mapping[str, Any], loop: StepLoop | None, unprofiled: Mapping[str, Any] | None, caveats: int
) -> Iterable[Chip]:
    if info["damage"]:
        yield Chip("file damaged", "warn", "#facts")
    if unprofiled is not None and unprofiled["low_ns"] < _SHORTER * unprofiled["baseline_ns"]:
        size, unit = readable_unit(unprofiled["baseline_ns"])
        low, high = unprofiled["low_ns"], min(unprofiled["high_ns"], unprofiled["baseline_ns"])
        yield Chip(f"without profiler: {_digits(low / size)} to {_digits(high / size)} {unit}", "warn", "#caveats")
    if (info["world_size"] or 0) > len(trace.ranks):
        yield Chip(f"only {len(trace.ranks)} of {info['world_size']} ranks", "warn", "#facts")
    if loop is not None and loop.loops and loop.count < 3:
        yield Chip(f"only {loop.count} step{'s' if loop.count > 1 else ''}", "warn", "#steps")
    if caveats:
        yield Chip(f"{caveats} note{'s' if caveats > 1 else ''}", "warn", "#caveats")
    named = (("stacks", info["with_stack"]), ("shapes", info["record_shapes"]), ("memory", info["profile_memory"]))
    yield Chip("recorded: " + (", ".join(name for name, on in named if on) or "times only"))
    if any(on for _, on in named) and (missing := ", ".join(name for name, on in named if not on)):
        yield Chip(f"no {missing}")


def _of_devices(times: Mapping[str, int], hot: str, bound: Finding) -> list[Part]:
    """The devices' states in whole percent. The shares of busy time add up to the busy share in the sentence."""
    least, most = (bound.numbers.get(name) for name in ("gpu_busy_pct", "gpu_busy_most_pct"))
    total = sum(times.values())
    busy_ns = sum(time for state, time in times.items() if state in ON_DEVICE)
    busy = round(100 * busy_ns / total if least is None else least)
    unsure = max(0, round(most) - busy) if most is not None and least is not None and most - least >= _APART_PCT else 0
    apart = {*ON_DEVICE, *(["unobserved"] if unsure else [])}
    groups = (
        (busy, [state for state in ON_DEVICE if state in times]),
        (unsure, ["unobserved"] if unsure else []),
        (100 - busy - unsure, [state for state in times if state not in apart]),
    )
    parts = []
    for share, states in groups:
        large = [state for state in states if 100 * times[state] >= _ROW_PCT * total or state == hot]
        rest = sum(times[state] for state in states) - sum(times[state] for state in large)
        amounts = [*(times[state] for state in large), rest]
        for state, own in zip([*large, "rest"], _apportioned(amounts, share), strict=True):
            if own:
                words = "GPU: the rest" if states and states[0] in ON_DEVICE else "idle: the rest"
                parts.append(Part(state, words if state == "rest" else _words(state), own, state == hot))
    return parts


def _of_phases(phases: Sequence[PhaseTime], hot: str, symptom: Symptom) -> list[Part]:
    """The phases of the main thread, with small phases summed, and a cause that is a part of one or several phases."""
    shares = {each.phase: each.share_pct for each in phases}
    cause = []
    words = symptom.part or (ON_THREAD.get(hot, "") if hot not in shares else "")
    if words and symptom.share_pct is not None:
        own = left = min(round(symptom.share_pct), sum(shares.values()))
        for phase in sorted(shares, key=lambda name: (name != symptom.phase, -shares[name])):
            taken = min(left, shares[phase])
            shares[phase], left = shares[phase] - taken, left - taken
        cause = [Part(hot or "place", words, own, is_hot=True)]
    large = {phase: share for phase, share in shares.items() if share >= _ROW_PCT}
    parts = [
        Part(phase, phase.replace("_", " "), share, phase == hot, is_phase=True)
        for phase, share in sorted(large.items(), key=lambda each: -each[1])
    ]
    rest = sum(shares.values()) - sum(large.values())
    return [*cause, *parts, *([Part("rest", "the rest", rest, is_phase=True)] if rest else [])]


def _words(state: str) -> str:
    return ON_DEVICE.get(state) or (idle_title(state) if state in USE_CAUSES else state)


def _apportioned(amounts: Sequence[int], whole: int) -> list[int]:
    """Split a whole number in proportion to the amounts, by the largest-remainder method."""
    total = sum(amounts)
    if not total or whole <= 0:
        return [0 for _ in amounts]
    units = [whole * amount // total for amount in amounts]
    by_remainder = sorted(range(len(amounts)), key=lambda at: (-(whole * amounts[at] % total), at))
    for at in by_remainder[: whole - sum(units)]:
        units[at] += 1
    return units


def _changes(
    trace: Trace, rank: int, advice: Sequence[Advice], actions: Sequence[Action], *, has_stacks: bool
) -> list[Change]:
    """The actions, each with the places of the advice."""
    found = {(each.rule, each.what): each for each in advice}
    return [
        _change(trace, rank, found[each.rule, each.what], each, has_stacks=has_stacks)
        for each in actions
        if (each.rule, each.what) in found
    ]


def _change(trace: Trace, rank: int, advice: Advice, action: Action, *, has_stacks: bool) -> Change:
    found = {step: _counted(rows) for step, rows in found_rows(trace, rank, advice).items()}
    most = max(found.values(), key=lambda rows: rows.height, default=pl.DataFrame())
    is_one_place = _is_one_place(advice, most)
    where = _where(advice)
    return Change(
        action=action,
        where=where,
        hint="" if has_stacks or ":" in where else "with_stack=True tells the line",
        count=1 if is_one_place else advice.count,
        parts=_in_phases(trace, rank, most, is_one_place=is_one_place) if advice.rule not in _BETWEEN_EVENTS else "",
        spans={step: _spans(rows) for step, rows in found.items()},
    )


# Rules about time between events. Their rows have the next event, which may be in another phase.
_BETWEEN_EVENTS = (SLOWEST, UNNAMED)


def _is_one_place(advice: Advice, rows: pl.DataFrame) -> bool:
    """Whether the rows are pieces of one function, region or stretch between two phases."""
    if advice.rule in _BETWEEN_EVENTS:
        return True
    return advice.rule in OF_A_PLACE and "name" in rows.columns and rows["name"].n_unique() == 1


def _counted(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows counted by the advice: only the work if there is any, else all rows."""
    return rows.filter(effect="work") if (rows["effect"] == "work").any() else rows


def _where(advice: Advice) -> str:
    """The place of an advice on a place; else the line of code, the region or the module; empty without any."""
    if advice.rule == SLOWEST:
        place = advice.what.partition(" is ")[2].rpartition(": ")[0]
        return shorten_place(place, _PLACE) if place.endswith(")") else shorten(place, _PLACE)
    if advice.rule == UNNAMED:
        return shorten(advice.what.partition(", ")[2].rpartition(": ")[0], _PLACE)
    parts = [part for part in advice.where.split(", ") if part and not part.startswith("event ")]
    line = next((part for part in reversed(parts) if ":" in part), None)
    if line is not None:
        return shorten_place(line, _PLACE)
    return shorten(parts[0], _PLACE) if parts else ""


def _in_phases(trace: Trace, rank: int, rows: pl.DataFrame, *, is_one_place: bool) -> str:
    """Phases of the places: ` in backward`, or `: backward 174, optimizer 169`; empty unless a place is an event.

    One place in several phases has none: counts of its pieces would contradict the number of places.
    """
    if "event_id" not in rows.columns or rows["event_id"].drop_nulls().n_unique() < max(1, rows.height):
        return ""
    labels = trace.of(rank).sql(
        "select event_id, coalesce(phase, 'other') as phase from label"
        " where rank = $rank and event_id between $first and $last",
        rank=rank,
        first=rows["event_id"].min(),
        last=rows["event_id"].max(),
    )
    found = labels.join(rows.select("event_id"), on="event_id", how="semi")
    phases = found.group_by("phase").agg(count=pl.len()).sort("count", "phase", descending=[True, False])
    if phases.height == 1:
        (phase,) = phases["phase"]
        return "" if phase == "other" else f" in {phase.replace('_', ' ')}"
    if is_one_place:
        return ""
    return ": " + ", ".join(f"{phase.replace('_', ' ')} {count:,}" for phase, count in phases.head(3).rows())


def _spans(rows: pl.DataFrame) -> list[tuple[int, int, int, int]]:
    """The time spans of the places. Neighbours too close to distinguish on a screen are merged."""
    own = rows.filter(pl.col("start_ns").is_not_null() & pl.col("end_ns").is_not_null())
    if own.is_empty():
        return []
    begin: int = own["start_ns"].min()  # type: ignore[assignment]
    end: int = own["end_ns"].max()  # type: ignore[assignment]
    width = max(1, (end - begin) // _PLACES)
    merged = (
        own.with_columns(on_gpu=(pl.col("effect") == "work").cast(pl.Int64))
        .group_by("on_gpu", slot=(pl.col("start_ns") - begin) // width)
        .agg(start_ns=pl.col("start_ns").min(), end_ns=pl.col("end_ns").max(), count=pl.len().cast(pl.Int64))
        .sort("start_ns", "on_gpu")
    )
    return merged.select("start_ns", "end_ns", "count", "on_gpu").rows()


def _arrow(now: int, then: int) -> str:
    size, unit = readable_unit(now)
    return f"{_digits(now / size)} → {_digits(then / size)} {unit}"


def _digits(value: float, digits: int = 3) -> str:
    """A number with three digits as in `duration`, or with all digits of a larger integer: `26.1`, `0.45`, `1,234`."""
    for behind in range(digits - 1, 0, -1):
        rounded = int(abs(value) * 10**behind + 0.5)
        if rounded < 10**digits:
            return f"{rounded / 10**behind:.{behind}f}"
    return f"{int(abs(value) + 0.5):,}"
