-- Every kernel, copy and memset, with its launch, step, phase and module.
--
-- GPU work means complete events, with a start and a duration. The reader gives no other event a duration, so `dur_ns`
-- is the only test needed. The importer reports the number of other events. Step, phase and module are of the launching
-- call, regardless of when the work runs. If the call is not in the trace, the op named by External id counts.
-- Otherwise they are NULL, and `bucket` shows whether the work was launched before the trace began.
--
-- All work with the correlation id of a call was launched by the call; a graph launch has many. Work launched by a call
-- outside of ops may belong to an op on another thread, identified by External id.
--
-- `busy_ns` divides a device's busy time among its work: overlapping time belongs to the work that started first.
--
-- :reads launch, event, nesting, label, gpu_op, op, name_info, model_op, compiled_span
-- :only_with launch
-- :column event_id BIGINT         the GPU event
-- :column track_id BIGINT         track of the stream
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
-- :column op VARCHAR              name of the op; NULL without an op
-- :column link VARCHAR            correlation, flow or external_id; NULL if unlinked
-- :column launch_start_ns BIGINT  start of the launching call; NULL without a call
-- :column launch_dur_ns BIGINT    duration of the launching call; NULL without a call
-- :column queue_ns BIGINT         time from the end of the call to the start of the work, at least 0; NULL without a
--                                 call or over 10 days
-- :column kernel_count BIGINT     GPU events launched by the same call (over 1: a graph); NULL if unlinked
-- :column api VARCHAR             name of the launching call; NULL without a call
-- :column call_track_id BIGINT    thread of the call, else of the op that External id names; NULL without both
-- :column call_start_ns BIGINT    start of the call, else of the op, as the events nest; NULL without both
-- :column call_end_ns BIGINT      end of the call, else of the op; NULL without both
-- :column is_blocking BOOLEAN     the call returns when the GPU is done; NULL without a call
-- :column step STEP               NULL outside every step or without a launch
-- :column phase PHASE             of the launch; NULL outside every phase or without a launch
-- :column module_id BIGINT        the launching module (see `model_op`); NULL if unknown
-- :column module_path VARCHAR     path of the module; NULL if unknown
-- :column pass VARCHAR            forward, backward or recompute; NULL if the module is unknown
-- :column bucket VARCHAR          bucket of the work: `module`, or a named bucket if the work belongs to no module
-- :column evidence VARCHAR        nn_module, alignment, sequence_number, flow or autograd_order; NULL without a module
-- :column unit VARCHAR            unit of a kernel of matrix products: matrix (tensor cores) or vector; NULL for other
--                                 work
-- :column precision VARCHAR       precision of the matrix products, from the name or the op's types: fp64, fp32, tf32,
--                                 bf16, fp16, …; NULL if unknown
-- :column is_compiled BOOLEAN     launched inside code compiled by torch.compile; NULL without a call
-- :column kind VARCHAR            the vendor's kind of dispatch or copy (AMD); NULL elsewhere
-- :column bytes BIGINT            bytes moved, for copies and memsets; NULL for kernels

-- one row per op that launched work, with its types if they may tell the precision of products
with launching_op as (
    select
        launched.op_id,
        event.name,
        op.input_types
    from (select distinct op_id from launch where op_id is not null) as launched
    inner join event on launched.op_id = event.event_id
    left join op on launched.op_id = op.event_id
),

-- one row per launching call, or op that External id names: its thread and times as the events nest
launching_event as (
    select
        launched.call_id,
        launched.is_call,
        nesting.track_id,
        nesting.start_ns,
        nesting.end_ns
    from (
        select distinct
            coalesce(runtime_id, op_id) as call_id,
            runtime_id is not null as is_call
        from launch
    ) as launched
    inner join nesting on launched.call_id = nesting.event_id
),

-- one row per launching call or op, with its name, and whether a call is inside compiled code
caller as (
    select
        launching_event.*,
        event.name,
        name_info.is_blocking,
        case when launching_event.is_call then coalesce(compiled_span.end_ns >= launching_event.end_ns, false) end
            as is_compiled
    from launching_event
    inner join event on launching_event.call_id = event.event_id
    left join name_info on (event.category, event.name) = (name_info.category, name_info.name)
    asof left join compiled_span
        on
            launching_event.track_id = compiled_span.track_id
            and compiled_span.start_ns <= launching_event.start_ns
)

select
    event.event_id,
    event.track_id,
    event.category,
    event.name,
    name_info.short_name,
    name_info.class,
    device_of(gpu_op.device) as device,
    gpu_op.stream,
    event.start_ns,
    event.dur_ns,
    event.end_ns,
    launch.busy_ns,
    launch.runtime_id,
    launch.op_id,
    launching_op.name as op,
    launch.link,
    launch.launch_start_ns,
    launch.launch_dur_ns,
    launch.queue_ns,
    launch.kernel_count,
    case when caller.is_call then caller.name end as api,
    caller.track_id as call_track_id,
    caller.start_ns as call_start_ns,
    caller.end_ns as call_end_ns,
    case when caller.is_call then coalesce(caller.is_blocking, false) end as is_blocking,
    label.step,
    label.phase,
    label.module_id,
    model_op.path as module_path,
    label.pass,
    label.bucket,
    label.evidence,
    name_info.unit,
    precision_of_kernel(name_info.unit, name_info.precision, launching_op.input_types) as precision,
    caller.is_compiled,
    gpu_op.kind,
    gpu_op.bytes
from launch
inner join event on launch.event_id = event.event_id
inner join label on launch.event_id = label.event_id
inner join name_info on (event.category, event.name) = (name_info.category, name_info.name)
left join gpu_op on launch.event_id = gpu_op.event_id
left join launching_op on launch.op_id = launching_op.op_id
left join caller
    on coalesce(launch.runtime_id, launch.op_id) = caller.call_id and (launch.runtime_id is not null) = caller.is_call
left join model_op on label.module_id = model_op.module_id
