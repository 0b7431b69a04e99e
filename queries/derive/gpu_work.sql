-- Every kernel, copy and memset with all that is known about it: what it is, how it was launched, where it counts to.
--
-- :reads launch, event, name_info, gpu_op, label, model_op
select
    launch.rank,
    launch.event_id,
    event.category,
    event.name,
    name_info.short_name,
    name_info.class,
    coalesce(gpu_op.device, -1) as device,
    gpu_op.stream,
    event.start_ns,
    event.dur_ns,
    event.end_ns,
    launch.busy_ns,
    launch.runtime_id,
    launch.op_id,
    launch.launch_start_ns,
    launch.launch_dur_ns,
    launch.queue_ns,
    launch.kernel_count,
    label.step,
    label.phase,
    model_op.path as module_path
from launch
inner join event on launch.rank = event.rank and launch.event_id = event.event_id
inner join name_info
    on (event.rank, event.category, event.name) = (name_info.rank, name_info.category, name_info.name)
inner join label on launch.rank = label.rank and launch.event_id = label.event_id
left join gpu_op on launch.rank = gpu_op.rank and launch.event_id = gpu_op.event_id
left join model_op on label.rank = model_op.rank and label.module_id = model_op.module_id
