-- Every event with a duration, with all derived information: the main view for queries.
--
-- GPU work has the step, phase and module of its launching call. Its `self_ns` is its duration.
--
-- :reads event, label, nesting, launch, gpu_op, model_op
-- :column rank RANK
-- :column event_id BIGINT      position in the file's `traceEvents` array
-- :column track_id BIGINT      thread or stream
-- :column category VARCHAR     kind of event
-- :column name VARCHAR         name of the event
-- :column start_ns BIGINT      start
-- :column dur_ns BIGINT        duration
-- :column end_ns BIGINT        end
-- :column device DEVICE        of GPU work; NULL on the CPU
-- :column stream BIGINT        stream of GPU work; NULL on the CPU
-- :column op_id BIGINT         innermost CPU op around the event, or around the launch of GPU work; NULL without an op
-- :column self_ns BIGINT       time outside children; the duration for GPU work
-- :column step STEP            NULL outside every step
-- :column phase PHASE          of the step; NULL outside every step
-- :column module_id BIGINT     module (see `model_op`); NULL if unknown
-- :column pass VARCHAR         forward, backward or recompute; NULL if the module is unknown
-- :column bucket VARCHAR       bucket of the work: `module`, or a named bucket without a module
-- :column evidence VARCHAR     nn_module, alignment, sequence_number, flow or autograd_order; NULL without a module
-- :column module_path VARCHAR  path of the module; NULL if unknown
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
