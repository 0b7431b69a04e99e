"""Waiting in collectives: how long a rank waits for other ranks, and which rank is late and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from hotline_analysis.answers.generated import ranks, straggler_causes, stragglers
from hotline_analysis.answers.verdicts import VERDICTS
from hotline_analysis.run.trace import Trace
from hotline_analysis.text.formats import duration, safe

# Minimum wait of each other rank for a late rank, in percent of the late rank's step time.
_WAIT_PCT = 5.0
# Minimum share of all waiting caused by the late rank. By chance, each of n ranks causes 1/n of the waiting; a single
# late rank causes all. The bound is half-way between the two.
_BLAME = 0.5
_NONE = pl.DataFrame(schema={"late_rank": pl.Int64, "name": pl.String, "wait_ns": pl.Int64})
_SPELLED = {"allreduce": "all_reduce", "allgather": "all_gather", "reducescatter": "reduce_scatter"}
_SPELLED |= {"alltoall": "all_to_all"}


def cpu_waits(trace: Trace, rank: int, steps: Sequence[int | None]) -> pl.DataFrame:
    """How long a rank's threads wait in collectives on the CPU: `late_rank`, `name` and `wait_ns`, the longest first.

    With the files of several ranks, a wait lasts until the last rank arrives. `late_rank` is NULL if unknown.
    """
    if not has_cpu_waits(trace, rank):
        return _NONE
    source = trace if len(trace.ranks) > 1 else trace.of(rank)
    return source.sql(
        "select late_rank, name, sum(wait_ns)::bigint as wait_ns from rank_wait"
        " where rank = $rank and not on_gpu and list_contains($steps, coalesce(step, -1))"
        " and late_rank is distinct from rank and wait_ns > 0 and name not in ('send', 'recv')"
        " group by all order by wait_ns desc, late_rank, name",
        rank=rank,
        steps=[-1 if step is None else step for step in steps],
    )


def loop_waits_ns(trace: Trace, rank: int) -> int:
    """The sum of the times that a rank's training threads wait for other ranks in collectives on the CPU.

    All counted steps are included. Waits in `send` and `recv` are not.
    """
    if not has_cpu_waits(trace, rank):
        return 0
    steps = trace.query("step_lengths", rank=rank).filter(pl.col("kind").is_not_null())["step"]
    return int(cpu_waits(trace, rank, steps.to_list())["wait_ns"].sum())


def has_cpu_waits(trace: Trace, rank: int) -> bool:
    """Whether any thread of a rank waits in a collective on the CPU."""
    sql = "select exists (select 1 from thread_wait where rank = $rank and kind = 'other_ranks')"
    return bool(trace.of(rank).sql(sql, rank=rank).item())


def waiting_noun(trace: Trace, rank: int) -> str:
    """The limit `other_ranks` in a sentence, with as much detail as known: `waiting for rank 1 in all_reduce`."""
    steps = trace.query("step_lengths", rank=rank).filter(pl.col("kind").is_not_null())["step"]
    waits = cpu_waits(trace, rank, steps.to_list())
    if waits.is_empty():
        return VERDICTS["other_ranks"].noun
    late, name = waits.row(0)[:2]
    whom = "other ranks" if late is None else f"rank {late}"
    return f"waiting for {whom} in {spelled(name)}"


def spelled(name: str) -> str:
    """The name of a collective as torch.distributed has it."""
    return _SPELLED.get(name, safe(name))


@dataclass(frozen=True)
class Late:
    """A late rank: the waits of the other ranks, the cause of the delay if known, and a remedy.

    `step_wait_ns` is the mean wait per step of each other rank.
    """

    rank: int
    step_wait_ns: int
    text: str
    cause: str
    remedy: str


def find_late_rank(trace: Trace) -> Late | None:
    """The rank that delays the others, and the cause; `None` without a late rank. The result is cached in the trace."""
    cache: dict[str, Late | None] = trace.memo.setdefault(Late, {})
    if "late" not in cache:
        cache["late"] = _find_late_rank(trace)
    return cache["late"]


def _find_late_rank(trace: Trace) -> Late | None:
    rows = stragglers(trace) if len(trace.ranks) > 1 else pl.DataFrame()
    if rows.is_empty():
        return None
    waits = trace.sql(_CAUSED)
    if waits.is_empty():
        return None
    rank, caused_ns, step_count = waits.row(0)
    worst = rows.row(by_predicate=pl.col("rank") == rank, named=True)
    # Only ranks in the same collectives can wait: in a job with process groups, the ranks of the late rank's groups.
    peer_count, ranks_in_each = trace.sql(
        "select count(distinct rank) - 1, count(*) / count(distinct match_id)"
        " from collective_match where match_id in (select match_id from collective_match where rank = $rank)",
        rank=worst["rank"],
    ).row(0)
    all_waits = int(waits["wait_ns"].sum())
    by_chance = 1 / ranks_in_each
    least_blame = by_chance + _BLAME * (1 - by_chance)
    # The mean wait of these ranks, relative to the late rank's step time.
    mean_wait = caused_ns / max(1, peer_count)
    pace = ranks(trace).row(by_predicate=pl.col("rank") == worst["rank"], named=True)
    time = pace["step_count"] * (pace["step_ns"] or 0)
    if not time or 100 * mean_wait < _WAIT_PCT * time or caused_ns < least_blame * all_waits:
        return None
    step_wait_ns = round(mean_wait / pace["step_count"])
    text = (
        f"Rank {worst['rank']} is last to reach {worst['last_count']:,} of {worst['collective_count']:,} collectives;"
        f" {_others(peer_count, rows.height - 1)} {duration(mean_wait)} for it, {duration(step_wait_ns)} a step."
    )
    causes = straggler_causes(trace, rank=worst["rank"]).filter(pl.col("excess_ns") > 0)
    # A delay in a single step may be chance, unless the file shows the cause.
    if step_count < 2 and 2 * int(causes["excess_ns"].sum()) < mean_wait:
        return None
    if causes.is_empty():
        return Late(rank, step_wait_ns, text, "", "")
    cause = causes.row(0, named=True)
    code_place = cause["module_path"] or cause["region"]
    if not code_place and cause["activity"] == "host" and cause["phase"]:
        code_place = _stretch(trace, worst["rank"], cause["phase"])
    location = " in " + ", ".join(safe(part) for part in (cause["phase"], code_place) if part) if cause["phase"] else ""
    sentence = f"Most of its delay is {_ACTIVITY[cause['activity']]}{location} ({duration(cause['excess_ns'])} more)."
    return Late(rank, step_wait_ns, text, sentence, _REMEDY[cause["activity"]])


# The waiting time caused by each rank. Time with several waiting collectives counts once.
_CAUSED = """
select
    late_rank,
    sum(greatest(0, start_ns + wait_ns - greatest(start_ns, coalesce(covered_ns, start_ns))))::bigint as wait_ns,
    count(distinct step) as step_count
