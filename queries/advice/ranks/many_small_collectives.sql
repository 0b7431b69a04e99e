-- Gradients that are reduced one by one, instead of in buckets.
--
-- Condition: in backward, at least half as many collectives as parameters that get a gradient (`AccumulateGrad`), and
-- more than one. Bound: all together take as long as the longest, and one call. Source: Li et al., "PyTorch
-- distributed", VLDB 2020, section 3.2.2, gradient bucketing (figure 2: time for 60 million parameters against the size
-- of one call).
--
-- :reads gpu_work, event, label, nesting
-- :only_with gpu_work where phase = 'backward' and class = 'communication'
-- :what collectives of backward, about one for each parameter
-- :do Reduce gradients in buckets: DistributedDataParallel does (bucket_cap_mb); with collectives of your own, flatten
--     the gradients first.
with reduced as (
    select
        *,
        row_number() over (order by dur_ns desc, event_id) as place,
        count(*) over () as collective_count
    from gpu_work
    where rank = $rank and step = $step and phase = 'backward' and class = 'communication'
),

gradient as (
    select count(*) as parameter_count
    from event
    inner join label on event.rank = label.rank and event.event_id = label.event_id
    where
        event.rank = $rank
        and label.step = $step
        and event.category = 'cpu_op'
        and event.name = 'torch::autograd::AccumulateGrad'
)

select
    reduced.event_id,
    'work' as effect,
    reduced.track_id,
    reduced.start_ns,
    reduced.end_ns,
    if(reduced.place = 1, 0, reduced.dur_ns) as saved_ns,
    reduced.short_name as name
from reduced
cross join gradient
where
    reduced.collective_count > 1
    and 2 * reduced.collective_count >= gradient.parameter_count
    and gradient.parameter_count > 2
union all
select
    reduced.runtime_id as event_id,
    'host' as effect,
    nesting.track_id,
    nesting.start_ns,
    nesting.end_ns,
    nesting.end_ns - nesting.start_ns as saved_ns,
    reduced.short_name as name
from reduced
cross join gradient
inner join nesting on reduced.rank = nesting.rank and reduced.runtime_id = nesting.event_id
where
    reduced.place > 1
    and reduced.collective_count > 1
    and 2 * reduced.collective_count >= gradient.parameter_count
    and gradient.parameter_count > 2
order by event_id, effect
