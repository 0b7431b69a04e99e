-- Every kernel, copy and memset, with its launch, step, phase and module.
--
-- :reads gpu_event, launch, label, model_op, event, op, name_info, compiled_span
-- :column rank RANK
-- :column event_id BIGINT         the GPU event
-- :column category VARCHAR        kernel, gpu_memcpy or gpu_memset
-- :column name VARCHAR            name of the event
-- :column short_name VARCHAR      name without return type, namespaces, template arguments and tile sizes
-- :column class KERNEL_CLASS
-- :column device DEVICE           -1 without a device
-- :column stream BIGINT           stream; NULL if the event has no stream
-- :column start_ns BIGINT         start
-- :column dur_ns BIGINT           duration
-- :column end_ns BIGINT           end
-- :column busy_ns BIGINT          part of the duration in which no earlier work keeps the device busy
-- :column runtime_id BIGINT       launching runtime or driver call; NULL if the trace has no launching call
-- :column op_id BIGINT            innermost CPU op around the launch; NULL without an op
-- :column launch_start_ns BIGINT  start of the launching call; NULL without a launch
-- :column launch_dur_ns BIGINT    duration of the launching call; NULL without a launch
-- :column queue_ns BIGINT         time from the end of the call to the start of the work, at least 0; NULL without a
--                                 launch or over 10 days
-- :column kernel_count BIGINT     GPU events launched by the same call (over 1: a graph); NULL without a launch
-- :column step STEP               NULL outside every step or without a launch
-- :column phase PHASE             of the launch; NULL outside every phase or without a launch
-- :column module_path VARCHAR     path of the launching module; NULL if unknown
-- :column op VARCHAR              name of the innermost CPU op; NULL without an op
-- :column unit VARCHAR            unit of a kernel of matrix products: matrix (tensor cores) or vector; NULL for other
--                                 work
-- :column precision VARCHAR       precision of the matrix products, from the name or the op's types: fp64, fp32, tf32,
--                                 bf16, fp16, …; NULL if unknown
-- :column track_id BIGINT         track of the stream
-- :column is_compiled BOOLEAN     launched inside code compiled by torch.compile; NULL without a launch
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
    model_op.path as module_path,
    op_event.name as op,
    name_info.unit,
    precision_of_kernel(name_info.unit, name_info.precision, op.input_types) as precision,
    event.track_id,
    case when call.event_id is not null then coalesce(compiled_span.end_ns >= call.end_ns, false) end as is_compiled
from gpu_event
inner join launch on gpu_event.rank = launch.rank and gpu_event.event_id = launch.event_id
inner join label on gpu_event.rank = label.rank and gpu_event.event_id = label.event_id
inner join event on gpu_event.rank = event.rank and gpu_event.event_id = event.event_id
left join event as op_event on launch.rank = op_event.rank and launch.op_id = op_event.event_id
left join op on launch.rank = op.rank and launch.op_id = op.event_id
left join event as call on launch.rank = call.rank and launch.runtime_id = call.event_id
asof left join compiled_span
    on
        call.rank = compiled_span.rank
        and call.track_id = compiled_span.track_id
        and compiled_span.start_ns <= call.start_ns
left join name_info
    on (gpu_event.rank, gpu_event.category, gpu_event.name) = (name_info.rank, name_info.category, name_info.name)
left join model_op on label.rank = model_op.rank and label.module_id = model_op.module_id
