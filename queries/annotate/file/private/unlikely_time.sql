-- Events whose times cannot belong to the recording, judged by the times alone. The importer removes their durations.
--
--   zero_time  start and duration are 0: the writer had no time for the event, however many such events there are
--   far_time   the event starts over ten days from the middle of the recording, or lasts longer than ten days
--   long_time  the remaining durations add up to over three years, and this duration exceeds the mean allowed by such a
--              sum. The limit keeps all sums within 64 bits
--
-- CPU and GPU have separate recordings, because some profilers take their times from different clocks. If ten days
-- without an event divide the events of one side, the recording is the part with the most consistent events, not with
-- the most events. Parts are compared first by launches that precede their work, then by spans inside earlier spans of
-- the thread, then by distinct times. A time shared by many events counts once, which keeps a frequent wrong value from
-- winning.
--
-- :reads event
-- :column event_id BIGINT      the event
-- :column rule VARCHAR         zero_time, far_time or long_time
-- :column start_ns BIGINT      start, unchanged
-- :column dur_ns BIGINT        NULL: the event has no valid time
-- :column given_dur_ns BIGINT  duration in the file
with timed_event as (
    -- Events with a duration, except zeros.
    select
        event_id,
        track_id,
        category,
        correlation,
        start_ns,
        dur_ns,
        coalesce(category in (
            'kernel', 'gpu_memcpy', 'gpu_memset', 'gpu_user_annotation', 'cuda_sync', 'cuda_profiler_range',
            'device_unknown', 'device_summary'
        ), false) as is_gpu
    from event
    where dur_ns is not null and not is_zero_time(start_ns, dur_ns)
),

-- The same events, with the number of the part on their side: a new part begins after ten days without a start.
part_event as (
    select
        *,
        sum(is_border::integer) over (partition by is_gpu order by start_ns rows unbounded preceding) as part
    from (
        select
            *,
            coalesce(
                start_ns - lag(start_ns) over (partition by is_gpu order by start_ns) > longest_recording_ns(), false
            ) as is_border
        from timed_event
    )
),

-- Runtime calls by correlation id.
launch_call as (
    select
        correlation,
        part,
        min(start_ns) as start_ns
    from part_event
    where category in ('cuda_runtime', 'cuda_driver') and correlation > 0
    group by correlation, part
),

-- Launches that precede their work by less than ten days, with the starts and parts of call and work.
launch_pair as (
    select
        launch_call.part as call_part,
        launch_call.start_ns as call_ns,
        work.part as work_part,
        work.start_ns as work_ns
    from part_event as work
    inner join launch_call on work.correlation = launch_call.correlation
    where
        work.category in ('kernel', 'gpu_memcpy', 'gpu_memset')
        and work.start_ns - launch_call.start_ns between -launch_skew_ns() and longest_recording_ns()
),

-- Parts with the number of launches that precede their work.
launching_part as (
    select
        false as is_gpu,
        call_part as part,
        count(distinct call_ns) as launch_count
    from launch_pair
    group by call_part
    union all
    select
        true,
        work_part,
        count(distinct work_ns)
    from launch_pair
    group by work_part
),

-- Events with the latest end among earlier starts on the thread.
reached_event as (
    select
        *,
        max(start_ns + dur_ns) over (
            partition by track_id, part, is_gpu order by start_ns
            range between unbounded preceding and 1 preceding
        ) as reached_ns
    from part_event
),

-- Parts with the number of consistent events and the middle.
part_of_side as (
    select
        is_gpu,
        part,
        count(distinct start_ns) filter (where start_ns + dur_ns <= reached_ns and dur_ns > 0) as inside_count,
        count(distinct start_ns) as start_count,
        quantile_disc(start_ns, 0.5) as middle_ns
    from reached_event
    group by is_gpu, part
),

-- Middle of each side's recording.
recording as (
    select
        part_of_side.is_gpu,
        arg_max(
            part_of_side.middle_ns,
            (
                coalesce(launching_part.launch_count, 0), part_of_side.inside_count, part_of_side.start_count,
                -part_of_side.part
            )
        ) as middle_ns
    from part_of_side
    left join launching_part
        on part_of_side.is_gpu = launching_part.is_gpu and part_of_side.part = launching_part.part
    group by part_of_side.is_gpu
),

-- Events close enough to the middle.
near_event as (
    select
        timed_event.event_id,
        timed_event.dur_ns
    from timed_event
    inner join recording on timed_event.is_gpu = recording.is_gpu
    where
        abs(timed_event.start_ns - recording.middle_ns) <= longest_recording_ns()
        and timed_event.dur_ns <= longest_recording_ns()
),

-- The longest plausible duration; NULL without a limit.
duration_limit as (
    select case when sum(dur_ns) > 100000000000000000 then 100000000000000000 // count(*) end as most_ns
    from near_event
)

select
    event_id,
    rule,
    start_ns,
    null::bigint as dur_ns,
    given_dur_ns
from (
    select
        event.event_id,
        event.start_ns,
        event.dur_ns as given_dur_ns,
        case
            when is_zero_time(event.start_ns, event.dur_ns) then 'zero_time'
            when near_event.event_id is null then 'far_time'
            when near_event.dur_ns > duration_limit.most_ns then 'long_time'
        end as rule
    from event
    cross join duration_limit
    left join near_event on event.event_id = near_event.event_id
    where event.dur_ns is not null
)
where rule is not null
order by event_id
