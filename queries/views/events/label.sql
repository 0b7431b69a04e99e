-- Step, phase, module and bucket of every event with a duration.
--
-- A CPU event is labelled by thread and start. GPU work is labelled by the launching call, regardless of when the work
-- runs. If the call is not in the trace, the op named by External id labels the work. Otherwise the labels are NULL,
-- and the bucket shows whether the work was launched before the trace began.
--
-- :reads cpu_event, gpu_event
-- :column rank RANK
-- :column event_id BIGINT   the event
-- :column step STEP         NULL outside every step
-- :column phase PHASE       of the step; NULL outside every step
-- :column module_id BIGINT  the module (see `model_op`); NULL if unknown
-- :column pass VARCHAR      forward, backward or recompute; NULL if the module is unknown
-- :column bucket VARCHAR    bucket of the time: `module`, or a named bucket if the work belongs to no module
-- :column evidence VARCHAR  nn_module, alignment, sequence_number, flow or autograd_order; NULL without a module
select
    rank,
    event_id,
    step,
    phase,
    module_id,
    pass,
    bucket,
    evidence
from cpu_event
union all
select
    rank,
    event_id,
    step,
    phase,
    module_id,
    pass,
    bucket,
    evidence
from gpu_event
