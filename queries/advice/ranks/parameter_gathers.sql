-- Exposed all-gathers of sharded parameters.
--
-- Condition: kernels of all-gathers of parameters (`collective_use`): their group also reduces gradients. Bound: the
-- all-gathers take no time, because they overlap with computation. Source: PyTorch documentation,
-- "FullyShardedDataParallel" (`forward_prefetch`, `backward_prefetch`) and "fully_shard" (`reshard_after_forward`).
--
-- :reads gpu_event, collective_use
-- :only_with gpu_event where class = 'communication'
-- :finding gathers of sharded parameters, part of which no computation hides
-- :remedy Gather the next layer while this one computes (forward_prefetch=True, BackwardPrefetch.BACKWARD_PRE), keep
--     parameters after forward (reshard_after_forward=False) where memory allows, or shard within a node only.
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
where gpu_event.rank = $rank and gpu_event.step = $step and collective_use.use = 'parameters'
order by gpu_event.event_id