from (
    select
        late_rank,
        step,
        start_ns,
        wait_ns,
        max(start_ns + wait_ns) over (
            partition by rank, on_gpu order by start_ns, event_id rows between unbounded preceding and 1 preceding
        ) as covered_ns
    from rank_wait
    where wait_ns > 0 and late_rank != rank
)
group by late_rank
order by wait_ns desc, late_rank
"""


def _stretch(trace: Trace, rank: int, phase: str) -> str:
    """Where a main thread spends most of an op-free phase: the python frame, or the events before and after."""
    rank_trace = trace.of(rank)
    frames = rank_trace.sql(_LONGEST_FRAME, rank=rank, phase=phase)
    if not frames.is_empty():
        location = rank_trace.query("event_place", rank=rank, event=frames.item())
        source, function = location.select("source", "function").row(0) if not location.is_empty() else (None, None)
        if source:
            return f"{source} in {function}" if function else str(source)
    stretch = rank_trace.sql(_LONGEST_STRETCH, rank=rank, phase=phase)
    return "" if stretch.is_empty() else "between {} and {}".format(*stretch.row(0))


_LONGEST_FRAME = """
select arg_max(event_id, self_ns) as event_id
from cpu_event
semi join phase_span
    on cpu_event.rank = phase_span.rank and cpu_event.track_id = phase_span.track_id and phase_span.is_main
