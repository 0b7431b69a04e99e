-- A row is a launch call, and the work that has to start before the call ends, for its stream to have a place for more.
--
-- A stream has as many places as were seen to be taken at once, and at least `most_pending()`. One call in fifty stands
-- for those around it, so that there may be 5 % more. Where a step launches less, this changes no loop: the CPU is a
-- step ahead then, and the time of a step is that of its slower side.
--
-- :takes end_ns, until
-- :reads launch_batch, pending_launch, thread_point, window_work
-- :only_with pending_launch
-- :column to_id BIGINT        the thread's point where the call ends
-- :column from_place BIGINT   number of the work, as in `window_work`
-- :column start_ns BIGINT     when the work starts
-- :column end_ns BIGINT       when the call ends
-- :column event_id BIGINT     the call
-- :column track_id BIGINT     its thread
-- :column is_before BOOLEAN   the work stands for that of the step before
with place_count as (
    select
        launch_batch.device,
        launch_batch.stream,
        greatest(most_pending(), max(pending_launch.pending)) as places
    from launch_batch
    inner join pending_launch on launch_batch.first_id = pending_launch.first_id
    group by launch_batch.device, launch_batch.stream
),

-- Launches of the window, numbered on each stream.
numbered as (
    select
        launch_batch.device,
        launch_batch.stream,
        window_work.place,
        window_work.start_ns,
        window_work.runtime_id,
        window_work.call_track_id,
        window_work.call_end_ns,
        row_number() over (
            partition by launch_batch.device, launch_batch.stream
            order by launch_batch.launched_ns, launch_batch.first_id
        ) as number,
        count(*) over (partition by launch_batch.device, launch_batch.stream) as launch_count
    from launch_batch
    inner join window_work on launch_batch.first_id = window_work.event_id
    where not window_work.is_earlier
),

asked as (
    select
        numbered.*,
        numbered.number <= 1 + place_count.places as is_before,
        numbered.number - 1 - place_count.places
        + case when is_before then numbered.launch_count else 0 end as awaited_number
    from numbered
    inner join place_count on numbered.device = place_count.device and numbered.stream = place_count.stream
    where
        numbered.runtime_id is not null
        and numbered.call_end_ns <= $end_ns
        and numbered.launch_count > 1 + place_count.places
        and numbered.number % greatest(1, most_pending() // 20) = 0
        and ($until = 'launched' or numbered.number > 1 + place_count.places)
)

select distinct
    thread_point.node_id as to_id,
    awaited.place as from_place,
    awaited.start_ns,
    asked.call_end_ns as end_ns,
    asked.runtime_id as event_id,
    asked.call_track_id as track_id,
    asked.is_before
from asked
inner join numbered as awaited
    on
        asked.device = awaited.device
        and asked.stream = awaited.stream
        and asked.awaited_number = awaited.number
inner join thread_point
    on
        asked.call_track_id = thread_point.track_id
        and asked.call_end_ns = thread_point.at_ns
        and thread_point.node_id > 0
where asked.is_before or awaited.start_ns <= asked.call_end_ns
