-- Time of the main thread and of each device in each state, for equal parts of a time span.
--
-- A device is in one state at each moment: it computes, only communicates, only copies, or is idle for one cause. So
-- its states add up to the time, as far as it was observed (`idle_part`). One row per device or main thread, state,
-- kind of wait and part. The last part may be shorter. The main thread is in one phase at each moment. `wait` names
-- what the thread waits for during the phase.
--
-- :param rank BIGINT              the process rank
-- :param start_ns BIGINT          start of the time
-- :param end_ns BIGINT            end of the time
-- :param bins BIGINT >= 1 <= 100000 = 1
--                                 stretches of the time
-- :reads gpu_state, host_activity, idle_part, phase_span
-- :column rank RANK
-- :column device DEVICE           -1 if the events have no device; NULL for the main thread
-- :column state VARCHAR           of a device: computation, communication (without computation), memory (copies and
--                                 memsets alone), or the cause of idle time (USE_CAUSE); of the main thread: the phase
-- :column wait VARCHAR            what the main thread waits for: sync (the GPU), other_ranks, other_thread, profiler;
--                                 NULL for other time and for devices
-- :column bin BIGINT              number of the stretch, from 0
-- :column time_ns BIGINT          time in it
with main_track as (
    select track_id
    from phase_span
    where rank = $rank and is_main
),

piece as (
    select
        device,
        case when computation then 'computation' when communication then 'communication' else 'memory' end as state,
        null as wait,
        start_ns,
        end_ns
    from gpu_state
    where rank = $rank and (computation or communication or memory)
    union all
    select
        device,
        use_cause(cause),
        null,
        start_ns,
        end_ns
    from idle_part
    where rank = $rank
    union all
    select
        null,
        coalesce(phase, 'other'),
        case when kind in ('sync', 'other_ranks', 'other_thread', 'profiler') then kind end,
        start_ns,
        coalesce(end_ns, $end_ns)
    from host_activity
    where
        rank = $rank
        and track_id in (select main_track.track_id from main_track)
),

stretch as (
    select greatest(($end_ns - $start_ns + $bins - 1) // $bins, 1) as width_ns
),

cut as (
    select
        piece.device,
        piece.state,
        piece.wait,
        greatest(piece.start_ns, $start_ns) - $start_ns as from_ns,
        least(piece.end_ns, $end_ns) - $start_ns as until_ns,
        stretch.width_ns
    from piece
    cross join stretch
    where piece.end_ns > $start_ns and piece.start_ns < $end_ns and piece.end_ns > piece.start_ns
),

part as (
    select
        *,
        unnest(range(from_ns // width_ns, (until_ns - 1) // width_ns + 1)) as bin
    from cut
)

select
    $rank::bigint as rank,
    device,
    state,
    wait,
    bin,
    sum(least(until_ns, (bin + 1) * width_ns) - greatest(from_ns, bin * width_ns))::bigint as time_ns
from part
group by device, state, wait, bin
order by device nulls first, bin, state, wait nulls first
