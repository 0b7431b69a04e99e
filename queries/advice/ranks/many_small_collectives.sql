-- Gradients that are reduced one by one, instead of in buckets.
--
-- Condition: in backward, at least half as many collectives as parameters that get a gradient (`AccumulateGrad`), and
-- more than one. Bound: all together take as long as the longest and as one of the ops that call them (of the calls of
-- the runtime, where the trace shows no such ops). Source: Li et al., "PyTorch distributed", VLDB 2020, section 3.2.2,
-- gradient bucketing (figure 2: time for 60 million parameters against the size of one call).
--
-- :reads gpu_work, event, label, nesting
-- :only_with gpu_work where phase = 'backward' and class = 'communication'
-- :what collectives of backward, about one for each parameter
-- :do Reduce gradients in buckets: DistributedDataParallel does (bucket_cap_mb); with collectives of your own, flatten
--     the gradients first.
with gradient as (
    select count(*) as parameter_count
    from event
    inner join label on event.rank = label.rank and event.event_id = label.event_id
    where
        event.rank = $rank
        and label.step = $step
        and event.category = 'cpu_op'
        and event.name = 'torch::autograd::AccumulateGrad'
),

reduced as (
    select
        gpu_work.*,
        row_number() over (order by gpu_work.dur_ns desc, gpu_work.event_id) as place
    from gpu_work
    cross join gradient
    where
        gpu_work.rank = $rank
        and gpu_work.step = $step
        and gpu_work.phase = 'backward'
        and gpu_work.class = 'communication'
        and gradient.parameter_count > 2
    qualify count(*) over () > 1 and 2 * count(*) over () >= gradient.parameter_count
),

-- The op of a collective, and the one around it: `record_param_comms` in `c10d::allreduce_`. Other ops that launch a
-- collective, as an old trace shows them, do much else: then the call is only that of the runtime.
op as (
    select
        nesting.event_id,
        nesting.parent_id
    from nesting
    inner join event on nesting.rank = event.rank and nesting.event_id = event.event_id
    where
        nesting.rank = $rank
        and event.category = 'cpu_op'
        and regexp_matches(event.name, '^(c10d::|nccl:|record_param_comms$)')
),

call as (
    select
        coalesce(around.event_id, op.event_id, reduced.runtime_id) as event_id,
        min(reduced.place) as place,
        first(reduced.short_name order by reduced.place) as name
    from reduced
    left join op on reduced.op_id = op.event_id
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
from reduced
union all
select
    call.event_id,
    'host' as effect,
    nesting.track_id,
    nesting.start_ns,
    nesting.end_ns,
    nesting.end_ns - nesting.start_ns as saved_ns,
    call.name
from call
inner join nesting on nesting.rank = $rank and call.event_id = nesting.event_id
where call.place > 1
order by event_id, effect
