-- The view to query: every event with a duration, and all that is known about it.
--
-- GPU work has the step, phase and module of the call that launched it. Its `self_ns` is its duration.
--
-- :reads event, label, nesting, launch, gpu_op, model_op
select
    event.rank,
    event.event_id,
    event.track_id,
    event.category,
    event.name,
    event.start_ns,
    event.dur_ns,
    event.end_ns,
    gpu_op.device,
    gpu_op.stream,
    coalesce(nesting.op_id, launch.op_id) as op_id,
    coalesce(nesting.self_ns, event.dur_ns) as self_ns,
    label.step,
    label.phase,
    label.module_id,
    label.pass,
    label.bucket,
    label.evidence,
    model_op.path as module_path
from event
left join label on event.rank = label.rank and event.event_id = label.event_id
left join nesting on event.rank = nesting.rank and event.event_id = nesting.event_id
left join launch on event.rank = launch.rank and event.event_id = launch.event_id
left join gpu_op on event.rank = gpu_op.rank and event.event_id = gpu_op.event_id
left join model_op on label.rank = model_op.rank and label.module_id = model_op.module_id
where event.dur_ns is not null
