-- Calls that allocate or free GPU memory in the middle of training, which PyTorch's allocator should avoid.
--
-- Condition: cudaMalloc, cudaFree, hipMalloc, hipFree and related calls, including pinned memory, in a step after the
-- first. Bound: the calls take no time. Source: PyTorch, CUDA semantics, "Memory management" (the caching allocator
-- keeps freed memory; when memory runs out, it frees all cached memory and synchronises) and PYTORCH_ALLOC_CONF,
-- expandable_segments.
--
-- :reads event, nesting, label, step
-- :finding calls that allocate or free memory of the GPU
-- :remedy Make the sizes of tensors the same in each step, or let segments grow
--     (PYTORCH_ALLOC_CONF=expandable_segments:True); do not call torch.cuda.empty_cache() in the loop, and leave some
--     memory free.
select
    event.event_id,
    'host' as effect,
    nesting.track_id,
    nesting.start_ns,
    nesting.end_ns,
    nesting.end_ns - nesting.start_ns as saved_ns,
    event.name
from event
inner join nesting on event.rank = nesting.rank and event.event_id = nesting.event_id
inner join label on event.rank = label.rank and event.event_id = label.event_id
where
    event.rank = $rank
    and label.step = $step
    and label.step > (select min(step.step) from step where step.rank = $rank)
    and event.category in ('cuda_runtime', 'cuda_driver')
    and is_allocation_call(event.name)
order by event.event_id
