-- A run over time in equal bins: phases of the main thread, and busy time of each device.
--
-- The run is split into `bins` equal bins. Each event counts in every bin it overlaps, with the time of the overlap.
-- Sums over all bins are therefore exact totals of the run: the steps on the CPU, and `gpu_busy` on a device. GPU work
-- has the phase of its launch. Times of several ranks are on the clock of the lowest rank, if common collectives allow
-- this (`collective_match`).
--
-- :param rank BIGINT = NULL       only this rank
-- :param bins BIGINT >= 1 <= 100000 = 600
--                                 number of bins
-- :param start_ns BIGINT = NULL   start of the range; default: the first phase or GPU event
-- :param end_ns BIGINT = NULL     end of the range; default: the end of the last phase or GPU event
-- :reads gpu_event, collective_match, phase_span, step
-- :column rank RANK
-- :column device DEVICE              -1 if the events have no device; NULL for the main thread
-- :column phase VARCHAR              phase; outside_steps for GPU work outside all steps
-- :column bin BIGINT                 number of the bin, from 0
-- :column start_ns BIGINT            start of the bin
-- :column end_ns BIGINT              end of the bin
-- :column time_ns BIGINT             time in the bin
with clock as (
    select
        rank,
        any_value(shift_ns) as shift_ns
    from collective_match
    where $rank is null
    group by rank
),

own_span as (
    select
        phase_span.rank,
        null::bigint as device,
        phase_span.phase,
        phase_span.start_ns,
        least(phase_span.end_ns, step.end_ns) as end_ns
    from phase_span
    asof inner join step on phase_span.rank = step.rank and phase_span.start_ns >= step.start_ns
    where phase_span.is_main and phase_span.start_ns < step.end_ns and is_asked($rank, phase_span.rank)
    union all
    -- Overlapping time goes to the work that started first; later work counts with its remaining end.
    select
        rank,
        device,
        coalesce(phase, 'outside_steps'),
        end_ns - busy_ns,
        end_ns
    from gpu_event
    where busy_ns > 0 and is_asked($rank, rank)
),

span as (
    select
        own_span.* replace (
            own_span.start_ns + coalesce(clock.shift_ns, 0) as start_ns,
            own_span.end_ns + coalesce(clock.shift_ns, 0) as end_ns
        )
    from own_span
    left join clock on own_span.rank = clock.rank
),

run_range as (
    select
        coalesce($start_ns, min(start_ns)) as from_ns,
        greatest(
            (coalesce($end_ns, max(end_ns)) - coalesce($start_ns, min(start_ns)) + $bins - 1) // greatest($bins, 1), 1
        ) as width_ns,
        coalesce($end_ns, max(end_ns)) as until_ns
    from span
),

cut_span as (
    select
        span.rank,
        span.device,
        span.phase,
        greatest(span.start_ns, run_range.from_ns) as start_ns,
        least(span.end_ns, run_range.until_ns) as end_ns,
        run_range.from_ns,
        run_range.width_ns
    from span
    cross join run_range
    where span.end_ns > run_range.from_ns and span.start_ns < run_range.until_ns
),

piece as (
    select
        *,
        unnest(range((start_ns - from_ns) // width_ns, (end_ns - 1 - from_ns) // width_ns + 1)) as bin
    from cut_span
    where end_ns > start_ns
)

select
    rank,
    device,
    phase,
    bin,
    from_ns + bin * width_ns as start_ns,
    from_ns + (bin + 1) * width_ns as end_ns,
    sum(
        least(end_ns, from_ns + (bin + 1) * width_ns) - greatest(start_ns, from_ns + bin * width_ns)
    )::bigint as time_ns
from piece
group by rank, device, phase, from_ns, width_ns, bin
order by rank, device nulls first, bin, phase
