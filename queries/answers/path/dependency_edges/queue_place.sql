-- One row per sampled launch call: the work that must start before the call ends, to free a slot of its queue.
--
-- A stream has as many slots as were ever used at once, and at least `most_pending()`. Only one call in fifty is
-- included, to limit the number of edges; the error is up to 5 % more slots. If a step has fewer launches than slots,
-- this does not change the loop: the CPU is then a step ahead, and the slower side determines the time of a step.
--
-- :takes end_ns, until
-- :reads launch_batch, pending_launch, thread_point, window_work
-- :only_with pending_launch
-- :column to_id BIGINT        point of the thread at the end of the call
-- :column from_place BIGINT   number of the work, as in `window_work`
-- :column start_ns BIGINT     start of the work
-- :column end_ns BIGINT       end of the call
-- :column event_id BIGINT     the call
-- :column track_id BIGINT     thread of the call
-- :column is_before BOOLEAN   the work represents the same work of the previous step
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
numbered_launch as (
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

-- one row per sampled launch, with the number of the launch that must start first
sampled_launch as (
    select
        numbered_launch.*,
        numbered_launch.number <= 1 + place_count.places as is_before,
        numbered_launch.number - 1 - place_count.places
        + case when is_before then numbered_launch.launch_count else 0 end as awaited_number
    from numbered_launch
    inner join place_count
        on numbered_launch.device = place_count.device and numbered_launch.stream = place_count.stream
    where
        numbered_launch.runtime_id is not null
        and numbered_launch.call_end_ns <= $end_ns
        and numbered_launch.launch_count > 1 + place_count.places
        and numbered_launch.number % greatest(1, most_pending() // 20) = 0
        and ($until = 'launched' or numbered_launch.number > 1 + place_count.places)
)

select distinct
    thread_point.node_id as to_id,
    awaited.place as from_place,
    awaited.start_ns,
    sampled_launch.call_end_ns as end_ns,
    sampled_launch.runtime_id as event_id,
    sampled_launch.call_track_id as track_id,
    sampled_launch.is_before
from sampled_launch
inner join numbered_launch as awaited
    on
        sampled_launch.device = awaited.device
        and sampled_launch.stream = awaited.stream
        and sampled_launch.awaited_number = awaited.number
inner join thread_point
    on
        sampled_launch.call_track_id = thread_point.track_id
        and sampled_launch.call_end_ns = thread_point.at_ns
        and thread_point.node_id > 0
where sampled_launch.is_before or awaited.start_ns <= sampled_launch.call_end_ns
