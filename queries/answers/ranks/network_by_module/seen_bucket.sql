-- Buckets with a reduction in the trace: one row per gradient, with its bucket.
--
-- DistributedDataParallel sends a bucket in a hook of its last gradient. A gradient is therefore in the first bucket
-- sent after it.
--
-- :takes rank, step
-- :reads cpu_event, accumulation, collective_call, gpu_event, gpu_state
-- :column rank RANK
-- :column place BIGINT         the gradient, as in `accumulation`
-- :column bucket BIGINT        number of the bucket in its pass, from 0
-- :column bucket_bytes BIGINT  size of the bucket; NULL if unknown
-- :column transfer_ns BIGINT   duration of the reduction, including waits for other ranks
-- :column exposed_ns BIGINT    part of this duration without computation
with node_call as (
    select
        rank,
        track_id,
        start_ns,
        name
    from cpu_event
    where category = 'cpu_op' and (is_backward_of_op(name) or ends_with(name, 'AccumulateGrad'))
),

-- All-reduces launched right after a gradient accumulation, so not by the backward of a layer.
hook_call as (
    select
        collective_call.rank,
        collective_call.event_id,
        collective_call.bytes,
        collective_call.step,
        collective_call.start_ns,
        collective_call.end_ns,
        gpu_event.device,
        gpu_event.call_start_ns as at_ns
    from collective_call
    inner join gpu_event on collective_call.rank = gpu_event.rank and collective_call.event_id = gpu_event.event_id
    asof inner join node_call
        on
            gpu_event.rank = node_call.rank
            and gpu_event.call_track_id = node_call.track_id
            and gpu_event.call_start_ns >= node_call.start_ns
    where
        gpu_event.runtime_id is not null
        and collective_call.name = 'allreduce'
        and is_asked($rank, collective_call.rank)
        and is_asked($step, collective_call.step)
        and contains(node_call.name, 'AccumulateGrad')
),

-- one row per all-reduce: its time without computation
exposed_call as (
    select
        hook_call.rank,
        hook_call.event_id,
        sum(least(hook_call.end_ns, gpu_state.end_ns) - greatest(hook_call.start_ns, gpu_state.start_ns)) as exposed_ns
    from hook_call
    inner join gpu_state
        on
            hook_call.rank = gpu_state.rank
            and hook_call.device = gpu_state.device
            and hook_call.start_ns < gpu_state.end_ns
            and hook_call.end_ns > gpu_state.start_ns
    where not gpu_state.computation
    group by hook_call.rank, hook_call.event_id
),

-- one row per gradient, with the all-reduce of its bucket
sent_gradient as (
    select
        accumulation.rank,
        accumulation.place,
        accumulation.lane,
        hook_call.event_id,
        hook_call.at_ns,
        hook_call.bytes as bucket_bytes,
        hook_call.end_ns - hook_call.start_ns as transfer_ns,
        coalesce(exposed_call.exposed_ns, 0) as exposed_ns
    from accumulation
    asof inner join hook_call
        on
            accumulation.rank = hook_call.rank
            and accumulation.step = hook_call.step
            and accumulation.start_ns <= hook_call.at_ns
    left join exposed_call on hook_call.rank = exposed_call.rank and hook_call.event_id = exposed_call.event_id
)

select
    rank,
    place,
    dense_rank() over (partition by lane order by at_ns, event_id) - 1 as bucket,
    bucket_bytes,
    transfer_ns,
    exposed_ns::bigint as exposed_ns
from sent_gradient
