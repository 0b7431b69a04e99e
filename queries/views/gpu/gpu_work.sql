-- Every kernel, copy and memset: what it is, how it was launched, and where it counts to.
--
-- :reads gpu_event, launch, label, model_op, event, op, name_info, compiled_span
-- :column rank BIGINT             process rank
-- :column event_id BIGINT         the GPU event
-- :column category VARCHAR        kernel, gpu_memcpy or gpu_memset
-- :column name VARCHAR            the event's name
-- :column short_name VARCHAR      without return type, namespaces, template arguments and tile sizes
-- :column class VARCHAR           computation, communication or memory
-- :column device BIGINT           device number; -1 when the event names none
-- :column stream BIGINT           stream; NULL when the event names none
-- :column start_ns BIGINT         start
-- :column dur_ns BIGINT           duration
-- :column end_ns BIGINT           end
-- :column busy_ns BIGINT          the part of its duration in which no earlier work keeps the device busy
-- :column runtime_id BIGINT       the runtime or driver call that launched it; NULL when the trace holds none
-- :column op_id BIGINT            the innermost CPU op around the launch; NULL without one
-- :column launch_start_ns BIGINT  when the launching call started; NULL when unlinked
-- :column launch_dur_ns BIGINT    how long the launching call took; NULL when unlinked
-- :column queue_ns BIGINT         from the call's end to the start of the work, not below 0; NULL if unlinked or over
--                                 10 days
-- :column kernel_count BIGINT     GPU events that the same call launched (over 1: a graph); NULL when unlinked
-- :column step BIGINT             number of the training step; NULL outside every step or when unlinked
-- :column phase VARCHAR           phase that launched it, likewise
-- :column module_path VARCHAR     path of the module that launched it; NULL where none is known
-- :column op VARCHAR              name of that CPU op; NULL without one
-- :column unit VARCHAR            of a kernel of matrix products: matrix (tensor cores) or vector; NULL for all else
-- :column precision VARCHAR       of these, by name or by the types of the op: fp64, fp32, tf32, bf16, fp16, …; NULL if
--                                 unknown
-- :column track_id BIGINT         the track of its stream
-- :column is_compiled BOOLEAN     launched inside of code that torch.compile made; NULL when unlinked
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
