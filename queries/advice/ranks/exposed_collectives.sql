-- Exposed collectives for other uses: tensor parallelism, exchanges of experts or embeddings, or unknown.
--
-- Condition: kernels of collectives for other uses than gradients, parameters and pipelines (`collective_use`). Bound:
-- the collectives take no time, because they overlap with computation. Source: Shoeybi et al., "Megatron-LM", 2019,
-- section 3; Narayanan et al., "Efficient large-scale language model training on GPU clusters", SC 2021, section 3.
--
-- :reads gpu_event, collective_use
-- :only_with gpu_event where class = 'communication'
-- :finding other collectives, part of which no computation hides
-- :remedy Keep such groups on the fast links of one node, make them smaller, and let the collectives run beside
--     computation. Compare the ranks first: some may wait for a late one.
select
    gpu_event.event_id,
    'work' as effect,
    gpu_event.track_id,
    gpu_event.start_ns,
    gpu_event.end_ns,
    gpu_event.dur_ns as saved_ns,
    gpu_event.short_name as name
from gpu_event
inner join collective_use on gpu_event.rank = collective_use.rank and gpu_event.event_id = collective_use.event_id
where gpu_event.rank = $rank and gpu_event.step = $step and collective_use.use in ('activations', 'exchange', 'other')
order by gpu_event.event_id
