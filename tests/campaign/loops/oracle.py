"""The right answers about a recorded loop, in plain Python from the truth, without the project's code."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise

from tests.campaign.loops.plan import Plan
from tests.campaign.loops.record import Activity, Kernel, Step, Truth, recorded

# Parts of a step are kinds of their own from 5 % of the step on; near this limit, truth does not say which.
_SURELY_A_KIND_PCT = 8
_SURELY_NONE_PCT = 3
# Steps are longer by more than noise from here on; and equally long up to there.
_SURELY_LONGER = 1.6
_SURELY_EQUAL = 1.03
_FIRST_IS_ALIKE_PCT = 5

LIMIT_OF = {"load_data": "load_data", "op": "launching", "python": "python", "sync": "sync"}


@dataclass(frozen=True)
class Counted:
    """A step that counts, from work to work."""

    step: Step
    begin: int
    done: int

    @property
    def length(self) -> int:
        return self.done - self.begin


@dataclass(frozen=True)
class Kind:
    """Steps that do the same: their numbers, their parts, and their time."""

    parts: frozenset[str]
    steps: frozenset[int]
    total: int


@dataclass(frozen=True)
class Answers:
    """What is right: times are microseconds of the program, without the profiler's own."""

    roles: dict[int, str]
    loop: int
    count: int
    limits: dict[str, float]
    """Microseconds of the loop by limit; with `between`, the whole loop."""
    idle: dict[str, float]
    """Time in which the GPU has no work in counted steps, by cause, with the profiler's own."""
    kinds: tuple[Kind, ...] | None
    """The usual kind first; None where kinds lie within noise."""

    @property
    def mean(self) -> float:
        return self.loop / self.count


def answers(plan: Plan) -> Answers:
    """The right answers about the loop of a plan."""
    program = recorded(plan, with_profiler=False)[1]
    steps = counted(program)
    loop = steps[-1].done - steps[0].begin
    roles = {step.number: step.role for step in program.steps}
    for each in program.steps:
        if each.role == "counted" and each.number not in {one.step.number for one in steps}:
            roles[each.number] = "warm_up"
    return Answers(roles, loop, len(steps), limits(program, steps), idle(plan), kinds(steps))


def counted(truth: Truth) -> list[Counted]:
    """The counted steps: each from when all earlier work is done to when all its own work is."""
    found = []
    for step in truth.steps:
        begin = max([step.start, *(each.end for each in truth.kernels if each.called < step.start)])
        done = max([step.end, *(each.end for each in truth.kernels if each.called < step.end)])
        found.append(Counted(step, begin, done))
    chosen = [each for each in found if each.step.role == "counted"]
    # The first iteration of a program is a warm-up, unless another step takes as long.
    first = found[0]
    if first.step.number == 0 and first.step.role == "counted":
        others = [each.length for each in found[1:] if each.step.role != "empty"]
        if not any(abs(length - first.length) <= _FIRST_IS_ALIKE_PCT / 100 * length for length in others):
            chosen = chosen[1:]
    return chosen


def limits(truth: Truth, steps: list[Counted]) -> dict[str, float]:
    """The critical path of the loop, walked backward from its end, by limit."""
    pieces = _path(truth, steps[0].begin, steps[-1].done)
    found: dict[str, float] = defaultdict(float)
    for step in steps:
        for start, end, limit in pieces:
            time = min(end, step.done) - max(start, step.begin)
            if time > 0:
                found[limit] += time
    between = steps[-1].done - steps[0].begin - sum(each.length for each in steps)
    if between:
        found["between"] = between
    return dict(found)


def _path(truth: Truth, first: int, last: int) -> list[tuple[int, int, str]]:
    """Pieces of the critical path between two times: start, end and limit."""
    pieces: list[tuple[int, int, str]] = []
    kernels, ends = truth.kernels, [each.end for each in truth.activities]
    place = next((number for number, each in enumerate(kernels) if each.end == last), None)
    at = last
    while at > first:
        if place is not None:
            kernel = kernels[place]
            pieces.append((kernel.start, at, "communication" if kernel.is_communication else "computing"))
            at = kernel.start
            if kernel.is_queued:
                place -= 1
            else:
                pieces.append((kernel.called, at, "launching"))
                at, place = kernel.called, None
            continue
        activity = truth.activities[bisect_left(ends, at)]
        start = activity.start
        if activity.what == "sync":
            place = _waited_for(kernels, activity)
            start = start if place is None else kernels[place].end
        pieces.append((start, at, _limit(truth, activity)))
        at = start
    return pieces


