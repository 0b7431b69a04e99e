-- One row per GPU event: the call that launched it, and the way from call to execution.
--
-- What launched each GPU event: by correlation id, else by launch flow, else by External id.
--
-- All GPU events that share the correlation of one call were launched by it: a graph launch has many. Where a GPU event
-- has only an External id, the op is known but not the call, and the launch times stay NULL.
--
-- `busy_ns` shares out the time a device is busy: of work that overlaps, the one that started first has the time.
--
-- :reads timed, nesting, flow, gpu_op
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
with gpu as (
    select
        event_id,
        track_id,
        start_ns,
        end_ns,
        correlation,
        external_id
    from timed
    where category in ('kernel', 'gpu_memcpy', 'gpu_memset')
),

api_call as (
    select
        correlation,
        arg_min(event_id, (start_ns, event_id)) as runtime_id
    from timed
    where category in ('cuda_runtime', 'cuda_driver') and correlation > 0
    group by correlation
),

by_correlation as (
    select
        gpu.event_id,
        api_call.runtime_id
    from gpu
    inner join api_call on gpu.correlation = api_call.correlation
),

rest as (
    select * from gpu
    where event_id not in (select event_id from by_correlation)
),

-- Ends of arrows and calls that share a place are reduced to one row each before they meet: all pairs of them may be
-- millions in a damaged trace.
arrow_head as (
    select distinct
        track_id,
        start_ns,
        flow_id
    from flow
    where
        kind = 'launch' and ph = 'f'
        and (track_id, start_ns) in (select (track_id, start_ns) from rest)
),

-- Where a number is used again, an arrow starts at the last place before its end. The clock of the GPU may be behind.
arrow_tail as (
    select
        flow_id,
        start_ns,
        arg_min(track_id, event_id) as track_id,
        case
            when row_number() over (partition by flow_id order by start_ns) > 1 then start_ns
            else -9223372036854775807
        end as since_ns
    from flow
    where kind = 'launch' and ph = 's' and flow_id in (select flow_id from arrow_head)
    group by flow_id, start_ns
),

innermost as (
    select
        track_id,
        start_ns,
        arg_max({'depth': depth, 'event_id': event_id}, (depth, event_id)) as call
    from nesting
    where (track_id, start_ns) in (select (track_id, start_ns) from arrow_tail)
    group by track_id, start_ns
),

caller as (
    select
        arrow_head.track_id,
        arrow_head.start_ns,
        arg_max(innermost.call.event_id, (innermost.call.depth, innermost.call.event_id)) as runtime_id
    from arrow_head
    asof inner join arrow_tail
        on arrow_head.flow_id = arrow_tail.flow_id and arrow_head.start_ns >= arrow_tail.since_ns
    inner join innermost on arrow_tail.track_id = innermost.track_id and arrow_tail.start_ns = innermost.start_ns
    group by arrow_head.track_id, arrow_head.start_ns
),

by_flow as (
    select
        rest.event_id,
        caller.runtime_id
    from rest
    inner join caller on rest.track_id = caller.track_id and rest.start_ns = caller.start_ns
),

first_op as (
    select
        external_id,
        min(event_id) as op_id
    from timed
    where category = 'cpu_op' and external_id > 0 and external_id in (select external_id from rest)
    group by external_id
),

by_external_id as (
    select
        rest.event_id,
        first_op.op_id
    from rest
    inner join first_op on rest.external_id = first_op.external_id
    where rest.event_id not in (select event_id from by_flow)
),

linked as (
    select
        event_id,
        runtime_id,
        null::bigint as op_id,
        'correlation' as link
    from by_correlation
    union all
    select
        event_id,
        runtime_id,
        null::bigint,
        'flow'
    from by_flow
    union all
    select
        event_id,
        null::bigint,
        op_id,
        'external_id'
    from by_external_id
),

call as (
    select
        nesting.event_id,
        nesting.op_id,
        timed.start_ns,
        timed.dur_ns
    from nesting
    inner join timed on nesting.event_id = timed.event_id
    where nesting.event_id in (select runtime_id from linked)
),

launched as (
    select
        runtime_id,
        count(*) as kernel_count
    from linked
    where runtime_id is not null
    group by runtime_id
),

reached as (
    select
        gpu.event_id,
        gpu.start_ns,
        gpu.end_ns,
        coalesce(gpu_op.device, -1) as device,
        max(gpu.end_ns) over (
            partition by coalesce(gpu_op.device, -1) order by gpu.start_ns, gpu.event_id rows unbounded preceding
        ) as reached_ns
    from gpu
    left join gpu_op on gpu.event_id = gpu_op.event_id
),

busy as (
    select
        event_id,
        greatest(0, end_ns - greatest(start_ns, coalesce(
            lag(reached_ns) over (partition by device order by start_ns, event_id), start_ns
        ))) as busy_ns
    from reached
)

select
    gpu.event_id,
    linked.runtime_id,
    coalesce(linked.op_id, call.op_id) as op_id,
    linked.link,
    call.start_ns as launch_start_ns,
    call.dur_ns as launch_dur_ns,
    -- More than ten days apart, one of the two has a damaged time.
    case
        when gpu.start_ns - call.start_ns - call.dur_ns < 1e15
            then greatest(gpu.start_ns - call.start_ns - call.dur_ns, 0)
    end as queue_ns,
    case when linked.link is not null then coalesce(launched.kernel_count, 1) end as kernel_count,
    busy.busy_ns
from gpu
inner join busy on gpu.event_id = busy.event_id
left join linked on gpu.event_id = linked.event_id
left join call on linked.runtime_id = call.event_id
left join launched on linked.runtime_id = launched.runtime_id
