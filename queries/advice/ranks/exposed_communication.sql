-- Collectives that the step waits for.
--
-- Condition: kernels of collective communication. Bound: they take no time, as they run beside computation; so this is
-- the part of their time that nothing hides, and waiting for later ranks is part of it. Source: Li et al., "PyTorch
-- distributed", VLDB 2020, sections 3.2 and 5; PyTorch performance tuning guide, "Distributed optimizations".
--
-- :reads gpu_work
-- :only_with gpu_work where class = 'communication'
-- :what collectives, part of which no computation hides
-- :do Hide or shorten them: larger batches or gradient accumulation under no_sync(), gradients in half precision
--     (bf16_compress_hook), other sizes of buckets (bucket_cap_mb). Compare the ranks first: some may wait for a late
--     one.
select
    event_id,
    'work' as effect,
    track_id,
    start_ns,
    end_ns,
    dur_ns as saved_ns,
    short_name as name
from gpu_work
where rank = $rank and step = $step and class = 'communication'
order by event_id
