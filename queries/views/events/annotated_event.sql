-- Every event with a duration, with all derived information: the main view for queries.
--
-- GPU work has the step, phase and module of its launching call. Its `self_ns` is its duration.
--
-- :reads cpu_event, gpu_event, lone_event
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
    rank,
    event_id,
    track_id,
    category,
    name,
    coalesce(given_start_ns, start_ns) as start_ns,
    coalesce(given_end_ns, end_ns) - coalesce(given_start_ns, start_ns) as dur_ns,
    coalesce(given_end_ns, end_ns) as end_ns,
    null::bigint as device,
    null::bigint as stream,
    op_id,
    self_ns,
    step,
    phase,
    module_id,
    pass,
    bucket,
    evidence,
    module_path
from cpu_event
union all
select
    rank,
    event_id,
    track_id,
    category,
    name,
    start_ns,
    dur_ns,
    end_ns,
    nullif(device, -1) as device,
    stream,
    op_id,
    dur_ns as self_ns,
    step,
    phase,
    module_id,
    pass,
    bucket,
    evidence,
    module_path
from gpu_event
union all
select
    rank,
    event_id,
    track_id,
    category,
    name,
    start_ns,
    dur_ns,
    end_ns,
    null,
    null,
    null,
    dur_ns as self_ns,
    null,
    null,
    null,
    null,
    null,
    null,
    null
from lone_event
