-- The process of each event, for a file with several processes.
--
-- Events on a track of a known process belong to that process. If the processes follow each other in the file, other
-- events (GPU work) belong to the process of the surrounding part of the file. Otherwise, a GPU belongs to the process
-- launching its work: the process with launch calls of the same correlation ids before most of the work. If several
-- processes have launch calls for all the work, GPUs and processes are paired in order. If a GPU runs a kernel twice
-- with one correlation id, several processes share the GPU, and each piece of work belongs to the last launch before
-- it.
--
-- :reads event, process_track
-- :column event_id BIGINT  the event
-- :column process VARCHAR  label or id of the process
with process_part as (
    select
        process_track.process,
        min(event.event_id) as first_id,
        max(event.event_id) as last_id
    from event
    inner join process_track on event.track_id = process_track.track_id
    where process_track.process is not null
    group by process_track.process
),

process_order as (
    select
        *,
        row_number() over (order by try_cast(process as bigint), process) as place,
        lead(first_id) over (order by first_id) as next_id
    from process_part
),

file_order as (
    select coalesce(bool_and(next_id is null or last_id < next_id), true) as is_in_parts
    from process_order
),

-- Events without a known process, with the last process starting before them in the file.
loose_event as (
    select
        event.event_id,
        event.correlation,
        event.start_ns,
        process_track.pid,
        process_order.process as part_process
    from event
    left join process_track on event.track_id = process_track.track_id
    asof left join process_order on event.event_id >= process_order.first_id
    where process_track.process is null
),

launch_call as (
    select
        process_track.process,
        event.correlation,
        min(event.start_ns) as start_ns
    from event
    inner join process_track on event.track_id = process_track.track_id
    where
        event.category in ('cuda_runtime', 'cuda_driver')
        and event.correlation is not null
        and process_track.process is not null
    group by process_track.process, event.correlation
),

gpu as (
    select
        process_track.pid,
        row_number() over (order by try_cast(process_track.pid as bigint), process_track.pid) as place
    from process_track
    where process_track.process is null and process_track.gpu_count > 0
    group by process_track.pid
),

shared_gpu as (
    select distinct pid
    from (
        select
            loose_event.pid,
            event.category
        from loose_event
        inner join event on loose_event.event_id = event.event_id
        where event.category = 'kernel' and loose_event.correlation is not null
        group by loose_event.pid, event.category, loose_event.correlation, event.name
        having count(*) > 1
    )
),

-- Amount of a GPU's work that a process may have launched.
gpu_match as (
    select
        gpu.pid,
        launch_call.process,
        count(*) as match_count,
        abs(any_value(gpu.place) - any_value(process_order.place)) as distance
    from gpu
    inner join loose_event on gpu.pid = loose_event.pid
    inner join launch_call
        on loose_event.correlation = launch_call.correlation and loose_event.start_ns >= launch_call.start_ns
    inner join process_order on launch_call.process = process_order.process
    group by gpu.pid, launch_call.process
),

gpu_owner as (
    select
        pid,
        arg_max(process, (match_count, -distance)) as process
    from gpu_match
    group by pid
),

last_launch as (
    select
        loose_event.event_id,
        arg_max(launch_call.process, launch_call.start_ns) as process
    from loose_event
    inner join shared_gpu on loose_event.pid = shared_gpu.pid
    inner join launch_call
        on loose_event.correlation = launch_call.correlation and loose_event.start_ns >= launch_call.start_ns
    group by loose_event.event_id
)

select
    event.event_id,
    coalesce(
        process_track.process,
        case when file_order.is_in_parts then loose_event.part_process end,
        last_launch.process,
        gpu_owner.process,
        loose_event.part_process,
        (select arg_min(process, first_id) from process_order)
    ) as process
from event
cross join file_order
left join process_track on event.track_id = process_track.track_id
left join loose_event on event.event_id = loose_event.event_id
left join last_launch on event.event_id = last_launch.event_id
left join gpu_owner on process_track.pid = gpu_owner.pid
order by event.event_id
