-- A row is a call that waits for GPU work, and one such work.
--
-- A call of which nothing tells what it waits for, waits for the work that ended last during the call, if that was
-- launched before it. So does a launch into a stream that already has `most_pending()` launches pending.
--
-- :takes rank, end_ns
-- :reads device_ending, gpu_wait, path_window, pending_launch, rank_work, sync_call, thread_point, told_wait,
--        window_work
-- :only_with window_work
-- :column event_id BIGINT        the call
-- :column track_id BIGINT        its thread
-- :column at_ns BIGINT           its end
-- :column node_id BIGINT         the thread's point there
-- :column place BIGINT           number of the work, as in `window_work`
-- :column returns_early BOOLEAN  the call returns while the work, a copy, runs: it waited for its start
-- :column since_ns BIGINT        when the work ended, or started if the call returns early
with blocking as (
    select *
    from sync_call
    where is_waiting
),

-- Clocks may disagree: work that seems to end after the call that waits for it cannot be what the call waited for.
guessed as (
    select
        event_id,
        track_id,
        start_ns,
        end_ns
    from blocking
    where
        not is_copying
        and (
            event_id not in (select event_id from told_wait)
            or event_id in (
                select told_wait.event_id from told_wait
                inner join blocking as late on told_wait.event_id = late.event_id and told_wait.end_ns > late.end_ns
            )
        )
),

-- One row per launch call that met a full queue.
held_up as (
    select distinct
        rank_work.runtime_id as event_id,
        rank_work.call_track_id as track_id,
        rank_work.call_ns as start_ns,
        rank_work.call_end_ns as end_ns
    from rank_work
    inner join pending_launch on rank_work.event_id = pending_launch.first_id
    cross join path_window
    where
        (
            pending_launch.pending >= most_pending()
            or rank_work.runtime_id in (select event_id from gpu_wait where rank = $rank and kind = 'full_queue')
        )
        and rank_work.runtime_id is not null
        and rank_work.call_end_ns > path_window.start_ns
        and rank_work.call_end_ns <= $end_ns
),

-- One row per point of time at which work ends, whatever the device.
ending_anywhere as (
    select
        end_ns,
        max(event_id) as event_id,
        arg_max(launched_ns, device_ending.event_id) as launched_ns
    from device_ending
    group by end_ns
),

-- One row per call and work that it waits for, for whichever reason.
waited as (
    select
        blocking.event_id,
        blocking.track_id,
        blocking.end_ns as at_ns,
        told_wait.work_id,
        false as returns_early
    from told_wait
    inner join blocking on told_wait.event_id = blocking.event_id
    union
    select
        late.event_id,
        late.track_id,
        late.end_ns as at_ns,
        ending_anywhere.event_id as work_id,
        false
    from (
        select * from guessed
        union
        select * from held_up
    ) as late
    asof inner join ending_anywhere on late.end_ns >= ending_anywhere.end_ns
    where ending_anywhere.end_ns > late.start_ns and ending_anywhere.launched_ns < late.start_ns
    union
    select
        runtime_id,
        call_track_id,
        call_end_ns,
        event_id,
        end_ns > call_end_ns
    from window_work
    where is_awaited and call_end_ns <= $end_ns
)

select
    min(waited.event_id) as event_id,
    waited.track_id,
    waited.at_ns,
    thread_point.node_id,
    window_work.place,
    waited.returns_early,
    case when waited.returns_early then window_work.start_ns else window_work.end_ns end as since_ns
from waited
inner join window_work on waited.work_id = window_work.event_id
inner join thread_point
    on waited.track_id = thread_point.track_id and waited.at_ns = thread_point.at_ns and thread_point.node_id > 0
where since_ns <= waited.at_ns
group by
    waited.track_id, waited.at_ns, thread_point.node_id, window_work.place, waited.returns_early, since_ns