def _limit(truth: Truth, activity: Activity) -> str:
    limit = LIMIT_OF[activity.what]
    return "cpu_tensor" if limit == "launching" and not truth.plan.gpu else limit


def _waited_for(kernels: list[Kernel], sync: Activity) -> int | None:
    """The kernel for which a synchronise waits."""
    ended = [number for number, each in enumerate(kernels) if sync.start < each.end <= sync.end]
    return ended[-1] if ended else None


def idle(plan: Plan) -> dict[str, float]:
    """Why the GPU has no work in counted steps, by what the CPU does meanwhile, as recorded."""
    truth = recorded(plan)[1]
    found: dict[str, float] = defaultdict(float)
    if not plan.gpu:
        return {}
    spans = [(each.step.start, each.step.end) for each in counted(truth)]
    starts = [start for start, _ in spans]
    inside = [
        each
        for each in truth.activities
        if (place := bisect_right(starts, each.start)) and each.start < spans[place - 1][1]
    ]
    ends = [each.end for each in inside]
    first, last = truth.steps[0].start, truth.activities[-1].end
    border = [Kernel(at, at, at, False, False) for at in (first, max(last, truth.kernels[-1].end))]
    for before, after in pairwise([border[0], *truth.kernels, border[1]]):
        # until the next work is launched, and then until the launch has its effect
        for activity in inside[bisect_right(ends, before.end) :]:
            if activity.start >= after.start:
                break
            time = min(activity.end, after.start) - max(activity.start, before.end)
            found["launching" if activity.what == "op" else activity.what] += max(0, time)
    return dict(found)


def kinds(steps: list[Counted]) -> tuple[Kind, ...] | None:
    """Counted steps by their parts; None where a part is neither surely a kind of its own nor surely none."""
    seen = set().union(*(each.step.parts for each in steps))
    traits = set()
    for part in seen & {"optimizer", "evaluation", "save checkpoint"}:
        own = [each for each in steps if part in each.step.parts]
        if len(own) == len(steps):
            continue
        shares = [100 * each.step.parts[part] / max(each.length, each.step.end - each.step.start) for each in own]
        if min(shares) >= _SURELY_A_KIND_PCT:
            traits.add(part)
        elif max(shares) > _SURELY_NONE_PCT:
            return None
    groups: dict[frozenset[str], list[Counted]] = defaultdict(list)
    for each in steps:
        groups[frozenset(each.step.parts) & frozenset(traits)].append(each)
    found: list[Kind] = []
    for parts, members in groups.items():
        longer = {part for each in members for part in each.step.parts} & {"late", "slow"}
        long = [each for each in members if longer & set(each.step.parts)]
        short = [each for each in members if not longer & set(each.step.parts)]
        if short and max(each.length for each in short) > _SURELY_EQUAL**3 * min(each.length for each in short):
            return None  # parts of less than a kind, or the jitter
        if not long:
            found.append(_kind(parts, members))
            continue
        if len(longer) > 1:
            return None
        if not short or max(e.length for e in members) <= _SURELY_EQUAL * min(e.length for e in members):
            found.append(_kind(parts | longer if not short else parts, members))
            continue
        if min(each.length for each in long) < _SURELY_LONGER * max(each.length for each in short):
            return None
        found += [_kind(parts, short), _kind(parts | longer, long)]
    found.sort(key=lambda kind: (-len(kind.steps), kind.total))
    return tuple(found)


def _kind(parts: frozenset[str], members: list[Counted]) -> Kind:
    numbers = frozenset(each.step.number for each in members)
    return Kind(parts, numbers, sum(each.length for each in members))