where rank = $rank and category = 'python_function' and phase = $phase
group by name
order by sum(self_ns) desc, name
limit 1
"""

# Outermost ops and annotations of the main thread, each with the previous event to end. Step marks are excluded.
_LONGEST_STRETCH = """
with main as (
    select distinct track_id from phase_span where rank = $rank and is_main
),

outer_event as (
    select
        cpu_event.track_id,
        cpu_event.start_ns,
        cpu_event.end_ns,
        cpu_event.name
    from cpu_event
    inner join main on cpu_event.track_id = main.track_id
    left join step on cpu_event.rank = step.rank and cpu_event.event_id = step.event_id
    where
        cpu_event.rank = $rank
        and step.event_id is null
        and (cpu_event.op_id = cpu_event.event_id or cpu_event.category = 'user_annotation')
),

stretch as (
    select
        track_id,
        name as next_name,
        arg_max(name, end_ns) over before as last_name,
        max(end_ns) over before as start_ns,
        start_ns as end_ns
    from outer_event
    window
        before as (
            partition by track_id order by start_ns, end_ns desc rows between unbounded preceding and 1 preceding
        )
)

select stretch.last_name, stretch.next_name
from stretch
asof inner join (select * from label_segment where rank = $rank) as label_segment
    on stretch.track_id = label_segment.track_id and stretch.start_ns >= label_segment.start_ns
where stretch.end_ns > stretch.start_ns and label_segment.phase = $phase
group by all
order by sum(stretch.end_ns - stretch.start_ns) desc, stretch.last_name, stretch.next_name
limit 1
"""


def late_wait(trace: Trace, rank: int, step: int | None) -> tuple[int, int, int]:
    """How a rank delays the others in a step: its latest collective, the count, and each other rank's mean wait."""
    row = trace.sql(
        "select arg_max(match.event_id, match.late_ns), count(distinct match.match_id),"
        " sum(waits.wait_ns) / count(distinct waits.rank)"
        " from (select * from collective_match where rank = $rank and is_last and step = $step) as match"
        " inner join collective_match as met on match.match_id = met.match_id"
        " inner join rank_wait as waits on met.rank = waits.rank and met.event_id = waits.event_id"
        " where waits.rank != $rank and waits.wait_ns > 0",
        rank=rank,
        step=step,
    ).row(0)
    return (row[0], row[1], round(row[2])) if row[0] is not None and row[2] else (-1, 0, 0)


def _others(met: int, all_others: int) -> str:
    """The waiting ranks as text: `met` ranks share collectives with the late rank, out of `all_others`."""
    if met == all_others:
        return "each other rank waits"
    return "the rank that it meets there waits" if met == 1 else f"each of the {met:,} ranks that it meets there waits"


_ACTIVITY = {
    "host": "time on the CPU",
    "idle": "its GPU waiting for work",
    "computation": "computing",
    "communication": "other communication",
    "memory": "copies",
}
_REMEDY = {
    "host": "Look at what only this rank does there: data, logging, checkpoints, a busy host.",
    "idle": "Look at its host: data loading, logging, a busy CPU.",
    "computation": "Balance the work between ranks (sequence lengths, embedding tables, experts), or check its clocks.",
    "communication": "Look at the collectives before: they may be late or slow themselves.",
    "memory": "Look at its copies and its PCIe link.",
}
