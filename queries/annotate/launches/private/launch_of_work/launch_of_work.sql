-- The launch of each GPU event: the launching call, and the times from call to execution.
--
-- All GPU events with the correlation id of a call were launched by the call; a graph launch has many. If a GPU event
-- has only an External id, the op is known but the call is not, and the launch times are NULL. Work launched by a call
-- outside of ops may belong to an op on another thread, identified by External id.
--
-- `busy_ns` divides a device's busy time among its work: overlapping time belongs to the work that started first.
--
-- :reads launch_link, timed, nesting, gpu_op
-- :writes launch
-- :only_with timed where category in ('kernel', 'gpu_memcpy', 'gpu_memset')
-- :column event_id BIGINT         the GPU event
-- :column runtime_id BIGINT       the launching runtime or driver call; NULL if not in the trace
-- :column op_id BIGINT            the innermost CPU op around the launch; NULL if absent
-- :column link VARCHAR            correlation, flow or external_id; NULL if unlinked
-- :column launch_start_ns BIGINT  start of the launching call; NULL if unlinked
-- :column launch_dur_ns BIGINT    duration of the launching call; NULL if unlinked
-- :column queue_ns BIGINT         time from the end of the call to the start of the work, not below 0; NULL if unlinked
--                                 or over 10 days
-- :column kernel_count BIGINT     GPU events launched by the same call (over 1: a graph); NULL if unlinked
-- :column busy_ns BIGINT          part of the duration without earlier work on the device; the sum is the time in
--                                 `gpu_busy`
with gpu_work as (
    select
        event_id,
        start_ns,
        end_ns
    from timed
    where category in ('kernel', 'gpu_memcpy', 'gpu_memset')
),

-- Calls, with the number of launched GPU events.
call_work as (
    select
        runtime_id,
        count(*) as kernel_count
    from launch_link
    where runtime_id is not null
    group by runtime_id
),

-- Materialized: the database then joins few rows with all events, and not all events with each other.
placed_call as materialized (
    select
        call_work.runtime_id,
        call_work.kernel_count,
        nesting.op_id
    from nesting
    inner join call_work on nesting.event_id = call_work.runtime_id
),

call as materialized (
    select
        placed_call.*,
        timed.start_ns,
        timed.end_ns - timed.start_ns as dur_ns
    from timed
    inner join placed_call on timed.event_id = placed_call.runtime_id
),

-- GPU work, with the latest end of all work started up to it on the device.
gpu_work_so_far as (
    select
        gpu_work.event_id,
        gpu_work.start_ns,
        gpu_work.end_ns,
        coalesce(gpu_op.device, -1) as device,
        max(gpu_work.end_ns) over (
            partition by coalesce(gpu_op.device, -1)
            order by gpu_work.start_ns, gpu_work.event_id rows unbounded preceding
        ) as reached_ns
    from gpu_work
    left join gpu_op on gpu_work.event_id = gpu_op.event_id
),

busy_work as materialized (
    select
        event_id,
        start_ns,
        greatest(0, end_ns - greatest(start_ns, coalesce(
            lag(reached_ns) over (partition by device order by start_ns, event_id), start_ns
        ))) as busy_ns
    from gpu_work_so_far
),

linked_work as materialized (
    select
        busy_work.*,
        launch_link.runtime_id,
        launch_link.op_id,
        launch_link.link
    from busy_work
    left join launch_link on busy_work.event_id = launch_link.event_id
),

-- Work of calls outside of ops, with an External id that may identify an op.
work_without_op as materialized (
    select
        linked_work.event_id,
        timed.external_id
    from linked_work
    inner join call on linked_work.runtime_id = call.runtime_id and call.op_id is null
    inner join timed on linked_work.event_id = timed.event_id
    where timed.external_id > 0
),

asking_op as (
    select
        external_id,
        min(event_id) as op_id
    from timed
    where
        category = 'cpu_op' and external_id > 0 and track_id is not null
        and external_id in (select external_id from work_without_op)
    group by external_id
),

work_of_op as (
    select
        work_without_op.event_id,
        asking_op.op_id
    from work_without_op
    inner join asking_op on work_without_op.external_id = asking_op.external_id
)

select
    linked_work.event_id,
    linked_work.runtime_id,
    coalesce(linked_work.op_id, call.op_id, work_of_op.op_id) as op_id,
    linked_work.link,
    call.start_ns as launch_start_ns,
    call.dur_ns as launch_dur_ns,
    -- If they are more than ten days apart, one of the two times is damaged.
    case
        when linked_work.start_ns - call.start_ns - call.dur_ns < 1e15
            then greatest(linked_work.start_ns - call.start_ns - call.dur_ns, 0)
    end as queue_ns,
    case when linked_work.link is not null then coalesce(call.kernel_count, 1) end as kernel_count,
    linked_work.busy_ns
from linked_work
left join call on linked_work.runtime_id = call.runtime_id
left join work_of_op on linked_work.event_id = work_of_op.event_id
