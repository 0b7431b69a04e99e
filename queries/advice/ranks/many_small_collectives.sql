-- Gradients reduced one by one, instead of in buckets.
--
-- Condition: in backward, at least half as many collectives as parameters with a gradient (`AccumulateGrad`), more than
-- two parameters, and more than one collective. Bound: all collectives together take as long as the longest, and one
-- calling op stays (one runtime call, if the trace has no such ops). Source: Li et al., "PyTorch distributed", VLDB
-- 2020, section 3.2.2, gradient bucketing (figure 2: time for 60 million parameters by size of a call).
--
-- :reads gpu_event, cpu_event
-- :only_with gpu_event where phase = 'backward' and class = 'communication'
-- :finding collectives of backward, about one for each parameter
-- :remedy Reduce gradients in buckets: DistributedDataParallel does (bucket_cap_mb); with collectives of your own,
--     flatten the gradients first.
with gradient as (
    select count(*) as parameter_count
    from cpu_event
    where rank = $rank and step = $step and category = 'cpu_op' and is_gradient_accumulation(name)
),

-- One row per collective of backward, ranked by duration.
ranked_collective as (
    select
        gpu_event.*,
        row_number() over (order by gpu_event.dur_ns desc, gpu_event.event_id) as place
    from gpu_event
    cross join gradient
    where
        gpu_event.rank = $rank
        and gpu_event.step = $step
        and gpu_event.phase = 'backward'
        and gpu_event.class = 'communication'
        and gradient.parameter_count > 2
    qualify count(*) over () > 1 and 2 * count(*) over () >= gradient.parameter_count
),

-- One row per op of a collective, with the enclosing op: `record_param_comms` in `c10d::allreduce_`. In old traces, ops
-- that launch a collective also do other work; only the runtime call then counts.
op as (
    select
        event_id,
        parent_id
    from cpu_event
    where
        rank = $rank
        and category = 'cpu_op'
        and is_collective_op(name)
),

call as (
    select
        coalesce(around.event_id, op.event_id, ranked_collective.runtime_id) as event_id,
        min(ranked_collective.place) as place,
        first(ranked_collective.short_name order by ranked_collective.place) as name
    from ranked_collective
    left join op on ranked_collective.op_id = op.event_id
    left join op as around on op.parent_id = around.event_id
    group by all
)

select
    event_id,
    'work' as effect,
    track_id,
    start_ns,
    end_ns,
    if(place = 1, 0, dur_ns) as saved_ns,
    short_name as name
from ranked_collective
union all
select
    call.event_id,
    'host' as effect,
    cpu_event.track_id,
    cpu_event.start_ns,
    cpu_event.end_ns,
    cpu_event.dur_ns as saved_ns,
    call.name
from call
inner join cpu_event on cpu_event.rank = $rank and call.event_id = cpu_event.event_id
where call.place > 1
order by event_id, effect
