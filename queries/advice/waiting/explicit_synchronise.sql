-- Calls of the program that wait for the GPU in the middle of a step.
--
-- Condition: synchronising calls (`gpu_wait`) outside of ops, with work launched afterwards. Bound: the calls no longer
-- wait. Source: PyTorch performance tuning guide, "Avoid unnecessary CPU-GPU synchronization"; CUDA semantics,
-- "Asynchronous execution".
--
-- :reads gpu_wait, label, event, nesting, launch
-- :only_with gpu_wait where kind = 'sync'
-- :finding calls of {name} in the program
-- :remedy Take torch.cuda.synchronize() out of the loop; to measure times use torch.cuda.Event(enable_timing=True), and
--     read these after the loop.
-- :scenario no_sync
select
    gpu_wait.event_id,
    'wait' as effect,
    gpu_wait.track_id,
    gpu_wait.start_ns,
    gpu_wait.end_ns,
    gpu_wait.waited_ns as saved_ns,
    event.name
from gpu_wait
inner join label on gpu_wait.rank = label.rank and gpu_wait.event_id = label.event_id
inner join nesting on gpu_wait.rank = nesting.rank and gpu_wait.event_id = nesting.event_id
inner join event on gpu_wait.rank = event.rank and gpu_wait.event_id = event.event_id
where
    gpu_wait.rank = $rank
    and label.step = $step
    and gpu_wait.kind = 'sync'
    and gpu_wait.waited_ns > 0
    -- The last synchronisation of a trace transfers the result, or ends the recording.
    and gpu_wait.end_ns < (select max(launch_start_ns) from launch where rank = $rank)
    and nesting.op_id is null
    and is_synchronise_call(event.name)
order by gpu_wait.event_id
