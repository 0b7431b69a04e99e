-- Copies from pageable memory to the GPU: the CPU waits for all earlier work of the stream and for the copy, and the
-- driver copies everything twice.
--
-- Condition: a call that launches a copy from pageable memory to the GPU, or a blocking copy to the GPU. Bound: the
-- call no longer waits, and the copy runs at the speed of the GPU's link to the host, if its bytes and the link are
-- known. Source: CUDA runtime API, "API synchronization behavior"; CUDA C++ best practices guide, "Pinned memory";
-- PyTorch performance tuning guide, "Avoid unnecessary CPU-GPU synchronization", and torch.Tensor.pin_memory.
--
-- :reads gpu_wait, cpu_event, gpu_event, gpu_copy, gpu_model
-- :only_with gpu_wait where kind = 'copy'
-- :finding copies from pageable memory that make the CPU wait for the GPU
-- :remedy Copy from pinned memory without waiting: DataLoader(pin_memory=True), tensor.to(device, non_blocking=True).
-- :scenario pinned
with waiting_call as (
    -- One row per waiting call, with the name of its copy.
    select
        gpu_wait.event_id,
        gpu_wait.work_id,
        gpu_wait.track_id,
        gpu_wait.start_ns,
        gpu_wait.end_ns,
        gpu_wait.waited_ns,
        copied.name,
        copied.track_id as work_track_id
    from gpu_wait
    inner join cpu_event on gpu_wait.rank = cpu_event.rank and gpu_wait.event_id = cpu_event.event_id
    inner join gpu_event as copied on gpu_wait.rank = copied.rank and gpu_wait.work_id = copied.event_id
    where
        gpu_wait.rank = $rank
        and cpu_event.step = $step
        and gpu_wait.kind = 'copy'
        and gpu_wait.waited_ns > 0
        and is_copy_to_device(copied.name)
)

select
    event_id,
    'wait' as effect,
    track_id,
    start_ns,
    end_ns,
    waited_ns as saved_ns,
    name
from waiting_call
union all
select
    gpu_copy.event_id,
    'work',
    waiting_call.work_track_id,
    gpu_copy.start_ns,
    gpu_copy.end_ns,
    floor(gpu_copy.dur_ns - 1e9 * gpu_copy.bytes / gpu_model.host_bytes_per_s)::bigint,
    waiting_call.name
from waiting_call
inner join gpu_copy on gpu_copy.rank = $rank and waiting_call.work_id = gpu_copy.event_id
inner join gpu_model on gpu_copy.rank = gpu_model.rank and gpu_model.device_id = device_of(gpu_copy.device)
where
    gpu_copy.is_pageable
    and gpu_copy.dur_ns > 1e9 * gpu_copy.bytes / gpu_model.host_bytes_per_s
order by event_id
