-- Events whose times cannot be those of the recording: the importer takes their durations away, and says how many.
--
-- A recording is one stretch of time. What starts over ten days from the middle of its events, or lasts longer, has a
-- damaged time. CPU and GPU have a middle each, as some profilers take their times from different clocks. Where all
-- durations together still exceed three years, so have those above the mean that such a sum allows. What is left adds
-- up within 64 bits, however a query combines it.
--
-- :reads event
-- :column event_id BIGINT  TODO
-- :column dur_ns BIGINT    TODO
with placed as (
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

middle as (
    select
        is_gpu,
        quantile_disc(start_ns, 0.5) as at_ns
    from placed
    group by is_gpu
),

near as (
    select
        placed.event_id,
        placed.dur_ns
    from placed
    inner join middle on placed.is_gpu = middle.is_gpu
    where
        placed.start_ns between middle.at_ns - longest_recording_ns() and middle.at_ns + longest_recording_ns()
        and placed.dur_ns <= longest_recording_ns()
),

allowed as (
    select case when sum(dur_ns) > 100000000000000000 then 100000000000000000 // count(*) end as most_ns
    from near
)

select
    placed.event_id,
    placed.dur_ns
from placed
cross join allowed
left join near on placed.event_id = near.event_id
where near.event_id is null or near.dur_ns > allowed.most_ns
order by placed.event_id
