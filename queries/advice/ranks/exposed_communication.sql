-- Exposed reductions of gradients.
--
-- Condition: kernels of all-reduces and reduce-scatters of gradients (`collective_use`). Bound: the reductions take no
-- time, because they overlap with computation. The gain is therefore the exposed part of their time, including the wait
-- for later ranks. Source: Li et al., "PyTorch distributed", VLDB 2020, sections 3.2 and 5; PyTorch performance tuning
-- guide, "Distributed optimizations".
--
-- :reads gpu_event, collective_use
-- :only_with gpu_event where class = 'communication'
-- :finding collectives of gradients, part of which no computation hides
-- :remedy Hide or shorten them: larger batches or gradient accumulation under no_sync(), gradients in half precision
--     (bf16_compress_hook), other sizes of buckets (bucket_cap_mb). Compare the ranks first: some may wait for a late
--     one.
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
where gpu_event.rank = $rank and gpu_event.step = $step and collective_use.use = 'gradients'
order by gpu_event.event_id
