-- Calls of the program that wait for the GPU in the middle of a step.
--
-- Condition: synchronising calls (`gpu_wait`) outside of ops, with work launched afterwards. Bound: the calls no longer
-- wait. Source: PyTorch performance tuning guide, "Avoid unnecessary CPU-GPU synchronization"; CUDA semantics,
-- "Asynchronous execution".
--
-- :reads gpu_wait, cpu_event, gpu_event
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
    cpu_event.name
from gpu_wait
inner join cpu_event on gpu_wait.rank = cpu_event.rank and gpu_wait.event_id = cpu_event.event_id
where
    gpu_wait.rank = $rank
    and cpu_event.step = $step
    and gpu_wait.kind = 'sync'
    and gpu_wait.waited_ns > 0
    -- The last synchronisation of a trace transfers the result, or ends the recording.
    and gpu_wait.end_ns < (select max(launch_start_ns) from gpu_event where rank = $rank)
    and cpu_event.op_id is null
    and is_synchronise_call(cpu_event.name)
order by gpu_wait.event_id
