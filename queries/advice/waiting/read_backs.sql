-- Values read by the CPU from the GPU in the middle of a step: the CPU waits until the GPU is done.
--
-- Condition: waits (`gpu_wait`) inside an op, except copies to the GPU, with work launched afterwards: `.item()`,
-- `.cpu()`, `.tolist()`, `nonzero`, an index by a mask, a branch on the value of a tensor. Waits of a gradient scaler
-- have a separate rule (`gradient_scaler`). Bound: the call no longer waits. Source: PyTorch performance tuning guide,
-- "Avoid unnecessary CPU-GPU synchronization".
--
-- :reads gpu_wait, scaler_wait, cpu_event, gpu_event
-- :only_with gpu_wait where kind in ('copy', 'sync')
-- :finding calls that wait to read values back from the GPU, most of it in {name}
-- :remedy Leave values on the GPU: log them every some steps, use torch.where instead of masks and branches, and read
--     back with non_blocking=True into pinned memory.
-- :scenario no_sync
select
    gpu_wait.event_id,
    'wait' as effect,
    gpu_wait.track_id,
    gpu_wait.start_ns,
    gpu_wait.end_ns,
    gpu_wait.waited_ns as saved_ns,
    op.name
from gpu_wait
inner join cpu_event as call on gpu_wait.rank = call.rank and gpu_wait.event_id = call.event_id
inner join cpu_event as op on call.rank = op.rank and call.op_id = op.event_id
anti join scaler_wait on gpu_wait.rank = scaler_wait.rank and gpu_wait.event_id = scaler_wait.event_id
left join gpu_event as copied on gpu_wait.rank = copied.rank and gpu_wait.work_id = copied.event_id
where
    gpu_wait.rank = $rank
    and call.step = $step
    and gpu_wait.kind in ('copy', 'sync')
    and gpu_wait.waited_ns > 0
    -- The last synchronisation of a trace transfers the result, or ends the recording.
    and gpu_wait.end_ns < (select max(launch_start_ns) from gpu_event where rank = $rank)
    and not coalesce(is_copy_to_device(copied.name), false)
order by gpu_wait.event_id
