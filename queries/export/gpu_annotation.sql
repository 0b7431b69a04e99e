-- GPU work of each stream in order, with the step, phase and module of its launch.
--
-- :param rank BIGINT = NULL    only this rank
-- :reads event, gpu_op, launch, label
-- :column rank RANK
-- :column event_id BIGINT      the GPU event
-- :column device DEVICE        -1 without a device
-- :column stream BIGINT        stream; -1 if the event has no stream
-- :column start_ns BIGINT      start
-- :column end_ns BIGINT        end
-- :column step STEP            NULL if unknown
-- :column phase PHASE          NULL if unknown
-- :column module_id BIGINT     module; NULL if unknown
-- :column pass VARCHAR         forward, backward or recompute; NULL if the module is unknown
select
    launch.rank,
    launch.event_id,
    device_of(gpu_op.device) as device,
    stream_of(gpu_op.stream) as stream,
    event.start_ns,
    event.end_ns,
    label.step,
    label.phase,
    label.module_id,
    label.pass
from launch
inner join event on launch.rank = event.rank and launch.event_id = event.event_id
inner join gpu_op on launch.rank = gpu_op.rank and launch.event_id = gpu_op.event_id
left join label on launch.rank = label.rank and launch.event_id = label.event_id
where is_asked($rank, launch.rank)
order by launch.rank, device, stream, event.start_ns, launch.event_id
