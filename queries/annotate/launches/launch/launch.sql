-- One row per GPU event: the call that launched it, and the way from call to execution.
--
-- All GPU events that share the correlation of one call were launched by it: a graph launch has many. Where a GPU event
-- has only an External id, the op is known but not the call, and the launch times stay NULL.
--
-- `busy_ns` shares out the time a device is busy: of work that overlaps, the one that started first has the time.
--
-- :reads launch_link, timed, nesting, gpu_op
-- :only_with timed where category in ('kernel', 'gpu_memcpy', 'gpu_memset')
-- :column event_id BIGINT         the GPU event
-- :column runtime_id BIGINT       the runtime or driver call that launched it; NULL when the trace holds none
-- :column op_id BIGINT            the innermost CPU op around the launch; NULL without one
-- :column link VARCHAR            correlation, flow or external_id; NULL when unlinked
-- :column launch_start_ns BIGINT  when the launching call started; NULL when unlinked
-- :column launch_dur_ns BIGINT    how long the launching call took; NULL when unlinked
-- :column queue_ns BIGINT         from the call's end to the start of the work, not below 0; NULL if unlinked or over
--                                 10 days
-- :column kernel_count BIGINT     GPU events that the same call launched (over 1: a graph); NULL when unlinked
-- :column busy_ns BIGINT          the part of its duration in which no earlier work keeps the device busy; sums up to
--                                 `gpu_busy`
with gpu_work as (
    select
        event_id,
        start_ns,
        end_ns
    from timed
    where category in ('kernel', 'gpu_memcpy', 'gpu_memset')
),

-- Calls, and how many GPU events each launched.
call_work as (
    select
        runtime_id,
        count(*) as kernel_count
    from launch_link
    where runtime_id is not null
    group by runtime_id
),

-- Kept, so that the database joins few rows with all events, and not all events with each other.
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

-- GPU work, with the latest end of it and all that started before it on the device.
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

busy as materialized (
    select
        event_id,
        start_ns,
        greatest(0, end_ns - greatest(start_ns, coalesce(
            lag(reached_ns) over (partition by device order by start_ns, event_id), start_ns
        ))) as busy_ns
    from gpu_work_so_far
),

linked as materialized (
    select
        busy.*,
        launch_link.runtime_id,
        launch_link.op_id,
        launch_link.link
    from busy
    left join launch_link on busy.event_id = launch_link.event_id
)

select
    linked.event_id,
    linked.runtime_id,
    coalesce(linked.op_id, call.op_id) as op_id,
    linked.link,
    call.start_ns as launch_start_ns,
    call.dur_ns as launch_dur_ns,
    -- More than ten days apart, one of the two has a damaged time.
    case
        when linked.start_ns - call.start_ns - call.dur_ns < 1e15
            then greatest(linked.start_ns - call.start_ns - call.dur_ns, 0)
    end as queue_ns,
    case when linked.link is not null then coalesce(call.kernel_count, 1) end as kernel_count,
    linked.busy_ns
from linked
left join call on linked.runtime_id = call.runtime_id
