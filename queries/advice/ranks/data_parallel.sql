-- torch.nn.DataParallel: one process copies the model to all GPUs in each step, and collects the results on one GPU.
--
-- Condition: DataParallel's ops `Broadcast`, `Scatter` and `Gather`, and work on several devices in one process. Bound:
-- the ops take no time, in forward and in backward. Source: PyTorch performance tuning guide, "Distributed
-- optimizations"; torch.nn.DataParallel ("It is recommended to use DistributedDataParallel").
--
-- :reads event, nesting, label, gpu_op
-- :finding copies of the model, its inputs and results between GPUs by DataParallel
-- :remedy Use DistributedDataParallel with one process for each GPU (torchrun).
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
    and event.category = 'cpu_op'
    and is_data_parallel_op(event.name)
    and (select count(distinct device) from gpu_op where rank = $rank) > 1
order by event.event_id
