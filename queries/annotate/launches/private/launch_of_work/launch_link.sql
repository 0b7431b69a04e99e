-- GPU events with a known launch: by correlation id, else by launch flow, else by External id.
--
-- Calls and ops without a known thread are ignored, because their position in time is unknown.
--
-- :reads timed, nesting, flow
-- :only_with timed where category in ('kernel', 'gpu_memcpy', 'gpu_memset')
-- :column event_id BIGINT    the GPU event
-- :column runtime_id BIGINT  the launching call; NULL for `external_id`
-- :column op_id BIGINT       the op with the event's External id; NULL for other links
-- :column link VARCHAR       correlation, flow or external_id
with gpu_work as (
    select
        event_id,
        track_id,
        start_ns,
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
    where category in ('cuda_runtime', 'cuda_driver') and correlation > 0 and track_id is not null
    group by correlation
),

link_by_correlation as (
    select
        gpu_work.event_id,
        api_call.runtime_id
    from gpu_work
    inner join api_call on gpu_work.correlation = api_call.correlation
),

-- GPU work without a link by correlation.
unlinked_work as (
    select * from gpu_work
    where event_id not in (select event_id from link_by_correlation)
),

-- Flow ends and calls with equal thread and start are reduced to one row each before the joins: a damaged trace may
-- have millions of pairs.
arrow_head as (
    select distinct
        track_id,
        start_ns,
        flow_id
    from flow
    where
        kind = 'launch' and ph = 'f'
        and (track_id, start_ns) in (select (track_id, start_ns) from unlinked_work)
),

-- Flow starts. Flow numbers can be reused; a flow starts at the last start with its number before its end. The first
-- start of a number also serves earlier ends, because the GPU clock may lag.
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

-- The innermost call at each flow start.
innermost_call as (
    select
        track_id,
        start_ns,
        arg_max({'depth': depth, 'event_id': event_id}, (depth, event_id)) as call
    from nesting
    where (track_id, start_ns) in (select (track_id, start_ns) from arrow_tail)
    group by track_id, start_ns
),

-- Starts of GPU work with a flow end, with the call at the flow's start.
caller as (
    select
        arrow_head.track_id,
        arrow_head.start_ns,
        arg_max(innermost_call.call.event_id, (innermost_call.call.depth, innermost_call.call.event_id)) as runtime_id
    from arrow_head
    asof inner join arrow_tail
        on arrow_head.flow_id = arrow_tail.flow_id and arrow_head.start_ns >= arrow_tail.since_ns
    inner join innermost_call
        on arrow_tail.track_id = innermost_call.track_id and arrow_tail.start_ns = innermost_call.start_ns
    group by arrow_head.track_id, arrow_head.start_ns
),

link_by_flow as (
    select
        unlinked_work.event_id,
        caller.runtime_id
    from unlinked_work
    inner join caller on unlinked_work.track_id = caller.track_id and unlinked_work.start_ns = caller.start_ns
),

link_by_external_id as (
    select
        unlinked_work.event_id,
        first_op.op_id
    from unlinked_work
    inner join (
        select
            external_id,
            min(event_id) as op_id
        from timed
        where
            category = 'cpu_op' and external_id > 0 and track_id is not null
            and external_id in (select external_id from unlinked_work)
        group by external_id
    ) as first_op on unlinked_work.external_id = first_op.external_id
    where unlinked_work.event_id not in (select event_id from link_by_flow)
)

select
    event_id,
    runtime_id,
    null::bigint as op_id,
    'correlation' as link
from link_by_correlation
union all
select
    event_id,
    runtime_id,
    null::bigint,
    'flow'
from link_by_flow
union all
select
    event_id,
    null::bigint,
    op_id,
    'external_id'
from link_by_external_id
