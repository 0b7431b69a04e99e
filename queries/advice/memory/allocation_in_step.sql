-- Calls that allocate or free GPU memory in the middle of training, which PyTorch's allocator should avoid.
--
-- Condition: cudaMalloc, cudaFree, hipMalloc, hipFree and related calls, including pinned memory, in a step after the
-- first. Bound: the calls take no time. Source: PyTorch, CUDA semantics, "Memory management" (the caching allocator
-- keeps freed memory; when memory runs out, it frees all cached memory and synchronises) and PYTORCH_ALLOC_CONF,
-- expandable_segments.
--
-- :reads cpu_event, step
-- :finding calls that allocate or free memory of the GPU
-- :remedy Make the sizes of tensors the same in each step, or let segments grow
--     (PYTORCH_ALLOC_CONF=expandable_segments:True); do not call torch.cuda.empty_cache() in the loop, and leave some
--     memory free.
select
    cpu_event.event_id,
    'host' as effect,
    cpu_event.track_id,
    cpu_event.start_ns,
    cpu_event.end_ns,
    cpu_event.end_ns - cpu_event.start_ns as saved_ns,
    cpu_event.name
from cpu_event
where
    cpu_event.rank = $rank
    and cpu_event.step = $step
    and cpu_event.step > (select min(step.step) from step where step.rank = $rank)
    and cpu_event.category in ('cuda_runtime', 'cuda_driver')
    and is_allocation_call(cpu_event.name)
order by cpu_event.event_id
