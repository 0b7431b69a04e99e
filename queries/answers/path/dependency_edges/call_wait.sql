-- One row per pair of a call and the GPU work for which the call waits.
--
-- Often a record or the call's name identifies the work. Otherwise, and if the identified work seems to end after the
-- call, the call waits for the work that ended last during the call, if this work was launched before the call. The
-- rule also applies to a launch into a full queue: `most_pending()` launches are pending on the stream, or the profiler
-- reports a full queue. The rule does not apply to copying calls: a blocking copy waits for its own copy.
--
-- :takes rank, end_ns
-- :reads device_ending, gpu_wait, path_window, pending_launch, rank_work, sync_call, thread_point, told_wait,
--        window_work
-- :only_with window_work
-- :column event_id BIGINT        the call
-- :column track_id BIGINT        thread of the call
-- :column at_ns BIGINT           end of the call
-- :column node_id BIGINT         node of the graph for the thread at the end of the call
-- :column place BIGINT           number of the work, as in `window_work`
-- :column returns_early BOOLEAN  the call returns while the work (a copy) still runs: the call waited for its start
-- :column since_ns BIGINT        end of the work, or its start if the call returns early
with blocking_call as (
    select *
    from sync_call
    where is_waiting
),

-- Clocks may disagree: work that appears to end after the waiting call cannot be the awaited work.
unrecorded_call as (
    select
        event_id,
        track_id,
        start_ns,
        end_ns
    from blocking_call
    where
        not is_copying
        and (
            event_id not in (select event_id from told_wait)
            or event_id in (
                select told_wait.event_id from told_wait
                inner join blocking_call as late
                    on told_wait.event_id = late.event_id and told_wait.end_ns > late.end_ns
            )
        )
),

-- One row per launch call with a full queue.
full_queue_call as (
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

-- One row per time at which work ends on any device.
ending_anywhere as (
    select
        end_ns,
        max(event_id) as event_id,
        arg_max(launched_ns, device_ending.event_id) as launched_ns
    from device_ending
    group by end_ns
),

-- One row per call and awaited work, for any reason.
awaited_work as (
    select
        blocking_call.event_id,
        blocking_call.track_id,
        blocking_call.end_ns as at_ns,
        told_wait.work_id,
        false as returns_early
    from told_wait
    inner join blocking_call on told_wait.event_id = blocking_call.event_id
    union
    select
        late.event_id,
        late.track_id,
        late.end_ns as at_ns,
        ending_anywhere.event_id as work_id,
        false
    from (
        select * from unrecorded_call
        union
        select * from full_queue_call
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
    min(awaited_work.event_id) as event_id,
    awaited_work.track_id,
    awaited_work.at_ns,
    thread_point.node_id,
    window_work.place,
    awaited_work.returns_early,
    case when awaited_work.returns_early then window_work.start_ns else window_work.end_ns end as since_ns
from awaited_work
inner join window_work on awaited_work.work_id = window_work.event_id
inner join thread_point
    on
        awaited_work.track_id = thread_point.track_id
        and awaited_work.at_ns = thread_point.at_ns
        and thread_point.node_id > 0
where since_ns <= awaited_work.at_ns
group by
    awaited_work.track_id, awaited_work.at_ns, thread_point.node_id, window_work.place, awaited_work.returns_early,
    since_ns
