"""Asks the project about a recorded loop, and compares with the oracle."""

from __future__ import annotations

from pathlib import Path

import hotline_analysis as ha
from hotline_analysis import Trace
from tests.campaign.loops.oracle import Answers, Kind, answers
from tests.campaign.loops.plan import Plan
from tests.campaign.loops.record import recorded

SAMPLES = 64
_SHARE = 2.0
"""Points by which shares of the loop may differ: the typical step of a kind stands for steps with 3 % of jitter."""
_TIME = 0.002
"""The share by which times may differ: launch calls are microseconds of steps of milliseconds."""
_CAUSES = ("load_data", "profiler", "sync", "launching", "python")
NAMES = {
    "optimizer": ("with optimizer", "with communication and optimizer", "with optimizer and communication"),
    "evaluation": ("with evaluation",),
    "save checkpoint": ("with save checkpoint",),
    "late": ("waits for data",),
    "slow": ("longer forward",),
}
"""The right names of a kind that has one part more than the usual kind."""


def disagreements(plan: Plan, folder: Path) -> list[str]:
    """Each answer about the loop of a plan that is not the oracle's, as a sentence."""
    right = answers(plan)
    path = recorded(plan)[0].write(folder / "loop.json")
    with ha.load(path) as trace:
        return [*_loop(trace, right), *_kinds(trace, right), *_limits(trace, right), *_idle(trace, right)]


def _loop(trace: Trace, right: Answers) -> list[str]:
    found = []
    lengths = ha.step_lengths(trace)
    roles = {
        number: "counted" if role in ("typical", "usual") else role
        for number, role in lengths.select("step", "role").rows()
    }
    if roles != right.roles:
        wrong = {number: (roles.get(number), role) for number, role in right.roles.items() if roles.get(number) != role}
        return [f"roles: {wrong}"]
    limits = ha.step_limits(trace)
    mean = float(limits["step_ns"][0])
    if not _alike(mean, 1000 * right.mean):
        found.append(f"mean step: {mean / 1000:.0f} us, right is {right.mean:.0f}")
    rate = float(ha.throughput(trace, samples=SAMPLES)["samples_per_s"][0])
    if not _alike(rate, 1e6 * SAMPLES / right.mean):
        found.append(f"throughput: {rate:.1f} samples/s, right is {1e6 * SAMPLES / right.mean:.1f}")
    return found


def _alike(value: float, right: float) -> bool:
    return abs(value - right) <= _TIME * right


def _kinds(trace: Trace, right: Answers) -> list[str]:
    if right.kinds is None:
        return []
    rows = ha.step_kinds(trace).to_dicts()
    lengths = ha.step_lengths(trace)
    steps = {row["kind"]: frozenset(lengths.filter(kind=row["kind"])["step"]) for row in rows}
    if set(steps.values()) != {kind.steps for kind in right.kinds}:
        told = [(row["name"], sorted(steps[row["kind"]])) for row in rows]
        return [f"kinds: {told}, right are {[(sorted(kind.parts), sorted(kind.steps)) for kind in right.kinds]}"]
    found = []
    for row in rows:
        kind = next(each for each in right.kinds if each.steps == steps[row["kind"]])
        share = 100 * kind.total / right.loop
        if abs(row["loop_pct"] - share) > 100 * _TIME:
            found.append(f"kind {row['name']!r}: {row['loop_pct']:.2f} % of the loop, right is {share:.2f} %")
        names = _names(right.kinds, kind)
        if names and row["name"] not in names:
            found.append(f"kind {row['name']!r}: right is one of {names}")
    return found


def _names(all_kinds: tuple[Kind, ...], kind: Kind) -> tuple[str, ...]:
    """The right names of a kind; none where truth has no single name."""
    usual = all_kinds[0]
    if len(all_kinds) > 1 and len(usual.steps) == len(all_kinds[1].steps):
        return ()
    more = kind.parts - usual.parts
    if kind is usual:
        return ("usual",)
    return NAMES[next(iter(more))] if len(more) == 1 and not usual.parts - kind.parts else ()


def _limits(trace: Trace, right: Answers) -> list[str]:
    rows = dict(ha.step_limits(trace).select("limit", "path_pct").rows())
    shares = {limit: 100 * time / right.loop for limit, time in right.limits.items()}
    wrong = {
        limit: (round(rows.get(limit, 0.0), 1), round(shares.get(limit, 0.0), 1))
        for limit in sorted(rows.keys() | shares.keys())
        if abs(rows.get(limit, 0.0) - shares.get(limit, 0.0)) > _SHARE
    }
    return [f"limits (told, right): {wrong}"] if wrong else []


def _idle(trace: Trace, right: Answers) -> list[str]:
    if not right.idle:
        return []
    numbers = [number for number, role in right.roles.items() if role == "counted"]
    use = ha.device_use(trace)
    steps = use.filter((use["scope"] == "step") & use["step"].is_in(numbers))
    told = {cause: float(steps[f"{cause}_ns"].sum()) / 1000 for cause in _CAUSES}
    wrong = {
        cause: (round(told[cause]), round(right.idle.get(cause, 0.0)))
        for cause in _CAUSES
        if abs(told[cause] - right.idle.get(cause, 0.0)) > _SHARE / 100 * right.loop
    }
    return [f"idle time of the GPU (told, right): {wrong}"] if wrong else []
