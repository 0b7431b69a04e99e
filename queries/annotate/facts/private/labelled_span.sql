-- Nesting and labels of each event of a CPU thread: the part of `cpu_event` that the file does not tell.
--
-- Joined apart from the names: with one large table for each statement, a huge trace spills to disk.
--
-- :reads nesting, label, model_op
-- :only_with nesting
-- :column event_id BIGINT      the event
-- :column start_ns BIGINT      start
-- :column end_ns BIGINT        end
-- :column depth BIGINT         number of enclosing events on the thread
-- :column parent_id BIGINT     the innermost enclosing event; NULL for a root
-- :column self_ns BIGINT       time inside the event and outside its children
-- :column op_id BIGINT         the innermost enclosing CPU op, or the event itself if it is an op; NULL if absent
-- :column overhangs BOOLEAN    the event ends after its parent, and was cut
-- :column step STEP            NULL outside every step
-- :column phase PHASE          of the step; NULL outside every step
-- :column module_id BIGINT     the module (see `model_op`); NULL if unknown
-- :column module_path VARCHAR  path of the module; NULL if unknown
-- :column pass VARCHAR         forward, backward or recompute; NULL if the module is unknown
-- :column bucket VARCHAR       bucket of the time: `module`, or a named bucket if the time belongs to no module
-- :column evidence VARCHAR     nn_module, alignment, sequence_number, flow or autograd_order; NULL without a module
select
    nesting.event_id,
    nesting.start_ns,
    nesting.end_ns,
    nesting.depth::bigint as depth,
    nesting.parent_id,
    nesting.self_ns,
    nesting.op_id,
    nesting.overhangs,
    label.step,
    label.phase,
    label.module_id,
    model_op.path as module_path,
    label.pass,
    label.bucket,
    label.evidence
from nesting
inner join label on nesting.event_id = label.event_id
left join model_op on label.module_id = model_op.module_id
