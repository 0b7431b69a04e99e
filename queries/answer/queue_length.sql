-- How many launches wait on each stream, over time.
--
-- A launch is in the queue from the start of the call to the start of its first work on the stream, so the length says
-- how far the host is ahead. A graph launch counts once. Work whose launching call is not in the trace is left out.
-- There is one row per change; times without a row before the first or after the last change are unknown.
--
-- :param rank BIGINT = NULL       only this rank
-- :param device BIGINT = NULL     only this device
-- :param stream BIGINT = NULL     only this stream
-- :param step BIGINT = NULL       only stretches that begin while this step runs on the CPU
-- :reads launch, gpu_op, event, step
-- :column rank BIGINT             process rank
-- :column device BIGINT           device number; -1 when the events name none
-- :column stream BIGINT           stream; -1 when the events name none
-- :column start_ns BIGINT         when the length changes
-- :column end_ns BIGINT           when it changes again; its start in the last row of a stream
-- :column queue_length BIGINT     launches in the queue in between
-- :column launch_id BIGINT        the launching call that entered the queue; NULL when none did
-- :column started_id BIGINT       the GPU event that left it; NULL when none did
with entry as (
    select
        launch.rank,
        coalesce(gpu_op.device, -1) as device,
        coalesce(gpu_op.stream, -1) as stream,
        launch.runtime_id,
        any_value(launch.launch_start_ns) as launched_ns,
        min(event.start_ns) as started_ns,
        arg_min(launch.event_id, (event.start_ns, launch.event_id)) as started_id
    from launch
    inner join gpu_op on launch.rank = gpu_op.rank and launch.event_id = gpu_op.event_id
    inner join event on launch.rank = event.rank and launch.event_id = event.event_id
    where
        launch.runtime_id is not null
        and ($rank is null or launch.rank = $rank)
        and ($device is null or coalesce(gpu_op.device, -1) = $device)
        and ($stream is null or coalesce(gpu_op.stream, -1) = $stream)
    group by launch.rank, coalesce(gpu_op.device, -1), coalesce(gpu_op.stream, -1), launch.runtime_id
),

edge as (
    select
        rank,
        device,
        stream,
        launched_ns as at_ns,
        1 as change,
        runtime_id as launch_id,
        null::bigint as started_id
    from entry
    union all
    select
        rank,
        device,
        stream,
        greatest(started_ns, launched_ns),
        -1,
        null,
        started_id
    from entry
),

change as (
    select
        rank,
        device,
        stream,
        at_ns,
        sum(change)::bigint as change,
        min(launch_id) as launch_id,
        min(started_id) as started_id
    from edge
    group by rank, device, stream, at_ns
    having sum(change) != 0
),

stretch as (
    select
        rank,
        device,
        stream,
        at_ns,
        sum(change) over so_far as queue_length,
        lead(at_ns) over so_far as until_ns,
        launch_id,
        started_id
    from change
    window so_far as (partition by rank, device, stream order by at_ns rows unbounded preceding) -- noqa: PRS
),

in_step as (
    select
        stretch.*,
        case when stretch.at_ns < step.end_ns then step.step end as step
    from stretch
    asof left join step on stretch.rank = step.rank and stretch.at_ns >= step.start_ns
)

select
    rank,
    device,
    stream,
    at_ns as start_ns,
    coalesce(until_ns, at_ns) as end_ns,
    queue_length::bigint as queue_length,
    launch_id,
    started_id
from in_step
where $step is null or step = $step
order by rank, device, stream, start_ns
