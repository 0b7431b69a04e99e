-- Every change of the number of launches that wait on a stream. Stretches of a stream leave no gap.
--
-- A launch is in the queue from the start of the call to the start of its first work on the stream. A graph launch
-- counts once. Work whose launching call is not in the trace is left out.
--
-- :reads launch, gpu_op, event, step, phase_span
-- :column rank BIGINT          process rank
-- :column device BIGINT        device number; -1 when the events name none
-- :column stream BIGINT        stream; -1 when the events name none
-- :column start_ns BIGINT      when launches entered or left the queue
-- :column end_ns BIGINT        when the next ones did; its start for the last change
-- :column change BIGINT        launches that entered, less those that left
-- :column queue_length BIGINT  launches in the queue from here on
-- :column launch_count BIGINT  launches that entered
-- :column call_ns BIGINT       duration of their calls
-- :column launch_id BIGINT     the first of these calls; NULL when none entered
-- :column started_id BIGINT    the first GPU event that left; NULL when none did
-- :column step BIGINT          step that ran on the CPU at the start; NULL outside every step
-- :column phase VARCHAR        phase of the main thread at the start; NULL outside every step
with entry as (
    select
        launch.rank,
        device_of(gpu_op.device) as device,
        stream_of(gpu_op.stream) as stream,
        launch.runtime_id,
        any_value(launch.launch_start_ns) as launched_ns,
        any_value(launch.launch_dur_ns) as call_ns,
        min(event.start_ns) as started_ns,
        arg_min(launch.event_id, (event.start_ns, launch.event_id)) as started_id
    from launch
    inner join gpu_op on launch.rank = gpu_op.rank and launch.event_id = gpu_op.event_id
    inner join event on launch.rank = event.rank and launch.event_id = event.event_id
    where launch.runtime_id is not null
    group by launch.rank, device_of(gpu_op.device), stream_of(gpu_op.stream), launch.runtime_id
),

edge as (
    select
        rank,
        device,
        stream,
        launched_ns as at_ns,
        1 as change,
        runtime_id as launch_id,
        call_ns,
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
        count(launch_id) as launch_count,
        coalesce(sum(call_ns), 0)::bigint as call_ns,
        min(launch_id) as launch_id,
        min(started_id) as started_id
    from edge
    group by rank, device, stream, at_ns
),

stretch as (
    select
        *,
        sum(change) over so_far as queue_length,
        lead(at_ns) over so_far as until_ns
    from change
    window so_far as (partition by rank, device, stream order by at_ns rows unbounded preceding) -- noqa: PRS
),

in_step as (
    select
        stretch.*,
        case when stretch.at_ns < step.end_ns then step.step end as step
    from stretch
    asof left join step on stretch.rank = step.rank and stretch.at_ns >= step.start_ns
),

main as (
    select * from phase_span
    where is_main
)

select
    in_step.rank,
    in_step.device,
    in_step.stream,
    in_step.at_ns as start_ns,
    coalesce(in_step.until_ns, in_step.at_ns) as end_ns,
    in_step.change,
    in_step.queue_length::bigint as queue_length,
    in_step.launch_count,
    in_step.call_ns,
    in_step.launch_id,
    in_step.started_id,
    in_step.step,
    case when in_step.at_ns < main.end_ns then main.phase end as phase
from in_step
asof left join main on in_step.rank = main.rank and in_step.at_ns >= main.start_ns
