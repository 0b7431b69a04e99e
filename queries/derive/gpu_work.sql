-- Every kernel, copy and memset with all that is known about it: what it is, how it was launched, where it counts to.
--
-- :reads gpu_event, launch, label, model_op
select
    gpu_event.rank,
    gpu_event.event_id,
    gpu_event.category,
    gpu_event.name,
    gpu_event.short_name,
    gpu_event.class,
    gpu_event.device,
    gpu_event.stream,
    gpu_event.start_ns,
    gpu_event.dur_ns,
    gpu_event.end_ns,
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
from gpu_event
inner join launch on gpu_event.rank = launch.rank and gpu_event.event_id = launch.event_id
inner join label on gpu_event.rank = label.rank and gpu_event.event_id = label.event_id
left join model_op on label.rank = model_op.rank and label.module_id = model_op.module_id
