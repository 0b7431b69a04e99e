-- Values read by the CPU from the GPU in the middle of a step: the CPU waits until the GPU is done.
--
-- Condition: waits (`gpu_wait`) inside an op, except copies to the GPU, with work launched afterwards: `.item()`,
-- `.cpu()`, `.tolist()`, `nonzero`, an index by a mask, a branch on the value of a tensor. Waits of a gradient scaler
-- have a separate rule (`gradient_scaler`). Bound: the call no longer waits. Source: PyTorch performance tuning guide,
-- "Avoid unnecessary CPU-GPU synchronization".
--
-- :reads gpu_wait, scaler_wait, label, event, nesting, launch
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
inner join label on gpu_wait.rank = label.rank and gpu_wait.event_id = label.event_id
inner join nesting on gpu_wait.rank = nesting.rank and gpu_wait.event_id = nesting.event_id
inner join event as op on nesting.rank = op.rank and nesting.op_id = op.event_id
anti join scaler_wait on gpu_wait.rank = scaler_wait.rank and gpu_wait.event_id = scaler_wait.event_id
left join event as copied on gpu_wait.rank = copied.rank and gpu_wait.work_id = copied.event_id
where
    gpu_wait.rank = $rank
    and label.step = $step
    and gpu_wait.kind in ('copy', 'sync')
    and gpu_wait.waited_ns > 0
    -- The last synchronisation of a trace transfers the result, or ends the recording.
    and gpu_wait.end_ns < (select max(launch_start_ns) from launch where rank = $rank)
    and not coalesce(is_copy_to_device(copied.name), false)
order by gpu_wait.event_id
