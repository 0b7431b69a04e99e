-- Events whose times cannot be those of the recording: the importer takes their durations away, and says how many.
--
-- A recording is one stretch of time. An event that starts more than ten days from the middle of all events, or lasts
-- longer, has a damaged time. CPU and GPU have a middle each, as some profilers take their times from different clocks.
-- Where all other durations together still exceed three years, those above the mean that such a sum allows are damaged,
-- too. The durations that are left add up within 64 bits, however a query combines them.
--
-- :reads event
-- :column event_id BIGINT  the event
-- :column dur_ns BIGINT    the duration that the file says
with timed_event as (
    -- Events with a duration.
    select
        event_id,
        start_ns,
        dur_ns,
        coalesce(category in (
            'kernel', 'gpu_memcpy', 'gpu_memset', 'gpu_user_annotation', 'cuda_sync', 'cuda_profiler_range'
        ), false) as is_gpu
    from event
    where dur_ns is not null
),

-- Median start of the events of the CPU, and of those of the GPU.
middle as (
    select
        is_gpu,
        quantile_disc(start_ns, 0.5) as at_ns
    from timed_event
    group by is_gpu
),

-- Events whose times are near enough to the middle.
near_event as (
    select
        timed_event.event_id,
        timed_event.dur_ns
    from timed_event
    inner join middle on timed_event.is_gpu = middle.is_gpu
    where
        timed_event.start_ns between middle.at_ns - longest_recording_ns() and middle.at_ns + longest_recording_ns()
        and timed_event.dur_ns <= longest_recording_ns()
),

-- The longest duration that is believed; NULL if there is no limit.
duration_limit as (
    select case when sum(dur_ns) > 100000000000000000 then 100000000000000000 // count(*) end as most_ns
    from near_event
)

select
    timed_event.event_id,
    timed_event.dur_ns
from timed_event
cross join duration_limit
left join near_event on timed_event.event_id = near_event.event_id
where near_event.event_id is null or near_event.dur_ns > duration_limit.most_ns
order by timed_event.event_id
