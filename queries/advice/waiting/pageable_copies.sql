-- Copies between pageable memory and the GPU: the CPU waits until all earlier work of the stream and the copy are done.
--
-- Condition: a call that launches a copy from or to pageable memory, or one that blocks, outside of reading values
-- back. Bound: the call no longer waits. Source: CUDA runtime API, "API synchronization behavior"; PyTorch performance
-- tuning guide, "Avoid unnecessary CPU-GPU synchronization", and torch.Tensor.pin_memory.
--
-- :reads gpu_wait, label, event
-- :only_with gpu_wait where kind = 'copy'
-- :what copies from pageable memory that make the CPU wait for the GPU
-- :do Copy from pinned memory without waiting: DataLoader(pin_memory=True), tensor.to(device, non_blocking=True).
-- :scenario pinned
select
    gpu_wait.event_id,
    'wait' as effect,
    gpu_wait.track_id,
    gpu_wait.start_ns,
    gpu_wait.end_ns,
    gpu_wait.waited_ns as saved_ns,
    copied.name
from gpu_wait
inner join label on gpu_wait.rank = label.rank and gpu_wait.event_id = label.event_id
inner join event as copied on gpu_wait.rank = copied.rank and gpu_wait.work_id = copied.event_id
where
    gpu_wait.rank = $rank
    and label.step = $step
    and gpu_wait.kind = 'copy'
    and gpu_wait.waited_ns > 0
    and regexp_matches(copied.name, 'HtoD|HostToDevice|Host -> Device')
order by gpu_wait.event_id
