-- Every change in the number of launches waiting on a stream. The intervals of a stream leave no gap.
--
-- A launch is in the queue from the start of the call to the start of its first work on the stream. A graph launch
-- counts once. Work without a launching call in the trace is left out.
--
-- :reads gpu_event, step, phase_span
-- :column rank RANK
-- :column device DEVICE        -1 without a device
-- :column stream BIGINT        stream; -1 if the events have no stream
-- :column start_ns BIGINT      time of the change
-- :column end_ns BIGINT        time of the next change; equal to `start_ns` for the last change
-- :column change BIGINT        launches entering minus launches leaving the queue
-- :column queue_length BIGINT  launches in the queue after the change
-- :column launch_count BIGINT  launches entering the queue
-- :column call_ns BIGINT       duration of the entering launch calls
-- :column launch_id BIGINT     first entering launch call; NULL if no launch entered
-- :column started_id BIGINT    first GPU event leaving the queue; NULL if no launch left
-- :column step STEP            on the CPU at the start; NULL outside every step
-- :column phase PHASE          of the main thread at the start; NULL outside every step

-- one row per launching call and stream
with entry as (
    select
        rank,
        device,
        stream_of(stream) as stream,
        runtime_id,
        any_value(launch_start_ns) as launched_ns,
        any_value(launch_dur_ns) as call_ns,
        min(start_ns) as started_ns,
        arg_min(event_id, (start_ns, event_id)) as started_id
    from gpu_event
    where runtime_id is not null
    group by rank, device, stream_of(stream), runtime_id
),

-- one row per launch entering or leaving a queue
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

-- one row per time of a change on a stream
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

stretch_in_step as (
    select
        stretch.*,
        case when stretch.at_ns < step.end_ns then step.step end as step
    from stretch
    asof left join step on stretch.rank = step.rank and stretch.at_ns >= step.start_ns
),

main_span as (
    select * from phase_span
    where is_main
)

select
    stretch_in_step.rank,
    stretch_in_step.device,
    stretch_in_step.stream,
    stretch_in_step.at_ns as start_ns,
    coalesce(stretch_in_step.until_ns, stretch_in_step.at_ns) as end_ns,
    stretch_in_step.change,
    stretch_in_step.queue_length::bigint as queue_length,
    stretch_in_step.launch_count,
    stretch_in_step.call_ns,
    stretch_in_step.launch_id,
    stretch_in_step.started_id,
    stretch_in_step.step,
    case when stretch_in_step.at_ns < main_span.end_ns then main_span.phase end as phase
from stretch_in_step
asof left join main_span on stretch_in_step.rank = main_span.rank and stretch_in_step.at_ns >= main_span.start_ns
