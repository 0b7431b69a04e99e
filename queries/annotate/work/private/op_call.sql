-- Calls of ops with a rule, each with the shape.
--
-- :reads op_argument, event, op_shape
-- :column event_id BIGINT  the op
-- :column shape_id BIGINT  the row of `op_shape`
-- :column is_captured BOOLEAN the arguments were seen before the recording
select
    op.event_id,
    op_shape.shape_id,
    op.is_captured
from op_argument as op
inner join event on op.event_id = event.event_id
inner join op_shape
    on
        event.name = op_shape.name
        and op.input_dims = op_shape.input_dims
        and op.input_types is not distinct from op_shape.input_types
        and op.input_strides is not distinct from op_shape.input_strides
        and op.concrete_inputs is not distinct from op_shape.concrete_inputs
where event.category = 'cpu_op' and event.dur_ns is not null
