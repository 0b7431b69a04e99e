-- torch.nn.DataParallel: one process copies the model to all GPUs in each step, and collects the results on one GPU.
--
-- Condition: DataParallel's ops `Broadcast`, `Scatter` and `Gather`, and work on several devices in one process. Bound:
-- the ops take no time, in forward and in backward. Source: PyTorch performance tuning guide, "Distributed
-- optimizations"; torch.nn.DataParallel ("It is recommended to use DistributedDataParallel").
--
-- :reads cpu_event, gpu_op
-- :finding copies of the model, its inputs and results between GPUs by DataParallel
-- :remedy Use DistributedDataParallel with one process for each GPU (torchrun).
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
    and cpu_event.category = 'cpu_op'
    and is_data_parallel_op(cpu_event.name)
    and (select count(distinct device) from gpu_op where rank = $rank) > 1
order by cpu_event.event_id
